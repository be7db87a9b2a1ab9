"""Chat completions of OpenAI and compatible servers."""

from collections.abc import Sequence
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import describe_keys
from evalspec.base.text import excerpt, parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.model import AgentReply, Sample, ToolCall
from evalspec.targets.agents.mapping import read_finish_reason, refuse_error
from evalspec.targets.agents.tool_player import declare_function, render_result, write_arguments
from evalspec.targets.agents.wire import StreamReader, ToolPart, Wire, build_messages, first_string, name_model
from evalspec.targets.http.completions import SingleChoice, first_choice, read_content, report_usage
from evalspec.targets.http.error_body import refuse_mark


def _build_chat_completion(sample: Sample, endpoint: ChatEndpoint) -> Any:
    return name_model({"messages": build_messages(sample)}, endpoint)


def _read_chat_completion(value: Any) -> AgentReply:
    message = _completion_message(value)
    calls = message.get("tool_calls")
    tool_calls = read_tool_calls(calls, together=True) if isinstance(calls, list) else None
    answer = read_content(message.get("content"))
    if answer is None:
        answer = first_string(message, ["refusal"])
    finish_reason = read_finish_reason(value)
    if answer is None and not tool_calls:
        why = f" (finish_reason {excerpt(finish_reason)})" if finish_reason else ""
        raise ServiceError(f"choices[0].message of the reply has neither text content nor tool_calls{why}")
    if not answer and not tool_calls:
        refuse_mark(value)
    usage = report_usage(value.get("usage"))
    return AgentReply(answer or "", tool_calls=tool_calls, finish_reason=finish_reason, **usage)


def _completion_message(value: Any) -> dict[str, Any]:
    refuse_error(value)
    expected = "expected a chat completion with choices[0].message"
    if not isinstance(value, dict):
        raise ServiceError(f"{expected} in the reply, but {describe_keys(value)}")
    choice = first_choice(value)
    refuse_error(choice)
    message = choice.get("message") if choice else None
    if not isinstance(message, dict):
        raise ServiceError(f"{expected} in the reply, but there is none; {describe_keys(value)}")
    return message


class _CompletionChunks(StreamReader):
    """openai-compatible chunks: deltas of the content and of tool calls, and usage in the last chunk."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._choice = SingleChoice()

    def find_missing_end(self, *, has_done: bool) -> str | None:
        return None if has_done or self._finish_reason is not None else "finish_reason or [DONE]"

    def add(self, data: str) -> bool:
        value = parse_event(data)
        refuse_error(value, retryable=True)
        choice = first_choice(value) or {}
        refuse_error(choice, retryable=True)
        self._choice.check(choice)
        self._finish_reason = read_finish_reason(value) or self._finish_reason
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if delta.get("content") == "" and not delta.get("tool_calls"):
                refuse_mark(value, retryable=True)
            self._add_delta(delta)
        usage = report_usage(value.get("usage")) if isinstance(value, dict) else {}
        if "usage" in usage or not self._usage:
            self._usage = usage
        return any(self._parts)

    def reply(self) -> AgentReply:
        if not self._parts and not self._calls:
            raise ServiceError("no chunk of the stream has text at choices[0].delta.content, or tool_calls")
        calls = read_tool_calls([self._calls[index] for index in sorted(self._calls)], together=True) or None
        answer, reason = "".join(self._parts), self._finish_reason
        return AgentReply(answer, tool_calls=calls, finish_reason=reason, **self._usage)

    def _add_delta(self, delta: dict[str, Any]) -> None:
        part = read_content(delta.get("content"))
        if part is None:
            part = first_string(delta, ["refusal"])
        if part is not None:
            self._parts.append(part)
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                index = call.get("index")
                self._add_call(index if isinstance(index, int) else position, call)

    def _add_call(self, index: int, call: dict[str, Any]) -> None:
        """Add a delta of a tool call. Name and id arrive once, arguments in pieces."""
        whole = self._calls.setdefault(index, {"function": {"arguments": ""}})
        whole |= {key: value for key, value in call.items() if key in ("id", "type") and value}
        function = call.get("function")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            if name:
                whole["function"]["name"] = name
            whole["function"]["arguments"] += arguments if isinstance(arguments, str) else ""


def _add_results(request: dict[str, Any], reply: AgentReply, calls: Sequence[ToolCall]) -> dict[str, Any]:
    named = [(call.call_id or f"call_{number}", call) for number, call in enumerate(calls)]
    made = [
        {"id": id, "type": "function", "function": {"name": call.name, "arguments": write_arguments(call)}}
        for id, call in named
    ]
    said = {"role": "assistant", "content": reply.response or None, "tool_calls": made}
    results = [{"role": "tool", "tool_call_id": id, "content": render_result(call)} for id, call in named]
    return {**request, "messages": [*request["messages"], said, *results]}


OPENAI_COMPATIBLE = Wire(
    "openai-compatible",
    "OpenAI's chat completions",
    _build_chat_completion,
    _read_chat_completion,
    _CompletionChunks,
    declare_tool=declare_function,
    add_results=_add_results,
    shows=frozenset({ToolPart.CALLS}),
)
