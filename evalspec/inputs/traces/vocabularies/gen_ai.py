"""OpenTelemetry's GenAI conventions of today: v0.1.0 of their own repository, and v1.37 to v1.41 of the former one."""

from collections.abc import Mapping
from typing import Any

from evalspec.inputs.traces.vocabularies.facts import (
    Facts,
    Vocabulary,
    as_json,
    as_text,
    first_of,
    join_parts,
    last_text,
    read_call,
    read_documents,
    read_messages,
)
from evalspec.model import Message
from evalspec.model.spans import Span, StepKind

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SWITCH = f"set {CAPTURE}=span_and_event with OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
_RESULT = "gen_ai.tool.call.result"
_DETAILS = "gen_ai.client.inference.operation.details"
KINDS = {
    "chat": StepKind.MODEL,
    "generate_content": StepKind.MODEL,
    "text_completion": StepKind.MODEL,
    "retrieval": StepKind.RETRIEVAL,
    "rerank": StepKind.RERANK,
    "execute_tool": StepKind.TOOL,
    "embeddings": StepKind.EMBEDDING,
    "invoke_agent": StepKind.AGENT,
    "invoke_workflow": StepKind.AGENT,
    "create_agent": StepKind.AGENT,
}
"""By `gen_ai.operation.name`. The conventions have no reranking yet; some instrumentations call it `rerank`."""
_COUNTS = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_input_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    "cache_write_input_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
}


def read(span: Span) -> Facts:
    """Return what a span says. Content may be on its event of details."""
    details = [event.attributes for event in span.events if event.name == _DETAILS]
    attributes = {**(details[-1] if details else {}), **span.attributes}
    attributes[_RESULT] = as_json(attributes.get(_RESULT))
    return read_attributes(span, attributes, _SWITCH)


def read_attributes(span: Span, attributes: Mapping[str, Any], switch: str) -> Facts:
    """Return what attributes in the words of today say. `switch`: what records content."""
    kind = KINDS.get(str(attributes.get("gen_ai.operation.name")), StepKind.OTHER)
    prompt = _read_prompt(attributes)
    answers = as_json(attributes.get("gen_ai.output.messages"))
    answer = (join_parts(answers[0]) if answers else "") if isinstance(answers, list) else None
    facts = Facts(kind, asked=last_text(prompt), answered=answer, switch=switch)
    if kind is StepKind.TOOL:
        facts.call = _read_tool(span, attributes)
    elif kind in (StepKind.RETRIEVAL, StepKind.RERANK):
        documents = as_json(attributes.get("gen_ai.retrieval.documents"))
        facts.documents = read_documents(documents) if isinstance(documents, list) else None
    elif kind is StepKind.MODEL:
        facts.prompt, facts.answer = prompt, answer
    facts.model = as_text(first_of(attributes, ("gen_ai.response.model", "gen_ai.request.model")))
    facts.counts = {name: count for name, keys in _COUNTS.items() if (count := first_of(attributes, keys)) is not None}
    return facts


def _read_prompt(attributes: Mapping[str, Any]) -> tuple[Message, ...] | None:
    """Return the messages that a model got, after its instructions."""
    messages = read_messages(attributes.get("gen_ai.input.messages"))
    instructions = join_parts({"parts": as_json(attributes.get("gen_ai.system_instructions"))})
    return (Message("system", instructions), *messages) if instructions and messages is not None else messages


def _read_tool(span: Span, attributes: Mapping[str, Any]) -> Any:
    keys = ("name", "call.arguments", "call.result", "call.id")
    name, arguments, result, call_id = (attributes.get(f"gen_ai.tool.{key}") for key in keys)
    return read_call(span, name, arguments, result, call_id)


VOCABULARY = Vocabulary(
    lambda attributes: (
        "gen_ai.provider.name" in attributes
        or ("gen_ai.operation.name" in attributes and "gen_ai.system" not in attributes)
    ),
    read,
)
