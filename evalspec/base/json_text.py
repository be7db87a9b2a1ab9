"""JSON output for people, `diff` and terminals. No text in it can control a terminal or a CI system."""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct, to_builtins
from msgspec.json import encode, format
from msgspec.structs import astuple

from evalspec.base.foreign_text import commandless_json

_NEVER = 1_000
_LARGEST = 2**63
_TEXT = frozenset({str})
_ALWAYS_PLAIN = frozenset({str, bool, type(None), type(UNSET)})


def compute_digest(value: Any) -> str:
    """Return a hash of a JSON value that does not depend on the order of keys."""
    import hashlib

    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def change_values(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a JSON value with every text, number, truth value and null in it changed."""
    if isinstance(value, Mapping):
        return {key: change_values(item, change) for key, item in value.items()}
    return [change_values(item, change) for item in value] if isinstance(value, list | tuple) else change(value)


def render_line(value: Any) -> str:
    """Return a JSON value on one line.

    If any text in it could control a terminal, is a line break for some readers, or has no UTF-8 encoding, the whole
    line is ASCII with escapes.

    Raises:
        ValueError: The value contains NaN or infinity.
    """
    if isinstance(value, Struct):
        return _render_record(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=to_builtins)
    return commandless_json(text if text.isprintable() else json.dumps(value, allow_nan=False, default=to_builtins))


def _render_record(record: Struct) -> str:
    """Return a record on one line.

    msgspec's encoder is faster. The standard library's takes over where msgspec would change a string or a number.
    """
    if is_plain(getattr(record, "metadata", None)):
        try:
            text = format(encode(record), indent=0).decode()
        except UnicodeEncodeError:  # half a surrogate pair
            text = "\n"
        if _is_printable(text):
            return commandless_json(text)
    return commandless_json(json.dumps(to_builtins(record), allow_nan=False))


def _is_printable(text: str) -> bool:
    """Return whether all of encoded JSON is printable. Its encoder escapes all of ASCII that is not, but for DEL."""
    return (text.isascii() and "\x7f" not in text and "\n" not in text) or text.isprintable()


def is_plain(value: Any) -> bool:
    """Return whether msgspec and the standard library encode a value to the same JSON value.

    msgspec turns NaN into null and huge integers into strings, and it accepts objects that JSON has no form for.
    """
    if isinstance(value, dict):
        return _TEXT.issuperset(map(type, value)) and are_plain(value.values())
    if isinstance(value, list | tuple):
        return are_plain(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    if isinstance(value, Struct):
        return are_plain(astuple(value))
    return value is None or value is UNSET or isinstance(value, str)


def are_plain(values: Collection[Any]) -> bool:
    """Return whether all values are as `is_plain` means it. Most are of types that need no further look."""
    if _ALWAYS_PLAIN.issuperset(map(type, values)):
        return True
    return all(is_plain(value) for value in values if type(value) not in _ALWAYS_PLAIN)


def fields_of(record: Struct) -> dict[str, Any]:
    """Return the values of a record by their names in JSON, after the name of its kind if it has one.

    Raises:
        TypeError: The value is not a record.
    """
    if not isinstance(record, Struct):
        raise TypeError(f"{type(record).__name__} is not a type of JSON")
    values, names, settings = astuple(record), record.__struct_encode_fields__, record.__struct_config__
    kind = {} if settings.tag_field is None else {settings.tag_field: settings.tag}
    return kind | {name: value for name, value in zip(names, values, strict=True) if value is not UNSET}


def render_lines(
    value: Any, depth: int = 0, one_line_from: int = _NEVER, deeper_below: frozenset[str] = frozenset()
) -> str:
    """Return a JSON value with indentation, except below a depth of `one_line_from`, where values are on one line.

    `deeper_below`: keys below which that depth is one more.
    """
    return "".join(iterate_lines(value, depth, one_line_from, deeper_below))


def iterate_lines(
    value: Any, depth: int = 0, one_line_from: int = _NEVER, deeper_below: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the same text in parts. No part begins inside a string."""
    if depth >= one_line_from or not value or not isinstance(value, dict | list | tuple | Struct):
        yield render_line(value)
        return
    margin = f"\n{'  ' * (depth + 1)}"
    if isinstance(value, Struct):
        value = fields_of(value)
    if isinstance(value, dict):
        items = ((f"{render_line(str(key))}: ", item, key in deeper_below) for key, item in value.items())
        opening, closing = "{", "}"
    else:
        items = (("", item, False) for item in value)
        opening, closing = "[", "]"
    yield opening
    for place, (key, item, is_deeper) in enumerate(items):
        yield f"{',' if place else ''}{margin}{key}"
        yield from iterate_lines(item, depth + 1, one_line_from + is_deeper, deeper_below)
    yield f"\n{'  ' * depth}{closing}"
