"""What may be said of the change between two runs over the same samples.

One test decides: the paired randomisation test, adjusted over all metrics that are looked at together. One interval
says how large the change may be: the bounded interval of paired differences. What a test could have found is computed
with that test, at its adjusted level.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from evalspec.stats.bounded import OF_DIFFERENCE
from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array
from evalspec.stats.detection import Power, compute_detectable, compute_needed, compute_needed_to_exclude
from evalspec.stats.max_t import compute_max_t
from evalspec.stats.paired import Alternative, compute_mcnemar_test, compute_randomisation_test
from evalspec.validity.coverage import exceeds_share
from evalspec.validity.estimates import Bounds, Estimate, estimate

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 10_000
_ROUNDING = 1e-9
MOST_UNPAIRED = 0.1
"""Share of samples scored in one run only beyond which nothing is said of the others; one sample is always allowed."""


@dataclass(frozen=True)
class PairedScores:
    """One metric over the samples that both runs have scored, one entry a sample.

    `units`: for each pair the sample or the cluster that is independent. `bounds`: the range that scores reach, None
    where there is none. `sign`: 1 where more is better, else -1. `unpaired`: samples that one run alone has scored.
    """

    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    units: Sequence[Hashable]
    is_clustered: bool = False
    bounds: Bounds | None = None
    sign: int = 1
    unpaired: int = 0

    def __len__(self) -> int:
        return len(self.differences)

    @cached_property
    def is_binary(self) -> bool:
        """Whether all scores are failures and passes."""
        return {*self.baseline, *self.candidate} <= {0, 1}

    @property
    def clusters(self) -> Sequence[Hashable] | None:
        """The units where they are clusters of samples; None where each sample is one."""
        return self.units if self.is_clustered else None

    @cached_property
    def count_units(self) -> int:
        """How many independent units there are."""
        return len(set(self.units))

    @property
    def lacks_pairs(self) -> bool:
        """Whether too many samples are scored in one run only for the others to speak for all."""
        return exceeds_share(self.unpaired, len(self) + self.unpaired, MOST_UNPAIRED)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a change is distinguished from noise. `two_sided`: improvements are looked for as well."""

    alpha: float = 0.05
    two_sided: bool = True
    resamples: int = RESAMPLES
    seed: int = 0

    @property
    def sides(self) -> int:
        """How many directions a test looks in."""
        return 2 if self.two_sided else 1

    def count_needed(self, tests: int = 1) -> int:
        """The least number of changed units that could reach alpha: the signs of n agree by luck in 2^-n.

        Fewer than one test needs never can, whatever the other tests are. Of several tests the number is Bonferroni's:
        maxT may find metrics that rise and fall together in fewer units.
        """
        return 1 + math.floor(math.log2(max(tests, 1) * self.sides / self.alpha))


@dataclass(frozen=True)
class Evidence:
    """What the pairs of one metric show.

    `estimate`: interval of the mean difference, candidate minus baseline. `p_value`: of the `test` by itself;
    `adjusted`: among all `tests`. `critical`: the statistic that is significant among all of them. Without pairs, or
    where no test was made, the p-values are None.
    """

    scores: PairedScores
    estimate: Estimate
    rules: Rules
    p_value: float | None = None
    adjusted: float | None = None
    test: str | None = None
    tests: int = 0
    critical: float = field(default=math.inf)

    @property
    def is_significant(self) -> bool:
        """Whether noise does not explain the change. In one-sided tests: the deterioration."""
        return self.adjusted is not None and self.adjusted < self.rules.alpha

    @property
    def units_needed(self) -> int:
        """The least number of independent units that could reach alpha, if all of them changed the same way."""
        return self.rules.count_needed(self.tests)

    @cached_property
    def changed(self) -> int:
        """How many independent units differ at all; only these can make a change significant."""
        if not len(self.scores):
            return 0
        sums, _ = sum_clusters(
            to_finite_array(self.scores.differences), number_clusters(self.scores.units, len(self.scores))
        )
        return int((abs(sums) > _ROUNDING * max(map(abs, self.scores.differences))).sum())

    @property
    def can_reach_alpha(self) -> bool:
        """Whether any outcome of these units could be significant."""
        return self.scores.count_units >= self.units_needed

    @cached_property
    def largest_drop(self) -> float | None:
        """The largest deterioration that the pairs leave open, one-sided at 1 - alpha; negative where the metric surely
        improved. The one bound of "cannot be ruled out" and of "is excluded"."""
        found = estimate_difference(self.scores, max(1 - 2 * self.rules.alpha, 0.0))
        return None if found.interval is None else max(-end * self.scores.sign for end in found.interval)

    def compute_detectable(self) -> float | None:
        """The smallest true change that this test finds in four of five such comparisons, in the score's unit."""
        return compute_detectable(self._power()) if self.can_reach_alpha else None

    def compute_needed(self, change: float) -> int | None:
        """About how many pairs like these would find a true change of that size in four of five comparisons."""
        return compute_needed(self._power(), change)

    def compute_needed_to_exclude(self, drop: float) -> int | None:
        """About how many pairs like these would exclude such a drop in four of five comparisons of equals."""
        return compute_needed_to_exclude(self._power(), drop, self.rules.alpha)

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


def weigh(families: Sequence[Sequence[PairedScores]], rules: Rules) -> list[list[Evidence]]:
    """The evidence of all metrics of all families; the metrics of a family are of the same samples.

    A metric without pairs is not tested.
    """
    found = [[_test(scores, rules) for scores in family] for family in families]
    tested = [[one for one in family if one.p_value is not None] for family in found]
    matrices = [_to_matrix([one.scores for one in family]) for family in tested]
    joint = compute_max_t(matrices, rules.alpha, two_sided=rules.two_sided, resamples=rules.resamples, seed=rules.seed)
    adjusted = iter(joint.adjusted)
    return [[_adjust(one, adjusted, len(joint.adjusted), joint.critical) for one in family] for family in found]


def estimate_difference(scores: PairedScores, confidence: float) -> Estimate:
    """The interval of the mean difference."""
    reach = None
    if scores.bounds is not None:
        low, high = scores.bounds
        reach = (low - high, high - low)
    return estimate(scores.differences, "mean", reach, confidence, clusters=scores.clusters, weight=OF_DIFFERENCE)


def _test(scores: PairedScores, rules: Rules) -> Evidence:
    evidence = Evidence(scores, estimate_difference(scores, 1 - rules.alpha), rules)
    if not len(scores):
        return evidence
    alternative: Alternative = "two-sided" if rules.two_sided else "less" if scores.sign == 1 else "greater"
    if scores.is_binary and not scores.is_clustered:
        mcnemar = compute_mcnemar_test(scores.baseline, scores.candidate, alternative)
        return replace(evidence, p_value=mcnemar.p_value if mcnemar else None, test="McNemar")
    test = compute_randomisation_test(
        scores.differences, alternative, clusters=scores.clusters, resamples=rules.resamples, seed=rules.seed
    )
    return replace(evidence, p_value=test.p_value if test else None, test="randomisation")


def _to_matrix(family: Sequence[PairedScores]) -> "NDArray[numpy.float64]":
    """Sums of differences by unit and metric, positive where the candidate is worse."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    for scores in family:
        for unit in scores.units:
            numbers.setdefault(unit, len(numbers))
    matrix = np.zeros((len(numbers), len(family)))
    for column, scores in enumerate(family):
        places = np.fromiter((numbers[unit] for unit in scores.units), dtype=np.intp)
        worse = -scores.sign * np.asarray(scores.differences)
        matrix[:, column] = np.bincount(places, weights=worse, minlength=len(numbers))
    return matrix


def _adjust(one: Evidence, adjusted: Iterator[float], tests: int, critical: float) -> Evidence:
    """A test alone keeps its exact p-value, and no adjustment makes one smaller."""
    if one.p_value is None:
        return replace(one, tests=tests, critical=critical)
    joint = next(adjusted)
    return replace(one, tests=tests, critical=critical, adjusted=one.p_value if tests == 1 else max(joint, one.p_value))
