"""The mean of what people would say, from the judge's scores of all replies and people's scores of a random part.

The estimate is post-stratified: each value of the judge is a stratum, and the mean is the sum over strata of share ×
people's mean. Scores with many values are divided at their quantiles. (Prediction-powered estimates, arXiv 2301.09633,
had intervals that were 8 to 35 % wider in every case that was simulated.)

Intervals are Gaffke's (`stats.bounded`): units have Dirichlet weights, with one more unit at the unfavourable bound,
which the strata share in proportion to their size. They are drawn, with a fixed seed. On one stratum, with all replies
labelled, this is Clopper and Pearson's interval of 0/1 scores. Measurements: docs/explanation/judge-correction.md.
"""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.verdict.stats.bounded import compute_unseen_size
from evalspec.verdict.stats.clusters import number_clusters

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float64]
    Places = NDArray[numpy.intp]

FEWEST_LABELS = 20
"""Below this number, the judge's scores do not enter: a search for the worst case found less than 94 % coverage."""

FEWEST = 8
"""Labels that a stratum needs. Strata with fewer are merged with a neighbour.

With 5, up to 7 % of the intervals were wrong in a case with a small stratum, which has only a small part of the unseen
unit. With 8, at most 5 % were wrong in the cases that were tried, and intervals of real judges were as narrow.
"""

_MOST_STRATA = 6
"""Distinct scores of a judge up to which each is a stratum."""

_MOST_NUMBERS = 4_000_000
"""Weights that are drawn at a time, so that memory stays small."""

_DRAWS = 8_000
_SEED = 20_230_111
_DIGITS = 12

POST_STRATIFIED, LABELS_ALONE, SEQUENCE = "post-stratified", "labels alone", "confidence sequence"

Bounds = tuple[float, float]


class Opinions(Struct, frozen=True):
    """What judge and people say about the same replies.

    `judged`: the judge's score of each reply; None: it has none. `people`: the mean of people's scores; None: no label.
    `bounds`: range of the scores. `weights`: 1 / the probability of being drawn for labelling, up to a factor; None:
    all equal. `units`: the cluster of each reply; None: all are independent. `groups`: replies that were drawn for
    labelling separately have different ones; None: all were drawn together. `unanswered`: whether each reply was drawn
    and nobody labelled it, perhaps because that was difficult; None: none.
    """

    judged: Sequence[float | None]
    people: Sequence[float | None]
    bounds: Bounds = (0.0, 1.0)
    weights: Sequence[float] | None = None
    units: Sequence[Hashable] | None = None
    groups: Sequence[Hashable] | None = None
    unanswered: Sequence[bool] | None = None


class Corrected(Struct, frozen=True):
    """An estimate of people's mean over all replies, in the unit of the scores, with its interval and method.

    `ends`: the estimate with the lowest and the highest score for the replies of strata without labels, and for those
    that were drawn and not labelled. `missing`, `unanswered`: number of the first and of the second.
    """

    value: float
    ends: Bounds
    missing: int
    unanswered: int
    interval: Bounds
    method: str

    def describe_missing(self) -> str | None:
        """Return how many replies the estimate leaves out; None if none."""
        counts = {"without enough labels": self.missing, "that were drawn and not labelled": self.unanswered}
        said = [f"{counted(count, 'reply', 'replies')} {what}" for what, count in counts.items() if count]
        return f"{' and '.join(said)} may be anything to people" if said else None


def correct(opinions: Opinions, confidence: float = 0.95) -> Corrected | None:
    """Return people's mean over all replies; None with fewer than eight labels.

    Replies that the judge has not scored are a stratum of their own, and so is each group. With fewer than eight labels
    on them, they have the lowest score at the lower end of the interval and the highest at the upper end, and the value
    leaves them out. So it is with replies that were drawn and not labelled, within their stratum.

    Raises:
        ValueError: A score is outside the bounds, or the sequences have different lengths.
    """
    table = _tabulate(opinions)
    labels = int(table.is_labelled.sum())
    method = POST_STRATIFIED if labels >= FEWEST_LABELS else LABELS_ALONE
    sums = _sum_units(table, _stratify(table) if method is POST_STRATIFIED else _split(table))
    if labels < FEWEST or not sums.is_known.any():
        return None
    tail = (1 - confidence) / 2
    low, high = opinions.bounds
    value, *ends, first, last = (
        low + share * (high - low)
        for share in (*map(sums.compute_mean, (None, 0.0, 1.0)), sums.find_end(0.0, tail), sums.find_end(1.0, 1 - tail))
    )
    return Corrected(value, (ends[0], ends[1]), sums.missing, sums.unanswered, (first, last), method)


class _Table(Struct, frozen=True):
    """Opinions as arrays over replies, with scores from 0 to 1; NaN: the judge has none, or nobody labelled it.

    `parts`: number of the group of each reply, or of those in the group that the judge has not scored. `is_open`:
    whether it was drawn and not labelled.
    """

    judged: "Matrix"
    people: "Matrix"
    is_open: "NDArray[numpy.bool_]"
    weights: "Matrix"
    units: "Places"
    parts: "Places"

    @property
    def is_labelled(self) -> "NDArray[numpy.bool_]":
        import numpy as np

        return ~np.isnan(self.people)


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
        (np.array([math.nan if one is None else one for one in values], np.float64) - low) / (high - low)
        for values in (opinions.judged, opinions.people)
    )
    units = range(count) if opinions.units is None else number_clusters(opinions.units, count)
    groups = [0] * count if opinions.groups is None else number_clusters(opinions.groups, count)
    drawn = np.zeros(count, np.bool_) if opinions.unanswered is None else np.array(opinions.unanswered, np.bool_)
    return _Table(
        judged,
        people,
        drawn & np.isnan(people),
        np.ones(count) if opinions.weights is None else np.array(opinions.weights, np.float64),
        np.array(units, np.intp),
        2 * np.array(groups, np.intp) + np.isnan(judged),
    )


def _split(table: _Table) -> "Places":
    """Return the stratum of each reply without the judge's scores: its group, and whether the judge has scored it."""
    import numpy as np

    return np.unique(table.parts, return_inverse=True)[1]


def _stratify(table: _Table) -> "Places":
    """Return the stratum of each reply: within its group, the judge's value."""
    import numpy as np

    strata = np.zeros(len(table.judged), np.intp)
    for part in np.unique(table.parts):
        places = np.flatnonzero(table.parts == part)
        values = _divide(np.nan_to_num(table.judged[places]).round(_DIGITS))
        strata[places] = strata.max() + 1 + _merge(values, values[table.is_labelled[places]])
    return np.unique(strata, return_inverse=True)[1]


def _divide(values: "Matrix") -> "Places":
    """Return the number of each value in their order; of many, that of its part between quantiles."""
    import numpy as np

    distinct, numbers = np.unique(values, return_inverse=True)
    if len(distinct) <= _MOST_STRATA:
        return numbers
    cuts = np.quantile(values, np.arange(1, _MOST_STRATA) / _MOST_STRATA)
    return np.unique(np.searchsorted(cuts, values), return_inverse=True)[1]


def _merge(values: "Places", labelled: "Places") -> "Places":
    """Return the values with those that have too few labels merged with the neighbour that has fewer."""
    import numpy as np

    counts = np.bincount(labelled, minlength=int(values.max()) + 1).tolist()
    groups = [[value] for value in range(len(counts))]
    while len(groups) > 1 and min(counts) < FEWEST:
        place = counts.index(min(counts))
        beside = [one for one in (place - 1, place + 1) if 0 <= one < len(groups)]
        first, second = sorted((place, min(beside, key=counts.__getitem__)))
        groups[first] += groups.pop(second)
        counts[first] += counts.pop(second)
    merged = np.empty(sum(map(len, groups)), np.intp)
    for number, group in enumerate(groups):
        merged[group] = number
    found: Places = merged[values]
    return found


class _Sums(Struct, frozen=True):
    """Sums over the replies of each kind of unit: arrays of kinds × strata, and the number of units of each kind.

    `sizes`: replies. `labels`: weight of the labelled ones. `scores`: weighted sum of people's scores. `open`: weight
    of those that were drawn and not labelled, `unanswered`: their number. `unseen`: weight of the labels of an unseen
    unit. Strata without labels have an unknown mean.
    """

    counts: "Matrix"
    sizes: "Matrix"
    labels: "Matrix"
    scores: "Matrix"
    open: "Matrix"
    unseen: float
    unanswered: int

    @property
    def is_known(self) -> "NDArray[numpy.bool_]":
        """Whether each stratum has labels."""
        known: NDArray[numpy.bool_] = self.labels.sum(axis=0) > 0
        return known

    @property
    def missing(self) -> int:
        """Number of replies in strata without labels."""
        return round(float((self.counts @ self.sizes)[~self.is_known].sum()))

    def compute_mean(self, end: float | None) -> float:
        """Return the estimate: the mean over the strata by their sizes. `end`: of those without labels; None: none."""
        sizes, labels, scores, unknown = (
            (self.counts @ sums)[self.is_known] for sums in (self.sizes, self.labels, self.scores, self.open)
        )
        if end is None:
            return float(sizes @ (scores / labels) / sizes.sum())
        total = sizes @ ((scores + unknown * end) / (labels + unknown))
        return float((total + end * self.missing) / (sizes.sum() + self.missing))

    def find_end(self, end: float, share: float) -> float:
        """Return a quantile of the weighted mean, with the unseen unit at an end of the range: 0 or 1."""
        import numpy as np

        generator = np.random.default_rng(_SEED)
        rows = max(1, min(_DRAWS, _MOST_NUMBERS // len(self.counts)))
        parts = [self._draw(generator, min(rows, _DRAWS - begin), end) for begin in range(0, _DRAWS, rows)]
        return float(np.quantile(np.concatenate(parts), share))

    def _draw(self, generator: "numpy.random.Generator", rows: int, end: float) -> "Matrix":
        import numpy as np

        weights = generator.standard_gamma(self.counts, size=(rows, len(self.counts)))
        sizes, labels, scores, unknown = (weights @ sums for sums in (self.sizes, self.labels, self.scores, self.open))
        shares = np.where(self.is_known, self.counts @ self.sizes, 0.0)
        unseen = unknown + generator.standard_exponential((rows, 1)) * self.unseen * shares / shares.sum()
        means = np.full_like(sizes, end)
        np.divide(scores + unseen * end, labels + unseen, out=means, where=np.broadcast_to(self.is_known, sizes.shape))
        drawn: Matrix = (sizes * means).sum(axis=1) / sizes.sum(axis=1)
        return drawn


def _sum_units(table: _Table, strata: "Places") -> _Sums:
    """Return the sums of each kind of unit. Labels of strata with too few do not count, unless all have labels."""
    import numpy as np

    width, rows = int(strata.max()) + 1, int(table.units.max()) + 1
    enough = np.bincount(strata[table.is_labelled], minlength=width) >= np.minimum(np.bincount(strata), FEWEST)
    is_drawn = (table.is_labelled | table.is_open) & enough[strata]
    weights: Matrix = np.where(is_drawn, table.weights, 0.0)
    weights = weights * (np.count_nonzero(weights) / (weights.sum() or 1.0))
    unknown: Matrix = np.where(table.is_open, weights, 0.0)
    cells = table.units * width + strata

    def add_up(values: "Matrix") -> "Matrix":
        found: Matrix = np.bincount(cells, weights=values, minlength=rows * width).astype(np.float64)
        return found.reshape(rows, width)

    parts = (np.ones(len(cells)), weights - unknown, weights * np.nan_to_num(table.people), unknown)
    sums = [add_up(part) for part in parts]
    kinds, repeats = np.unique(np.hstack(sums).round(_DIGITS), axis=0, return_counts=True)
    sizes, labels, scores, open_ = np.hsplit(kinds, 4)
    unseen = compute_unseen_size(add_up(weights).sum(axis=1)) if weights.any() else 0.0
    counts = repeats.astype(np.float64)
    return _Sums(counts, sizes, labels, scores, open_, unseen, int(np.count_nonzero(unknown)))
