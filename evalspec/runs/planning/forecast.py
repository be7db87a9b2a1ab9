"""Forecast the calls of a run and the detectable change of its comparison with a baseline, without calling anything.

Comparisons that cannot pass, whatever a run measures, are found by the gate's own code.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import (
    Attempt,
    DatasetResult,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    VerdictStatus,
    list_unenforced,
)
from evalspec.model.fingerprints import Fingerprint, Repeats, describe_part
from evalspec.model.forecasts import (
    DatasetForecast,
    Forecast,
    ForecastBaseline,
    ForecastRepeats,
    MetricForecast,
    PartForecast,
)
from evalspec.model.verdicts import RegressionRule
from evalspec.runs.planning.checks import check_manifest, require_datasets
from evalspec.runs.planning.draft import PlannedDataset, start_draft
from evalspec.runs.planning.forecast_wording import summarise_forecasts
from evalspec.runs.planning.inputs import find_policy, list_removed, list_shared_files
from evalspec.runs.planning.judge_forecasts import JudgeForecaster, foresee_labels
from evalspec.runs.planning.metric_forecasts import PlannedComparison, choose_finer, count_baseline
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.passes import check_attempts, list_passes
from evalspec.runs.planning.selecting import select_datasets
from evalspec.runs.planning.sharding import find_place
from evalspec.runs.store.run_store import RunStore
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.comparison.baseline import Baseline
from evalspec.verdict.comparison.drop_decision import describe_selection
from evalspec.verdict.comparison.drops import NO_SCORES, explain_block, resolve_limits
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.pairing import is_cost, label_clusters, pair_samples
from evalspec.verdict.comparison.regression import ANCHOR_SHARE, decide_regressions, list_unmeasured
from evalspec.verdict.outline import close
from evalspec.verdict.stats.detection import POWER
from evalspec.verdict.stats.power import Design
from evalspec.verdict.summary import compute_summary
from evalspec.verdict.validity.changes import SignificanceRules
from evalspec.verdict.validity.estimates import describe_dominance

_ANCHOR_NOTE = (
    f"the anchor has {100 * ANCHOR_SHARE:g} % of the significance level, the baseline the rest; what is detected is "
    "what one of them detects"
)
_GUESSED_CONTEXTS = 5
"""Assumed number of contexts of a reply if the sample has none."""


def build_forecast(
    loaded: LoadedManifest, options: RunOptions, baseline: NamedRun | None, store: RunStore | None = None
) -> Forecast:
    """Check the manifest, select the samples, and return the forecast of a run.

    Nothing is called and no secret is resolved. `store`: of earlier runs, which say what judged metrics use.

    Raises:
        InvalidInput: with all problems.
    """
    draft = start_draft(loaded, options)
    require_datasets(draft)
    checked = check_manifest(draft)
    wanted = [dataset for dataset in checked if draft.wants(dataset.name)]
    draft.problems.extend(check_attempts(loaded, wanted, options.repeat))
    draft.raise_problems()
    datasets = select_datasets(draft, list_removed(wanted, baseline.run if baseline else None))
    policy = find_policy(loaded, checked)
    outlined = _outline_run(datasets, options)
    planned = [_leave_skipped_out(*pair) for pair in zip(datasets, outlined.datasets, strict=True)]
    run = baseline.run if baseline else None
    is_tested = policy.regression is RegressionRule.DROP and policy.alpha is not None
    anchor = baseline.anchor if baseline and is_tested else None
    comparison = PlannedComparison(datasets, planned, outlined, policy, options)
    metrics, tests = comparison.foresee(run, 1 - ANCHOR_SHARE if anchor else 1.0)
    if anchor is not None:
        anchored, _ = comparison.foresee(anchor, ANCHOR_SHARE)
        metrics = [tuple(map(choose_finer, *pair)) for pair in zip(metrics, anchored, strict=True)]
    forecaster = JudgeForecaster(loaded, options, store)
    forecasts = tuple(
        _describe(dataset, after, run, policy, options, own, forecaster)
        for dataset, after, own in zip(datasets, planned, metrics, strict=True)
    )
    unenforced = (note for dataset in datasets for note in list_unenforced(dataset.name, dataset.limits))
    notes = (
        *_note_baseline(planned, run, policy),
        *([_ANCHOR_NOTE] if anchor else []),
        *_note_calls(datasets),
        *_note_passes(datasets),
        *_note_nodes(loaded, options, datasets),
        *unenforced,
    )
    removed = {dataset.name: dataset.removed for dataset in datasets}
    foregone = _list_foregone(run, outlined, planned, policy, removed) if run else []
    foregone += _list_large(datasets, planned, policy)
    may_confirm = policy.baseline is not None and policy.alpha is not None and not options.has_replies
    return Forecast(
        summary=summarise_forecasts(forecasts),
        baseline=ForecastBaseline(baseline.name, baseline.run.id) if baseline else None,
        alpha=policy.alpha,
        regression=policy.regression,
        power=POWER,
        tests=tests,
        repeats=ForecastRepeats(options.repeat, options.judge_repeat),
        agent_requests=sum(one.agent_requests for one in forecasts),
        retriever_queries=sum(one.retriever_queries for one in forecasts),
        judge_calls=sum(map(_add_judge_calls, forecasts)),
        may_confirm=may_confirm,
        part=_foresee_part(datasets, wanted, options),
        datasets=forecasts,
        notes=notes,
        warnings=tuple(draft.warnings),
        incomplete=tuple(foregone),
    )


def _note_nodes(loaded: LoadedManifest, options: RunOptions, datasets: Sequence[PlannedDataset]) -> Iterator[str]:
    """Yield what nodes of Ray get, besides samples and replies without secrets."""
    on = find_place(loaded, options)
    if on is not None:
        yield f"nodes of {on} get {', '.join(list_shared_files(loaded, datasets))}, and samples as they need them"


def _list_large(datasets: Sequence[PlannedDataset], planned: Sequence[DatasetResult], policy: CiGate) -> Iterator[str]:
    """Yield a line for each dataset whose largest cluster allows no interval, where the gate needs one."""
    for dataset, after in zip(datasets, planned, strict=True):
        clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.config.cluster)
        is_confident = any(limit.confidence for limit in dataset.thresholds)
        needs_one = is_confident or policy.regression is RegressionRule.NOT_WORSE
        if clusters and needs_one and (reason := describe_dominance(clusters)):
            yield f"{dataset.name}: {reason}"


def _foresee_part(
    datasets: Sequence[PlannedDataset], full: Sequence[PlannedDataset], options: RunOptions
) -> PartForecast | None:
    name = describe_part(Fingerprint(selection=options.describe_selection()))
    if name is None:
        return None
    triples, full_triples = (sum(len(dataset.samples) for dataset in side) for side in (datasets, full))
    calls, full_calls = (
        sum(sum(_count_judge_calls(dataset, options).values()) for dataset in side) for side in (datasets, full)
    )
    times = options.repeat
    return PartForecast(
        name,
        triples,
        full_triples,
        triples * times,
        full_triples * times,
        calls,
        full_calls,
        share=triples / full_triples,
    )


def _describe(
    dataset: PlannedDataset,
    after: DatasetResult,
    baseline: Run | None,
    policy: CiGate,
    options: RunOptions,
    metrics: tuple[MetricForecast, ...],
    forecaster: JudgeForecaster,
) -> DatasetForecast:
    before = baseline.find_dataset(after.name) if baseline else after
    known = {sample.id for sample in before.samples} if before else set()
    clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.config.cluster)
    requests = sum(map(_count_turns, dataset.samples)) * options.repeat
    calls = _count_judge_calls(dataset, options)
    played = tuple(forecaster.foresee_user(dataset))
    return DatasetForecast(
        name=dataset.name,
        samples=len(dataset.samples),
        units=len(after.samples) if clusters is None else len(set(clusters)),
        units_needed=_count_units_needed(count_baseline(baseline, after, options), policy, options),
        cluster=dataset.config.cluster,
        only_in_this_run=sum(sample.id not in known for sample in dataset.samples),
        retriever=dataset.retriever.settings.name if dataset.retriever else None,
        agent_requests=0 if dataset.retriever else requests,
        retriever_queries=requests if dataset.retriever else 0,
        judge_calls=calls | {one.metric: one.calls[1] for one in played},
        metrics=metrics,
        judge=(*forecaster.foresee(dataset, _judged(dataset), calls), *played),
        controls=(
            *(forecaster.foresee_controls(dataset, _judged(dataset)) if policy.judge.controls else ()),
            *forecaster.foresee_anchors(dataset, _judged(dataset)),
        ),
        labels=tuple(foresee_labels(dataset, policy.judge, forecaster.folder)),
    )


def _count_turns(sample: Sample) -> int:
    """Return how many requests an attempt at a sample needs: one for each turn, at most, if its user is simulated."""
    return sample.user.max_turns if sample.user else max(1, len(sample.turns))


def _count_units_needed(attempts: int, policy: CiGate, options: RunOptions) -> int | None:
    """Return how many units must change for a drop to be significant. `attempts`: of each sample in the baseline."""
    if policy.alpha is None:
        return None
    chance = Design(attempts, options.repeat, policy.alpha).chance
    return SignificanceRules(policy.alpha, two_sided=False).count_needed(chance=chance)


def _judged(dataset: PlannedDataset) -> Mapping[str, Metric]:
    """Return the metrics that call the judge, by name. Derived metrics make no calls of their own."""
    roots = {(one.root or one).name: one.root or one for one in dataset.computed}
    return {name: root for name, root in roots.items() if root.definition.judge_calls}


def _count_judge_calls(dataset: PlannedDataset, options: RunOptions) -> dict[str, int]:
    """Return the estimated judge calls by metric, without retries, from the contexts of the samples."""
    panel = next((one.panel for one in dataset.metrics.values() if one.panel is not None), None)
    times = options.repeat * options.judge_repeat * (1 if panel is None else len(panel.names))
    contexts = [len(sample.retrieved_contexts or ()) or _GUESSED_CONTEXTS for sample in dataset.samples]
    return {
        name: times * sum(map(root.definition.judge_calls, contexts))
        for name, root in _judged(dataset).items()
        if root.definition.judge_calls
    }


def _add_judge_calls(dataset: DatasetForecast) -> int:
    """Return the estimated judge calls of a dataset, with the control cases after which a judge can pass."""
    return sum(dataset.judge_calls.values()) + sum(one.calls[0] for one in dataset.controls)


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


def _note_passes(datasets: Sequence[PlannedDataset]) -> Iterator[str]:
    """Yield a note on each metric over attempts: its noise is not that of a mean, so nothing is forecast."""
    for dataset in datasets:
        for one in list_passes(dataset):
            yield f"{dataset.name}: {one.spec}: no forecast of the change that a comparison detects"


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


def _outline_run(datasets: Sequence[PlannedDataset], options: RunOptions) -> Run:
    """Return the planned run: samples and attempts without scores, including skipped metrics."""
    fingerprint = Fingerprint(repeats=Repeats(options.repeat), selection=options.describe_selection())
    results = tuple(_outline(dataset, options.repeat) for dataset in datasets)
    return Run(id="", datasets=results, fingerprint=fingerprint)


def _outline(dataset: PlannedDataset, repeat: int) -> DatasetResult:
    attempts = (Attempt(SampleStatus.ANSWERED),) * repeat if repeat > 1 else ()
    samples = tuple(
        SampleResult(
            id=sample.id,
            status=SampleStatus.ANSWERED,
            tags=sample.tags,
            metadata=sample.metadata,
            digest=sample.digest,
            unit=sample.unit,
            attempts=attempts,
        )
        for sample in dataset.samples
    )
    return DatasetResult(
        name=dataset.name,
        samples=samples,
        metrics={
            name: compute_summary(
                [], metric.definition.statistic, metric.definition.direction, bounds=close(metric.bounds)
            )
            for name, metric in dataset.metrics.items()
        },
        cluster=dataset.config.cluster,
    )


def _leave_skipped_out(dataset: PlannedDataset, outlined: DatasetResult) -> DatasetResult:
    """Return the outline without skipped metrics."""
    return replace(outlined, metrics={one.name: outlined.metrics[one.name] for one in dataset.computed})


def _list_foregone(
    baseline: Run,
    planned: Run,
    computed: Sequence[DatasetResult],
    policy: CiGate,
    removed: Mapping[str, Collection[str]],
) -> list[str]:
    """Return a line for each reason why the verdict will be INCOMPLETE or FAIL, even if the agent is unchanged.

    `computed`: the datasets of the planned run without skipped metrics. `removed`: samples of the baseline that are
    gone from their files, by dataset.
    """
    found = [line for after in computed for line in _find_in_dataset(baseline, planned, after, policy, removed)]
    for gone in list_unmeasured(baseline, planned, policy):
        found.append(f"{gone.dataset}: {f'{gone.metric}: ' if gone.metric else ''}{gone.reason}")
    return list(dict.fromkeys(found))


def _find_in_dataset(
    baseline: Run,
    planned: Run,
    after: DatasetResult,
    policy: CiGate,
    removed: Mapping[str, Collection[str]],
) -> list[str]:
    before = baseline.find_dataset(after.name)
    limits = resolve_limits(policy, before or after, after)
    if not limits and policy.new_failures is None:
        return []
    if blocked := explain_block(baseline, planned, after.name):
        return [f"{after.name}: {blocked.removeprefix(f'dataset {after.name}: ')}"]
    if before is None:
        return []
    found = [f"{after.name}: {metric}: {NO_SCORES}" for metric in limits if metric not in before.metrics]
    pairs = pair_samples(before, after)
    left_out = describe_selection(baseline, after, pairs, policy)
    if left_out:
        return [*found, f"{after.name}: {left_out}"]
    unchanged = [replace(new, scores=old.scores, attempts=old.attempts) for old, new in pairs.both]
    metrics = {name: summary for name, summary in after.metrics.items() if name in before.metrics}
    same = replace(after, samples=tuple(unchanged), metrics=metrics)
    strict = policy.model_copy(update={"regression": RegressionRule.DROP, "new_failures": None})
    only = {(after.name, metric, "baseline") for metric in metrics}
    outcomes = decide_regressions(Baseline(baseline), [same], strict, baseline.fingerprint, removed=removed, only=only)
    return [*found, *(f"{one.dataset}: {one.reason}" for one in outcomes if one.status is VerdictStatus.INCOMPLETE)]
