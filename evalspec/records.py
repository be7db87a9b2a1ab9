"""Every type that crosses from one stage to the next. All are frozen; none knows where it came from or goes to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_EXCERPT = 70
"""Characters of an answer that a reason shows."""


class Direction(StrEnum):
    """Which way a metric improves, and so which side a bare threshold number limits."""

    HIGHER = "higher"
    LOWER = "lower"


class Need(StrEnum):
    """What a metric cannot be computed without. The first five are data, the last two are services."""

    EXPECTED = "expected"
    CONTEXT = "context"
    REFERENCE_CONTEXTS = "reference_contexts"
    RELEVANT = "relevant"
    RETRIEVED_IDS = "retrieved ids"
    JUDGE = "judge"
    EMBEDDINGS = "embeddings"


class ScoreStatus(StrEnum):
    """What is known about one (sample, metric) pair. Only SCORED carries a value."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    SKIPPED = "skipped"
    FAILED = "failed"


class SampleStatus(StrEnum):
    """Whether the agent answered."""

    ANSWERED = "answered"
    FAILED = "failed"


class VerdictStatus(StrEnum):
    """The outcome of a gate; INCOMPLETE means that the question could not be answered."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"
    NOT_GATED = "NOT_GATED"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One question of a dataset, with all that is known about its right answer.

    `references`: gold answers, the first being the one given as `expected`. `qrels`: {document id: grade}, where 0
    is judged not relevant and absent is unjudged. `groups`: AND/OR ground truth, ((a, b), (c,)) meaning that (a or b)
    and c are needed; every id in it has grade 1 in `qrels`. `line`: where it stands in its file, counted from 1.
    """

    id: str
    user_input: str | tuple[Message, ...]
    references: tuple[str, ...] = ()
    retrieved_contexts: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    qrels: Mapping[str, int] | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    groups: tuple[tuple[str, ...], ...] | None = None

    @property
    def reference(self) -> str | None:
        """The gold answer, or None where the dataset gives none."""
        return self.references[0] if self.references else None

    @property
    def question(self) -> str:
        """The text of the last user turn: what a metric that takes one string is given."""
        if isinstance(self.user_input, str):
            return self.user_input
        return next(message.content for message in reversed(self.user_input) if message.role == "user")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a corpus, as far as a dataset file brings it."""

    id: str
    text: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that one call consumed, as the service counted them."""

    input_tokens: int
    output_tokens: int

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class JudgeUsage:
    """Requests that were answered, how many attempts had to be repeated, and the tokens that the service counted.

    `uncounted`: answers for which the service told no tokens, so that the sums are known to be too low.
    """

    calls: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(
            self.calls + other.calls,
            self.retries + other.retries,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.uncounted + other.uncounted,
        )


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What the agent answered. None means that the reply does not tell, an empty tuple that there was nothing.

    `latency_ms`: from sending the request to the last byte of the reply, time in our own queue excluded.
    """

    response: str
    retrieved_contexts: tuple[str, ...] | None = None
    retrieved_context_ids: tuple[str, ...] | None = None
    tool_calls: tuple[Any, ...] | None = None
    usage: Usage | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One sample and what came back for it: the one thing that a metric is given. One of reply and error is set.

    `unreachable`: there was nobody to ask, so the error says nothing of how the agent works.
    """

    sample: Sample
    reply: AgentReply | None = None
    error: str | None = None
    unreachable: bool = False

    @property
    def response(self) -> str:
        """The agent's answer; metrics are asked only about exchanges that have a reply, unless they score failures."""
        return self.reply.response if self.reply else ""

    @property
    def answered(self) -> str:
        """The beginning of the answer in quotes, on one line: what a reader of a low score wants to see."""
        words = " ".join(self.response.split())
        return f"answered '{words[: _EXCERPT - 1]}…'" if len(words) > _EXCERPT else f"answered '{words}'"

    @property
    def retrieved_contexts(self) -> tuple[str, ...] | None:
        """The passages that the agent had: those in its reply, or else the sample's own `context`."""
        if self.reply and self.reply.retrieved_contexts is not None:
            return self.reply.retrieved_contexts
        return self.sample.retrieved_contexts

    @property
    def ranking(self) -> tuple[str, ...] | None:
        """Ids of the retrieved documents in the reply's own order, best first; None where the reply does not tell."""
        return self.reply.retrieved_context_ids if self.reply else None


@dataclass(frozen=True, slots=True)
class Score:
    """One metric on one sample. Scored means a finite value; any other status has none, and says why in `reason`.

    `evidence`: what the number rests on (statements with their verdicts, counts), ready for JSON.
    """

    status: ScoreStatus
    value: float | None = None
    reason: str | None = None
    evidence: Any = None

    def __post_init__(self) -> None:
        """Refuse a scored value that is not a number, and a value without the status."""
        scored = self.status is ScoreStatus.SCORED
        if scored != (self.value is not None and math.isfinite(self.value)):
            raise ValueError(f"a score of status {self.status} cannot have the value {self.value}")

    @classmethod
    def scored(cls, value: float, reason: str | None = None, evidence: Any = None) -> "Score":
        """A measured value."""
        return cls(ScoreStatus.SCORED, float(value), reason, evidence)

    @classmethod
    def not_applicable(cls, reason: str) -> "Score":
        """The metric is not defined on this sample: it leaves the mean and is counted apart."""
        return cls(ScoreStatus.NOT_APPLICABLE, reason=reason)

    @classmethod
    def skipped(cls, reason: str) -> "Score":
        """The metric was not asked for in this run."""
        return cls(ScoreStatus.SKIPPED, reason=reason)

    @classmethod
    def failed(cls, reason: str) -> "Score":
        """The metric should have been computed and could not: it lowers the coverage of its metric."""
        return cls(ScoreStatus.FAILED, reason=reason)


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What a run keeps of one sample after scoring: no texts, so that memory does not grow with the answers."""

    id: str
    status: SampleStatus
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: float | None = None
    error: str | None = None
    scores: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit. `stat` None means the metric's own statistic; `slice` is a tag or `key=value` of the metadata."""

    metric: str
    min: float | None = None
    max: float | None = None
    slice: str | None = None
    stat: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over one dataset. `expected` = samples to which the metric applies; `value` None = nothing scored.

    `interval`: bootstrap 95 % interval of the value, None below two scored samples or without a value.
    """

    metric: str
    statistic: str
    value: float | None
    interval: tuple[float, float] | None
    scored: int
    failed: int = 0
    skipped: int = 0
    not_applicable: int = 0
    median: float | None = None

    @property
    def expected(self) -> int:
        """How many scores there would be had nothing failed or been skipped."""
        return self.scored + self.failed + self.skipped


@dataclass(frozen=True, slots=True)
class ThresholdOutcome:
    """One limit after the run: `value` is what was compared, `reason` says why the status is not PASS."""

    threshold: Threshold
    status: VerdictStatus
    value: float | None
    scored: int
    expected: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SliceResult:
    """Part of a dataset, a tag or `key=value` of the metadata, and its summaries by metric."""

    name: str
    selected: int
    summaries: Mapping[str, Summary]


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """One dataset of a run: what was selected, what was answered, its scores, summaries and limits."""

    name: str
    direction: Mapping[str, Direction]
    samples: tuple[SampleResult, ...]
    summaries: Mapping[str, Summary]
    outcomes: tuple[ThresholdOutcome, ...]
    slices: tuple[SliceResult, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Run:
    """One finished execution: the only thing that a reporter is given. `judge_usage`: by the metric that asked."""

    id: str
    verdict: Verdict
    exit_code: int
    datasets: tuple[DatasetResult, ...]
    notes: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    judge_usage: Mapping[str, JudgeUsage] = field(default_factory=dict)
