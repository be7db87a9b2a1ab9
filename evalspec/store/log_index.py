"""What the log of a run holds, asking by asking: enough to go on from, with every text left on disk."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, Literal, NamedTuple

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder

from evalspec.errors import StoreError
from evalspec.manifest.redaction import has_placeholders, list_references
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
from evalspec.store.files import store_errors
from evalspec.store.log_records import (
    MEND,
    NOT_A_RECORD,
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
    """One asking of one sample; `attempt` counts from 1."""

    dataset: str
    sample_id: str
    attempt: int


@dataclass(slots=True)
class StoredAttempt:
    """What is known of one asking.

    `places`: the bytes at which its reply and its scores begin in the log. `hidden`: the references whose values are
    hidden in its reply.
    """

    places: list[int]
    status: SampleStatus
    latency_ms: float | None
    error: str | None
    unreachable: bool
    trace: SearchTrace | None = None
    finish_reason: str | None = None
    scores: dict[str, Score] = dataclasses.field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    def to_attempt(self, scores: Mapping[str, Score]) -> Attempt:
        """The same as a run keeps it, with those of the scores that count."""
        return Attempt(
            self.status,
            self.latency_ms,
            self.error,
            self.unreachable,
            scores=scores,
            timings_ms=self.trace.timings_ms if self.trace else {},
            oddities=self.trace.oddities if self.trace else {},
            finish_reason=self.finish_reason,
        )


class StoredText(NamedTuple):
    """A text of the log: the byte at which it begins, and the references whose values are hidden in it."""

    place: int
    hidden: frozenset[str]


@dataclass(slots=True)
class LogIndex:
    """All attempts of a run, the last of each where it was asked again.

    `restore`: puts back what is hidden in texts. `texts`: by digest.
    `report`, `run`, `inputs`: of a finished run the digest of its report, its id and the digest of its inputs.
    `damage`: what is wrong with the log, a line each.
    """

    path: Path
    restore: Change = _as_it_is
    texts: dict[str, StoredText] = dataclasses.field(default_factory=dict)
    report: str | None = None
    run: str | None = None
    inputs: str | None = None
    damage: list[str] = dataclasses.field(default_factory=list)
    attempts: dict[AttemptKey, StoredAttempt] = dataclasses.field(default_factory=dict)
    judge_usage: dict[str, JudgeUsage] = dataclasses.field(default_factory=dict)

    def list_hiding(self, reference: str) -> Iterator[AttemptKey]:
        """The attempts whose reply hides the value of a reference."""
        return (key for key, found_attempt in self.attempts.items() if reference in found_attempt.hidden)

    def read_exchange(self, found_attempt: StoredAttempt, sample: Sample) -> Exchange:
        """The reply of an asking with its texts.

        Raises:
            StoreError: the log cannot be read any more.
        """
        return next(self._read([found_attempt.places[0]], sample)).exchange

    def read_exchanges(self, samples: Iterator[tuple[str, Sample]], attempts: int) -> Iterator[StoredExchange]:
        """Every asking of these samples (dataset, sample), in their order, with its texts and evidence.

        Raises:
            StoreError: the log cannot be read any more.
        """
        for dataset, sample in samples:
            for attempt in range(1, attempts + 1):
                found_attempt = self.attempts.get(AttemptKey(dataset, sample.id, attempt))
                if found_attempt is not None:
                    yield from self._read(found_attempt.places, sample)

    def _read(self, places: list[int], sample: Sample) -> Iterator[StoredExchange]:
        with store_errors(self.path), self.path.open("rb") as log:
            reply, *scored = [self._read_record(log, place) for place in places]
            if reply.get("retrieved_texts") is not None:
                found = [
                    self._read_record(log, self.texts[digest].place)["text"] for digest in reply["retrieved_texts"]
                ]
                reply = {**reply, "retrieved_contexts": found}
        scores: dict[str, Score] = {}
        for record in scored:
            scores |= parse_scores_record(record)
        yield StoredExchange(reply["dataset"], reply["attempt"], parse_reply_record(reply, sample), scores)

    def _read_record(self, log: BinaryIO, place: int) -> dict[str, Any]:
        log.seek(place)
        return change_texts(parse_object(log.readline(), f"{self.path}, byte {place}"), self.restore)


class _StoredScore(Struct):
    """What is read of a score: all but its evidence."""

    status: ScoreStatus
    value: float | None
    reason: str | None
    repeats: tuple[float, ...]
    cause: Cause | None = None


class _StoredTrace(Struct):
    """What is read of a retriever's answer: no ids."""

    timings_ms: dict[str, float] = field(name="timingsMs")
    oddities: dict[str, int]


class _Line(Struct):
    """What is read of a line of the log, of any kind: no texts."""

    kind: Literal["reply", "scores", "text", "report"]
    dataset: str = ""
    id: str = ""
    attempt: int = 0
    digest: str = ""
    sha256: str | None = None
    run: str | None = None
    inputs_sha256: str | None = field(default=None, name="inputsSha256")
    retrieved_texts: tuple[str, ...] | None = None
    status: SampleStatus | None = None
    latency_ms: float | None = field(default=None, name="latencyMs")
    error: str | None = None
    unreachable: bool = False
    retrieval: _StoredTrace | None = None
    finish_reason: str | None = None
    scores: dict[str, _StoredScore] = {}
    judge_usage: dict[str, dict[str, int]] = field(default_factory=dict, name="judgeUsage")


def read_log_index(path: Path, restore: Change = _as_it_is) -> LogIndex:
    """Read a log once, from its beginning to its end. What follows the last newline is torn and passed over.

    `restore`: puts back what is hidden in texts, and leaves what it cannot put back. Damaged lines are left out, and so
    are scores whose reply is lost.

    Raises:
        StoreError: it cannot be read, or a line that is as it was written, named as `file:line`, is not a record.
    """
    index, decoder = LogIndex(path, restore), Decoder(_Line)
    for line in read_lines(path):
        if line.damage:
            index.damage.append(line.damage)
        if line.is_intact:
            try:
                _add(index, decoder.decode(line.text), line)
            except (MsgspecError, TypeError, ValueError, RecursionError) as error:
                raise StoreError(f"{path}:{line.at}: {NOT_A_RECORD}: {error}. {MEND}") from error
    return index


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
    key = AttemptKey(intern(line.dataset), line.id, line.attempt)
    if line.kind == REPLY:
        lost = [digest for digest in line.retrieved_texts or () if digest not in index.texts]
        if lost:
            index.damage.append(f"{index.path}:{stored.at}: a text of this reply is lost")
            index.attempts.pop(key, None)
            return
        if line.status is None:
            raise ValueError("the reply has no status")
        found = line.retrieval
        trace = None if found is None else SearchTrace(restore(found.timings_ms), restore(found.oddities))
        index.attempts[key] = StoredAttempt(
            places=[place],
            status=line.status,
            latency_ms=line.latency_ms,
            error=restore(line.error),
            unreachable=line.unreachable,
            trace=trace,
            finish_reason=restore(line.finish_reason),
            hidden=_find_hidden(index, line, stored),
        )
        return
    found_attempt = index.attempts.get(key)
    if found_attempt is None:
        if not index.damage:
            raise ValueError(f"scores of sample {key.sample_id} without its reply before")
        return
    found_attempt.places.append(place)
    for metric, score in line.scores.items():
        reason = restore(score.reason)
        found_attempt.scores[metric] = Score(score.status, score.value, reason, score.repeats, score.cause)
    for metric, used in line.judge_usage.items():
        index.judge_usage[metric] = index.judge_usage.get(metric, JudgeUsage()) + JudgeUsage(**used)
