"""OpenInference, of Arize: Phoenix and its instrumentations."""

from collections.abc import Mapping
from typing import Any

from evalspec.inputs.traces.vocabularies.facts import (
    Facts,
    Vocabulary,
    as_json,
    as_text,
    first_of,
    read_call,
    read_documents,
    unflatten,
    unwrap_message,
)
from evalspec.model import Message
from evalspec.model.spans import Span, StepKind, TracedDocument

_KIND = "openinference.span.kind"
_JSON = "application/json"
_REDACTED = "__REDACTED__"
_SWITCH = "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and other OPENINFERENCE_HIDE_…"
_KINDS = {
    "LLM": StepKind.MODEL,
    "RETRIEVER": StepKind.RETRIEVAL,
    "RERANKER": StepKind.RERANK,
    "TOOL": StepKind.TOOL,
    "EMBEDDING": StepKind.EMBEDDING,
    "AGENT": StepKind.AGENT,
}
_DOCUMENTS = {StepKind.RETRIEVAL: "retrieval.documents", StepKind.RERANK: "reranker.output_documents"}
_MODELS = ("llm.response.model_name", "llm.model_name", "embedding.model_name", "reranker.model_name")
_COUNTS = {
    "input_tokens": "llm.token_count.prompt",
    "output_tokens": "llm.token_count.completion",
    "cached_input_tokens": "llm.token_count.prompt_details.cache_read",
    "cache_write_input_tokens": "llm.token_count.prompt_details.cache_write",
}


def read(span: Span) -> Facts:
    """Return what a span says. Redacted values are unknown."""
    attributes = {key: value for key, value in span.attributes.items() if value != _REDACTED}
    kind = _KINDS.get(str(attributes[_KIND]).upper(), StepKind.OTHER)
    entered, left = attributes.get("input.value"), attributes.get("output.value")
    facts = Facts(kind, asked=as_text(entered), answered=as_text(left), switch=_SWITCH)
    facts.model = as_text(first_of(attributes, _MODELS))
    facts.counts = {name: attributes[key] for name, key in _COUNTS.items() if key in attributes}
    if kind is StepKind.MODEL:
        facts.prompt = _read_messages(attributes, "llm.input_messages")
        answers = _read_messages(attributes, "llm.output_messages")
        facts.answer = answers[0].content if answers else None
    elif kind is StepKind.TOOL:
        facts.call = _read_tool(span, attributes)
    elif kind in _DOCUMENTS:
        facts.documents = _read_documents(attributes, _DOCUMENTS[kind], as_json(left))
    return facts


def _read_messages(attributes: Mapping[str, Any], prefix: str) -> tuple[Message, ...] | None:
    records = unflatten(attributes, prefix)
    return tuple(Message(str(one.get("message.role", "")), _read_text(one)) for one in records) or None


def _read_text(message: Mapping[str, Any]) -> str:
    if (text := as_text(message.get("message.content"))) is not None:
        return text
    parts = unflatten(message, "message.contents")
    return "\n".join(str(part["message_content.text"]) for part in parts if "message_content.text" in part)


def _read_tool(span: Span, attributes: Mapping[str, Any]) -> Any:
    entered = as_json(attributes.get("input.value"))
    parameters = as_json(attributes.get("tool.parameters"))
    arguments = next((one for one in (entered, parameters) if isinstance(one, dict)), None)  # a value has no name
    output = attributes.get("output.value")
    result = unwrap_message(as_json(output)) if attributes.get("output.mime_type") == _JSON else output
    call_id = first_of(attributes, ("tool_call.id", "tool.id"))
    return read_call(span, attributes.get("tool.name"), arguments, result, call_id)


def _read_documents(attributes: Mapping[str, Any], prefix: str, output: Any) -> tuple[TracedDocument, ...] | None:
    """Return the documents of numbered attributes, with the ids that only the output has, as of LangChain."""
    records = [
        {key.removeprefix("document."): value for key, value in one.items()} for one in unflatten(attributes, prefix)
    ]
    listed = output.get("documents") if isinstance(output, dict) else output
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return read_documents(records) if records else None
    if len(listed) == len(records):
        listed = [{**one, **record} for one, record in zip(listed, records, strict=True)]
    return read_documents(listed) if len(listed) >= len(records) else read_documents(records)


VOCABULARY = Vocabulary(lambda attributes: _KIND in attributes, read)
