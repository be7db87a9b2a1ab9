"""How well people agree: raw agreement, Cohen's kappa, Krippendorff's alpha and Gwet's AC1, with intervals.

A rating is one category by one person for one case, such as a revision of a triple or a reply. Cases may have any
number of ratings. Cases of one unit, such as the revisions of a triple, are not independent. All measures are computed
from sums over units, so that resampling units only changes the weights of the sums.

Sources:
    Cohen (1960), A coefficient of agreement for nominal scales.
    Krippendorff (2011), Computing Krippendorff's alpha-reliability; nominal metric.
    Gwet (2008), Computing inter-rater reliability and its variance in the presence of high agreement; for several
        raters and missing ratings Gwet (2014), Handbook of inter-rater reliability, 4th edition, chapter 3.
    Efron (1979), percentile bootstrap; tails as in `stats.bootstrap`.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import Agreement
from evalspec.verdict.stats.bootstrap import RESAMPLES, compute_student_tails
from evalspec.verdict.stats.bounded import estimate_share

RAW, KAPPA, ALPHA, AC1 = "raw agreement", "Cohen's kappa", "Krippendorff's alpha", "Gwet's AC1"

Compute = Callable[[Any], Any]
"""From sums, an array of shape (…, terms), to the values of a measure, of shape (…)."""

_CONFIDENCE = 0.95
_FEW = 5
"""Units with disagreement below which more than 1 % of the resamples have none."""

_ONE_CATEGORY = "all ratings are equal, so chance agreement is undefined"
TOO_FEW = "one is not enough for an interval"
_NO_PAIRS = "nothing has two blind ratings"
_MOST_RATERS = 40
MOST_PAIRS = 20
"""Pairs of people with a kappa of their own. All pairs of 1,000 people would be half a million."""


class RatedCase(Struct, frozen=True):
    """The ratings of one case by person. `unit`: cases of the same unit are not independent."""

    unit: Hashable
    ratings: Mapping[str, str]


def measure_agreement(cases: Sequence[RatedCase], categories: Sequence[str], common: int) -> list[Agreement]:
    """Return the measures over all people, then kappa of the pairs of people with most units in common.

    `categories`: all that are possible. `common`: least number of common units for kappa.
    """
    return [
        measure_raw(cases),
        measure_alpha(cases, categories),
        measure_ac1(cases, categories),
        *measure_pairs(cases, categories, common),
    ]


def measure_raw(cases: Sequence[RatedCase]) -> Agreement:
    """Return the mean share of agreeing pairs of ratings, over cases with two or more ratings.

    The interval is that of Clopper and Pearson (one case for each unit, two ratings each), else Gaffke's bound.
    """
    paired = [case for case in cases if len(case.ratings) > 1]
    units = [case.unit for case in paired]
    found = Agreement(measure=RAW, units=len(set(units)))
    if not paired:
        return replace(found, unknown=_NO_PAIRS)
    shares = [_share_agreeing(list(case.ratings.values())) for case in paired]
    value, interval, method = estimate_share(shares, units)
    unknown = None if interval else TOO_FEW
    return replace(found, value=value, interval=interval, interval_method=method, unknown=unknown)


def measure_alpha(cases: Sequence[RatedCase], categories: Sequence[str]) -> Agreement:
    """Return Krippendorff's alpha for nominal categories: 1 − observed over expected disagreement of pairs."""
    paired = [case for case in cases if len(case.ratings) > 1]
    size = len(categories)

    def describe(counts: Sequence[int]) -> list[float]:
        ratings = sum(counts)
        return [*counts, sum(one * (one - 1) for one in counts) / (ratings - 1)]

    def compute(sums: Any) -> Any:
        counts, agreeing = sums[..., :size], sums[..., size]
        total = counts.sum(axis=-1)
        expected = total * (total - 1) - (counts * (counts - 1)).sum(axis=-1)
        return 1 - (total - agreeing) * (total - 1) / expected

    return _estimate(Agreement(measure=ALPHA), paired, categories, describe, compute)


def compute_interval_alpha(cases: Sequence[Sequence[float]]) -> float | None:
    """Return Krippendorff's alpha of scores by case, with squared differences; None if no chance agreement is defined.

    Of 0/1 scores it equals that of two nominal categories.
    """
    paired = [case for case in cases if len(case) > 1]
    every = [value for case in paired for value in case]
    expected = _sum_differences(every)
    if not expected:
        return None
    observed = math.fsum(_sum_differences(case) / (len(case) - 1) for case in paired)
    return 1 - (len(every) - 1) * observed / expected


def _sum_differences(values: Sequence[float]) -> float:
    """Return the sum of the squared differences of all ordered pairs."""
    mean = math.fsum(values) / max(len(values), 1)
    return 2 * len(values) * math.fsum((one - mean) ** 2 for one in values)


def measure_ac1(cases: Sequence[RatedCase], categories: Sequence[str]) -> Agreement:
    """Return Gwet's AC1: (p_a − p_e) / (1 − p_e) with p_e = Σ π_k (1 − π_k) / (q − 1).

    π_k is the mean share of category k, over all rated cases, and p_a the raw agreement. Unlike kappa and alpha, AC1
    stays near the raw agreement when one category is rare.
    """
    size = len(categories)

    def describe(counts: Sequence[int]) -> list[float]:
        ratings = sum(counts)
        shares = [one / ratings for one in counts]
        if ratings < 2:
            return [*shares, 1, 0, 0]
        return [*shares, 1, sum(one * (one - 1) for one in counts) / (ratings * (ratings - 1)), 1]

    def compute(sums: Any) -> Any:
        shares = sums[..., :size] / sums[..., size : size + 1]
        by_chance = (shares * (1 - shares)).sum(axis=-1) / (size - 1)
        return (sums[..., size + 1] / sums[..., size + 2] - by_chance) / (1 - by_chance)

    rated = [case for case in cases if case.ratings]
    return _estimate(Agreement(measure=AC1), rated, categories, describe, compute)


def measure_pairs(cases: Sequence[RatedCase], categories: Sequence[str], common: int) -> list[Agreement]:
    """Return Cohen's kappa of pairs of people with units in common; unknown with fewer than `common`.

    Only the pairs with most units in common, among the people with most ratings. If there may be others, the last
    measure says so.
    """
    counts = Counter(who for case in cases for who in case.ratings)
    busiest = {who for who, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_RATERS]}
    shared: dict[tuple[str, str], list[RatedCase]] = {}
    for case in cases:
        for pair in combinations(sorted(busiest & case.ratings.keys()), 2):
            shared.setdefault(pair, []).append(case)
    ordered = sorted(shared, key=lambda pair: (-len({case.unit for case in shared[pair]}), pair))
    found = [measure_kappa(shared[pair], pair, categories, common) for pair in ordered[:MOST_PAIRS]]
    if len(ordered) <= MOST_PAIRS and len(counts) <= _MOST_RATERS:
        return found
    said = f"the other pairs of {len(counts):,} people, with fewer in common, are not computed"
    return [*found, Agreement(measure=KAPPA, unknown=said)]


def measure_kappa(
    cases: Sequence[RatedCase], pair: tuple[str, str], categories: Sequence[str], common: int
) -> Agreement:
    """Return Cohen's kappa of two people over the cases that both rated."""
    first, second = pair
    place = {category: number for number, category in enumerate(categories)}
    size = len(categories)
    found = Agreement(measure=KAPPA, raters=pair, units=len({case.unit for case in cases}))
    if found.units < common:
        return replace(found, unknown=f"{found.units} of the {common} in common that are needed")
    steady = [who for who in pair if len({case.ratings[who] for case in cases}) == 1]
    if steady and len({category for case in cases for category in map(case.ratings.get, pair)}) > 1:
        said = f"{steady[0]} always says {cases[0].ratings[steady[0]]}, so kappa is 0 however often they agree"
        return replace(found, unknown=said)
    cells = [size * place[case.ratings[first]] + place[case.ratings[second]] for case in cases]

    def compute(sums: Any) -> Any:
        table = sums.reshape(*sums.shape[:-1], size, size)
        total = table.sum(axis=(-2, -1))
        agreeing = table.trace(axis1=-2, axis2=-1) / total
        by_chance = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1) / total**2
        return (agreeing - by_chance) / (1 - by_chance)

    rows = [[float(cell == number) for number in range(size * size)] for cell in cells]
    chosen = [RatedCase(case.unit, {who: case.ratings[who] for who in pair}) for case in cases]
    return _resample(found, chosen, rows, compute)


def _share_agreeing(ratings: Sequence[str]) -> float:
    pairs = len(ratings) * (len(ratings) - 1)
    return sum(count * (count - 1) for count in Counter(ratings).values()) / pairs


def _estimate(
    found: Agreement,
    cases: Sequence[RatedCase],
    categories: Sequence[str],
    describe: Callable[[Sequence[int]], list[float]],
    compute: Compute,
) -> Agreement:
    """Return a measure of the category counts of cases. `describe`: the terms of a case; `compute` takes their sums."""
    paired = {case.unit for case in cases if len(case.ratings) > 1}
    found = replace(found, units=len(paired))
    if not paired:
        return replace(found, unknown=_NO_PAIRS)
    counts = [Counter(case.ratings.values()) for case in cases]
    rows = [describe([count[category] for category in categories]) for count in counts]
    return _resample(found, cases, rows, compute)


def _resample(
    found: Agreement,
    cases: Sequence[RatedCase],
    rows: Sequence[Sequence[float]],
    compute: Compute,
) -> Agreement:
    """Return the measure with its value, and the percentile interval over 2,000 resamples of the units, seed 0."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    members = [numbers.setdefault(case.unit, len(numbers)) for case in cases]
    sums = np.zeros((len(numbers), len(rows[0])))
    np.add.at(sums, members, np.asarray(rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(compute(sums.sum(axis=0)))
        if not np.isfinite(value):
            return replace(found, unknown=_ONE_CATEGORY)
        disagreeing = len({case.unit for case in cases if len(set(case.ratings.values())) > 1})
        if disagreeing < _FEW:
            few = f"an interval needs {_FEW} with disagreement, not {disagreeing}"
            return replace(found, value=value, unknown=few)
        kinds, repeats = np.unique(sums.round(12), axis=0, return_counts=True)
        draws = np.random.default_rng(0).multinomial(len(sums), repeats / len(sums), size=RESAMPLES)
        replicates = compute(draws @ kinds)
    low, high = np.quantile(replicates[np.isfinite(replicates)], compute_student_tails(len(sums), _CONFIDENCE))
    return replace(found, value=value, interval=(float(low), float(high)), interval_method="bootstrap")
