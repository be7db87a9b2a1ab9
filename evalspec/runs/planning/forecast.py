"""Forecast the calls of a run and the detectable change of its comparison with a baseline, without calling anything."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import DatasetResult, Run, list_unenforced
from evalspec.model.fingerprints import Fingerprint, describe_part
from evalspec.runs.planning.checks import check_manifest, require_datasets
from evalspec.runs.planning.draft import PlannedDataset, start_draft
from evalspec.runs.planning.foregone import leave_skipped_out, list_foregone, outline_run
from evalspec.runs.planning.inputs import list_removed
from evalspec.runs.planning.metric_forecasts import MetricForecast, PlannedComparison, choose_finer, count_baseline
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.selecting import select_datasets
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.pairing import is_cost, label_clusters
from evalspec.verdict.comparison.regression import ANCHOR_SHARE
from evalspec.verdict.stats.power import Design
from evalspec.verdict.validity.changes import SignificanceRules
from evalspec.verdict.validity.estimates import describe_dominance

_ANCHOR_NOTE = (
    f"the anchor has {100 * ANCHOR_SHARE:g} % of the significance level, the baseline the rest; what is detected is "
    "what one of them detects"
)
_GUESSED_CONTEXTS = 5
"""Assumed number of contexts of a reply if the sample has none."""


class DatasetForecast(Struct, frozen=True):
    """A dataset of a planned run. `samples`: the number selected. `units`: the number of independent ones.

    `requests`: to the agent, or queries to `retriever`. `judge_calls`: by metric, without retries. `unpaired`: selected
    samples that the baseline lacks. `attempts`: of each sample in the baseline.
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
    attempts: int = 1


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

    def count_units_needed(self, dataset: DatasetForecast) -> int | None:
        """Return how many independent units must change for a drop to be significant; None if nothing is tested."""
        if self.policy.alpha is None:
            return None
        luck = Design(dataset.attempts, self.options.repeat, self.policy.alpha).luck
        return SignificanceRules(self.policy.alpha, two_sided=False).count_needed(luck=luck)

    @property
    def may_confirm(self) -> bool:
        """Whether a drop that a test finds would be confirmed by second attempts, with the same calls again."""
        return self.policy.baseline is not None and self.policy.alpha is not None and not self.options.has_replies

    @property
    def metrics(self) -> list[tuple[DatasetForecast, MetricForecast]]:
        """Return the metrics with a maxDrop, each with its dataset."""
        return [(dataset, metric) for dataset in self.datasets for metric in dataset.metrics]


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
    comparison = PlannedComparison(datasets, planned, outlined, policy, options)
    metrics, tests = comparison.foresee(run, 1 - ANCHOR_SHARE if anchor else 1.0)
    if anchor is not None:
        anchored, _ = comparison.foresee(anchor, ANCHOR_SHARE)
        metrics = [tuple(map(choose_finer, *pair)) for pair in zip(metrics, anchored, strict=True)]
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
    foregone += _list_large(datasets, planned, policy)
    part = _foresee_part(datasets, wanted, options)
    warnings = tuple(draft.warnings)
    return Forecast(forecasts, policy, options, baseline, tests, notes, warnings, tuple(foregone), part)


def _list_large(datasets: Sequence[PlannedDataset], planned: Sequence[DatasetResult], policy: CiGate) -> Iterator[str]:
    """Yield a line for each dataset whose largest cluster allows no interval, where the gate needs one."""
    for dataset, after in zip(datasets, planned, strict=True):
        clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.config.cluster)
        needs_one = policy.regression == "notWorse" or any(limit.confidence for limit in dataset.thresholds)
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
    return PartForecast(name, triples, full_triples, triples * times, full_triples * times, calls, full_calls)


def _describe(
    dataset: PlannedDataset,
    after: DatasetResult,
    baseline: Run | None,
    options: RunOptions,
    metrics: tuple[MetricForecast, ...],
) -> DatasetForecast:
    before = baseline.find_dataset(after.name) if baseline else after
    known = {sample.id for sample in before.samples} if before else set()
    clusters = label_clusters([(sample, sample) for sample in after.samples], dataset.config.cluster)
    return DatasetForecast(
        name=dataset.name,
        samples=len(dataset.samples),
        units=len(after.samples) if clusters is None else len(set(clusters)),
        cluster=dataset.config.cluster,
        retriever=dataset.retriever.settings.name if dataset.retriever else None,
        requests=len(dataset.samples) * options.repeat,
        judge_calls=_count_judge_calls(dataset, options),
        metrics=metrics,
        unpaired=sum(sample.id not in known for sample in dataset.samples),
        attempts=count_baseline(baseline, after, options),
    )


def _judged(dataset: PlannedDataset) -> Mapping[str, Metric]:
    """Return the metrics that call the judge, by name. Derived metrics make no calls of their own."""
    roots = {(one.root or one).name: one.root or one for one in dataset.computed}
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
