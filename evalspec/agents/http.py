"""An agent behind HTTP: one request a sample, read to its last byte within a time and a size."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from time import perf_counter

import httpx
from httpx_sse import EventSource, ServerSentEvent

from evalspec.agents.base import AgentTarget
from evalspec.agents.sse import read_stream
from evalspec.agents.wire import build_request, read_reply
from evalspec.json_http.connection import open_client, parse_body, read_beginning, read_limited
from evalspec.json_http.failures import ServiceWords, explain_failure, explain_status
from evalspec.json_http.routes import Route
from evalspec.records import AgentReply, Sample

_EVENT_STREAM = "text/event-stream"
_WORDS = ServiceWords("the agent", "chatEndpoint", "request and protocol")


class HttpAgent:
    """One worker's agent, with one connection of its own."""

    def __init__(self, target: AgentTarget, route: Route) -> None:
        self._target = target
        self._timeout = target.endpoint.timeout_seconds
        headers = {"accept": f"application/json, {_EVENT_STREAM}", **target.headers}
        self._client = open_client(headers, route, self._timeout)

    async def ask(self, sample: Sample) -> AgentReply:
        """One attempt, bounded by `timeoutSeconds` from sending to the last byte.

        Raises:
            AgentError: no usable reply; it says whether another attempt may help.
        """
        request = build_request(sample, self._target.endpoint)
        body = json.dumps(request, allow_nan=False).encode()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, OverflowError, ExceptionGroup) as error:
            # Without the cause: h11 quotes the header that it refuses. The last three are what a url can set off.
            raise explain_failure(error, self._target.url, self._timeout, _WORDS) from None

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> AgentReply:
        started = perf_counter()
        async with self._client.stream("POST", self._target.url, content=body) as response:
            if not response.is_success:
                raise explain_status(response, await read_beginning(response), _WORDS)
            if response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
                reply = await read_stream(_limited_events(response), self._target.endpoint)
                finished = perf_counter()
            else:
                raw = b"".join([chunk async for chunk in read_limited(response)])
                finished = perf_counter()
                reply = read_reply(parse_body(raw, self._target.url, _WORDS), self._target.endpoint)
        return replace(reply, latency_ms=(finished - started) * 1000)


class _LimitedStream(httpx.AsyncByteStream):
    """A body within the size limit, and a blank line after it: the one that ends an event is often forgotten."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in read_limited(self._response):
            yield chunk
        yield b"\n\n"


def _limited_events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent, None]:
    limited = httpx.Response(200, headers={"content-type": _EVENT_STREAM}, stream=_LimitedStream(response))
    return EventSource(limited).aiter_sse()
