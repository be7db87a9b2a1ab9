"""The index of a run log: every attempt with its scores and its position on disk. Texts stay on disk."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import BinaryIO, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.inputs.manifest.redaction import FOR_READERS, has_placeholders, list_references
from evalspec.model import (
    AgentTurn,
    Attempt,
    Controls,
    Exchange,
    JudgeUsage,
    PeopleScores,
    Sample,
    Score,
    StoredExchange,
    add_usage,
)
from evalspec.model.base import Record
from evalspec.model.log import (
    LOG_RECORD,
    Change,
    ControlsRecord,
    ErasedRecord,
    LogRecord,
    PeopleRecord,
    ReplyRecord,
    ReportRecord,
    ScoresRecord,
    SpansRecord,
    TextRecord,
    TraceRecord,
    TurnRecord,
    add_stored_trace,
    change_texts,
    to_attempt,
)
from evalspec.model.spans import StepKind
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.log_records import (
    NOT_A_RECORD,
    REPAIR,
    LogLine,
    decode_at,
    decode_line,
    read_lines,
)

_Kind = TypeVar("_Kind", bound=Record)


class AttemptKey(NamedTuple):
    """One attempt at one sample. `attempt` counts from 1."""

    dataset: str
    sample_id: str
    attempt: int


class StoredAttempt(Struct):
    """One attempt of the log, without texts.

    `places`: byte offsets in the log: of its reply, then of its spans, what these say, and its scores. `attempt`: as in
    a Run, without scores. `has_trace`: whether the reply is of a retriever or a stream. `hidden`: references whose
    values are redacted in the reply.
    """

    places: list[int]
    attempt: Attempt
    has_trace: bool
    hidden: frozenset[str]
    scores: dict[str, Score] = field(default_factory=dict)

    def to_attempt(self, scores: Mapping[str, Score]) -> Attempt:
        """Return the attempt as it is in a Run, with the given scores."""
        return replace(self.attempt, scores=scores)


class StoredText(NamedTuple):
    """A text of the log: its byte offset, and the references whose values are redacted in it."""

    place: int
    hidden: frozenset[str]


class OpenConversation(Struct):
    """The turns of an attempt that has no end yet. `is_redacted`: a value in them is unknown."""

    session: str
    turns: list[AgentTurn] = field(default_factory=list)
    is_redacted: bool = False


class LogIndex(Struct):
    """All attempts of a run. If an attempt was repeated, the last record counts.

    `restore`: restores redacted values in texts; by default, masks keys in them for readers. `texts`: by digest.
    `report`, `run`, `inputs`: digest of the report, id of the run and digest of the inputs, if the run is finished.
    `damage`: problems of the log, one line per problem. `erased`: samples (dataset, id) whose texts were erased.
    `milliseconds`: in which the run was worked on, up to the last scores. `people`: what people say about the scores.
    `spans`: byte offsets of the spans of an attempt. `seen`: the kinds of steps in any trace. `contradictions`: fields
    that replies state otherwise than their traces.
    `controls`: what the judge makes of control cases. `conversations`: those that are under way. `superseded`: turns of
    attempts that began again.
    """

    path: Path
    restore: Change = FOR_READERS.mask_data
    texts: dict[str, StoredText] = field(default_factory=dict)
    report: str | None = None
    run: str | None = None
    inputs: str | None = None
    damage: list[str] = field(default_factory=list)
    attempts: dict[AttemptKey, StoredAttempt] = field(default_factory=dict)
    judge_usage: dict[str, JudgeUsage] = field(default_factory=dict)
    milliseconds: int = 0
    erased: set[tuple[str, str]] = field(default_factory=set)
    people: tuple[PeopleScores, ...] = ()
    controls: tuple[Controls, ...] = ()
    conversations: dict[AttemptKey, OpenConversation] = field(default_factory=dict)
    superseded: list[AgentTurn] = field(default_factory=list)
    spans: dict[AttemptKey, list[int]] = field(default_factory=dict)
    seen: set[StepKind] = field(default_factory=set)
    contradictions: dict[AttemptKey, tuple[str, ...]] = field(default_factory=dict)

    def list_hiding(self, reference: str) -> Iterator[AttemptKey]:
        """Return the attempts with a reply in which the value of a reference is redacted."""
        return (key for key, found_attempt in self.attempts.items() if reference in found_attempt.hidden)

    def read_exchange(self, found_attempt: StoredAttempt, sample: Sample) -> Exchange:
        """Return the reply of an attempt with its texts.

        Raises:
            StoreError: The log can no longer be read.
        """
        return next(self.read_at(found_attempt.places, sample)).exchange

    def read_traced(self, places: Iterable[int]) -> Iterator[SpansRecord | TraceRecord]:
        """Yield the spans of an attempt, and what they say. `places`: byte offsets of its records.

        Raises:
            StoreError: The log can no longer be read.
        """
        with store_errors(self.path), self.path.open("rb") as log:
            for place in places:
                record = self._read_record(log, place, LOG_RECORD)
                if isinstance(record, SpansRecord | TraceRecord):
                    yield record

    def read_exchanges(self, samples: Iterator[tuple[str, Sample]], attempts: int) -> Iterator[StoredExchange]:
        """Return all attempts of the samples (dataset, sample), in the order of the samples, with texts and evidence.

        Samples whose texts were erased are left out.

        Raises:
            StoreError: The log can no longer be read.
        """
        for dataset, sample in samples:
            if (dataset, sample.id) in self.erased:
                continue
            for attempt in range(1, attempts + 1):
                found_attempt = self.attempts.get(AttemptKey(dataset, sample.id, attempt))
                if found_attempt is not None:
                    yield from self.read_at(found_attempt.places, sample)

    def read_at(self, places: Sequence[int], sample: Sample) -> Iterator[StoredExchange]:
        """Return the one attempt whose reply and scores are at these byte offsets, with texts and evidence.

        Raises:
            StoreError: The log can no longer be read.
        """
        if self.restore == FOR_READERS.mask_data:
            sample = change_texts(sample, self.restore)
        with store_errors(self.path), self.path.open("rb") as log:
            record = self._read_record(log, places[0], ReplyRecord)
            others = [self._read_record(log, place, LOG_RECORD) for place in places[1:]]
            if record.reply and record.retrieved_texts is not None:
                found = [self._read_record(log, self.texts[one].place, TextRecord) for one in record.retrieved_texts]
                contexts = tuple(one.text for one in found)
                record = replace(record, reply=replace(record.reply, retrieved_contexts=contexts))
        scores = {name: score for one in others if isinstance(one, ScoresRecord) for name, score in one.scores.items()}
        exchange = add_stored_trace(record.to_exchange(sample), others)
        yield StoredExchange(record.dataset, record.attempt, exchange, scores)

    def _read_record(self, log: BinaryIO, place: int, kind: type[_Kind]) -> _Kind:
        return change_texts(decode_at(self.path, log, place, kind), self.restore)


class _SpansKey(Record, frozen=True):
    """The attempt of a SpansRecord, whose spans stay on disk."""

    dataset: str
    id: str
    attempt: int


_SPANS_HEAD = b'{"kind":"spans"'
_REPORT_HEAD = re.compile(rb'\{\s*"kind"\s*:\s*"report"')


def is_end(line: bytes) -> bool:
    """Return whether a line of a log says that the run is finished."""
    return bool(_REPORT_HEAD.match(line))


def read_log_index(path: Path, restore: Change = FOR_READERS.mask_data) -> LogIndex:
    """Read a log in one pass. A torn line after the last newline is ignored.

    `restore`: restores redacted values in texts, and leaves unknown ones redacted. Damaged lines are skipped, as are
    scores without a reply.

    Raises:
        StoreError: The log cannot be read, or an intact line is not a record. The message names the line.
    """
    return _read(LogIndex(path, restore))


def read_log_seal(path: Path) -> LogIndex:
    """Read damaged lines and the digests of the last record, in a third of the time. Attempts are skipped.

    Raises:
        StoreError: The log cannot be read, or its last record is malformed.
    """
    return _read(LogIndex(path), _REPORT_HEAD)


def _read(index: LogIndex, head: re.Pattern[bytes] | None = None) -> LogIndex:
    """Fill an index with all records, or with those that begin with `head`."""
    path = index.path
    for line in read_lines(path):
        if line.damage:
            index.damage.append(line.damage)
        if line.is_intact and (head is None or head.match(line.text)):
            place = f"{path}:{line.at}"
            if line.text.startswith(_SPANS_HEAD):
                _add_spans(index, decode_line(line.text, _SpansKey, place), line)
                continue
            record = decode_line(line.text, LOG_RECORD, place)
            try:
                _add(index, record, line)
            except ValueError as error:
                raise StoreError(f"{place}: {NOT_A_RECORD}: {error}. {REPAIR}") from error
    return index


def _add(index: LogIndex, record: LogRecord, line: LogLine) -> None:
    if has_placeholders(line.text):
        record = change_texts(record, index.restore)
    match record:
        case ReplyRecord():
            _add_reply(index, record, line)
        case ScoresRecord():
            _add_scores(index, record, line)
        case TurnRecord():
            _add_turn(index, record)
        case TraceRecord():
            _add_trace(index, record, line)
        case TextRecord():
            index.texts[record.digest] = StoredText(line.place, list_references(line.text))
        case _:
            _add_of_run(index, record)


def _add_of_run(index: LogIndex, record: LogRecord) -> None:
    """Add what is about the run, not about one attempt."""
    match record:
        case ReportRecord():
            index.report, index.run, index.inputs = record.sha256, record.run, record.inputs_sha256
        case ErasedRecord():
            index.erased.add((intern(record.dataset), record.id))
        case PeopleRecord():
            index.people = record.scores
        case ControlsRecord():
            index.controls = record.controls
            _add_use(index, record)


def _add_reply(index: LogIndex, record: ReplyRecord, line: LogLine) -> None:
    key = AttemptKey(intern(record.dataset), record.id, record.attempt)
    lost = [digest for digest in record.retrieved_texts or () if digest not in index.texts]
    if lost:
        index.damage.append(f"{index.path}:{line.at}: a text of this reply is missing")
        index.attempts.pop(key, None)
        return
    left = index.conversations.pop(key, None)
    if left is not None and record.reply is None:
        index.superseded += left.turns
    has_trace = record.reply is not None and record.reply.trace is not None
    attempt, hidden = to_attempt(record, {}), _find_hidden(index, record, line)
    index.attempts[key] = StoredAttempt([line.place, *index.spans.get(key, ())], attempt, has_trace, hidden)
    index.contradictions.pop(key, None)


def _add_spans(index: LogIndex, record: _SpansKey, line: LogLine) -> None:
    """Add the place of spans. Those that arrive after the reply belong to it too; reading leaves out other traces."""
    key = AttemptKey(intern(record.dataset), record.id, record.attempt)
    index.spans.setdefault(key, []).append(line.place)
    if key in index.attempts:
        index.attempts[key].places.append(line.place)


def _add_trace(index: LogIndex, record: TraceRecord, line: LogLine) -> None:
    key = AttemptKey(intern(record.dataset), record.id, record.attempt)
    if key in index.attempts:
        index.attempts[key].places.append(line.place)
        index.attempts[key].hidden |= list_references(line.text)
    index.seen.update(record.seen)
    if record.contradicts:
        index.contradictions[key] = record.contradicts


def _add_turn(index: LogIndex, record: TurnRecord) -> None:
    """Add a turn. One of another session, or out of its place, means that the attempt began again."""
    key = AttemptKey(intern(record.dataset), record.id, record.attempt)
    known = index.conversations.pop(key, None)
    fits = known is not None and (known.session, len(known.turns)) == (record.session, record.place)
    if known is not None and not (fits and record.reply is not None):
        index.superseded += known.turns
    if record.reply is None or (record.place and not fits):
        return
    opened = known if known is not None and fits else OpenConversation(record.session)
    opened.turns.append(AgentTurn(record.user, record.reply))
    opened.is_redacted |= has_placeholders(f"{record.user} {record.reply.response}".encode(errors="replace"))
    index.conversations[key] = opened


def _find_hidden(index: LogIndex, record: ReplyRecord, line: LogLine) -> frozenset[str]:
    own = list_references(line.text)
    of_texts = [hidden for one in record.retrieved_texts or () if (hidden := index.texts[one].hidden)]
    return own.union(*of_texts) if of_texts else own


def _add_scores(index: LogIndex, record: ScoresRecord, line: LogLine) -> None:
    found_attempt = index.attempts.get(AttemptKey(record.dataset, record.id, record.attempt))
    if found_attempt is None:
        if not index.damage:
            raise ValueError(f"no reply precedes the scores of sample {record.id}")
        return
    found_attempt.places.append(line.place)
    for metric, score in record.scores.items():
        found_attempt.scores[metric] = score.without_evidence()
    _add_use(index, record)


def _add_use(index: LogIndex, record: ScoresRecord | ControlsRecord) -> None:
    index.milliseconds += record.milliseconds
    index.judge_usage = add_usage(index.judge_usage, record.judge_usage)
