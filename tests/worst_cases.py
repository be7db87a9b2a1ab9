"""Search for the worst case of one-sided statements: how often one is made although the true mean is at its limit.

Scores have the range 0 to 1, and the statement is that their mean reaches the limit. Statements about upper limits are
its mirror image, and a drop of `maxDrop` between scores from 0 to 1 is the limit (1 - maxDrop) / 2 of the differences.

Where a score has few values, all outcomes are enumerated, which is exact. An outcome supports all limits up to the
lower end of its interval. So the worst limits are those ends, and no others have to be tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri
from scipy.stats import beta, binom

from evalspec.verdict.stats.bounded import compute_unseen_size
from evalspec.verdict.stats.gamma_sums import compute_tails

Array = NDArray[Any]
Classes = tuple[tuple[int, int], ...]
"""Clusters: size and number of those with that size."""

Case = TypeVar("Case")

SCREENED, CONFIRMED = 2_000, 40_000
"""Draws for each case, and fresh draws for the worst of them, so that choosing them does not bias their figure."""
MOST_OF_ONE = 0.25
_TOLERANCE = 1e-9
_MOST_LIMITS = 400
_MOST_CELLS = 4_000_000
_MOST_STEPS = 100


@dataclass(frozen=True, order=True)
class Worst:
    """The share of runs with a false statement, and its parameters."""

    share: float
    limit: float
    case: Any = field(default=(), compare=False)
    alpha: float = 0.05


def find_lower_ends(sums: Array, sizes: Array, counts: Array, unseen: float, alpha: float) -> Array:
    """The largest limit that each outcome supports: the lower end of its interval at confidence 1 - 2 alpha.

    `sums`, `sizes`: of a unit of each kind. `counts`: units of each kind in each outcome, shape (outcomes, kinds).
    """
    shapes = np.column_stack([counts, np.ones(len(counts))]).astype(np.float64)
    low, high = np.zeros(len(counts)), (counts @ sums) / (counts @ sizes)
    total = counts @ sizes + unseen
    mean, target = (counts @ sums) / total, float(ndtri(alpha))
    squares = counts @ sums**2 - 2 * mean * (counts @ (sums * sizes)) + mean**2 * (counts @ sizes**2 + unseen**2)
    pace = np.maximum(np.sqrt(squares) / total, 1e-9)  # of the limit for each step of the normal quantile
    limit, last, quantile = np.clip(mean + target * pace, 0, high), np.zeros(len(counts)), np.full(len(counts), np.nan)
    open_ones = np.flatnonzero(high > 0)
    for _ in range(_MOST_STEPS):
        if not len(open_ones):
            break
        at = np.where((limit > low) & (limit < high), limit, (low + high) / 2)[open_ones]
        coefficients = np.column_stack([at[:, None] * sizes - sums, at * unseen])
        found = compute_tails(coefficients, shapes[open_ones])
        low[open_ones] = np.where(found <= alpha, at, low[open_ones])
        high[open_ones] = np.where(found > alpha, at, high[open_ones])
        now = ndtri(np.clip(found, 1e-300, 1 - 1e-16))
        with np.errstate(all="ignore"):
            secant = (at - last[open_ones]) / (now - quantile[open_ones])
        slope = np.where(np.isfinite(secant) & (secant > 0), secant, pace[open_ones])
        last[open_ones], quantile[open_ones], limit[open_ones] = at, now, at + (target - now) * slope
        open_ones = open_ones[np.abs(now - target) * slope > 1e-11]
    assert not len(open_ones)
    return last


def list_counts(units: int, kinds: int) -> NDArray[np.int64]:
    """All numbers of units of each kind."""
    if kinds == 1:
        return np.array([[units]])
    rest = [list_counts(units - first, kinds - 1) for first in range(units + 1)]
    return np.vstack([np.column_stack([np.full(len(one), first), one]) for first, one in enumerate(rest)])


class Grades:
    """All outcomes of a number of graded scores, and the limits that they support."""

    def __init__(self, grades: Sequence[float], units: int, alpha: float) -> None:
        self.grades, self.alpha = np.array(grades, dtype=np.float64), alpha
        counts = list_counts(units, len(grades))
        ends = find_lower_ends(self.grades, np.ones(len(grades)), counts, 1.0, alpha)
        order = np.argsort(-ends)
        self.counts, self.ends = counts[order].astype(np.float64), ends[order]
        self.places = gammaln(units + 1) - gammaln(self.counts + 1).sum(axis=1)

    def share(self, chances: Array) -> Array:
        """The share of false statements for each row of chances, with the limit at their mean."""
        found = np.empty(len(chances))
        supporting = np.searchsorted(-self.ends, -(chances @ self.grades - _TOLERANCE), "right")
        rows = max(1, _MOST_CELLS // len(self.counts))
        for start in range(0, len(chances), rows):
            some, most = chances[start : start + rows], supporting[start : start + rows].max(initial=0)
            logs = self.counts[:most] @ np.log(np.maximum(some, 1e-300)).T + self.places[:most, None]
            made = np.arange(most)[:, None] < supporting[start : start + rows]
            found[start : start + rows] = np.where(made, np.exp(logs), 0).sum(axis=0)
        return found

    def pick_limits(self) -> Array:
        """The limits that outcomes support, at most 400 of them."""
        limits = np.unique(self.ends[(self.ends > self.grades[0]) & (self.ends < self.grades[-1])].round(12))
        return limits[:: 1 + len(limits) // _MOST_LIMITS]

    def raise_to_limit(self, chances: Array) -> Array:
        """The chances with more of the best grade, so that their mean is the next limit."""
        limits = np.append(np.unique(self.ends), self.grades[-1])
        means = chances @ self.grades
        above = limits[np.minimum(np.searchsorted(limits, means), len(limits) - 1)]
        more = np.clip((above - means) / np.maximum(self.grades[-1] - means, 1e-12), 0, 1)[:, None]
        return np.asarray(chances * (1 - more) + more * (np.arange(len(self.grades)) == len(self.grades) - 1))


def find_worst_three(grades: tuple[float, float, float], units: int, alpha: float, least: float = 0.0) -> Worst:
    """The worst case of three grades over all limits and their chances, each of at least `least`: enumerated."""
    every = Grades(grades, units, alpha)
    (low, middle, high), limits = grades, every.pick_limits()
    most = np.where(limits >= middle, (high - limits) / (high - middle), (limits - low) / (middle - low))
    some = (most[:, None] * np.linspace(0, 1, 41)).ravel()
    above = (np.repeat(limits, 41) - low - some * (middle - low)) / (high - low)
    chances = np.clip(np.column_stack([1 - some - above, some, above]), 0, 1)
    return _take_worst(every, chances[chances.min(axis=1) >= least])


def search_grades(rng: np.random.Generator, grades: Sequence[float], units: int, alpha: float, rounds: int) -> Worst:
    """The worst case found over the chances of grades: at random, then around the worst. Outcomes are enumerated."""
    every = Grades(grades, units, alpha)
    spread = rng.choice([0.1, 0.3, 1.0, 3.0], (300, 1))
    tried = rng.standard_gamma(np.broadcast_to(spread, (300, len(grades)))) + 1e-12
    worst, kept = Worst(0.0, 0.0), tried[:0]
    for step in range(rounds):
        chances = every.raise_to_limit(tried / tried.sum(axis=1, keepdims=True))
        kept = np.vstack([kept, chances])
        kept = kept[np.argsort(-every.share(kept))[:20]]
        tried = np.repeat(kept, 10, axis=0) * np.exp(rng.standard_normal((10 * len(kept), len(grades))) * 0.8**step)
        worst = max(worst, _take_worst(every, kept))
    return worst


def _take_worst(every: Grades, chances: Array) -> Worst:
    shares = every.share(chances)
    place = int(shares.argmax())
    limit = float(chances[place] @ every.grades)
    return Worst(float(shares[place]), limit, tuple(chances[place].round(4).tolist()), every.alpha)


def find_worst_clusters(classes: Classes, alpha: float) -> Worst:
    """The worst limit if all members of a cluster score the same, 0 or 1: enumerated over the clusters that pass."""
    sizes, totals = (np.array(column) for column in zip(*classes, strict=True))
    passed = np.stack([axis.ravel() for axis in np.meshgrid(*map(np.arange, totals + 1), indexing="ij")], axis=1)
    unseen = compute_unseen_size(np.repeat(sizes, totals).astype(np.float64))
    sums, both = np.append(sizes, 0 * sizes).astype(np.float64), np.append(sizes, sizes).astype(np.float64)
    ends = find_lower_ends(sums, both, np.column_stack([passed, totals - passed]), unseen, alpha)
    limits = np.unique(ends[(ends > 0.005) & (ends < 0.995)].round(12))
    limits = limits[:: 1 + len(limits) // (4 * _MOST_LIMITS)]
    shares = np.zeros(len(limits))
    rows = max(1, _MOST_CELLS // len(ends))
    for start in range(0, len(limits), rows):
        some = limits[start : start + rows, None]
        chances = np.where(ends >= some - _TOLERANCE, 1.0, 0.0)
        for place, total in enumerate(totals):
            chances *= binom.pmf(np.arange(total + 1), total, some)[:, passed[:, place]]
        shares[start : start + rows] = chances.sum(axis=1)
    place = int(shares.argmax())
    return Worst(float(shares[place]), float(limits[place]), tuple(classes), alpha)


def draw_classes(rng: np.random.Generator, most_outcomes: int = 3_000) -> Iterator[Classes]:
    """Sizes of clusters without end: equal, one with a quarter, few large ones among many small ones, three sizes."""
    while True:
        small = int(rng.choice([1, 1, 1, 2, 3]))
        many = int(np.exp(rng.uniform(np.log(3), np.log(600))))
        few = int(rng.choice([1, 1, 2, 3, 4, 5, 8, 12, 20, 40]))
        kind = rng.choice(["equal", "quarter", "few", "few", "three"])
        large = small * int(rng.choice([2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 15, 25, 40]))
        classes = [(small, many), (large, few)]
        if kind == "equal":
            classes = [(small, many)]
        elif kind == "quarter":
            part, large_ones = many // 3 + 1, int(rng.integers(1, 4))
            classes = [(small, (4 - large_ones) * part), (small * part, large_ones)]
        elif kind == "three":
            classes.append((large * int(rng.choice([2, 3, 5])), int(rng.integers(1, 5))))
        sizes, counts = (np.array(column) for column in zip(*classes, strict=True))
        if sizes.max() <= MOST_OF_ONE * (sizes @ counts) and np.prod(counts + 1) <= most_outcomes:
            yield tuple(classes)


def search_clusters(rng: np.random.Generator, configurations: int, alpha: float) -> list[Worst]:
    """The worst limits of so many configurations, the worst first: at random, then with other numbers of clusters."""
    drawn, found = draw_classes(rng), dict[Classes, Worst]()
    for _ in range(configurations):
        classes = next(drawn)
        unequal = sorted((one for one in found.values() if len(one.case) > 1), reverse=True)[:5]
        if unequal and rng.random() < 0.5:
            near = unequal[rng.integers(len(unequal))].case
            moved = tuple((size, max(1, count + int(rng.integers(-3, 4)))) for size, count in near)
            if max(size for size, _ in moved) <= MOST_OF_ONE * sum(size * count for size, count in moved):
                classes = moved
        if classes not in found:
            found[classes] = find_worst_clusters(classes, alpha)
    return sorted(found.values(), reverse=True)


def simulate_clusters(
    rng: np.random.Generator, classes: Classes, correlation: float, limit: float, alpha: float, draws: int
) -> float:
    """The share of false statements if 0/1 scores in a cluster are correlated, with the true mean at the limit."""
    kinds: list[tuple[float, float]] = []
    columns: list[Array] = []
    for size, count in classes:
        scale = (1 - correlation) / correlation if correlation else np.inf
        chances = np.full((draws, count), limit)
        if 0 < correlation < 1:
            chances = rng.beta(limit * scale, (1 - limit) * scale, (draws, count))
        elif correlation == 1:
            chances = (rng.random((draws, count)) < limit) * 1.0
        passes = rng.binomial(size, chances)
        kinds += [(float(passed), float(size)) for passed in range(size + 1)]
        columns += [(passes == passed).sum(axis=1).astype(np.float64) for passed in range(size + 1)]
    unseen = compute_unseen_size(np.repeat([size for size, _ in classes], [n for _, n in classes]).astype(np.float64))
    return _count_statements(np.array(kinds), np.stack(columns, axis=1), unseen, limit, alpha)


def simulate_grades(
    rng: np.random.Generator, grades: Sequence[float], chances: Array, units: int, alpha: float, draws: int
) -> float:
    """The share of false statements about the mean of graded scores, with the limit at the true mean."""
    counts = rng.multinomial(units, chances, draws).astype(np.float64)
    kinds = np.column_stack([grades, np.ones(len(grades))])
    return _count_statements(kinds, counts, 1.0, float(np.dot(grades, chances)), alpha)


def _count_statements(kinds: Array, counts: Array, unseen: float, limit: float, alpha: float) -> float:
    coefficients = np.append(limit * kinds[:, 1] - kinds[:, 0], limit * unseen)
    shapes = np.column_stack([counts, np.ones(len(counts))])
    distinct, times = np.unique(shapes, axis=0, return_counts=True)
    above = distinct[:, :-1] @ coefficients[:-1] < 0  # a mean below the limit supports no statement
    tails = compute_tails(np.broadcast_to(coefficients, distinct[above].shape), distinct[above])
    return float(times[above][tails <= alpha * (1 + _TOLERANCE)].sum() / len(counts))


def screen_and_confirm(
    cases: Sequence[Case], simulate: Callable[[np.random.Generator, Case, int], float], chosen: int
) -> list[tuple[float, Case]]:
    """The shares of the worst cases, the worst first, from fresh draws."""
    screened = [simulate(np.random.default_rng([1, place]), case, SCREENED) for place, case in enumerate(cases)]
    worst = np.argsort(screened)[::-1][:chosen]
    found = [(simulate(np.random.default_rng([2, place]), cases[place], CONFIRMED), cases[place]) for place in worst]
    return sorted(found, key=lambda one: one[0], reverse=True)


def find_confidence_end(share: float, draws: int) -> float:
    """The lower end of the 95 % interval (Clopper and Pearson) of a simulated share, one-sided."""
    made = round(share * draws)
    return float(beta.ppf(0.05, made, draws - made + 1)) if made else 0.0
