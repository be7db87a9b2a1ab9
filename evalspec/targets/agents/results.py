"""What the user's agent returns, as a reply: text, a dict, or an answer of LangChain or LlamaIndex."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.inputs.tool_calls import count_model_calls, read_tool_calls
from evalspec.inputs.user_code.calls import describe_exception, read_passage
from evalspec.model import AgentReply
from evalspec.model.base import built
from evalspec.model.exchanges import ModelCall
from evalspec.model.usage import add_up
from evalspec.targets.agents.mapping import as_finish_reason
from evalspec.targets.agents.replay import read_reply
from evalspec.targets.http.completions import read_content, report_usage

RESPONSE = "response"
_CHAIN_KEYS = ("answer", "result", "output")
ANSWER_KEYS = (RESPONSE, *_CHAIN_KEYS)
_CONTEXT_KEYS = ("context", "source_documents", "documents")
_REASON_KEYS = ("finish_reason", "stop_reason", "done_reason")
_MESSAGES = "messages"
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "tool": "tool", "system": "system"}
"""The roles of LangChain's messages by their types."""
_OF_USER = ("user", "human")


def read_result(result: Any, source: str) -> AgentReply:
    """Return the reply in what an agent returned. `source`: what messages call its origin.

    Raises:
        ServiceError: It is neither text nor a known answer, or has unknown keys or values of a wrong type.
    """
    try:
        return _read(result, source)
    except ServiceError:
        raise
    except Exception as error:
        raise ServiceError(f"{source} cannot be used: {describe_exception(error)}") from error


def read_text(piece: Any) -> str | None:
    """Return the text in a piece of a stream, or None if it has none."""
    if isinstance(piece, dict):
        return next((text for key in ANSWER_KEYS if key in piece and (text := read_text(piece[key]))), None)
    return read_content(getattr(piece, "content", piece))


def _read(result: Any, source: str) -> AgentReply:
    if isinstance(result, str):
        return AgentReply(str(result))  # of a subclass, such as LangChain's, exactly the text
    if isinstance(result, AgentReply):
        return _read_own(result)
    if isinstance(result, dict):
        is_chain = RESPONSE not in result and any(key in result for key in (*_CHAIN_KEYS, _MESSAGES))
        return _read_chain(result, source) if is_chain else _read_record(result, source)
    if hasattr(result, "content"):
        return _read_message(result, source)
    if hasattr(result, RESPONSE) and hasattr(result, "source_nodes"):
        return _read_chain({"answer": result.response, "context": result.source_nodes}, source)
    expected = "expected text, or a dict with the key `response`"
    raise ServiceError(f"{source} is a value of type {type(result).__name__}; {expected}")


def _read_own(reply: AgentReply) -> AgentReply:
    """Return a reply that code made, with every value checked. Its tool calls may be dicts in any spelling."""
    fields = to_builtins(reply)
    if fields.get("toolCalls") is not None:
        fields["toolCalls"] = to_builtins(read_tool_calls(fields["toolCalls"]))
    return convert(fields, built(AgentReply))


def _read_record(result: dict[Any, Any], source: str) -> AgentReply:
    reply, problems = read_reply(result)
    if problems or RESPONSE not in result:
        keys = ", ".join(map(str, result)) or "none"
        said = "; ".join(problems) if RESPONSE in result else f"it has no key `response` (keys: {keys})"
        raise ServiceError(f"{source} is a dict that cannot be used: {said}")
    return reply


def _read_message(message: Any, source: str) -> AgentReply:
    """Return a message of LangChain as a reply. Of content in blocks, only text is read."""
    calls = read_tool_calls(getattr(message, "tool_calls", None) or (), together=True) or None
    text = read_content(message.content)
    if text is None and isinstance(message.content, list):
        text = "".join(block for block in message.content if isinstance(block, str))
    if text is None:
        raise ServiceError(f"{source} is a {type(message).__name__} without text")
    described = getattr(message, "response_metadata", None)
    reasons = [described[key] for key in _REASON_KEYS if key in described] if isinstance(described, Mapping) else []
    return AgentReply(
        text,
        tool_calls=calls,
        finish_reason=as_finish_reason(reasons[0]) if reasons else None,
        **report_usage(getattr(message, "usage_metadata", None)),
    )


def _read_chain(result: dict[Any, Any], source: str) -> AgentReply:
    """Return what a chain, a graph or an engine returned as a reply. Its other keys are its own."""
    key = next((key for key in _CHAIN_KEYS if key in result), None)
    answer = result[_MESSAGES][-1] if key is None else result[key]
    if not isinstance(answer, str) and not hasattr(answer, "content"):
        where = f"{_MESSAGES}[-1]" if key is None else key
        raise ServiceError(f"{source} has a value of type {type(answer).__name__} as {where}, not text")
    reply = _read(answer, source)
    if key is None:
        reply = _add_calls(reply, result[_MESSAGES])
    found = next((result[key] for key in _CONTEXT_KEYS if result.get(key) is not None), None)
    if found is None:
        return reply
    texts, ids = _read_contexts([found] if isinstance(found, str) else found, source)
    return replace(reply, retrieved_contexts=texts, retrieved_context_ids=ids)


def _add_calls(reply: AgentReply, messages: Sequence[Any]) -> AgentReply:
    """Return the reply of a graph with the calls, results, steps and tokens since the user's last message."""
    spoken = [_describe_message(message) for message in messages]
    start = max((place for place, one in enumerate(spoken, 1) if one["role"] in _OF_USER), default=0)
    made, models = spoken[start:], zip(messages[start:], spoken[start:], strict=True)
    usages = [getattr(message, "usage_metadata", None) for message, one in models if one["role"] == "assistant"]
    used = [AgentReply("", **report_usage(usage)) for usage in usages] or [reply]
    return replace(
        reply,
        tool_calls=read_tool_calls(made),
        steps=count_model_calls(made),
        model_calls=tuple(ModelCall(usage=one.usage) for one in used),
        usage=add_up([one.usage for one in used]),
        unread_usage=next((one.unread_usage for one in used if one.unread_usage is not None), None),
    )


def _describe_message(message: Any) -> dict[str, Any]:
    """Return the role of a message, and its calls or its result. Calls may also be blocks of a content: not twice."""
    if isinstance(message, Mapping):
        return {"role": "", **message}
    role = _ROLES.get(getattr(message, "type", ""), "")
    if role == "tool":
        keys = ("content", "tool_call_id", "name", "status")
        return {"role": role, **{key: getattr(message, key, None) for key in keys}}
    return {"role": role, "tool_calls": list(getattr(message, "tool_calls", None) or ())}


def _read_contexts(items: Any, source: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the texts of passages, and the ids of their documents if all have one."""
    texts, ids = [], []
    for item in items:
        passage = None if isinstance(item, str) else read_passage(item)
        if passage is None and not isinstance(item, str):
            message = f"{source} has a passage of type {type(item).__name__}; expected text or a document"
            raise ServiceError(message)
        texts.append(item if passage is None else passage.text)
        known = None if passage is None else passage.id if passage.document_id is None else passage.document_id
        ids += [] if known is None else [str(known)]
    return tuple(texts), tuple(ids) if len(ids) == len(texts) else None
