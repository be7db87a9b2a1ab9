"""Validate datasets record by record, so that every problem has a line."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import normalize
from evalspec.base.jsonl import GZIP_MAGIC, reporting_unreadable
from evalspec.base.trust import require_file
from evalspec.inputs.manifest.fields import explain_error, find_place, list_errors
from evalspec.inputs.manifest.yaml_source import Place, render_path

_ID_LENGTH = 12
_IDS_SHOWN = 100
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_DELETE = b"\x7f"
GZIP_OF_LINES = "gz files are supported only for JSONL, judgements of TREC and BEIR"
GZIP_FIX = "unpack it with gunzip"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

Record = TypeVar("Record", bound=BaseModel)
_Fields = dict[str, Any]


class Located(Protocol):
    """Data with a file and the line of every value."""

    @property
    def file(self) -> str:
        """The path in messages."""
        ...

    def line(self, path: Place, /) -> int:
        """Return the line, from 1, of the value at a path, or of its nearest parent."""
        ...


class LineOfFile:
    """A record that is one line of its file. A reader may advance `number` from line to line."""

    __slots__ = ("file", "number")

    def __init__(self, file: str, number: int = 0) -> None:
        self.file, self.number = file, number

    def line(self, _path: Place) -> int:
        """Return the line of the record for all its values."""
        return self.number


def read_text(path: Path, shown_as: str, problems: list[Problem], max_bytes: int | None = None) -> str | None:
    """Return the text of a file without its byte order mark. Return None and add a problem if it is unreadable."""
    require_file(path)
    raw = None
    with reporting_unreadable(shown_as, problems):
        raw = path.read_bytes()
    if raw is None:
        return None
    if raw.startswith(GZIP_MAGIC):
        problems.append(Problem(GZIP_OF_LINES, GZIP_FIX, shown_as))
        return None
    if max_bytes is not None and len(raw) > max_bytes:
        message = f"the file has {len(raw):,} bytes; at most {max_bytes:,} are accepted"
        problems.append(Problem(message, "split it, or convert it to jsonl", shown_as))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if raw[:2] in _UTF16_MARKS else "another encoding"
        line = raw.count(b"\n", 0, error.start) + 1
        problems.append(Problem(f"not UTF-8 text ({encoding}?)", "save the file as UTF-8", shown_as, line))
        return None
    if not text.strip():
        problems.append(Problem("the file is empty", file=shown_as))
        return None
    return text


def problem_at(source: Located, place: Place, message: str, fix: str = "") -> Problem:
    """Return a problem of the value at a place."""
    return Problem(message, fix, source.file, source.line(place), render_path(place))


def parse_record(
    model: type[Record], value: Any, source: Located, place: Place, problems: list[Problem]
) -> Record | None:
    """Return the value as a record of the model. Return None and add all problems if it is invalid."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for details in list_errors(error, model):
            message, fix = explain_error(details, model)
            problems.append(problem_at(source, (*place, *_place_in_data(details, value)), message, fix))
        return None


def explain_refusal(model: type[BaseModel], value: Any) -> str | None:
    """Return the first reason why a value is no valid record of the model, or None."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return _explain_first(error, model, value)[0]
    return None


def make_record(model: type[Record], value: Any, explain: Callable[[str, str], Problem] = Problem) -> Record:
    """Return a value that is in no file as a record of the model. `explain`: makes a problem from a message and a fix.

    Raises:
        InvalidInput: The value is invalid.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(explain(*_explain_first(error, model, value))) from error


def _explain_first(error: ValidationError, model: type[BaseModel], value: Any) -> tuple[str, str]:
    """Return the message and the fix for the first error."""
    details = error.errors(include_url=False)[0]
    place = render_path(_place_in_data(details, value))
    message, fix = explain_error(details, model)
    return (f"{place}: {message}" if place else message), fix


class Accepted:
    """The records that a model accepts, created again for each pass.

    Other records are a loss, reported with the reason of the first. `count` and `losses` belong to the last pass.
    """

    def __init__(self, model: type[BaseModel], make_records: Callable[[], Iterable[_Fields]], kind: str) -> None:
        self._model, self._make_records, self._kind = model, make_records, kind
        self.count = self._all = 0
        self._reason: str | None = None

    def __iter__(self) -> Iterator[_Fields]:
        self.count = self._all = 0
        self._reason = None
        for record in self._make_records():
            self._all += 1
            refusal = explain_refusal(self._model, record)
            if refusal is None:
                self.count += 1
                yield record
            elif self._reason is None:
                self._reason = refusal

    @property
    def losses(self) -> list[str]:
        """Return a line with the number of rejected records; empty if there are none."""
        if self._reason is None:
            return []
        return [f"{self._all - self.count} of {self._all} {self._kind}, which the format rejects ({self._reason})"]

    def list_losses(self) -> list[str]:
        """Return the losses of a new pass."""
        for _ in self:
            pass
        return self.losses


def refuse_empty(count: int, path: Path) -> None:
    """Refuse to write an empty file, which its own reader would reject.

    Raises:
        InvalidInput: there are no records.
    """
    if not count:
        if path.is_file():
            path.unlink()
        raise InvalidInput(Problem("the format can hold none of the samples", "choose another format", path.name))


def _place_in_data(details: ErrorDetails, value: Any) -> Place:
    """Return the place of an error, without pydantic's union branches, which are in no file.

    The place of a missing key is where it should be.
    """
    absent = details["loc"][-1:] if details["type"] == "missing" else ()
    return (*find_place(details["loc"], value), *absent)


class SeenIds(Struct):
    """The ids of one kind in a file. A duplicate is a problem.

    `places`: the place of each id's record, or its line, by the hash of the id, which saves memory for a million ids.
    Python's hash has 64 bits and differs between processes: the probability of a collision among a million ids is 3e-8.
    """

    key: str
    problems: list[Problem]
    places: dict[int, Place | int] = field(default_factory=dict)

    def add(self, name: str, source: Located, place: Place, shown_as: str = "") -> bool:
        """Return whether the record at `place` is the first of its name. `shown_as`: its name in messages."""
        where = source.number if isinstance(source, LineOfFile) else (*place, self.key)
        first = self.places.setdefault(hash(name), where)
        if first is where:
            return True
        line = first if isinstance(first, int) else source.line(first)
        what = shown_as or f"{self.key} '{name}'"
        message = f"{what} is a duplicate of line {line}"
        self.problems.append(problem_at(source, (*place, self.key), message, f"give each a unique {self.key}"))
        return False


def content_id(content: Mapping[str, Any]) -> str:
    """Return an id for a record without one: a hash of its content, the same on every machine.

    `content`: texts, and lists and mappings of them.
    """
    return hashlib.sha256(_encode_canonically(content)).hexdigest()[:_ID_LENGTH]


def _encode_canonically(content: Mapping[str, Any]) -> bytes:
    """Return JSON in ASCII with sorted keys, and with texts in Unicode's form NFC.

    msgspec is faster than the standard library and writes the same, except for missing escapes.
    """
    try:
        encoded = msgspec.json.encode(content, order="sorted")
    except (UnicodeEncodeError, OverflowError):
        return _CANONICAL.encode(content).encode()
    if encoded.isascii() and _DELETE not in encoded:
        return encoded
    return _CANONICAL.encode(msgspec.json.decode(normalize("NFC", encoded.decode()))).encode()


def render_ids(ids: Iterable[str]) -> str:
    """Return ids for a message: the first hundred, separated by commas, and the number of others."""
    every = list(ids)
    rest = len(every) - _IDS_SHOWN
    return ", ".join(every[:_IDS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
