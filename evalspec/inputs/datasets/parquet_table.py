"""Read Parquet and Arrow files as rows of JSON values, and write Parquet. pyarrow is imported on first use.

Parquet has one schema for all rows, so keys that some rows lack are null there. A null in a struct, or in a column that
was not requested, therefore means "absent".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import MissingPackage, Problem
from evalspec.base.json_text import change_values
from evalspec.base.trust import require_file

_ARROW_SUFFIX = ".arrow"
_PANDAS_INDEX = "__index_level_"
_PART = 10_000
"""Rows in memory at a time while writing."""


class TextColumn(Struct, frozen=True):
    """A required column. `depths`: allowed levels of lists around its texts (0 = text itself)."""

    name: str
    depths: tuple[int, ...] = (0,)


def read_table(
    path: Path, shown_as: str, columns: Sequence[TextColumn], problems: list[Problem]
) -> list[dict[str, Any]] | None:
    """Return the rows of a file as {column: value}, or None if the file or a column is invalid.

    Times become ISO text, and numbers that JSON lacks become None.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow = _load_pyarrow()
    try:
        table = _open(path, shown_as, problems)
        return None if table is None else _read_rows(table, shown_as, columns, problems)
    except UnicodeDecodeError as error:
        shown = error.object[:40].decode(errors="backslashreplace")
        problems.append(Problem(f"'{shown}' is not UTF-8 text", "write names and texts as UTF-8", shown_as))
    except (ValueError, OverflowError, arrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        problems.append(Problem(f"cannot read a value: {reason}", "write it as text", shown_as))
    return None


def list_columns(path: Path) -> list[str]:
    """Return the names of the columns; empty if the file cannot be read, which `read_table` reports.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow = _load_pyarrow()
    require_file(path)
    try:
        if path.suffix == _ARROW_SUFFIX:
            return list(_open_arrow(path).schema.names)
        return list(arrow.parquet.read_schema(path).names)
    except (OSError, ValueError, arrow.ArrowException):
        return []


def _read_rows(
    table: Any, shown_as: str, columns: Sequence[TextColumn], problems: list[Problem]
) -> list[dict[str, Any]] | None:
    found = list(_column_problems(table, columns, shown_as))
    problems.extend(found)
    if found:
        return None
    wanted = {column.name for column in columns}
    names = [name for name in table.column_names if not name.startswith(_PANDAS_INDEX)]
    cells = {name: _whole_microseconds(table.column(name)).to_pylist() for name in names}
    rows = (dict(zip(names, row, strict=True)) for row in zip(*cells.values(), strict=True))
    return [{key: _plain(row[key]) for key in names if key in wanted or row[key] is not None} for row in rows]


def _open(path: Path, shown_as: str, problems: list[Problem]) -> Any:
    require_file(path)
    arrow = _load_pyarrow()
    try:
        if path.suffix == _ARROW_SUFFIX:
            return _open_arrow(path).read_all()
        with arrow.parquet.ParquetFile(path) as file:
            return file.read()
    except FileNotFoundError:
        problems.append(Problem("no such file", "check the path", shown_as))
    except (OSError, arrow.ArrowException) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        kind = "Arrow" if path.suffix == _ARROW_SUFFIX else "Parquet"
        problems.append(Problem(f"invalid or incomplete {kind} file: {reason}", "write or copy it again", shown_as))
    return None


def _open_arrow(path: Path) -> Any:
    """Return the reader of an Arrow file, which is a stream (as Hugging Face writes it) or has an index."""
    arrow = _load_pyarrow()
    data = arrow.OSFile(str(path)).read()
    try:
        return arrow.ipc.open_stream(data)
    except arrow.ArrowInvalid:
        return arrow.ipc.open_file(data)


def _load_pyarrow() -> Any:
    """Return pyarrow, with its parts for Parquet and Arrow files."""
    try:
        for part in ("parquet", "ipc", "types"):
            import_module(f"pyarrow.{part}")
    except ModuleNotFoundError as error:
        raise MissingPackage("a file of Parquet or Arrow", "pyarrow", "parquet") from error
    return import_module("pyarrow")


def _column_problems(table: Any, columns: Iterable[TextColumn], shown_as: str) -> Iterable[Problem]:
    names: list[str] = table.column_names
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("duplicate column", "remove one", shown_as, field=name)
    for column in columns:
        if column.name not in names:
            yield Problem(
                "the column is missing", f"the file has {', '.join(names) or 'none'}", shown_as, None, column.name
            )
        elif names.count(column.name) == 1:
            yield from _type_problems(table.schema.field(column.name).type, column, shown_as)


def _type_problems(found: Any, column: TextColumn, shown_as: str) -> Iterable[Problem]:
    """Yield the problems of a column's type. A column of nulls or empty lists has no type and is accepted."""
    types = _load_pyarrow().types
    depth, leaf = 0, found
    while types.is_list(leaf) or types.is_large_list(leaf) or types.is_fixed_size_list(leaf):
        depth, leaf = depth + 1, leaf.value_type
    if types.is_dictionary(leaf):
        leaf = leaf.value_type
    if types.is_null(leaf) and depth <= max(column.depths):
        return
    if depth not in column.depths:
        allowed = " or ".join("list of " * depth + "text" for depth in column.depths)
        yield Problem(f"the column has {found}", f"it should have {allowed}", shown_as, field=column.name)
    elif not (types.is_string(leaf) or types.is_large_string(leaf) or types.is_string_view(leaf)):
        fix = "ids and texts are text in every file; write numbers as text, for example with .astype(str)"
        yield Problem(f"the column has {leaf}, not text", fix, shown_as, field=column.name)


def _whole_microseconds(column: Any) -> Any:
    """Return the cells without nanoseconds, for which Python has no type."""
    arrow = _load_pyarrow()

    def coarse(found: Any) -> Any:
        if arrow.types.is_timestamp(found) and found.unit == "ns":
            return arrow.timestamp("us", found.tz)
        if arrow.types.is_struct(found):
            return arrow.struct([field.with_type(coarse(field.type)) for field in found])
        if arrow.types.is_list(found):
            return arrow.list_(found.value_field.with_type(coarse(found.value_type)))
        return found

    wanted = coarse(column.type)
    return column if wanted == column.type else column.cast(wanted, safe=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without null keys, which Parquet cannot distinguish from absent keys."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def infer_types(read_rows: Callable[[], Iterable[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the keys whose values survive a round trip through one column, each with the type of that column.

    Values of different types in one place do not. `read_rows`: starts at the first row on each call.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow = _load_pyarrow()
    types: dict[str, Any] = {}
    refused: set[str] = set()

    def unify(key: str, values: list[Any]) -> None:
        found = arrow.schema([(key, arrow.array(values).type)])
        known = arrow.schema([(key, types.get(key, arrow.null()))])
        types[key] = arrow.unify_schemas([known, found], promote_options="permissive").field(key).type

    def compare(key: str, values: list[Any]) -> None:
        sink = arrow.BufferOutputStream()
        arrow.parquet.write_table(arrow.table({key: arrow.array(values, types[key])}), sink)
        with arrow.parquet.ParquetFile(arrow.BufferReader(sink.getvalue())) as file:
            read = [_plain(value) for value in file.read().column(0).to_pylist()]
        if read != values or _mark_truths(read) != _mark_truths(values):
            refused.add(key)

    for step in (unify, compare):
        for part in _split(read_rows()):
            for key in dict.fromkeys(key for row in part for key in row if key not in refused):
                try:
                    step(key, [row.get(key) for row in part])
                except (arrow.ArrowException, OverflowError):
                    refused.add(key)
    return {key: found for key, found in types.items() if key not in refused}


def find_times(key: str, rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return the type of the times under a key, None if some value is not a time that a reader would spell the same."""
    arrow = _load_pyarrow()
    found: list[datetime] = []
    for text in (row[key] for row in rows if row.get(key) is not None):
        try:
            value = datetime.fromisoformat(text)
        except (TypeError, ValueError):
            return None
        if value.isoformat() != text:
            return None
        found.append(value)
    zones = {str(value.tzinfo) if value.tzinfo else None for value in found}
    if not found or len(zones) > 1:
        return None
    return arrow.timestamp("us", zones.pop())


def make_struct(types: Mapping[str, Any]) -> Any:
    """Return the type of a mapping with these keys, None for no keys."""
    arrow = _load_pyarrow()
    fields = [(key, arrow.null() if found is None else found) for key, found in types.items()]
    return arrow.struct(fields) if fields else None


def _mark_truths(value: Any) -> Any:
    """Return the value with true and false marked, because they equal 1 and 0 in Python."""
    return change_values(value, lambda one: ("truth", one) if isinstance(one, bool) else one)


def write_rows(
    rows: Iterable[Mapping[str, Any]], texts: Iterable[TextColumn], types: Mapping[str, Any], path: Path
) -> int:
    """Write rows and return their number. Rows may lack keys of `types`, and have no others besides `texts`.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow = _load_pyarrow()
    fields = {}
    for column in texts:
        fields[column.name] = arrow.string()
        for _ in range(max(column.depths)):
            fields[column.name] = arrow.list_(fields[column.name])
    fields |= {name: arrow.null() if found is None else found for name, found in types.items()}
    schema = arrow.schema(list(fields.items()))
    count = 0
    with arrow.parquet.ParquetWriter(path, schema) as file:
        for part in _split(rows):
            columns = [arrow.array([row.get(name) for row in part], schema.field(name).type) for name in schema.names]
            file.write_table(arrow.table(columns, schema))
            count += len(part)
    return count


def _split(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    rest = iter(rows)
    while part := list(islice(rest, _PART)):
        yield part
