"""JSON that must be what it promises: a document from a file, and checks of its values that lead to what is wrong.

The standard library's parser and plain functions: of a report of 100,000 samples that takes less time and memory than
validating the models that write it.
"""

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from evalspec.errors import InvalidInput, Problem
from evalspec.jsonl import FINITE
from evalspec.records import LARGEST_VALUE
from evalspec.records.fingerprints import find_fingerprint_fault
from evalspec.stats import STATISTICS
from evalspec.trust import Act, require

SCHEMA_VERSION = 1
"""Of every document that is read with these functions."""

Part = TypeVar("Part")
Member = TypeVar("Member", bound=StrEnum)

_REQUIRED: Any = object()
_FIX = "the file was changed, or is of another tool"


class Malformed(ValueError):
    """A value is not what the document promises; `path` leads to it."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path

    def within(self, step: str) -> "Malformed":
        """The same, seen from the object around."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return Malformed(str(self), f"{step}{joint}{self.path}")


def read_bytes(path: Path) -> bytes:
    """The content of a file that the user has named.

    Raises:
        InvalidInput: it cannot be read.
    """
    require(Act.READ_RUN, str(path))
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InvalidInput(Problem("no such file", "check the path", str(path))) from error
    except OSError as error:
        raise InvalidInput(Problem(f"cannot be read: {error.strerror}", file=str(path))) from error


def parse_document(content: str | bytes, shown_as: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InvalidInput: it is none.
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
        raise InvalidInput(Problem("a JSON object is expected", _FIX, shown_as))
    return document


@contextmanager
def growing() -> Iterator[None]:
    """A block that builds millions of objects and drops none: the collector of cycles, which would look through all of
    them again and again and takes half of the time, waits until its end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def malformed(error: Malformed, shown_as: str) -> InvalidInput:
    """The error as a user gets it."""
    return InvalidInput(Problem(str(error), _FIX, shown_as, field=error.path))


def check_version(document: Mapping[str, Any], shown_as: str) -> None:
    """Refuse a document without a version, and one that a later release has written.

    Raises:
        InvalidInput: it is such a one.
    """
    version = document.get("schemaVersion")
    if type(version) is not int or version < 1:
        raise InvalidInput(Problem(f"{_quote(version)} is no version", _FIX, shown_as, field="schemaVersion"))
    if version > SCHEMA_VERSION:
        message = f"version {version}, written by a later release; this one reads up to {SCHEMA_VERSION}"
        raise InvalidInput(Problem(message, "update evalspec", shown_as, field="schemaVersion"))


def take(fields: Mapping[str, Any], key: str, check: Callable[[Any], Part], default: Any = _REQUIRED) -> Part:
    """One value of an object, checked; the default where its key is missing.

    Raises:
        Malformed: it is missing and has no default, or is not what `check` takes.
    """
    if type(fields) is not dict:
        raise Malformed(f"an object is expected, not {_quote(fields)}")
    value = fields.get(key, default)
    if value is _REQUIRED:
        raise Malformed("is missing", key)
    if value is default:
        return value  # type: ignore[no-any-return]
    try:
        return check(value)
    except Malformed as error:
        raise error.within(key) from None


def text(value: Any) -> str:
    """Any text."""
    return value if type(value) is str else refuse("text", value)


def statistic(value: Any) -> str:
    """The name of a statistic."""
    return value if type(value) is str and value in STATISTICS else refuse(f"one of {', '.join(STATISTICS)}", value)


def flag(value: Any) -> bool:
    """True or false."""
    return value if type(value) is bool else refuse("true or false", value)


def count(value: Any) -> int:
    """A whole number."""
    return value if type(value) is int else refuse("a whole number", value)


def number(value: Any) -> float:
    """A number that can be reckoned with."""
    if type(value) not in (float, int) or not abs(value) <= LARGEST_VALUE:
        refuse("a number", value)
    return float(value)


def mapping(value: Any) -> dict[str, Any]:
    """An object, as it is."""
    return value if type(value) is dict else refuse("an object", value)


def fingerprint(value: Any) -> dict[str, Any]:
    """What a run was made of, as far as it is told."""
    fault = find_fingerprint_fault(mapping(value))
    if fault is not None:
        raise Malformed(fault)
    return mapping(value)


def optional(check: Callable[[Any], Part]) -> Callable[[Any], Part | None]:
    """Null, or what `check` takes."""
    return lambda value: None if value is None else check(value)


def each(check: Callable[[Any], Part]) -> Callable[[Any], tuple[Part, ...]]:
    """A list of what `check` takes."""

    def checked(value: Any) -> tuple[Part, ...]:
        if type(value) is not list:
            refuse("a list", value)
        found: list[Part] = []
        try:
            found.extend(map(check, value))
        except Malformed as error:
            raise error.within(f"[{len(found)}]") from None
        return tuple(found)

    return checked


def by_key(check: Callable[[Any], Part]) -> Callable[[Any], dict[str, Part]]:
    """An object whose values are what `check` takes."""

    def checked(value: Any) -> dict[str, Part]:
        found: dict[str, Part] = {}
        for key, item in mapping(value).items():
            try:
                found[key] = check(item)
            except Malformed as error:
                raise error.within(key) from None
        return found

    return checked


def pair(value: Any) -> tuple[float, float]:
    """Two numbers."""
    ends = each(number)(value)
    return (ends[0], ends[1]) if len(ends) == 2 else refuse("two numbers", value)


def member_of(kind: type[Member]) -> Callable[[Any], Member]:
    """The member of that name."""
    known = {str(member): member for member in kind}

    def checked(value: Any) -> Member:
        return known[value] if type(value) is str and value in known else refuse(f"one of {', '.join(known)}", value)

    return checked


def refuse(expected: str, value: Any) -> NoReturn:
    """Say what a value should have been.

    Raises:
        Malformed: always.
    """
    raise Malformed(f"{expected} is expected, not {_quote(value)}")


def _quote(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
