"""Measure how late the event loop of this process is while it measures latencies."""

import asyncio
import time

from evalspec.verdict.stats import compute_statistic

_INTERVAL_SECONDS = 0.02


class LagMeter:
    """A meter of event loop lag. It sleeps for short intervals and records how late it wakes up.

    Latency is measured in an event loop, and a busy loop reads replies late.
    """

    def __init__(self) -> None:
        self._lags_ms: list[float] = []

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.perf_counter() + _INTERVAL_SECONDS
            await asyncio.sleep(_INTERVAL_SECONDS)
            self._lags_ms.append((time.perf_counter() - due) * 1000)

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the lag in milliseconds. 0 without measurements."""
        return compute_statistic(self._lags_ms, "p95") if self._lags_ms else 0.0
