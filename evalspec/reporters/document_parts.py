"""The JSON report as a typed document. Its keys are a promise to pipelines: they are only ever added.

Every value is known or null; what is not known says why in a status or a reason.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from evalspec.records import Cause, Direction, SampleStatus, ScoreStatus, VerdictStatus
from evalspec.reporters.document_base import Part, Text
from evalspec.reporters.document_retriever import DiagnosisReport, RetrieverReport, StageReport

Causes = Annotated[
    dict[Cause, int],
    Field(
        description="What is not applicable, by cause. The gate's maxNotApplicable limits reply and judge, not dataset "
        "and other."
    ),
]
LimitValues = dict[Literal["min", "max"], float]
"""The sides that a threshold limits; a side without a limit is left out."""

Timings = Annotated[
    dict[Text, float],
    Field(description="What the stages of a retriever took in ms; empty: none was asked, or it does not tell."),
]
Oddities = Annotated[
    dict[Text, int], Field(description="What was odd about a retriever's hits and is no error, by kind: how often.")
]

FinishReason = Annotated[
    Text | None,
    Field(description="Why the answer ended, in the agent's word; null: it does not say, or there are several."),
]


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
    not_applicable_causes: Causes
    interval: tuple[float, float] | None = Field(description="95 % interval of the value.")
    interval_method: Text | None = Field(
        description="bounded: Gaffke's, of scores between bounds; bootstrap: of numbers without bounds; order "
        "statistics: of percentiles."
    )
    no_interval: Text | None = Field(description="Why there is no interval.")
    units: int = Field(description="Independent samples, or clusters of samples, that were scored.")
    bounds: tuple[float, float] | None = Field(description="The range that scores reach; null: there is none.")
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
    confidence: float | None = Field(description="Of the interval that has to be within the limit; null: the value.")
    status: VerdictStatus = Field(description="NOT_GATED: deliberately not measured in this run.")
    value: float | None = Field(description="What was held against the limit.")
    bound: float | None = Field(
        description="The worse end of the interval, where the gate has a `confidence` and holds that against the limit."
    )
    scored: int
    expected: int
    not_applicable: int
    not_applicable_causes: Causes
    reason: Text | None = Field(description="Why the status is not PASS.")


class ScoreReport(Part):
    """One metric on one sample. Only a scored one has a value; any other has a reason."""

    status: ScoreStatus
    value: float | None
    reason: Text | None
    repeats: tuple[float, ...] = Field(
        description="What the judge gave each time, where it graded a reply more than once; value is their mean."
    )
    cause: Cause | None = Field(
        description="What a score is due to that is failed or not applicable. A scored one has a cause where it is the "
        "mean over attempts of which some are not applicable; else null."
    )


class SliceMetricReport(Part):
    """One metric over one slice."""

    value: float | None
    median: float | None
    scored: int
    expected: int
    failed: int
    skipped: int
    not_applicable: int
    not_applicable_causes: Causes
    interval: tuple[float, float] | None


class SliceReport(Part):
    """Part of a dataset."""

    name: Text = Field(description="A tag, or key=value of the metadata.")
    selected: int
    small: bool = Field(description="It has too few samples for its numbers to be ranked with those of others.")
    metrics: dict[Text, SliceMetricReport]


class AttemptReport(Part):
    """One asking of a sample that was asked more than once."""

    status: SampleStatus
    latency_ms: float | None
    error: Text | None
    unreachable: bool = Field(description="There was nobody to ask: the error says nothing of how the agent works.")
    passed: bool | None = Field(
        description="Whether every score is within the limits that the sample is held to; null: not known, or no limit."
    )
    scores: dict[Text, ScoreReport]
    timings_ms: Timings
    oddities: Oddities
    finish_reason: FinishReason


class SampleReport(Part):
    """One sample: whether the agent answered, and its scores by metric."""

    id: Text
    line: int | None = Field(description="Where it stands in the dataset's file, from 1.")
    tags: tuple[Text, ...]
    metadata: dict[str, Any]
    status: SampleStatus
    latency_ms: float | None = Field(description="From sending the request to the last byte of the reply.")
    error: Text | None = Field(description="Why there is no usable reply.")
    scores: dict[Text, ScoreReport]
    pass_rate: float | None = Field(
        description="The share of its attempts that passed; null: not known of all, or it is held to no limit."
    )
    attempts: tuple[AttemptReport, ...] = Field(
        description="One by one where it was asked more than once; the fields above then speak of all together."
    )
    timings_ms: Timings
    oddities: Oddities
    digest: Text | None = Field(
        description="A hash of all of the sample that a score may depend on, not of its id and tags; null: not known."
    )
    finish_reason: FinishReason


class VarianceReport(Part):
    """Where the spread of a metric over repeats comes from, as variances; null where it cannot be told."""

    replies: float | None = Field(description="Between scores of replies to the same sample, agent and judge together.")
    agent: float | None = Field(description="What is left of replies without the judge.")
    judge: float | None = Field(description="Between gradings of the same reply.")


class RepeatsReport(Part):
    """What asking every sample several times showed."""

    repeats: int
    decided: int = Field(description="Samples of which it is known of every attempt whether it passed.")
    pass_at: dict[int, float] = Field(description="k to the chance that at least one of k attempts passes, pass@k.")
    pass_all: dict[int, float] = Field(description="k to the chance that all of k attempts pass, pass^k.")
    flaky: tuple[Text, ...] = Field(description="Ids of the samples that sometimes pass and sometimes do not.")
    variance: dict[Text, VarianceReport]


class RegressionReport(Part):
    """One limit on getting worse than the baseline."""

    dataset: Text
    metric: Text | None = Field(description="null: the limit on samples that fail newly, unless ofBaseline.")
    status: VerdictStatus
    baseline: float | None
    candidate: float | None
    delta: float | None = Field(description="Candidate minus baseline, over the pairs.")
    interval: tuple[float, float] | None
    p_value: float | None = Field(description="Of the paired test that it got worse, adjusted over all metrics (maxT).")
    pairs: int = Field(description="Samples that both have scored.")
    reason: Text | None = Field(description="The statement that decides.")
    units: int = Field(description="Independent samples or clusters among the pairs; 0: nothing was tested.")
    unpaired: int = Field(description="Samples that only one of the runs has scored.")
    proven: bool = Field(description="The data exclude a drop beyond maxDrop; a PASS without it may be noise.")
    of_baseline: bool = Field(description="There is no baseline, or it has a dataset that this run lacks.")


class DatasetReport(Part):
    """One dataset."""

    name: Text
    file: Text | None = Field(description="Its file, as the manifest names it.")
    selected: int = Field(description="Samples of this run, after tags and sampling.")
    answered: int = Field(description="Samples to which the agent gave a usable reply.")
    metrics: dict[Text, MetricReport]
    thresholds: tuple[ThresholdReport, ...]
    slices: tuple[SliceReport, ...] = Field(description="By the keys that the dataset's `slices` names.")
    repeats: RepeatsReport | None = Field(description="null: each sample was asked once.")
    retriever: RetrieverReport | None = Field(description="How a retriever was asked; null: none was.")
    stages: tuple[StageReport, ...] = Field(description="What the stages of the retriever took, and total the whole.")
    diagnosis: DiagnosisReport | None = Field(
        description="Why rankings miss what they should have; null: not known, or left out by --no-content."
    )
    cluster: Text | None = Field(description="The metadata key of samples that belong together; null: none do.")
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
    has_texts: bool = Field(description="Reasons and errors are part of it; false: --no-content left them out.")
    regressions: tuple[RegressionReport, ...] = Field(description="Against the gate's baseline; empty: it has none.")
    fingerprint: dict[Text, Any] = Field(description="What was run: the content of run.json.")
    judge_usage: dict[Text, UsageReport] = Field(description="By the metric that asked; empty: no judge was asked.")
    datasets: tuple[DatasetReport, ...]
