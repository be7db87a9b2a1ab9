"""Labels as CSV (RFC 4180) that spreadsheets can edit. Every text comes back exactly as it was.

A text that a spreadsheet would evaluate gets an apostrophe, as do texts that begin with one. Texts with characters
that control a terminal, and texts that begin with a quotation mark, are JSON strings.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import visible
from evalspec.base.json_text import fields_of
from evalspec.base.registry import near_miss
from evalspec.curation.labels.records import KEYS
from evalspec.inputs.datasets.located import read_text
from evalspec.model.corrections import Draw
from evalspec.model.labels import Label
from evalspec.reports.attempt_lines import FORMULA

COLUMNS = tuple(KEYS.values())
_REQUIRED = tuple(KEYS[name] for name in ("run", "dataset", "sample", "verdict", "labeller"))
_APOSTROPHE, _QUOTE = "'", '"'
_TRUTHS = {"true": True, "false": False}
_WHOLE, _NUMBERS, _TRUTH, _JSON = "a whole number", "a number", "true or false", "JSON"
_KINDS = {
    KEYS["attempt"]: _WHOLE,
    KEYS["value"]: _NUMBERS,
    KEYS["shown_value"]: _NUMBERS,
    KEYS["is_informed"]: _TRUTH,
    KEYS["is_blind"]: _TRUTH,
    KEYS["draw"]: _JSON,
    KEYS["answers"]: _JSON,
    KEYS["metric_identity"]: _JSON,
}
"""The kinds of columns that are not texts."""


def render_label_table(labels: Iterable[Label]) -> bytes:
    """Return labels as a table with its header. Unknown values are empty cells."""
    stream = StringIO(newline="")
    rows = csv.writer(stream)
    rows.writerow(COLUMNS)
    rows.writerows([_write_cell(key, value) for key, value in fields_of(label).items()] for label in labels)
    return stream.getvalue().encode()


def read_label_table(path: Path, shown_as: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, label as a JSON object) for each row; empty cells are left out.

    What cannot be read is added to `problems`.
    """
    text = read_text(path, shown_as, problems)
    if text is None:
        return
    rows = csv.reader(StringIO(text, newline=""), strict=True)
    line = 1
    try:
        header = next(rows)
        if not _check_header(header, shown_as, problems):
            return
        line = rows.line_num + 1
        for row in rows:
            if row:
                known = len(problems)
                label = dict(_read_row(header, row, shown_as, line, problems))
                if len(problems) == known:
                    yield line, label
            line = rows.line_num + 1
    except csv.Error as error:
        problems.append(Problem(f"not valid CSV: {error}", "save it as CSV with commas", shown_as, line))


def _check_header(header: Sequence[str], shown_as: str, problems: list[Problem]) -> bool:
    found = [
        Problem("unknown column", near_miss(name, COLUMNS), shown_as, 1, name) for name in header if name not in COLUMNS
    ]
    found += [
        Problem("the column is missing", "add it; the columns may be in any order", shown_as, 1, name)
        for name in _REQUIRED
        if name not in header
    ]
    found += [
        Problem("the column is duplicated", "remove one", shown_as, 1, name)
        for name in dict.fromkeys(header)
        if header.count(name) > 1
    ]
    if len(header) == 1 and ";" in header[0]:
        found = [Problem("the columns are separated by semicolons", "save it as CSV with commas", shown_as, 1)]
    problems += found
    return not found


def _read_row(
    header: Sequence[str], row: Sequence[str], shown_as: str, line: int, problems: list[Problem]
) -> Iterator[tuple[str, Any]]:
    if len(row) != len(header):
        message = f"the row has {len(row)} cells, and the header {len(header)}"
        problems.append(Problem(message, "quote texts with commas", shown_as, line))
        return
    for key, cell in zip(header, row, strict=True):
        if cell:
            try:
                yield key, _read_cell(key, cell)
            except (ValueError, RecursionError):
                expected = _KINDS.get(key, "a JSON string, because it begins with a quotation mark")
                problems.append(Problem(f"expected {expected}", "", shown_as, line, key))


def _write_cell(key: str, value: Any) -> str:
    if value is None or value in ({}, (), Draw()):
        return ""
    kind = _KINDS.get(key)
    if kind is _TRUTH:
        return "true" if value else "false"
    if kind in (_WHOLE, _NUMBERS):
        return repr(value)
    return json.dumps(to_builtins(value)) if kind is _JSON else _quote(value)


def _quote(text: str) -> str:
    if visible(text) != text or text.startswith(_QUOTE):
        return json.dumps(text)
    return f"{_APOSTROPHE}{text}" if text.startswith((*FORMULA, _APOSTROPHE)) else text


def _read_cell(key: str, cell: str) -> Any:
    kind = _KINDS.get(key)
    if kind is _WHOLE:
        return int(cell)
    if kind is _NUMBERS:
        return float(cell)
    if kind is _TRUTH:
        if cell.lower() not in _TRUTHS:
            raise ValueError(cell)
        return _TRUTHS[cell.lower()]
    return json.loads(cell) if kind is _JSON or cell.startswith(_QUOTE) else _unquote(cell)


def _unquote(cell: str) -> str:
    is_quoted = cell.startswith(_APOSTROPHE) and cell[1:].startswith((*FORMULA, _APOSTROPHE))
    return cell[1:] if is_quoted else cell
