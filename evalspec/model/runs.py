"""Results of a run: summaries, thresholds with their outcomes, the run itself."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from evalspec.model.base import Interval, Number, Record, Statistic, refuse_infinite
from evalspec.model.curation import Curation
from evalspec.model.diagnosis import Diagnosis
from evalspec.model.exchanges import JudgeUsage
from evalspec.model.scores import Cause, SampleResult, SampleStatus
from evalspec.model.verdicts import RegressionOutcome, VerdictStatus

_ROUNDING = 1e-9
"""Tolerance for rounding errors: a mean of scores of 0.8 may be slightly below 0.8, and must pass a limit of 0.8."""

MAX_REPEATS = 10_000
"""The maximum number of attempts per sample, and of gradings per reply, in one run."""

Causes = Annotated[
    Mapping[Cause, int],
    Meta(
        description="Counts of scores that are not applicable, by cause. The gate's maxNotApplicable limits reply and "
        "judge, not dataset and other."
    ),
]


class Direction(StrEnum):
    """The direction in which a metric improves. A threshold that is a bare number limits the other side."""

    HIGHER = "higher"
    LOWER = "lower"


_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED, VerdictStatus.PASS)


_PASSED = {VerdictStatus.PASS: True, VerdictStatus.FAIL: False}


class Threshold(Record, frozen=True):
    """One limit on a metric, a slice or another statistic, with its outcome once the run is finished."""

    metric: str
    min: float | None = None
    max: float | None = None
    slice: Annotated[str | None, Meta(description="A tag, or key=value of the metadata; null: the whole dataset.")] = (
        None
    )
    stat: Annotated[Statistic | None, Meta(description="The statistic that is limited; null: the metric's own.")] = None
    confidence: Annotated[
        float | None,
        Meta(description="Confidence of the interval to compare with the limit; null: compare the value."),
    ] = None
    status: Annotated[VerdictStatus, Meta(description="NOT_GATED: deliberately not measured in this run.")] = (
        VerdictStatus.NOT_GATED
    )
    value: Annotated[Number | None, Meta(description="The value that the limit applies to.")] = None
    bound: Annotated[
        Number | None,
        Meta(description="The worse end of the interval, compared with the limit if the gate has a `confidence`."),
    ] = None
    scored: int = 0
    expected: int = 0
    not_applicable: int = 0
    not_applicable_causes: Causes = {}
    reason: Annotated[str | None, Meta(description="Why the status is not PASS.")] = None

    def __post_init__(self) -> None:
        """Refuse numbers that JSON cannot represent, and complete the counts."""
        refuse_infinite((self.min, self.max, self.value, self.bound))
        complete_causes(self)

    def undercut_by(self, value: float) -> bool:
        """Return whether a value is below the minimum."""
        return self.min is not None and value < self.min - _ROUNDING * max(1.0, abs(self.min))

    def exceeded_by(self, value: float) -> bool:
        """Return whether a value is above the maximum."""
        return self.max is not None and value > self.max + _ROUNDING * max(1.0, abs(self.max))

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit. Equal is within."""
        return not self.undercut_by(value) and not self.exceeded_by(value)

    def excess(self, value: float) -> float:
        """Return how far a value exceeds the limit on either side, as a share of the limit. 0 within the limit."""
        below = (self.min - value) / (abs(self.min) or 1.0) if self.min is not None else 0.0
        above = (value - self.max) / (abs(self.max) or 1.0) if self.max is not None else 0.0
        return max(below, above, 0.0)


def complete_causes(counted: "Threshold | Summary") -> None:
    """Set the number of scores that are not applicable from their causes.

    Files of earlier releases have only the number. Their cause becomes OTHER.
    """
    if counted.not_applicable and not counted.not_applicable_causes:
        force_setattr(counted, "not_applicable_causes", {Cause.OTHER: counted.not_applicable})
    else:
        force_setattr(counted, "not_applicable", sum(counted.not_applicable_causes.values()))


class Summary(Record, frozen=True, kw_only=True):
    """One metric over one dataset, or over one slice of it."""

    value: Annotated[
        Number | None, Meta(description="The metric's statistic over the scored samples; null: no sample is scored.")
    ]
    statistic: Annotated[
        Statistic, Meta(description="The statistic of the value: mean, or a percentile such as p95.")
    ] = "mean"
    median: Annotated[Number | None, Meta(description="The median of the scored samples.")] = None
    direction: Annotated[Direction, Meta(description="The direction in which the metric improves.")] = Direction.HIGHER
    scored: int
    expected: Annotated[int, Meta(description="Samples to which the metric applies: scored, failed and skipped.")] = 0
    failed: Annotated[int, Meta(description="Samples whose score could not be computed.")] = 0
    skipped: Annotated[int, Meta(description="Samples that were deliberately not scored.")] = 0
    not_applicable: Annotated[
        int, Meta(description="Samples on which the metric is undefined. They are not in expected.")
    ] = 0
    not_applicable_causes: Causes = {}
    interval: Annotated[Interval | None, Meta(description="95 % interval of the value.")] = None
    interval_method: Annotated[
        str | None,
        Meta(
            description="bounded: Gaffke's interval, for bounded scores; bootstrap: for unbounded scores; order "
            "statistics: for percentiles."
        ),
    ] = None
    no_interval: Annotated[str | None, Meta(description="Why there is no interval.")] = None
    units: Annotated[int, Meta(description="Independent samples, or clusters of samples, that were scored.")] = 0
    bounds: Annotated[Interval | None, Meta(description="The range of possible scores; null: unbounded.")] = None
    threshold: Annotated[
        Mapping[Literal["min", "max"], float] | None,
        Meta(
            description="The limit on this value, the tightest if there are several. Limits on other statistics are "
            "only in the dataset's thresholds."
        ),
    ] = None
    passed: Annotated[
        bool | None, Meta(description="Whether the value is within that limit; null: no limit, or undecided.")
    ] = None

    def __post_init__(self) -> None:
        """Complete the counts, and refuse numbers that JSON cannot represent."""
        refuse_infinite((self.value, self.median, *(self.interval or ()), *(self.bounds or ())))
        force_setattr(self, "expected", self.scored + self.failed + self.skipped)
        complete_causes(self)

    def within(self, limit: Threshold | None) -> "Summary":
        """Return a copy with the limit on the value, and whether the value is within it."""
        if limit is None:
            return self
        sides = {side: value for side, value in (("min", limit.min), ("max", limit.max)) if value is not None}
        return replace(self, threshold=sides, passed=_PASSED.get(limit.status))


class SliceResult(Record, frozen=True, kw_only=True):
    """Part of a dataset, and its summaries by metric."""

    name: Annotated[str, Meta(description="A tag, or key=value of the metadata.")]
    selected: int
    small: Annotated[bool, Meta(description="Whether it has too few samples to be ranked among other slices.")] = False
    metrics: Mapping[str, Summary]


class Variance(Record, frozen=True):
    """The sources of the variance of a metric over repeats. null: unknown."""

    replies: Annotated[
        Number | None,
        Meta(description="Variance between scores of replies to the same sample, agent and judge together."),
    ]
    agent: Annotated[Number | None, Meta(description="Variance of replies without the part of the judge.")]
    judge: Annotated[Number | None, Meta(description="Variance between gradings of the same reply.")]


class RepeatSummary(Record, frozen=True):
    """Results over several attempts per sample."""

    repeats: int
    decided: Annotated[int, Meta(description="Samples for which every attempt either passed or failed.")]
    pass_at: Annotated[
        Mapping[int, Number], Meta(description="pass@k by k: the probability that at least one of k attempts passes.")
    ]
    pass_all: Annotated[
        Mapping[int, Number], Meta(description="pass^k by k: the probability that all of k attempts pass.")
    ]
    flaky: Annotated[tuple[str, ...], Meta(description="Ids of samples with both passed and failed attempts.")]
    variance: Mapping[str, Variance]


class RetrieverSettings(Record, frozen=True):
    """The settings with which the queries of a dataset were sent to a retriever."""

    name: str
    mode: Annotated[str, Meta(description="retrieve, or retrieve+rerank.")]
    top_k: Annotated[int, Meta(description="Number of distinct documents in each ranking.")]
    rerank_top_k: Annotated[int | None, Meta(description="Number of reranked candidates; null: no reranking.")] = None
    scope_prefix: Annotated[str, Meta(description="The searched scope; empty: everything.")] = ""
    depth: Annotated[int, Meta(description="Depth of the search for missing documents; 0: no such search.")] = 0
    min_grade: Annotated[int, Meta(description="The lowest grade that is relevant.")] = 1
    origins: Annotated[
        Mapping[str, str], Meta(description="The source of each setting, by its name in the manifest.")
    ] = {}


class StageLatency(Record, frozen=True):
    """The latency of one stage, in ms."""

    stage: Annotated[
        str,
        Meta(description="first_token of an agent; embed, retrieve, rerank, a stage of the retriever's own; or total."),
    ]
    count: Annotated[int, Meta(description="Number of attempts with a known latency.")]
    p50: Number
    p95: Number
    p99: Number


class DatasetResult(Record, frozen=True, kw_only=True):
    """One dataset of a run."""

    name: str
    file: Annotated[str | None, Meta(description="Its file, as written in the manifest.")] = None
    source_id: Annotated[str | None, Meta(description="The id in its file; null: the file has none.")] = None
    description: Annotated[str | None, Meta(description="The description in its file; null: none.")] = None
    selected: Annotated[int, Meta(description="Samples of this run, after tags and sampling.")] = -1
    answered: Annotated[int, Meta(description="Samples with a usable reply.")] = -1
    metrics: Mapping[str, Summary]
    thresholds: tuple[Threshold, ...] = ()
    slices: Annotated[tuple[SliceResult, ...], Meta(description="Slices by the keys in the dataset's `slices`.")] = ()
    repeats: Annotated[RepeatSummary | None, Meta(description="null: one attempt per sample.")] = None
    retriever: Annotated[RetrieverSettings | None, Meta(description="Settings of the retriever; null: none.")] = None
    stages: Annotated[
        tuple[StageLatency, ...],
        Meta(
            description="Latencies of the stages of the retriever, or to the first token of streams, and their total."
        ),
    ] = ()
    diagnosis: Annotated[
        Diagnosis | None,
        Meta(description="Why rankings miss relevant documents; null: unknown, or omitted by --no-content."),
    ] = None
    cluster: Annotated[
        str | None, Meta(description="The metadata key that groups dependent samples; null: samples are independent.")
    ] = None
    gold: Annotated[
        Curation | None, Meta(description="Agreement and quality of a gold set at the time of the run; null: not one.")
    ] = None
    samples: tuple[SampleResult, ...]

    def __post_init__(self) -> None:
        """Count the samples, unless their counts are given: a report of many may leave them out."""
        if self.selected < 0:
            force_setattr(self, "selected", len(self.samples))
        if self.answered < 0:
            answered = sum(sample.status is SampleStatus.ANSWERED for sample in self.samples)
            force_setattr(self, "answered", answered)

    def is_own(self, threshold: Threshold, slice: str | None = None) -> bool:
        """Return whether a threshold limits the value of the metric's summary, in the whole dataset or in a slice."""
        summary = self.metrics.get(threshold.metric)
        return summary is not None and threshold.slice == slice and threshold.stat in (None, summary.statistic)

    def own_threshold(self, metric: str, slice: str | None = None) -> Threshold | None:
        """Return the tightest of a metric's own thresholds, with the worst of their statuses. None if it has none."""
        own = [limit for limit in self.thresholds if limit.metric == metric and self.is_own(limit, slice)]
        if not own:
            return None
        lowest = [limit.min for limit in own if limit.min is not None]
        highest = [limit.max for limit in own if limit.max is not None]
        status = min((limit.status for limit in own), key=_WORST_FIRST.index)
        return Threshold(metric, max(lowest, default=None), min(highest, default=None), slice, status=status)

    def with_limits(self) -> "DatasetResult":
        """Return a copy with the limit of each metric in its summary, and whether the value is within it."""
        slices = tuple(replace(part, metrics=self._limit(part.metrics, part.name)) for part in self.slices)
        return replace(self, metrics=self._limit(self.metrics), slices=slices)

    def _limit(self, metrics: Mapping[str, Summary], slice: str | None = None) -> dict[str, Summary]:
        return {name: summary.within(self.own_threshold(name, slice)) for name, summary in metrics.items()}


class Run(Record, frozen=True, kw_only=True):
    """One finished run."""

    schema_version: Literal[1] = 1
    id: Annotated[str, Meta(description="The id of the run in the store.")] = field(name="runId")
    verdict: VerdictStatus = VerdictStatus.NOT_GATED
    partial: Annotated[bool, Meta(description="Whether declared metrics or thresholds were deliberately skipped.")] = (
        False
    )
    exit_code: int = 0
    reasons: Annotated[tuple[str, ...], Meta(description="Why the verdict is not PASS.")] = ()
    notes: Annotated[tuple[str, ...], Meta(description="Notes on how to interpret the numbers.")] = ()
    has_texts: Annotated[
        bool, Meta(description="Whether reasons and errors are included; false: --no-content omitted them.")
    ] = True
    regressions: Annotated[
        tuple[RegressionOutcome, ...],
        Meta(description="Outcomes of the limits on regressions from the gate's baseline; empty: no baseline."),
    ] = ()
    fingerprint: Annotated[Mapping[str, Any], Meta(description="What was run: the content of run.json.")] = {}
    judge_usage: Annotated[Mapping[str, JudgeUsage], Meta(description="By metric; empty: the judge was not used.")] = {}
    datasets: tuple[DatasetResult, ...]

    def __repr__(self) -> str:
        """The run in a line; a full one would have every score of every sample."""
        datasets = ", ".join(f"{dataset.name} ({dataset.selected})" for dataset in self.datasets)
        return f"<Run {self.id}: {self.verdict}, {datasets}>"

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Return a data frame with a row for each sample: dataset, id, status, latency and each score (null: none).

        `library`: default pandas if it is installed, else polars.

        Raises:
            ImportError: The library is not installed.
        """
        from evalspec.model.notebook import build_frame

        return build_frame(self, library)

    def _repr_html_(self) -> str:
        """Return the run as HTML for notebooks: verdict, reasons and a table of the metrics."""
        from evalspec.model.notebook import render_notebook

        return render_notebook(self)


def describe_reuse(fingerprint: Mapping[str, Any]) -> str | None:
    """Return a note if a run used an agent that was running already instead of starting `command`, else None."""
    url = fingerprint.get("agent", {}).get("reusedUrl")
    return f"used the agent already running at {url}; `command` was not started" if url else None
