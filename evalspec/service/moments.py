"""Moments in requests and answers."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator

from evalspec.service.jobs import render_time, to_seconds


def _refuse_distant(moment: datetime) -> datetime:
    """Raise ValueError for the ends of the calendar, which have no timestamp in some time zones."""
    try:
        to_seconds(moment)
    except (ValueError, OverflowError):
        raise ValueError("the date is too far away") from None
    return moment


Moment = Annotated[datetime, AfterValidator(_refuse_distant)]
"""A moment that has a timestamp. Without a time zone it is UTC."""
Since = Annotated[Moment | None, Query(alias="from", description="Started then or later.")]
Until = Annotated[Moment | None, Query(alias="to", description="Started before.")]

ShownTime = Annotated[str, BeforeValidator(render_time)]
"""A time in an answer, made of the seconds since 1970."""
