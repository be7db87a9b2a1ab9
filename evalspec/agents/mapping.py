"""Where the parts of a reply stand: the JSONPath queries (RFC 9535) of `chatEndpoint.response`.

A query that finds nothing is ambiguous: nothing was retrieved, or the reply has another shape. The leading part of a
query that can name one place only (`$.contexts` of `$.contexts[*].text`) tells them apart: it must exist.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evalspec.agents.reply_text import one_line
from evalspec.agents.usage import read_usage
from evalspec.errors import AgentError
from evalspec.manifest.schema import ResponseMapping
from evalspec.records import AgentReply, Usage

_PLAIN_NAME = re.compile(r"\['([A-Za-z_]\w*)'\]")
_JSON_TYPES = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class _Query:
    """A compiled query. `place`: its leading part that names one place; `head`: up to its last part that fans out."""

    text: str
    full: Any
    place: Any
    head: Any


def find_mapping_problems(mapping: ResponseMapping) -> list[tuple[str, str]]:
    """(key as it stands in YAML, message) for each query that is not JSONPath."""
    import jsonpath_rfc9535 as jsonpath

    problems = []
    for key, field in type(mapping).model_fields.items():
        text = getattr(mapping, key)
        try:
            if text is not None:
                _compile(text)
        except jsonpath.JSONPathError as error:
            reason = error.args[0] if error.args else error
            message = f"'{text}' is not a JSONPath query ({reason}); write it as in $.response or $.contexts[*].text"
            problems.append((field.alias or key, message))
    return problems


def read_mapped(value: Any, mapping: ResponseMapping) -> AgentReply:
    """The parts of a whole reply.

    Raises:
        AgentError: a mapped part is missing or of another type, or contexts and ids do not pair up.
    """
    answer = read_answer(value, mapping)
    if answer is None:
        raise AgentError(f"the reply has no value at {mapping.answer} (response.answer); {describe_keys(value)}")
    return assemble_mapped(answer, dict.fromkeys(type(mapping).model_fields, value), mapping)


def read_answer(value: Any, mapping: ResponseMapping) -> str | None:
    """The text at `response.answer`, or None where there is nothing.

    Raises:
        AgentError: several values, or one that is not text.
    """
    found = _find(_compile(mapping.answer).full, value)
    if not found:
        return None
    where = f"{mapping.answer} (response.answer)"
    if len(found) > 1:
        raise AgentError(f"{len(found)} values stand at {where}; exactly one string was expected")
    if not isinstance(found[0], str):
        raise AgentError(f"{_type_name(found[0])} stands at {where}; a string was expected")
    return found[0]


def assemble_mapped(answer: str, sources: Mapping[str, Any], mapping: ResponseMapping) -> AgentReply:
    """A reply from its answer and, for each field of the mapping, the JSON value to look into.

    Raises:
        AgentError: as read_mapped.
    """
    contexts = _read_list(sources["contexts"], mapping.contexts, "response.contexts", _as_context)
    ids = _read_list(sources["context_ids"], mapping.context_ids, "response.contextIds", _as_id)
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        message = f"{mapping.contexts} gives {len(contexts)} contexts and {mapping.context_ids} gives {len(ids)} ids"
        raise AgentError(f"{message}; one id a context was expected")
    tool_calls = _read_tool_calls(sources["tool_calls"], mapping.tool_calls)
    return AgentReply(answer, contexts, ids, tool_calls, _read_usage(sources["usage"], mapping.usage))


def mentions(value: Any, query: str) -> bool:
    """Whether one event of a stream says anything at a query, be it that there is nothing."""
    compiled = _compile(query)
    if compiled.place.empty():
        return bool(_find(compiled.full, value))
    return any(found is not None for found in _find(compiled.place, value))


def describe_keys(value: Any) -> str:
    """What a JSON value has instead of what was looked for."""
    if isinstance(value, dict):
        names = [one_line(key[:40]) for key in list(value)[:12]]
        return f"its keys are: {', '.join(names)}" if names else "it is an empty object"
    return f"it is {_type_name(value)}"


@lru_cache(maxsize=256)
def _compile(text: str) -> _Query:
    import jsonpath_rfc9535 as jsonpath

    full = jsonpath.compile(text)

    def part(start: int, end: int) -> Any:
        return jsonpath.JSONPathQuery(env=full.env, segments=full.segments[start:end])

    size = len(full.segments)
    place_end = max(end for end in range(size + 1) if part(0, end).singular_query())
    tail_start = min(start for start in range(size + 1) if part(start, size).singular_query())
    return _Query(text, full, part(0, place_end), part(0, tail_start))


def _find(query: Any, value: Any) -> list[Any]:
    import jsonpath_rfc9535 as jsonpath

    try:
        return [node.value for node in query.find(value)]
    except (jsonpath.JSONPathError, RecursionError) as error:
        raise AgentError(f"{_shown(query)} cannot be looked up in the reply: {error}") from error


def _read_list(value: Any, text: str | None, key: str, convert: Callable[[Any], str | None]) -> tuple[str, ...] | None:
    if text is None:
        return None
    query = _compile(text)
    found = _find(query.full, value)
    _check_complete(query, value, found, key)
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    texts = [convert(item) for item in items]
    if None in texts:
        odd = items[texts.index(None)]
        raise AgentError(f"{_type_name(odd)} stands among the values at {text} ({key}); strings were expected")
    return tuple(item for item in texts if item is not None)


def _check_complete(query: _Query, value: Any, found: list[Any], key: str) -> None:
    places = _find(query.place, value)
    if not places:
        raise AgentError(f"the reply has no value at {_shown(query.place)} ({key}); {describe_keys(value)}")
    if not found and not isinstance(places[0], list | dict):
        raise AgentError(f"{_type_name(places[0])} stands at {_shown(query.place)} ({key}); a list was expected")
    heads = len(_find(query.head, value))
    if not query.full.singular_query() and heads != len(found):
        where = f"{_shown(query.head)} ({key})"
        raise AgentError(f"{heads - len(found)} of the {heads} values at {where} lack what {query.text} asks for")


def _as_context(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_id(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _as_context(value)


def _read_tool_calls(value: Any, text: str | None) -> tuple[Any, ...] | None:
    if text is None or not mentions(value, text):
        return None
    found = _find(_compile(text).full, value)
    return tuple(found[0] if len(found) == 1 and isinstance(found[0], list) else found)


def _read_usage(value: Any, text: str | None) -> Usage | None:
    found = _find(_compile(text).full, value) if text else []
    return read_usage(found[0]) if len(found) == 1 else None


def _shown(query: Any) -> str:
    return _PLAIN_NAME.sub(r".\1", str(query))


def _type_name(value: Any) -> str:
    return "null" if value is None else _JSON_TYPES[type(value)]
