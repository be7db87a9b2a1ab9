"""The traces of a run: spans are stored as they arrive, and joined with the replies once a trace is complete."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

from msgspec import Struct, field

from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.traces.joining import (
    FIELDS_OF,
    TraceFacts,
    TraceRules,
    describe_trace,
    mark_incomplete,
    read_facts,
    settle_absent,
)
from evalspec.inputs.traces.otlp import Batch, SpanEvents, add_events
from evalspec.model import AgentReply, Exchange, Sample
from evalspec.model.exchanges import NEVER_COMPLETED, TracedRequest, add_trace, list_traced
from evalspec.model.log import LogRecord, SpansRecord, TraceRecord, add_stored_trace
from evalspec.model.spans import Span, StepKind
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.runner.known_attempts import KnownAttempt
from evalspec.runs.store.log_index import AttemptKey, LogIndex
from evalspec.runs.store.run_log import RunLog
from evalspec.targets.tracing import OpenRequest

MOST_SPANS = 100_000
"""Spans of one trace. One with more fails its attempt, so that memory is bounded."""
_MOST_CLOSING = 2_000
"""Attempts whose traces are awaited at once. Then workers wait too, so that memory is bounded."""

Receive = Callable[[Exchange], Awaitable[None]]
Job = TypeVar("Job")


def read_rules(plan: Plan, dataset: PlannedDataset) -> TraceRules:
    """Return how the traces of a dataset are read."""
    config = plan.loaded.manifest.spec.api.traces
    return TraceRules(None if config is None else config.retrieval, dataset.passages)


class OpenTrace(Struct):
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

    `store`: stores spans as they arrive, and what they say. `known`: the log of earlier sessions of the run.
    """

    def __init__(
        self, config: TracesConfig, store: Callable[[SpansRecord | TraceRecord], None], known: LogIndex | None
    ) -> None:
        self._config, self._store, self._known = config, store, known
        self.source = ""
        """Where spans come from, as messages show it."""
        self.refusals: Counter[str] = Counter()
        """Why what arrived could not be read, with how often."""
        self._open: dict[str, OpenTrace] = {}
        self._of_attempt: dict[AttemptKey, list[str]] = {}
        self._ended: set[str] = set()
        self._slots = asyncio.Semaphore(_MOST_CLOSING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._awaited = 0
        self._all_closed = asyncio.Event()
        self._seen = {kind: asyncio.Event() for kind in FIELDS_OF}
        self._shown: set[StepKind] = set()
        self._disputed = dict(known.contradictions) if known else {}
        self._learn(known.seen if known else ())
        self.counts: Counter[str] = Counter()
        """Spans that count in no score: `late` ones, and those of `other` traces."""

    def begin(self, key: AttemptKey) -> OpenRequest:
        """Return a new request of an attempt, whose spans are awaited from now on."""
        request = OpenRequest(uuid4().hex if self._config.baggage else None)
        self._open[request.trace_id] = OpenTrace(key)
        self._of_attempt.setdefault(key, []).append(request.trace_id)
        return request

    def beginning(self, name: Callable[[Job], AttemptKey]) -> Callable[[Job], OpenRequest]:
        """Return a function that begins a request of a job. `name`: returns the attempt of a job."""
        return lambda job: self.begin(name(job))

    def add(self, batch: Batch) -> None:
        """Store spans and log records as they arrive, each with its attempt."""
        kept: dict[AttemptKey, tuple[list[Span], SpanEvents]] = {}
        for span in batch.spans:
            trace = self._find(span.trace_id)
            if trace is not None:
                trace.spans.append(span)
                trace.parents.add(span.parent_id)
                kept.setdefault(trace.key, ([], []))[0].append(span)
        for event in batch.events:
            trace = self._find(event[0])
            if trace is not None:
                trace.events.append(event)
                kept.setdefault(trace.key, ([], []))[1].append(event)
        for key, (spans, events) in kept.items():
            self._store(SpansRecord(*key, tuple(spans), tuple(events)))

    def _find(self, trace_id: str) -> OpenTrace | None:
        """Return the open trace of a span or a log record, or count why it has none."""
        trace = self._open.get(trace_id)
        if trace is None:
            self.counts["late" if trace_id in self._ended else "other"] += 1
            return None
        trace.last = monotonic()
        trace.arrived.set()
        trace.is_cut |= len(trace.spans) + len(trace.events) >= MOST_SPANS
        return None if trace.is_cut else trace

    async def submit(
        self,
        key: AttemptKey,
        exchange: Exchange,
        dataset: PlannedDataset,
        receive: Receive,
        spawn: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        """Let `receive` have the exchange once its traces are complete. The worker does not wait for that.

        `dataset`: of its sample. `spawn`: starts a task.
        """
        await self._slots.acquire()
        self._awaited += 1
        task = spawn(self._join(key, exchange, dataset, receive))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait for all traces. From now on, what no trace has shown is not instrumented."""
        while self._awaited:
            self._all_closed.clear()
            await self._all_closed.wait()
        for kind in self._seen.values():
            kind.set()
        await asyncio.gather(*self._tasks)

    async def _join(self, key: AttemptKey, exchange: Exchange, dataset: PlannedDataset, receive: Receive) -> None:
        try:
            facts = await self._close(key, exchange, TraceRules(self._config.retrieval, dataset.passages))
        finally:
            self._slots.release()
            self._awaited -= 1
            self._all_closed.set()
        read = {name for metric in dataset.metrics.values() for name in metric.traced}
        absent = [kind for kind, names in FIELDS_OF.items() if not read.isdisjoint(names) if _is_open(kind, facts)]
        for kind in absent:
            await self._seen[kind].wait()
        facts = [settle_absent(one, self._shown) for one in facts]
        record = describe_trace(key, exchange, facts)
        if record.contradicts:
            self._disputed[key] = record.contradicts
        if facts:
            self._store(record)
        await receive(add_trace(exchange, (), record.found, record.untraced))

    async def _close(self, key: AttemptKey, exchange: Exchange, rules: TraceRules) -> list[TraceFacts]:
        """Return what the traces of an attempt say, once they are complete or cannot be any more."""
        ends_at = monotonic() + self._config.grace
        facts = [await self._read(key, reply, ends_at, rules) for reply in list_traced(exchange.reply)]
        ended = self._of_attempt.pop(key, [])
        self._ended.update(ended)
        for name in ended:
            del self._open[name]
        for one in facts:
            self._learn(one.seen)
        return facts

    async def _read(self, key: AttemptKey, reply: AgentReply, ends_at: float, rules: TraceRules) -> TraceFacts:
        request = reply.traced
        trace = self._open.get(request.trace_id) if request else None
        if request is None or trace is None:
            earlier = self._known.read_traced(self._known.spans.get(key, ())) if self._known else ()
            return read_stored(reply, earlier, rules)
        problem = await self._await_end(trace, request, ends_at)
        if problem is not None:
            return mark_incomplete(problem)
        spans = add_events(trace.spans, trace.events)
        return read_facts(spans, request, reply.response, rules)

    async def _await_end(self, trace: OpenTrace, request: TracedRequest, ends_at: float) -> str | None:
        """Wait until a trace is complete, and return why it is not.

        It is if it has a span below each one that evalspec named as parent, and nothing came for a while, also after
        the reply: an agent without a span of the request exports what it did first long before.
        """
        replied_at = ends_at - self._config.grace
        while True:
            if trace.is_cut:
                return f"its trace has more than {MOST_SPANS:,} spans"
            has_root, now = request.is_whole(trace.parents), monotonic()
            quiet_at = max(trace.last, replied_at) + self._config.quiet
            if has_root and now >= quiet_at:
                return None
            if now >= ends_at:
                return self._explain_open(trace, has_root)
            waits_until = min(ends_at, quiet_at) if has_root else ends_at
            trace.arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(waits_until - now):
                    await trace.arrived.wait()

    def note_running(self) -> None:
        """Let reasons say that the agent ran already, so that it does not know where to export."""
        if self._config.file is None and not isinstance(self._config.receive, int):
            self.source += "; it ran already and does not know that: stop it, or set spec.api.traces.receive to a port"

    def _explain_open(self, trace: OpenTrace, has_root: bool) -> str:
        within = f"within {self._config.grace:g} s of the reply"
        if has_root:
            return f"its trace is not complete: spans still arrived {self._config.grace:g} s after the reply"
        if trace.spans:
            return f"its trace is not complete: {counted(len(trace.spans), 'span')} arrived {within}, but not its root"
        asked = "the agent has to be instrumented, continue `traceparent`, sample every trace, and export it"
        return f"no span of its trace arrived {within}: {asked} to {self.source}"

    def _learn(self, seen: Collection[StepKind]) -> None:
        for kind in self._seen.keys() & set(seen):
            self._seen[kind].set()
            self._shown.add(kind)

    @property
    def notes(self) -> Iterator[str]:
        """What the report says of spans that count in no score, and of replies that contradict their traces."""
        for name, text in _NOTES.items():
            if self.counts[name]:
                yield text.format(spans=counted(self.counts[name], "span"))
        for why, count in self.refusals.items():
            yield f"spans could not be read, {counted(count, 'time')}: {why}"
        disputed = sorted({key.sample_id for key in self._disputed})
        fields = sorted({name for names in self._disputed.values() for name in names})
        if disputed:
            named = f"{counted(len(disputed), 'sample')} ({name_some(disputed)})"
            yield f"the reply and the trace of {named} differ in {name_some(fields)}; the reply counts"


_NOTES = {
    "late": "{spans} arrived after the traces of their replies were complete; they count in no score",
    "other": "{spans} belong to no request of this run; an agent that does not continue `traceparent` sends such spans",
}


def _is_open(kind: StepKind, facts: Collection[TraceFacts]) -> bool:
    """Return whether a request has no step of a kind, so that it matters whether others have."""
    return any(kind not in one.seen and not one.untraced.keys() >= set(FIELDS_OF[kind]) for one in facts)


def read_stored(reply: AgentReply, records: Iterable[LogRecord], rules: TraceRules) -> TraceFacts:
    """Return what the stored spans of a request say. Without its root, the trace was never complete."""
    request, stored = reply.traced, [one for one in records if isinstance(one, SpansRecord)]
    spans = [span for one in stored for span in one.spans if request and span.trace_id == request.trace_id]
    if request is None or not request.is_whole({span.parent_id for span in spans}):
        return mark_incomplete(NEVER_COMPLETED)
    events = [event for one in stored for event in one.events]
    return read_facts(add_events(spans, events), request, reply.response, rules)


def carry_traces(
    log: RunLog, known: KnownAttempt, key: AttemptKey, sample: Sample, rules: TraceRules
) -> tuple[Exchange, bool]:
    """Return the exchange of an attempt of another run, and whether its traces now say something else.

    Its spans are copied to the log, and read again, for the rules may have changed. A trace that was not complete
    stays so.
    """
    records = list(known.index.read_traced(known.attempt.places[1:]))
    for one in records:
        if isinstance(one, SpansRecord):
            log.append(one)
    stored = next((one for one in reversed(records) if isinstance(one, TraceRecord)), None)
    if stored is None:
        return known.read_exchange(sample), False
    bare = known.read_reply(sample)
    facts = [settle_absent(read_stored(reply, records, rules), known.index.seen) for reply in list_traced(bare.reply)]
    is_complete = stored.is_complete and all(one.is_complete for one in facts)
    record = describe_trace(key, bare, facts) if is_complete else stored
    log.append(record)
    is_new = (record.found, record.untraced) != (stored.found, stored.untraced)
    return add_stored_trace(bare, [*records, record]), is_new
