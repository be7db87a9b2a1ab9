"""Samples with recorded replies from the traces of an agent in production. Personal data become tokens."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from msgspec import Struct, convert, field, to_builtins
from msgspec.msgpack import decode, encode
from msgspec.structs import replace

from evalspec.base.errors import Problem
from evalspec.base.plural import counted, pluralize
from evalspec.curation.gold.scrubbing import Tokens
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.record_files import read_rows
from evalspec.inputs.datasets.record_names import ANSWER, QUESTIONS, REPLIES
from evalspec.inputs.traces.joining import LAST, TraceRules
from evalspec.inputs.traces.joining import read_facts as describe_reply
from evalspec.inputs.traces.otlp import LONGEST_TEXT, Batch, add_events, read_files
from evalspec.inputs.traces.steps import order_spans, read_facts, read_steps
from evalspec.inputs.traces.vocabularies.facts import as_json, first_of, last_text, read_messages
from evalspec.model import AgentReply, Message, Sample
from evalspec.model.base import built
from evalspec.model.exchanges import TracedRequest
from evalspec.model.spans import Span, SpanEvent, StepKind

MOST_SPANS = 10_000
"""Spans of a trace that are read."""
_FEEDBACK = "gen_ai.evaluation.result"
_NAME, _LABEL, _VALUE = (f"gen_ai.evaluation.{name}" for name in ("name", "score.label", "score.value"))
_SESSIONS = ("session.id", "gen_ai.conversation.id")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = 1_000_000
_LONGEST_VALUE = 200
_NO_METADATA = ("gen_ai.", "llm.", "input.", "output.", "openinference.", "metadata", "traceloop.entity")
"""Attributes that say what was said and done. The others of the root are metadata, for `--where`."""
_WORD = re.compile(r"[^\W_]+")
_ASKED, _SAID = (*QUESTIONS, "message", "messages"), (*REPLIES, ANSWER, "result", "message", "messages", "content")
_SHINGLE, _ALIKE = 4, 0.7
"""Characters of a shingle, and the share of common shingles of near duplicates."""
_LOOKED_UP, _MOST_COMPARED = 12, 100
"""Shingles of a question that are looked up, and questions with one of them that are compared."""
_OF_WHOLE = (StepKind.AGENT, StepKind.OTHER)
_KEPT = frozenset({"id", "retrievedContextIds"})
"""Fields of sample and reply that other files refer to, which stay as they are."""
_OF_USERS, _LEAST_NUMBER = ("metadata", "toolCalls", "tool_calls"), 10**8
"""Fields with values of users, in which a card or a phone may be a number. Others have counts and times."""
_Stored = TypeVar("_Stored")


class Recording(Struct):
    """What a trace says about one question. `reply`: None if the answer is not recorded."""

    trace_id: str
    session: str | None
    begin_ns: int
    asked: str
    reply: AgentReply | None
    metadata: dict[str, Any]


def read_otlp(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield a sample per trace or session in files of OpenTelemetry's collector."""
    return read_production(read_files(source.path, source.shown_as, notes.problems), source, notes)


def read_rows_of_spans(
    list_spans: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]], source: Source, notes: ReadingNotes
) -> Iterator[Sample]:
    """Yield a sample per trace or session of the records of another system. `list_spans`: the spans of a record."""
    files = sorted(filter(Path.is_file, source.path.rglob("*"))) if source.path.is_dir() else [source.path]

    def list_batches() -> Iterator[Batch]:
        for file in files:
            name = f"{source.shown_as}/{file.relative_to(source.path)}" if file != source.path else source.shown_as
            for row in read_rows(file, name, notes.problems, notes.warnings):
                try:
                    yield Batch([_make_span(one) for one in list_spans(row.value)], [])
                except (AttributeError, TypeError, ValueError) as error:
                    message = f"this is no exported span or trace: {error}"
                    notes.problems.append(Problem(message, "export it again", name, row.line))

    return read_production(list_batches(), source, notes)


def _make_span(given: Mapping[str, Any]) -> Span:
    """Return the span of a record.

    Raises:
        ValueError: it has no id, or no time.
    """
    missing = next((key for key in ("trace_id", "span_id", "start_time") if not given.get(key)), None)
    if missing is not None:
        raise ValueError(f"it has no {missing}")
    said = [{_NAME: name, _VALUE: value} for name, value in given.get("feedback", {}).items()]
    return Span(
        str(given["trace_id"]),
        str(given["span_id"]),
        str(given.get("name") or ""),
        _read_instant(given["start_time"]),
        _read_instant(given.get("end_time") or given["start_time"]),
        given.get("parent_id") or None,
        given["attributes"],
        tuple(SpanEvent(_FEEDBACK, attributes=one) for one in said),
        given.get("error"),
    )


def _read_instant(text: Any) -> int:
    """Return nanoseconds since 1970 of a date and time of ISO 8601, in UTC if it has no zone."""
    found = datetime.fromisoformat(str(text))
    return (found.replace(tzinfo=found.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1) * 1000


def read_production(batches: Iterable[Batch], source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield a sample per trace, or per session of several, in order of time. Its recorded reply goes to the notes.

    Raises:
        MissingPackage: the extra `publish` is not installed.
    """
    warn = partial(_warn, notes, source.shown_as)
    tokens, clusters = Tokens(), _Clusters()
    spans, events, sessions = _Spool(Span), _Spool(tuple[str, str, SpanEvent]), _Spool(Recording)
    for batch in batches:
        spans.add((span.trace_id, span.start_ns, span) for span in batch.spans)
        events.add((event[0], event[2].time_ns, event) for event in batch.events)
    unasked: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for trace_id, found in spans.list_groups(warn):
        recording = _read_recording(add_events(found, events.load(trace_id)), unasked)
        lost["cut"] += sum(span.cut is not None for span in found)
        if recording is not None:
            lost["answers"] += recording.reply is None
            lost["prompts"] += _is_prompt(recording)
            sessions.add([(recording.session or recording.trace_id, recording.begin_ns, recording)])
    for _, recordings in sessions.list_groups(warn):
        sample, reply = _make_sample(recordings, tokens)
        if reply is not None:
            notes.replies[sample.id] = reply
        yield clusters.assign(sample)
    _tell_losses(lost, unasked, warn)
    if not sessions.list_keys() and not notes.problems:
        notes.problems.append(Problem("no trace has a question", "record content; see the warnings", source.shown_as))
    for kind, count in tokens.count().items():
        warn(f"personal data replaced by tokens: {kind}, {count:,} different", "names in free text stay")


def _tell_losses(lost: Mapping[str, int], unasked: Mapping[str, int], warn: Callable[..., None]) -> None:
    for why, count in unasked.items():
        warn(f"{counted(count, 'trace has', 'traces have')} no question, so no sample", why)
    if unanswered := lost.get("answers"):
        whose = pluralize(unanswered, "its sample has", "their samples have")
        message = f"{counted(unanswered, 'trace has', 'traces have')} a question and no recorded answer"
        warn(f"{message}, so {whose} no reply", "record content, or leave them out")
    if prompts := lost.get("prompts"):
        fix = "record the question as the input of the first span, or edit the samples"
        whose = pluralize(
            prompts, "is a prompt with retrieved documents in it", "are prompts with retrieved documents in them"
        )
        warn(f"{counted(prompts, 'question')} {whose}", fix)
    if cut := lost.get("cut"):
        warn(f"{counted(cut, 'span')} had texts over {LONGEST_TEXT:,} characters, which are cut")


def _warn(notes: ReadingNotes, shown_as: str, message: str, fix: str = "") -> None:
    notes.warnings.append(Problem(message, fix, shown_as))


class _Spool:
    """Records by group in a temporary file, because traces do not arrive in order and may not fit into memory."""

    def __init__(self, kind: Any) -> None:
        self._kind = built(kind)
        self._file = sqlite3.connect("", check_same_thread=False)
        finalize(self, self._file.close)
        self._file.execute("CREATE TABLE records (key TEXT, time INTEGER, record BLOB)")
        self._file.execute("CREATE INDEX by_key ON records (key, time)")

    def add(self, records: Iterable[tuple[str, int, Any]]) -> None:
        rows = ((key, at, encode(one)) for key, at, one in records)
        self._file.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)

    def load(self, key: str) -> list[Any]:
        found = self._file.execute("SELECT record FROM records WHERE key = ? ORDER BY time LIMIT ?", (key, MOST_SPANS))
        return [decode(record, type=self._kind) for (record,) in found]

    def list_keys(self) -> list[tuple[str, int]]:
        """Return each key with its number of records, in order of time."""
        return self._file.execute("SELECT key, count(*) FROM records GROUP BY key ORDER BY min(time), key").fetchall()

    def list_groups(self, warn: Callable[..., None]) -> Iterator[tuple[str, list[Any]]]:
        for key, count in self.list_keys():
            if count > MOST_SPANS:
                warn(f"{key}: {count:,} spans; only the first {MOST_SPANS:,} are read")
            yield key, self.load(key)


def _read_recording(spans: Sequence[Span], unasked: Counter[str]) -> Recording | None:
    """Return what a trace says about its question. Without one, count why."""
    spans = order_spans(spans)
    facts, steps = [read_facts(span) for span in spans], read_steps(spans)
    models = [one for one in facts if one.kind is StepKind.MODEL]
    whole = [one for one in facts if one.kind in _OF_WHOLE and one.asked]
    asks = (*(_find_text(one.asked, _ASKED) for one in whole), *(last_text(one.prompt) for one in models))
    asked = next(filter(None, asks), None)
    if asked is None:
        switch = next((step.hidden for step in steps if step.hidden), "no known vocabulary has one in their spans")
        unasked[switch] += 1
        return None
    said = (*(_find_text(one.answered, _SAID) for one in whole[:1]), *(one.answer for one in reversed(models)))
    answer = next(filter(None, said), None)
    begin, end = spans[0].start_ns, max(span.end_ns for span in spans)
    found = describe_reply(spans, TracedRequest(spans[0].trace_id), answer or "", TraceRules(LAST)).reply
    attributes = {key: value for span in reversed(spans) for key, value in span.attributes.items()}
    return Recording(
        spans[0].trace_id,
        next((str(attributes[key]) for key in _SESSIONS if attributes.get(key)), None),
        begin,
        asked,
        None if answer is None else replace(found, response=answer, latency_ms=max(0, end - begin) / _MS),
        {**_list_metadata(spans[0]), **_list_feedback(spans)},
    )


def _is_prompt(recording: Recording) -> bool:
    """Return whether what a model was asked has a retrieved document, so that it is no question of a user."""
    texts = recording.reply.retrieved_contexts if recording.reply else None
    return any(text in recording.asked for text in filter(None, texts or ()))


def _find_text(value: str | None, keys: Sequence[str]) -> str | None:
    """Return the text in what went into a span or came out: as it is, under a known key, or of the last message."""
    found = as_json(value)
    for _ in range(2):
        found = as_json(first_of(found, keys)) if isinstance(found, dict) else found
    messages = read_messages(found) if isinstance(found, list) else None
    if messages:
        return messages[-1].content
    return found if isinstance(found, str) else None


def _list_metadata(root: Span) -> dict[str, Any]:
    given = {key: value for key, value in root.attributes.items() if not key.startswith(_NO_METADATA)}
    return {key: value for key, value in given.items() if len(str(value)) <= _LONGEST_VALUE}


def _list_feedback(spans: Iterable[Span]) -> dict[str, Any]:
    """Return what users and evaluators said about a trace, by name."""
    said = [event.attributes for span in spans for event in span.events if event.name == _FEEDBACK]
    found = {str(one.get(_NAME)): first_of(one, (_LABEL, _VALUE)) for one in said}
    return {"feedback": found} if found else {}


def _make_sample(recordings: Sequence[Recording], tokens: Tokens) -> tuple[Sample, AgentReply | None]:
    """Return the sample of a session: its last question, after what was said before."""
    *earlier, last = recordings
    said = [
        message
        for one in earlier
        for message in (Message("user", one.asked), *([Message("assistant", one.reply.response)] if one.reply else ()))
    ]
    asked = (*said, Message("user", last.asked)) if said else last.asked
    session = {"session_id": last.session, "turns": len(recordings)} if last.session else {}
    sample = Sample(last.trace_id, asked, metadata={**last.metadata, **session})
    return _hide(sample, tokens), None if last.reply is None else _hide(last.reply, tokens)


def _hide(record: _Stored, tokens: Tokens) -> _Stored:
    """Return a record with tokens in place of personal data."""
    given = to_builtins(record)
    hidden = {key: value if key in _KEPT else _replace_texts(value, tokens, key) for key, value in given.items()}
    return convert(hidden, built(type(record)))


def _replace_texts(value: Any, tokens: Tokens, field: str) -> Any:
    """Return a value with tokens in its texts, and for long numbers of users. `field`: of the record that has it."""
    if isinstance(value, dict):
        return {tokens.replace(key): _replace_texts(one, tokens, field) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_texts(one, tokens, field) for one in value]
    if isinstance(value, int) and value >= _LEAST_NUMBER and field in _OF_USERS:
        replaced = tokens.replace(str(value))
        return value if replaced == str(value) else replaced
    return tokens.replace(value) if isinstance(value, str) else value


class _Clusters(Struct):
    """Groups questions that are nearly equal. `first`: by shingle, the first questions of clusters that have it."""

    first: dict[int, list[tuple[str, frozenset[int]]]] = field(default_factory=dict)

    def assign(self, sample: Sample) -> Sample:
        """Return the sample with the id of the first of its cluster in its metadata."""
        shingles = _list_shingles(sample.question)
        keys = sorted(shingles)[:_LOOKED_UP]  # similar texts share some of their smallest hashes
        near = (one for key in keys for one in self.first.get(key, ()))
        name = next((one for one, other in near if _compute_likeness(shingles, other) >= _ALIKE), sample.id)
        for key in keys if name == sample.id else ():
            known = self.first.setdefault(key, [])
            known += [(sample.id, shingles)] * (len(known) < _MOST_COMPARED)
        return replace(sample, metadata={**sample.metadata, "cluster": name})


def _list_shingles(text: str) -> frozenset[int]:
    """Return hashes of the character shingles of a text, without case, punctuation and white space."""
    plain = f" {' '.join(_WORD.findall(text.casefold()))} "
    pieces = {plain[place : place + _SHINGLE] for place in range(max(1, len(plain) - _SHINGLE + 1))}
    return frozenset(int.from_bytes(blake2b(one.encode("utf-8", "replace"), digest_size=8).digest()) for one in pieces)


def _compute_likeness(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)
