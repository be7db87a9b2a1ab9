"""Replies recorded earlier: a JSON Lines file instead of a running agent."""

import json
import sys
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from evalspec.agents.mapping import as_finish_reason
from evalspec.errors import InvalidInput, Problem
from evalspec.foreign_text import normalize
from evalspec.http.completions import read_usage
from evalspec.http.text import excerpt
from evalspec.jsonl import open_unpacked, read_json_lines
from evalspec.model import AgentReply, Exchange, Sample, SearchTrace
from evalspec.ranking.trec_files import looks_like_run, read_run
from evalspec.registry import near_miss

_HEAD_BYTES = 65_536


def replay(replies: Mapping[str, AgentReply], sample: Sample) -> Exchange:
    """Return the recorded reply to a sample, with its recorded latency, if any."""
    reply = replies.get(sample.id)
    return Exchange(sample, reply, None if reply else "there is no recorded reply")


def load_replies(path: Path, shown_as: str) -> dict[str, AgentReply]:
    """Return recorded replies by sample id. Null counts as absent. Without `response` the answer is empty.

    Raises:
        InvalidInput: with every bad line of the file.
    """
    problems: list[Problem] = []
    replies: dict[str, AgentReply] = {}
    lines: dict[str, int] = {}
    for line, value in read_json_lines(path, shown_as, problems):
        fields, found = _read_fields(value)
        reply_id = fields.get("id")
        if reply_id in lines:
            found.append(
                ("id", f"duplicate reply for '{reply_id}', first in line {lines[reply_id]}", "remove one of them")
            )
        problems += [Problem(message, fix, shown_as, line, field) for field, message, fix in found]
        if reply_id is not None:
            lines.setdefault(reply_id, line)
            replies[reply_id] = _make_reply(fields)
    if problems:
        raise InvalidInput(sorted(problems, key=lambda problem: problem.line or 0))
    return replies


def read_reply(value: Mapping[str, Any]) -> tuple[AgentReply, list[str]]:
    """Return a reply from the keys of a recorded one, without its id, and a list of problems."""
    listed = {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
    fields, problems = _read_fields({"id": "0"} | listed)
    return _make_reply(fields), [Problem(message, fix, field=field).render() for field, message, fix in problems]


def _make_reply(fields: Mapping[str, Any]) -> AgentReply:
    return AgentReply(
        fields.get("response") or "",
        fields.get("retrieved_contexts"),
        fields.get("retrieved_context_ids"),
        usage=fields.get("usage"),
        latency_ms=fields.get("latencyMs"),
        finish_reason=fields.get("finish_reason") or None,
    )


def load_recorded(path: Path, shown_as: str, warnings: list[Problem]) -> dict[str, AgentReply]:
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
        query: AgentReply("", retrieved_context_ids=_by_score(scores), trace=SearchTrace())
        for query, scores in run.items()
    }


def _is_run(path: Path) -> bool:
    """Return whether the first line has a run's columns and is not JSON. The reader reports an unreadable file."""
    try:
        with open_unpacked(path) as stream:
            return looks_like_run(stream.read(_HEAD_BYTES))
    except (OSError, EOFError, zlib.error):
        return path.suffix == ".gz"


def _by_score(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return the documents, best first. Equal scores are ordered by document id, descending, as in trec_eval."""
    return tuple(sorted(scores, key=lambda document: (scores[document], document), reverse=True))


def unknown_ids(replies: Mapping[str, AgentReply], known_ids: Collection[str]) -> list[str]:
    """Return the ids of replies without a sample, in the order of the file."""
    known = set(known_ids)
    return [reply_id for reply_id in replies if reply_id not in known]


def _read_fields(value: Any) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Return the readable fields of one line, and (field, problem, fix) for each problem."""
    if not isinstance(value, dict):
        return {}, [("", "the line is not a JSON object", 'write {"id": …, "response": …}')]
    problems = [
        (str(key), f"unknown key '{key}'", near_miss(str(key), _READERS)) for key in value if key not in _READERS
    ]
    given = {key: item for key, item in value.items() if key in _READERS and item is not None}
    fields = {key: _READERS[key][0](item) for key, item in given.items()}
    problems += [
        (
            key,
            f"{excerpt(json.dumps(given[key], default=repr))} is not accepted here",
            f"it should be {_READERS[key][1]}",
        )
        for key, read in fields.items()
        if read is None
    ]
    if "id" not in given:
        problems.append(("id", "this key is required", "add the id of the sample that was answered"))
    if given.keys().isdisjoint(_RECORDED):
        problems.append(("", "the line has no reply", f"add {' or '.join(_RECORDED)}"))
    contexts, ids = fields.get("retrieved_contexts"), fields.get("retrieved_context_ids")
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        message = f"{len(ids)} ids for {len(contexts)} contexts"
        problems.append(("retrieved_context_ids", message, "give one id per context"))
    return fields, problems


def _read_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_id(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _read_text(value) or None


def _read_sample_id(value: Any) -> str | None:
    name = _read_id(value)
    return None if name is None else normalize("NFC", name)


def _read_list(value: Any, read: Callable[[Any], str | None]) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    texts = [read(item) for item in value]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _read_milliseconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= sys.float_info.max else None


_READERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "id": (_read_sample_id, "text"),
    "response": (_read_text, "text"),
    "retrieved_contexts": (lambda value: _read_list(value, _read_text), "a list of texts"),
    "retrieved_context_ids": (lambda value: _read_list(value, _read_id), "a list of ids"),
    "latencyMs": (_read_milliseconds, "milliseconds, 0 or more"),
    "finish_reason": (as_finish_reason, "text"),
    "usage": (read_usage, '{"input_tokens": …, "output_tokens": …}'),
}
_RECORDED = ("response", "retrieved_contexts", "retrieved_context_ids")
