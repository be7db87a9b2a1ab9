"""Forecast what the gate's comparison with a baseline detects in each metric."""

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import DatasetResult, Direction, Need, Run
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.noise import Noise, count_attempts, estimate_noise
from evalspec.runs.planning.options import RunOptions
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.comparison.confirmation import ENOUGH_ATTEMPTS
from evalspec.verdict.comparison.drops import BY_VALUE, NO_SCORES, explain_block, resolve_limits
from evalspec.verdict.comparison.pairing import is_cost
from evalspec.verdict.stats.detection import compute_needed_to_exclude
from evalspec.verdict.stats.power import Design, find_detectable
from evalspec.verdict.validity.changes import Evidence, SignificanceRules, weigh

_ALPHA = 0.05
_LITTLE = 0.02
"""Share of a detectable drop that is not worth advice."""


class MetricForecast(Struct, frozen=True):
    """The detectable change of a metric.

    `limit`: its maxDrop. `pairs`: the samples with scores in both runs. `units`: the independent ones. `detectable`:
    the smallest drop that the gate detects in four of five runs, with the least and the most noise that is plausible;
    None with a `reason`. `needed`: about how many samples exclude a drop of `limit` if nothing changed; None without a
    limit or if unknown. `noise`: its source. `advice`: what confirmation costs, and what wins it back.
    """

    name: str
    direction: Direction
    limit: float
    pairs: int = 0
    units: int = 0
    detectable: tuple[float, float] | None = None
    needed: int | None = None
    reason: str | None = None
    noise: str | None = None
    is_measured: bool = False
    advice: str | None = None


class _Limited(Struct, frozen=True):
    """A metric with a maxDrop. `reason`: why it cannot be tested."""

    forecast: MetricForecast
    noise: Noise | None = None


def count_baseline(baseline: Run | None, after: DatasetResult, options: RunOptions) -> int:
    """Return the number of attempts per sample in the baseline; without one, it is assumed to be made like this run."""
    before = baseline.find_dataset(after.name) if baseline else None
    return options.repeat if before is None else count_attempts(before.samples)


class PlannedComparison(Struct, frozen=True):
    """A planned run, to be compared with a baseline. `planned`: its datasets without skipped metrics."""

    datasets: Sequence[PlannedDataset]
    planned: Sequence[DatasetResult]
    outlined: Run
    policy: CiGate
    options: RunOptions

    def foresee(self, baseline: Run | None, share: float) -> tuple[list[tuple[MetricForecast, ...]], int]:
        """Return the metrics with a maxDrop by dataset, and the number of tests. `share`: of the significance level."""
        families = [
            self._limit(dataset, after, baseline) for dataset, after in zip(self.datasets, self.planned, strict=True)
        ]
        noises = [[one.noise.scores for one in family if one.noise] for family in families]
        evidence = weigh(noises, SignificanceRules(share * (self.policy.alpha or _ALPHA), two_sided=False))
        forecasts = []
        for after, family, found in zip(self.planned, families, evidence, strict=True):
            weighed, attempts = iter(found), count_baseline(baseline, after, self.options)
            forecasts.append(
                tuple(
                    self._foresee(one.forecast, one.noise, next(weighed), attempts) if one.noise else one.forecast
                    for one in family
                )
            )
        return forecasts, max((one.tests for family in evidence for one in family), default=0)

    def _limit(self, dataset: PlannedDataset, after: DatasetResult, baseline: Run | None) -> list[_Limited]:
        """Return the metrics of a dataset with a maxDrop, each with its noise or the reason why it is unknown."""
        before, policy = baseline.find_dataset(after.name) if baseline else None, self.policy
        blocked = explain_block(baseline, self.outlined, after.name) if baseline is not None else None
        metrics = dataset.metrics
        limited = []
        for name, limit in resolve_limits(policy, before or after, after).items():
            if before is None and not isinstance(policy.max_drop, dict) and not _may_be_within_one(metrics[name]):
                continue
            forecast = MetricForecast(name, after.metrics[name].direction, limit)
            reason = blocked
            if before is not None and name not in before.metrics:
                reason = reason or NO_SCORES
            if after.metrics[name].statistic != "mean":
                reason = reason or BY_VALUE
            if reason:
                limited.append(_Limited(replace(forecast, reason=reason)))
                continue
            is_binary = _is_binary(metrics[name], self.options)
            noise = estimate_noise(name, before, after, self.options.repeat, is_binary=is_binary)
            if not len(noise.scores):
                reason = "the baseline has no scores for these samples: promote a new baseline"
                limited.append(_Limited(replace(forecast, reason=reason)))
                continue
            limited.append(_Limited(forecast, replace(noise, scores=replace(noise.scores, margin=limit))))
        return limited

    def _foresee(self, forecast: MetricForecast, noise: Noise, evidence: Evidence, attempts: int) -> MetricForecast:
        scores, is_tested = noise.scores, self.policy.alpha is not None
        reach = scores.reach[1] if scores.reach else None
        level = evidence.level if noise.is_measured else evidence.rules.alpha / max(1, evidence.tests)
        design = Design(
            attempts,
            self.options.repeat,
            level if is_tested else None,
            forecast.limit,
            reach,
            confirmed=is_tested and not self.options.has_replies,
        )
        found = replace(
            forecast,
            pairs=len(scores),
            units=scores.count_units,
            needed=_count_needed(noise, design, evidence),
            noise=noise.source,
            is_measured=noise.is_measured,
        )
        detectable, reason = _compute_detectable(evidence, noise, design)
        advice = _advise(noise, design, detectable[1]) if detectable and design.confirmed else None
        return replace(found, detectable=detectable, reason=reason, advice=advice)


def choose_finer(one: MetricForecast, anchored: MetricForecast) -> MetricForecast:
    """Return the forecast of the comparison that detects the smaller drop: with the baseline, or with its anchor."""
    if anchored.detectable is None or (one.detectable is not None and one.detectable[1] <= anchored.detectable[1]):
        return one
    return replace(anchored, needed=one.needed)


def _may_be_within_one(metric: Metric) -> bool:
    """Return whether all scores may be from 0 to 1, according to the metric's bounds."""
    high = metric.bounds[1]
    return not is_cost(metric.name, metric.definition.statistic) and (high is None or high <= 1)


def _is_binary(metric: Metric, options: RunOptions) -> bool:
    """Return whether each reply scores 0 or 1. Averaged judge grades do not."""
    return metric.definition.is_binary and (options.judge_repeat == 1 or Need.JUDGE not in metric.needs)


def _count_needed(noise: Noise, design: Design, evidence: Evidence) -> int | None:
    """Return about how many samples exclude a drop of the margin, if nothing changed; None if nothing has to be."""
    variance = fmean(model.variance for model in noise.models) * (1 / design.attempts + 1 / design.own)
    if not variance or not design.is_bounded_test:
        return None
    size = len(noise.scores) / noise.scores.count_units
    return compute_needed_to_exclude((variance, size), design.margin, evidence.rules.alpha, design.reach or 0.0)


def _compute_detectable(
    evidence: Evidence, noise: Noise, design: Design
) -> tuple[tuple[float, float] | None, str | None]:
    """Return the range of the smallest drop that the gate's own test detects in four of five runs, or a reason."""
    scores, unit = evidence.scores, "cluster" if evidence.scores.is_clustered else "sample"
    count = counted(scores.count_units, unit)
    needed = evidence.rules.count_needed(evidence.tests, design.luck)
    if design.level is not None and scores.count_units < needed:
        return None, f"{count} cannot show a change at alpha {evidence.rules.alpha:g}: at least {needed} are needed"
    if not noise.models[1].variance:
        return None, (
            f"no noise was observed, so its size is unknown; a change in at least {needed} {unit}s is detected"
        )
    least, most = (find_detectable(model, design) for model in noise.models)
    if most is None:
        return None, f"{count} cannot detect even the largest change in four of five runs"
    return (min(most, most if least is None else least), most), None


def _advise(noise: Noise, design: Design, detectable: float) -> str | None:
    """Return what confirmation costs, and what more attempts of the baseline win back. None if it costs little."""
    loud = noise.models[1]
    alone = find_detectable(loud, replace(design, confirmed=False))
    if alone is None or detectable <= alone * (1 + _LITTLE):
        return None
    cost = f"a second run has to confirm a drop, so {detectable:.3g} is detected instead of {alone:.3g}"
    if design.attempts >= ENOUGH_ATTEMPTS:
        return cost
    more = find_detectable(loud, replace(design, attempts=ENOUGH_ATTEMPTS))
    advice = f"evaluate --repeat {ENOUGH_ATTEMPTS}, then promote"
    return cost if more is None else f"{cost}; with {ENOUGH_ATTEMPTS} attempts in the baseline {more:.3g} ({advice})"
