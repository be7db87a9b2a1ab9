"""Requests and tokens a minute: limits of the manifest, and those that replies state in rate-limit headers."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct

from evalspec.targets.http.pacing import LONGEST_WAIT_SECONDS

_WINDOW_SECONDS = 60.0
_NOTICED_SECONDS = 1.0
_REQUESTS, _TOKENS = "requests", "tokens"
_HEADERS = (
    (_REQUESTS, "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    (_TOKENS, "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    (_REQUESTS, "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    (_TOKENS, "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    (_TOKENS, "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
)
"""What is limited, and the headers with what is left of it and when it is full again."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNIT_SECONDS = (3600.0, 60.0, 1.0, 0.001)


class Spending(Struct):
    """One request: when it was sent, and the tokens that it needs, estimated until the reply counts them."""

    sent: float
    tokens: int


class _Left(Struct):
    """What a service has left of one kind until `until`, in seconds of the clock."""

    kind: str
    amount: float
    until: float


class Pace:
    """Spreads requests, so that no 60 seconds have more requests or tokens than permitted. Requests keep their order.

    A request that needs more tokens than a minute permits is sent alone. `clock`: seconds, ever growing. `waits`:
    called with the seconds of each wait that a user may notice.
    """

    def __init__(
        self,
        requests: int | None = None,
        tokens: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        waits: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._most = {_REQUESTS: requests, _TOKENS: tokens}
        self._clock = clock
        self._waits = waits
        self._spent: deque[Spending] = deque()
        self._left: dict[str, _Left] = {}
        self._turn = asyncio.Lock()

    async def take(self, tokens: int) -> Spending:
        """Wait until a request with so many tokens may be sent, and return it as sent."""
        async with self._turn:
            while (wait := self.find_wait(tokens)) > 0:
                if wait >= _NOTICED_SECONDS:
                    self._waits(wait)
                await asyncio.sleep(wait)
            return self.spend(tokens)

    def spend(self, tokens: int) -> Spending:
        """Record a request as sent."""
        spending = Spending(self._clock(), tokens)
        if any(self._most.values()):
            self._spent.append(spending)
        for left in self._left.values():
            left.amount -= _cost(left.kind, tokens)
        return spending

    def correct(self, spending: Spending, tokens: int) -> None:
        """Record the tokens of a request as its reply counts them."""
        spending.tokens = tokens

    def find_wait(self, tokens: int) -> float:
        """Return the seconds until a request with so many tokens may be sent; 0: now."""
        now = self._clock()
        while self._spent and self._spent[0].sent + _WINDOW_SECONDS <= now:
            self._spent.popleft()
        waits = [self._wait_for_window(kind, most, tokens, now) for kind, most in self._most.items() if most]
        waits += [left.until - now for left in self._left.values() if left.amount < _cost(left.kind, tokens)]
        return max(waits, default=0.0)

    def _wait_for_window(self, kind: str, most: int, tokens: int, now: float) -> float:
        """Return the seconds until enough of the last minute's requests are a minute old."""
        excess, wait = sum(_cost(kind, one.tokens) for one in self._spent) + _cost(kind, tokens) - most, 0.0
        for one in self._spent:
            if excess <= 0:
                break
            excess -= _cost(kind, one.tokens)
            wait = one.sent + _WINDOW_SECONDS - now
        return wait

    def learn(self, headers: Mapping[str, str]) -> None:
        """Note what the headers of a reply say is left. A window that ends later than evalspec waits is ignored."""
        now = self._clock()
        for kind, remaining, reset in _HEADERS:
            amount, seconds = headers.get(remaining, ""), parse_reset(headers.get(reset, ""))
            if amount.isdecimal() and seconds is not None and seconds <= LONGEST_WAIT_SECONDS:
                self._left[remaining] = _Left(kind, float(amount), now + seconds)


def _cost(kind: str, tokens: int) -> int:
    return 1 if kind == _REQUESTS else tokens


def parse_reset(text: str, now: datetime | None = None) -> float | None:
    """Return the seconds of a reset header: `1m6.5s`, `120ms`, seconds, or a moment of RFC 3339; None otherwise."""
    with suppress(ValueError):
        return max(0.0, float(text))
    found = _DURATION.fullmatch(text)
    if found and text:
        return sum(float(part) * unit for part, unit in zip(found.groups(), _UNIT_SECONDS, strict=True) if part)
    with suppress(ValueError, TypeError):  # TypeError: the moment has no zone
        moment = datetime.fromisoformat(text)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    return None
