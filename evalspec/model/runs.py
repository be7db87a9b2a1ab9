"""What is made of the scores: summaries, thresholds with their outcomes, the verdict, the run."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from evalspec.model.base import Interval, Number, Record, Statistic, refuse_infinite
from evalspec.model.diagnosis import Diagnosis
from evalspec.model.exchanges import JudgeUsage
from evalspec.model.scores import Cause, SampleResult, SampleStatus

_ROUNDING = 1e-9
"""A mean of 0.8s may come out a few units in the last place under 0.8: equal passes."""

MAX_REPEATS = 10_000
"""How often a sample can be asked, or a reply graded, in one run."""

Causes = Annotated[
    Mapping[Cause, int],
    Meta(
        description="What is not applicable, by cause. The gate's maxNotApplicable limits reply and judge, not dataset "
        "and other."
    ),
]


class Direction(StrEnum):
    """Which way a metric improves, and so which side a bare threshold number limits."""

    HIGHER = "higher"
    LOWER = "lower"


class VerdictStatus(StrEnum):
    """The outcome of a gate; INCOMPLETE means that the question could not be answered."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"
    NOT_GATED = "NOT_GATED"


_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED, VerdictStatus.PASS)


_PASSED = {VerdictStatus.PASS: True, VerdictStatus.FAIL: False}


class Threshold(Record, frozen=True):
    """One limit, those on slices and other statistics included, and what came of it once the run is over."""

    metric: str
    min: float | None = None
    max: float | None = None
    slice: Annotated[str | None, Meta(description="A tag, or key=value of the metadata; null: the whole dataset.")] = (
        None
    )
    stat: Annotated[Statistic | None, Meta(description="The statistic that is limited; null: the metric's own.")] = None
    confidence: Annotated[
        float | None, Meta(description="Of the interval that has to be within the limit; null: the value.")
    ] = None
    status: Annotated[VerdictStatus, Meta(description="NOT_GATED: deliberately not measured in this run.")] = (
        VerdictStatus.NOT_GATED
    )
    value: Annotated[Number | None, Meta(description="The value that the limit applies to.")] = None
    bound: Annotated[
        Number | None,
        Meta(
            description="The worse end of the interval, where the gate has a `confidence` and holds that against the "
            "limit."
        ),
    ] = None
    scored: int = 0
    expected: int = 0
    not_applicable: int = 0
    not_applicable_causes: Causes = {}
    reason: Annotated[str | None, Meta(description="Why the status is not PASS.")] = None

    def __post_init__(self) -> None:
        """Refuse what JSON cannot say."""
        refuse_infinite((self.min, self.max, self.value, self.bound))
        complete_causes(self)

    def undercut_by(self, value: float) -> bool:
        """Whether a value lies below the minimum."""
        return self.min is not None and value < self.min - _ROUNDING * max(1.0, abs(self.min))

    def exceeded_by(self, value: float) -> bool:
        """Whether a value lies above the maximum."""
        return self.max is not None and value > self.max + _ROUNDING * max(1.0, abs(self.max))

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit; equal is within."""
        return not self.undercut_by(value) and not self.exceeded_by(value)

    def excess(self, value: float) -> float:
        """How far a value lies beyond the limit, as a share of the limit; 0 within it."""
        below = (self.min - value) / (abs(self.min) or 1.0) if self.min is not None else 0.0
        above = (value - self.max) / (abs(self.max) or 1.0) if self.max is not None else 0.0
        return max(below, above, 0.0)


def complete_causes(counted: "Threshold | Summary") -> None:
    """Make the number of scores that are not applicable and their causes agree.

    A file of an earlier release gives no causes.
    """
    if counted.not_applicable and not counted.not_applicable_causes:
        force_setattr(counted, "not_applicable_causes", {Cause.OTHER: counted.not_applicable})
    else:
        force_setattr(counted, "not_applicable", sum(counted.not_applicable_causes.values()))


class Summary(Record, frozen=True, kw_only=True):
    """One metric over one dataset, or over one slice of it."""

    value: Annotated[
        Number | None, Meta(description="The metric's statistic over the scored samples; null: nothing scored.")
    ]
    statistic: Annotated[
        Statistic, Meta(description="How scores became the value: mean, or a percentile such as p95.")
    ] = "mean"
    median: Annotated[Number | None, Meta(description="The median of the scored samples.")] = None
    direction: Annotated[Direction, Meta(description="Which way the metric improves.")] = Direction.HIGHER
    scored: int
    expected: Annotated[int, Meta(description="Samples to which the metric applies: scored, failed and skipped.")] = 0
    failed: Annotated[int, Meta(description="Samples whose score could not be computed.")] = 0
    skipped: Annotated[int, Meta(description="Samples that were deliberately not scored.")] = 0
    not_applicable: Annotated[
        int, Meta(description="Samples on which the metric is not defined; they are not in expected.")
    ] = 0
    not_applicable_causes: Causes = {}
    interval: Annotated[Interval | None, Meta(description="95 % interval of the value.")] = None
    interval_method: Annotated[
        str | None,
        Meta(
            description="bounded: Gaffke's, of scores between bounds; bootstrap: of numbers without bounds; order "
            "statistics: of percentiles."
        ),
    ] = None
    no_interval: Annotated[str | None, Meta(description="Why there is no interval.")] = None
    units: Annotated[int, Meta(description="Independent samples, or clusters of samples, that were scored.")] = 0
    bounds: Annotated[Interval | None, Meta(description="The range that scores reach; null: there is none.")] = None
    threshold: Annotated[
        Mapping[Literal["min", "max"], float] | None,
        Meta(
            description="The limit on this value, the tightest of several. Limits on other statistics stand "
            "in the dataset's thresholds only."
        ),
    ] = None
    passed: Annotated[
        bool | None, Meta(description="Whether that limit holds; null: there is none, or it was not decided.")
    ] = None

    def __post_init__(self) -> None:
        """Count what belongs together, and refuse what JSON cannot say."""
        refuse_infinite((self.value, self.median, *(self.interval or ()), *(self.bounds or ())))
        force_setattr(self, "expected", self.scored + self.failed + self.skipped)
        complete_causes(self)

    def within(self, limit: Threshold | None) -> "Summary":
        """The same with the limit on its value, and whether it holds, beside the value."""
        if limit is None:
            return self
        sides = {side: value for side, value in (("min", limit.min), ("max", limit.max)) if value is not None}
        return replace(self, threshold=sides, passed=_PASSED.get(limit.status))


class SliceResult(Record, frozen=True, kw_only=True):
    """Part of a dataset, and its summaries by metric."""

    name: Annotated[str, Meta(description="A tag, or key=value of the metadata.")]
    selected: int
    small: Annotated[
        bool, Meta(description="It has too few samples for its numbers to be ranked with those of others.")
    ] = False
    metrics: Mapping[str, Summary]


class Variance(Record, frozen=True):
    """Where the spread of a metric over repeats comes from, as variances; null where it cannot be told."""

    replies: Annotated[
        Number | None, Meta(description="Between scores of replies to the same sample, agent and judge together.")
    ]
    agent: Annotated[Number | None, Meta(description="What is left of replies without the judge.")]
    judge: Annotated[Number | None, Meta(description="Between gradings of the same reply.")]


class RepeatSummary(Record, frozen=True):
    """What asking every sample several times showed."""

    repeats: int
    decided: Annotated[int, Meta(description="Samples of which it is known of every attempt whether it passed.")]
    pass_at: Annotated[
        Mapping[int, Number], Meta(description="k to the chance that at least one of k attempts passes, pass@k.")
    ]
    pass_all: Annotated[Mapping[int, Number], Meta(description="k to the chance that all of k attempts pass, pass^k.")]
    flaky: Annotated[tuple[str, ...], Meta(description="Ids of the samples that sometimes pass and sometimes do not.")]
    variance: Mapping[str, Variance]


class RegressionOutcome(Record, frozen=True):
    """One limit on getting worse than the baseline. `dataset` is empty where it is for all of them."""

    dataset: str
    metric: Annotated[str | None, Meta(description="null: the limit on samples that fail newly, unless ofBaseline.")]
    status: VerdictStatus
    baseline: Number | None = None
    candidate: Number | None = None
    delta: Annotated[Number | None, Meta(description="Candidate minus baseline, over the pairs.")] = None
    interval: Interval | None = None
    p_value: Annotated[
        Number | None, Meta(description="Of the paired test that it got worse, adjusted over all metrics (maxT).")
    ] = None
    pairs: Annotated[int, Meta(description="Samples that both have scored.")] = 0
    reason: Annotated[str | None, Meta(description="The statement that decides.")] = None
    units: Annotated[
        int, Meta(description="Independent samples or clusters among the pairs; 0: nothing was tested.")
    ] = 0
    unpaired: Annotated[int, Meta(description="Samples that only one of the runs has scored.")] = 0
    proven: Annotated[
        bool, Meta(description="The data exclude a drop beyond maxDrop; a PASS without it may be noise.")
    ] = False
    of_baseline: Annotated[bool, Meta(description="There is no baseline, or it has a dataset that this run lacks.")] = (
        False
    )

    def __post_init__(self) -> None:
        """Refuse what JSON cannot say."""
        refuse_infinite((self.baseline, self.candidate, self.delta, self.p_value, *(self.interval or ())))

    @property
    def title(self) -> str:
        """What is limited."""
        return self.metric or ("baseline" if self.of_baseline else "new failures")

    @property
    def label(self) -> str:
        """What is limited, in which dataset."""
        return f"{self.dataset}: {self.title}" if self.dataset else self.title


class RetrieverSettings(Record, frozen=True):
    """How the queries of a dataset were put to a retriever."""

    name: str
    mode: Annotated[str, Meta(description="retrieve, or retrieve+rerank.")]
    top_k: Annotated[int, Meta(description="How many distinct documents of each query were ranked.")]
    rerank_top_k: Annotated[int | None, Meta(description="Of how many candidates; null: nothing was reranked.")] = None
    scope_prefix: Annotated[str, Meta(description="Where it looked; empty: everywhere.")] = ""
    depth: Annotated[int, Meta(description="How far down missing documents were looked for; 0: they were not.")] = 0
    min_grade: Annotated[int, Meta(description="The lowest grade that is relevant.")] = 1
    origins: Annotated[Mapping[str, str], Meta(description="Who decided a setting, by its name in the manifest.")] = {}


class StageLatency(Record, frozen=True):
    """What one stage took, in ms."""

    stage: Annotated[str, Meta(description="embed, retrieve, rerank, one of the retriever's own, or total.")]
    count: Annotated[int, Meta(description="Of how many attempts it is known.")]
    p50: Number
    p95: Number
    p99: Number


class DatasetResult(Record, frozen=True, kw_only=True):
    """One dataset of a run."""

    name: str
    file: Annotated[str | None, Meta(description="Its file, as the manifest names it.")] = None
    selected: Annotated[int, Meta(description="Samples of this run, after tags and sampling.")] = -1
    answered: Annotated[int, Meta(description="Samples to which the agent gave a usable reply.")] = -1
    metrics: Mapping[str, Summary]
    thresholds: tuple[Threshold, ...] = ()
    slices: Annotated[tuple[SliceResult, ...], Meta(description="By the keys that the dataset's `slices` names.")] = ()
    repeats: Annotated[RepeatSummary | None, Meta(description="null: each sample was asked once.")] = None
    retriever: Annotated[RetrieverSettings | None, Meta(description="How a retriever was asked; null: none was.")] = (
        None
    )
    stages: Annotated[
        tuple[StageLatency, ...], Meta(description="What the stages of the retriever took, and total the whole.")
    ] = ()
    diagnosis: Annotated[
        Diagnosis | None,
        Meta(description="Why rankings miss what they should have; null: not known, or left out by --no-content."),
    ] = None
    cluster: Annotated[
        str | None, Meta(description="The metadata key of samples that belong together; null: none do.")
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
        """Whether a threshold limits the value of the metric's summary, in the whole dataset or a slice."""
        summary = self.metrics.get(threshold.metric)
        return summary is not None and threshold.slice == slice and threshold.stat in (None, summary.statistic)

    def own_threshold(self, metric: str, slice: str | None = None) -> Threshold | None:
        """The tightest of a metric's own thresholds with their worst status, None where it has none."""
        own = [limit for limit in self.thresholds if limit.metric == metric and self.is_own(limit, slice)]
        if not own:
            return None
        lowest = [limit.min for limit in own if limit.min is not None]
        highest = [limit.max for limit in own if limit.max is not None]
        status = min((limit.status for limit in own), key=_WORST_FIRST.index)
        return Threshold(metric, max(lowest, default=None), min(highest, default=None), slice, status=status)

    def with_limits(self) -> "DatasetResult":
        """The same with the limits of each metric's value, and whether they hold, beside the value."""
        slices = tuple(replace(part, metrics=self._limit(part.metrics, part.name)) for part in self.slices)
        return replace(self, metrics=self._limit(self.metrics), slices=slices)

    def _limit(self, metrics: Mapping[str, Summary], slice: str | None = None) -> dict[str, Summary]:
        return {name: summary.within(self.own_threshold(name, slice)) for name, summary in metrics.items()}


class Run(Record, frozen=True, kw_only=True):
    """One finished execution."""

    schema_version: Literal[1] = 1
    id: Annotated[str, Meta(description="The name of the run in the store.")] = field(name="runId")
    verdict: VerdictStatus = VerdictStatus.NOT_GATED
    partial: Annotated[bool, Meta(description="Something that was declared was deliberately not measured.")] = False
    exit_code: int = 0
    reasons: Annotated[tuple[str, ...], Meta(description="Why the verdict is not PASS.")] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What a reader of the numbers should know.")] = ()
    has_texts: Annotated[
        bool, Meta(description="Reasons and errors are part of it; false: --no-content left them out.")
    ] = True
    regressions: Annotated[
        tuple[RegressionOutcome, ...], Meta(description="Against the gate's baseline; empty: it has none.")
    ] = ()
    fingerprint: Annotated[Mapping[str, Any], Meta(description="What was run: the content of run.json.")] = {}
    judge_usage: Annotated[
        Mapping[str, JudgeUsage], Meta(description="By the metric that asked; empty: no judge was asked.")
    ] = {}
    datasets: tuple[DatasetResult, ...]

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """A data frame with a row for each sample: dataset, id, status, latency and each metric's score, null where a
        sample has none.

        `library`: pandas where it is installed, else polars.

        Raises:
            ImportError: it is not installed.
        """
        metrics = dict.fromkeys(metric for dataset in self.datasets for metric in dataset.metrics)
        rows = [
            {"dataset": dataset.name, "id": sample.id, "status": str(sample.status), "latency_ms": sample.latency_ms}
            | {metric: score.value if (score := sample.scores.get(metric)) else None for metric in metrics}
            for dataset in self.datasets
            for sample in dataset.samples
        ]
        name = library or ("pandas" if find_spec("pandas") else "polars")
        return import_module(name).DataFrame(rows)

    def _repr_html_(self) -> str:
        """The run in a notebook: verdict, reasons and a table of the metrics."""
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in self._list_values()
        )
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        head = "<tr><th>dataset</th><th>metric</th><th>value</th><th>95 % interval</th><th>scored</th></tr>"
        return f"<b>{self.verdict}</b> {escape(self.id)}<ul>{reasons}</ul><table>{head}{rows}</table>"

    def _list_values(self) -> Iterator[tuple[str, ...]]:
        for dataset in self.datasets:
            for metric, found in dataset.metrics.items():
                value = "–" if found.value is None else f"{found.value:.4g}"
                interval = "–" if found.interval is None else " – ".join(f"{bound:.4g}" for bound in found.interval)
                yield dataset.name, metric, value, interval, f"{found.scored}/{found.expected}"


class Verdict(NamedTuple):
    """What the gate decides. `partial`: something declared was deliberately not measured."""

    status: VerdictStatus
    reasons: tuple[str, ...] = ()
    partial: bool = False


def describe_reuse(fingerprint: Mapping[str, Any]) -> str | None:
    """What to say of a run that asked an agent other than the one its manifest's `command` starts; None of others."""
    url = fingerprint.get("agent", {}).get("reusedUrl")
    return f"asked what already answers at {url}; `command` was not started" if url else None
