"""How often and after what wait a request is repeated."""

import email.utils
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from evalspec.errors import JudgeError

T = TypeVar("T")

_BACKOFF = wait_random_exponential(multiplier=0.5, max=20)


async def persist(attempt: Callable[[], Awaitable[T]], max_retries: int, on_retry: Callable[[], None]) -> T:
    """The result of the first attempt that succeeds, of 1 + `max_retries` at most.

    Waits as long as the error says, else exponentially longer, with jitter.

    Raises:
        JudgeError: the last attempt's, or the first that another attempt would not mend.
    """
    retrying = AsyncRetrying(
        stop=stop_after_attempt(1 + max_retries),
        wait=_wait,
        retry=retry_if_exception(lambda error: isinstance(error, JudgeError) and error.retryable),
        before_sleep=lambda _state: on_retry(),
        reraise=True,
    )
    return await retrying(attempt)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, JudgeError) and error.retry_after is not None:
        return error.retry_after
    return _BACKOFF(state)


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
