"""JSON Lines read strictly: every bad line is a problem with its number, and none stops the reading of the others."""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from evalspec.errors import Problem
from evalspec.trust import require_file

MAX_LINE_BYTES = 10 * 1_048_576
GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_SHOWN = 20
"""Characters of a number that an error shows."""
_ARRAY = ("the file is a JSON array", "write one object a line (jq -c '.[]' file.json)")


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file for its bytes, unpacked while it is read where its first two say that it is gz.

    Raises:
        OSError: it cannot be opened.
        Refused: it may not be read.
    """
    require_file(path)
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def parse_json(text: str | bytes) -> Any:
    """JSON as the standard has it, in UTF-8: NaN, Infinity, a number that no float holds and a key given twice are
    errors.

    Raises:
        ValueError: not JSON, with what is wrong.
    """
    return _DECODER.decode(text if isinstance(text, str) else text.decode())


def read_json_lines(
    path: Path, shown_as: str, problems: list[Problem], parse_quickly: Callable[[bytes], Any] = lambda _: None
) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, value) for each good line; blank lines are passed over, bad ones go to `problems`.

    A file that cannot be read, or that holds no value at all, is a problem too. A byte order mark and CRLF are fine.
    `parse_quickly` returns the value of a line from its bytes, or None to have the line parsed here.
    """
    values = 0
    try:
        with open_unpacked(path) as stream:
            for number, raw in number_lines(stream):
                if len(raw) <= MAX_LINE_BYTES and (value := parse_quickly(raw)) is not None:
                    values += 1
                    yield number, value
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
                        yield number, parse_json(text)
                        continue
                    except (ValueError, RecursionError) as error:
                        problem = _problem_of_json(error)
                values += 1
                problems.append(Problem(*problem, file=shown_as, line=number))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the gz file breaks off or is damaged: {error}"
        problems.append(Problem(message, "pack or download it again", shown_as))
        return
    except OSError as error:
        fix = {FileNotFoundError: "check the path", IsADirectoryError: "name a .jsonl file inside it"}
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        problems.append(Problem(reason, fix.get(type(error), ""), shown_as))
        return
    if not values:
        problems.append(Problem("the file is empty", "write one JSON object a line", shown_as))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'} is beyond what a number can be")
    return number


FINITE: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": _parse_finite}
"""Options of json.loads: only numbers that JSON has and a float holds. Python makes NaN and 1e999 numbers."""


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{twice}' stands twice")
    return mapping


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_twins, **FINITE)
"""Made once: json.loads would make one for every line."""


def number_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1. Of a line that is longer than MAX_LINE_BYTES the first part is kept, one byte
    longer than that, and the rest read and dropped: so much of a file is in memory, packed or not."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES + 1)
        yield number, line


def _decode(raw: bytes, number: int) -> tuple[str, tuple[str, str] | None]:
    """The text of a line without a byte order mark, or what is wrong with its bytes."""
    if len(raw) > MAX_LINE_BYTES:
        return "", (f"the line is longer than {MAX_LINE_BYTES:,} bytes", "a sample is a question, not a corpus")
    try:
        return raw.removeprefix(_BOM).decode(), None
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "another encoding"
        return "", (f"not UTF-8 text (byte {error.start + 1}; {encoding}?)", "save the file as UTF-8")


def _problem_of_json(error: Exception) -> tuple[str, str]:
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply", ""
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON at column {error.colno}: {error.msg}", ""
    return str(error), ""
