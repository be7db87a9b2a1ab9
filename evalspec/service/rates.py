"""Rates: how often somebody did something in the last minute. In memory, and bounded."""

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

WINDOW_SECONDS = 60.0
MOST_KEYS = 10_000


class _Count(Struct):
    """The events of one key in a window and in the one before. `refused_in`: the last window with a refusal."""

    window: int
    now: int = 0
    before: int = 0
    refused_in: int = -1


class Excess(Struct, frozen=True):
    """A rate that is exceeded. `seconds`: until the next event is allowed. `is_first`: of this window."""

    seconds: float
    is_first: bool


class Rates:
    """Events per key in a sliding minute. Only the keys that were used last are remembered.

    The events of the previous window count in proportion to its share of the last minute, so that a key needs the same
    memory whatever the limit.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic, most_keys: int = MOST_KEYS) -> None:
        self._limit = limit
        self._clock = clock
        self._most_keys = most_keys
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def add(self, key: str) -> None:
        """Count an event."""
        self._find(key).now += 1

    def find_excess(self, key: str) -> Excess | None:
        """Return the excess of a key that has reached the limit, otherwise None. Nothing is counted."""
        if key not in self._counts:
            return None
        count = self._find(key)
        passed = self._clock() / WINDOW_SECONDS - count.window
        if count.before * (1 - passed) + count.now < self._limit:
            return None
        is_first = count.refused_in != count.window
        count.refused_in = count.window
        room = self._limit - count.now
        share = 1 - room / count.before if room > 0 else 1.0
        return Excess(max(share - passed, 0.0) * WINDOW_SECONDS, is_first)

    def take(self, key: str) -> Excess | None:
        """Count an event unless the limit is reached. Return the excess if it is."""
        excess = self.find_excess(key)
        if excess is None:
            self.add(key)
        return excess

    def _find(self, key: str) -> _Count:
        window = int(self._clock() // WINDOW_SECONDS)
        count = self._counts.pop(key, None) or _Count(window)
        if count.window != window:
            before = count.now if count.window == window - 1 else 0
            count = _Count(window, before=before, refused_in=count.refused_in)
        self._counts[key] = count
        if len(self._counts) > self._most_keys:
            self._counts.popitem(last=False)
        return count
