"""Read records from any file that has them: JSON Lines, JSON, CSV, TSV, Parquet, Arrow and Hugging Face folders."""

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from evalspec.base.errors import MissingPackage, Problem
from evalspec.base.jsonl import Read, number_lines, parse_json, parse_json_stream, read_head, read_json_lines
from evalspec.base.trust import require_file
from evalspec.inputs.datasets.delimited import list_header, read_delimited
from evalspec.inputs.datasets.json_document import explain_syntax, keys_at, read_json_document
from evalspec.inputs.datasets.located import read_text
from evalspec.inputs.datasets.parquet_table import list_columns, read_table

LIST_KEYS = (
    "examples",
    "goldens",
    "data",
    "queries",
    "tests",
    "records",
    "rows",
    "items",
    "samples",
    "questions",
    "instances",
)
"""Keys under which JSON documents keep their list of records, in the order of preference."""
_PARQUET, _ARROW = b"PAR1", b"ARROW1"


class Container(Enum):
    """What kind of file has the records."""

    LINES = auto()
    """JSON Lines, or JSON objects one after the other."""
    LIST = auto()
    """One JSON list."""
    DOCUMENT = auto()
    """One JSON object with a list under one of its keys."""
    CELLS = auto()
    """CSV or TSV."""
    TABLE = auto()
    """Parquet or Arrow."""
    FOLDER = auto()
    """Shards of tables, as Hugging Face stores them."""
    OTHER = auto()


WITH_HEADER = (Container.CELLS, Container.TABLE, Container.FOLDER)
"""The kinds of files in which all records have the same columns."""


class FileRow(NamedTuple):
    """One record. `line`: its line from 1, or its number in a table. `is_cells`: its values are texts of a CSV."""

    line: int
    value: Any
    is_cells: bool = False


class FormatProbe(Struct, frozen=True):
    """The beginning of a file. `columns`: of its first record; empty if unknown."""

    container: Container
    columns: frozenset[str] = frozenset()


@lru_cache(maxsize=32)
def probe(path: Path, head: bytes) -> FormatProbe:
    """Return the container and the columns of a file from its path and its first bytes. Folders have no `head`."""
    container = detect_container(path, head)
    if container is Container.CELLS:
        return FormatProbe(container, frozenset(list_header(path, head)))
    if container in (Container.TABLE, Container.FOLDER):
        return FormatProbe(container, _peek_table(path, container))
    if container is Container.LIST:
        return FormatProbe(container, frozenset(keys_at(head, (0,))))
    if container is Container.DOCUMENT:
        return FormatProbe(container, frozenset(keys_at(head, (_find_list_key(head), 0))))
    return FormatProbe(container, frozenset(keys_at(head)) if container is Container.LINES else frozenset())


def _peek_table(path: Path, container: Container) -> frozenset[str]:
    files = [path] if container is Container.TABLE else next(iter(find_splits(path).values()))
    try:
        return frozenset(list_columns(files[0]))
    except MissingPackage:
        return frozenset()


def detect_container(path: Path, head: bytes) -> Container:
    """Return the kind of a file from its path and its first bytes."""
    if path.is_dir():
        return Container.FOLDER if find_splits(path) else Container.OTHER
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if head.startswith((_PARQUET, _ARROW)) or suffix in (".parquet", ".arrow"):
        return Container.TABLE
    text = head.decode("utf-8-sig", "ignore").lstrip()
    if text.startswith("["):
        return Container.LIST
    if text.startswith("{"):
        return Container.DOCUMENT if _find_list_key(head) else Container.LINES
    if suffix in (".yaml", ".yml"):
        return Container.OTHER
    return Container.CELLS if suffix in (".csv", ".tsv") or list_header(path, head) else Container.OTHER


def _find_list_key(head: bytes) -> str:
    """Return the key of the list of records in a JSON document, empty if there is none."""
    keys = keys_at(head)
    return next((key for key in LIST_KEYS if key in keys and keys_at(head, (key, 0))), "")


def find_object_keys(path: Path, head: bytes, column: str) -> set[str]:
    """Return the keys of an object in a column of the first JSON record; empty if its value is no object."""
    container = probe(path, head).container
    if container is Container.LINES:
        return keys_at(head, (column,))
    return keys_at(head, (0, column)) if container is Container.LIST else set()


def read_rows(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Iterator[FileRow]:
    """Yield the records of a file, of any container. Problems have the line.

    Raises:
        MissingPackage: the file is Parquet or Arrow, and pyarrow is not installed.
    """
    require_file(path)
    head = read_head(path)
    container = detect_container(path, head)
    if container in (Container.LINES, Container.LIST, Container.DOCUMENT):
        key = _find_list_key(head) if container is Container.DOCUMENT else ""
        yield from (FileRow(line, value) for line, value in _read_json(path, shown_as, container, key, problems))
    elif container is Container.TABLE:
        yield from _read_tables([path], shown_as, problems)
    elif container is Container.FOLDER:
        yield from _read_tables(choose_files(path, shown_as, problems, warnings), shown_as, problems)
    else:
        yield from (FileRow(line, value, True) for line, value in read_delimited(path, shown_as, problems))


def read_native_lines(
    path: Path, shown_as: str, problems: list[Problem], read: Read = number_lines
) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) of JSON Lines, or of a JSON list, compact or pretty-printed."""
    require_file(path)
    head = read_head(path)
    if _is_one_object_per_line(head):
        return read_json_lines(path, shown_as, problems, read)
    container = detect_container(Path(path.name), head)
    if container is Container.DOCUMENT:
        container = Container.LINES
    return _read_json(path, shown_as, container, "", problems)


def _is_one_object_per_line(head: bytes) -> bool:
    """Return whether the first line that is not blank is a whole JSON object, or something that is not JSON at all."""
    text = head.decode("utf-8-sig", "ignore").lstrip()
    first, end, _ = text.partition("\n")
    if text.startswith("["):
        return False
    if not text.startswith("{") or not end:
        return True
    try:
        parse_json(first)
    except (ValueError, RecursionError):
        return not _opens_an_object(first)
    return True


def _opens_an_object(line: str) -> bool:
    """Return whether a line may be the beginning of an object that continues on the next line."""
    rest = line.strip()
    return rest == "{" or rest.endswith((",", "{", "["))


def _read_json(
    path: Path, shown_as: str, container: Container, key: str, problems: list[Problem]
) -> Iterator[tuple[int, Any]]:
    if container is Container.LINES:
        if _is_one_object_per_line(read_head(path)):
            yield from read_json_lines(path, shown_as, problems)
        else:
            yield from _read_stream(path, shown_as, problems)
        return
    document = read_json_document(path, shown_as, problems)
    if document is None:
        return
    records = document.data[key] if key else document.data
    if not records:
        problems.append(Problem("the list is empty", "write at least one record", shown_as, 1, key))
    for index, value in enumerate(records):
        yield document.line((key, index) if key else (index,)), value


def _read_stream(path: Path, shown_as: str, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    text = read_text(path, shown_as, problems)
    if text is None:
        return
    try:
        yield from parse_json_stream(text)
    except (ValueError, RecursionError) as error:
        problems.append(explain_syntax(error, shown_as))


def _read_tables(files: Collection[Path], shown_as: str, problems: list[Problem]) -> Iterator[FileRow]:
    number = 0
    for file in files:
        for row in read_table(file, shown_as, (), problems) or ():
            number += 1
            yield FileRow(number, row)


_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}")
_PREFERRED = "test"
_SUFFIXES = (".arrow", ".parquet")


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split of a folder, in order; empty if there are none.

    The files are in the folder itself, in `data`, or in a folder per split.
    """
    splits: dict[str, list[Path]] = {}
    for place in (folder, folder / "data"):
        for file in _list_tables(place):
            splits.setdefault(_name_split(file), []).append(file)
    if splits or not (folder / "dataset_dict.json").is_file():
        return splits
    inner = {place.name: list(_list_tables(place)) for place in sorted(folder.iterdir()) if place.is_dir()}
    return {name: files for name, files in inner.items() if files}


def _list_tables(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (file for file in sorted(folder.iterdir()) if file.suffix in _SUFFIXES and file.is_file())


def _name_split(file: Path) -> str:
    sharded = _SHARD.fullmatch(file.stem)
    return sharded[1] if sharded else file.stem


def choose_files(folder: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> list[Path]:
    """Return the files of the only split, or of `test` among several, with a warning. Otherwise add a problem."""
    splits = find_splits(folder)
    if len(splits) == 1:
        return next(iter(splits.values()))
    names = ", ".join(splits)
    if _PREFERRED in splits:
        message = f"the folder has the splits {names}; evalspec reads {_PREFERRED}"
        warnings.append(Problem(message, "to read another one, set path to its file or folder", shown_as))
        return splits[_PREFERRED]
    message = f"the folder has several splits: {names}" if splits else "the folder has no Arrow or Parquet files"
    problems.append(Problem(message, "set path to the file or folder of one split", shown_as))
    return []
