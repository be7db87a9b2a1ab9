"""OpenLLMetry, of Traceloop: its own attributes beside those of OpenTelemetry's conventions, old and new."""

from collections.abc import Mapping
from typing import Any

from evalspec.inputs.traces.vocabularies.facts import (
    Facts,
    Vocabulary,
    as_json,
    as_text,
    first_of,
    unflatten,
    unwrap_message,
)
from evalspec.inputs.traces.vocabularies.gen_ai import read_attributes
from evalspec.model.spans import Span

_SWITCH = "set TRACELOOP_TRACE_CONTENT=true"
_KIND, _INPUT, _OUTPUT = "traceloop.span.kind", "traceloop.entity.input", "traceloop.entity.output"
_MARKS = (_KIND, "traceloop.workflow.name", "traceloop.entity.name", "llm.request.type", "gen_ai.prompt.0.role")
_OPERATIONS = {"tool": "execute_tool", "agent": "invoke_agent", "workflow": "invoke_workflow"}
_TYPES = {"chat": "chat", "completion": "text_completion", "rerank": "rerank", "embedding": "embeddings"}
_MODELS, _UNKNOWN = ("gen_ai.request.model", "gen_ai.response.model"), "unknown"
_INPUTS, _OUTPUTS = ("inputs", "input", "query", "args"), ("outputs", "output")


def read(span: Span) -> Facts:
    """Return what a span says, by its attributes in the words of OpenTelemetry's conventions."""
    given = {key: one for key, one in span.attributes.items() if key not in _MODELS or one != _UNKNOWN}
    given |= {"gen_ai.operation.name": _find_operation(given)} | _list_messages(given)
    entered, left = as_json(given.get(_INPUT)), as_json(given.get(_OUTPUT))
    if given["gen_ai.operation.name"] == "execute_tool":
        given |= _read_tool(given, entered, left)
    elif given["gen_ai.operation.name"] == "retrieval" and isinstance(left, dict):
        given.setdefault("gen_ai.retrieval.documents", left.get("documents"))
    facts = read_attributes(span, given, _SWITCH)
    facts.asked = facts.asked or as_text(_unwrap(entered, _INPUTS))
    facts.answered = facts.answered or as_text(unwrap_message(_unwrap(left, _OUTPUTS)))
    return facts


def _find_operation(given: Mapping[str, Any]) -> Any:
    named = given.get("gen_ai.operation.name")
    if named == "vector_db_retrieve":
        return "retrieval"
    return named or _TYPES.get(str(given.get("llm.request.type"))) or _OPERATIONS.get(str(given.get(_KIND)))


def _list_messages(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the messages of numbered attributes, as releases before 0.5 wrote them; nothing for later ones."""
    return {
        f"gen_ai.{name}.messages": records
        for name, prefix in (("input", "gen_ai.prompt"), ("output", "gen_ai.completion"))
        if (records := unflatten(given, prefix))
    }


def _read_tool(given: Mapping[str, Any], entered: Any, left: Any) -> dict[str, Any]:
    """Return a call without what LangChain's callback wraps around arguments and result."""
    name = first_of(given, ("gen_ai.tool.name", "traceloop.entity.name"))
    inner = entered.get("kwargs") if isinstance(entered, dict) else None
    found = {
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": inner.get("tool_call_id") if isinstance(inner, dict) else None,
        "gen_ai.tool.call.arguments": _unwrap(entered, _INPUTS),
        "gen_ai.tool.call.result": unwrap_message(_unwrap(left, _OUTPUTS)),
    }
    return {key: value for key, value in found.items() if value is not None}


def _unwrap(value: Any, keys: tuple[str, ...]) -> Any:
    inner = first_of(value, keys) if isinstance(value, dict) else None
    return value if inner is None else inner


VOCABULARY = Vocabulary(lambda attributes: any(mark in attributes for mark in _MARKS), read)
