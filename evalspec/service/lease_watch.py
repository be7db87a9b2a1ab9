"""Leases that end too late because a clock was set back."""

import time
from collections.abc import Callable, Iterable

from msgspec import Struct


class HeldLease(Struct, frozen=True):
    """A lease as the database has it. `until`: seconds since 1970; each renewal changes it."""

    job_id: str
    fence: int
    until: float


class LeaseWatch:
    """What one worker sees of leases that end later than any renewal could make them.

    It trusts only its own monotonic clock: a lease that nobody has renewed for `seconds` is over.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[HeldLease, float] = {}

    def find_dead(self, leases: Iterable[HeldLease]) -> list[str]:
        """Return the jobs of leases that are over. `leases`: all that end too late at this moment."""
        now = self._clock()
        self._seen = {lease: self._seen.get(lease, now) for lease in leases}
        return [lease.job_id for lease, since in self._seen.items() if now - since > self._seconds]
