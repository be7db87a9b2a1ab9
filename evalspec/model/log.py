"""The records of a stored run: the lines of its log `samples.jsonl`, and those of `inputs.jsonl`.

A later reply to the same attempt replaces the earlier reply and its scores. Null means unknown, or not stored. Later
versions may add keys.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from evalspec.base.errors import FailureCause
from evalspec.model.base import Record
from evalspec.model.corrections import Controls, PeopleScores
from evalspec.model.exchanges import AgentReply, Exchange, SearchTrace, add_trace
from evalspec.model.samples import Sample
from evalspec.model.scores import Attempt, SampleStatus, Score
from evalspec.model.spans import Span, SpanEvent, StepKind
from evalspec.model.usage import JudgeUsage

WITHHELD = "withheld (--no-content)"
"""Replaces a text that is not stored."""
NO_LONGER_KEPT = "erased (permission revoked)"
"""Replaces a text that was erased."""
_NO_TRACE = SearchTrace()


class StoredRecord(Record, frozen=True):
    """A line of a file of a run."""

    @property
    def doubtful(self) -> Collection[Any]:
        """The values from user code or services, as numbers or as any JSON. All other values are of a type."""
        return ()


class ReplyRecord(StoredRecord, frozen=True, tag_field="kind", tag="reply"):
    """One attempt at a sample: its reply, or the error of a failed one. `attempt` counts from 1.

    The fields from `error` on are those of an Exchange. `retrieved_texts`: the digests of the texts of a retriever's
    reply, which then has no `retrieved_contexts`.
    """

    dataset: str
    id: str
    attempt: int
    reply: AgentReply | None
    error: str | None = None
    unreachable: bool = False
    retries: int | None = None
    answer_digest: str | None = None
    question_digest: str | None = None
    request_digest: str | None = None
    retrieved_texts: tuple[str, ...] | None = None
    cause: FailureCause = FailureCause.REPLY
    user_errors: int = 0

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        reply = self.reply
        return () if reply is None else (reply.tool_calls, reply.latency_ms, reply.usage, reply.trace, reply.world)

    @classmethod
    def of(cls, dataset: str, attempt: int, exchange: Exchange) -> "ReplyRecord":
        """Return the record of an exchange."""
        return cls(
            dataset,
            exchange.sample.id,
            attempt,
            exchange.reply,
            exchange.error,
            exchange.unreachable,
            exchange.retries,
            exchange.answer_digest,
            exchange.question_digest,
            exchange.request_digest,
            cause=exchange.cause,
            user_errors=exchange.user_errors,
        )

    def to_exchange(self, sample: Sample) -> Exchange:
        """Return the exchange of the record. `sample`: the sample with its dataset and id."""
        return Exchange(
            sample,
            self.reply,
            self.error,
            self.unreachable,
            self.retries,
            self.question_digest,
            self.request_digest,
            self.cause,
            self.user_errors,
        )

    def without_texts(self, instead: str) -> "ReplyRecord":
        """Return the record with measurements only. `instead`: replaces an error message."""
        error = None if self.error is None else instead
        reply = None if self.reply is None else self.reply.without_texts()
        return ReplyRecord(
            self.dataset,
            self.id,
            self.attempt,
            reply,
            error,
            self.unreachable,
            self.retries,
            cause=self.cause,
            user_errors=self.user_errors,
        )


def to_attempt(found: ReplyRecord | Exchange, scores: Mapping[str, Score]) -> Attempt:
    """Return an attempt as it is in a Run, with its scores."""
    reply = found.reply
    trace = (reply and reply.trace) or _NO_TRACE
    return Attempt(
        SampleStatus.FAILED if reply is None else SampleStatus.ANSWERED,
        None if reply is None else reply.latency_ms,
        found.error,
        found.unreachable,
        scores=scores,
        timings_ms=trace.timings_ms,
        oddities=trace.oddities,
        finish_reason=None if reply is None else reply.finish_reason,
        retries=found.retries,
        answer_digest=found.answer_digest,
        question_digest=found.question_digest,
        request_digest=found.request_digest,
    )


class ScoresRecord(StoredRecord, frozen=True, tag_field="kind", tag="scores"):
    """Scores of a reply, which has one or more of these records.

    `judge_usage`: what the judge used since the previous record, by metric. `milliseconds`: wall time since then.
    """

    dataset: str
    id: str
    attempt: int
    scores: Mapping[str, Score]
    judge_usage: Mapping[str, JudgeUsage] = {}
    milliseconds: int = 0

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        return [score.evidence for score in self.scores.values()]

    def without_texts(self, instead: str) -> "ScoresRecord":
        """Return the record with measurements only. `instead`: replaces the reason of a score without a value."""
        return replace(self, scores={metric: score.without_texts(instead) for metric, score in self.scores.items()})


class TurnRecord(StoredRecord, frozen=True, tag_field="kind", tag="turn"):
    """One turn of a conversation that is under way, so that a killed run can resume there. `place` counts from 0.

    `reply`: None: the attempt began again, so the earlier turns of this session count only in the usage.
    """

    dataset: str
    id: str
    attempt: int
    session: str
    place: int
    user: str
    reply: AgentReply | None

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        return () if self.reply is None else (self.reply.tool_calls, self.reply.usage, self.reply.world)

    def without_texts(self, _instead: str) -> None:
        """Return None: without its texts, a turn could not be resumed."""


class SpansRecord(StoredRecord, frozen=True, tag_field="kind", tag="spans"):
    """Spans of an attempt, as they arrived. Those of other traces than its reply names are of an earlier request.

    `events`: log records, each with the trace and the span that it names.
    """

    dataset: str
    id: str
    attempt: int
    spans: tuple[Span, ...] = ()
    events: tuple[tuple[str, str, SpanEvent], ...] = ()

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        events = [*(event for span in self.spans for event in span.events), *(event for *_, event in self.events)]
        return [*(span.attributes for span in self.spans), *((one.attributes, one.body) for one in events)]

    def without_texts(self, _instead: str) -> None:
        """Return None: spans are texts."""


class TraceRecord(StoredRecord, frozen=True, tag_field="kind", tag="trace"):
    """What the spans of an attempt say, once its traces are complete. The last record counts.

    `found`: what each request shows, as a reply without an answer. `untraced`: why fields are unknown, by field.
    `seen`: what the spans show at all. `contradicts`: fields that the reply itself states otherwise, which
    counts. `is_complete`: false for traces that were given up, whatever spans of theirs are stored.
    """

    dataset: str
    id: str
    attempt: int
    found: tuple[AgentReply, ...] = ()
    untraced: Mapping[str, str] = {}
    seen: tuple[StepKind, ...] = ()
    contradicts: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        return [reply.tool_calls for reply in self.found]

    def without_texts(self, instead: str) -> "TraceRecord":
        """Return the record with measurements only. `instead`: replaces the reasons."""
        found = tuple(reply.without_texts() for reply in self.found)
        return replace(self, found=found, untraced=dict.fromkeys(self.untraced, instead))


class TextRecord(StoredRecord, frozen=True, tag_field="kind", tag="text"):
    """A text that a retriever returned. It is in the log once, before the replies that contain it."""

    digest: str
    text: str


class ErasedRecord(StoredRecord, frozen=True, tag_field="kind", tag="erased"):
    """The texts of this sample were erased from the run, because a customer revoked its permission.

    Its scores are intact. Its other records have no texts.
    """

    dataset: str
    id: str


class ReportRecord(StoredRecord, frozen=True, tag_field="kind", tag="report"):
    """The run with this id is finished. The digests are of report.json and inputs.jsonl. The last record counts."""

    run: str
    sha256: str
    inputs_sha256: str | None = None


class PeopleRecord(StoredRecord, frozen=True, tag_field="kind", tag="people"):
    """What people say about the scores of the run when it is concluded. The last record counts."""

    scores: tuple[PeopleScores, ...]


class ControlsRecord(StoredRecord, frozen=True, tag_field="kind", tag="controls"):
    """What the judge makes of control cases. The last record counts. Usage and time: as in a ScoresRecord."""

    controls: tuple[Controls, ...]
    judge_usage: Mapping[str, JudgeUsage] = {}
    milliseconds: int = 0


LogRecord = (
    ReplyRecord
    | TurnRecord
    | ScoresRecord
    | SpansRecord
    | TraceRecord
    | TextRecord
    | ErasedRecord
    | ReportRecord
    | PeopleRecord
    | ControlsRecord
)
LOG_RECORD: type[LogRecord] = LogRecord  # type: ignore[assignment]
"""The type of any line of the log, for its decoder."""


class InputRecord(StoredRecord, frozen=True, omit_defaults=True):
    """A selected sample of a run, so that its reports need no dataset files.

    Its digest, and its slices with thresholds, are computed before redaction. `position`: of a shard's sample among all
    that the run selects from its dataset, from 0.
    """

    dataset: str
    sample: Sample
    position: int | None = None

    @property
    def doubtful(self) -> Collection[Any]:
        """See StoredRecord."""
        return self.sample.metadata, self.sample.qrels

    def without_texts(self, metadata_kept: Collection[str]) -> "InputRecord":
        """Return the record without texts, and with these metadata keys only."""
        return replace(self, sample=self.sample.without_texts(metadata_kept))


def add_stored_trace(exchange: Exchange, records: Iterable[LogRecord]) -> Exchange:
    """Return an exchange with what is stored of its traces. Without a TraceRecord, they were never complete."""
    spans: list[Span] = []
    found: tuple[AgentReply, ...] | None = None
    untraced: Mapping[str, str] = {}
    for record in records:
        if isinstance(record, SpansRecord):
            spans += record.spans
        elif isinstance(record, TraceRecord):
            found, untraced = record.found, record.untraced
    return add_trace(exchange, spans, found, untraced)


Change = Callable[[Any], Any]
"""A function that returns a JSON value with its secrets redacted or restored (manifest.redaction)."""

Changed = TypeVar("Changed")

NEVER_HIDDEN = frozenset(
    {
        "dataset",
        "id",
        "attempt",
        "status",
        "cause",
        "user_errors",
        "ended",
        "usage",
        "judge_usage",
        "milliseconds",
        "line",
        "digest",
        "retrieved_texts",
        "session",
        "place",
        "position",
        "answer_digest",
        "question_digest",
        "request_digest",
        "metric",
        "run",
        "left_out",
        "trace_id",
        "span_id",
        "parent_id",
        "traced",
        "seen",
        "contradicts",
    }
)
"""Fields that identify a record, or that evalspec counts. They are never redacted: a variable whose value is an
ordinary word would make the log unreadable. Names and ids come from the user's own files."""

_WITH_NAMES = ("scores", "metadata")
"""Fields whose keys, which are names of metrics and metadata, are unchanged if they are mappings."""


def change_texts(value: Changed, change: Change, kept: Collection[str] = NEVER_HIDDEN) -> Changed:
    """Return a record, or a tuple of records, with its texts redacted or restored. `kept`: fields that are not."""
    changed: Any
    if isinstance(value, Struct):
        parts = {name: getattr(value, name) for name in value.__struct_fields__ if name not in kept}
        changed = replace(value, **{name: _change_field(name, part, change, kept) for name, part in parts.items()})
    elif isinstance(value, tuple):
        changed = tuple(change_texts(item, change, kept) for item in value)
    else:  # a redacted enum would be a plain string, which no comparison by identity recognizes
        changed = value if value is None or value is UNSET or isinstance(value, Enum) else change(value)
    return changed  # type: ignore[no-any-return]


def _change_field(name: str, value: Any, change: Change, kept: Collection[str]) -> Any:
    if name in _WITH_NAMES and isinstance(value, Mapping):
        return {key: change_texts(item, change, kept) for key, item in value.items()}
    return change_texts(value, change, kept)
