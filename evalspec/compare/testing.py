"""One metric over the same samples of two runs: its change, how sure it is, and whether chance explains it."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from evalspec.compare.comparison import Change, Delta, MetricChange
from evalspec.compare.pairing import ScorePairs, label_clusters, sign_of
from evalspec.compare.percentiles import bootstrap_percentile_difference
from evalspec.records import Direction, SampleResult
from evalspec.stats import bootstrap_interval, compute_statistic
from evalspec.stats.descriptive import find_share
from evalspec.stats.effects import compute_effect_size, compute_minimum_detectable_change
from evalspec.stats.paired import (
    Alternative,
    compute_mcnemar_test,
    compute_randomisation_test,
)

LEAST_PAIRS = 5
"""Pairs below which nothing is said of a change, whatever alpha is."""

_LEAST_FOR_PERCENTILE = 10
_LEAST_BEYOND = 2
"""Pairs that must lie beyond a percentile on average: with one in twenty, at least 40 pairs. With fewer its resamples
are the same few values over and over, and it seems to change in up to one of five comparisons of equals (measured)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a change is told from chance."""

    alpha: float = 0.05
    resamples: int = 10_000
    seed: int = 0

    @property
    def confidence(self) -> float:
        """Of the intervals: one that leaves out 0 says what a test at alpha says."""
        return 1 - self.alpha


def compute_p_value(
    scores: ScorePairs,
    alternative: Alternative,
    clusters: Sequence[Hashable] | None,
    resamples: int,
    seed: int,
) -> tuple[float, str] | None:
    """P-value of the paired test that suits the scores, and its name; None without pairs."""
    if clusters is None and {*scores.baseline, *scores.candidate} <= {0, 1}:
        mcnemar = compute_mcnemar_test(scores.baseline, scores.candidate, alternative)
        return (mcnemar.p_value, "McNemar") if mcnemar else None
    test = compute_randomisation_test(
        scores.differences, alternative, clusters=clusters, resamples=resamples, seed=seed
    )
    return (test.p_value, "randomisation") if test else None


def compute_delta(scores: ScorePairs, metric: str, statistic: str, cluster: str | None, rules: Rules) -> Delta:
    """The statistic of both sides over the pairs, and the interval of its difference.

    A statistic other than the mean is one of single replies, so that each attempt of a sample counts.
    """
    pairs = len(scores)
    if not pairs:
        return Delta(None, None, None, None, 0)
    labels = label_clusters(scores.members, cluster) if cluster else None
    if statistic == "mean":
        before, after = (compute_statistic(values, "mean") for values in (scores.baseline, scores.candidate))
        interval = bootstrap_interval(
            scores.differences, confidence=rules.confidence, resamples=rules.resamples, seed=rules.seed, clusters=labels
        )
        delta = compute_statistic(scores.differences, "mean")
        return Delta(before, after, delta, interval, pairs)
    members = scores.members
    names: Sequence[Hashable] = labels or range(pairs)
    old, old_units = _replies([pair[0] for pair in members], names, metric)
    new, new_units = _replies([pair[1] for pair in members], names, metric)
    before, after = compute_statistic(old, statistic), compute_statistic(new, statistic)
    span = bootstrap_percentile_difference(
        old, new, old_units, new_units, statistic, rules.confidence, rules.resamples, rules.seed
    )
    return Delta(before, after, after - before, span, pairs)


def compute_change(
    scores: ScorePairs,
    metric: str,
    statistic: str,
    direction: Direction,
    cluster: str | None,
    rules: Rules,
) -> MetricChange:
    """One metric with its own p-value; `settle` says what it comes to among all others."""
    found = compute_delta(scores, metric, statistic, cluster, rules)
    change = MetricChange(metric, statistic, direction, found, Change.TOO_FEW)
    if statistic != "mean" or not len(scores):
        return change
    labels = label_clusters(scores.members, cluster) if cluster else None
    p_value = compute_p_value(scores, "two-sided", labels, rules.resamples, rules.seed)
    effect = compute_effect_size(scores.differences)
    return replace(
        change,
        p_value=p_value[0] if p_value else None,
        test=p_value[1] if p_value else None,
        detectable=compute_minimum_detectable_change(scores.differences, rules.alpha, clusters=labels),
        cohens_dz=effect.cohens_dz if effect else None,
        superiority=effect.superiority if effect else None,
    )


def settle(change: MetricChange, adjusted: float | None, tests: int, rules: Rules) -> MetricChange:
    """What a change comes to. `adjusted`: its p-value among the `tests` of the comparison, None where it has none."""
    reason = _too_few(change, tests, rules)
    if reason:
        return replace(change, change=Change.TOO_FEW, adjusted=adjusted, reason=reason)
    low, high = change.found.interval or (0.0, 0.0)
    beyond_chance = low > 0 or high < 0 if adjusted is None else adjusted < rules.alpha
    better = (change.found.delta or 0.0) * sign_of(change.direction)
    if not beyond_chance or not better:
        return replace(change, change=Change.NO_EVIDENCE, adjusted=adjusted)
    return replace(change, change=Change.IMPROVED if better > 0 else Change.DEGRADED, adjusted=adjusted)


def can_reach(pairs: int, alpha: float, tests: int, sides: int) -> bool:
    """Whether so many pairs can ever bring a p-value below alpha: at best all of them differ the same way, which
    chance does once in 2 to the power of their number."""
    return tests * sides * 0.5**pairs < alpha


def count_needed(statistic: str) -> float:
    """Pairs that a percentile needs for its interval to be trusted; infinite for the least and the greatest value."""
    share = find_share(statistic)
    beyond = min(share, 1 - share)
    return max(_LEAST_FOR_PERCENTILE, math.ceil(_LEAST_BEYOND / beyond - 1e-9)) if beyond else math.inf


def _too_few(change: MetricChange, tests: int, rules: Rules) -> str | None:
    pairs = change.found.pairs
    if not pairs:
        return "no sample is scored in both"
    if change.statistic != "mean":
        needed = count_needed(change.statistic)
        if math.isinf(needed):
            return f"a {change.statistic} rests on one value"
        return f"{pairs} pairs, {change.statistic} needs {needed}" if pairs < needed else None
    if pairs < LEAST_PAIRS or not can_reach(pairs, rules.alpha, tests, sides=2):
        return f"{pairs} {'pair' if pairs == 1 else 'pairs'} can show nothing at alpha {rules.alpha:g}"
    return None


def _replies(
    samples: Sequence[SampleResult], names: Sequence[Hashable], metric: str
) -> tuple[list[float], list[Hashable]]:
    """The values of single replies, and the unit that each is of."""
    values, units = [], []
    for sample, name in zip(samples, names, strict=True):
        for asking in sample.attempts or (sample,):
            score = asking.scores.get(metric)
            if score is not None and score.value is not None:
                values.append(score.value)
                units.append(name)
    return values, units
