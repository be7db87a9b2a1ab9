"""OpenAI's responses (`POST /v1/responses`): a list of output items, and events with a type."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import as_object, describe_keys
from evalspec.base.text import excerpt, parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.tool_schema import DeclaredTool
from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.model import AgentReply, Sample, ToolCall
from evalspec.targets.agents.mapping import as_finish_reason, refuse_error
from evalspec.targets.agents.response_events import (
    RESPONSE_END,
    ends_response,
    find_type,
    has_answer_text,
    make_response_error,
    refuse_failed,
    refuse_failure,
)
from evalspec.targets.agents.tool_player import declare_function, render_result, write_arguments
from evalspec.targets.agents.wire import ToolPart, Wire, build_messages, name_model
from evalspec.targets.http.completions import report_usage
from evalspec.targets.http.error_body import as_text

_UNFINISHED = ("cancelled", "in_progress", "queued")
_TEXT_KEYS = {"output_text": "text", "refusal": "refusal"}
_FUNCTION, _CALL, _OUTPUT = "function_call", "_call", "_output"
_OTHER_CALLS = ("mcp_approval_request", "program")
"""Types of items that are calls too: one that waits for a permission, and code that calls tools."""
_INPUTS = ("queries", "action", "actions", "code", "input", "operation")
_OUTPUTS = ("output", "outputs", "results", "result")
"""Keys of what tools other than functions are given and return."""


def _build_request(sample: Sample, endpoint: ChatEndpoint) -> Any:
    return name_model({"input": build_messages(sample)}, endpoint)


def _read_response(value: Any) -> AgentReply:
    response = as_object(value)
    refuse_failure(response)
    if response.get("status") in _UNFINISHED:
        raise ServiceError(f"the response is not complete: its status is {response['status']}")
    output = response.get("output")
    if not isinstance(output, list):
        raise ServiceError(f"expected a response with a list of output in the reply, but {describe_keys(value)}")
    items = [item for item in output if isinstance(item, dict)]
    texts = list(_list_texts(items))
    calls = read_tool_calls([*_list_turns(items)])
    reason = as_finish_reason(as_object(response.get("incomplete_details")).get("reason") or response.get("status"))
    if not texts and not calls:
        why = f" (finish reason {excerpt(reason)})" if reason else ""
        raise ServiceError(f"the output of the reply has neither text nor calls of tools{why}")
    usage = report_usage(response.get("usage"))
    return AgentReply("".join(texts), tool_calls=calls, finish_reason=reason, **usage)


def _list_texts(items: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the texts of the answer. Commentary before it is left out if the reply has a later message."""
    messages = [item for item in items if item.get("type") == "message"]
    for message in [one for one in messages if one.get("phase") != "commentary"] or messages:
        content = message.get("content")
        for part in map(as_object, content if isinstance(content, list) else []):
            text = part.get(_TEXT_KEYS.get(find_type(part), ""))
            if isinstance(text, str):
                yield text


def _is_call(kind: str) -> bool:
    """Return whether an item of this type is a call of a tool, or its result."""
    return kind.endswith((_CALL, _OUTPUT)) or kind in _OTHER_CALLS


def _list_turns(items: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield calls and results for `read_tool_calls`. Functions without a result between them were called together."""
    known = [item for item in items if _is_call(find_type(item))]
    for is_function, group in groupby(known, lambda item: item["type"] == _FUNCTION):
        calls = [_spell_call(item) for item in group]
        yield from [{"role": "assistant", "tool_calls": calls}] if is_function else calls


def _spell_call(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as the call of a function, or as its output. Tools of OpenAI have no name but their type."""
    kind = find_type(item)
    own_id = item.get("call_id") or item.get("id")
    shown = [item[key] for key in _OUTPUTS if item.get(key) is not None]
    if kind.endswith(_OUTPUT):
        return {"type": f"{_FUNCTION}{_OUTPUT}", "call_id": own_id, "output": shown[0] if shown else None}
    arguments = item.get("arguments", {key: item[key] for key in _INPUTS if key in item})
    call = {"name": item.get("name") or kind.removesuffix(_CALL), "call_id": own_id, "arguments": arguments}
    if shown:
        call["output"] = shown[0]
    if item.get("error") or item.get("status") == "failed":
        call["error"] = item.get("error") or True
    return call


class _ResponseEvents:
    """The events of a streamed response. The last one has the whole response.

    Some servers send it without its output. Then the items and texts of the earlier events are the output.
    """

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, str] = {}
        self._final: Mapping[str, Any] | None = None

    def add(self, data: str) -> bool:
        """See wire.StreamReader."""
        event = parse_event(data)
        refuse_error(event, retryable=True)
        refuse_failed(event)
        if not isinstance(event, dict):
            raise ServiceError(f"expected an event with a type, but {describe_keys(event)}")
        kind, index = find_type(event), event.get("output_index")
        index = index if isinstance(index, int) else 0
        if kind == "error":
            says = f"the agent sent an error event: {excerpt(as_text(event))}"
            raise make_response_error(says, event, retryable=True)
        if ends_response(event):
            self._final = {**as_object(event.get("response")), "status": kind.removeprefix("response.")}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[index] = dict(as_object(event.get("item")))
        elif kind.startswith("response.function_call_arguments."):
            self._add_arguments(index, event)
        elif has_answer_text(event) and isinstance(event.get("delta"), str):
            self._texts[index] = self._texts.get(index, "") + event["delta"]
            return bool(event["delta"])
        return False

    @property
    def is_over(self) -> bool:
        """See wire.StreamReader."""
        return self._final is not None

    def find_missing_end(self, *, has_done: bool) -> str | None:  # noqa: ARG002 - the protocol's
        return None if self.is_over else RESPONSE_END

    def reply(self) -> AgentReply:
        """See wire.StreamReader."""
        final = self._final or {}
        return _read_response({**final, "output": final.get("output") or self._collect()})

    def _add_arguments(self, index: int, event: Mapping[str, Any]) -> None:
        """Add a piece of a call's arguments. The last event of the call repeats them as a whole."""
        call = self._items.setdefault(index, {"type": "function_call"})
        whole, piece = event.get("arguments"), event.get("delta")
        if isinstance(whole, str):
            call["arguments"] = whole
        elif isinstance(piece, str):
            call["arguments"] = f"{call.get('arguments') or ''}{piece}"

    def _collect(self) -> list[dict[str, Any]]:
        items = {index: self._items.get(index, {"type": "message"}) for index in {*self._items, *self._texts}}
        for index, text in self._texts.items():
            if not items[index].get("content"):
                items[index] = items[index] | {"content": [{"type": "output_text", "text": text}]}
        return [items[index] for index in sorted(items)]


def _declare_tool(tool: DeclaredTool) -> dict[str, Any]:
    return {"type": "function", "strict": False, **declare_function(tool)["function"]}


def _add_results(request: dict[str, Any], reply: AgentReply, calls: Sequence[ToolCall]) -> dict[str, Any]:
    said = [{"role": "assistant", "content": reply.response}] if reply.response else []
    items: list[dict[str, Any]] = []
    for number, call in enumerate(calls):
        id = call.call_id or f"call_{number}"
        items.append({"type": _FUNCTION, "call_id": id, "name": call.name, "arguments": write_arguments(call)})
        items.append({"type": f"{_FUNCTION}{_OUTPUT}", "call_id": id, "output": render_result(call)})
    return {**request, "input": [*request["input"], *said, *items]}


OPENAI_RESPONSES = Wire(
    "openai-responses",
    "OpenAI's responses",
    _build_request,
    _read_response,
    _ResponseEvents,
    path="/v1/responses",
    declare_tool=_declare_tool,
    add_results=_add_results,
    shows=frozenset(ToolPart),
)
