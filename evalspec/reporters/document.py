"""A run as the document of the JSON report."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evalspec.records import (
    Attempt,
    DatasetResult,
    RegressionOutcome,
    RepeatSummary,
    Run,
    SampleResult,
    Score,
    SearchTrace,
    SliceResult,
    Summary,
    ThresholdOutcome,
    VerdictStatus,
)
from evalspec.reporters.document_parts import (
    AttemptReport,
    DatasetReport,
    LimitValues,
    MetricReport,
    RegressionReport,
    RepeatsReport,
    ReportDocument,
    SampleReport,
    ScoreReport,
    SliceMetricReport,
    SliceReport,
    ThresholdReport,
    UsageReport,
    VarianceReport,
)
from evalspec.reporters.document_retriever import DiagnosisReport, RetrieverReport, StageReport
from evalspec.reporters.limits import Limit, own_limit

__all__ = ["ReportDocument", "build_report", "report_json_schema"]

_PASSED = {VerdictStatus.PASS: True, VerdictStatus.FAIL: False}


def build_report(run: Run) -> ReportDocument:
    """The document of one run."""
    return ReportDocument(
        schema_version=1,
        run_id=run.id,
        verdict=run.verdict.status,
        partial=run.verdict.partial,
        exit_code=run.exit_code,
        reasons=run.verdict.reasons,
        notes=run.notes,
        has_texts=run.has_texts,
        regressions=tuple(_regression(outcome) for outcome in run.regressions),
        fingerprint=dict(run.fingerprint),
        judge_usage={metric: UsageReport(**asdict(usage)) for metric, usage in run.judge_usage.items()},
        datasets=tuple(_dataset(dataset) for dataset in run.datasets),
    )


def report_json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document, for whoever reads it."""
    schema = ReportDocument.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _dataset(dataset: DatasetResult) -> DatasetReport:
    return DatasetReport(
        name=dataset.name,
        file=dataset.file,
        selected=len(dataset.samples),
        answered=dataset.answered,
        metrics={metric: _metric(dataset, metric) for metric in dataset.summaries},
        thresholds=tuple(_threshold(outcome) for outcome in dataset.outcomes),
        slices=tuple(_slice(part) for part in dataset.slices),
        repeats=_repeats(dataset.repeats) if dataset.repeats else None,
        retriever=RetrieverReport.of(dataset.retriever) if dataset.retriever else None,
        stages=tuple(map(StageReport.of, dataset.stages)),
        diagnosis=DiagnosisReport.of(dataset.diagnosis) if dataset.diagnosis else None,
        cluster=dataset.cluster,
        samples=tuple(_sample(sample) for sample in dataset.samples),
    )


def _repeats(repeats: RepeatSummary) -> RepeatsReport:
    return RepeatsReport(
        repeats=repeats.repeats,
        decided=repeats.decided,
        pass_at=dict(repeats.pass_at),
        pass_all=dict(repeats.pass_all),
        flaky=repeats.flaky,
        variance={metric: VarianceReport(**asdict(parts)) for metric, parts in repeats.variance.items()},
    )


def _regression(outcome: RegressionOutcome) -> RegressionReport:
    return RegressionReport(**asdict(outcome))


def _slice(part: SliceResult) -> SliceReport:
    metrics = {
        name: SliceMetricReport(
            value=summary.value,
            median=summary.median,
            scored=summary.scored,
            expected=summary.expected,
            failed=summary.failed,
            skipped=summary.skipped,
            **_not_applicable(summary),
            interval=summary.interval,
        )
        for name, summary in part.summaries.items()
    }
    return SliceReport(name=part.name, selected=part.selected, small=part.small, metrics=metrics)


def _metric(dataset: DatasetResult, metric: str) -> MetricReport:
    summary = dataset.summaries[metric]
    limit = own_limit(dataset, metric)
    return MetricReport(
        value=summary.value,
        statistic=summary.statistic,
        median=summary.median,
        direction=dataset.direction[metric],
        scored=summary.scored,
        expected=summary.expected,
        failed=summary.failed,
        skipped=summary.skipped,
        **_not_applicable(summary),
        interval=summary.interval,
        interval_method=summary.method,
        no_interval=summary.no_interval,
        units=summary.units,
        bounds=summary.bounds,
        threshold=_limit_values(limit) if limit else None,
        passed=_PASSED.get(limit.status) if limit else None,
    )


def _not_applicable(counted: Summary | ThresholdOutcome) -> dict[str, Any]:
    causes = counted.not_applicable
    return {"not_applicable": sum(causes.values()), "not_applicable_causes": dict(causes)}


def _limit_values(limit: Limit) -> LimitValues:
    values: LimitValues = {}
    if limit.min is not None:
        values["min"] = limit.min
    if limit.max is not None:
        values["max"] = limit.max
    return values


def _threshold(outcome: ThresholdOutcome) -> ThresholdReport:
    threshold = outcome.threshold
    return ThresholdReport(
        metric=threshold.metric,
        min=threshold.min,
        max=threshold.max,
        slice=threshold.slice,
        stat=threshold.stat,
        confidence=threshold.confidence,
        status=outcome.status,
        value=outcome.value,
        bound=outcome.bound,
        scored=outcome.scored,
        expected=outcome.expected,
        **_not_applicable(outcome),
        reason=outcome.reason,
    )


def _sample(sample: SampleResult) -> SampleReport:
    return SampleReport(
        id=sample.id,
        line=sample.line,
        tags=sample.tags,
        metadata=dict(sample.metadata),
        status=sample.status,
        latency_ms=sample.latency_ms,
        error=sample.error,
        scores=_scores(sample.scores),
        pass_rate=sample.pass_rate,
        attempts=tuple(_attempt(attempt) for attempt in sample.attempts),
        timings_ms=_timings(sample.trace),
        oddities=_oddities(sample.trace),
        digest=sample.digest,
        finish_reason=sample.finish_reason,
    )


def _attempt(attempt: Attempt) -> AttemptReport:
    return AttemptReport(
        status=attempt.status,
        latency_ms=attempt.latency_ms,
        error=attempt.error,
        unreachable=attempt.unreachable,
        passed=attempt.passed,
        scores=_scores(attempt.scores),
        timings_ms=_timings(attempt.trace),
        oddities=_oddities(attempt.trace),
        finish_reason=attempt.finish_reason,
    )


def _timings(trace: SearchTrace | None) -> dict[str, float]:
    return dict(trace.timings_ms) if trace else {}


def _oddities(trace: SearchTrace | None) -> dict[str, int]:
    return dict(trace.oddities) if trace else {}


def _scores(scores: Mapping[str, Score]) -> dict[str, ScoreReport]:
    return {
        metric: ScoreReport(
            status=score.status, value=score.value, reason=score.reason, repeats=score.repeats, cause=score.cause
        )
        for metric, score in scores.items()
    }
