"""Statistics of K attempts per sample and J gradings per reply: pass rates, and the sources of the variance."""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean

from msgspec import Struct

_ROUNDING = 1e-12
"""Differences up to this are rounding errors."""
_MOST_COINS = 2000
"""Above this many, a sum of coins is treated as normal."""


class VarianceComponents(Struct, frozen=True):
    """Variances of a score, in its unit squared; None if there are too few repeats.

    `judge`: between gradings of one reply. `replies`: the observed variance between replies to one sample, from agent
    and judge together. `agent`: `replies` without the judge's part; 0 if the judge's noise explains all of it.
    """

    judge: float | None
    agent: float | None
    replies: float | None


def compute_pass_at_k(attempts: int, passes: int, k: int) -> float | None:
    """Return the probability that at least one of k attempts passes: 1 - C(n - c, k) / C(n, k).

    Unbiased (Chen et al. 2021, HumanEval). Correctly rounded for any n, as a quotient of integers. None with fewer than
    k attempts.

    Raises:
        ValueError: k is below 1, or the passes are not between 0 and the attempts.
    """
    ways = _choose(attempts, passes, k)
    return (ways - math.comb(attempts - passes, k)) / ways if ways else None


def compute_pass_hat_k(attempts: int, passes: int, k: int) -> float | None:
    """Return the probability that all of k attempts pass, pass^k: C(c, k) / C(n, k).

    Unbiased (Yao et al. 2024, tau-bench). Correctly rounded for any n, as a quotient of integers. None with fewer than
    k attempts.

    Raises:
        ValueError: k is below 1, or the passes are not between 0 and the attempts.
    """
    ways = _choose(attempts, passes, k)
    return math.comb(passes, k) / ways if ways else None


def compute_new_failure_p_value(samples: Iterable[tuple[int, int, int, int]], failing: int) -> float:
    """Return the probability that an unchanged agent has at least `failing` new failures.

    A new failure is a sample that passes every attempt of one run, and not all of the next. `samples`: passes before,
    attempts before, passes after and attempts after of each sample. Without a change, the attempts of a sample are
    exchangeable. Given its passes in both runs together, all attempts of the first run pass with probability
    C(passes, before) / C(attempts, before) (Fisher 1934, with the margins of the table given). The number of such
    samples is a sum of independent coins, enumerated up to 2,000 coins. The level holds however flaky a sample is.
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
    """Return judge and agent variance of a score, from samples[i][attempt][grading]. One sample gives its own.

    Counts may differ. An attempt without a grading is left out. Nested analysis of variance with unweighted means
    (Searle, Casella and McCulloch 1992): the judge variance is pooled within replies, and the variance of the reply
    means within samples. The agent's variance is the latter without its share of judge variance,
    max(0, replies - judge x mean(1 / J)).

    `judge` and `agent` are unknown unless a reply was graded twice, `agent` and `replies` unless a sample has two
    replies. If a score has no noise of its own (an exact match), `replies` is the agent's variance.
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
    """The variance within groups: their sums of squares over their degrees of freedom."""

    def __init__(self) -> None:
        self.squares = 0.0
        self.freedom = 0

    def add(self, group: Sequence[float]) -> None:
        """Add a group. Values that differ only by rounding have no variance."""
        if len(group) > 1:
            mean = fmean(group)
            differ = not math.isclose(min(group), max(group), rel_tol=_ROUNDING, abs_tol=_ROUNDING)
            self.squares += math.fsum((value - mean) ** 2 for value in group) if differ else 0.0
            self.freedom += len(group) - 1

    def variance(self) -> float | None:
        return self.squares / self.freedom if self.freedom else None


def _choose(attempts: int, passes: int, k: int) -> int:
    if k < 1 or not 0 <= passes <= attempts:
        raise ValueError(f"{passes} passes of {attempts} attempts with k = {k} is impossible")
    return math.comb(attempts, k)
