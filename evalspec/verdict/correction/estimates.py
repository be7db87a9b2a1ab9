"""The mean of what people would say, from the judge's scores of all replies and people's scores of a random part.

Scores with few values are post-stratified: each value of the judge is a stratum, and the mean is the sum over strata of
share × people's mean. Other scores are prediction-powered: the mean of λ × the judge's scores, plus the mean of what
people's scores differ from λ × the judge's, with λ fitted to the other folds of the labels (Angelopoulos et al. 2023,
arXiv 2301.09633 and 2311.01453; cross-fitting as in 2309.16598).

Intervals are Gaffke's (`stats.bounded`): units have Dirichlet weights, with one more unit at the unfavourable bound,
which the strata share in proportion to their size. They are drawn, with a fixed seed. On one stratum, with all replies
labelled, this is Clopper and Pearson's interval of 0/1 scores. Measurements: docs/explanation/judge-correction.md.
"""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.verdict.stats.bounded import compute_unseen_size
from evalspec.verdict.stats.clusters import number_clusters

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float64]

FEWEST_LABELS = 20
"""Below this number, the labels alone are used: a search for the worst case found less than 94 % coverage."""

_LEAST = 5
"""Labels that a stratum needs. Strata with fewer are merged with a neighbour."""

_MOST_STRATA = 6
"""Distinct scores of a judge up to which they are strata."""

_FOLDS = 5
_MOST_NUMBERS = 4_000_000
"""Weights that are drawn at a time, so that memory stays small."""

_DRAWS = 8_000
_SEED = 20_230_111
_DIGITS = 12

POST_STRATIFIED, PREDICTION_POWERED, LABELS_ALONE = "post-stratified", "prediction-powered", "labels alone"

Bounds = tuple[float, float]


class Opinions(Struct, frozen=True):
    """What judge and people say about the same replies.

    `judged`: the judge's score of each reply; None: it has none. `people`: the mean of people's scores; None: no label.
    `bounds`: range of the scores. `weights`: 1 / the probability of being drawn for labelling, up to a factor; None:
    all equal. `units`: the cluster of each reply; None: all are independent.
    """

    judged: Sequence[float | None]
    people: Sequence[float | None]
    bounds: Bounds = (0.0, 1.0)
    weights: Sequence[float] | None = None
    units: Sequence[Hashable] | None = None


class Corrected(Struct, frozen=True):
    """An estimate of people's mean over all replies, in the unit of the scores, with its interval and method."""

    value: float
    interval: tuple[float, float]
    method: str


def correct(opinions: Opinions, confidence: float = 0.95) -> Corrected | None:
    """Return people's mean over all replies; None without labels.

    Replies that the judge has not scored are a stratum of their own. With fewer than five labels on them, they have the
    lowest score at the lower end of the interval and the highest at the upper end, and the value leaves them out.

    Raises:
        ValueError: A score is outside the bounds, or the sequences have different lengths.
    """
    table = _tabulate(opinions)
    if not table.labelled.any():
        return None
    low, high = opinions.bounds
    value, ends, method = _estimate(table, (1 - confidence) / 2)
    scale = high - low
    return Corrected(low + value * scale, (low + ends[0] * scale, low + ends[1] * scale), method)


class _Table(Struct, frozen=True):
    """Opinions as arrays over replies, with scores from 0 to 1; NaN: the judge has none, or nobody labelled it."""

    judged: "Matrix"
    people: "Matrix"
    weights: "Matrix"
    units: "NDArray[numpy.intp]"

    @property
    def labelled(self) -> "NDArray[numpy.bool_]":
        import numpy as np

        return ~np.isnan(self.people)

    @property
    def missing(self) -> "NDArray[numpy.bool_]":
        import numpy as np

        return np.isnan(self.judged)


def _tabulate(opinions: Opinions) -> _Table:
    import numpy as np

    low, high = opinions.bounds
    count = len(opinions.judged)
    if len(opinions.people) != count or (opinions.weights is not None and len(opinions.weights) != count):
        raise ValueError("there are not as many labels or weights as scores")
    given = [*opinions.judged, *opinions.people]
    if not all(low <= value <= high for value in given if value is not None):
        raise ValueError(f"a score is outside {low:g} to {high:g}")
    judged, people = (
        (np.array([math.nan if one is None else one for one in values]) - low) / (high - low)
        for values in (opinions.judged, opinions.people)
    )
    units = np.array(range(count) if opinions.units is None else number_clusters(opinions.units, count), np.intp)
    weights = np.ones(count) if opinions.weights is None else np.array(opinions.weights, np.float64)
    return _Table(judged, people, weights, units)


def _estimate(table: _Table, tail: float) -> tuple[float, tuple[float, float], str]:
    import numpy as np

    distinct = np.unique(table.judged[~table.missing].round(_DIGITS))
    if table.labelled.sum() < FEWEST_LABELS or len(distinct) < 2:
        method, sums = LABELS_ALONE, _sum_strata(table, np.zeros(len(table.judged), np.intp))
    elif len(distinct) <= _MOST_STRATA:
        method, sums = POST_STRATIFIED, _sum_strata(table, _stratify(table, distinct))
    else:
        method, sums = PREDICTION_POWERED, _sum_residuals(table)
    low, high = (np.quantile(sums.draw(end), share) for end, share in ((0.0, tail), (1.0, 1 - tail)))
    return sums.compute_mean(), (float(low), float(high)), method


class _Sums(Struct, frozen=True):
    """Sums over the replies of each kind of unit: arrays of kinds × strata, and the number of units of each kind.

    `sizes`: replies. `labels`: weight of the labelled ones. `scores`: weighted sum of people's scores, or of what they
    differ from the predictions. `predictions`: sum of what is predicted for all replies. `low`, `high`: range of the
    scores. Strata without labels have an unknown mean. `unseen`: weight of the labels of an unseen unit.
    """

    counts: "Matrix"
    sizes: "Matrix"
    labels: "Matrix"
    scores: "Matrix"
    predictions: "Matrix"
    low: float
    high: float
    unseen: float

    @property
    def is_known(self) -> "NDArray[numpy.bool_]":
        """Whether each stratum has labels."""
        known: NDArray[numpy.bool_] = self.labels.sum(axis=0) > 0
        return known

    def compute_mean(self) -> float:
        """Return the estimate: the mean over the strata with labels, by their sizes."""
        sizes, labels, scores, predictions = (
            (self.counts @ sums)[self.is_known] for sums in (self.sizes, self.labels, self.scores, self.predictions)
        )
        return float(sizes @ (scores / labels + predictions / sizes) / sizes.sum())

    def draw(self, end: float) -> "Matrix":
        """Return draws of the weighted mean, with the unseen unit at an end of the range: 0 or 1."""
        import numpy as np

        generator = np.random.default_rng(_SEED)
        rows = max(1, min(_DRAWS, _MOST_NUMBERS // len(self.counts)))
        parts = [self._draw(generator, min(rows, _DRAWS - begin), end) for begin in range(0, _DRAWS, rows)]
        return np.concatenate(parts)

    def _draw(self, generator: "numpy.random.Generator", rows: int, end: float) -> "Matrix":
        import numpy as np

        weights = generator.standard_gamma(self.counts, size=(rows, len(self.counts)))
        sizes, labels, scores, predictions = (
            weights @ sums for sums in (self.sizes, self.labels, self.scores, self.predictions)
        )
        shares = np.where(self.is_known, self.counts @ self.sizes, 0.0)
        unseen = generator.standard_exponential((rows, 1)) * self.unseen * shares / max(shares.sum(), 1.0)
        bound = self.low + end * (self.high - self.low)
        with np.errstate(invalid="ignore", divide="ignore"):  # strata without labels
            means = (scores + unseen * bound) / (labels + unseen) + predictions / sizes
        means = np.clip(np.where(self.is_known, means, end), 0.0, 1.0)
        drawn: Matrix = (sizes * means).sum(axis=1) / sizes.sum(axis=1)
        return drawn


def _stratify(table: _Table, distinct: "Matrix") -> "NDArray[numpy.intp]":
    """Return the stratum of each reply: the judge's value, merged with a neighbour where it has too few labels."""
    import numpy as np

    values = np.searchsorted(distinct, np.nan_to_num(table.judged).round(_DIGITS))
    counts = np.bincount(values[table.labelled & ~table.missing], minlength=len(distinct)).tolist()
    groups = [[value] for value in range(len(distinct))]
    while len(groups) > 1 and min(counts) < _LEAST:
        place = counts.index(min(counts))
        beside = [one for one in (place - 1, place + 1) if 0 <= one < len(groups)]
        first, second = sorted((place, min(beside, key=counts.__getitem__)))
        groups[first] += groups.pop(second)
        counts[first] += counts.pop(second)
    strata = np.empty(len(distinct), np.intp)
    for number, group in enumerate(groups):
        strata[group] = number
    found: NDArray[np.intp] = strata[values]
    return found


def _sum_strata(table: _Table, strata: "NDArray[numpy.intp]") -> _Sums:
    import numpy as np

    return _sum_units(table, strata, np.nan_to_num(table.people), np.zeros(len(strata)), (0.0, 1.0))


def _sum_residuals(table: _Table) -> _Sums:
    """Return the sums of what people's scores differ from λ × the judge's. λ of a fold is fitted to the other folds."""
    import numpy as np

    judged = np.nan_to_num(table.judged)
    places = np.flatnonzero(table.labelled & ~table.missing)
    units = np.unique(table.units[places], return_inverse=True)[1]
    order = np.random.default_rng(_SEED).permutation(units.max() + 1)
    folds = order[units] % _FOLDS
    count = (~table.missing).sum()
    slopes = [
        _fit_slope(judged[kept], table.people[kept], count)
        for kept in (places[folds != fold] for fold in range(_FOLDS))
    ]
    shares = np.bincount(folds, minlength=_FOLDS) / len(places)
    used = np.zeros(len(judged))
    used[places] = np.array(slopes)[folds]
    slope = float(shares @ slopes)
    residuals = np.where(used > 0, table.people - used * judged, table.people)
    return _sum_units(
        table,
        np.zeros(len(judged), np.intp),
        np.nan_to_num(residuals),
        np.where(table.missing, 0.0, slope * judged),
        (-max(slopes), 1.0),
    )


def _fit_slope(judged: "Matrix", people: "Matrix", count: int) -> float:
    """Return the λ with the least variance, from 0 to 1, for `count` replies (2311.01453, section 6)."""
    import numpy as np

    if len(judged) < 2 or not (spread := float(np.var(judged, ddof=1))):
        return 0.0
    slope = float(np.cov(judged, people)[0, 1]) / (spread * (1 + len(judged) / count))
    return min(max(slope, 0.0), 1.0)


def _sum_units(
    table: _Table, strata: "NDArray[numpy.intp]", scores: "Matrix", predictions: "Matrix", bounds: Bounds
) -> _Sums:
    """Return the sums of each kind of unit. Replies without a score of the judge are the last stratum."""
    import numpy as np

    width = int(strata.max()) + 2
    strata = np.where(table.missing, width - 1, strata)
    labelled = table.labelled.copy()
    if (labelled & table.missing).sum() < _LEAST:
        labelled &= ~table.missing
    weights: Matrix = np.where(labelled, table.weights, 0.0)
    weights = weights * (labelled.sum() / (weights.sum() or 1.0))
    cells = table.units * width + strata
    rows = int(table.units.max()) + 1

    def add_up(values: "Matrix") -> "Matrix":
        found: Matrix = (
            np.bincount(cells, weights=values, minlength=rows * width).reshape(rows, width).astype(np.float64)
        )
        return found

    sums = [add_up(one) for one in (np.ones(len(cells)), weights, weights * scores, predictions)]
    kinds, repeats = np.unique(np.hstack(sums).round(_DIGITS), axis=0, return_counts=True)
    counts = repeats.astype(np.float64)
    is_used = counts @ kinds[:, :width] > 0
    sizes, labels, sum_of_scores, sum_of_predictions = (part[:, is_used] for part in np.hsplit(kinds, 4))
    unseen = compute_unseen_size(sums[1].sum(axis=1))
    return _Sums(counts, sizes, labels, sum_of_scores, sum_of_predictions, *bounds, unseen)
