"""Find comparisons with a baseline that cannot pass, whatever a run measures. The gate's own code decides."""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Attempt, DatasetResult, Run, SampleResult, SampleStatus, VerdictStatus
from evalspec.model.fingerprints import Fingerprint, Repeats
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.verdict.comparison.baseline import Baseline
from evalspec.verdict.comparison.drop_decision import describe_selection
from evalspec.verdict.comparison.drops import NO_SCORES, explain_block, resolve_limits
from evalspec.verdict.comparison.pairing import pair_samples
from evalspec.verdict.comparison.regression import decide_regressions, list_unmeasured
from evalspec.verdict.outline import close
from evalspec.verdict.summary import compute_summary


def outline_run(datasets: Sequence[PlannedDataset], options: RunOptions) -> Run:
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


def leave_skipped_out(dataset: PlannedDataset, outlined: DatasetResult) -> DatasetResult:
    """Return the outline without skipped metrics."""
    return replace(outlined, metrics={one.name: outlined.metrics[one.name] for one in dataset.computed})


def list_foregone(
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
    strict = policy.model_copy(update={"regression": "drop", "new_failures": None})
    only = {(after.name, metric, "baseline") for metric in metrics}
    outcomes = decide_regressions(Baseline(baseline), [same], strict, baseline.fingerprint, removed=removed, only=only)
    return [*found, *(f"{one.dataset}: {one.reason}" for one in outcomes if one.status is VerdictStatus.INCOMPLETE)]
