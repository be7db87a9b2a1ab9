"""Looking parts of a reply up with JSONPath queries (RFC 9535).

A query that finds nothing is ambiguous: nothing was retrieved, or the reply has another shape. The leading part of a
query that can name one place only (`$.contexts` of `$.contexts[*].text`) tells them apart: it must exist.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from evalspec.errors import ServiceError
from evalspec.http.text import one_line

T = TypeVar("T")

_PLAIN_NAME = re.compile(r"\['([A-Za-z_]\w*)'\]")
_JSON_TYPES = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}

_LONGEST_KEY = 40


@dataclass(frozen=True, slots=True)
class _Query:
    """A compiled query. `place`: its leading part that names one place; `head`: up to its last part that fans out."""

    text: str
    full: Any
    place: Any
    head: Any


def explain_bad_query(text: str) -> str | None:
    """Why a text is not a JSONPath query; None where it is one."""
    import jsonpath_rfc9535 as jsonpath

    try:
        _compile(text)
    except jsonpath.JSONPathError as error:
        reason = error.args[0] if error.args else error
        return f"'{text}' is not a JSONPath query ({reason}); write it as in $.response or $.contexts[*].text"
    return None


def select_values(text: str, value: Any) -> list[Any]:
    """All values that a query finds, in the order of the reply.

    Raises:
        ServiceError: the query cannot be carried out on this value.
    """
    return _find(_compile(text).full, value)


def read_list(
    value: Any, text: str, key: str, convert: Callable[[Any], T | None], expected: str = "strings"
) -> tuple[T, ...]:
    """The list that a query finds, or the values that it finds one by one.

    `key`: the setting that holds the query. `convert`: an item as it is wanted, None for one of another kind than
    `expected` says.

    Raises:
        ServiceError: the place does not exist, an item is missing, or one is of another kind.
    """
    query = _compile(text)
    found = _find(query.full, value)
    _check_complete(query, value, found, key)
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    converted = []
    for item in items:
        wanted = convert(item)
        if wanted is None:
            message = f"{type_name(item)} stands among the values at {text} ({key}); {expected} were expected"
            raise ServiceError(message)
        converted.append(wanted)
    return tuple(converted)


def mentions(value: Any, text: str) -> bool:
    """Whether one event of a stream says anything at a query, be it that there is nothing."""
    compiled = _compile(text)
    if compiled.place.empty():
        return bool(_find(compiled.full, value))
    return any(found is not None for found in _find(compiled.place, value))


def as_string(value: Any) -> str | None:
    """Text as it is; None for anything else."""
    return value if isinstance(value, str) else None


def as_id(value: Any) -> str | None:
    """An id: text, or a whole number, which becomes text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_string(value)


def describe_keys(value: Any) -> str:
    """What a JSON value has instead of what was looked for."""
    if isinstance(value, dict):
        names = [one_line(key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…") for key in list(value)[:12]]
        return f"its keys are: {', '.join(names)}" if names else "it is an empty object"
    return f"it is {type_name(value)}"


def type_name(value: Any) -> str:
    """What JSON calls a value, with its article."""
    return "null" if value is None else _JSON_TYPES[type(value)]


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
        raise ServiceError(f"{_shown(query)} cannot be looked up in the reply: {error}") from error


def _check_complete(query: _Query, value: Any, found: list[Any], key: str) -> None:
    places = _find(query.place, value)
    if not places:
        raise ServiceError(f"the reply has no value at {_shown(query.place)} ({key}); {describe_keys(value)}")
    if not found and not isinstance(places[0], list | dict):
        raise ServiceError(f"{type_name(places[0])} stands at {_shown(query.place)} ({key}); a list was expected")
    heads = len(_find(query.head, value))
    if not query.full.singular_query() and heads != len(found):
        where = f"{_shown(query.head)} ({key})"
        raise ServiceError(f"{heads - len(found)} of the {heads} values at {where} lack what {query.text} asks for")


def _shown(query: Any) -> str:
    return _PLAIN_NAME.sub(r".\1", str(query))
