"""Scores, and the results of samples."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from evalspec.model.base import LARGEST_VALUE, Number, Record
from evalspec.model.exchanges import Exchange, FinishReason, Oddities, Timings


class ScoreStatus(StrEnum):
    """Whether a score has a value: only scored ones do."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    SKIPPED = "skipped"
    FAILED = "failed"


class Cause(StrEnum):
    """Why a score has no value.

    ENVIRONMENT: the world that the agent acts on. USER: the simulated one. TRACES: the spans of the agent. STOPPED: the
    run asked the judge no further, because of a limit or of --fail-fast. OTHER is the rest: a scorer that returned
    None, the rules of `compat`, an error of evalspec.
    """

    DATASET = "dataset"
    REPLY = "reply"
    ENVIRONMENT = "environment"
    USER = "user"
    TRACES = "traces"
    JUDGE = "judge"
    STOPPED = "stopped"
    OTHER = "other"


WITHOUT = "; without "
"""In the reason of a panel's score: what precedes the names of the judges that gave none."""

SAME_ANSWER = "both answers are the same"
"""The reason of a preference that nobody needs to judge."""

BY_ORDER = "a tie, because the judge says "
"""How the reason of a tie begins that is one only because the judge's choice depends on the order of the answers."""


class SampleStatus(StrEnum):
    """Whether the agent gave a usable reply."""

    ANSWERED = "answered"
    FAILED = "failed"


class Score(Record, frozen=True):
    """The score of one metric on one sample. Only scores with status scored have a value. All others have a reason.

    `evidence`: the basis of the value (statements with their verdicts, counts), ready for JSON. Only the run log keeps
    evidence. The scores of a Run have none.
    """

    status: Annotated[
        ScoreStatus,
        Meta(
            description="`scored`: it has a value; `not_applicable`: the metric is undefined here; `skipped`: "
            "deliberately not computed; `failed`: could not be computed."
        ),
    ]
    value: Annotated[
        Number | None, Meta(description="The value, in the metric's unit; null unless the status is `scored`.")
    ] = None
    reason: Annotated[str | None, Meta(description="Why the score has this value or none; null: not given.")] = None
    repeats: Annotated[
        tuple[Number, ...],
        Meta(description="Each grade, if the judge graded the reply several times. `value` is their mean. Else empty."),
    ] = ()
    cause: Annotated[
        Cause | None,
        Meta(
            description="What made the score failed or not applicable; else null. `stopped`: the run asked the judge "
            "no further. A mean over attempts also has a cause if reply or judge made some of them not applicable."
        ),
    ] = None
    evidence: Any | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a scored value that is not a finite number, and a value with another status.

        Files of earlier releases have no cause, so it becomes OTHER. Logs write null for missing evidence.
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
        """The evidence, or None."""
        return None if self.evidence is UNSET else self.evidence

    @property
    def lacks_evidence(self) -> bool:
        """Whether the score is not applicable because of the reply or the judge. The gate limits their share."""
        return self.status is ScoreStatus.NOT_APPLICABLE and self.cause in (Cause.REPLY, Cause.JUDGE)

    def without_evidence(self) -> "Score":
        """Return the score as a Run keeps it."""
        if self.evidence is UNSET:
            return self
        return Score(self.status, self.value, self.reason, self.repeats, self.cause)

    def without_texts(self, instead: str) -> "Score":
        """Return the score as measured. `instead`: replaces the reason of a score without a value."""
        reason = None if self.status is ScoreStatus.SCORED else instead
        return Score(self.status, self.value, reason, self.repeats, self.cause)

    @classmethod
    def scored(
        cls,
        value: float,
        reason: str | None = None,
        evidence: Any | UnsetType = UNSET,
        repeats: tuple[float, ...] = (),
    ) -> "Score":
        """Return a score with a value."""
        return cls(ScoreStatus.SCORED, float(value), reason, repeats, evidence=evidence)

    @classmethod
    def not_applicable(cls, reason: str, cause: Cause) -> "Score":
        """Return a score for a sample on which the metric is undefined. It is not in the mean, and counted by cause."""
        return cls(ScoreStatus.NOT_APPLICABLE, reason=reason, cause=cause)

    @classmethod
    def skipped(cls, reason: str) -> "Score":
        """Return a score for a metric that was skipped in this run."""
        return cls(ScoreStatus.SKIPPED, reason=reason)

    @classmethod
    def failed(cls, reason: str, cause: Cause = Cause.OTHER) -> "Score":
        """Return a score for a metric that could not be computed. It lowers the coverage of the metric."""
        return cls(ScoreStatus.FAILED, reason=reason, cause=cause)


Scores = Annotated[Mapping[str, Score], Meta(description="The score of each metric, by name.")]


class StoredExchange(Record, frozen=True):
    """One attempt with all its texts, as the run store keeps it. `attempt` counts from 1."""

    dataset: str
    attempt: int
    exchange: Exchange
    scores: Scores


Retries = Annotated[
    int | None, Meta(description="Requests that failed before the reply or error, over all attempts; null: unknown.")
]
AnswerDigest = Annotated[
    str | None, Meta(description="Hash of the answer, of the first attempt; null: no answer, or texts are not stored.")
]
QuestionDigest = Annotated[
    str | None,
    Meta(
        description="Hash of the question that was asked; null: a recorded reply does not say, or texts are not stored."
    ),
]
RequestDigest = Annotated[
    str | None,
    Meta(
        description="Hash of the request, of the first attempt, without headers and secrets; null: the agent is Python "
        "code, a recorded reply does not say, or texts are not stored."
    ),
]


class Attempt(Record, frozen=True):
    """One attempt at a sample after scoring. It keeps no texts, so that memory does not grow with the answers."""

    status: Annotated[SampleStatus, Meta(description="Whether there is a usable reply.")]
    latency_ms: Annotated[
        Number | None,
        Meta(description="Time from sending the request to the last byte of the reply, in ms; null: unknown."),
    ] = None
    error: Annotated[str | None, Meta(description="Why there is no usable reply; null: there is one.")] = None
    unreachable: Annotated[
        bool,
        Meta(
            description="Whether no connection could be made, so that the error says nothing about the agent's quality."
        ),
    ] = False
    passed: Annotated[
        bool | None,
        Meta(
            description="Whether every score is within the limits that apply to single replies of the sample; false "
            "without a usable reply; null: unknown, or no limit."
        ),
    ] = None
    scores: Scores = {}
    timings_ms: Timings = {}
    oddities: Oddities = {}
    finish_reason: FinishReason = None
    retries: Retries = None
    answer_digest: AnswerDigest = None
    question_digest: QuestionDigest = None
    request_digest: RequestDigest = None


class SampleResult(Record, frozen=True, kw_only=True):
    """The result of one sample: status, and scores by metric."""

    id: Annotated[str, Meta(description="Id of the sample in the dataset.")]
    line: Annotated[
        int | None, Meta(description="Line in the dataset's file, from 1; null: the format has no lines.")
    ] = None
    tags: Annotated[tuple[str, ...], Meta(description="Tags of the sample.")] = ()
    metadata: Annotated[
        Mapping[str, Any],
        Meta(description="Metadata of the sample; after --no-content only what slices and `cluster` need."),
    ] = {}
    status: Annotated[SampleStatus, Meta(description="Whether there is a usable reply to every attempt.")]
    latency_ms: Annotated[
        Number | None,
        Meta(
            description="Time from sending the request to the last byte of the reply, in ms; the mean of several "
            "attempts; null: unknown."
        ),
    ] = None
    error: Annotated[str | None, Meta(description="Why there is no usable reply; null: there is one.")] = None
    scores: Scores = {}
    pass_rate: Annotated[
        Number | None,
        Meta(
            description="Share of the attempts that passed, 0 to 1; null: some attempt is undecided, or no limit "
            "applies."
        ),
    ] = None
    attempts: Annotated[
        tuple[Attempt, ...],
        Meta(description="The attempts, if there are several, else empty. The other keys then combine all of them."),
    ] = ()
    timings_ms: Timings = {}
    oddities: Oddities = {}
    digest: Annotated[
        str | None,
        Meta(
            description="Hash of everything in the sample that a score may depend on, so not of its id and tags; "
            "null: unknown."
        ),
    ] = None
    finish_reason: FinishReason = None
    slices: Annotated[tuple[str, ...], Meta(description="The slices with a threshold that the sample belongs to.")] = ()
    unit: Annotated[
        str | None,
        Meta(description="Id of the sample whose copy it is: copies are one observation; null: it has no copies."),
    ] = None
    retries: Retries = None
    answer_digest: AnswerDigest = None
    question_digest: QuestionDigest = None
    request_digest: RequestDigest = None

    def list_scores(self, metric: str) -> list[Score]:
        """Return the score of each attempt; the sample's, if it has one attempt or the metric is about all of them."""
        scores = [attempt.scores[metric] for attempt in self.attempts if metric in attempt.scores]
        return scores or [self.scores[metric]]
