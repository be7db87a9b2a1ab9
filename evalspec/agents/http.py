"""An agent behind HTTP: one request per sample, and a reply in one piece or as server-sent events.

The texts of all events are joined. Every other part is read from the last event that has it. `[DONE]` ends a stream,
and anything after it is not read.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from evalspec.agents.base import AgentTarget
from evalspec.agents.mapping import (
    assemble_mapped,
    read_answer,
    read_finish_reason,
    refuse_error,
    refuse_mark,
)
from evalspec.agents.wire import ANSWER_KEYS, build_request, first_string, read_reply
from evalspec.errors import ServiceError
from evalspec.http.client import (
    EVENT_STREAM,
    OutgoingRequest,
    is_event_stream,
    open_client,
    parse_body,
    read_events,
    read_whole,
    refuse_status,
    send,
)
from evalspec.http.completions import first_choice, read_content, read_usage
from evalspec.http.error_body import is_marked_as_error
from evalspec.http.failures import Service
from evalspec.http.json_path import mentions
from evalspec.http.routes import Route
from evalspec.http.text import excerpt, parse_reply_json
from evalspec.manifest.schema import ChatEndpoint, ResponseMapping
from evalspec.model import AgentReply, Sample, Usage

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

AGENT = Service("the agent", "chatEndpoint", "request and protocol")
_END = "[DONE]"
_DELTA_KEYS = (*ANSWER_KEYS, "delta", "text")


class HttpAgent:
    """The agent of one worker, with one connection."""

    def __init__(self, target: AgentTarget, route: Route) -> None:
        self._target = target
        headers = {"accept": f"application/json, {EVENT_STREAM}", **target.headers}
        self._client = open_client(headers, route)

    async def ask(self, sample: Sample) -> AgentReply:
        """Send one request. `timeoutSeconds` covers the time from sending to the last byte.

        Raises:
            ServiceError: there is no usable reply. The error says whether to retry.
        """
        url, endpoint = self._target.url, self._target.endpoint
        content = json.dumps(build_request(sample, endpoint), allow_nan=False).encode()
        started = perf_counter()
        async with send(self._client, OutgoingRequest(url, endpoint.timeout_seconds, content), AGENT) as response:
            await refuse_status(response, AGENT)
            if is_event_stream(response):
                reply = await read_stream(read_events(response), endpoint)
                finished = perf_counter()
            else:
                raw = await read_whole(response)
                finished = perf_counter()
                reply = read_reply(parse_body(raw, url, AGENT), endpoint)
        return replace(reply, latency_ms=(finished - started) * 1000)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()


async def read_stream(events: "AsyncGenerator[ServerSentEvent, None]", endpoint: ChatEndpoint) -> AgentReply:
    """Return the reply of a whole stream, and close the generator.

    Raises:
        ServiceError: the stream has an error event, an unreadable event, no data or no text, or is incomplete.
    """
    gathering = _gathering(endpoint)
    has_data = ended = False
    async with aclosing(events):
        async for event in events:
            if event.event == "error":
                raise ServiceError(f"the agent sent an error event: {excerpt(event.data)}", retryable=True)
            if event.data.strip() == _END:
                ended = True
                break
            if event.data:
                has_data = True
                gathering.add(event.data)
    if not has_data:
        raise ServiceError("the stream ended without any data", retryable=True)
    if endpoint.protocol == "openai-compatible" and not (ended or gathering.finished):
        raise ServiceError(f"the stream ended before finish_reason or {_END}", retryable=True)
    return gathering.reply()


class _Gathering(Protocol):
    """Collects the events of one kind of stream. `finished`: an event said that the answer is complete."""

    @property
    def finished(self) -> bool: ...

    def add(self, data: str) -> None: ...

    def reply(self) -> AgentReply: ...


def _gathering(endpoint: ChatEndpoint) -> _Gathering:
    if endpoint.response is not None:
        return _MappedEvents(endpoint.response)
    return _CompletionChunks() if endpoint.protocol == "openai-compatible" else _PlainEvents()


def _parse_event(data: str) -> Any:
    return parse_reply_json(data, "an event of the stream")


class _PlainEvents:
    """Events of AgentSpec's protocol: JSON objects with text under a known key, or plain text."""

    def __init__(self) -> None:
        self.finished = False
        self._parts: list[str] = []

    def add(self, data: str) -> None:
        if data.lstrip().startswith("{"):
            value = _parse_event(data)
            refuse_error(value, retryable=True)
            part = first_string(value, _DELTA_KEYS)
            if part is not None and is_marked_as_error(value):
                raise ServiceError(f"an event of the stream is marked as an error: {excerpt(part)}", retryable=True)
        else:
            part = data
        if part is not None:
            self._parts.append(part)

    def reply(self) -> AgentReply:
        if not self._parts:
            keys = f"{', '.join(_DELTA_KEYS[:-1])} or {_DELTA_KEYS[-1]}"
            raise ServiceError(f"no event of the stream has text at {keys}; set chatEndpoint.response.answer")
        return AgentReply("".join(self._parts))


class _MappedEvents:
    """Events read with the response mapping. Answers are joined; other parts come from the last event with them."""

    def __init__(self, mapping: ResponseMapping) -> None:
        self.finished = False
        self._mapping = mapping
        self._parts: list[str] = []
        keys = type(mapping).model_fields.keys() - {"finish_reason"}
        self._queries = {key: text for key in keys if (text := getattr(mapping, key))}
        self._latest: dict[str, Any] = {key: {} for key in type(mapping).model_fields}

    def add(self, data: str) -> None:
        value = _parse_event(data)
        refuse_error(value, self._mapping, retryable=True)
        if read_finish_reason(value, self._mapping.finish_reason) is not None:
            self._latest["finish_reason"] = value
        self.finished = bool(self.finished or self._latest["finish_reason"] or read_finish_reason(value))
        part = read_answer(value, self._mapping)
        if part is not None:
            self._parts.append(part)
        self._latest |= {key: value for key, query in self._queries.items() if mentions(value, query)}

    def reply(self) -> AgentReply:
        if not self._parts:
            raise ServiceError(f"no event of the stream has a value at {self._mapping.answer} (response.answer)")
        return assemble_mapped("".join(self._parts), self._latest, self._mapping)


class _CompletionChunks:
    """openai-compatible chunks: deltas of the content and of tool calls, and usage in the last chunk."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Usage | None = None
        self._finish_reason: str | None = None

    @property
    def finished(self) -> bool:
        return self._finish_reason is not None

    def add(self, data: str) -> None:
        value = _parse_event(data)
        refuse_error(value, retryable=True)
        choice = first_choice(value) or {}
        refuse_error(choice, retryable=True)
        self._finish_reason = read_finish_reason(value) or self._finish_reason
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if delta.get("content") == "" and not delta.get("tool_calls"):
                refuse_mark(value, retryable=True)
            self._add_delta(delta)
        usage = read_usage(value.get("usage")) if isinstance(value, dict) else None
        self._usage = usage or self._usage

    def reply(self) -> AgentReply:
        if not self._parts and not self._calls:
            raise ServiceError("no chunk of the stream has text at choices[0].delta.content, or tool_calls")
        calls = tuple(self._calls[index] for index in sorted(self._calls)) or None
        answer, reason = "".join(self._parts), self._finish_reason
        return AgentReply(answer, tool_calls=calls, usage=self._usage, finish_reason=reason)

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
