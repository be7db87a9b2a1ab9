"""Forecast what the gate's comparison with a baseline detects in each metric.

How much the scores of an unchanged agent differ between runs is measured on a baseline, otherwise assumed.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, pvariance

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import DatasetResult, Need, Run, SampleResult, Score
from evalspec.model.forecasts import MetricForecast, NoiseBasis
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.comparison.confirmation import ENOUGH_ATTEMPTS
from evalspec.verdict.comparison.drops import BY_VALUE, NO_SCORES, explain_block, resolve_limits
from evalspec.verdict.comparison.pairing import (
    Pair,
    has_all_attempts,
    is_cost,
    is_edited,
    pair_scores,
    to_paired,
)
from evalspec.verdict.stats.clusters import number_clusters
from evalspec.verdict.stats.detection import compute_needed_to_exclude
from evalspec.verdict.stats.power import AttemptModel, Design, find_detectable
from evalspec.verdict.validity.changes import Evidence, PairedScores, SignificanceRules, weigh

_ALPHA = 0.05
_LITTLE = 0.02
"""Share of a detectable drop that is not worth advice."""


_REDRAWN = 0.25
"""Share of scores that are redrawn from all scores of a baseline with one attempt."""

_FLIPPED = 0.05
_DEVIATION = 0.2
_PASSED = 0.8
"""Assumed share of 0/1 scores that pass, without a baseline."""
_QUIET, _LOUD = 0.4, 1.6
"""Factors of an assumed variance, for the range of what can be detected."""
_NORMAL_90 = 1.645
_MOST_GRADES = 20
_NORMALS = 200
_HALF = 0.5 + 1e-9
_NORMAL = NormalDist()

Models = tuple[AttemptModel, AttemptModel]
"""Models of single attempts, with the least and the most noise that is plausible."""


class Noise(Struct, frozen=True):
    """A metric in two runs of an unchanged agent. `source`: the origin of the models, in one sentence.

    `scores`: the pairs that the gate would test. If the noise is measured, they are the first two attempts of the
    baseline, whose differences show how far metrics rise and fall together.
    """

    scores: PairedScores
    source: str
    models: Models
    is_measured: bool = False


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
        noises = [[noise.scores for _, noise in family if noise] for family in families]
        evidence = weigh(noises, SignificanceRules(share * (self.policy.alpha or _ALPHA), two_sided=False))
        forecasts = []
        for after, family, found in zip(self.planned, families, evidence, strict=True):
            weighed, attempts = iter(found), count_baseline(baseline, after, self.options)
            forecasts.append(
                tuple(
                    self._foresee(forecast, noise, next(weighed), attempts) if noise else forecast
                    for forecast, noise in family
                )
            )
        return forecasts, max((one.tests for family in evidence for one in family), default=0)

    def _limit(
        self, dataset: PlannedDataset, after: DatasetResult, baseline: Run | None
    ) -> list[tuple[MetricForecast, Noise | None]]:
        """Return the metrics of a dataset with a maxDrop, each with its noise, or with the reason why it is unknown."""
        before, policy = baseline.find_dataset(after.name) if baseline else None, self.policy
        blocked = explain_block(baseline, self.outlined, after.name) if baseline is not None else None
        metrics = dataset.metrics
        limited: list[tuple[MetricForecast, Noise | None]] = []
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
                limited.append((replace(forecast, reason=reason), None))
                continue
            is_binary = _is_binary(metrics[name], self.options)
            noise = estimate_noise(name, before, after, self.options.repeat, is_binary=is_binary)
            if not len(noise.scores):
                reason = "the baseline has no scores for these samples: promote a new baseline"
                limited.append((replace(forecast, reason=reason), None))
                continue
            limited.append((forecast, replace(noise, scores=replace(noise.scores, margin=limit))))
        return limited

    def _foresee(self, forecast: MetricForecast, noise: Noise, evidence: Evidence, attempts: int) -> MetricForecast:
        scores, is_tested = noise.scores, self.policy.alpha is not None
        reach = scores.reach[1] if scores.reach else None
        level = evidence.level if noise.is_measured else evidence.rules.alpha / max(1, evidence.tests)
        design = Design(
            attempts,
            self.options.repeat,
            level if is_tested else None,
            forecast.max_drop,
            reach,
            confirmed=is_tested and not self.options.has_replies,
        )
        found = replace(
            forecast,
            pairs=len(scores),
            units=scores.count_units,
            samples_needed=_count_needed(noise, design, evidence),
            noise=NoiseBasis.MEASURED if noise.is_measured else NoiseBasis.ASSUMED,
            noise_source=noise.source,
        )
        detectable, reason = _compute_detectable(evidence, noise, design)
        advice = _advise(noise, design, detectable[1]) if detectable and design.confirmed else None
        return replace(found, detectable=detectable, reason=reason, advice=advice)


def choose_finer(one: MetricForecast, anchored: MetricForecast) -> MetricForecast:
    """Return the forecast of the comparison that detects the smaller drop: with the baseline, or with its anchor."""
    if anchored.detectable is None or (one.detectable is not None and one.detectable[1] <= anchored.detectable[1]):
        return one
    return replace(anchored, samples_needed=one.samples_needed)


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
    needed = evidence.rules.count_needed(evidence.tests, design.chance)
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


def estimate_noise(
    metric: str, before: DatasetResult | None, after: DatasetResult, repeats: int, *, is_binary: bool
) -> Noise:
    """Return the noise of a metric over the samples that the gate would pair.

    `before`: the baseline, if there is one. `after`: the planned run, with samples but no scores. `is_binary`: whether
    each reply scores 0 or 1; with a baseline, its scores decide.
    """
    if before is None:
        return _assume_all(metric, after, repeats, is_binary=is_binary)
    planned = {sample.id: sample for sample in after.samples}
    samples = [
        replace(one, metadata=planned[one.id].metadata, unit=planned[one.id].unit)
        for one in before.samples
        if one.id in planned and not is_edited(one, planned[one.id])
    ]
    attempts = count_attempts(samples)
    if attempts < 2:
        return _assume_from_scores(metric, samples, after)
    first, second = ([combine_attempts(one, one.attempts[at : at + 1], ()) for one in samples] for at in (0, 1))
    scores = _pair(metric, list(zip(first, second, strict=True)), after)
    source = f"noise measured on {attempts} attempts of the baseline"
    return Noise(scores, source, _model_measured(metric, samples, after, attempts), is_measured=True)


def count_attempts(samples: Sequence[SampleResult]) -> int:
    """Return the number of attempts with scores that every sample has; 1 if only means are known."""
    return min((len(sample.attempts) if has_all_attempts(sample) else 1 for sample in samples), default=1)


def _model_measured(metric: str, samples: Sequence[SampleResult], after: DatasetResult, attempts: int) -> Models:
    """Return models with the ends of the 90 % interval of the variance between the attempts at a sample."""
    rows = {one.id: [attempt.scores[metric].value for attempt in one.attempts[:attempts]] for one in samples}
    known = {id: [value for value in row if value is not None] for id, row in rows.items() if None not in row}
    paired = _pair(metric, [(one, one) for one in samples if one.id in known], after)
    if {value for row in known.values() for value in row} <= {0, 1}:
        within = [sum(row) * (attempts - sum(row)) / (attempts * (attempts - 1)) for row in known.values()]
        doubt = _NORMAL_90 * math.sqrt(pvariance(within) / max(1, len(within)))
        return _model_passes(paired, fmean(paired.baseline), fmean(within), doubt)
    sums: dict[Hashable, list[float]] = {}
    for unit, row in zip(paired.units, known.values(), strict=True):
        sums[unit] = [total + value for total, value in zip(sums.get(unit, [0.0] * attempts), row, strict=True)]
    spread = math.sqrt(attempts / (attempts - 1))
    deviations = [spread * (value - fmean(row)) for row in sums.values() for value in row]
    squares = [deviation**2 for deviation in deviations]
    freedom = max(1, len(sums) * (attempts - 1))
    doubt = _NORMAL_90 * math.sqrt(pvariance(squares) / freedom) / (fmean(squares) or 1.0)
    return _model_scores(paired, deviations, max(0.0, 1 - doubt), 1 + doubt)


def _model_passes(paired: PairedScores, passed: float, within: float, doubt: float) -> Models:
    """Return models of 0/1 scores. `within`: mean of rate x (1 - rate) over the samples. `doubt`: half its interval.

    Samples have one of two rates, r and 1 - r, so that mean and variance are as given.
    """
    count, sizes = len(paired), _measure_clusters(paired) if paired.is_clustered else ()

    def model(variance: float) -> AttemptModel:
        bounded = min(max(variance, 0.0), passed * (1 - passed))
        rate = (1 + math.sqrt(max(0.0, 1 - 4 * bounded))) / 2
        likely = round(count * (passed - 1 + rate) / (2 * rate - 1)) if rate > _HALF else count
        return AttemptModel((rate,) * likely + (1 - rate,) * (count - likely), sizes=sizes)

    return model(within - doubt), model(within + doubt)


def _model_scores(paired: PairedScores, deviations: Sequence[float], least: float, most: float) -> Models:
    """Return models of other scores. `least`, `most`: factors of the variance of the deviations."""
    sizes = _measure_clusters(paired)
    grades = sorted({*paired.baseline, *paired.candidate})
    gaps = [after - before for before, after in pairwise(grades)]
    step = min(gaps, default=0.0) if len(grades) <= _MOST_GRADES else 0.0
    quiet, loud = (
        AttemptModel((), tuple(math.sqrt(factor) * deviation for deviation in deviations), sizes, step)
        for factor in (least, most)
    )
    return quiet, loud


def _measure_clusters(paired: PairedScores) -> tuple[int, ...]:
    return tuple(Counter(number_clusters(paired.units, len(paired))).values())


def _model_assumed(paired: PairedScores, deviation: float) -> Models:
    """Return models of normal deviations. `deviation`: the standard deviation of single attempts at a sample."""
    sizes = Counter(paired.units).values()
    each = deviation * math.sqrt(fmean(sizes)) if sizes else 0.0
    return _model_scores(paired, _spread(_NORMALS, each), _QUIET, _LOUD)


def _assume_from_scores(metric: str, samples: Sequence[SampleResult], after: DatasetResult) -> Noise:
    """Return noise in which some scores are redrawn from all scores, with equal gains and losses."""
    paired = _pair(metric, [(sample, sample) for sample in samples], after)
    values = paired.baseline
    source = (
        f"assumed: {100 * _REDRAWN:g} % of the scores are redrawn from the baseline's scores in each run, since it has "
        "one attempt; promote a run with --repeat 2 or more to measure the noise"
    )
    if paired.is_binary:
        passed = (sum(values) + 1) / (len(values) + 2)
        flipped = _REDRAWN * passed * (1 - passed)
        return Noise(paired, source, _model_passes(paired, passed, flipped, (_LOUD - 1) * flipped))
    return Noise(paired, source, _model_assumed(paired, math.sqrt(_REDRAWN * pvariance(values)) if values else 0.0))


def _assume_all(metric: str, after: DatasetResult, repeats: int, *, is_binary: bool) -> Noise:
    blank = [replace(sample, scores={metric: Score.scored(0.0)}) for sample in after.samples]
    paired = _pair(metric, [(sample, sample) for sample in blank], after)
    means = f", before each score becomes the mean of {repeats} attempts" if repeats > 1 else ""
    if is_binary:
        source = f"assumed: {100 * _FLIPPED:g} % of the 0/1 scores flip each way between two runs{means}"
        return Noise(paired, source, _model_passes(paired, _PASSED, _FLIPPED, (_LOUD - 1) * _FLIPPED))
    source = f"assumed: scores differ by a standard deviation of {_DEVIATION:g} between two runs{means}"
    return Noise(paired, source, _model_assumed(paired, _DEVIATION / math.sqrt(2)))


def _pair(metric: str, pairs: Sequence[Pair], after: DatasetResult) -> PairedScores:
    return to_paired(pair_scores(pairs, metric).pick(), metric, after, after.cluster)


def _spread(count: int, deviation: float) -> list[float]:
    """Return normal quantiles with exactly that standard deviation."""
    quantiles = [_NORMAL.inv_cdf((place + 0.5) / count) for place in range(count)]
    size = math.sqrt(fmean(q * q for q in quantiles)) if count > 1 else 1.0
    return [quantile * deviation / size for quantile in quantiles]
