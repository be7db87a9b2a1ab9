"""What a run comes to: summaries, limits, verdict and exit code from the results of its samples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalspec.attempts import compute_repeats
from evalspec.errors import ExitCode
from evalspec.gate import compute_outcome, compute_verdict
from evalspec.outline import DatasetOutline, MetricOutline, RunOutline
from evalspec.records import (
    DatasetResult,
    Direction,
    JudgeUsage,
    RegressionOutcome,
    Run,
    SampleResult,
    ScoreStatus,
    SliceResult,
    Verdict,
    VerdictStatus,
)
from evalspec.runner.fingerprint import public_part
from evalspec.runner.stages import compute_stages, describe_oddities
from evalspec.summary import MIN_SLICE, find_slices, summarise

_NOTES_SHOWN = 5
_LAG_SHARE = 0.1
"""Share of a broken limit's value from which our own lateness is told."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of a run beside its scores.

    `fingerprint`: what it was made of. `baseline`: the run that it is held against. `own_lag_ms`: p95 of
    our own lateness while asking. `notes`: what else is to be told.
    """

    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    baseline: Run | None = None
    own_lag_ms: float = 0.0
    judge_usage: Mapping[str, JudgeUsage] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def conclude(
    outline: RunOutline, run_id: str, results: Sequence[Sequence[SampleResult]], circumstances: Circumstances
) -> Run:
    """The Run whose samples are all accounted for: `results` has those of each dataset of the outline."""
    datasets = tuple(
        _dataset(planned, found, outline) for planned, found in zip(outline.datasets, results, strict=True)
    )
    skipped = any(metric.skip_reason for dataset in outline.datasets for metric in dataset.metrics)
    regressions = _regressions(outline, datasets, circumstances)
    verdict = compute_verdict(datasets, outline.policy, partial=outline.partial or skipped, regressions=regressions)
    notes = [
        *circumstances.notes,
        *_oddity_notes(datasets),
        *_failure_notes(datasets),
        *_lag_notes(datasets, circumstances.own_lag_ms),
    ]
    return Run(
        id=run_id,
        verdict=verdict,
        exit_code=_exit_code(verdict, datasets),
        datasets=datasets,
        notes=tuple(notes),
        fingerprint=public_part(circumstances.fingerprint),
        judge_usage=circumstances.judge_usage,
        regressions=regressions,
        has_texts=outline.has_texts,
    )


def _regressions(
    outline: RunOutline, datasets: Sequence[DatasetResult], circumstances: Circumstances
) -> tuple[RegressionOutcome, ...]:
    """What became of the limits on getting worse, where the gate names a baseline."""
    name = outline.policy.baseline
    if name is None:
        return ()
    if circumstances.baseline is None:
        reason = f"there is no baseline '{name}'; write it with `evalspec runs promote RUN --as {name}`"
        return tuple(RegressionOutcome(d.name, None, VerdictStatus.INCOMPLETE, reason=reason) for d in datasets)
    from evalspec.compare.regression import find_regressions

    clusters = {dataset.name: dataset.cluster for dataset in outline.datasets if dataset.cluster}
    return find_regressions(circumstances.baseline, datasets, outline.policy, circumstances.fingerprint, clusters)


def _dataset(planned: DatasetOutline, samples: Sequence[SampleResult], outline: RunOutline) -> DatasetResult:
    metrics = {metric.name: metric for metric in planned.metrics}
    return DatasetResult(
        name=planned.name,
        direction={name: metric.direction for name, metric in metrics.items()},
        samples=tuple(samples),
        summaries=summarise(samples, _statistics(planned), planned.cluster),
        outcomes=tuple(
            compute_outcome(threshold, metrics[threshold.metric], samples, outline.policy, planned.cluster)
            for threshold in planned.thresholds
        ),
        slices=_slices(planned, samples),
        file=planned.file,
        repeats=compute_repeats(samples, planned, outline.repeats)
        if max(outline.repeats, outline.judge_repeats) > 1
        else None,
        retriever=planned.retriever,
        stages=compute_stages(samples) if planned.retriever else (),
    )


def _statistics(planned: DatasetOutline) -> dict[str, str]:
    return {metric.name: metric.statistic for metric in planned.metrics}


def _slices(planned: DatasetOutline, samples: Sequence[SampleResult]) -> tuple[SliceResult, ...]:
    """The slices, worst first by the leading metric: the first that has a limit, else the first. Small ones go last."""
    computed = [metric for metric in planned.metrics if not metric.skip_reason]
    limited = {threshold.metric for threshold in planned.thresholds}
    leading = next((metric for metric in computed if metric.name in limited), next(iter(computed), None))
    found = []
    for name, members in find_slices(samples, planned.slices).items():
        summaries = summarise(members, _statistics(planned), planned.cluster)
        told = summaries[leading.name].expected - summaries[leading.name].failed if leading else len(members)
        found.append(SliceResult(name, len(members), summaries, min(told, len(members)) < MIN_SLICE))
    if leading is None:
        return tuple(found)
    return tuple(sorted(found, key=lambda part: (part.small, *_badness(part, leading))))


def _badness(part: SliceResult, leading: MetricOutline) -> tuple[bool, float]:
    """Sorts the worst value first and slices without one last."""
    value = part.summaries[leading.name].value
    if value is None:
        return True, 0.0
    return False, value if leading.direction is Direction.HIGHER else -value


def _exit_code(verdict: Verdict, datasets: Sequence[DatasetResult]) -> ExitCode:
    if verdict.status is VerdictStatus.FAIL:
        return ExitCode.GATE_FAILED
    if verdict.status is VerdictStatus.INCOMPLETE:
        return ExitCode.UNMEASURED
    measured = any(summary.scored for d in datasets if d.answered for summary in d.summaries.values())
    return ExitCode.OK if measured else ExitCode.UNMEASURED


def _failure_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    """Why scores failed, most frequent reason first; failures of the agent are told once, not for every metric."""
    reasons: Counter[str] = Counter()
    for dataset in datasets:
        for sample in dataset.samples:
            if sample.error is not None:
                reasons[f"{dataset.name}: no reply: {sample.error}"] += 1
                continue
            for metric, score in sample.scores.items():
                if score.status is ScoreStatus.FAILED:
                    reasons[f"{dataset.name}: {metric} failed: {score.reason}"] += 1
    told = [
        f"{reason} ({count} samples)" if count > 1 else reason for reason, count in reasons.most_common(_NOTES_SHOWN)
    ]
    rest = len(reasons) - len(told)
    return [*told, f"and {rest} other reasons, in the report"] if rest > 0 else told


def _oddity_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    return [
        f"{dataset.name}: {oddity}"
        for dataset in datasets
        if dataset.retriever is not None
        for oddity in describe_oddities(dataset.samples, dataset.retriever.top_k)
    ]


def _lag_notes(datasets: Sequence[DatasetResult], own_lag_ms: float) -> list[str]:
    """A broken limit on latency is not the agent's fault where much of the time was our own."""
    return [
        f"{dataset.name}: {outcome.threshold.metric} includes up to {own_lag_ms:,.0f} ms in which this machine was "
        "busy; ask with a lower --concurrency before blaming the agent"
        for dataset in datasets
        for outcome in dataset.outcomes
        if "latency_" in outcome.threshold.metric
        and outcome.status is VerdictStatus.FAIL
        and own_lag_ms > _LAG_SHARE * (outcome.value or 0.0)
    ]
