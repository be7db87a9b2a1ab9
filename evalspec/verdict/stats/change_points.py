"""Find where the level of a metric changed over runs, with few false alarms over the whole history.

After each run, every way to cut the values in two is tested by the rank-sum statistic, as in the change-point model for
monitoring by ranks (Ross, Tasoulis and Adams 2011). Ranks make its distribution the same for all noise, so one limit
holds for scores and latencies, and a single outlier is never a change. The limit covers every look at 100 values of
every metric together: benchmarks/change_points.py.
"""

import math
from collections.abc import Iterator, Sequence

WINDOW = 100
"""The newest values that are searched: the limit was calibrated for so many."""

_BASE, _SLOPE = 12.6, 1.7
"""The square of the limit is _BASE + _SLOPE · ln(metrics): 4 % of histories without a change exceed it at any look.

The largest statistics of 300,000 simulated histories need at most this, for 1 to 100 metrics."""


def list_changes(values: Sequence[float], metrics: int) -> list[int]:
    """Return the places of the first values after each change of level, in order.

    `values`: of comparable runs, oldest first. `metrics`: how many metrics are searched together. A change is found
    once enough values follow it, and stays where it was found as more are added.
    """
    start = max(len(values) - WINDOW, 0)
    return [start + place for place in _iterate_changes(values[start:], metrics)]


def _iterate_changes(values: Sequence[float], metrics: int) -> Iterator[int]:
    import numpy as np

    limit = math.sqrt(_BASE + _SLOPE * math.log(metrics))
    first = 0
    while len(values) - first > 1:
        rest = np.array(values[first:])
        looks, before = np.arange(1, len(rest) + 1)[:, None], np.arange(1, len(rest) + 1)
        signs = np.sign(rest[:, None] - rest)
        later_above = signs.cumsum(axis=0).cumsum(axis=1)  # at each look: pairs that rise across the cut, less falls
        deviation = np.sqrt(np.maximum(before * (looks - before), 1) * (looks + 1) / 3)
        statistics = np.tril(np.abs(later_above) / deviation, -1)
        found = np.flatnonzero(statistics.max(axis=1) > limit)
        if not found.size:
            return
        first += int(statistics[found[0]].argmax()) + 1
        yield first
