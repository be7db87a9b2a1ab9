"""Read what the spans of a trace say the agent did, in any vocabulary."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from msgspec.structs import replace

from evalspec.inputs.tool_calls import join_overlapping
from evalspec.inputs.traces import vocabularies
from evalspec.inputs.traces.vocabularies.facts import Facts, Vocabulary, find_error, is_known
from evalspec.inputs.usage import read_usage
from evalspec.model import ToolCall
from evalspec.model.spans import Span, StepKind, TraceStep

VOCABULARIES = ("openinference", "traceloop", "gen_ai", "gen_ai_1_36")
"""Modules; the first that recognises a span reads it. Spans of the first two may also have attributes of
OpenTelemetry's conventions."""
_OTHER = Facts(StepKind.OTHER)
_MS = 1_000_000


def read_steps(spans: Iterable[Span]) -> tuple[TraceStep, ...]:
    """Return the steps of a trace in order of their start, parents before children that start at the same time."""
    ordered = order_spans(spans)
    begin = min((span.start_ns for span in ordered), default=0)
    steps = [make_step(span, read_facts(span), begin) for span in ordered]
    calls = _number_calls(steps)
    return tuple(step if step.call is None else replace(step, call=calls[step.span_id]) for step in steps)


def read_facts(span: Span) -> Facts:
    """Return what a span says in the first vocabulary that recognises it."""
    known = next((one for one in _load_vocabularies() if one.recognises(span.attributes)), None)
    return _OTHER if known is None else known.read(span)


@cache
def _load_vocabularies() -> tuple[Vocabulary, ...]:
    return tuple(import_module(f"{vocabularies.__name__}.{name}").VOCABULARY for name in VOCABULARIES)


def make_step(span: Span, facts: Facts, begin_ns: int) -> TraceStep:
    """Return the step of a span, from what it says and when its trace began."""
    return TraceStep(
        span.span_id,
        span.parent_id,
        facts.kind,
        span.name,
        (span.start_ns - begin_ns) / _MS,
        max(0, span.end_ns - span.start_ns) / _MS,
        find_error(span),
        facts.model,
        read_usage(facts.counts) if facts.counts else None,
        None if facts.prompt is None else tuple(message.content for message in facts.prompt),
        facts.answer,
        facts.documents,
        facts.call,
        facts.switch if _lacks_content(facts) else None,
    )


def order_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order of start, parents first at equal times. Parents that are missing or in a cycle are none."""
    known = {span.span_id: span for span in spans}
    depths: dict[str, int] = {}
    for name in known:
        path = []
        while name in known and name not in depths:
            depths[name] = 0  # ends a cycle
            path.append(name)
            name = known[name].parent_id or ""
        depth = depths.get(name, -1)
        for one in reversed(path):
            depth += 1
            depths[one] = depth
    return sorted(known.values(), key=lambda span: (span.start_ns, depths[span.span_id], -span.end_ns))


def _lacks_content(facts: Facts) -> bool:
    if facts.kind is StepKind.MODEL:
        return facts.prompt is None or facts.answer is None
    if facts.kind is StepKind.TOOL:
        return not is_known(facts.call)
    return facts.kind in (StepKind.RETRIEVAL, StepKind.RERANK) and facts.documents is None


def _number_calls(steps: Iterable[TraceStep]) -> dict[str, ToolCall]:
    """Return the calls of steps by the id of their span, those at the same time with the same number."""
    made = [(step.start_ms, step.start_ms + step.duration_ms, step) for step in steps if step.call is not None]
    made.sort(key=lambda one: one[:2])
    calls = join_overlapping([step.call for *_, step in made if step.call], [times[:2] for times in made])
    return {step.span_id: call for (*_, step), call in zip(made, calls, strict=True)}
