"""Bootstrap replicates, and confidence intervals of the mean of unbounded numbers, in bounded memory."""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 2000
"""Gives the ends of a 95 % interval a Monte Carlo error of about 1.5 % of its width."""

_NORMAL = NormalDist()
_DRAWS_AT_ONCE = 1_000_000
_CELLS = 256
_DRAWS_FOR_A_CELL = 16
"""Counting the draws in a cell costs about as much as this many draws."""


def bootstrap_interval(
    values: Sequence[float],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float] | None:
    """Return the percentile interval of the mean (Efron 1979), with tails expanded to Student's t (Hesterberg 2015).

    For numbers without bounds, such as tokens. The bootstrap treats unseen values as impossible, so use
    `compute_bounded_interval` for scores with bounds. With `clusters`, one label per value, whole clusters are drawn,
    and the mean is the sum over the size of the drawn clusters. None below two values or two clusters.

    Raises:
        ValueError: a value is not finite, or the labels do not match the values.
    """
    members = None if clusters is None else number_clusters(clusters, len(values))
    units = len(values) if members is None else len(set(members))
    if units < 2:
        return None
    import numpy as np

    rng = np.random.default_rng(seed)
    sums, sizes = sum_clusters(to_finite_array(values), members)
    if (sizes == sizes[0]).all():
        replicates = resample_means(sums / sizes, resamples, rng)
    else:
        replicates = resample_ratios(sums, sizes, resamples, rng)
    low, high = np.quantile(replicates, compute_student_tails(units, confidence))
    return float(low), float(high)


def compute_student_tails(units: int, confidence: float) -> tuple[float, float]:
    """Return the shares below the ends that make a percentile interval as wide as Student's t (Hesterberg 2015).

    Student's quantile is the expansion of Abramowitz and Stegun 26.7.5 to four terms. It is 0.7 % too small for three
    values and 0.1 % for four, where the ends are the smallest and the largest replicate anyway. From six values on it
    is exact to 1e-4.
    """
    freedom = units - 1
    z = _NORMAL.inv_cdf((1 + confidence) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    student = sum(term / freedom**power for power, term in enumerate(terms))
    tail = _NORMAL.cdf(-math.sqrt(units / freedom) * student)
    return tail, 1 - tail


def resample_means(
    values: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Return the means of samples drawn with replacement; shape (resamples,).

    Few values are drawn directly. For many, the count of each distinct value is drawn, which has the same distribution.
    With more than 256 distinct values, neighbours share a cell: see `group_neighbours`.
    """
    import numpy as np

    count = len(values)
    distinct, repeats = np.unique(values, return_counts=True)
    if count <= _DRAWS_FOR_A_CELL * min(len(distinct), _CELLS):
        return resample_ratios(values, None, resamples, rng)
    means, shares = group_neighbours(distinct, repeats)
    replicates = np.empty(resamples)
    for rows in _blocks(resamples, len(means)):
        replicates[rows] = rng.multinomial(count, shares, size=rows.stop - rows.start) @ means
    return replicates / count


def resample_ratios(
    sums: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64] | None",
    resamples: int,
    rng: "numpy.random.Generator",
) -> "NDArray[numpy.float64]":
    """Return sum over size of clusters drawn with replacement; shape (resamples,). Without sizes, all are 1."""
    import numpy as np

    count = len(sums)
    replicates = np.empty(resamples)
    for rows in _blocks(resamples, count):
        drawn = rng.integers(0, count, size=(rows.stop - rows.start, count))
        if sizes is None:
            replicates[rows] = sums[drawn].mean(axis=1)
        else:
            replicates[rows] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return replicates


def _blocks(resamples: int, width: int) -> list[slice]:
    """Return slices of the resamples, each with few enough rows of this width to keep its table small."""
    rows = max(1, _DRAWS_AT_ONCE // width)
    return [slice(start, min(start + rows, resamples)) for start in range(0, resamples, rows)]


def group_neighbours(
    distinct: "NDArray[numpy.float64]", repeats: "NDArray[numpy.int64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return the mean and the share of the values in each cell of neighbours.

    Up to 256 distinct values have a cell each, so nothing is lost. More are split so that each cell has about an equal
    part of the sum of distances from the mean, which gives outliers a cell of their own. The spread inside the cells is
    lost: at 100,000 values, 0.03 % of the variance of scores from 0 to 1, and 0.3 % of a log-normal distribution.
    """
    import numpy as np

    count = repeats.sum()
    if len(distinct) <= _CELLS:
        return distinct, repeats / count
    distances = np.abs(distinct - distinct @ repeats / count) * repeats
    part = (np.cumsum(distances) - distances / 2) / distances.sum()
    cells = np.unique((part * _CELLS).astype(np.intp), return_inverse=True)[1]
    inside = np.bincount(cells, weights=repeats)
    return np.bincount(cells, weights=distinct * repeats) / inside, inside / count
