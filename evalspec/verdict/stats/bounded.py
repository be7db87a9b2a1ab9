"""Intervals and tests of the mean of bounded scores, valid at any number of samples: Gaffke's bound.

Dirichlet weights are drawn over the n scores and one more score at the unfavourable bound, which represents unseen
values: without it, five passes of five would have no spread. The upper end of an interval is the 1 − α/2 quantile of
the weighted mean with that score at the upper bound, and the lower end mirrors it. The p-value of a limit is the
probability that the weighted mean is beyond it. Both are computed exactly (`gamma_sums`), not drawn.

Source: Gaffke (2005). Learned-Miller and Thomas (2020, arXiv 1905.06208) conjecture that the coverage is guaranteed for
every bounded distribution and every n. For 0/1 scores the interval is that of Clopper and Pearson (1934). Measurements:
docs/explanation/statistics.md.

Intervals that hold at every number of scores at once, so that labelling may stop when they decide, are a confidence
sequence. For each possible mean m, two players bet that the scores are higher, or lower, than m. If m is the true mean,
the capital of each is a martingale, which exceeds 2 / α with probability α / 2 at most, at any time (Ville). The means
against which nobody has won so much are the sequence: the hedged capital of Waudby-Smith and Ramdas (2024, arXiv
2010.09686, theorem 3), with their predictable bets. Scores must be independent, or in random order. As the other
intervals, it is about the mean of the population that the replies come from, not about that of these replies.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.verdict.stats.clusters import number_clusters, sum_clusters
from evalspec.verdict.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_DIGITS = 12
"""Units whose sums agree to this many digits are one term, whatever the order of the additions."""

_CELLS = 1024
"""More distinct scores than this share cells with their neighbours."""
_PRECISION = 1e-9
"""Relative precision of the probability beyond the end of an interval."""
_MOST_STEPS = 80
_ENDS_KEPT = 256
"""So many ends are kept, each of at most `_CELLS` kinds of units: 24 KiB."""

_MOST_TERMS = 10_000
"""Limit of the continued fraction. About sqrt(n) terms are needed."""

_MEANS = 1000
"""Possible means of a confidence sequence."""
_LARGEST_BET = 0.5
"""Share of the capital that a player loses at most with one score."""

_NORMAL = NormalDist()

Bounds = tuple[float, float]


def compute_bounded_interval(
    values: Sequence[float],
    bounds: Bounds,
    confidence: float = 0.95,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float] | None:
    """Return the interval of the mean of scores within `bounds`, in the unit of the scores; None without scores.

    With `clusters`, one label per score, weights belong to clusters, and the mean is the weighted sum over the weighted
    size. None below two clusters.

    Raises:
        ValueError: a value is outside the bounds or not finite, or the labels do not match the values.
    """
    if not values:
        return None
    low, high = bounds
    if clusters is None and set(values) <= {low, high}:
        passes = sum(value == high for value in values)
        least, most = compute_share_interval(passes, len(values), confidence)
        return low + least * (high - low), low + most * (high - low)
    units = _measure_units(values, bounds, clusters)
    if clusters is not None and units.counts.sum() < 2:
        return None
    tail = (1 - confidence) / 2
    least, most = 1 - _recall_end(units.mirrored(), tail), _recall_end(units, tail)
    return low + least * (high - low), low + most * (high - low)


def compute_bounded_p_value(
    values: Sequence[float], bounds: Bounds, limit: float, *, clusters: Sequence[Hashable] | None = None
) -> float | None:
    """Return the p-value of the claim that the mean is below `limit`; None without scores.

    The claim is made at level alpha exactly where the upper end of the interval with the confidence 1 − 2 alpha is
    below the limit.

    Raises:
        ValueError: a value is outside the bounds or not finite, or the labels do not match the values.
    """
    if not values:
        return None
    low, high = bounds
    return _compute_tail(_measure_units(values, bounds, clusters), (limit - low) / (high - low))


class Units(Struct, frozen=True):
    """Independent units with scores from 0 to 1: sum, size and count of each kind, and the size of an unseen unit."""

    sums: "NDArray[numpy.float64]"
    sizes: "NDArray[numpy.float64]"
    counts: "NDArray[numpy.float64]"
    unseen: float

    def mirrored(self) -> "Units":
        """Return the units with scores counted from the upper bound."""
        return Units(self.sizes - self.sums, self.sizes, self.counts, self.unseen)


def _measure_units(values: Sequence[float], bounds: Bounds, clusters: Sequence[Hashable] | None) -> Units:
    import numpy as np

    low, high = bounds
    if not all(low <= value <= high for value in values):
        raise ValueError(f"a value is outside {low:g} to {high:g}")
    members = None if clusters is None else number_clusters(clusters, len(values))
    sums, sizes = sum_clusters((to_finite_array(values) - low) / (high - low), members)
    unseen = compute_unseen_size(sizes)
    if members is None:
        distinct, repeats = np.unique(sums.round(_DIGITS), return_counts=True)
        means, counts = _join_neighbours(distinct, repeats.astype(np.float64))
        return Units(means, np.ones(len(means)), counts, unseen)
    kinds, repeats = np.unique(np.column_stack([sums, sizes]).round(_DIGITS), axis=0, return_counts=True)
    return Units(kinds[:, 0], kinds[:, 1], repeats.astype(np.float64), unseen)


def compute_unseen_size(sizes: "NDArray[numpy.float64]") -> float:
    """Return the size of the cluster that represents unseen ones, from those of all clusters: Σn³ / Σn².

    The worst case found by search with clusters of all sizes, none above a quarter of the samples, has an error of at
    most the level with this size, and twice the level with Σn² / Σn.
    """
    return float((sizes**3).sum() / (sizes**2).sum())


def _join_neighbours(
    distinct: "NDArray[numpy.float64]", repeats: "NDArray[numpy.float64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return mean and count of each cell of neighbours, up to 1,024 cells.

    Each cell has about an equal part of the sum of distances from the mean, which gives outliers a cell of their own.
    """
    import numpy as np

    if len(distinct) <= _CELLS:
        return distinct, repeats
    distances = np.abs(distinct - distinct @ repeats / repeats.sum()) * repeats
    part = (np.cumsum(distances) - distances / 2) / distances.sum()
    cells = np.unique((part * _CELLS).astype(np.intp), return_inverse=True)[1]
    inside = np.bincount(cells, weights=repeats).astype(np.float64)
    means: NDArray[np.float64] = np.bincount(cells, weights=distinct * repeats) / inside
    return means, inside


def _compute_tail(units: Units, limit: float) -> float:
    """Return the probability that the weighted mean, with the unseen unit at 1, exceeds the limit."""
    import numpy as np

    from evalspec.verdict.stats.gamma_sums import compute_tails

    coefficients = np.append(units.sums - limit * units.sizes, (1 - limit) * units.unseen)
    return float(compute_tails(coefficients[None], np.append(units.counts, 1.0)[None])[0])


def _recall_end(units: Units, tail: float) -> float:
    """Do as `_find_end`, once for the same units: a run's summary, thresholds and verdict ask for the same ends."""
    if len(units.counts) > _CELLS:
        return _find_end(units, tail)
    return _find_kept_end(units.sums.tobytes(), units.sizes.tobytes(), units.counts.tobytes(), units.unseen, tail)


@lru_cache(maxsize=_ENDS_KEPT)
def _find_kept_end(sums: bytes, sizes: bytes, counts: bytes, unseen: float, tail: float) -> float:
    import numpy as np

    return _find_end(Units(np.frombuffer(sums), np.frombuffer(sizes), np.frombuffer(counts), unseen), tail)


def _find_end(units: Units, tail: float) -> float:
    """Return the limit that the weighted mean exceeds with the probability `tail`.

    The normal quantile of the tail is nearly linear in the limit, so the secant method needs few steps.
    """
    target = _NORMAL.inv_cdf(tail)
    low, high = float((units.sums / units.sizes).min()), 1.0
    if low == high:
        return high
    size = float(units.sizes @ units.counts + units.unseen)
    mean = float((units.sums @ units.counts + units.unseen) / size)
    spread = float(((units.sums - mean * units.sizes) ** 2) @ units.counts + ((1 - mean) * units.unseen) ** 2)
    known = (mean, 0.0)
    limit = mean - target * math.sqrt(spread) / size
    for _ in range(_MOST_STEPS):
        if not low < limit < high:
            limit = (low + high) / 2
        found = _compute_tail(units, limit)
        if abs(found - tail) <= _PRECISION * tail:
            return limit
        low, high = (limit, high) if found > tail else (low, limit)
        quantile = _NORMAL.inv_cdf(found) if 0 < found < 1 else known[1]
        slope = (quantile - known[1]) / (limit - known[0]) if limit != known[0] else 0.0
        known, limit = (limit, quantile), limit + (target - quantile) / slope if slope else low
    return high


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


def compute_confidence_sequence(
    values: Sequence[float], bounds: Bounds, alpha: float = 0.05
) -> list[tuple[float, float]]:
    """Return the interval of the mean after each score, in the unit of the scores.

    All of them contain the mean with a probability of 1 − alpha at least. Each is within the one before.

    Raises:
        ValueError: A score is outside the bounds, or not finite.
    """
    import numpy as np

    low, high = bounds
    scores = (to_finite_array(values) - low) / (high - low)
    if ((scores < 0) | (scores > 1)).any():
        raise ValueError(f"a score is outside {low:g} to {high:g}")
    means = np.linspace(0, 1, _MEANS + 1)
    bets = _compute_bets(scores, alpha)
    capital = np.zeros((2, len(means)))
    found: list[tuple[float, float]] = []
    ends = 0.0, 1.0
    for score, bet in zip(scores, bets, strict=True):
        capital += _log_growth(float(score), float(bet), means)
        ends = _narrow(ends, means[capital.max(axis=0) < math.log(2 / alpha)])
        found.append((low + ends[0] * (high - low), low + ends[1] * (high - low)))
    return found


def _compute_bets(scores: "NDArray[numpy.float64]", alpha: float) -> "NDArray[numpy.float64]":
    """Return the bet on each score, which depends on earlier scores alone (equation 26)."""
    import numpy as np

    times = np.arange(1, len(scores) + 1)
    means = (0.5 + np.cumsum(scores)) / (times + 1)
    spreads = (0.25 + np.cumsum((scores - means) ** 2)) / (times + 1)
    before = np.concatenate([[0.25], spreads[:-1]])
    bets: NDArray[numpy.float64] = np.sqrt(2 * math.log(2 / alpha) / (before * times * np.log(times + 1)))
    return bets


def _log_growth(score: float, bet: float, means: "NDArray[numpy.float64]") -> "NDArray[numpy.float64]":
    """Return by what the log of both players' capital grows, for each mean. No capital becomes negative."""
    import numpy as np

    with np.errstate(divide="ignore"):
        upward = np.minimum(bet, _LARGEST_BET / means)
        downward = np.minimum(bet, _LARGEST_BET / (1 - means))
    growth: NDArray[numpy.float64] = np.log1p(np.stack([upward * (score - means), -downward * (score - means)]))
    return growth


def _narrow(ends: tuple[float, float], possible: "NDArray[numpy.float64]") -> tuple[float, float]:
    """Return the part of an interval that is possible, one cell wider, because means between cells are possible too.

    If nothing is, scores do not come from one population, and the interval stays.
    """
    if not len(possible):
        return ends
    low, high = max(ends[0], float(possible[0]) - 1 / _MEANS), min(ends[1], float(possible[-1]) + 1 / _MEANS)
    return (low, high) if low < high else ends
