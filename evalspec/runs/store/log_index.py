"""The index of a run log: every attempt with its scores and its position on disk. Texts stay on disk."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, Literal, NamedTuple

from msgspec import MsgspecError, Struct, convert, field
from msgspec.json import Decoder
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.inputs.manifest.redaction import FOR_READERS, has_placeholders, list_references
from evalspec.model import (
    Attempt,
    Cause,
    Exchange,
    JudgeUsage,
    Sample,
    SampleStatus,
    Score,
    ScoreStatus,
    SearchTrace,
    StoredExchange,
)
from evalspec.model.base import built
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.inputs import mask_sample
from evalspec.runs.store.log_records import (
    ERASED,
    NOT_A_RECORD,
    REPAIR,
    REPLY,
    REPORT,
    TEXT,
    Change,
    LogLine,
    change_texts,
    parse_object,
    parse_reply_record,
    parse_scores_record,
    read_lines,
)


def _as_it_is(value: Any) -> Any:
    return value


class AttemptKey(NamedTuple):
    """One attempt at one sample. `attempt` counts from 1."""

    dataset: str
    sample_id: str
    attempt: int


class StoredAttempt(Struct):
    """One attempt of the log, without texts.

    `places`: byte offsets of its reply and its scores in the log. `attempt`: as in a Run, without scores. `has_trace`:
    whether the reply is of a retriever or a stream. `hidden`: references whose values are redacted in the reply.
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


class LogIndex(Struct):
    """All attempts of a run. If an attempt was repeated, the last record counts.

    `restore`: restores redacted values in texts; by default, masks keys in them for readers. `texts`: by digest.
    `report`, `run`, `inputs`: digest of the report, id of the run and digest of the inputs, if the run is finished.
    `damage`: problems of the log, one line per problem. `erased`: samples (dataset, id) whose texts were erased.
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
    erased: set[tuple[str, str]] = field(default_factory=set)

    def list_hiding(self, reference: str) -> Iterator[AttemptKey]:
        """Return the attempts with a reply in which the value of a reference is redacted."""
        return (key for key, found_attempt in self.attempts.items() if reference in found_attempt.hidden)

    def read_exchange(self, found_attempt: StoredAttempt, sample: Sample) -> Exchange:
        """Return the reply of an attempt with its texts.

        Raises:
            StoreError: The log can no longer be read.
        """
        return next(self.read_at([found_attempt.places[0]], sample)).exchange

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
            sample = mask_sample(sample)
        with store_errors(self.path), self.path.open("rb") as log:
            reply, *scored = [self._read_record(log, place) for place in places]
            if reply.get("retrieved_texts") is not None:
                found = [
                    self._read_record(log, self.texts[digest].place)["text"] for digest in reply["retrieved_texts"]
                ]
                reply = {**reply, "retrievedContexts": found}
        scores: dict[str, Score] = {}
        for record in scored:
            scores |= parse_scores_record(record)
        yield StoredExchange(reply["dataset"], reply["attempt"], parse_reply_record(reply, sample), scores)

    def _read_record(self, log: BinaryIO, place: int) -> dict[str, Any]:
        log.seek(place)
        return change_texts(parse_object(log.readline(), f"{self.path}, byte {place}"), self.restore)


class _StoredScore(Struct):
    """The fields of a score that the index reads: all except the evidence."""

    status: ScoreStatus
    value: float | None
    reason: str | None
    repeats: tuple[float, ...]
    cause: Cause | None = None


class _Line(Struct, rename="camel"):
    """The fields of a line of any kind that the index reads: no texts."""

    kind: Literal["reply", "scores", "text", "report", "erased"]
    dataset: str = ""
    id: str = ""
    attempt: int = 0
    digest: str = ""
    sha256: str | None = None
    run: str | None = None
    inputs_sha256: str | None = None
    retrieved_texts: tuple[str, ...] | None = field(default=None, name="retrieved_texts")
    status: SampleStatus | None = None
    latency_ms: float | None = None
    error: str | None = None
    unreachable: bool = False
    trace: SearchTrace | None = None
    finish_reason: str | None = None
    retries: int | None = None
    answer_digest: str | None = None
    question_digest: str | None = None
    request_digest: str | None = None
    scores: dict[str, _StoredScore] = {}
    judge_usage: dict[str, JudgeUsage] = {}


_REPORT_HEAD = re.compile(rb'\{\s*"kind"\s*:\s*"%s"' % REPORT.encode())


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
    path, decoder = index.path, Decoder(built(_Line))
    for line in read_lines(path):
        if line.damage:
            index.damage.append(line.damage)
        if line.is_intact and (head is None or head.match(line.text)):
            try:
                _add(index, _decode(decoder, line.text), line)
            except (MsgspecError, TypeError, ValueError, RecursionError) as error:
                raise StoreError(f"{path}:{line.at}: {NOT_A_RECORD}: {error}. {REPAIR}") from error
    return index


def _decode(decoder: Decoder[_Line], text: bytes) -> _Line:
    try:
        return decoder.decode(text)
    except MsgspecError:
        if b"\\ud" not in text.lower():
            raise
        return convert(json.loads(text), built(_Line))  # msgspec reads no lone surrogate, which an error may quote


def _find_hidden(index: LogIndex, line: _Line, stored: LogLine) -> frozenset[str]:
    own = list_references(stored.text)
    of_texts = [hidden for one in line.retrieved_texts or () if (hidden := index.texts[one].hidden)]
    return own.union(*of_texts) if of_texts else own


def _add(index: LogIndex, line: _Line, stored: LogLine) -> None:
    restore, place = index.restore if has_placeholders(stored.text) else _as_it_is, stored.place
    if line.kind == TEXT:
        index.texts[line.digest] = StoredText(place, list_references(stored.text))
        return
    if line.kind == REPORT:
        index.report, index.run, index.inputs = line.sha256, line.run, line.inputs_sha256
        return
    if line.kind == ERASED:
        index.erased.add((intern(line.dataset), line.id))
        return
    key = AttemptKey(intern(line.dataset), line.id, line.attempt)
    if line.kind == REPLY:
        _add_reply(index, line, stored, key, restore)
        return
    found_attempt = index.attempts.get(key)
    if found_attempt is None:
        if not index.damage:
            raise ValueError(f"no reply precedes the scores of sample {key.sample_id}")
        return
    found_attempt.places.append(place)
    for metric, score in line.scores.items():
        reason = restore(score.reason)
        found_attempt.scores[metric] = Score(score.status, score.value, reason, score.repeats, score.cause)
    for metric, used in line.judge_usage.items():
        index.judge_usage[metric] = index.judge_usage.get(metric, JudgeUsage()) + used


def _add_reply(index: LogIndex, line: _Line, stored: LogLine, key: AttemptKey, restore: Change) -> None:
    lost = [digest for digest in line.retrieved_texts or () if digest not in index.texts]
    if lost:
        index.damage.append(f"{index.path}:{stored.at}: a text of this reply is missing")
        index.attempts.pop(key, None)
        return
    if line.status is None:
        raise ValueError("the reply has no status")
    trace = line.trace or SearchTrace()
    attempt = Attempt(
        line.status,
        line.latency_ms,
        restore(line.error),
        line.unreachable,
        timings_ms=restore(trace.timings_ms),
        oddities=restore(trace.oddities),
        finish_reason=restore(line.finish_reason),
        retries=line.retries,
        answer_digest=line.answer_digest,
        question_digest=line.question_digest,
        request_digest=line.request_digest,
    )
    hidden = _find_hidden(index, line, stored)
    index.attempts[key] = StoredAttempt([stored.place], attempt, line.trace is not None, hidden)
