"""Forecast the calls of a run and the detectable change of its comparison with a baseline, without calling anything."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from evalspec.comparison.drops import BY_VALUE, NO_SCORES, explain_block, resolve_limits
from evalspec.comparison.pairing import is_cost, label_clusters
from evalspec.comparison.regression import ANCHOR_SHARE
from evalspec.comparison.result import NamedRun
from evalspec.errors import Problem
from evalspec.manifest.gate_schema import CiGate
from evalspec.manifest.loader import LoadedManifest
from evalspec.metrics.base import Metric
from evalspec.model import DatasetResult, Direction, Need, Run, list_unenforced
from evalspec.model.fingerprints import describe_part
from evalspec.planning.checks import check_manifest, require_datasets
from evalspec.planning.draft import PlannedDataset, start_draft
from evalspec.planning.foregone import leave_skipped_out, list_foregone, outline_run
from evalspec.planning.inputs import list_removed
from evalspec.planning.noise import Noise, count_attempts, estimate_noise
from evalspec.planning.options import RunOptions
from evalspec.planning.selecting import select_datasets
from evalspec.plural import counted
from evalspec.stats.detection import compute_needed_to_exclude
from evalspec.stats.power import Design, find_detectable
from evalspec.validity.changes import Evidence, Rules, weigh
from evalspec.validity.estimates import describe_dominance

_GUESSED_CONTEXTS = 5
"""Assumed number of contexts of a reply if the sample has none."""

_ALPHA = 0.05
_LITTLE = 0.02
"""Share of a detectable drop that is not worth advice."""
_MORE_ATTEMPTS = 5
_ANCHOR_NOTE = (
    f"the anchor has {100 * ANCHOR_SHARE:g} % of the significance level, the baseline the rest; what is detected is "
    "what one of them detects"
)


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


class DatasetForecast(Struct, frozen=True):
    """A dataset of a planned run. `samples`: the number selected. `units`: the number of independent ones.

    `requests`: to the agent, or queries to `retriever`. `judge_calls`: by metric, without retries. `unpaired`: selected
    samples that the baseline lacks.
    """

    name: str
    samples: int
    units: int
    cluster: str | None
    retriever: str | None
    requests: int
    judge_calls: Mapping[str, int]
    metrics: tuple[MetricForecast, ...]
    unpaired: int = 0


class PartForecast(Struct, frozen=True):
    """A part of gold sets, `slice 2026Q4` or `the held-out share`, with its calls and those of the full sets."""

    name: str
    triples: int
    full_triples: int
    requests: int
    full_requests: int
    judge_calls: int
    full_judge_calls: int


class Forecast(Struct, frozen=True):
    """A planned run and its comparison with a baseline. `tests`: the number of tests that are adjusted together.

    `foregone`: reasons why the verdict cannot be PASS, whatever is measured. `part`: the planned part of gold sets with
    its cost, None for whole datasets.
    """

    datasets: tuple[DatasetForecast, ...]
    policy: CiGate
    options: RunOptions
    baseline: NamedRun | None
    tests: int
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]
    foregone: tuple[str, ...] = ()
    part: PartForecast | None = None

    @property
    def units_needed(self) -> int | None:
        """Return how many independent units must change for a drop to be significant; None if nothing is tested."""
        return None if self.policy.alpha is None else Rules(self.policy.alpha, two_sided=False).count_needed()

    @property
    def may_confirm(self) -> bool:
        """Whether a drop that a test finds would be confirmed by second attempts, with the same calls again."""
        return self.policy.baseline is not None and self.policy.alpha is not None and not self.options.has_replies

    @property
    def metrics(self) -> list[tuple[DatasetForecast, MetricForecast]]:
        """Return the metrics with a maxDrop, each with its dataset."""
        return [(dataset, metric) for dataset in self.datasets for metric in dataset.metrics]


class _Limited(Struct, frozen=True):
    """A metric with a maxDrop. `reason`: why it cannot be tested."""

    forecast: MetricForecast
    noise: Noise | None = None


def build_forecast(loaded: LoadedManifest, options: RunOptions, baseline: NamedRun | None) -> Forecast:
    """Check the manifest, select the samples, and return the forecast of a run.

    Nothing is called and no secret is resolved.

    Raises:
        InvalidInput: with all problems.
    """
    draft = start_draft(loaded, options)
    require_datasets(draft)
    checked = check_manifest(draft)
    draft.raise_problems()
    wanted = [dataset for dataset in checked if draft.wants(dataset.name)]
    datasets = select_datasets(draft, list_removed(wanted, baseline.run if baseline else None))
    policy = loaded.manifest.spec.evaluation.ci_gate
    outlined = outline_run(datasets, options)
    planned = [leave_skipped_out(*pair) for pair in zip(datasets, outlined.datasets, strict=True)]
    run = baseline.run if baseline else None
    anchor = baseline.anchor if baseline and policy.regression == "drop" and policy.alpha is not None else None
    comparison = _Comparison(datasets, planned, outlined, policy, options)
    metrics, tests = comparison.foresee(run, 1 - ANCHOR_SHARE if anchor else 1.0)
    if anchor is not None:
        anchored, _ = comparison.foresee(anchor, ANCHOR_SHARE)
        metrics = [tuple(map(_choose_finer, *pair)) for pair in zip(metrics, anchored, strict=True)]
    forecasts = tuple(
        _describe(dataset, after, run, options, own)
        for dataset, after, own in zip(datasets, planned, metrics, strict=True)
    )
    unenforced = (note for dataset in datasets for note in list_unenforced(dataset.name, dataset.limits))
    notes = (
        *_note_baseline(planned, run, policy),
        *([_ANCHOR_NOTE] if anchor else []),
        *_note_calls(datasets),
        *unenforced,
    )
    removed = {dataset.name: dataset.removed for dataset in datasets}
    foregone = list_foregone(run, outlined, planned, policy, removed) if run else []
    foregone += _list_dominated(datasets, planned, policy)
    part = _foresee_part(datasets, wanted, options)
    warnings = tuple(draft.warnings)
    return Forecast(forecasts, policy, options, baseline, tests, notes, warnings, tuple(foregone), part)


class _Comparison(Struct, frozen=True):
    """A planned run, to be compared with a baseline. `planned`: its datasets without skipped metrics."""

    datasets: Sequence[PlannedDataset]
    planned: Sequence[DatasetResult]
    outlined: Run
    policy: CiGate
    options: RunOptions

    def foresee(self, baseline: Run | None, share: float) -> tuple[list[tuple[MetricForecast, ...]], int]:
        """Return the metrics with a maxDrop by dataset, and the number of tests. `share`: of the significance level."""
        families = [
            _limit(dataset, after, baseline, self.outlined, self.policy, self.options)
            for dataset, after in zip(self.datasets, self.planned, strict=True)
        ]
        noises = [[one.noise.scores for one in family if one.noise] for family in families]
        evidence = weigh(noises, Rules(share * (self.policy.alpha or _ALPHA), two_sided=False))
        forecasts = []
        for after, family, found in zip(self.planned, families, evidence, strict=True):
            attempts, weighed = _count_baseline(after, baseline, self.options), iter(found)
            forecasts.append(
                tuple(
                    _foresee(one.forecast, one.noise, next(weighed), self.policy, attempts, self.options)
                    if one.noise
                    else one.forecast
                    for one in family
                )
            )
        return forecasts, max((one.tests for family in evidence for one in family), default=0)


def _list_dominated(datasets: Sequence[PlannedDataset], planned: Sequence[DatasetResult], policy: CiGate) -> list[str]:
    """Return a line for each dataset whose largest cluster allows no interval, where the gate needs one."""
    found = []
    for dataset, after in zip(datasets, planned, strict=True):
        clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.cluster)
        needs_one = policy.regression == "notWorse" or any(limit.confidence for limit in dataset.thresholds)
        reason = describe_dominance(clusters) if clusters and needs_one else None
        found += [f"{dataset.name}: {reason}"] if reason else []
    return found


def _choose_finer(one: MetricForecast, anchored: MetricForecast) -> MetricForecast:
    """Return the forecast of the comparison that detects the smaller drop: with the baseline, or with its anchor."""
    if anchored.detectable is None or (one.detectable is not None and one.detectable[1] <= anchored.detectable[1]):
        return one
    return replace(anchored, needed=one.needed)


def _foresee_part(
    datasets: Sequence[PlannedDataset], full: Sequence[PlannedDataset], options: RunOptions
) -> PartForecast | None:
    name = describe_part({"selection": options.describe_selection()})
    if name is None:
        return None
    triples, full_triples = (sum(len(dataset.samples) for dataset in side) for side in (datasets, full))
    calls, full_calls = (
        sum(sum(_count_judge_calls(dataset, options).values()) for dataset in side) for side in (datasets, full)
    )
    times = options.repeat
    return PartForecast(name, triples, full_triples, triples * times, full_triples * times, calls, full_calls)


def _limit(
    dataset: PlannedDataset,
    after: DatasetResult,
    baseline: Run | None,
    planned: Run,
    policy: CiGate,
    options: RunOptions,
) -> list[_Limited]:
    """Return the metrics of a dataset with a maxDrop, each with its noise or the reason why it is unknown."""
    before = next((found for found in baseline.datasets if found.name == after.name), None) if baseline else None
    blocked = explain_block(baseline, planned, after.name) if baseline is not None else None
    metrics = {metric.name: metric for metric in dataset.metrics}
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
        noise = estimate_noise(name, before, after, options.repeat, is_binary=_is_binary(metrics[name], options))
        if not len(noise.scores):
            reason = "the baseline has no scores for these samples: promote a new baseline"
            limited.append(_Limited(replace(forecast, reason=reason)))
            continue
        limited.append(_Limited(forecast, replace(noise, scores=replace(noise.scores, margin=limit))))
    return limited


def _may_be_within_one(metric: Metric) -> bool:
    """Return whether all scores may be from 0 to 1, according to the metric's bounds."""
    high = metric.bounds[1]
    return not is_cost(metric.name, metric.definition.statistic) and (high is None or high <= 1)


def _is_binary(metric: Metric, options: RunOptions) -> bool:
    """Return whether each reply scores 0 or 1. Averaged judge grades do not."""
    return metric.definition.is_binary and (options.judge_repeat == 1 or Need.JUDGE not in metric.needs)


def _count_baseline(after: DatasetResult, baseline: Run | None, options: RunOptions) -> int:
    """Return the number of attempts per sample in the baseline; without one, it is assumed to be made like this run."""
    before = next((found for found in baseline.datasets if found.name == after.name), None) if baseline else None
    return options.repeat if before is None else count_attempts(before.samples)


def _foresee(
    forecast: MetricForecast, noise: Noise, evidence: Evidence, policy: CiGate, attempts: int, options: RunOptions
) -> MetricForecast:
    scores, is_tested = noise.scores, policy.alpha is not None
    reach = scores.reach[1] if scores.reach else None
    level = evidence.level if noise.is_measured else evidence.rules.alpha / max(1, evidence.tests)
    design = Design(
        attempts,
        options.repeat,
        level if is_tested else None,
        forecast.limit,
        reach,
        confirmed=is_tested and not options.has_replies,
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
    if design.level is not None and not evidence.can_reach_alpha:
        few = f"cannot show a change at alpha {evidence.rules.alpha:g}: at least {evidence.units_needed} are needed"
        return None, f"{count} {few}"
    if not noise.models[1].variance:
        return None, (
            "no noise was observed, so its size is unknown; a change in at least "
            f"{evidence.units_needed} {unit}s is detected"
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
    if design.attempts >= _MORE_ATTEMPTS:
        return cost
    more = find_detectable(loud, replace(design, attempts=_MORE_ATTEMPTS))
    advice = f"evaluate --repeat {_MORE_ATTEMPTS}, then promote"
    return cost if more is None else f"{cost}; with {_MORE_ATTEMPTS} attempts in the baseline {more:.3g} ({advice})"


def _describe(
    dataset: PlannedDataset,
    after: DatasetResult,
    baseline: Run | None,
    options: RunOptions,
    metrics: tuple[MetricForecast, ...],
) -> DatasetForecast:
    before = [found for found in baseline.datasets if found.name == after.name] if baseline else [after]
    known = {sample.id for found in before for sample in found.samples}
    clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.cluster)
    return DatasetForecast(
        name=dataset.name,
        samples=len(dataset.samples),
        units=len(after.samples) if clusters is None else len(set(clusters)),
        cluster=dataset.cluster,
        retriever=dataset.retriever.settings.name if dataset.retriever else None,
        requests=len(dataset.samples) * options.repeat,
        judge_calls=_count_judge_calls(dataset, options),
        metrics=metrics,
        unpaired=sum(sample.id not in known for sample in dataset.samples),
    )


def _judged(dataset: PlannedDataset) -> Mapping[str, Metric]:
    """Return the metrics that call the judge, by name. Derived metrics make no calls of their own."""
    roots = {(one.root or one).name: one.root or one for one in dataset.metrics if not one.skip_reason}
    return {name: root for name, root in roots.items() if root.definition.judge_calls}


def _count_judge_calls(dataset: PlannedDataset, options: RunOptions) -> dict[str, int]:
    """Return the estimated judge calls by metric, without retries, from the contexts of the samples."""
    times = options.repeat * options.judge_repeat
    contexts = [len(sample.retrieved_contexts or ()) or _GUESSED_CONTEXTS for sample in dataset.samples]
    return {
        name: times * sum(map(root.definition.judge_calls, contexts))
        for name, root in _judged(dataset).items()
        if root.definition.judge_calls
    }


def _note_calls(datasets: Sequence[PlannedDataset]) -> list[str]:
    """Return notes on the assumptions of the estimated judge calls if they depend on the number of contexts."""
    notes = []
    for dataset in datasets:
        counts = [root.definition.judge_calls for root in _judged(dataset).values()]
        bare = sum(not sample.retrieved_contexts for sample in dataset.samples)
        if bare and any(count and count(1) != count(2) for count in counts):
            notes.append(
                f"{dataset.name}: {counted(bare, 'sample')} without context; the number of judge calls assumes "
                f"{_GUESSED_CONTEXTS} contexts each"
            )
    return notes


def _note_baseline(planned: Sequence[DatasetResult], baseline: Run | None, policy: CiGate) -> list[str]:
    """Return notes on metrics that the baseline lacks and the comparison omits."""
    if baseline is None:
        return ["without a baseline, every metric is assumed to score every sample"]
    known = {found.name: found for found in baseline.datasets}
    shared = [(known[after.name], after) for after in planned if after.name in known]
    return [
        f"{metric} of {after.name} is not compared: the baseline has no scores for it; promote a new baseline"
        for before, after in shared
        for metric, summary in after.metrics.items()
        if metric not in before.metrics
        and not isinstance(policy.max_drop, dict)
        and not is_cost(metric, summary.statistic)
    ]
