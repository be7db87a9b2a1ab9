"""Look up parts of a reply with JSONPath queries (RFC 9535).

A query without matches is ambiguous: nothing was retrieved, or the reply has another shape. To tell the two cases
apart, the leading part of the query that can match one place only must exist (`$.contexts` of `$.contexts[*].text`).

The functions `match` and `search` have a time limit: people write the patterns, and agents the texts. A pattern such as
`(a|aa)+$` may take years for a line of text, and while one is matched, no timeout and no signal is seen.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import islice
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.base.text import one_line

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

PATTERN_SECONDS = 1.0
"""How long the patterns of one query may take for one reply, and so delay signals and the timeouts of other samples."""

_ENDS_AT: ContextVar[float] = ContextVar("ends_at")
"""When the patterns of the query that is applied have to end, by `monotonic`."""

_LONGEST_KEY = 40
_SUGGESTED_DEPTH = 5
_SHORT_NAME = re.compile(rf"[A-Za-z_]\w{{0,{_LONGEST_KEY - 1}}}", re.ASCII)


class _Query(Struct, frozen=True):
    """A compiled query. `place`: the leading part that matches one place. `head`: up to the last part that fans out."""

    text: str
    full: Any
    place: Any
    head: Any


def explain_bad_query(text: str) -> str | None:
    """Return why a text is not a JSONPath query; None if it is one."""
    import jsonpath_rfc9535 as jsonpath

    try:
        _compile(text)
    except jsonpath.JSONPathError as error:
        reason = error.args[0] if error.args else error
        return f"'{text}' is not a JSONPath query ({reason}); write one like $.response or $.contexts[*].text"
    return None


def list_bad_queries(queries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (key, message) for each text that is not a JSONPath query."""
    found = ((key, explain_bad_query(text)) for key, text in queries.items())
    return [(key, message) for key, message in found if message is not None]


def select_values(text: str, value: Any) -> list[Any]:
    """Return all values that a query matches, in the order of the reply.

    Raises:
        ServiceError: the query fails on this value.
    """
    return _find(_compile(text).full, value)


def locate_values(text: str, value: Any) -> list[tuple[str | int, ...]]:
    """Return the place of each value that a query selects, as keys and indexes.

    Raises:
        ServiceError: the query cannot be applied.
    """
    return [tuple(node.location) for node in _find_nodes(_compile(text).full, value)]


def render_location(place: Sequence[str | int]) -> str:
    """Return a place as JSONPath."""
    return "$" + "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in place
    )


def count_items(text: str, value: Any, lists: Collection[str]) -> int:
    """Return how many items of lists with one of these keys have values that a query matches.

    Raises:
        ServiceError: the query fails on this value.
    """
    places = [node.location for node in _find_nodes(_compile(text).full, value)]
    return len({place[index + 1] for place in places for index, key in enumerate(place[:-1]) if key in lists})


def read_list(
    value: Any, text: str, key: str, convert: Callable[[Any], T | None], expected: str = "strings"
) -> tuple[T, ...]:
    """Return the list that a query matches, or the values that it matches one by one.

    `key`: the setting with the query. `convert`: converts an item, and returns None if it is not one of `expected`.

    Raises:
        ServiceError: the place does not exist, an item is missing, or an item has another type.
    """
    query = _compile(text)
    found = _find(query.full, value)
    _check_complete(query, value, found, key)
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    converted = []
    for item in items:
        wanted = convert(item)
        if wanted is None:
            message = f"the values at {text} ({key}) include {type_name(item)}, but must be {expected}"
            raise ServiceError(message)
        converted.append(wanted)
    return tuple(converted)


def mentions(value: Any, text: str) -> bool:
    """Return whether an event of a stream has the place of a query, even if nothing is there."""
    compiled = _compile(text)
    if compiled.place.empty():
        return bool(_find(compiled.full, value))
    return any(found is not None for found in _find(compiled.place, value))


def as_string(value: Any) -> str | None:
    """Return text unchanged; None for anything else."""
    return value if isinstance(value, str) else None


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object unchanged; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_id(value: Any) -> str | None:
    """Return an id as text: text, or an integer converted to text. None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_string(value)


def describe_keys(value: Any) -> str:
    """Return a description of a JSON value's keys or type for messages."""
    if isinstance(value, dict):
        names = [one_line(key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…") for key in list(value)[:12]]
        return f"its keys are: {', '.join(names)}" if names else "it is an empty object"
    return f"it is {type_name(value)}"


def suggest_text(value: Any) -> str:
    """Return a query for the only text of a reply, or nothing if there are several or it would be long."""
    places = list(islice(_find_texts(value, "$", _SUGGESTED_DEPTH), 2))
    return places[0] if len(places) == 1 else ""


def _find_texts(value: Any, place: str, depth: int) -> Iterator[str]:
    """Yield a query for each text that is not blank. What no short query can name has none: an empty one."""
    if isinstance(value, str):
        yield from [place] if value.strip() else []
    elif isinstance(value, dict | list) and not depth:
        yield ""
    elif isinstance(value, dict):
        for key, item in value.items():
            longer = f"{place}.{key}" if place and _SHORT_NAME.fullmatch(key) else ""
            yield from _find_texts(item, longer, depth - 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_texts(item, place and f"{place}[{index}]", depth - 1)


def type_name(value: Any) -> str:
    """Return the JSON type of a value, with its article."""
    return "null" if value is None else _JSON_TYPES[type(value)]


@lru_cache(maxsize=256)
def _compile(text: str) -> _Query:
    import jsonpath_rfc9535 as jsonpath

    full = _open_environment().compile(text)

    def part(start: int, end: int) -> Any:
        return jsonpath.JSONPathQuery(env=full.env, segments=full.segments[start:end])

    size = len(full.segments)
    place_end = max(end for end in range(size + 1) if part(0, end).singular_query())
    tail_start = min(start for start in range(size + 1) if part(start, size).singular_query())
    return _Query(text, full, part(0, place_end), part(0, tail_start))


@cache
def _open_environment() -> Any:
    """Return the package's environment, with a time limit on the patterns of `match` and `search`."""
    import regex
    from jsonpath_rfc9535 import JSONPathEnvironment
    from jsonpath_rfc9535.function_extensions.match import Match
    from jsonpath_rfc9535.function_extensions.search import Search

    def limit(function: Any, find: Any) -> Any:
        class Limited(function):  # type: ignore[misc]
            def __call__(self, text: object, pattern: object) -> bool:
                return _has(find, text, pattern)

        return Limited()

    environment = JSONPathEnvironment()
    environment.function_extensions |= {"match": limit(Match, regex.fullmatch), "search": limit(Search, regex.search)}
    return environment


def _has(find: Any, text: object, pattern: object) -> bool:
    """Return whether a text has a pattern, as the package has it.

    Raises:
        TimeoutError: It takes too long.
    """
    import regex
    from iregexp_check import check
    from jsonpath_rfc9535.function_extensions.match import map_re

    if not isinstance(text, str) or not isinstance(pattern, str) or not check(pattern):
        return False
    left = max(_ENDS_AT.get() - monotonic(), 1e-6)
    try:
        return find(map_re(pattern), text, regex.VERSION1, timeout=left, concurrent=True) is not None
    except regex.error:
        return False


def _find(query: Any, value: Any) -> list[Any]:
    return [node.value for node in _find_nodes(query, value)]


def _find_nodes(query: Any, value: Any) -> list[Any]:
    import jsonpath_rfc9535 as jsonpath

    _ENDS_AT.set(monotonic() + PATTERN_SECONDS)
    try:
        return list(query.find(value))
    except TimeoutError as error:
        message = f"the pattern of {_shown(query)} takes longer than {PATTERN_SECONDS:g} s on this reply"
        raise ServiceError(f"{message}; write one without nested repetitions") from error
    except (jsonpath.JSONPathError, RecursionError) as error:
        raise ServiceError(f"{_shown(query)} cannot be applied to the reply: {error}") from error


def _check_complete(query: _Query, value: Any, found: list[Any], key: str) -> None:
    places = _find(query.place, value)
    if not places:
        raise ServiceError(f"the reply has no value at {_shown(query.place)} ({key}); {describe_keys(value)}")
    if not found and not isinstance(places[0], list | dict):
        raise ServiceError(f"the value at {_shown(query.place)} ({key}) is {type_name(places[0])}, not a list")
    heads = len(_find(query.head, value))
    if not query.full.singular_query() and heads != len(found):
        where = f"{_shown(query.head)} ({key})"
        raise ServiceError(f"{heads - len(found)} of the {heads} values at {where} have no match for {query.text}")


def _shown(query: Any) -> str:
    return _PLAIN_NAME.sub(r".\1", str(query))
