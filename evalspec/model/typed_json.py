"""Reads JSON files as records. Every error is one line with file, field and what is wrong."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from evalspec.base.collector import growing
from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.jsonl import FINITE
from evalspec.base.trust import Act, require
from evalspec.model.base import built

SCHEMA_VERSION = 1
"""The schema version of every document that these functions read."""

Kind = TypeVar("Kind", bound=msgspec.Struct)
ReadOther = Callable[[type, Any], Any]

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])")
_MISSING = re.compile("Object missing required field `(.+)`")
_NONE_OF = re.compile(r"Expected `str` matching regex '\^\(\?:([\w|]+)\)\$'")
_WRONG_TYPE = re.compile("Expected `([^`]+)`, got `.+`")
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
_FIX = "the file was edited, or is from another tool"


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        InvalidInput: The file cannot be read.
    """
    require(Act.READ_RUN, str(path))
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InvalidInput(Problem("no such file", "check the path", str(path))) from error
    except OSError as error:
        raise InvalidInput(Problem(f"cannot be read: {error.strerror}", file=str(path))) from error


def parse_document(content: str | bytes, shown_as: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        InvalidInput: The text is not a JSON object.
    """
    try:
        with growing():
            document = json.loads(content, **FINITE)
    except json.JSONDecodeError as error:
        message = f"not valid JSON at column {error.colno}: {error.msg}"
        raise InvalidInput(Problem(message, _FIX, shown_as, error.lineno)) from error
    except (ValueError, RecursionError) as error:
        said = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"not valid JSON: {error}"
        raise InvalidInput(Problem(said, _FIX, shown_as)) from error
    if not isinstance(document, dict):
        raise InvalidInput(Problem("expected a JSON object", _FIX, shown_as))
    return document


def check_version(document: Mapping[str, Any], shown_as: str) -> None:
    """Check that a document has a schema version that this release supports.

    Raises:
        InvalidInput: The version is missing, invalid, or of a later release.
    """
    version = document.get("schemaVersion")
    if type(version) is not int or version < 1:
        raise InvalidInput(Problem(f"{quote_json(version)} is not a version", _FIX, shown_as, field="schemaVersion"))
    if version > SCHEMA_VERSION:
        message = f"version {version} is from a later release; this release reads up to {SCHEMA_VERSION}"
        raise InvalidInput(Problem(message, "update evalspec", shown_as, field="schemaVersion"))


def convert(document: Any, kind: type[Kind], shown_as: str) -> Kind:
    """Return a parsed document as a record. Unknown keys are ignored.

    Raises:
        InvalidInput: A value is invalid.
    """
    try:
        with growing():
            return msgspec.convert(document, built(kind), str_keys=True)
    except msgspec.ValidationError as error:
        field, message = explain(error, document, kind)
        raise malformed(message, shown_as, field) from error
    except UnicodeEncodeError as error:
        raise malformed("a key contains a lone surrogate", shown_as, "") from error


def malformed(message: str, shown_as: str, field: str) -> InvalidInput:
    """Return the error for an invalid value in a document."""
    return InvalidInput(Problem(message, _FIX, shown_as, field=field))


def explain(
    error: msgspec.ValidationError, document: Any, kind: type[msgspec.Struct], read: ReadOther | None = None
) -> tuple[str, str]:
    """Return the path of the value that msgspec rejected, and a message.

    In the path of an object with arbitrary keys, msgspec writes `[...]` in place of the key. The key is found by
    validating the document with each key alone, until the error is the same.

    `read`: the dec_hook that the document was read with.
    """
    said = str(error)

    def find_key(path: Sequence[str | int]) -> str:
        within = _follow(document, path)
        return str(next(key for key in within if _says(_with(document, path, {key: within[key]}), kind, read, said)))

    message, at, place = said.rpartition(" - at ")  # from the right, because a quoted value may contain it too
    if not at:
        message, place = said, ""
    path: list[str | int] = []
    for name, number, _any in _STEP.findall(place):
        path.append(name or (int(number) if number else find_key(path)))
    if place.startswith("`key`"):
        return _render(path), f"its key {find_key(path)!r:.40}: {message}"
    missing, wrong, other = (form.fullmatch(message) for form in (_MISSING, _WRONG_TYPE, _NONE_OF))
    if missing:
        return _render([*path, missing[1]]), "is missing"
    if wrong:
        expected = " or ".join(_KINDS.get(name, name) for name in wrong[1].split(" | ") if name != "null")
        message = f"expected {expected}, not {quote_json(_follow(document, path))}"
    elif other:
        known = other[1].replace("|", ", ")
        message = f"expected one of {known}, not {quote_json(_follow(document, path))}"
    return _render(path), message


def _says(document: Any, kind: type[msgspec.Struct], read: ReadOther | None, said: str) -> bool:
    try:
        msgspec.convert(document, built(kind), str_keys=True, dec_hook=read)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        return str(error) == said
    return False


def _follow(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _with(value: Any, path: Sequence[str | int], replacement: Any) -> Any:
    """Return a copy of a document with the value at a path replaced."""
    if not path:
        return replacement
    copied = value.copy()
    copied[path[0]] = _with(value[path[0]], path[1:], replacement)
    return copied


def _render(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def quote_json(value: Any) -> str:
    """Return a value as errors show it: JSON, cut to 40 characters."""
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
