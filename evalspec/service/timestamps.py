"""Moments in requests and answers."""

from datetime import UTC, datetime
from typing import Annotated, overload

from pydantic import AfterValidator, BeforeValidator


def to_seconds(moment: datetime | None) -> float | None:
    """Return a time in seconds since 1970. Without a zone it is in UTC, as in the answers. None stays None."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@overload
def render_time(moment: float) -> str: ...
@overload
def render_time(moment: None) -> None: ...
def render_time(moment: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC. None stays None."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def render_minute(moment: str) -> str:
    """Return a time in ISO 8601, which is in UTC, as `2026-11-23 06:15 UTC`."""
    return f"{moment[:10]} {moment[11:16]} UTC"


def _refuse_distant(moment: datetime) -> datetime:
    """Raise ValueError for the ends of the calendar, which have no timestamp in some time zones."""
    try:
        to_seconds(moment)
    except (ValueError, OverflowError):
        raise ValueError("the date is too far away") from None
    return moment


Moment = Annotated[datetime, AfterValidator(_refuse_distant)]
"""A moment that has a timestamp. Without a time zone it is UTC."""

ShownTime = Annotated[str, BeforeValidator(render_time)]
"""A time in an answer, made of the seconds since 1970."""
