"""Encode and decode the lines of `samples.jsonl` and `inputs.jsonl`: the records of `model.log`, as JSON objects.

Every line ends with `"number"`, counted from 1, and `"crc"`, the CRC-32 of everything before it. They reveal lines that
were changed, truncated or removed.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from msgspec import MsgspecError, Struct, convert
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.base.json_text import are_plain, fields_of
from evalspec.base.jsonl import FINITE
from evalspec.model.base import built
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.log import Change, StoredRecord
from evalspec.runs.store.files import store_errors

NOT_A_RECORD = "not a record of a run"


def describe_repair(run: str = "") -> str:
    """Return the fix for a damaged run."""
    named = f" {run}" if run else ""
    return f"`evalspec runs verify{named}` lists all damage; `evalspec evaluate --resume{named}` repeats what was lost"


REPAIR = describe_repair()
_TAIL = re.compile(rb',"number":([1-9][0-9]{0,14}),"crc":"([0-9a-f]{8})"\}\n\Z')
_TAIL_FORM = b',"number":%d,"crc":"%08x"}\n'
_DIGEST = re.compile("[0-9a-f]{8,64}")
_CRC_LENGTH = len('00000000"}\n')
_LONGEST_TAIL = 48
_encode = Encoder().encode
_AS_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=fields_of)

Kind = TypeVar("Kind")


def change_fingerprint(fingerprint: Fingerprint, change: Change) -> Fingerprint:
    """Return a fingerprint with its texts redacted.

    Digests are unchanged: they reveal no secrets, and runs are compared by them.
    """
    changed: Fingerprint = _change_texts(fingerprint, change)
    return changed


def _change_texts(value: Any, change: Change) -> Any:
    if isinstance(value, Enum):  # a word of evalspec, even if a secret is the same word
        return value
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return replace(value, **_change_texts(fields, change))
    if isinstance(value, str):
        label, mark, digest = value.rpartition("#")
        return f"{change(label)}{mark}{digest}" if mark and _DIGEST.fullmatch(digest) else change(value)
    if isinstance(value, Mapping):
        return {key: item if _is_digest(key) else _change_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_change_texts(item, change) for item in value)
    return value


def _is_digest(key: str) -> bool:
    return key.casefold().endswith("sha256") or key in ("references", "fields")


def encode_record(record: StoredRecord, number: int) -> bytes:
    """Return one line of valid UTF-8 JSON with its newline.

    A line is plain ASCII if it has a lone surrogate, or an integer of more than 64 bits.

    `number`: line number in the file, from 1.

    Raises:
        StoreError: The record has a value that JSON cannot represent (NaN, an object), or is nested too deeply.
    """
    try:
        text = _encode_plain(record) or _AS_ASCII.encode(record).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{_name(record)} cannot be stored as JSON: {error}") from error
    return _seal(text[:-1], number)


def _encode_plain(record: StoredRecord) -> bytes | None:
    """Return a record as JSON, or None for the few that only the standard library encodes unchanged, or refuses."""
    try:
        return _encode(record) if are_plain(record.doubtful) else None
    except (TypeError, UnicodeEncodeError):  # a subclass of a plain type, or a lone surrogate
        return None


def _name(record: StoredRecord) -> str:
    names = [getattr(record, name) for name in ("dataset", "id") if hasattr(record, name)]
    return f"the {type(record).__name__} of {' / '.join(names)}"


def renumber(line: bytes, number: int) -> bytes:
    """Return a line with another number and a new checksum."""
    return _seal(_TAIL.sub(b"}\n", line).removesuffix(b"}\n"), number)


def _seal(text: bytes, number: int) -> bytes:
    """Return a line. `text`: the encoded record without its closing brace."""
    checked = b'%b,"number":%d,"crc":"' % (text, number)
    return b'%b%08x"}\n' % (checked, zlib.crc32(checked))


class LogLine(NamedTuple):
    """A line of a stored file. `place`: its byte offset. `at`: its line number, from 1.

    `damage`: the problem of this line, or that lines before it are missing; None if there is neither. `is_intact`:
    whether the line itself is undamaged.
    """

    place: int
    at: int
    text: bytes
    is_intact: bool
    damage: str | None


def read_lines(path: Path) -> Iterator[LogLine]:
    """Return the lines of a stored file with their damage. A torn line after the last newline is ignored.

    Raises:
        StoreError: The file cannot be read.
    """
    place, expected = 0, 1
    with store_errors(path), path.open("rb") as lines:
        for at, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            if line.endswith(_TAIL_FORM % (expected, zlib.crc32(line[:-_CRC_LENGTH]))):  # twice as fast as parsing
                yield LogLine(place, at, line, True, None)
            elif (number := parse_number(line)) is None:
                yield LogLine(place, at, line, False, f"{path}:{at}: damaged: the checksum does not match")
            else:
                missing = f"{path}:{at}: expected record {expected}, found record {number}"
                yield LogLine(place, at, line, True, missing)
                expected = number
            expected += 1
            place += len(line)


def parse_number(line: bytes) -> int | None:
    """Return the number of a line, or None if the line is damaged."""
    found = _TAIL.search(line[-_LONGEST_TAIL:])
    if found is None or zlib.crc32(line[:-_CRC_LENGTH]) != int(found[2], 16):
        return None
    return int(found[1])


def read_log(path: Path, kind: type[Kind]) -> Iterator[tuple[LogLine, Kind]]:
    """Return the lines of a file in order, each with its record. `kind`: the type of the records.

    Raises:
        StoreError: The file cannot be read, or a line is damaged or missing. The message names the line.
    """
    for line in read_lines(path):
        if line.damage:
            raise StoreError(f"{line.damage}. {REPAIR}")
        yield line, decode_line(line.text, kind, f"{path}:{line.at}")


def decode_at(path: Path, file: BinaryIO, place: int, kind: type[Kind]) -> Kind:
    """Return the record at a byte offset of an open file. `path`: of the file, for errors.

    Raises:
        StoreError: The line is damaged or is not a record.
    """
    file.seek(place)
    line, shown = file.readline(), f"{path}, byte {place}"
    if parse_number(line) is None:
        raise StoreError(f"{shown}: damaged: the checksum does not match. {REPAIR}")
    return decode_line(line, kind, shown)


def decode_line(line: bytes, kind: type[Kind], place: str) -> Kind:
    """Return the record of an intact line. `place`: the location for the error message.

    Raises:
        StoreError: The line is not a record.
    """
    try:
        found: Kind = _decode(line, kind)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise StoreError(f"{place}: {NOT_A_RECORD}: {error}. {REPAIR}") from error
    return found


def _decode(line: bytes, kind: Any) -> Any:
    try:
        return _decoder(kind).decode(line)
    except MsgspecError:
        if b"\\ud" not in line.lower():
            raise
        return convert(json.loads(line, **FINITE), built(kind))  # msgspec reads no lone surrogate


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(built(kind))
