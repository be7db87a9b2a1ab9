"""Find comparisons with a baseline that cannot pass, whatever a run measures. The gate's own code decides."""

from collections.abc import Sequence

from msgspec.structs import replace

from evalspec.comparison.drops import NO_SCORES, explain_block, resolve_limits
from evalspec.comparison.pairing import pair_samples, pair_scores
from evalspec.comparison.regression import describe_gone, is_whole, list_unmeasured
from evalspec.manifest.gate_schema import CiGate
from evalspec.model import Attempt, DatasetResult, Run, SampleResult, SampleStatus
from evalspec.planning.draft import PlannedDataset
from evalspec.planning.options import RunOptions
from evalspec.planning.outlining import find_reach
from evalspec.summary import compute_summary


def outline_run(datasets: Sequence[PlannedDataset], options: RunOptions) -> Run:
    """Return the planned run: samples and attempts without scores, including skipped metrics."""
    fingerprint = {"repeats": {"agent": options.repeat}, "selection": options.describe_selection()}
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
            attempts=attempts,
        )
        for sample in dataset.samples
    )
    return DatasetResult(
        name=dataset.name,
        samples=samples,
        metrics={
            metric.name: compute_summary(
                [], metric.definition.statistic, metric.definition.direction, bounds=find_reach(metric)
            )
            for metric in dataset.metrics
        },
        cluster=dataset.cluster,
    )


def leave_skipped_out(dataset: PlannedDataset, outlined: DatasetResult) -> DatasetResult:
    """Return the outline without skipped metrics."""
    skipped = {metric.name for metric in dataset.metrics if metric.skip_reason}
    summaries = {name: summary for name, summary in outlined.metrics.items() if name not in skipped}
    return replace(outlined, metrics=summaries)


def list_foregone(baseline: Run, planned: Run, computed: Sequence[DatasetResult], policy: CiGate) -> list[str]:
    """Return a line for each reason why the verdict will be INCOMPLETE or FAIL.

    `computed`: the datasets of the planned run without skipped metrics.
    """
    found = [line for after in computed for line in _find_in_dataset(baseline, planned, after, policy)]
    for gone in list_unmeasured(baseline, planned, policy):
        found.append(f"{gone.dataset}: {f'{gone.metric}: ' if gone.metric else ''}{gone.reason}")
    return list(dict.fromkeys(found))


def _find_in_dataset(baseline: Run, planned: Run, after: DatasetResult, policy: CiGate) -> list[str]:
    before = next((dataset for dataset in baseline.datasets if dataset.name == after.name), None)
    limits = resolve_limits(policy, before or after, after)
    if not limits and policy.new_failures is None:
        return []
    if blocked := explain_block(baseline, planned, after.name):
        return [f"{after.name}: {blocked.removeprefix(f'dataset {after.name}: ')}"]
    if before is None:
        return []
    found = [f"{after.name}: {metric}: {NO_SCORES}" for metric in limits if metric not in before.metrics]
    pairs = pair_samples(before, after)
    gone = len(pairs.only_baseline) if is_whole(planned.fingerprint) else 0
    for metric in limits:
        scored = len(pair_scores([(old, old) for old, _ in pairs.both], metric).scored)
        if reason := describe_gone(gone, scored, policy):
            found.append(f"{after.name}: {reason}")
    return found
