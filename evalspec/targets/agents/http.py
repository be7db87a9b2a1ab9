"""An agent behind HTTP: one request per sample, and a reply in one piece or as a stream of events or of JSON lines.

The texts of all events are joined. Every other part is read from the last event that has it. `[DONE]` ends a stream,
and anything after it is ignored.
"""

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.jsonl import parse_json
from evalspec.base.text import excerpt, parse_event, refuse_encoding
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample
from evalspec.targets.agents.base import AgentTarget, add_times
from evalspec.targets.agents.request_template import fill_headers, fill_url
from evalspec.targets.agents.wire import WIRES, StreamReader, build_request, find_wire, open_stream, read_reply
from evalspec.targets.http.client import (
    OutgoingRequest,
    encode_headers,
    open_client,
    parse_body,
    read_limited,
    read_whole,
    refuse_status,
    send,
)
from evalspec.targets.http.credentials import Credentials
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.keys import KeyPlace
from evalspec.targets.http.polling import JobPolling, add_headers, fetch
from evalspec.targets.http.routes import Route
from evalspec.targets.http.template import add_query, list_placeholders
from evalspec.targets.tracing import add_trace_headers

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from evalspec.targets.agents.tool_player import ToolLoop

AGENT = ServiceNames(
    "the agent", "chatEndpoint", "request and protocol", place_key="path, which is appended to the url"
)


def open_credentials(target: AgentTarget, place: KeyPlace | None = None) -> Credentials:
    """Return the credentials of an agent, which its workers share. Raises as `Credentials`."""
    return Credentials(target.endpoint.auth, AGENT.setting, place, timeout=target.endpoint.timeout_seconds)


class HttpAgent:
    """The agent of one worker, with one connection. `read`, `open_reader`: how its replies are read.

    `status`, `allowed`: of the last reply, and its header `Allow`; None: there was none.
    """

    def __init__(
        self,
        target: AgentTarget,
        route: Route,
        credentials: Credentials | None = None,
        read: Callable[[Any, ChatEndpoint, str], AgentReply] = read_reply,
        open_reader: Callable[[ChatEndpoint, str], StreamReader] = open_stream,
    ) -> None:
        """`credentials`: those of all workers, who share a token."""
        endpoint = target.endpoint
        self._target, self._parse, self._open_reader = target, read, open_reader
        self.status: int | None = None
        self.allowed: str | None = None
        self._service = replace(AGENT, credentials_key="auth") if endpoint.auth else AGENT
        self._credentials = credentials = credentials or open_credentials(target)
        self._jobs: JobPolling | None = None
        if endpoint.poll is not None:
            self._jobs = JobPolling(endpoint.poll, target.base_url, self._service, credentials, endpoint.max_retries)
        self._filled = {name: text for name, text in target.headers.items() if any(list_placeholders(text))}
        fixed = {name: text for name, text in target.headers.items() if name not in self._filled}
        headers = {"accept": f"application/json, {EVENT_STREAM}, {JSON_LINES}", **fixed}
        self._client = open_client(headers, route)
        self._loop: tuple[Sample, ToolLoop] | None = None
        """The sample whose model still makes calls. If a request fails, its retry continues there."""

    async def ask(self, sample: Sample) -> AgentReply:
        """Send one request. `timeoutSeconds` covers the time from sending to the last byte.

        Raises:
            ServiceError: there is no usable reply. The error says whether to retry.
        """
        with WIRES.attribute_errors(find_wire(self._target.endpoint).name, ServiceError):
            return await self._exchange(sample)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _exchange(self, sample: Sample) -> AgentReply:
        endpoint, player = self._target.endpoint, self._target.player
        wire, request = find_wire(endpoint), build_request(sample, endpoint)
        headers = fill_headers(self._filled, sample)
        if endpoint.session_header:
            headers.setdefault(endpoint.session_header, sample.session or uuid4().hex)
        send_one = partial(self._send, sample.question, fill_url(self._target.url, sample), headers)
        if player is None or wire.declare_tool is None or wire.add_results is None:
            return await send_one(request)
        from evalspec.targets.agents.tool_player import ToolLoop

        if self._loop is None or self._loop[0] is not sample:
            with_tools = {"tools": [wire.declare_tool(tool) for tool in player.tools.values()]} | request
            self._loop = sample, ToolLoop(with_tools, player, wire.add_results)
        reply = await self._loop[1].run(send_one)
        self._loop = None
        return reply

    async def _send(self, question: str, url: str, headers: Mapping[str, str], body: Any) -> AgentReply:
        """Return the reply to one request."""
        endpoint, content = self._target.endpoint, None
        if endpoint.method == "GET":
            url = add_query(url, body)
        else:
            content = json.dumps(body, allow_nan=False).encode()
        encoded = encode_headers(add_trace_headers(headers, self._target.headers))
        request = OutgoingRequest(url, endpoint.timeout_seconds, content, endpoint.method, encoded)
        reply = await self._credentials.send(lambda own: self._read(question, request, add_headers(request, own)))
        is_read = endpoint.response is None or endpoint.response.tool_calls is not None
        shows_calls = is_read and (self._target.player is not None or "tools" in endpoint.parameters)
        return replace(reply, tool_calls=()) if shows_calls and reply.tool_calls is None else reply

    async def _read(self, question: str, request: OutgoingRequest, sent: OutgoingRequest) -> AgentReply:
        """Return the reply to one request with its times: of a stream, of one piece, or of the job that it starts.

        `sent`: the request with the headers of its credentials.
        """
        endpoint, started = self._target.endpoint, perf_counter()
        if self._jobs is not None:
            answer = await fetch(self._client, sent, self._service)
            raw = await self._jobs.finish(self._client, request, answer, started)
            try:
                return self._read_whole(question, request, raw, started)
            except ServiceError as error:
                raise self._jobs.explain_unread(error, answer) from None
        async with send(self._client, sent, self._service) as response:
            self.status, self.allowed = response.status_code, response.headers.get("allow")
            await refuse_status(response, self._service)
            events = read_events(response)
            if events is None:
                return self._read_whole(question, request, await read_whole(response), started)
            streamed = await read_stream(
                events, self._open_reader(endpoint, question), started + endpoint.timeout_seconds
            )
            return add_times(streamed.reply, started, streamed.finished_at, streamed.first_token_at)

    def _read_whole(self, question: str, request: OutgoingRequest, raw: bytes, started: float) -> AgentReply:
        finished = perf_counter()
        value = parse_body(raw, request.url, self._service)
        return add_times(self._parse(value, self._target.endpoint, question), started, finished, None)


class StreamedReply(Struct, frozen=True):
    """The reply of a whole stream. `first_token_at`: when its first text arrived, if any; both by `perf_counter`."""

    reply: AgentReply
    first_token_at: float | None
    finished_at: float


async def read_stream(
    events: "AsyncGenerator[ServerSentEvent, None]", reader: StreamReader, times_out_at: float
) -> StreamedReply:
    """Return the reply of a whole stream. Closes the generator. `times_out_at`: by `perf_counter`.

    Raises:
        ServiceError: the stream has an error event, an unreadable event, no data or no text, or is incomplete.
    """
    has_data = ended = False
    first_token_at = None
    async with aclosing(events):
        async for event in events:
            if event.event == "error":
                raise ServiceError(f"the agent sent an error event: {excerpt(event.data)}", retryable=True)
            if event.data.strip() == STREAM_END:
                ended = True
                break
            if event.data.strip():
                has_data = True
                if reader.add(event.data) and first_token_at is None:
                    first_token_at = perf_counter()
                if ended := reader.is_over:
                    break
        finished_at = perf_counter()
        if ended:
            await read_rest(events, times_out_at - finished_at)
    if not has_data:
        raise ServiceError("the stream ended without any data", retryable=True)
    missing = reader.find_missing_end(has_done=ended)
    if missing is not None:
        raise ServiceError(f"the stream ended before {missing}", retryable=True)
    return StreamedReply(reader.reply(), first_token_at, finished_at)


EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/x-ndjson"
STREAM_END = "[DONE]"
"""The data of an event that ends a stream."""

_LINES = (JSON_LINES, "application/ndjson", "application/jsonl", "application/x-jsonlines")
_REST_SECONDS = 0.1
"""A service may keep the connection open after the end of its stream. Then the connection is closed."""

_DATA = "data:"
_COMMENT = ":"


def read_events(response: httpx.Response) -> "AsyncGenerator[ServerSentEvent, None] | None":
    """Return the events of a stream within the size limit: server-sent events, or lines of JSON as their data.

    None if the body is no stream. Reading raises a ServiceError if the body is not UTF-8 text or is cut within a line.
    The last line may lack its end if it is whole: a JSON object or array, or `[DONE]`.
    """
    content_type: str = response.headers.get("content-type", "").lower()
    if content_type.startswith(EVENT_STREAM):
        return _read_sent_events(response)
    return _read_lines(response) if content_type.startswith(_LINES) else None


async def read_rest(events: "AsyncGenerator[ServerSentEvent, None]", seconds: float) -> None:
    """Read what follows the end of a stream, which is usually nothing, so that the connection can be used again.

    Nothing in it matters any more, not even an error. `seconds`: until the request times out, which would cost the
    answer.
    """
    with suppress(ServiceError, httpx.HTTPError, OSError):
        async with asyncio.timeout(min(_REST_SECONDS, seconds / 2)):
            async for _ in events:
                pass


async def _read_lines(response: httpx.Response) -> "AsyncGenerator[ServerSentEvent, None]":
    from httpx_sse import ServerSentEvent

    beginning: list[str] = []
    async for text in _read_text(response):
        *lines, rest = text.split("\n")
        for line in lines:
            yield ServerSentEvent(data=_check_json("".join([*beginning, line])))
            beginning = []
        beginning.append(rest)
    last = "".join(beginning)
    _refuse_cut(last, last)
    yield ServerSentEvent(data=last)


def _check_json(line: str) -> str:
    """Return a line of a stream of JSON.

    Raises:
        ServiceError: the line is not JSON.
    """
    if line.strip() not in ("", STREAM_END):
        parse_event(line)
    return line


def _read_sent_events(response: httpx.Response) -> "AsyncGenerator[ServerSentEvent, None]":
    from httpx_sse import EventSource

    checked = httpx.Response(200, headers={"content-type": EVENT_STREAM}, stream=_CheckedStream(response))
    return EventSource(checked).aiter_sse()


class _CheckedStream(httpx.AsyncByteStream):
    """A body that ends with a line end, followed by a blank line, because services often omit the last one."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        beginning: list[str] = []
        async for text in _read_text(self._response):
            yield text.encode()
            end = max(text.rfind("\n"), text.rfind("\r"))
            if end >= 0:
                beginning = []
            beginning.append(text[end + 1 :])
        last = "".join(beginning)
        if not last.startswith(_COMMENT):
            _refuse_cut(last, last.removeprefix(_DATA) if last.startswith(_DATA) else None)
        yield b"\n\n"


async def _read_text(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the body as text, without a byte order mark.

    Raises:
        ServiceError: the body is not UTF-8, or ends within a character.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    size = 0
    async for chunk in read_limited(response):
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError as error:
            yield error.object[: error.start].decode("utf-8-sig" if size == held else "utf-8")
            raise refuse_encoding(size - held + error.start) from error
        size += len(chunk)
        if text:
            yield text
    if decoder.getstate()[0]:
        raise _make_cut()


def _refuse_cut(line: str, data: str | None) -> None:
    """Raise an error if the last line, which lacks its end, may be a part of a line. `data`: its data, if it has any.

    Raises:
        ServiceError: there is a line, and its data is no JSON object or array and not the end of the stream.
    """
    if line.strip() and (data is None or not _is_whole(data.strip())):
        raise _make_cut()


def _is_whole(data: str) -> bool:
    if data == STREAM_END:
        return True
    try:
        return isinstance(parse_json(data), dict | list)
    except (ValueError, RecursionError):
        return False


def _make_cut() -> ServiceError:
    return ServiceError("the stream ended in the middle of a line", retryable=True)
