"""One number for a list of numbers."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_SHARES: Mapping[str, float] = {
    "min": 0.0,
    "p50": 0.5,
    "median": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "max": 1.0,
}
"""Every statistic but the mean: the share of the values that lies below it."""


def compute_statistic(values: Sequence[float], statistic: str) -> float:
    """mean, median, min, max, p50, p90, p95 or p99; percentiles interpolate linearly (type 7 of Hyndman and Fan).

    Raises:
        ValueError: there are no values, or the statistic is not known.
    """
    if not values:
        raise ValueError(f"no values to take the {statistic} of")
    if statistic == "mean":
        return statistics.fmean(values)
    below, above, weight = locate_percentile(len(values), statistic)
    ordered = sorted(values)
    return _between(ordered[below], ordered[above], weight)


def to_finite_array(values: Sequence[float]) -> "NDArray[numpy.float64]":
    """The values as an array of doubles.

    Raises:
        ValueError: one is infinite or not a number, and everything computed from it would be.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        place = int(np.isfinite(array).argmin())
        raise ValueError(f"value {place} is {array[place]}, not a finite number")
    return array


def parse_share(statistic: str) -> float:
    """The share of the values that lies below a percentile: 0.95 for p95.

    Raises:
        ValueError: the statistic is not known, or is the mean.
    """
    if statistic not in _SHARES:
        raise ValueError(f"unknown statistic '{statistic}'; known: mean, {', '.join(_SHARES)}")
    return _SHARES[statistic]


def locate_percentile(count: int, statistic: str) -> tuple[int, int, float]:
    """The two places in the sorted values that a percentile lies between, and how far it is towards the second."""
    place = parse_share(statistic) * (count - 1)
    below = math.floor(place)
    return below, min(below + 1, count - 1), place - below


def _between(low: float, high: float, weight: float) -> float:
    """Interpolate from the nearer end, so that rounding never leads past the other."""
    return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)
