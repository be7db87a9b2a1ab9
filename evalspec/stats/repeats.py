"""Each sample asked K times, each reply judged J times: how often it works, and where the spread comes from."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

_MOST_COINS = 2000
"""Above so many, a sum of coins is as good as normal."""


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variances of a score, in its unit squared; None where the repeats do not tell.

    `judge`: between judgements of one reply. `replies`: between replies to one sample as they are seen, agent and judge
    together. `agent`: what is left of `replies` without the judge; 0 where the judge's noise explains all of it.
    """

    judge: float | None
    agent: float | None
    replies: float | None


def compute_pass_at_k(attempts: int, passes: int, k: int) -> float | None:
    """Chance that at least one of k attempts passes: 1 - C(n - c, k) / C(n, k), unbiased (Chen et al. 2021, HumanEval).

    Correctly rounded for any n: the quotient is of integers. None with fewer than k attempts.

    Raises:
        ValueError: k is below 1, or the passes are not between 0 and the attempts.
    """
    ways = _choose(attempts, passes, k)
    return (ways - math.comb(attempts - passes, k)) / ways if ways else None


def compute_pass_hat_k(attempts: int, passes: int, k: int) -> float | None:
    """Chance that all of k attempts pass, pass^k: C(c, k) / C(n, k), unbiased (Yao et al. 2024, tau-bench).

    Correctly rounded for any n: the quotient is of integers. None with fewer than k attempts.

    Raises:
        ValueError: k is below 1, or the passes are not between 0 and the attempts.
    """
    ways = _choose(attempts, passes, k)
    return math.comb(passes, k) / ways if ways else None


def compute_new_failure_p_value(samples: Iterable[tuple[int, int, int, int]], failing: int) -> float:
    """Chance that an unchanged agent has so many samples that pass every attempt of one run and not all of the next.

    `samples`: passes and attempts of each sample, before and after. If nothing changed, the attempts of a sample could
    have come in any order: given its passes in both runs together, C(passes, before) / C(attempts, before) is the
    chance that all attempts of the first run are passes (Fisher 1934, the margins of a table given). The number of such
    samples is a sum of independent coins, enumerated up to 2,000 of them. However flaky a sample is, the level is kept.
    """
    chances = [
        math.comb(passed + now, before) / math.comb(before + after, before)
        for passed, before, now, after in samples
        if before <= passed + now < before + after
    ]
    if len(chances) > _MOST_COINS:
        mean, variance = math.fsum(chances), math.fsum(chance * (1 - chance) for chance in chances)
        return 1 - NormalDist(mean, math.sqrt(variance)).cdf(failing - 0.5)
    counts = [1.0]
    for chance in chances:
        pairs = zip([*counts, 0.0], [0.0, *counts], strict=True)
        counts = [stays * (1 - chance) + joins * chance for stays, joins in pairs]
    return min(1.0, math.fsum(counts[failing:]))


def compute_variance_components(samples: Iterable[Sequence[Sequence[float]]]) -> VarianceComponents:
    """Judge and agent variance of a score, from samples[i][attempt][judgement]; give one sample alone for its own.

    Counts may differ; an attempt without a judgement is left out. Nested analysis of variance with unweighted means
    (Searle, Casella and McCulloch 1992): the judge variance is pooled within replies, the variance of the
    reply means is pooled within samples, and the agent's is that without its share of judge variance,
    max(0, replies - judge x mean(1 / J)).

    Without a reply that was judged twice `judge` and `agent` are unknown, without a sample that has two replies `agent`
    and `replies` are. Where a score has no noise of its own (an exact match), `replies` is the agent's variance.
    """
    within, between = _Pool(), _Pool()
    shares = 0.0
    for sample in samples:
        replies = [reply for reply in sample if reply]
        for reply in replies:
            within.add(reply)
        between.add([fmean(reply) for reply in replies])
        if replies:
            shares += (len(replies) - 1) * fmean(1 / len(reply) for reply in replies)
    judge, seen = within.variance(), between.variance()
    agent = None if judge is None or seen is None else max(0.0, seen - judge * shares / between.freedom)
    return VarianceComponents(judge, agent, seen)


class _Pool:
    """Variance within groups: their sums of squares over their degrees of freedom."""

    def __init__(self) -> None:
        self.squares = 0.0
        self.freedom = 0

    def add(self, group: Sequence[float]) -> None:
        if len(group) > 1:
            mean = fmean(group)
            self.squares += math.fsum((value - mean) ** 2 for value in group)
            self.freedom += len(group) - 1

    def variance(self) -> float | None:
        return self.squares / self.freedom if self.freedom else None


def _choose(attempts: int, passes: int, k: int) -> int:
    if k < 1 or not 0 <= passes <= attempts:
        raise ValueError(f"{passes} passes of {attempts} attempts with k = {k} cannot be")
    return math.comb(attempts, k)
