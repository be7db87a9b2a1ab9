"""Confidence intervals by the bootstrap."""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array
from evalspec.stats.resampling import (
    resample_clustered_percentiles,
    resample_means,
    resample_percentiles,
    resample_ratios,
)

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 2000
"""Enough for the ends of a 95 % interval to have a Monte Carlo error of about 1.5 % of its width."""

Method = Literal["percentile", "bca"]

_NORMAL = NormalDist()


def bootstrap_interval(
    values: Sequence[float],
    statistic: str = "mean",
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    method: Method = "percentile",
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float] | None:
    """Where the statistic of all such samples lies, in the unit of the values.

    `percentile` reads the interval off the replicates (Efron 1979). For the mean its tails are those of Student's t, as
    Hesterberg (2015) expands them, or it would be too narrow on few values. `bca` is Efron's (1987)
    interval, corrected for bias and skewness, with the acceleration of the jackknife, for the mean only: the jackknife
    fails for percentiles. `percentile` is the default since its coverage was measured to be closer to what it says on
    the shapes that scores have (docs/adr/0011-intervals-and-tests.md).

    With `clusters`, one label a value, whole clusters are drawn, and the mean is the sum over the size of those drawn.

    None below two values or two clusters; a point where all values are equal, which says that no difference was seen,
    not that there is none. Memory does not grow with `resamples` times the number of values.

    Raises:
        ValueError: the statistic is not known, `bca` is asked for a percentile, a value is not finite, or the labels
            do not fit the values.
    """
    if method == "bca" and statistic != "mean":
        raise ValueError(f"a bca interval is of the mean, not of the {statistic}; its method is 'percentile'")
    members = None if clusters is None else number_clusters(clusters, len(values))
    units = len(values) if members is None else len(set(members))
    if units < 2:
        return None
    if min(values) == max(values):
        return float(values[0]), float(values[0])
    import numpy as np

    rng = np.random.default_rng(seed)
    array = to_finite_array(values)
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    if statistic == "mean":
        sums, sizes = sum_clusters(array, members)
        replicates = _resample_clustered_means(sums, sizes, resamples, rng)
        tails = _bca_tails(sums, sizes, replicates, tails) if method == "bca" else _student_tails(units, tails)
    elif members is None:
        replicates = resample_percentiles(np.sort(array), statistic, resamples, rng)
    else:
        replicates = resample_clustered_percentiles(array, np.asarray(members), statistic, resamples, rng)
    low, high = np.quantile(replicates, tails)
    return float(low), float(high)


def _resample_clustered_means(
    sums: "NDArray[numpy.float64]", sizes: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    if (sizes == sizes[0]).all():
        return resample_means(sums / sizes, resamples, rng)
    return resample_ratios(sums, sizes, resamples, rng)


def _student_tails(units: int, tails: tuple[float, float]) -> tuple[float, float]:
    """The shares below the ends that make a percentile interval as wide as Student's t would (Hesterberg 2015).

    Student's quantile is the expansion of Abramowitz and Stegun 26.7.5 to four terms. It is 0.7 % short at three values
    and 0.1 % at four, where the ends are the least and the greatest replicate anyway, and exact to 1e-4 from six on.
    """
    freedom = units - 1
    z = _NORMAL.inv_cdf(tails[1])
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


def _bca_tails(
    sums: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64]",
    replicates: "NDArray[numpy.float64]",
    tails: tuple[float, float],
) -> tuple[float, float]:
    """The shares below the ends of a BCa interval of the mean: Efron (1987), chapter 14 of Efron and Tibshirani (1993).

    Replicates equal to the mean count half below it. At least half a replicate is taken to be on either side.
    """
    total, count = sums.sum(), sizes.sum()
    mean = total / count
    tolerance = 1e-12 * abs(sums).sum() / count
    below = (replicates < mean - tolerance).mean()
    equal = (abs(replicates - mean) <= tolerance).mean()
    least = 0.5 / len(replicates)
    bias = _NORMAL.inv_cdf(min(max(float(below + equal / 2), least), 1 - least))
    without = (total - sums) / (count - sizes)
    pulls = without.mean() - without
    spread = float((pulls**2).sum()) ** 1.5
    acceleration = float((pulls**3).sum()) / (6 * spread) if spread else 0.0
    shifted = [bias + _NORMAL.inv_cdf(tail) for tail in tails]
    low, high = (_NORMAL.cdf(bias + shift / (1 - acceleration * shift)) for shift in shifted)
    return low, high
