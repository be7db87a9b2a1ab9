"""How late this process is itself: latency is measured in an event loop, and a busy loop reads replies late."""

import asyncio
import time

from evalspec.stats import compute_statistic

_INTERVAL_SECONDS = 0.02


class LagMeter:
    """Sleeps short times while the agent is asked, and notes by how much each was overslept."""

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
        """Lateness that 95 % of the measurements stayed under; 0 without any."""
        return compute_statistic(self._lags_ms, "p95") if self._lags_ms else 0.0
