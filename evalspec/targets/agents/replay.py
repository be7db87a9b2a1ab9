"""Replies recorded earlier: a JSON Lines file instead of a running agent."""

import json
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import normalize
from evalspec.base.jsonl import read_head, read_json_lines
from evalspec.base.registry import near_miss
from evalspec.base.text import excerpt
from evalspec.inputs.datasets.jsonl_lines import parse_plainly, read_plainly
from evalspec.inputs.ranking_files import SHOWN, looks_like_run, read_run
from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.inputs.usage import read_usage
from evalspec.model import AgentReply, AgentTurn, Exchange, Message, Sample, SearchTrace, ToolCall
from evalspec.model.base import built
from evalspec.model.exchanges import ModelCall, compute_question_digest, join_turns
from evalspec.targets.agents.mapping import as_finish_reason


class RecordedReply(Struct, frozen=True):
    """A reply, or the error of the agent, as a file has it. `line`: from 1.

    `asked`: the digest of the messages that the file has; None: it has none. `question_digest`, `request_digest`: as in
    Exchange. `is_beside`: the question is beside it in the dataset. `has_response`: the file has an answer, perhaps "".
    """

    reply: AgentReply | None
    error: str | None = None
    asked: str | None = None
    question_digest: str | None = None
    request_digest: str | None = None
    line: int | None = None
    is_beside: bool = False
    has_response: bool = True

    def answers(self, sample: Sample) -> bool | None:
        """Return whether this is a reply to the question of a sample. None: the file does not say what was asked."""
        if self.question_digest is not None:
            return self.question_digest == compute_question_digest(sample)
        if self.asked is not None:
            return self.asked == compute_question_digest(replace(sample, metadata={}))
        return True if self.is_beside else None


Replies = Mapping[tuple[str, str], RecordedReply]
"""Recorded replies by the name of their dataset, empty if the file does not say, and the id of their sample."""


def find_reply(replies: Replies, dataset: str, sample_id: str) -> RecordedReply | None:
    """Return the recorded reply to a sample."""
    return replies.get((dataset, sample_id)) or replies.get(("", sample_id))


def replay(replies: Replies, dataset: str, sample: Sample) -> Exchange:
    """Return the recorded reply to a sample, with its recorded latency, if any."""
    found = find_reply(replies, dataset, sample.id)
    if found is None:
        return Exchange(sample, error="there is no recorded reply")
    asked = None if found.answers(sample) is None else compute_question_digest(sample)
    error = None if found.reply else found.error
    return Exchange(sample, found.reply, error, question_digest=asked, request_digest=found.request_digest)


class _PlainReply(Struct, forbid_unknown_fields=True, gc=False):
    """What most lines are: an answer to a sample."""

    id: Annotated[str, Meta(min_length=1)]
    response: str


_parse_plainly = partial(parse_plainly, decode=Decoder(built(_PlainReply)).decode)
_read_lines = partial(read_plainly, parse=_parse_plainly)


def load_replies(path: Path, shown_as: str) -> Replies:
    """Return the replies of a file. Null counts as absent. Without `response` the answer is empty.

    A line of evalspec's own JSON Lines report is a reply too, or an error of the agent.

    Raises:
        InvalidInput: with the first bad lines of the file, and the number of the others.
    """
    problems: list[Problem] = []
    replies: dict[tuple[str, str], RecordedReply] = {}
    for line, value in read_json_lines(path, shown_as, problems, _read_lines):
        key, recorded, found = _read_line(value, line)
        if key in replies:
            message = f"duplicate reply for '{key[1]}', first in line {replies[key].line}"
            found.append(("id", message, "remove one of them"))
        problems += [Problem(message, fix, shown_as, line, field) for field, message, fix in found]
        if key[1] and key not in replies:
            replies[key] = recorded
    if problems:
        first = sorted(problems, key=lambda problem: problem.line or 0)[:SHOWN]
        left = len(problems) - len(first)
        raise InvalidInput([*first, *([Problem(f"and {left:,} more problems", file=shown_as)] if left else [])])
    return replies


def _read_line(value: Any, line: int) -> tuple[tuple[str, str], RecordedReply, list[tuple[str, str, str]]]:
    """Return what a line replies to, dataset and sample, its reply, and its problems, each with its field and fix."""
    if isinstance(value, _PlainReply):
        return ("", normalize("NFC", value.id)), RecordedReply(AgentReply(value.response), line=line), []
    fields, found = _read_fields(_read_report_line(value), _RECORDED_READERS)
    return (fields.get("dataset") or "", fields.get("id") or ""), _make_recorded(fields, line), found


def _read_report_line(value: Any) -> Any:
    """Return what a line of a JSON Lines report says about the reply. Every other value is returned as it is."""
    if not isinstance(value, dict) or not value.keys() >= _OF_A_REPORT:
        return value
    renamed = {_RENAMED.get(key, key): item for key, item in value.items()}
    return {key: item for key, item in renamed.items() if key in _RECORDED_READERS}


def _make_recorded(fields: Mapping[str, Any], line: int) -> RecordedReply:
    error = fields.get("error")
    return RecordedReply(
        _make_reply(fields) if error is None else None,
        error,
        compute_question_digest(Sample("", fields["input"])) if fields.get("input") else None,
        fields.get("question_digest"),
        fields.get("request_digest"),
        line,
        has_response="response" in fields,
    )


def read_reply(value: Mapping[str, Any]) -> tuple[AgentReply, list[str]]:
    """Return a reply from the keys of a recorded one, without its id, and a list of problems."""
    listed = {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
    fields, problems = _read_fields({"id": "0"} | listed, _READERS)
    return _make_reply(fields), [Problem(message, fix, field=field).render() for field, message, fix in problems]


def _make_reply(fields: Mapping[str, Any]) -> AgentReply:
    if fields.get("turns"):
        return join_turns(fields["turns"])
    return AgentReply(
        fields.get("response") or "",
        fields.get("retrieved_contexts"),
        fields.get("retrieved_context_ids"),
        tool_calls=fields.get("tool_calls"),
        usage=fields.get("usage"),
        latency_ms=fields.get("latencyMs"),
        finish_reason=fields.get("finish_reason") or None,
        steps=fields.get("steps"),
        model_calls=fields.get("model_calls") or (),
    )


def load_recorded(path: Path, shown_as: str, warnings: list[Problem]) -> Replies:
    """Return recorded replies from JSONL as in `load_replies`, or from a TREC run, with its rankings as replies.

    Raises:
        InvalidInput: with every problem in the file.
    """
    if not _is_run(path):
        return load_replies(path, shown_as)
    problems: list[Problem] = []
    run = read_run(path, shown_as, problems, warnings)
    if problems:
        raise InvalidInput(problems)
    return {
        ("", query): RecordedReply(AgentReply("", retrieved_context_ids=_by_score(scores), trace=SearchTrace()))
        for query, scores in run.items()
    }


def _is_run(path: Path) -> bool:
    """Return whether the first line has a run's columns and is not JSON. The reader reports an unreadable file."""
    head = read_head(path)
    return looks_like_run(head) if head else path.suffix == ".gz"


def _by_score(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return the documents, best first. Equal scores are ordered by document id, descending, as in trec_eval."""
    return tuple(sorted(scores, key=lambda document: (scores[document], document), reverse=True))


def list_unknown_replies(replies: Replies, known: Collection[tuple[str, str]]) -> list[str]:
    """Return the ids of replies without a sample, in the order of the file. `known`: datasets and ids of samples."""
    ids = {sample_id for _dataset, sample_id in known}
    return [key[1] for key in replies if (key not in known if key[0] else key[1] not in ids)]


_MEANT = {
    "answer": "response",
    "output": "response",
    "actual_output": "response",
    "contexts": "retrieved_contexts",
    "retrieval_context": "retrieved_contexts",
}
"""What keys of other systems mean here."""


def _read_fields(value: Any, readers: "_Readers") -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Return the readable fields of one line, and (field, problem, fix) for each problem."""
    if not isinstance(value, dict):
        return {}, [("", "the line is not a JSON object", 'write {"id": …, "response": …}')]
    unknown = {str(key): _MEANT.get(key, str(key)) for key in value if key not in readers}
    problems = [(key, f"unknown key '{key}'", near_miss(meant, readers)) for key, meant in unknown.items()]
    given = {key: item for key, item in value.items() if key in readers and item is not None}
    fields = {key: readers[key][0](item) for key, item in given.items()}
    problems += [
        (
            key,
            f"{excerpt(json.dumps(given[key], default=repr))} is not accepted here",
            f"it should be {readers[key][1]}",
        )
        for key, read in fields.items()
        if read is None
    ]
    if "id" not in given:
        problems.append(("id", "this key is required", "add the id of the sample that was answered"))
    if given.keys().isdisjoint((*_RECORDED, "error")):
        problems.append(("", "the line has no reply", f"add {' or '.join(_RECORDED)}"))
    contexts, ids = fields.get("retrieved_contexts"), fields.get("retrieved_context_ids")
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        message = f"{len(ids)} ids for {len(contexts)} contexts"
        problems.append(("retrieved_context_ids", message, "give one id per context"))
    return fields, problems


def _is(kind: Any) -> Callable[[Any], Any]:
    """Return a function that returns a value of this type, else None. A set is no list: it has no order."""

    def read(value: Any) -> Any:
        try:
            return None if isinstance(value, set | frozenset) else convert(value, built(kind))
        except ValidationError:
            return None

    return read


def _read_ids(value: Any) -> tuple[str, ...] | None:
    found = _is(tuple[_Id, ...])(value)
    return None if found is None else tuple(map(str, found))


def _read_sample_id(value: Any) -> str | None:
    name = _is(_Id)(value)
    return None if name is None else normalize("NFC", str(name))


def _read_calls(value: Any) -> tuple[ToolCall, ...] | None:
    return read_tool_calls(value) if isinstance(value, list) else None


def _read_turns(value: Any) -> tuple[AgentTurn, ...] | None:
    """Return the turns of a conversation, each with what the user said and the keys of a reply; None if one is bad."""
    turns = []
    for item in value if isinstance(value, list) else [None]:
        if not isinstance(item, dict) or not isinstance(item.get("user"), str):
            return None
        rest = {"id": "0"} | {key: part for key, part in item.items() if key != "user"}
        fields, problems = _read_fields(rest, _READERS)
        if problems:
            return None
        turns.append(AgentTurn(item["user"], _make_reply(fields)))
    return tuple(turns)


_Id = Annotated[str, Meta(min_length=1)] | int
_Question = Annotated[str, Meta(min_length=1)] | Annotated[tuple[Message, ...], Meta(min_length=1)]
_Milliseconds = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
_Readers = Mapping[str, tuple[Callable[[Any], Any], str]]
_READERS: _Readers = {
    "id": (_read_sample_id, "text"),
    "response": (_is(str), "text"),
    "retrieved_contexts": (_is(tuple[str, ...]), "a list of texts"),
    "retrieved_context_ids": (_read_ids, "a list of ids"),
    "latencyMs": (_is(_Milliseconds), "milliseconds, 0 or more"),
    "finish_reason": (as_finish_reason, "text"),
    "usage": (read_usage, '{"input_tokens": …, "output_tokens": …}'),
    "tool_calls": (_read_calls, "a list of calls, or of messages"),
    "steps": (_is(Annotated[int, Meta(ge=0)]), "a whole number, 0 or more"),
    "model_calls": (_is(tuple[ModelCall, ...]), 'a list of {"latencyMs": …, "usage": {"inputTokens": …, …}}'),
}
_RECORDED = ("response", "retrieved_contexts", "retrieved_context_ids", "tool_calls", "turns")
_RECORDED_READERS: _Readers = {
    **_READERS,
    "input": (_is(_Question), "the question: text, or messages with role and content"),
    "question_digest": (_is(str), "text"),
    "request_digest": (_is(str), "text"),
    "dataset": (_is(str), "the name of a dataset"),
    "error": (_is(str), "text"),
    "turns": (_read_turns, 'a list of turns: {"user": …, "response": …}'),
}
_OF_A_REPORT = {"run_id", "sample_id", "scores"}
_RENAMED = {"sample_id": "id", "user_input": "input", "latency_ms": "latencyMs"}
"""Keys of the JSON Lines report that recorded replies spell otherwise."""
