"""Decode OTLP: bodies of `/v1/traces` and `/v1/logs` as protobuf or JSON, and the files that a collector writes."""

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import Decoder
from msgspec.structs import replace

from evalspec.base.errors import MissingPackage, Problem
from evalspec.base.jsonl import read_lines
from evalspec.model.base import built
from evalspec.model.spans import Span, SpanEvent

NOT_STATED = "not stated"
"""The error of a span that failed without a message."""
LONGEST_TEXT = 1_000_000
"""Characters of a text in a span. Longer ones are cut, and the span says so."""
MOST_BYTES = 64 * 1024 * 1024
"""How large a body may be, as it is sent and unpacked."""
_MOST_OBJECTS = 2_000_000
"""Objects and lists of a body. Empty ones take 3 bytes as JSON, and many times as much in memory."""
_OF_RESOURCE = ("service.name", "deployment.environment.name", "openinference.project.name")
"""Attributes of a resource that its spans get."""
_LARGEST = 2**63
_ERROR_CODES = (2, "STATUS_CODE_ERROR")
_TRACE_ID, _SPAN_ID = 16, 8
_PACKAGE, _EXTRA = "opentelemetry-proto", "traces"
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".log", ".gz")
_ONE_A_LINE = "write what the collector's file exporter writes: one OTLP/JSON object per line"

SpanEvents = list[tuple[str, str, SpanEvent]]
"""Log records that name a span: (trace id, span id, record)."""


class Batch(NamedTuple):
    """Spans and log records that arrived together."""

    spans: list[Span]
    events: SpanEvents


def read_traces(body: bytes, is_json: bool) -> list[Span]:
    """Return the spans in a body of `/v1/traces`.

    Raises:
        ValueError: the body is malformed. The message is one line.
        MissingPackage: it is protobuf, and opentelemetry-proto is not installed.
    """
    if is_json:
        return _list_spans(_decode_json(body), _JSON)
    return _list_spans(_decode_protobuf("trace", body), _PROTOBUF)


def read_logs(body: bytes, is_json: bool) -> SpanEvents:
    """Return the log records that name a span in a body of `/v1/logs`; other records belong to no trace.

    Raises:
        ValueError: the body is malformed. The message is one line.
        MissingPackage: it is protobuf, and opentelemetry-proto is not installed.
    """
    if is_json:
        return _list_events(_decode_json(body), _JSON)
    return _list_events(_decode_protobuf("logs", body), _PROTOBUF)


def read_files(path: Path, shown_as: str, problems: list[Problem]) -> Iterator[Batch]:
    """Yield what each line of the collector's files has. A folder is read in the order of its names.

    Lines that are no OTLP/JSON are problems with file and line. Lines of metrics are empty batches.
    """
    files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        problems.append(Problem(f"the folder has no file with {', '.join(_SUFFIXES)}", _ONE_A_LINE, shown_as))
    for file in files:
        name = f"{shown_as}/{file.relative_to(path)}" if path.is_dir() else shown_as
        for number, line in read_lines(file, name, problems, _ONE_A_LINE):
            try:
                content = _decode_json(line)
                yield Batch(_list_spans(content, _JSON), _list_events(content, _JSON))
            except ValueError as error:
                problems.append(Problem(str(error), _ONE_A_LINE, name, number))


def add_events(spans: Iterable[Span], events: SpanEvents) -> list[Span]:
    """Return the spans with the log records that name them, in the order of time."""
    of_span: dict[tuple[str, str], list[SpanEvent]] = {}
    for trace_id, span_id, event in events:
        of_span.setdefault((trace_id, span_id), []).append(event)
    return [_add(span, of_span.get((span.trace_id, span.span_id), ())) for span in spans]


def _add(span: Span, events: Sequence[SpanEvent]) -> Span:
    if not events:
        return span
    return replace(span, events=tuple(sorted((*span.events, *events), key=lambda event: event.time_ns)))


class _Value(Struct, rename="camel", gc=False):
    string_value: str | None = None
    int_value: int | str | None = None
    bool_value: bool | None = None
    double_value: float | str | None = None
    array_value: "_Values | None" = None
    kvlist_value: "_Pairs | None" = None
    bytes_value: str | None = None


class _Values(Struct, gc=False):
    values: list[_Value] = []


class _Pair(Struct, gc=False):
    key: str = ""
    value: _Value | None = None


class _Pairs(Struct, gc=False):
    values: list[_Pair] = []


class _Status(Struct, frozen=True, gc=False):
    code: int | str = 0
    message: str = ""


class _Item(Struct, rename="camel", gc=False):
    """A span, an event of one, or a log record."""

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str = ""
    event_name: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    attributes: list[_Pair] = []
    events: "list[_Item]" = []
    status: _Status = _Status()
    body: _Value | None = None


class _Scope(Struct, frozen=True, gc=False):
    name: str = ""


class _OfScope(Struct, rename="camel", gc=False):
    scope: _Scope = _Scope()
    spans: list[_Item] = []
    log_records: list[_Item] = []


class _Resource(Struct, frozen=True, gc=False):
    attributes: list[_Pair] = []


class _OfResource(Struct, rename="camel", gc=False):
    resource: _Resource = _Resource()
    scope_spans: list[_OfScope] = []
    scope_logs: list[_OfScope] = []


class _Content(Struct, rename="camel", gc=False):
    resource_spans: list[_OfResource] | None = None
    resource_logs: list[_OfResource] | None = None
    resource_metrics: Any = None


_decoder = Decoder(built(_Content))


class _Form(NamedTuple):
    """What differs between protobuf and JSON, whose fields have the same names here."""

    read_value: Callable[[Any], Any]
    read_id: Callable[[Any, int], str]


def _decode_json(body: bytes) -> _Content:
    if len(body) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    if body.count(b"{") + body.count(b"[") > _MOST_OBJECTS:
        raise ValueError(f"it has more than {_MOST_OBJECTS:,} objects and lists")
    try:
        content = _decoder.decode(body)
    except (DecodeError, UnicodeDecodeError) as error:
        what = "no OTLP/JSON" if isinstance(error, ValidationError) else "no JSON"
        raise ValueError(f"{what}: {error}") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if content.resource_spans is None and content.resource_logs is None and content.resource_metrics is None:
        if body.strip() in (b"", b"{}"):
            return content
        raise ValueError("no OTLP/JSON: it has neither `resourceSpans` nor `resourceLogs`")
    return content


def _decode_protobuf(signal: str, body: bytes) -> Any:
    request, malformed = _load_protobuf(signal)
    try:
        return request.FromString(body)
    except malformed as error:
        raise ValueError("no OTLP in protobuf; JSON needs the Content-Type application/json") from error


@cache
def _load_protobuf(signal: str) -> tuple[Any, type[Exception]]:
    try:
        service = import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")
        malformed = import_module("google.protobuf.message").DecodeError
    except ModuleNotFoundError as error:
        raise MissingPackage("OTLP in protobuf", _PACKAGE, _EXTRA) from error
    return getattr(service, f"Export{signal.capitalize()}ServiceRequest"), malformed


def _list_spans(content: Any, form: _Form) -> list[Span]:
    return [
        _make_span(span, part.scope.name, shared, form)
        for one in content.resource_spans or ()
        for shared in [_list_shared(one.resource, form)]
        for part in one.scope_spans
        for span in part.spans
    ]


def _list_shared(resource: Any, form: _Form) -> dict[str, Any]:
    """Return what a resource says about all its spans and samples are selected by."""
    return _read_pairs((pair for pair in resource.attributes if pair.key in _OF_RESOURCE), form.read_value)


def _list_events(content: Any, form: _Form) -> SpanEvents:
    return [
        _make_event(record, form)
        for resource in content.resource_logs or ()
        for part in resource.scope_logs
        for record in part.log_records
        if record.trace_id and record.span_id
    ]


def _make_span(span: Any, scope: str, shared: Mapping[str, Any], form: _Form) -> Span:
    attributes = {**shared, **_read_pairs(span.attributes, form.read_value)}
    status = span.status
    return Span(
        form.read_id(span.trace_id, _TRACE_ID),
        form.read_id(span.span_id, _SPAN_ID),
        span.name,
        _read_time(span.start_time_unix_nano),
        _read_time(span.end_time_unix_nano),
        form.read_id(span.parent_span_id, _SPAN_ID) if span.parent_span_id else None,
        attributes,
        tuple(
            SpanEvent(one.name, _read_time(one.time_unix_nano), _read_pairs(one.attributes, form.read_value))
            for one in span.events
        ),
        (status.message or NOT_STATED) if status.code in _ERROR_CODES else None,
        scope,
        cut_texts(attributes),
    )


def _make_event(record: Any, form: _Form) -> tuple[str, str, SpanEvent]:
    attributes = _read_pairs(record.attributes, form.read_value)
    event = SpanEvent(
        record.event_name or str(attributes.get("event.name", "")),
        _read_time(record.time_unix_nano) or _read_time(record.observed_time_unix_nano),
        attributes,
        None if record.body is None else form.read_value(record.body),
    )
    return form.read_id(record.trace_id, _TRACE_ID), form.read_id(record.span_id, _SPAN_ID), event


def _read_pairs(pairs: Iterable[Any], read_value: Callable[[Any], Any]) -> dict[str, Any]:
    return {pair.key: read_value(pair.value) for pair in pairs}


def cut_texts(attributes: dict[str, Any]) -> str | None:
    """Cut texts that are too long, and return which ones; None if there are none."""
    long = {key: text for key, text in attributes.items() if isinstance(text, str) and len(text) > LONGEST_TEXT}
    attributes |= {key: text[:LONGEST_TEXT] for key, text in long.items()}
    said = [f"{key} after {LONGEST_TEXT:,} of {len(text):,} characters" for key, text in long.items()]
    return ", ".join(said) or None


def _read_time(value: Any) -> int:
    return _read_whole(value, "a time in nanoseconds")


def _read_whole(value: Any, what: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(f"no OTLP/JSON: {str(value)[:40]!r} is not {what}")
    return number


def _read_json_id(text: str, size: int) -> str:
    try:
        if len(bytes.fromhex(text)) == size:
            return text.lower()
    except ValueError:
        pass
    raise ValueError(f"no OTLP/JSON: an id has {2 * size} hex digits, not {text[:40]!r} (base64 is no OTLP/JSON)")


def _read_bytes_id(value: bytes, size: int) -> str:
    if len(value) != size:
        raise ValueError(f"no OTLP: an id has {size} bytes, not {len(value)}")
    return value.hex()


def _read_json_value(value: _Value | None) -> Any:
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _read_whole(value.int_value, "a whole number")
    if value.double_value is not None:
        return _read_double(value.double_value)
    if value.array_value is not None:
        return [_read_json_value(one) for one in value.array_value.values]
    if value.kvlist_value is not None:
        return _read_pairs(value.kvlist_value.values, _read_json_value)
    return value.bool_value if value.bytes_value is None else value.bytes_value


def _read_protobuf_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_read_protobuf_value(one) for one in inner.values]
    if kind == "kvlist_value":
        return _read_pairs(inner.values, _read_protobuf_value)
    if kind == "bytes_value":
        return b64encode(inner).decode()
    return _read_double(inner) if kind == "double_value" else inner


def _read_double(value: Any) -> Any:
    """Return a number that JSON has. NaN and infinity, which it lacks, are texts, as protobuf writes them in JSON."""
    if isinstance(value, str) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_JSON = _Form(_read_json_value, _read_json_id)
_PROTOBUF = _Form(_read_protobuf_value, _read_bytes_id)
