"""What a run comes to: summaries, limits, verdict and exit code from the results of its samples."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evalspec.errors import ExitCode
from evalspec.gate import MetricFacts, compute_outcome, compute_verdict
from evalspec.plan.build import Plan
from evalspec.plan.draft import PlannedDataset
from evalspec.records import DatasetResult, Run, SampleResult, ScoreStatus, SliceResult, Summary, Verdict, VerdictStatus
from evalspec.summary import compute_summary, find_slices

_NOTES_SHOWN = 5
_LAG_SHARE = 0.1
"""Share of a broken limit's value from which our own lateness is told."""


def conclude(
    plan: Plan, run_id: str, results: Sequence[Sequence[SampleResult]], agent_down: str | None, own_lag_ms: float
) -> Run:
    """The Run of a plan whose samples are all accounted for. `own_lag_ms`: p95 of our own lateness while asking."""
    datasets = tuple(_dataset(planned, found, plan) for planned, found in zip(plan.datasets, results, strict=True))
    skipped = any(metric.skip_reason for dataset in plan.datasets for metric in dataset.metrics)
    verdict = compute_verdict(datasets, plan.policy, partial=plan.partial or skipped)
    notes = [f"the agent is gone: {agent_down}"] if agent_down else []
    notes += [*_failure_notes(datasets), *_lag_notes(datasets, own_lag_ms)]
    return Run(
        id=run_id,
        verdict=verdict,
        exit_code=_exit_code(verdict, datasets),
        datasets=datasets,
        notes=tuple(notes),
        judge_usage=dict(plan.services.usage.by_metric),
    )


def _dataset(planned: PlannedDataset, samples: Sequence[SampleResult], plan: Plan) -> DatasetResult:
    statistics = {metric.name: metric.definition.statistic for metric in planned.metrics}
    facts = {m.name: MetricFacts(m.definition.statistic, m.bounds) for m in planned.metrics}
    return DatasetResult(
        name=planned.name,
        direction={metric.name: metric.definition.direction for metric in planned.metrics},
        samples=tuple(samples),
        summaries=_summaries(statistics, samples),
        outcomes=tuple(compute_outcome(t, facts[t.metric], samples, plan.policy) for t in planned.thresholds),
        slices=tuple(
            SliceResult(name, len(members), _summaries(statistics, members))
            for name, members in find_slices(samples, planned.slices).items()
        ),
    )


def _summaries(statistics: Mapping[str, str], samples: Sequence[SampleResult]) -> dict[str, Summary]:
    return {
        name: compute_summary(name, statistic, [sample.scores[name] for sample in samples])
        for name, statistic in statistics.items()
    }


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


def _lag_notes(datasets: Sequence[DatasetResult], own_lag_ms: float) -> list[str]:
    """A broken limit on latency is not the agent's fault where much of the time was our own."""
    return [
        f"{dataset.name}: {outcome.threshold.metric} includes up to {own_lag_ms:,.0f} ms in which this machine was "
        "busy; ask with a lower --concurrency before blaming the agent"
        for dataset in datasets
        for outcome in dataset.outcomes
        if outcome.threshold.metric.startswith("latency_")
        and outcome.status is VerdictStatus.FAIL
        and own_lag_ms > _LAG_SHARE * (outcome.value or 0.0)
    ]
