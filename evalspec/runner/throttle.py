"""How many requests may be in flight: halved when the agent says that it has too much to do, and recovering after."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_COOLDOWN_SECONDS = 1.0
"""One burst of refusals is one signal: the limit is halved at most once in this time."""


class AdaptiveLimit:
    """Additive increase, multiplicative decrease (Chiu & Jain 1989) over a number of slots."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.limit = float(maximum)
        self._active = 0
        self._resume_at = 0.0
        self._last_cut = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one slot; waits while all are taken or the agent has asked for a pause."""
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
