"""Spans that Phoenix's client exported: a table, or records in JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.inputs.datasets.base import DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.filters import find_value
from evalspec.inputs.datasets.record_form import has_columns
from evalspec.model import Sample

_PREFIX = "attributes."


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    from evalspec.curation.production import read_rows_of_spans

    return read_rows_of_spans(lambda row: [_to_span(row)], source, notes)


def _to_span(row: Mapping[str, Any]) -> dict[str, Any]:
    given = {key.removeprefix(_PREFIX): value for key, value in row.items() if key.startswith(_PREFIX)}
    attributes = dict(_flatten({**given, **(row.get("attributes") or {})}))
    ids = {name: find_value(row, f"context.{name}") for name in ("trace_id", "span_id")}
    failed = row.get("status_message") or "not stated" if row.get("status_code") == "ERROR" else None
    names = ("parent_id", "name", "start_time", "end_time")
    return {**ids, **{name: row.get(name) for name in names}, "attributes": attributes, "error": failed}


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the attributes of nested ones, as OpenInference numbers and joins their names."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, one in value.items():
        if one is not None:
            yield from _flatten(one, f"{name}.{key}" if name else str(key))


PHOENIX = DatasetFormat(
    name="phoenix",
    summary="spans that Phoenix's client exported",
    read=_read,
    recognises=has_columns({"context.trace_id", "context"}, {"span_kind", "attributes.openinference.span.kind"}),
)
