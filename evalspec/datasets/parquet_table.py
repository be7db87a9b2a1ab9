"""Parquet files as rows of plain values that JSON can hold, and back; pyarrow is imported when one is read or written.

A null in a struct or in a column that nobody asked for means "not there": Parquet has one schema for all rows, so
whatever some rows lack stands in them as null.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from evalspec.errors import MissingPackage, Problem
from evalspec.trust import require_file

_PANDAS_INDEX = "__index_level_"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column that must be there. `depths`: how many lists may stand around its texts (0 = text itself)."""

    name: str
    depths: tuple[int, ...] = (0,)


def read_table(
    path: Path, shown_as: str, columns: Sequence[TextColumn], needed_by: str, problems: list[Problem]
) -> list[dict[str, Any]] | None:
    """Every row of a file as {column: value}; None where the file or a column is not what it must be.

    Times are ISO text, numbers that JSON has not are None. `needed_by`: what to name where pyarrow is missing.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow, _ = _import(needed_by)
    try:
        table = _open(path, shown_as, needed_by, problems)
        return None if table is None else _read_rows(table, shown_as, columns, problems)
    except UnicodeDecodeError as error:
        shown = error.object[:40].decode(errors="backslashreplace")
        problems.append(Problem(f"'{shown}' is not UTF-8 text", "write names and texts as UTF-8", shown_as))
    except (ValueError, OverflowError, arrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        problems.append(Problem(f"a value cannot be read: {reason}", "write it as text", shown_as))
    return None


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


def _open(path: Path, shown_as: str, needed_by: str, problems: list[Problem]) -> Any:
    require_file(path)
    arrow, parquet = _import(needed_by)
    try:
        with parquet.ParquetFile(path) as file:
            return file.read()
    except FileNotFoundError:
        problems.append(Problem("no such file", "check the path", shown_as))
    except (OSError, arrow.ArrowException) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        problems.append(Problem(f"not a whole Parquet file: {reason}", "write or copy it again", shown_as))
    return None


def _import(needed_by: str) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingPackage(needed_by, "pyarrow", "parquet") from error


def _column_problems(table: Any, columns: Iterable[TextColumn], shown_as: str) -> Iterable[Problem]:
    names: list[str] = table.column_names
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("there are two columns of this name", "drop one", shown_as, field=name)
    for column in columns:
        if column.name not in names:
            yield Problem(
                "the column is missing", f"the file has {', '.join(names) or 'none'}", shown_as, None, column.name
            )
        elif names.count(column.name) == 1:
            yield from _type_problems(table.schema.field(column.name).type, column, shown_as)


def _type_problems(found: Any, column: TextColumn, shown_as: str) -> Iterable[Problem]:
    """A column of nulls, or of lists that are all empty, has no type of its own and passes."""
    types = import_module("pyarrow").types
    depth, leaf = 0, found
    while types.is_list(leaf) or types.is_large_list(leaf) or types.is_fixed_size_list(leaf):
        depth, leaf = depth + 1, leaf.value_type
    if types.is_dictionary(leaf):
        leaf = leaf.value_type
    if types.is_null(leaf) and depth <= max(column.depths):
        return
    if depth not in column.depths:
        allowed = " or ".join("list of " * depth + "text" for depth in column.depths)
        yield Problem(f"the column holds {found}", f"it should hold {allowed}", shown_as, field=column.name)
    elif not (types.is_string(leaf) or types.is_large_string(leaf) or types.is_string_view(leaf)):
        fix = "ids and texts are text in every file; write numbers as text, for example with .astype(str)"
        yield Problem(f"the column holds {leaf}, not text", fix, shown_as, field=column.name)


def _whole_microseconds(column: Any) -> Any:
    """The same cells without nanoseconds, for which Python has no type."""
    arrow = import_module("pyarrow")

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
    """A value of JSON without the keys that are null, which Parquet does not tell from keys that are absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def can_hold(values: Sequence[Any], needed_by: str) -> bool:
    """Whether values of JSON come back unchanged from one column: those of different types in one place do not."""
    arrow, parquet = _import(needed_by)
    sink = arrow.BufferOutputStream()
    try:
        parquet.write_table(arrow.table({"values": arrow.array(values)}), sink)
    except (arrow.ArrowException, OverflowError):
        return False
    with parquet.ParquetFile(arrow.BufferReader(sink.getvalue())) as file:
        return [_plain(value) for value in file.read().column(0).to_pylist()] == list(values)


def write_table(columns: Mapping[str, Sequence[Any]], texts: Iterable[TextColumn], path: Path, needed_by: str) -> None:
    """Write columns of equal length; those in `texts` with the type that they say, so that empty ones have it too.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    arrow, parquet = _import(needed_by)
    types = {}
    for column in texts:
        types[column.name] = arrow.string()
        for _ in range(max(column.depths)):
            types[column.name] = arrow.list_(types[column.name])
    table = arrow.table({name: arrow.array(values, types.get(name)) for name, values in columns.items()})
    parquet.write_table(table, path)
