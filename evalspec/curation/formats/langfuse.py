"""Observations and traces that Langfuse exported."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.inputs.datasets.base import DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.record_form import has_columns
from evalspec.inputs.traces.vocabularies.facts import as_json
from evalspec.model import Sample

_OPERATIONS = {
    "GENERATION": "chat",
    "RETRIEVER": "retrieval",
    "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
    "AGENT": "invoke_agent",
}
_COUNTS = {"input": "gen_ai.usage.input_tokens", "output": "gen_ai.usage.output_tokens"}
_OF_TRACE = ("session_id", "user_id", "environment", "release", "version")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    from evalspec.curation.production import read_rows_of_spans

    return read_rows_of_spans(_list_spans, source, notes)


def _list_spans(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a row: of an observation, or of a trace, which is the root of its observations."""
    row = _rename(given)
    if "trace_id" in row:
        yield _to_span(row)
        return
    trace = row | _rename(row.get("trace") or {})
    shared = {"trace_id": trace.get("id"), **{key: trace.get(key) for key in _OF_TRACE}}
    observations = [shared | _rename(one) for one in row.get("observations") or ()]
    ends = [str(one["end_time"]) for one in observations if one.get("end_time")]
    begin = trace.get("timestamp")
    root = {
        "id": f"{trace.get('id')}-trace",
        "type": "AGENT",
        "start_time": begin,
        "end_time": max(ends, default=begin),
    }
    yield from map(_to_span, [trace | shared | root, *observations])


def _rename(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in the names of exports to storage, where `traceId` of the API is `trace_id`."""
    return {_CAMEL.sub(r"_\1", key).lower(): value for key, value in row.items()}


def _to_span(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an observation as a span in the words of OpenTelemetry's conventions."""
    kind, entered, left = str(row.get("type")), row.get("input"), row.get("output")
    counts = row.get("usage_details") or row.get("usage") or {}
    attributes = {
        "gen_ai.provider.name": "langfuse",
        "gen_ai.operation.name": _OPERATIONS.get(kind, kind.lower()),
        "gen_ai.request.model": row.get("model"),
        "gen_ai.input.messages": _to_messages(entered, "user"),
        "gen_ai.output.messages": _to_messages(left, "assistant"),
        "gen_ai.retrieval.documents": left.get("documents") if isinstance(left, dict) else left,
        "gen_ai.tool.name": row.get("name"),
        "gen_ai.tool.call.arguments": entered,
        "gen_ai.tool.call.result": left,
        "session.id": row.get("session_id"),
        "user.id": row.get("user_id"),
        **{key: row.get(key) for key in _OF_TRACE[2:]},
        **{key: counts.get(name) for name, key in _COUNTS.items()},
    }
    return {
        **{key: row.get(key) for key in ("trace_id", "name", "start_time", "end_time")},
        "span_id": row.get("id"),
        "parent_id": row.get("parent_observation_id"),
        "attributes": {key: value for key, value in attributes.items() if value is not None},
        "error": row.get("status_message") or "not stated" if row.get("level") == "ERROR" else None,
        "feedback": {one.get("name"): one.get("stringValue") or one.get("value") for one in row.get("scores") or ()},
    }


def _to_messages(value: Any, role: str) -> Any:
    found = as_json(value)
    found = found.get("messages", found) if isinstance(found, dict) else found
    return found if found is None or isinstance(found, list) else [{"role": role, "content": found}]


LANGFUSE = DatasetFormat(
    name="langfuse",
    summary="observations and traces that Langfuse exported",
    read=_read,
    recognises=has_columns(
        {"traceId", "trace_id", "observations"},
        {"parentObservationId", "parent_observation_id", "observations", "usageDetails", "usage_details"},
    ),
)
