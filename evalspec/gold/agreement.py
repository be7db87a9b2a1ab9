"""How well reviewers agree: raw agreement, Cohen's kappa, Krippendorff's alpha and Gwet's AC1, with intervals.

A rating is one category by one person for one unit, here a revision of a triple. Units may have any number of ratings.
All measures are computed from sums over triples, so that resampling triples only changes the weights of the sums.

Sources:
    Cohen (1960), A coefficient of agreement for nominal scales.
    Krippendorff (2011), Computing Krippendorff's alpha-reliability; nominal metric.
    Gwet (2008), Computing inter-rater reliability and its variance in the presence of high agreement; for several
        raters and missing ratings Gwet (2014), Handbook of inter-rater reliability, 4th edition, chapter 3.
    Efron (1979), percentile bootstrap; tails as in `stats.bootstrap`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import AgreementMeasure
from evalspec.stats.bootstrap import RESAMPLES, compute_student_tails
from evalspec.stats.bounded import compute_bounded_interval

RAW, KAPPA, ALPHA, AC1 = "raw agreement", "Cohen's kappa", "Krippendorff's alpha", "Gwet's AC1"

Compute = Callable[[Any], Any]
"""From sums, an array of shape (…, terms), to the values of a measure, of shape (…)."""

_CONFIDENCE = 0.95
_FEW = 5
"""Triples with disagreement below which more than 1 % of the resamples have none."""

_ONE_CATEGORY = "all reviews say the same, so chance agreement is undefined"
_NO_PAIRS = "no triple has two blind reviews"


class Unit(Struct, frozen=True):
    """One rated revision. `triple`: its triple; revisions of one triple are not independent."""

    triple: Hashable
    ratings: Mapping[str, str]


def measure_agreement(units: Sequence[Unit], categories: Sequence[str], common: int) -> list[AgreementMeasure]:
    """Return the measures over all reviewers, then kappa of each pair of reviewers with any triple in common.

    `categories`: all that are possible. `common`: least number of common triples for kappa. The pairs with most
    triples in common come first.
    """
    return [
        measure_raw(units),
        measure_alpha(units, categories),
        measure_ac1(units, categories),
        *measure_pairs(units, categories, common),
    ]


def measure_raw(units: Sequence[Unit]) -> AgreementMeasure:
    """Return the mean share of agreeing pairs of ratings, over units with two or more ratings.

    The interval is that of Clopper and Pearson (one unit for each triple, two ratings each), else Gaffke's bound.
    """
    paired = [unit for unit in units if len(unit.ratings) > 1]
    triples = [unit.triple for unit in paired]
    found = AgreementMeasure(measure=RAW, triples=len(set(triples)))
    if not paired:
        return replace(found, unknown=_NO_PAIRS)
    shares = [_share_agreeing(list(unit.ratings.values())) for unit in paired]
    is_plain = len(set(triples)) == len(triples)
    interval = compute_bounded_interval(shares, (0.0, 1.0), clusters=None if is_plain else triples)
    method = "exact" if is_plain and set(shares) <= {0.0, 1.0} else "bounded"
    unknown = None if interval else "one triple is not enough for an interval"
    value = sum(shares) / len(shares)
    return replace(found, value=value, interval=interval, interval_method=interval and method, unknown=unknown)


def measure_alpha(units: Sequence[Unit], categories: Sequence[str]) -> AgreementMeasure:
    """Return Krippendorff's alpha for nominal categories: 1 − observed over expected disagreement of pairs."""
    paired = [unit for unit in units if len(unit.ratings) > 1]
    size = len(categories)

    def describe(counts: Sequence[int]) -> list[float]:
        ratings = sum(counts)
        return [*counts, sum(one * (one - 1) for one in counts) / (ratings - 1)]

    def compute(sums: Any) -> Any:
        counts, agreeing = sums[..., :size], sums[..., size]
        total = counts.sum(axis=-1)
        expected = total * (total - 1) - (counts * (counts - 1)).sum(axis=-1)
        return 1 - (total - agreeing) * (total - 1) / expected

    return _estimate(AgreementMeasure(measure=ALPHA), paired, categories, describe, compute)


def measure_ac1(units: Sequence[Unit], categories: Sequence[str]) -> AgreementMeasure:
    """Return Gwet's AC1: (p_a − p_e) / (1 − p_e) with p_e = Σ π_k (1 − π_k) / (q − 1).

    π_k is the mean share of category k, over all rated units, and p_a the raw agreement. Unlike kappa and alpha, AC1
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

    rated = [unit for unit in units if unit.ratings]
    return _estimate(AgreementMeasure(measure=AC1), rated, categories, describe, compute)


def measure_pairs(units: Sequence[Unit], categories: Sequence[str], common: int) -> list[AgreementMeasure]:
    """Return Cohen's kappa of each pair of people with triples in common; unknown with fewer than `common`."""
    shared: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        for pair in combinations(sorted(unit.ratings), 2):
            shared.setdefault(pair, []).append(unit)
    found = [measure_kappa(own, pair, categories, common) for pair, own in sorted(shared.items())]
    return sorted(found, key=lambda one: -one.triples)


def measure_kappa(
    units: Sequence[Unit], pair: tuple[str, str], categories: Sequence[str], common: int
) -> AgreementMeasure:
    """Return Cohen's kappa of two people over the units that both rated."""
    first, second = pair
    place = {category: number for number, category in enumerate(categories)}
    size = len(categories)
    found = AgreementMeasure(measure=KAPPA, reviewers=pair, triples=len({unit.triple for unit in units}))
    if found.triples < common:
        return replace(found, unknown=f"{found.triples} of the {common} triples in common that are needed")
    steady = [who for who in pair if len({unit.ratings[who] for unit in units}) == 1]
    if steady and len({category for unit in units for category in map(unit.ratings.get, pair)}) > 1:
        said = f"{steady[0]} always says {units[0].ratings[steady[0]]}, so kappa is 0 however often they agree"
        return replace(found, unknown=said)
    cells = [size * place[unit.ratings[first]] + place[unit.ratings[second]] for unit in units]

    def compute(sums: Any) -> Any:
        table = sums.reshape(*sums.shape[:-1], size, size)
        total = table.sum(axis=(-2, -1))
        agreeing = table.trace(axis1=-2, axis2=-1) / total
        by_chance = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1) / total**2
        return (agreeing - by_chance) / (1 - by_chance)

    rows = [[float(cell == number) for number in range(size * size)] for cell in cells]
    chosen = [Unit(unit.triple, {who: unit.ratings[who] for who in pair}) for unit in units]
    return _resample(found, chosen, rows, compute)


def _share_agreeing(ratings: Sequence[str]) -> float:
    pairs = len(ratings) * (len(ratings) - 1)
    return sum(count * (count - 1) for count in Counter(ratings).values()) / pairs


def _estimate(
    found: AgreementMeasure,
    units: Sequence[Unit],
    categories: Sequence[str],
    describe: Callable[[Sequence[int]], list[float]],
    compute: Compute,
) -> AgreementMeasure:
    """Return a measure of the category counts of units. `describe`: the terms of a unit; `compute` takes their sums."""
    paired = {unit.triple for unit in units if len(unit.ratings) > 1}
    found = replace(found, triples=len(paired))
    if not paired:
        return replace(found, unknown=_NO_PAIRS)
    counts = [Counter(unit.ratings.values()) for unit in units]
    rows = [describe([count[category] for category in categories]) for count in counts]
    return _resample(found, units, rows, compute)


def _resample(
    found: AgreementMeasure,
    units: Sequence[Unit],
    rows: Sequence[Sequence[float]],
    compute: Compute,
) -> AgreementMeasure:
    """Return the measure with its value, and the percentile interval over 2,000 resamples of the triples, seed 0."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    members = [numbers.setdefault(unit.triple, len(numbers)) for unit in units]
    sums = np.zeros((len(numbers), len(rows[0])))
    np.add.at(sums, members, np.asarray(rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(compute(sums.sum(axis=0)))
        if not np.isfinite(value):
            return replace(found, unknown=_ONE_CATEGORY)
        disagreeing = len({unit.triple for unit in units if len(set(unit.ratings.values())) > 1})
        if disagreeing < _FEW:
            few = f"an interval needs {_FEW} triples with disagreement, not {disagreeing}"
            return replace(found, value=value, unknown=few)
        kinds, repeats = np.unique(sums.round(12), axis=0, return_counts=True)
        draws = np.random.default_rng(0).multinomial(len(sums), repeats / len(sums), size=RESAMPLES)
        replicates = compute(draws @ kinds)
    low, high = np.quantile(replicates[np.isfinite(replicates)], compute_student_tails(len(sums), _CONFIDENCE))
    return replace(found, value=value, interval=(float(low), float(high)), interval_method="bootstrap")
