"""Inference on the change between two runs over the same samples.

Significance: the paired randomisation test of no change, or the bounded test of a drop beyond a margin, adjusted over
all metrics that are tested together. Size of the change: the bounded interval of paired differences. Detectable change:
computed for the same test at its adjusted level.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from statistics import NormalDist

from msgspec import Struct
from msgspec.structs import replace

from evalspec.verdict.stats.bounded import compute_bounded_p_value
from evalspec.verdict.stats.clusters import number_clusters, sum_clusters
from evalspec.verdict.stats.descriptive import to_finite_array
from evalspec.verdict.stats.detection import (
    Power,
    compute_detectable,
    compute_moments,
    compute_needed,
    compute_needed_to_exclude,
)
from evalspec.verdict.stats.max_t import Family, compute_max_t
from evalspec.verdict.stats.paired import Alternative, compute_randomisation_test
from evalspec.verdict.stats.power import compute_chance
from evalspec.verdict.validity.coverage import exceeds_share
from evalspec.verdict.validity.estimates import Bounds, Estimate, estimate

RESAMPLES = 10_000
_ROUNDING = 1e-9
_NORMAL = NormalDist()
MOST_UNPAIRED = 0.1
"""Maximum share of samples that are scored in one run only. Above it, there is no inference. One is always allowed."""


class PairedScores(Struct, frozen=True, dict=True):
    """Scores of one metric on the samples that both runs have scored, one entry per sample.

    `units`: the independent unit of each pair, a sample or a cluster. `bounds`: range of possible scores, None if
    unbounded. `sign`: 1 if higher is better, else -1. `unpaired`: number of samples scored in one run only. `attempts`:
    the scores of all attempts of each pair, the candidate's last `own`; empty if each run has one per sample. `margin`:
    the deterioration that is allowed, so that only a larger one is significant.
    """

    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    units: Sequence[Hashable]
    is_clustered: bool = False
    bounds: Bounds | None = None
    sign: int = 1
    unpaired: int = 0
    attempts: Sequence[Sequence[float]] = ()
    own: int = 1
    margin: float = 0.0

    def __len__(self) -> int:
        return len(self.differences)

    @cached_property
    def is_binary(self) -> bool:
        """Whether all scores are 0 or 1."""
        return {*self.baseline, *self.candidate} <= {0, 1}

    @property
    def sides(self) -> tuple[int, int]:
        """The number of attempts of the baseline and of the candidate: a metric over attempts has one score of all."""
        return (len(self.attempts[0]) - self.own, self.own) if self.attempts else (1, 1)

    @property
    def reach(self) -> Bounds | None:
        """The range of possible differences. None if unbounded."""
        return None if self.bounds is None else (self.bounds[0] - self.bounds[1], self.bounds[1] - self.bounds[0])

    @property
    def is_bounded_test(self) -> bool:
        """Whether a drop beyond a margin is tested by the bounded test. The runs are not interchangeable then."""
        return self.margin > 0 and self.bounds is not None

    @property
    def chance(self) -> float:
        """The probability that a unit is as much worse as it can be by noise alone."""
        margin = self.margin / self.reach[1] if self.is_bounded_test and self.reach else 0.0
        return compute_chance(len(self.attempts[0]) - self.own if self.attempts else 1, self.own, margin)

    @property
    def clusters(self) -> Sequence[Hashable] | None:
        """The cluster of each pair. None if each sample is independent."""
        return self.units if self.is_clustered else None

    @cached_property
    def count_units(self) -> int:
        """The number of independent units."""
        return len(set(self.units))

    @property
    def lacks_pairs(self) -> bool:
        """Whether too many samples are scored in one run only, so the pairs may not be representative."""
        return exceeds_share(self.unpaired, len(self) + self.unpaired, MOST_UNPAIRED)


class SignificanceRules(Struct, frozen=True):
    """Settings of the tests. `two_sided`: test for improvements as well as deteriorations.

    `ranges`: how many intervals of a metric hold together at confidence 1 - alpha.
    """

    alpha: float = 0.05
    two_sided: bool = True
    resamples: int = RESAMPLES
    seed: int = 0
    ranges: int = 1

    @property
    def confidence(self) -> float:
        """The confidence of each interval (Bonferroni)."""
        return 1 - self.alpha / self.ranges

    @property
    def sides(self) -> int:
        """The number of directions that are tested."""
        return 2 if self.two_sided else 1

    def count_needed(self, tests: int = 1, chance: float = 0.5) -> int:
        """Return the smallest number of changed units that can reach alpha.

        n units agree by chance with probability chance^n: n signs with 2^-n. For several tests this is Bonferroni's
        bound: maxT may need fewer units if metrics rise and fall together, but never fewer than a single test.
        """
        return 1 + math.floor(math.log(max(tests, 1) * self.sides / self.alpha) / -math.log(chance))


class Evidence(Struct, frozen=True, dict=True):
    """The results of inference on the pairs of one metric.

    `estimate`: interval of the mean difference, candidate minus baseline. `p_value`: unadjusted p-value of `test`.
    `adjusted`: p-value adjusted over all `tests`. `critical`: critical value of the statistic over all tests. The
    p-values are None without pairs, and if nothing was tested.
    """

    scores: PairedScores
    estimate: Estimate
    rules: SignificanceRules
    p_value: float | None = None
    adjusted: float | None = None
    test: str | None = None
    tests: int = 0
    critical: float = math.inf

    @property
    def is_significant(self) -> bool:
        """Whether the change is significant. In one-sided tests: the deterioration."""
        return self.adjusted is not None and self.adjusted < self.rules.alpha

    @property
    def units_needed(self) -> int:
        """The smallest number of independent units that can reach alpha, if all of them change in one direction."""
        return self.rules.count_needed(self.tests, self.scores.chance)

    @cached_property
    def changed(self) -> int:
        """The number of independent units that changed. Only these can make a change significant."""
        if not len(self.scores):
            return 0
        sums, _ = sum_clusters(
            to_finite_array(self.scores.differences), number_clusters(self.scores.units, len(self.scores))
        )
        return int((abs(sums) > _ROUNDING * max(map(abs, self.scores.differences))).sum())

    @property
    def level(self) -> float:
        """The one-sided level of a single test, as far as the adjustment allows."""
        alone = self.rules.alpha / self.rules.sides
        if self.tests < 2:
            return alone
        return alone / self.tests if self.scores.is_bounded_test else min(alone, 1 - _NORMAL.cdf(self.critical))

    @property
    def can_reach_alpha(self) -> bool:
        """Whether any outcome with this number of units could be significant."""
        return self.scores.count_units >= self.units_needed

    @cached_property
    def largest_drop(self) -> float | None:
        """The largest deterioration that is compatible with the pairs: the one-sided bound at confidence 1 - alpha.

        Negative if an improvement is certain at that level. "cannot be ruled out" and "is excluded" use this bound.
        """
        found = estimate_difference(self.scores, max(1 - 2 * self.rules.alpha, 0.0))
        return None if found.interval is None else max(-end * self.scores.sign for end in found.interval)

    def compute_detectable(self) -> float | None:
        """Return the smallest true change that this test detects with 80 % power, in the unit of the score."""
        return compute_detectable(self._power()) if self.can_reach_alpha else None

    def compute_needed(self, change: float) -> int | None:
        """Return about how many pairs like these detect a true change of that size with 80 % power."""
        return compute_needed(self._power(), change)

    def compute_needed_to_exclude(self, drop: float) -> int | None:
        """Return about how many pairs like these exclude such a drop with 80 % power, if the runs are equal."""
        reach = self.scores.reach
        if reach is None:
            return None
        return compute_needed_to_exclude(compute_moments(self._power()), drop, self.rules.alpha, reach[1])

    def _power(self) -> Power:
        scores = self.scores
        worse = [-difference * scores.sign for difference in scores.differences]
        return Power(
            differences=worse,
            members=number_clusters(scores.units, len(worse)) if scores.is_clustered else None,
            is_binary=scores.is_binary,
            alpha=self.rules.alpha / self.rules.sides,
            critical=self.critical if self.tests > 1 else None,
        )


def weigh(families: Sequence[Sequence[PairedScores]], rules: SignificanceRules) -> list[list[Evidence]]:
    """Return the evidence of all metrics, by family. The metrics of a family have the same samples.

    Those with as many scores of each sample are exchanged together, and others separately, which is conservative.
    Metrics without pairs are not tested. Tests of no change are adjusted by maxT, and tests of a margin by Holm (1979).
    If there are both, each group has a share of alpha in proportion to its number of tests.
    """
    found = [[_test(scores, rules) for scores in family] for family in families]
    tested = [one for family in found for one in family if one.p_value is not None]
    exchanged = [(number, one.scores) for number, family in enumerate(found) for one in family if _is_exchanged(one)]
    groups: dict[Hashable, list[int]] = {}
    for place, (number, scores) in enumerate(exchanged):
        groups.setdefault((number, scores.sides), []).append(place)
    joint = compute_max_t(
        [_to_family([exchanged[place][1] for place in places]) for places in groups.values()],
        rules.alpha,
        two_sided=rules.two_sided,
        resamples=rules.resamples,
        seed=rules.seed,
    )
    margins = adjust_by_holm([one.p_value for one in tested if one.p_value is not None and not _is_exchanged(one)])
    shares = [len(tested) / max(1, len(group)) for group in (joint.adjusted, margins)]
    of_places = dict(zip(chain.from_iterable(groups.values()), joint.adjusted, strict=True))
    ordered = (of_places[place] for place in range(len(exchanged)))
    adjusted = iter(value * shares[0] for value in ordered), iter(value * shares[1] for value in margins)
    return [[_adjust(one, adjusted, len(tested), joint.critical) for one in family] for family in found]


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's (1979) step-down method, in the same order."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


def estimate_difference(scores: PairedScores, confidence: float) -> Estimate:
    """Return the interval of the mean difference, candidate minus baseline."""
    return estimate(scores.differences, "mean", scores.reach, confidence, clusters=scores.clusters)


def _is_exchanged(one: Evidence) -> bool:
    """Return whether a metric was tested by exchanging the attempts of both runs."""
    return one.p_value is not None and not one.scores.is_bounded_test


def _test(scores: PairedScores, rules: SignificanceRules) -> Evidence:
    evidence = Evidence(scores, estimate_difference(scores, rules.confidence), rules)
    if not len(scores):
        return evidence
    if scores.is_bounded_test and scores.reach is not None:
        gains = [difference * scores.sign for difference in scores.differences]
        p_value = compute_bounded_p_value(gains, scores.reach, -scores.margin, clusters=scores.clusters)
        return replace(evidence, p_value=p_value, test="bounded")
    alternative: Alternative = "two-sided" if rules.two_sided else "less" if scores.sign == 1 else "greater"
    if scores.attempts:
        joint = compute_max_t(
            [_to_family([scores])], rules.alpha, two_sided=rules.two_sided, resamples=rules.resamples, seed=rules.seed
        )
        return replace(evidence, p_value=joint.adjusted[0], test="randomisation")
    beyond = [difference + scores.margin * scores.sign for difference in scores.differences]
    test = compute_randomisation_test(
        beyond, alternative, clusters=scores.clusters, resamples=rules.resamples, seed=rules.seed
    )
    is_mcnemar = scores.is_binary and not scores.is_clustered and not scores.margin
    return replace(evidence, p_value=test.p_value if test else None, test="McNemar" if is_mcnemar else "randomisation")


def _to_family(family: Sequence[PairedScores]) -> Family:
    """Return the sums of each unit's scores in each attempt, larger where the candidate's are worse."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    for scores in family:
        for unit in scores.units:
            numbers.setdefault(unit, len(numbers))
    others, own = family[0].sides if family else (1, 1)
    count = others + own
    columns = np.zeros((len(numbers), count, len(family)))
    for column, scores in enumerate(family):
        places = np.fromiter((numbers[unit] for unit in scores.units), dtype=np.intp)
        attempts = scores.attempts or [(0.0, difference) for difference in scores.differences]
        worse = -scores.sign * np.asarray(attempts, dtype=np.float64)
        worse[:, count - own :] -= scores.margin
        np.add.at(columns[:, :, column], places, worse)
    return Family(columns, own)


def _adjust(one: Evidence, adjusted: tuple[Iterator[float], Iterator[float]], tests: int, critical: float) -> Evidence:
    """Return the evidence with its adjusted p-value.

    A single test keeps its exact p-value, and adjusting never makes a p-value smaller.
    """
    if one.p_value is None:
        return replace(one, tests=tests, critical=critical)
    joint = min(1.0, next(adjusted[0 if _is_exchanged(one) else 1]))
    return replace(one, tests=tests, critical=critical, adjusted=one.p_value if tests == 1 else max(joint, one.p_value))
