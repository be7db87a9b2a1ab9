"""How often and after what wait a request is repeated, to the agent and to the judge alike."""

import email.utils
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from evalspec.errors import ServiceError

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 120.0
"""A Retry-After beyond this is not waited for: the request fails and says so."""

_BACKOFF = wait_exponential(multiplier=0.5, max=10) + wait_random(0, 0.25)


async def persist(
    attempt: Callable[[], Awaitable[T]], max_retries: int, on_retry: Callable[[], None] | None = None
) -> T:
    """The result of the first attempt that succeeds, of 1 + `max_retries` at most.

    Waits as long as the error says, else exponentially longer, with jitter.

    Raises:
        ServiceError: the last attempt's, or the first that another attempt would not mend.
    """
    retrying = AsyncRetrying(
        stop=stop_after_attempt(1 + max_retries),
        wait=_seconds_to_wait,
        retry=retry_if_exception(is_worth_retrying),
        before_sleep=lambda _state: on_retry() if on_retry else None,
        reraise=True,
    )

    async def once() -> T:  # tenacity awaits only what is declared async
        return await attempt()

    return await retrying(once)


def is_worth_retrying(error: BaseException) -> bool:
    """Whether another attempt may succeed, and soon enough."""
    return isinstance(error, ServiceError) and error.retryable and (error.retry_after or 0.0) <= LONGEST_WAIT_SECONDS


def explain_wait(seconds: float | None) -> str:
    """What to add to the message of an error whose wait is too long; empty where it is not."""
    if seconds is None or seconds <= LONGEST_WAIT_SECONDS:
        return ""
    return f"it asks to wait {seconds:.0f} s, and {LONGEST_WAIT_SECONDS:.0f} s are waited at most"


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, written as a number or an HTTP date; None where it says nothing."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _seconds_to_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ServiceError) else None
    return asked if asked is not None else _BACKOFF(state)
