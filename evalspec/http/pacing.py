"""When requests are sent: how often and after what wait one is retried, and how many may be in flight."""

import asyncio
import email.utils
import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

from evalspec.errors import ServiceError

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 120.0
"""A Retry-After beyond this is not waited for: the request fails and says so."""

_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 10.0
_JITTER_SECONDS = 0.25
_COOLDOWN_SECONDS = 1.0
"""One burst of refusals is one signal: the limit is halved at most once in this time."""


async def persist(
    attempt: Callable[[], Awaitable[T]], max_retries: int, on_retry: Callable[[], None] | None = None
) -> T:
    """Return the result of the first attempt that succeeds, of 1 + `max_retries` at most.

    Waits as long as the error says, else exponentially longer, with jitter.

    Raises:
        ServiceError: the last attempt's, or the first for which a retry is pointless.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except ServiceError as error:
            failures += 1
            if failures > max_retries or not _is_worth_retrying(error):
                raise
            wait = compute_backoff(failures) if error.retry_after is None else error.retry_after
        if on_retry is not None:
            on_retry()
        await asyncio.sleep(wait)


def compute_backoff(failures: int) -> float:
    """Seconds to wait after so many failed attempts: twice as long each time, with jitter."""
    doubled = _FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10)
    return min(doubled, _LONGEST_BACKOFF_SECONDS) + random.uniform(0, _JITTER_SECONDS)  # noqa: S311 - no secret


class AdaptiveLimit:
    """How many requests may be in flight: halved when the service has too much to do, and recovering after.

    Additive increase, multiplicative decrease (Chiu & Jain 1989) over a number of slots.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.limit = float(maximum)
        self._active = 0
        self._resume_at = 0.0
        self._last_cut = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of one attempt, made in a slot; the limit learns from its outcome.

        Raises:
            ServiceError: what `send` raises.
        """
        async with self.slot():
            try:
                result = await send()
            except ServiceError as error:
                if error.throttled:
                    self.throttled(error.retry_after if _is_worth_retrying(error) else None)
                raise
        self.succeeded()
        return result

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one slot; waits while all are taken or the service has asked for a pause."""
        while not self._has_room():
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            self._wake()

    def succeeded(self) -> None:
        """A request was answered: the limit grows by one a round of requests."""
        if self.limit < self.maximum:
            self.limit = min(self.maximum, self.limit + 1 / self.limit)
            self._wake()

    def throttled(self, retry_after: float | None) -> None:
        """A request was refused for load: fewer slots from now on, and none before `retry_after` seconds are over."""
        now = time.monotonic()
        if now - self._last_cut >= _COOLDOWN_SECONDS:
            self._last_cut = now
            self.limit = max(1.0, self.limit / 2)
        if retry_after and now + retry_after > self._resume_at:
            self._resume_at = now + retry_after
            asyncio.get_running_loop().call_later(retry_after, self._wake)

    def _has_room(self) -> bool:
        return self._active < int(self.limit) and time.monotonic() >= self._resume_at

    def _wake(self) -> None:
        if time.monotonic() < self._resume_at:
            asyncio.get_running_loop().call_later(self._resume_at - time.monotonic(), self._wake)
            return
        for _ in range(min(len(self._waiting), int(self.limit) - self._active)):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


def explain_wait(seconds: float | None) -> str:
    """Return what to add to the message of an error whose wait is too long; empty where it is not."""
    if seconds is None or seconds <= LONGEST_WAIT_SECONDS:
        return ""
    return f"it asks to wait {seconds:.0f} s, and {LONGEST_WAIT_SECONDS:.0f} s are waited at most"


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, written as a number or an HTTP date; None without one."""
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


def _is_worth_retrying(error: ServiceError) -> bool:
    """Whether another attempt may succeed, and soon enough."""
    return error.retryable and (error.retry_after or 0.0) <= LONGEST_WAIT_SECONDS
