"""Spans of traces as they arrive, and what evalspec reads in each of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from evalspec.model.base import Number, Record
from evalspec.model.tool_calls import ToolCall
from evalspec.model.usage import Usage


class SpanEvent(Record, frozen=True, omit_defaults=True):
    """An event of a span, or a log record that names the span. `body`: of a log record, as JSON."""

    name: str
    time_ns: int = 0
    attributes: Mapping[str, Any] = {}
    body: Any = None


class Span(Record, frozen=True, omit_defaults=True):
    """One span of a trace, in any vocabulary. Ids are lowercase hex; times are nanoseconds since 1970.

    `attributes`: JSON values. `error`: the message of its status if that is an error, else None. `scope`: the name of
    the instrumentation. `cut`: what was left out because it is too large, in words.
    """

    trace_id: str
    span_id: str
    name: str
    start_ns: int
    end_ns: int
    parent_id: str | None = None
    attributes: Mapping[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    scope: str = ""
    cut: str | None = None


class StepKind(StrEnum):
    """What an agent did in a span."""

    MODEL = "model"
    RETRIEVAL = "retrieval"
    RERANK = "rerank"
    TOOL = "tool"
    EMBEDDING = "embedding"
    AGENT = "agent"
    OTHER = "other"


class TracedDocument(Record, frozen=True, omit_defaults=True):
    """A document that a retriever or reranker returned, best first. None: the span does not say it."""

    id: str | None = None
    score: Number | None = None
    text: str | None = None


class TraceStep(Record, frozen=True, omit_defaults=True):
    """What a span says the agent did. None: the span does not say it.

    `start_ms`: since the first span of the trace began. `documents`: of a retrieval or a reranking; empty: it found
    none. `prompt`: the texts of the messages that a model got. `answer`: the text that it wrote. `call`: of a tool.
    `hidden`: the switch that would record what is missing, in words for people.
    """

    span_id: str
    parent_id: str | None
    kind: StepKind
    name: str
    start_ms: Number
    duration_ms: Number
    error: str | None = None
    model: str | None = None
    usage: Usage | None = None
    prompt: tuple[str, ...] | None = None
    answer: str | None = None
    documents: tuple[TracedDocument, ...] | None = None
    call: ToolCall | None = None
    hidden: str | None = None
