"""Spans of an agent that is Python code in this process, taken from its own OpenTelemetry SDK as they end.

Nothing of OpenTelemetry is imported here: only code that has imported it makes spans.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import MsgspecError
from msgspec.json import decode, encode

from evalspec.model.spans import Span, SpanEvent
from evalspec.targets.tracing import ATTEMPT_KEY, CURRENT

_API, _SDK = "opentelemetry.trace", "opentelemetry.sdk.trace"
_HEX_TRACE, _HEX_SPAN = "032x", "016x"
_SAMPLED = 1

if TYPE_CHECKING:
    from evalspec.inputs.traces.otlp import Batch

Receive = Callable[["Batch"], None]

_RECEIVERS: list[Receive] = []
_HEARD: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()
"""The providers of the SDK that tell their spans; a processor cannot be removed from one."""


@contextmanager
def listen_to_sdk(add: Receive) -> Iterator[None]:
    """Let `add` have the spans that end during the block, in this event loop."""
    loop = asyncio.get_running_loop()

    def receive(batch: "Batch") -> None:
        loop.call_soon_threadsafe(add, batch)

    _RECEIVERS.append(receive)
    try:
        yield
    finally:
        _RECEIVERS.remove(receive)


@contextmanager
def joined_to_trace() -> Iterator[None]:
    """Make the spans that code of the block begins part of the current request, if that code uses OpenTelemetry."""
    request, trace = CURRENT.get(), sys.modules.get(_API)
    if request is None or trace is None:
        yield
        return
    from opentelemetry import baggage, context

    _hear(trace.get_tracer_provider())
    named = trace.SpanContext(
        int(request.trace_id, 16),
        int(request.name_parent(), 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(_SAMPLED),
    )
    joined = trace.set_span_in_context(trace.NonRecordingSpan(named))
    if request.attempt is not None:
        joined = baggage.set_baggage(ATTEMPT_KEY, request.attempt, joined)
    token = context.attach(joined)
    try:
        yield
    finally:
        context.detach(token)


def _hear(provider: Any) -> None:
    """Let a provider of the SDK tell the spans that end. That of the API alone makes none."""
    sdk = sys.modules.get(_SDK)
    if sdk is None or not isinstance(provider, sdk.TracerProvider) or provider in _HEARD:
        return

    class Listener(sdk.SpanProcessor):  # type: ignore[misc, name-defined]  # its base exists only if it is imported
        def on_end(self, span: Any) -> None:
            from evalspec.inputs.traces.otlp import Batch

            for receive in _RECEIVERS:
                receive(Batch([_read(span)], []))

    provider.add_span_processor(Listener())
    _HEARD[provider] = True


def _read(span: Any) -> Span:
    from evalspec.base.foreign_text import encodable
    from evalspec.inputs.traces.otlp import NOT_STATED, cut_texts

    own, parent, status = span.get_span_context(), span.parent, span.status
    attributes = _as_json(span.attributes)
    return Span(
        format(own.trace_id, _HEX_TRACE),
        format(own.span_id, _HEX_SPAN),
        encodable(str(span.name)),
        span.start_time or 0,
        span.end_time or 0,
        None if parent is None else format(parent.span_id, _HEX_SPAN),
        attributes,
        tuple(SpanEvent(encodable(event.name), event.timestamp, _as_json(event.attributes)) for event in span.events),
        None if status.is_ok or status.is_unset else encodable(status.description or NOT_STATED),
        "" if span.instrumentation_scope is None else span.instrumentation_scope.name,
        cut_texts(attributes),
    )


def _as_json(attributes: Any) -> dict[str, Any]:
    from evalspec.base.foreign_text import encodable

    return {encodable(str(key)): _as_value(value) for key, value in (attributes or {}).items()}


def _as_value(value: Any) -> Any:
    """Return a value of JSON. The SDK accepts more, such as larger numbers; those are texts."""
    from evalspec.base.foreign_text import encodable

    try:
        return decode(encode(value))
    except (ArithmeticError, MsgspecError, TypeError, ValueError):
        return encodable(str(value))
