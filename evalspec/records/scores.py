"""What is made of a reply: scores, and what a run keeps of each sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evalspec.records.exchanges import Exchange, SearchTrace

LARGEST_VALUE = 1e100
"""Of a score, either side of 0: sums and squares of greater ones could be beyond all numbers."""


class ScoreStatus(StrEnum):
    """What is known about one (sample, metric) pair. Only SCORED carries a value."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    SKIPPED = "skipped"
    FAILED = "failed"


class Cause(StrEnum):
    """What a score without a value is due to.

    OTHER is the rest: a scorer's None, the rules of `compat`, an error of our own.
    """

    DATASET = "dataset"
    REPLY = "reply"
    JUDGE = "judge"
    OTHER = "other"


class SampleStatus(StrEnum):
    """Whether the agent answered."""

    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Score:
    """One metric on one sample. Scored means a value; any other status has none, and says why in `reason`.

    `evidence`: what the number rests on (statements with their verdicts, counts), ready for JSON. `repeats`: what the
    judge gave each time, where it was asked more than once about the same reply; `value` is their mean. `cause`: of a
    score that is failed or not applicable, OTHER where none is given; of a mean over attempts, that of those that lack
    evidence.
    """

    status: ScoreStatus
    value: float | None = None
    reason: str | None = None
    evidence: Any = None
    repeats: tuple[float, ...] = ()
    cause: Cause | None = None

    def __post_init__(self) -> None:
        """Refuse a scored value that is not a number, and a value without the status.

        A score from a file of an earlier release has no cause.
        """
        scored = self.status is ScoreStatus.SCORED
        if scored != (self.value is not None and abs(self.value) <= LARGEST_VALUE):
            raise ValueError(f"a score of status {self.status} cannot have the value {self.value}")
        if self.cause is None and self.status in (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE):
            object.__setattr__(self, "cause", Cause.OTHER)

    @property
    def lacks_evidence(self) -> bool:
        """Whether it is not applicable because of the reply or the judge: the gate allows a share of those."""
        return self.status is ScoreStatus.NOT_APPLICABLE and self.cause in (Cause.REPLY, Cause.JUDGE)

    @classmethod
    def scored(
        cls, value: float, reason: str | None = None, evidence: Any = None, repeats: tuple[float, ...] = ()
    ) -> "Score":
        """A measured value."""
        return cls(ScoreStatus.SCORED, float(value), reason, evidence, repeats)

    @classmethod
    def not_applicable(cls, reason: str, cause: Cause) -> "Score":
        """The metric is not defined on this sample: it leaves the mean and is counted apart, by its cause."""
        return cls(ScoreStatus.NOT_APPLICABLE, reason=reason, cause=cause)

    @classmethod
    def skipped(cls, reason: str) -> "Score":
        """The metric was not asked for in this run."""
        return cls(ScoreStatus.SKIPPED, reason=reason)

    @classmethod
    def failed(cls, reason: str, cause: Cause = Cause.OTHER) -> "Score":
        """The metric should have been computed and could not: it lowers the coverage of its metric."""
        return cls(ScoreStatus.FAILED, reason=reason, cause=cause)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One asking of one sample with all its texts, as the run store holds it. `attempt` counts from 1."""

    dataset: str
    attempt: int
    exchange: Exchange
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One asking of one sample after scoring: no texts, so that memory does not grow with the answers.

    `unreachable`: there was nobody to ask, so the error says nothing of how the agent works. `passed`: whether every
    score is within the limits that the sample is held to; None where there is no such limit, or it is not known.
    `trace`: where a retriever was asked. `finish_reason`: as in AgentReply.
    """

    status: SampleStatus
    latency_ms: float | None = None
    error: str | None = None
    unreachable: bool = False
    scores: Mapping[str, Score] = field(default_factory=dict)
    passed: bool | None = None
    trace: SearchTrace | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What a run keeps of one sample.

    `attempts`: one by one where the sample was asked more than once, empty otherwise. The other fields then speak of
    all of them together: failed where any failed, the mean of latencies and scores. `pass_rate`: the share of attempts
    that passed, None where that is not known of all. `line`: where the sample stands in the dataset's file. `trace` and
    `finish_reason`: of the one asking; of several, each attempt has its own. `digest` and `slices`: the sample's.
    """

    id: str
    status: SampleStatus
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: float | None = None
    error: str | None = None
    scores: Mapping[str, Score] = field(default_factory=dict)
    line: int | None = None
    pass_rate: float | None = None
    attempts: tuple[Attempt, ...] = ()
    trace: SearchTrace | None = None
    digest: str | None = None
    finish_reason: str | None = None
    slices: tuple[str, ...] = ()
