"""Moments in requests."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator


def _refuse_distant(moment: datetime) -> datetime:
    """Raise ValueError for the first and last days of the calendar, which have no timestamp in every time zone."""
    try:
        moment.timestamp()
    except (ValueError, OverflowError):
        raise ValueError("the date is too far away") from None
    return moment


Moment = Annotated[datetime, AfterValidator(_refuse_distant)]
"""A moment that has a timestamp. Without a time zone it is UTC."""
