"""An agent behind HTTP: one request per sample, and a reply in one piece or as a stream of events or of JSON lines.

The texts of all events are joined. Every other part is read from the last event that has it. `[DONE]` ends a stream,
and anything after it is ignored.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.text import excerpt
from evalspec.model import FIRST_TOKEN, AgentReply, Sample, SearchTrace
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.request_template import fill_headers
from evalspec.targets.agents.wire import StreamReader, blaming, build_request, open_stream, read_reply
from evalspec.targets.http.client import (
    OutgoingRequest,
    encode_headers,
    open_client,
    parse_body,
    read_whole,
    refuse_status,
    send,
)
from evalspec.targets.http.events import EVENT_STREAM, JSON_LINES, STREAM_END, read_events, read_rest
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.routes import Route
from evalspec.targets.http.template import list_placeholders

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

AGENT = ServiceNames(
    "the agent", "chatEndpoint", "request and protocol", place_key="path, which is appended to the url"
)


class HttpAgent:
    """The agent of one worker, with one connection."""

    def __init__(self, target: AgentTarget, route: Route) -> None:
        self._target = target
        self._filled = {name: text for name, text in target.headers.items() if any(list_placeholders(text))}
        fixed = {name: text for name, text in target.headers.items() if name not in self._filled}
        headers = {"accept": f"application/json, {EVENT_STREAM}, {JSON_LINES}", **fixed}
        self._client = open_client(headers, route)

    async def ask(self, sample: Sample) -> AgentReply:
        """Send one request. `timeoutSeconds` covers the time from sending to the last byte.

        Raises:
            ServiceError: there is no usable reply. The error says whether to retry.
        """
        with blaming(self._target.endpoint):
            return await self._exchange(sample)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _exchange(self, sample: Sample) -> AgentReply:
        url, endpoint = self._target.url, self._target.endpoint
        content = json.dumps(build_request(sample, endpoint), allow_nan=False).encode()
        headers = fill_headers(self._filled, sample)
        if endpoint.session_header:
            headers.setdefault(endpoint.session_header, uuid4().hex)
        request = OutgoingRequest(url, endpoint.timeout_seconds, content, headers=encode_headers(headers))
        started = perf_counter()
        async with send(self._client, request, AGENT) as response:
            await refuse_status(response, AGENT)
            events = read_events(response)
            if events is not None:
                streamed = await read_stream(events, open_stream(endpoint), started + endpoint.timeout_seconds)
                finished = streamed.finished_at
                reply = _add_first_token(streamed.reply, streamed.first_token_at, started)
            else:
                raw = await read_whole(response)
                finished = perf_counter()
                reply = read_reply(parse_body(raw, url, AGENT), endpoint)
        return replace(reply, latency_ms=(finished - started) * 1000)


def _add_first_token(reply: AgentReply, first_token_at: float | None, started: float) -> AgentReply:
    if first_token_at is None:
        return reply
    return replace(reply, trace=SearchTrace({FIRST_TOKEN: (first_token_at - started) * 1000}))


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
