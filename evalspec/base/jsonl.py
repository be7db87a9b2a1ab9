"""Strict reader of JSON Lines. Every invalid line is reported with its number, and reading continues after it."""

import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from evalspec.base.errors import Problem
from evalspec.base.trust import require_file

if TYPE_CHECKING:
    from json import JSONDecoder

MAX_LINE_BYTES = 10 * 1_048_576
GZIP_MAGIC = b"\x1f\x8b"
MAX_DEPTH = 100
"""How deep JSON in a dataset may be nested: far below Python's limit, which every later step has to respect."""

BACKSLASH = ord("\\")
_BOM = b"\xef\xbb\xbf"
_NOT_SPACE = r"[^ \t\r\n]"
HEAD_BYTES = 65_536
"""The size of the beginning of a file from which its format is detected."""
_SHOWN = 20
"""How many characters of a number an error shows."""
_ARRAY = ("the file is a JSON array", "write one object per line (jq -c '.[]' file.json)")


def open_unpacked(path: Path) -> BufferedReader:
    """Open a file for reading bytes. gzip files, detected by their first two bytes, are decompressed while being read.

    Raises:
        OSError: The file cannot be opened.
        Refused: --untrusted does not permit reading it.
    """
    require_file(path)
    if not is_packed(path):
        return path.open("rb")
    import gzip

    return cast(BufferedReader, gzip.open(path, "rb"))


def is_packed(path: Path) -> bool:
    """Return whether a file begins as gzip does. A folder or a pipe does not.

    Raises:
        OSError: The file cannot be opened.
    """
    if path.exists() and not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(2) == GZIP_MAGIC


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked; none if it cannot be read, which its reader will report."""
    require_file(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError:
        return b""
    return _unpack_head(head) if head.startswith(GZIP_MAGIC) else head


def _unpack_head(packed: bytes) -> bytes:
    """Return the beginning of a gzip file, as far as it is intact. The first of its members may be empty."""
    import zlib

    head = b""
    with suppress(zlib.error):
        while packed and len(head) < HEAD_BYTES:
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            head += member.decompress(packed, HEAD_BYTES - len(head))
            packed = member.unused_data
    return head


def _list_damages() -> tuple[type[Exception], ...]:
    import zlib
    from gzip import BadGzipFile

    return EOFError, zlib.error, BadGzipFile


@contextmanager
def reporting_unreadable(shown_as: str, problems: list[Problem]) -> Iterator[None]:
    """Add a problem if a file cannot be opened, read or unpacked within the block, and end the block."""
    try:
        yield
    except _list_damages() as error:
        message = f"the gzip file is truncated or damaged: {error}"
        problems.append(Problem(message, "compress or download it again", shown_as))
    except FileNotFoundError:
        problems.append(Problem("no such file", "check the path", shown_as))
    except OSError as error:
        fix = "name a file inside it" if isinstance(error, IsADirectoryError) else ""
        problems.append(Problem(f"cannot be read: {error.strerror or error}", fix, shown_as))


def read_lines(path: Path, shown_as: str, problems: list[Problem], form: str) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line) of the lines that are not blank, without a byte order mark.

    A file that cannot be read, has no lines, or has a line that is too long, is a problem. `form`: of a line, as a fix.
    """
    is_empty = True
    with reporting_unreadable(shown_as, problems), open_unpacked(path) as stream:
        for number, raw in number_lines(stream):
            if len(raw) > MAX_LINE_BYTES:
                problems.append(Problem(f"the line is longer than {MAX_LINE_BYTES:,} bytes", form, shown_as, number))
                return
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if line and not line.isspace():
                is_empty = False
                yield number, line
        if is_empty:
            problems.append(Problem("the file is empty", form, shown_as))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    Stricter than `json.loads`: NaN, Infinity, numbers beyond a float and duplicate keys are errors.

    Raises:
        ValueError: The text is not valid JSON. The message says what is wrong.
    """
    return _open_decoder().decode(text if isinstance(text, str) else text.decode())


def parse_shallow_json(text: str) -> Any:
    """Return the value of a JSON text like `parse_json`.

    Raises:
        ValueError: The text is not valid JSON. The message says what is wrong.
        RecursionError: It is nested more deeply than MAX_DEPTH.
    """
    value = parse_json(text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(value)
    return value


def parse_json_prefix(text: str, place: int) -> tuple[Any, int]:
    """Return the JSON value that begins at an index of a text, and the index where it ends.

    Raises:
        ValueError: There is none.
        RecursionError: It is nested more deeply than MAX_DEPTH.
    """
    value, end = _open_decoder().raw_decode(text, place)
    _refuse_depth(value)
    return value, end


def parse_json_stream(text: str) -> Iterator[tuple[int, Any]]:
    """Yield (line from 1, value) of JSON values one after the other, each on as many lines as it needs.

    Raises:
        ValueError: the text is not valid JSON. The message says what is wrong.
        RecursionError: a value is nested more deeply than MAX_DEPTH.
    """
    position = line = 0
    not_space = re.compile(_NOT_SPACE)
    while rest := not_space.search(text, position):
        line += text.count("\n", position, rest.start())
        value, end = _open_decoder().raw_decode(text, rest.start())
        _refuse_depth(value)
        yield line + 1, value
        line += text.count("\n", rest.start(), end)
        position = end


def _refuse_depth(value: Any) -> None:
    if is_too_deep(value):
        raise RecursionError(f"it is nested more than {MAX_DEPTH} levels deep")


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value is nested more deeply than MAX_DEPTH, so that it cannot be stored or shown."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for part in level for item in _list_parts(part)]
        if not level:
            return False
    return any(isinstance(part, dict | list) for part in level)


def _list_parts(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def number_lines(stream: BinaryIO, number: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line). `number`: of the line before the first.

    Of a line longer than MAX_LINE_BYTES, only the first MAX_LINE_BYTES + 1 bytes are kept. This bounds the memory
    needed for any file, compressed or not.
    """
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES + 1)
        yield number, line


Read = Callable[[BufferedReader], Iterator[tuple[int, bytes | list[Any]]]]
"""Yields (line number from 1, line) of a file; or, in place of the line, the values of it and of lines after it."""


def read_json_lines(
    path: Path, shown_as: str, problems: list[Problem], read: Read = number_lines
) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, value) for each valid line. Blank lines are skipped, invalid ones go to `problems`.

    A file that cannot be read, or that has no values, is a problem too. A byte order mark and CRLF are accepted.
    `read`: may parse lines that need no check.
    """
    values = 0
    with reporting_unreadable(shown_as, problems), open_unpacked(path) as stream:
        for number, raw in read(stream):
            if isinstance(raw, list):
                values += len(raw)
                yield from enumerate(raw, number)
                continue
            text, problem = _decode(raw, number)
            if problem is None:
                text = text.strip()
                if not text:
                    continue
                if not values and text.startswith("["):
                    problems.append(Problem(*_ARRAY, file=shown_as, line=number))
                    return
                values += 1
                try:
                    yield number, parse_shallow_json(text)
                    continue
                except (ValueError, RecursionError) as error:
                    problem = _problem_of_json(error)
            values += 1
            problems.append(Problem(*problem, file=shown_as, line=number))
        if not values:
            problems.append(Problem("the file is empty", "write one JSON object per line", shown_as))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'} is too large for a number")
    return number


FINITE: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": _parse_finite}
"""Options for json.loads that reject NaN, Infinity and numbers beyond a float, such as 1e999. Python accepts them."""


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key '{twice}'")
    return mapping


@cache
def _open_decoder() -> "JSONDecoder":
    """Return the strict decoder. `json.loads` would create one per line; not every reader of lines needs json."""
    from json import JSONDecoder

    return JSONDecoder(object_pairs_hook=_refuse_twins, **FINITE)


def _decode(raw: bytes, number: int) -> tuple[str, tuple[str, str] | None]:
    """Return the text of a line without a byte order mark, and (message, fix) if its bytes are invalid."""
    if len(raw) > MAX_LINE_BYTES:
        return "", (f"the line is longer than {MAX_LINE_BYTES:,} bytes", "a sample is a question, not a corpus")
    try:
        return raw.removeprefix(_BOM).decode(), None
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "another encoding"
        return "", (f"not UTF-8 text (byte {error.start + 1}; {encoding}?)", "save the file as UTF-8")


def _problem_of_json(error: Exception) -> tuple[str, str]:
    if isinstance(error, RecursionError):
        return f"the JSON is nested too deeply; at most {MAX_DEPTH} levels are accepted", ""
    from json import JSONDecodeError

    if isinstance(error, JSONDecodeError):
        return f"not valid JSON at column {error.colno}: {error.msg}", ""
    return str(error), ""
