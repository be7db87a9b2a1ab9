"""The JSON report as a typed document. Its keys are a promise to pipelines: they are only ever added.

Every value is known or null; what is not known says why in a status or a reason.
"""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation
from pydantic.alias_generators import to_camel

from evalspec.records import (
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    ScoreStatus,
    SliceResult,
    ThresholdOutcome,
    VerdictStatus,
)
from evalspec.reporters.limits import Limit, own_limit

_PASSED = {VerdictStatus.PASS: True, VerdictStatus.FAIL: False}

Text = Annotated[str, SkipValidation]
"""Any text. Half a surrogate pair, which a dataset may hold, is refused by pydantic and written as an escape by us."""


LimitValues = dict[Literal["min", "max"], float]
"""The sides that a threshold limits; a side without a limit is left out."""


class Part(BaseModel):
    """A part of the document: snake_case here, camelCase in JSON, only finite numbers."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, allow_inf_nan=False)


class MetricReport(Part):
    """One metric over one dataset."""

    value: float | None = Field(description="The metric's statistic over the scored samples; null: nothing scored.")
    statistic: Text = Field(description="How scores became the value: mean, or a percentile such as p95.")
    median: float | None = Field(description="The median of the scored samples.")
    direction: Direction = Field(description="Which way the metric improves.")
    scored: int
    expected: int = Field(description="Samples to which the metric applies: scored, failed and skipped.")
    failed: int = Field(description="Samples whose score could not be computed.")
    skipped: int = Field(description="Samples that were deliberately not scored.")
    not_applicable: int = Field(description="Samples on which the metric is not defined; they are not in expected.")
    interval: tuple[float, float] | None = Field(description="Bootstrap 95 % interval of the value.")
    threshold: LimitValues | None = Field(
        description="The limit on this value over the whole dataset, the tightest where there are several. Limits on "
        "slices and on other statistics stand in the dataset's thresholds only."
    )
    passed: bool | None = Field(description="Whether that limit holds; null: there is none, or it was not decided.")


class ThresholdReport(Part):
    """One limit, those on slices and other statistics included."""

    metric: Text
    min: float | None
    max: float | None
    slice: Text | None = Field(description="A tag, or key=value of the metadata; null: the whole dataset.")
    stat: Text | None = Field(description="The statistic that is limited; null: the metric's own.")
    status: VerdictStatus = Field(description="NOT_GATED: deliberately not measured in this run.")
    value: float | None = Field(description="What was held against the limit.")
    scored: int
    expected: int
    reason: Text | None = Field(description="Why the status is not PASS.")


class ScoreReport(Part):
    """One metric on one sample. Only a scored one has a value; any other has a reason."""

    status: ScoreStatus
    value: float | None
    reason: Text | None


class SliceMetricReport(Part):
    """One metric over one slice."""

    value: float | None
    median: float | None
    scored: int
    expected: int
    interval: tuple[float, float] | None


class SliceReport(Part):
    """Part of a dataset."""

    name: Text = Field(description="A tag, or key=value of the metadata.")
    selected: int
    metrics: dict[Text, SliceMetricReport]


class SampleReport(Part):
    """One sample: whether the agent answered, and its scores by metric."""

    id: Text
    tags: tuple[Text, ...]
    metadata: dict[str, Any]
    status: SampleStatus
    latency_ms: float | None = Field(description="From sending the request to the last byte of the reply.")
    error: Text | None = Field(description="Why there is no reply.")
    scores: dict[Text, ScoreReport]


class DatasetReport(Part):
    """One dataset."""

    name: Text
    selected: int = Field(description="Samples of this run, after tags and sampling.")
    answered: int = Field(description="Samples to which the agent gave a usable reply.")
    metrics: dict[Text, MetricReport]
    thresholds: tuple[ThresholdReport, ...]
    slices: tuple[SliceReport, ...] = Field(description="By the keys that the dataset's `slices` names.")
    samples: tuple[SampleReport, ...]


class UsageReport(Part):
    """What the judge consumed."""

    calls: int = Field(description="Requests that were answered.")
    retries: int = Field(description="Attempts that had to be repeated.")
    input_tokens: int
    output_tokens: int
    uncounted: int = Field(description="Answers for which the judge told no tokens: the sums are too low by these.")


class ReportDocument(Part):
    """One finished run."""

    schema_version: Literal[1]
    run_id: Text
    verdict: VerdictStatus
    partial: bool = Field(description="Something that was declared was deliberately not measured.")
    exit_code: int
    reasons: tuple[Text, ...] = Field(description="Why the verdict is not PASS.")
    notes: tuple[Text, ...] = Field(description="What a reader of the numbers should know.")
    fingerprint: dict[Text, Any] = Field(description="What was run: the content of run.json.")
    judge_usage: dict[Text, UsageReport] = Field(description="By the metric that asked; empty: no judge was asked.")
    datasets: tuple[DatasetReport, ...]


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
        selected=len(dataset.samples),
        answered=dataset.answered,
        metrics={metric: _metric(dataset, metric) for metric in dataset.summaries},
        thresholds=tuple(_threshold(outcome) for outcome in dataset.outcomes),
        slices=tuple(_slice(part) for part in dataset.slices),
        samples=tuple(_sample(sample) for sample in dataset.samples),
    )


def _slice(part: SliceResult) -> SliceReport:
    metrics = {
        name: SliceMetricReport(
            value=summary.value,
            median=summary.median,
            scored=summary.scored,
            expected=summary.expected,
            interval=summary.interval,
        )
        for name, summary in part.summaries.items()
    }
    return SliceReport(name=part.name, selected=part.selected, metrics=metrics)


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
        not_applicable=summary.not_applicable,
        interval=summary.interval,
        threshold=_limit_values(limit) if limit else None,
        passed=_PASSED.get(limit.status) if limit else None,
    )


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
        status=outcome.status,
        value=outcome.value,
        scored=outcome.scored,
        expected=outcome.expected,
        reason=outcome.reason,
    )


def _sample(sample: SampleResult) -> SampleReport:
    return SampleReport(
        id=sample.id,
        tags=sample.tags,
        metadata=dict(sample.metadata),
        status=sample.status,
        latency_ms=sample.latency_ms,
        error=sample.error,
        scores={
            metric: ScoreReport(status=score.status, value=score.value, reason=score.reason)
            for metric, score in sample.scores.items()
        },
    )
