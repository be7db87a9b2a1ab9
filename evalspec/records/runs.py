"""What is made of the scores: summaries, limits, the verdict, the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evalspec.records.diagnosis import Diagnosis
from evalspec.records.exchanges import JudgeUsage
from evalspec.records.scores import Cause, SampleResult, SampleStatus

_ROUNDING = 1e-9
"""A mean of 0.8s may come out a few units in the last place under 0.8: equal passes."""

MAX_REPEATS = 10_000
"""How often a sample can be asked, or a reply graded, in one run."""


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


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit. `stat` None means the metric's own statistic; `slice` is a tag or `key=value` of the metadata.

    `confidence`: of the interval whose worse end has to be within the limit too; None where the value alone counts.
    """

    metric: str
    min: float | None = None
    max: float | None = None
    slice: str | None = None
    stat: str | None = None
    confidence: float | None = None

    def undercut_by(self, value: float) -> bool:
        """Whether a value lies below the minimum."""
        return self.min is not None and value < self.min - _ROUNDING * max(1.0, abs(self.min))

    def exceeded_by(self, value: float) -> bool:
        """Whether a value lies above the maximum."""
        return self.max is not None and value > self.max + _ROUNDING * max(1.0, abs(self.max))

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit; equal is within."""
        return not self.undercut_by(value) and not self.exceeded_by(value)


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over one dataset. `expected` = samples to which the metric applies; `value` None = nothing scored.

    `interval`: 95 % interval of the value. `method`: how it was computed; `no_interval`: why there is none. `units`:
    the independent samples or clusters that were scored. `bounds`: the range that scores reach, None where there is
    none. `not_applicable`: how many scores are not applicable, by cause.
    """

    metric: str
    statistic: str
    value: float | None
    interval: tuple[float, float] | None
    scored: int
    failed: int = 0
    skipped: int = 0
    not_applicable: Mapping[Cause, int] = field(default_factory=dict)
    median: float | None = None
    method: str | None = None
    no_interval: str | None = None
    units: int = 0
    bounds: tuple[float, float] | None = None

    @property
    def expected(self) -> int:
        """How many scores there would be had nothing failed or been skipped."""
        return self.scored + self.failed + self.skipped


@dataclass(frozen=True, slots=True)
class ThresholdOutcome:
    """One limit after the run: `value` is what was measured, `reason` says why the status is not PASS.

    `bound`: the end of the interval that was held against the limit instead, where the gate has a `confidence`.
    `not_applicable`: as in Summary.
    """

    threshold: Threshold
    status: VerdictStatus
    value: float | None
    scored: int
    expected: int
    reason: str | None = None
    bound: float | None = None
    not_applicable: Mapping[Cause, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceResult:
    """Part of a dataset, a tag or `key=value` of the metadata, and its summaries by metric.

    `small`: it has too few samples for its numbers to be ranked with those of others.
    """

    name: str
    selected: int
    summaries: Mapping[str, Summary]
    small: bool = False


@dataclass(frozen=True, slots=True)
class Variance:
    """Where the spread of one metric over repeats comes from, as variances; None where it cannot be told.

    `replies`: between scores of replies to the same sample, agent and judge together. `judge`: between gradings of the
    same reply. `agent`: what is left of `replies` without the judge.
    """

    replies: float | None
    agent: float | None
    judge: float | None


@dataclass(frozen=True, slots=True)
class RepeatSummary:
    """What asking every sample `repeats` times showed, over the `decided` samples of which every attempt is known.

    `pass_at`: k to the chance that at least one of k attempts passes (pass@k); `pass_all`: that all of them do
    (pass^k). `flaky`: ids of samples that sometimes pass and sometimes do not.
    """

    repeats: int
    decided: int
    pass_at: Mapping[int, float]
    pass_all: Mapping[int, float]
    flaky: tuple[str, ...]
    variance: Mapping[str, Variance]


@dataclass(frozen=True, slots=True)
class RegressionOutcome:
    """One limit on getting worse than the baseline. `metric` None: the limit on samples that fail newly.

    `of_baseline`: there is no baseline, or it has a dataset that the run lacks; `dataset` is empty where it is for all.

    `delta`: candidate minus baseline over the `pairs` samples that both have scored, with its interval and the
    p-value of the paired test, adjusted over all metrics. `units`: the independent samples or clusters among the pairs,
    0 where nothing was tested. `unpaired`: samples that only one of the runs has scored. `proven`: the data exclude a
    drop beyond the limit; a PASS without it only says that noise may explain the drop. `reason`: the one statement
    that decides.
    """

    dataset: str
    metric: str | None
    status: VerdictStatus
    baseline: float | None = None
    candidate: float | None = None
    delta: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    pairs: int = 0
    reason: str | None = None
    units: int = 0
    unpaired: int = 0
    proven: bool = False
    of_baseline: bool = False

    @property
    def title(self) -> str:
        """What is limited."""
        return self.metric or ("baseline" if self.of_baseline else "new failures")

    @property
    def label(self) -> str:
        """What is limited, in which dataset."""
        return f"{self.dataset}: {self.title}" if self.dataset else self.title


@dataclass(frozen=True, slots=True)
class RetrieverSettings:
    """How a dataset's queries were put to a retriever, the name of which is `name`.

    `mode`: retrieve, or retrieve+rerank. `top_k`: how many distinct documents of each query were ranked;
    `rerank_top_k`: of how many candidates, where they were reranked. `scope_prefix`: where it looked. `depth`: how far
    down missing documents were looked for, 0 for not at all. `min_grade`: the lowest grade that is relevant.
    `origins`: who decided each of these settings, by its name in the manifest.
    """

    name: str
    mode: str
    top_k: int
    rerank_top_k: int | None = None
    scope_prefix: str = ""
    depth: int = 0
    min_grade: int = 1
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageLatency:
    """What one stage of asking a retriever took, in ms, over the `count` askings that tell it."""

    stage: str
    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """One dataset of a run: what was selected, what was answered, its scores, summaries and limits.

    `file`: as the manifest names it. `repeats`: only where each sample was asked more than once. `retriever`, `stages`
    and `diagnosis`: only where a retriever was asked, the last where its rankings are kept. `cluster`: the metadata key
    of samples that belong together.
    """

    name: str
    direction: Mapping[str, Direction]
    samples: tuple[SampleResult, ...]
    summaries: Mapping[str, Summary]
    outcomes: tuple[ThresholdOutcome, ...]
    slices: tuple[SliceResult, ...] = ()
    file: str | None = None
    repeats: RepeatSummary | None = None
    retriever: RetrieverSettings | None = None
    stages: tuple[StageLatency, ...] = ()
    diagnosis: Diagnosis | None = None
    cluster: str | None = None

    @property
    def answered(self) -> int:
        """Samples to which the agent gave a usable reply."""
        return sum(sample.status is SampleStatus.ANSWERED for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the run says to CI. `partial`: something declared was deliberately not measured."""

    status: VerdictStatus
    reasons: tuple[str, ...] = ()
    partial: bool = False


def describe_reuse(fingerprint: Mapping[str, Any]) -> str | None:
    """What to say of a run that asked an agent other than the one its manifest's `command` starts; None of others."""
    url = fingerprint.get("agent", {}).get("reusedUrl")
    return f"asked what already answers at {url}; `command` was not started" if url else None


@dataclass(frozen=True, slots=True)
class Run:
    """One finished execution. `judge_usage`: by the metric that asked. `regressions`: against the gate's baseline.

    `has_texts`: questions, answers and reasons are part of it; else only what was measured is (`--no-content`).
    """

    id: str
    verdict: Verdict
    exit_code: int
    datasets: tuple[DatasetResult, ...]
    notes: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    judge_usage: Mapping[str, JudgeUsage] = field(default_factory=dict)
    regressions: tuple[RegressionOutcome, ...] = ()
    has_texts: bool = True
