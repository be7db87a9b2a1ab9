"""OpenTelemetry's GenAI conventions up to v1.36: `gen_ai.system`, and a message per event. Many still emit these."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.inputs.traces.vocabularies.facts import Facts, Vocabulary, as_json
from evalspec.inputs.traces.vocabularies.gen_ai import CAPTURE, read_attributes
from evalspec.model.spans import Span, SpanEvent

_SWITCH = f"set {CAPTURE}=true"
_ROLES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_ANSWER = "gen_ai.choice"
_WHOLE = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "gen_ai.input.messages"),
    "gen_ai.content.completion": ("gen_ai.completion", "gen_ai.output.messages"),
}
"""Up to v1.27, one event has all messages as JSON in an attribute."""


def read(span: Span) -> Facts:
    """Return what a span says, with the messages in its events."""
    messages = [{"role": _ROLES[event.name], **_payload(event)} for event in span.events if event.name in _ROLES]
    answers = [message for event in span.events if event.name == _ANSWER for message in _list_answers(event)]
    found = dict(_list_whole(span))
    found |= {"gen_ai.input.messages": messages} if messages else {}
    found |= {"gen_ai.output.messages": answers} if answers else {}
    return read_attributes(span, {**found, **span.attributes}, _SWITCH)


def _payload(event: SpanEvent) -> Mapping[str, Any]:
    """Return the content of an event: the body of a log record, or of an event of a span, its attributes."""
    found = event.body if event.body is not None else as_json(event.attributes.get("gen_ai.event.content"))
    return found if isinstance(found, dict) else event.attributes


def _list_answers(event: SpanEvent) -> Iterator[Any]:
    payload = _payload(event)
    message = as_json(payload.get("message"))
    yield message if isinstance(message, dict) else {"content": message or payload.get("content")}


def _list_whole(span: Span) -> Iterator[tuple[str, Any]]:
    for event in span.events:
        if event.name in _WHOLE:
            key, found = _WHOLE[event.name]
            yield found, event.attributes.get(key)


VOCABULARY = Vocabulary(lambda attributes: "gen_ai.system" in attributes, read)
