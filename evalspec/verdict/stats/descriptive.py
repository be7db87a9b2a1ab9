"""Statistics of a list of numbers: mean and percentiles."""

import math
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
"""All statistics except the mean, with the share of the values below each."""


def compute_statistic(values: Sequence[float], statistic: str) -> float:
    """Return a mean, median, min, max, p50, p90, p95 or p99, with linear interpolation (type 7 of Hyndman and Fan).

    Raises:
        ValueError: there are no values, or the statistic is unknown.
    """
    if not values:
        raise ValueError(f"no values to take the {statistic} of")
    if statistic == "mean":
        mean = math.fsum(values) / len(values)
        return min(max(mean, min(values)), max(values))  # beyond them by a rounding error at most
    below, above, weight = locate_percentile(len(values), statistic)
    ordered = sorted(values)
    return _between(ordered[below], ordered[above], weight)


def to_finite_array(values: Sequence[float]) -> "NDArray[numpy.float64]":
    """Return the values as an array of doubles.

    Raises:
        ValueError: a value is infinite or NaN, which every result computed from it would be as well.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        place = int(np.isfinite(array).argmin())
        raise ValueError(f"value {place} is {array[place]}, not a finite number")
    return array


def parse_share(statistic: str) -> float:
    """Return the share of the values below a percentile: 0.95 for p95.

    Raises:
        ValueError: the statistic is unknown, or is the mean.
    """
    if statistic not in _SHARES:
        raise ValueError(f"unknown statistic '{statistic}'; known: mean, {', '.join(_SHARES)}")
    return _SHARES[statistic]


def locate_percentile(count: int, statistic: str) -> tuple[int, int, float]:
    """Return the two positions in the sorted values around a percentile, and its distance from the first, 0 to 1."""
    place = parse_share(statistic) * (count - 1)
    below = math.floor(place)
    return below, min(below + 1, count - 1), place - below


def _between(low: float, high: float, weight: float) -> float:
    """Return the interpolated value, starting from the nearer end, so that rounding cannot exceed the other end."""
    return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)
