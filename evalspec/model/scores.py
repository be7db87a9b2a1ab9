"""What is made of a reply: scores, and what a run keeps of each sample."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from evalspec.model.base import LARGEST_VALUE, Number, Record
from evalspec.model.exchanges import Exchange, FinishReason, Oddities, Timings


class ScoreStatus(StrEnum):
    """What is known about one (sample, metric) pair. Only SCORED carries a value."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    SKIPPED = "skipped"
    FAILED = "failed"


class Cause(StrEnum):
    """Why a score has no value.

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


class Score(Record, frozen=True):
    """One metric on one sample. Only a scored one has a value; any other has a reason.

    `evidence`: what the value rests on (statements with their verdicts, counts), ready for JSON. Only the run log keeps
    it: the scores of a Run have none.
    """

    status: ScoreStatus
    value: Number | None = None
    reason: str | None = None
    repeats: Annotated[
        tuple[Number, ...],
        Meta(description="What the judge gave each time, where it graded a reply more than once; value is their mean."),
    ] = ()
    cause: Annotated[
        Cause | None,
        Meta(
            description="Why a score is failed or not applicable. A scored one has a cause where it is the mean over "
            "attempts of which some are not applicable; else null."
        ),
    ] = None
    evidence: Any | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a scored value that is not a number, and a value without the status.

        A score from a file of an earlier release has no cause; a log writes null for no evidence.
        """
        scored = self.status is ScoreStatus.SCORED
        if scored != (self.value is not None and abs(self.value) <= LARGEST_VALUE):
            raise ValueError(f"a score of status {self.status} cannot have the value {self.value}")
        if self.cause is None and self.status in (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE):
            force_setattr(self, "cause", Cause.OTHER)
        if self.evidence is None:
            force_setattr(self, "evidence", UNSET)

    @property
    def evidence_or_none(self) -> Any:
        """The evidence, None where there is none."""
        return None if self.evidence is UNSET else self.evidence

    @property
    def lacks_evidence(self) -> bool:
        """Whether it is not applicable because of the reply or the judge: the gate allows a share of those."""
        return self.status is ScoreStatus.NOT_APPLICABLE and self.cause in (Cause.REPLY, Cause.JUDGE)

    def without_evidence(self) -> "Score":
        """The score as a Run keeps it."""
        if self.evidence is UNSET:
            return self
        return Score(self.status, self.value, self.reason, self.repeats, self.cause)

    @classmethod
    def scored(
        cls,
        value: float,
        reason: str | None = None,
        evidence: Any | UnsetType = UNSET,
        repeats: tuple[float, ...] = (),
    ) -> "Score":
        """A measured value."""
        return cls(ScoreStatus.SCORED, float(value), reason, repeats, evidence=evidence)

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


class StoredExchange(Record, frozen=True):
    """One asking of one sample with all its texts, as the run store holds it. `attempt` counts from 1."""

    dataset: str
    attempt: int
    exchange: Exchange
    scores: Mapping[str, Score]


class Attempt(Record, frozen=True):
    """One asking of a sample after scoring: no texts, so that memory does not grow with the answers."""

    status: SampleStatus
    latency_ms: Number | None = None
    error: str | None = None
    unreachable: Annotated[
        bool, Meta(description="There was nobody to ask: the error says nothing of how the agent works.")
    ] = False
    passed: Annotated[
        bool | None,
        Meta(
            description="Whether every score is within the limits that the sample is held to; null: not known, or no "
            "limit."
        ),
    ] = None
    scores: Mapping[str, Score] = {}
    timings_ms: Timings = {}
    oddities: Oddities = {}
    finish_reason: FinishReason = None


class SampleResult(Record, frozen=True, kw_only=True):
    """What a run keeps of one sample: whether the agent answered, and its scores by metric."""

    id: str
    line: Annotated[int | None, Meta(description="Where it stands in the dataset's file, from 1.")] = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    status: SampleStatus
    latency_ms: Annotated[
        Number | None, Meta(description="From sending the request to the last byte of the reply.")
    ] = None
    error: Annotated[str | None, Meta(description="Why there is no usable reply.")] = None
    scores: Mapping[str, Score] = {}
    pass_rate: Annotated[
        Number | None,
        Meta(description="The share of its attempts that passed; null: not known of all, or it is held to no limit."),
    ] = None
    attempts: Annotated[
        tuple[Attempt, ...],
        Meta(description="One by one where it was asked more than once; the fields above then speak of all together."),
    ] = ()
    timings_ms: Timings = {}
    oddities: Oddities = {}
    digest: Annotated[
        str | None,
        Meta(
            description="A hash of all of the sample that a score may depend on, not of its id and tags; null: not "
            "known."
        ),
    ] = None
    finish_reason: FinishReason = None
    slices: Annotated[tuple[str, ...], Meta(description="The slices with a threshold that it belongs to.")] = ()
