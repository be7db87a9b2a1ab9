"""Anthropic's messages (`POST /v1/messages`): system text apart, content in blocks, and events with a type."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import as_object, describe_keys
from evalspec.base.text import excerpt, parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.tool_schema import DeclaredTool
from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.model import AgentReply, Sample, ToolCall
from evalspec.targets.agents.mapping import as_finish_reason, refuse_error
from evalspec.targets.agents.tool_player import render_result
from evalspec.targets.agents.wire import ToolPart, Wire, build_messages, name_model
from evalspec.targets.http.completions import read_content, report_usage

_MAX_TOKENS = 4096
_SYSTEM = "system"


def _build_messages(sample: Sample, endpoint: ChatEndpoint) -> Any:
    messages = build_messages(sample)
    system = [message["content"] for message in messages if message["role"] == _SYSTEM]
    request: dict[str, Any] = {
        "max_tokens": _MAX_TOKENS,
        "messages": [message for message in messages if message["role"] != _SYSTEM],
    }
    if system:
        request[_SYSTEM] = "\n\n".join(system)
    return name_model(request, endpoint)


def _read_message(value: Any) -> AgentReply:
    refuse_error(value)
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        raise ServiceError(f"expected a message with a list of content in the reply, but {describe_keys(value)}")
    return _assemble(content, value.get("stop_reason"), value.get("usage"))


def _assemble(content: list[Any], stop_reason: Any, usage: Any) -> AgentReply:
    """Return the reply of a message: the text of all text blocks, and its tool calls. Other blocks are not read."""
    answer = read_content(content)
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]
    calls = read_tool_calls(blocks, together=True) or None
    reason = as_finish_reason(stop_reason)
    if answer is None and not calls:
        why = f" (stop_reason {excerpt(reason)})" if reason else ""
        raise ServiceError(f"the content of the reply has neither text nor tool_use{why}")
    return AgentReply(answer or "", tool_calls=calls, finish_reason=reason, **report_usage(usage))


class _MessageEvents:
    """The events of a streamed message. Its usage is in two events, and `message_stop` is the last one."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason: Any = None
        self._is_stopped = False

    def add(self, data: str) -> bool:
        event = parse_event(data)
        refuse_error(event, retryable=True)
        if not isinstance(event, dict):
            raise ServiceError(f"expected an event with a type, but {describe_keys(event)}")
        kind = event.get("type")
        if kind == "message_start":
            self._add_usage(as_object(event.get("message")).get("usage"))
        elif kind == "content_block_start":
            self._blocks[_index(event)] = dict(as_object(event.get("content_block")))
        elif kind == "content_block_delta":
            return self._add_delta(_index(event), as_object(event.get("delta")))
        elif kind == "message_delta":
            self._stop_reason = as_object(event.get("delta")).get("stop_reason") or self._stop_reason
            self._add_usage(event.get("usage"))
        elif kind == "message_stop":
            self._is_stopped = True
        return False

    @property
    def is_over(self) -> bool:
        """See wire.StreamReader."""
        return self._is_stopped

    def find_missing_end(self, *, has_done: bool) -> str | None:  # noqa: ARG002 - the protocol's
        return None if self._is_stopped else "message_stop"

    def reply(self) -> AgentReply:
        blocks = [_close_block(self._blocks[index]) for index in sorted(self._blocks)]
        return _assemble(blocks, self._stop_reason, self._usage)

    def _add_usage(self, usage: Any) -> None:
        self._usage |= {key: count for key, count in as_object(usage).items() if count is not None}

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> bool:
        block = self._blocks.setdefault(index, {"type": "text"})
        for key in ("text", "partial_json"):
            if isinstance(delta.get(key), str):
                block[key] = block.get(key, "") + delta[key]
        return bool(delta.get("text"))


def _close_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block whose input, which arrives in pieces of JSON, is read. If it is no JSON, it stays text."""
    text = block.get("partial_json")
    kept = {key: value for key, value in block.items() if key != "partial_json"}
    if text is None:
        return kept
    try:
        return kept | {"input": json.loads(text)}
    except (ValueError, RecursionError):
        return kept | {"input": text}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _declare_tool(tool: DeclaredTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object"} | (tool.parameters or {}),
    }


def _add_results(request: dict[str, Any], reply: AgentReply, calls: Sequence[ToolCall]) -> dict[str, Any]:
    named = [(call.call_id or f"call_{number}", call) for number, call in enumerate(calls)]
    said: list[dict[str, Any]] = [{"type": "text", "text": reply.response}] if reply.response else []
    for id, call in named:
        given = call.arguments if isinstance(call.arguments, dict) else {}
        said.append({"type": "tool_use", "id": id, "name": call.name, "input": given})
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": render_result(call), "is_error": call.error is not None}
        for id, call in named
    ]
    turns = [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
    return {**request, "messages": [*request["messages"], *turns]}


ANTHROPIC = Wire(
    "anthropic",
    "Anthropic's messages",
    _build_messages,
    _read_message,
    _MessageEvents,
    path="/v1/messages",
    headers={"anthropic-version": "2023-06-01"},
    declare_tool=_declare_tool,
    add_results=_add_results,
    shows=frozenset({ToolPart.CALLS}),
)
