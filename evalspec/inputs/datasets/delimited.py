"""Read and write CSV and TSV, with the line of every row."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.base.jsonl import MAX_LINE_BYTES, open_unpacked, reporting_unreadable

_DELIMITERS = (",", "\t", ";")
_TAB = "\t"
_INDEX = "index"


def list_header(path: Path, head: bytes) -> list[str]:
    """Return the names in the first row; empty if it has fewer than two, or is no header."""
    first = head.decode("utf-8-sig", "ignore").lstrip("\r\n")
    try:
        names = next(csv.reader(io.StringIO(first, newline=""), delimiter=_find_delimiter(path, first)), [])
    except csv.Error:
        return []
    return _clean_header(names) if len(names) > 1 or path.suffix in (".csv", ".tsv") else []


def _clean_header(names: Sequence[str]) -> list[str]:
    """Return the names of the columns. A nameless first one is `index`, because pandas writes its index so."""
    clean = [name.strip() for name in names]
    return [_INDEX, *clean[1:]] if len(clean) > 1 and not clean[0] and _INDEX not in clean else clean


def _find_delimiter(path: Path, text: str) -> str:
    """Return the delimiter: a tab for .tsv, otherwise the one that occurs most often in the first line."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        return _TAB
    first = text.split("\n", 1)[0]
    return max(_DELIMITERS, key=first.count)


def read_delimited(path: Path, shown_as: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, cells by column) of each row. Empty cells are left out, because they are unknown.

    A row with too many or too few cells is a problem, and so are two columns of one name.
    """
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        with (
            reporting_unreadable(shown_as, problems),
            open_unpacked(path) as raw,
            io.TextIOWrapper(raw, "utf-8-sig", newline="") as text,
        ):
            first = text.readline()
            delimiter = _find_delimiter(path, first)
            text.seek(0)
            yield from _read_cells(csv.reader(text, delimiter=delimiter, strict=True), shown_as, problems)
    except UnicodeDecodeError:
        problems.append(Problem("not UTF-8 text", "save the file as UTF-8", shown_as))


def _read_cells(reader: Any, shown_as: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, str]]]:
    names: list[str] = []
    start = 1
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1
            if not any(cells):
                continue
            if not names:
                names = _clean_header(cells)
                twice = sorted({name for name in names if names.count(name) > 1})
                if twice:
                    problems.append(Problem("duplicate column", "remove one", shown_as, line, twice[0] or "(no name)"))
                    return
                continue
            if len(cells) != len(names):
                message = f"the row has {len(cells)} cells, the header has {len(names)}"
                problems.append(Problem(message, "quote cells that contain the delimiter", shown_as, line))
                continue
            yield line, {name: cell for name, cell in zip(names, cells, strict=True) if cell}
    except csv.Error as error:
        problems.append(Problem(f"not valid CSV: {error}", "quote cells that contain quotes", shown_as, start))
    if not names:
        problems.append(Problem("the file is empty", "write a header and one row per sample", shown_as))


def write_delimited(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], path: Path) -> None:
    """Write a header and rows. Values other than text become JSON; absent ones become empty cells."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=_TAB if path.suffix == ".tsv" else ",")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([render_cell(row.get(column)) for column in columns])


def render_cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
