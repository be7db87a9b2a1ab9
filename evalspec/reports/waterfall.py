"""The trace of an attempt as a waterfall: its steps in the order of their start, each with its share of the time."""

from collections.abc import Iterator

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.inputs.traces.steps import read_steps
from evalspec.model import Exchange
from evalspec.model.spans import StepKind, TraceStep
from evalspec.model.tool_calls import render_call
from evalspec.verdict.wording import render_value

MOST_STEPS = 500
"""Steps that are shown of an attempt."""


class ShownStep(Struct, frozen=True):
    """A step. `depth`: below the root of its trace. `start`, `width`: shares of the time of the trace, from 0 to 1.

    `facts`: what it used and found, on one line. `texts`: what it got and gave, by title.
    """

    name: str
    kind: StepKind
    depth: int
    start: float
    width: float
    took: str
    error: str | None
    facts: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]


def read_waterfall(exchange: Exchange | None) -> tuple[ShownStep, ...]:
    """Return the steps of an attempt, those of one request after the other; none if its spans were not received."""
    if exchange is None:
        return ()
    traces = dict.fromkeys(span.trace_id for span in exchange.spans)
    shown: list[ShownStep] = []
    for trace in traces:
        shown += _show_trace(read_steps([span for span in exchange.spans if span.trace_id == trace]))
    return tuple(shown[:MOST_STEPS])


def _show_trace(steps: tuple[TraceStep, ...]) -> Iterator[ShownStep]:
    whole = max((step.start_ms + step.duration_ms for step in steps), default=0.0) or 1.0
    depths: dict[str | None, int] = {}
    for step in steps:
        depths[step.span_id] = depths.get(step.parent_id, -1) + 1
        yield ShownStep(
            step.name,
            step.kind,
            depths[step.span_id],
            step.start_ms / whole,
            step.duration_ms / whole,
            render_value("latency", step.duration_ms),
            step.error,
            tuple(_list_facts(step)),
            tuple(_list_texts(step)),
        )


def _list_facts(step: TraceStep) -> Iterator[str]:
    if step.model:
        yield step.model
    if step.usage is not None:
        yield f"{step.usage.input_tokens:,} tokens in, {step.usage.output_tokens:,} out"
    if step.documents is not None:
        yield counted(len(step.documents), "document")
    if step.call is not None:
        yield render_call(step.call)


def _list_texts(step: TraceStep) -> Iterator[tuple[str, str]]:
    if step.prompt:
        yield "Prompt", "\n\n".join(step.prompt)
    if step.answer:
        yield "Answer", step.answer
    for place, document in enumerate(step.documents or (), 1):
        score = "" if document.score is None else f"  score {document.score:g}"
        yield f"{place}. {document.id or 'no id'}{score}", document.text or "no text"
    if step.hidden:
        yield "To record what is missing", step.hidden
