"""Statistics of a list of numbers: pure, and deterministic for a seed. numpy is imported where it is first needed."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 2000
"""Enough for the ends of a 95 % interval to have a Monte Carlo error of about 1.5 % of its width."""

_DRAWS_AT_ONCE = 1_000_000

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
    below, above, weight = _neighbours(len(values), statistic)
    ordered = sorted(values)
    return _between(ordered[below], ordered[above], weight)


def bootstrap_interval(
    values: Sequence[float],
    statistic: str = "mean",
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile bootstrap interval (Efron) of a statistic; None below two values.

    Memory does not grow with `resamples` times the number of values.

    Raises:
        ValueError: the statistic is not known.
    """
    if len(values) < 2:
        return None
    if min(values) == max(values):
        return float(values[0]), float(values[0])
    import numpy as np

    rng = np.random.default_rng(seed)
    array = np.asarray(values, dtype=np.float64)
    if statistic == "mean":
        replicates = _resample_means(array, resamples, rng)
    else:
        replicates = _resample_percentiles(np.sort(array), statistic, resamples, rng)
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, (tail, 1 - tail))
    return float(low), float(high)


def _neighbours(count: int, statistic: str) -> tuple[int, int, float]:
    """The two places in the sorted values that a percentile lies between, and how far it is towards the second."""
    if statistic not in _SHARES:
        raise ValueError(f"unknown statistic '{statistic}'; known: mean, {', '.join(_SHARES)}")
    place = _SHARES[statistic] * (count - 1)
    below = math.floor(place)
    return below, min(below + 1, count - 1), place - below


def _between(low: float, high: float, weight: float) -> float:
    """Interpolate from the nearer end, so that rounding never leads past the other."""
    return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)


def _resample_means(
    values: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Means of samples drawn with replacement, some samples at a time."""
    import numpy as np

    count = len(values)
    at_once = max(1, _DRAWS_AT_ONCE // count)
    means = np.empty(resamples)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        means[start : start + rows] = values[rng.integers(0, count, size=(rows, count))].mean(axis=1)
    return means


def _resample_percentiles(
    ordered: "NDArray[numpy.float64]", statistic: str, resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Percentiles of samples drawn with replacement, without drawing them.

    Drawing n of n values is taking value floor(n U) for n uniform U; sorting them sorts the U. The j-th smallest of n
    uniforms has the distribution Beta(j, n - j + 1), and the next one lies Beta(1, n - j) of the rest above it.
    """
    import numpy as np

    count = len(ordered)
    below, above, weight = _neighbours(count, statistic)
    first = rng.beta(below + 1, count - below, size=resamples)
    second = first + (1 - first) * rng.beta(1, count - above, size=resamples) if above > below else first
    low, high = (ordered[np.minimum((uniform * count).astype(np.int64), count - 1)] for uniform in (first, second))
    return low + (high - low) * weight
