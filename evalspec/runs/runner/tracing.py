"""The traces of a run: spans are stored as they arrive, and joined with the replies once a trace is complete."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from uuid import uuid4

from msgspec import Struct, field

from evalspec.base.plural import counted, name_some, pluralize
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.traces.joining import (
    FIELDS_OF,
    TraceFacts,
    add_trace,
    describe_trace,
    list_traced,
    mark_incomplete,
    read_facts,
    settle_absent,
)
from evalspec.inputs.traces.otlp import Batch, SpanEvents, add_events
from evalspec.model import Exchange
from evalspec.model.exchanges import AgentReply
from evalspec.model.log import SpansRecord, TraceRecord
from evalspec.model.spans import Span, StepKind
from evalspec.runs.store.log_index import AttemptKey, LogIndex
from evalspec.targets.tracing import ATTEMPT_KEY, OpenRequest

MOST_SPANS = 100_000
"""Spans of one trace. One with more fails its attempt, so that memory is bounded."""
_MOST_CLOSING = 2_000
"""Attempts whose traces are waited for at once. Then workers wait too, so that memory is bounded."""


class _OpenTrace(Struct):
    """The spans of one request so far. `last`: when the latest arrived. `arrived`: set whenever some do."""

    key: AttemptKey
    spans: list[Span] = field(default_factory=list)
    events: SpanEvents = field(default_factory=list)
    parents: set[str | None] = field(default_factory=set)
    last: float = 0.0
    is_cut: bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class Tracing:
    """Joins the replies of a run with their traces.

    `store`: stores what arrives and what a trace says. `endpoint`: where spans are received, as messages show it.
    `known`: the log of earlier sessions of the run, or of the run whose replies are scored.
    """

    def __init__(
        self,
        config: TracesConfig,
        store: Callable[[SpansRecord | TraceRecord], None],
        endpoint: str,
        known: LogIndex | None = None,
    ) -> None:
        self._config, self._store, self._endpoint = config, store, endpoint
        self._open: dict[str, _OpenTrace] = {}
        self._of_baggage: dict[str, str] = {}
        self._ended: set[str] = set()
        self._slots = asyncio.Semaphore(_MOST_CLOSING)
        self._closing: set[asyncio.Task[None]] = set()
        self._seen = {kind for record in (known.traces.values() if known else ()) for kind in record.seen}
        self._learned = asyncio.Event()
        self._is_over = False
        self.counts: Counter[str] = Counter()
        """Spans that belong to no reply of the run: `late` ones, and those of `other` traces."""

    def begin(self, key: AttemptKey) -> OpenRequest:
        """Return a new request of an attempt, whose spans are awaited from now on."""
        request = OpenRequest(uuid4().hex if self._config.baggage else None)
        self._open[request.trace_id] = _OpenTrace(key)
        if request.attempt is not None:
            self._of_baggage[request.attempt] = request.trace_id
        return request

    def add(self, batch: Batch) -> None:
        """Store spans and log records as they arrive, each with its attempt."""
        kept: dict[AttemptKey, tuple[list[Span], SpanEvents]] = {}
        for span in batch.spans:
            trace = self._find(span.trace_id, span)
            if trace is not None:
                trace.spans.append(span)
                trace.parents.add(span.parent_id)
                kept.setdefault(trace.key, ([], []))[0].append(span)
        for event in batch.events:
            trace = self._find(event[0], None)
            if trace is not None:
                trace.events.append(event)
                kept.setdefault(trace.key, ([], []))[1].append(event)
        for key, (spans, events) in kept.items():
            self._store(SpansRecord(*key, tuple(spans), tuple(events)))

    def _find(self, trace_id: str, span: Span | None) -> _OpenTrace | None:
        """Return the open trace of a span or a log record, or count why it has none."""
        attempt = None if span is None else span.attributes.get(ATTEMPT_KEY)
        trace = self._open.get(trace_id) or self._open.get(self._of_baggage.get(str(attempt), ""))
        if trace is None:
            self.counts["late" if trace_id in self._ended else "other"] += 1
            return None
        trace.is_cut |= len(trace.spans) >= MOST_SPANS
        if trace.is_cut:
            self.counts["cut"] += 1
            return None
        trace.last = monotonic()
        trace.arrived.set()
        return trace

    async def join(
        self, key: AttemptKey, exchange: Exchange, wanted: Iterable[str], receive: Callable[[Exchange], "asyncio.Future"]
    ) -> None:
        ...
