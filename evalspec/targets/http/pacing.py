"""Retries with their waits, and a limit on concurrent requests that adapts to the service's load."""

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct

from evalspec.base.errors import ServiceError

T = TypeVar("T")

FAILURES_TO_BREAK = 5
"""Consecutive samples that could not connect before the agent is considered down. One suffices if it never answered."""

LONGEST_WAIT_SECONDS = 120.0
"""The longest accepted Retry-After. A longer one fails the request and is reported."""

_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 10.0
_JITTER_SECONDS = 0.25
_COOLDOWN_SECONDS = 1.0
"""The limit is halved at most once in this time, because a burst of refusals is one signal."""


async def persist(
    attempt: Callable[[], Awaitable[T]],
    max_retries: int,
    on_retry: Callable[[ServiceError, float], None] | None = None,
    count_successes: Callable[[], int] = lambda: 0,
    may_repeat: Callable[[ServiceError], bool] = lambda _: True,
) -> T:
    """Return the result of the first successful attempt, after at most `max_retries` retries.

    Waits as long as the error says, otherwise exponentially longer, with jitter. `on_retry`: called before each wait
    with the error and the seconds. `count_successes`: requests that the service has answered. While it answers others,
    a refusal for load is no failure of this request, so a retry after it does not count.
    `may_repeat`: whether the same request may be sent again after an error.

    Raises:
        ServiceError: the last attempt's, or the first one that is not worth a retry.
    """
    failures, answered = 0, count_successes()
    while True:
        try:
            return await attempt()
        except ServiceError as error:
            before, answered = answered, count_successes()
            failures += not (max_retries and error.throttled and answered > before)
            if failures > max_retries or not _is_worth_retrying(error) or not may_repeat(error):
                raise
            wait = compute_backoff(failures) if error.retry_after is None else error.retry_after
            if on_retry is not None:
                on_retry(error, wait)
        await asyncio.sleep(wait)


def compute_backoff(failures: int) -> float:
    """Seconds to wait after so many failed attempts: twice as long each time, with jitter."""
    doubled = _FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10)
    return min(doubled, _LONGEST_BACKOFF_SECONDS) + random.uniform(0, _JITTER_SECONDS)  # noqa: S311 - no secret


class AdaptiveLimit:
    """A limit on concurrent requests. It is halved when the service is overloaded, and recovers afterwards.

    The number of slots follows additive increase and multiplicative decrease (Chiu & Jain 1989).
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.limit = float(maximum)
        self.successes = 0
        self._active = 0
        self._resume_at = 0.0
        self._last_cut = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of one attempt in a slot. Its outcome adapts the limit.

        Raises:
            ServiceError: as raised by `send`.
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
        """Hold one slot. Waits until one is free and any requested pause is over."""
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
        """Record a successful request. The limit grows by one per round of requests."""
        self.successes += 1
        if self.limit < self.maximum:
            self.limit = min(self.maximum, self.limit + 1 / self.limit)
            self._wake()

    def throttled(self, retry_after: float | None) -> None:
        """Record a request refused for load. The limit shrinks, and no slot is given for `retry_after` seconds."""
        now = time.monotonic()
        if now - self._last_cut >= _COOLDOWN_SECONDS:
            self._last_cut = now
            self.limit = max(1.0, self.limit / 2)
        self.pause(retry_after)

    def pause(self, seconds: float | None) -> None:
        """Give no slot for so many seconds. None: do nothing."""
        now = time.monotonic()
        if seconds and now + seconds > self._resume_at:
            self._resume_at = now + seconds
            asyncio.get_running_loop().call_later(seconds, self._wake)

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


class Breaker(Struct):
    """A circuit breaker that counts samples that could not connect. `down`: why the agent is considered down.

    `decides`: False if another process counts, and says here what it found.
    """

    decides: bool = True
    answered: bool = False
    refused: bool = False
    unreachable: int = 0
    down: str | None = None

    def saw_reply(self) -> None:
        """Count a sample with a reply."""
        self.answered = True
        self.unreachable = 0

    def saw_failure(self, error: str, *, unreachable: bool, is_useless: bool = False) -> None:
        """Count a sample without a reply for `error`. `unreachable`: it could not connect. `is_useless`: none can."""
        self.unreachable = self.unreachable + 1 if unreachable else 0
        if self.decides and (is_useless or self.unreachable >= (FAILURES_TO_BREAK if self.answered else 1)):
            self.down = error


def explain_wait(seconds: float | None) -> str:
    """Return the part of an error message for a wait that is too long; empty if it is not."""
    if seconds is None or seconds <= LONGEST_WAIT_SECONDS:
        return ""
    return f"it asks to wait {seconds:.0f} s, more than the limit of {LONGEST_WAIT_SECONDS:.0f} s"


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or an HTTP date; None without one."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _is_worth_retrying(error: ServiceError) -> bool:
    """Return whether a retry may succeed, and soon enough."""
    return error.retryable and (error.retry_after or 0.0) <= LONGEST_WAIT_SECONDS
