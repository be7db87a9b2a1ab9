"""Ollama's own API (`POST /api/chat`, `/api/generate`): whole replies, or a stream of JSON lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import describe_keys
from evalspec.base.text import parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.inputs.usage import read_usage
from evalspec.model import AgentReply, Sample, ToolCall
from evalspec.targets.agents.mapping import as_finish_reason, refuse_error
from evalspec.targets.agents.tool_player import declare_function, render_result
from evalspec.targets.agents.wire import ToolPart, Wire, build_messages, name_model

_GENERATE = "/generate"


def _build_request(sample: Sample, endpoint: ChatEndpoint) -> Any:
    """Return a chat, or for the path `/api/generate` a prompt, which cannot hold a conversation."""
    if not endpoint.path.endswith(_GENERATE):
        return name_model({"stream": False, "messages": build_messages(sample)}, endpoint)
    if not isinstance(sample.user_input, str):
        raise ServiceError("the sample is a conversation, which /api/generate does not take; set path: /api/chat")
    return name_model({"stream": False, "prompt": sample.user_input}, endpoint)


def _read_reply(value: Any) -> AgentReply:
    refuse_error(value)
    stream = _Lines()
    stream.add_value(value)
    return stream.reply()


class _Lines:
    """The lines of a reply. The last one has `done`, and the usage."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._calls: list[Any] = []
        self._last: Any = None

    def add(self, data: str) -> bool:
        value = parse_event(data)
        refuse_error(value, retryable=True)
        return self.add_value(value)

    def add_value(self, value: Any) -> bool:
        """Read one line, and return whether it has text."""
        self._last = value
        line = value if isinstance(value, Mapping) else {}
        message = line.get("message")
        holder = message if isinstance(message, Mapping) else {"content": line.get("response")}
        text, calls = holder.get("content"), holder.get("tool_calls")
        self._calls += calls if isinstance(calls, list) else []
        if isinstance(text, str):
            self._parts.append(text)
        return bool(text)

    @property
    def is_over(self) -> bool:
        """See wire.StreamReader."""
        return isinstance(self._last, Mapping) and self._last.get("done") is True

    def find_missing_end(self, *, has_done: bool) -> str | None:  # noqa: ARG002 - the protocol's
        return None if self.is_over else "done: true"

    def reply(self) -> AgentReply:
        if not self._parts and not self._calls:
            message = f"expected text at message.content or response in the reply, but {describe_keys(self._last)}"
            raise ServiceError(message)
        return AgentReply(
            "".join(self._parts),
            tool_calls=read_tool_calls(self._calls, together=True) or None,
            usage=read_usage(self._last),
            finish_reason=as_finish_reason(self._last.get("done_reason")) or None,
        )


def _add_results(request: dict[str, Any], reply: AgentReply, calls: Sequence[ToolCall]) -> dict[str, Any]:
    made = [{"function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    said = {"role": "assistant", "content": reply.response, "tool_calls": made}
    results = [{"role": "tool", "tool_name": call.name, "content": render_result(call)} for call in calls]
    return {**request, "messages": [*request["messages"], said, *results]}


OLLAMA = Wire(
    "ollama",
    "Ollama's chat and generate",
    _build_request,
    _read_reply,
    _Lines,
    path="/api/chat",
    declare_tool=declare_function,
    add_results=_add_results,
    shows=frozenset({ToolPart.CALLS}),
)
