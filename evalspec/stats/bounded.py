"""Confidence intervals of bounded scores, valid at any number of samples: Gaffke's bound.

A Bayesian bootstrap with one extra point at the unfavourable bound. For the upper end, Dirichlet weights are drawn over
the n scores and one pseudo-score at the upper bound; the end is the 1 − α/2 quantile of the weighted mean. The lower
end mirrors it. Resampling alone treats unseen values as impossible, so five passes of five would have no spread. The
pseudo-score represents unseen values.

Source: Gaffke (2005). Learned-Miller and Thomas (2020, arXiv 1905.06208) conjecture that the coverage is guaranteed for
every bounded distribution and every n. For 0/1 scores the interval is that of Clopper and Pearson (1934). Measurements:
docs/explanation/statistics.md.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from evalspec.stats.bootstrap import group_neighbours
from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

DRAWS = 2000
"""Number of weighted means per end, for a Monte Carlo error of about 2 % of the interval's width."""

OF_MEAN = 1.0
"""Weight of the pseudo-score for the mean of one run's scores."""
OF_DIFFERENCE = 0.5
"""Weight for paired differences. With 1, their intervals would be a tenth wider than necessary."""

_DIGITS = 12
"""Units whose sums agree to this many digits are drawn together, whatever the order of the additions."""

_MOST_TERMS = 10_000
"""Limit of the continued fraction. About sqrt(n) terms are needed."""

Bounds = tuple[float, float]


def compute_bounded_interval(
    values: Sequence[float],
    bounds: Bounds,
    confidence: float = 0.95,
    *,
    clusters: Sequence[Hashable] | None = None,
    weight: float = OF_MEAN,
) -> tuple[float, float] | None:
    """Return the interval of the mean of scores within `bounds`, in the unit of the scores; None without scores.

    With `clusters`, one label per score, weights are drawn for clusters, and the mean is the weighted sum over the
    weighted size. The pseudo-cluster has the root mean square of the clusters' sizes, because noise grows with the
    squares: with the mean size, one large cluster among small ones left the true mean uncovered in 15 % of cases. None
    below two clusters.

    Raises:
        ValueError: a value is outside the bounds or not finite, or the labels do not match the values.
    """
    if not values:
        return None
    low, high = bounds
    if not all(low <= value <= high for value in values):
        raise ValueError(f"a value is outside {low:g} to {high:g}")
    members = None if clusters is None else number_clusters(clusters, len(values))
    if members is not None and len(set(members)) < 2:
        return None
    if members is None and weight == OF_MEAN and set(values) <= {low, high}:
        passes = sum(value == high for value in values)
        least, most = compute_share_interval(passes, len(values), confidence)
        return low + least * (high - low), low + most * (high - low)
    import numpy as np

    sums, sizes = sum_clusters((to_finite_array(values) - low) / (high - low), members)
    groups = _group(sums, sizes, apart=members is not None)
    rng = np.random.default_rng(0)
    totals, weights = _draw(*groups, rng)
    extra = rng.standard_gamma(weight, DRAWS) * math.sqrt((sizes @ sizes) / len(sizes))
    tail = (1 - confidence) / 2
    least = float(np.quantile(totals / (weights + extra), tail))
    most = float(np.quantile((totals + extra) / (weights + extra), 1 - tail))
    return low + least * (high - low), low + most * (high - low)


def _group(
    sums: "NDArray[numpy.float64]", sizes: "NDArray[numpy.float64]", *, apart: bool
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return sum, size and count of each group of equal units. Their weights add up to one Gamma(count) weight."""
    import numpy as np

    if apart:
        units, counts = np.unique(np.column_stack([sums, sizes]).round(_DIGITS), axis=0, return_counts=True)
        return units[:, 0], units[:, 1], counts.astype(np.float64)
    distinct, repeats = np.unique(sums.round(_DIGITS), return_counts=True)
    means, shares = group_neighbours(distinct, repeats)
    return means, np.ones(len(means)), shares * len(sums)


def _draw(
    sums: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64]",
    counts: "NDArray[numpy.float64]",
    rng: "numpy.random.Generator",
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return the weighted sums and weighted sizes of DRAWS draws, in bounded memory."""
    import numpy as np

    totals, weights = np.zeros(DRAWS), np.zeros(DRAWS)
    for start in range(0, len(counts), 500):
        part = slice(start, start + 500)
        size = (DRAWS, len(counts[part]))
        is_single = (counts[part] == 1).all()  # an exponential is a Gamma(1), and three times as fast
        drawn = rng.standard_exponential(size) if is_single else rng.standard_gamma(counts[part], size)
        totals += drawn @ sums[part]
        weights += drawn @ sizes[part]
    return totals, weights


def estimate_share(
    shares: Sequence[float], units: Sequence[Hashable]
) -> tuple[float, tuple[float, float] | None, str | None]:
    """Return the mean of shares (0 to 1), its 95 % interval and the interval's method: `exact` or `bounded`.

    Exact is the interval of Clopper and Pearson, for shares of 0 and 1 of different units; else it is Gaffke's. None
    if it is unknown. `units`: one label for each share; shares of one unit are not independent.
    """
    is_plain = len(set(units)) == len(units)
    interval = compute_bounded_interval(shares, (0.0, 1.0), clusters=None if is_plain else units)
    method = "exact" if is_plain and set(shares) <= {0.0, 1.0} else "bounded"
    return sum(shares) / len(shares), interval, method if interval else None


def compute_share_interval(passes: int, attempts: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Clopper and Pearson's (1934) interval of a share, exact for 0/1 scores with any number of attempts.

    Raises:
        ValueError: there are no attempts, or the passes are not between 0 and the attempts.
    """
    if attempts < 1 or not 0 <= passes <= attempts:
        raise ValueError(f"{passes} of {attempts} is not a share")
    tail, missed = (1 - confidence) / 2, attempts - passes
    low = _solve(lambda share: compute_beta_cdf(share, passes, missed + 1) - tail) if passes else 0.0
    high = _solve(lambda share: compute_beta_cdf(share, passes + 1, missed) - 1 + tail) if missed else 1.0
    return low, high


def compute_beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function from its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - compute_beta_cdf(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction, below, above = 1.0, 0.0, 1.0
    for step in range(1, _MOST_TERMS):
        half = step // 2
        factor = half * (b - half) if step % 2 == 0 else -(a + half) * (a + b + half)
        term = factor * x / ((a + step - 1) * (a + step))
        below, above = 1 / (1 + term * below), 1 + term / above
        fraction *= below * above
        if abs(below * above - 1) < 1e-15:
            break
    return min(1.0, math.exp(front) / fraction)


def _solve(rises: Callable[[float], float]) -> float:
    """Return where an increasing function of a share crosses 0, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if rises(middle) < 0:
            low = middle
        else:
            high = middle
    return high
