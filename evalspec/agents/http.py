"""An agent behind HTTP: one request a sample, read to its last byte within a time and a size."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter

import httpx
from httpx_sse import EventSource, ServerSentEvent

from evalspec import __version__
from evalspec.agents.base import AgentTarget
from evalspec.agents.http_errors import explain_failure, explain_status, looks_like_html, shown_url
from evalspec.agents.reply_text import decode_reply, parse_reply_json
from evalspec.agents.sse import read_stream
from evalspec.agents.wire import build_request, read_reply
from evalspec.errors import AgentError
from evalspec.records import AgentReply, Sample

MAX_REPLY_BYTES = 10 * 1_048_576
_ERROR_BODY_BYTES = 4096
_MAX_CONNECT_SECONDS = 10.0
_EVENT_STREAM = "text/event-stream"
_DEFAULT_HEADERS = {
    "accept": f"application/json, {_EVENT_STREAM}",
    "content-type": "application/json",
    "user-agent": f"evalspec/{__version__}",
}


def create_ssl_context() -> ssl.SSLContext:
    """The TLS settings that all workers of a run share: each costs tens of milliseconds. Honours SSL_CERT_FILE."""
    return httpx.create_ssl_context()


class HttpAgent:
    """One worker's agent, with one connection of its own: a big shared pool costs O(workers) a request.

    Cookies are not kept: no sample may see the session of another. Redirects are not followed. Proxies are taken from
    the environment.
    """

    def __init__(self, target: AgentTarget, ssl_context: ssl.SSLContext) -> None:
        self._target = target
        self._timeout = target.endpoint.timeout_seconds
        self._client = httpx.AsyncClient(
            headers=_encode_headers(
                {**_DEFAULT_HEADERS, **{key.lower(): text for key, text in target.headers.items()}}
            ),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            verify=ssl_context,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            # Half of the time at most, so that a host that does not answer is told from an agent that is slow.
            timeout=httpx.Timeout(self._timeout, connect=min(_MAX_CONNECT_SECONDS, self._timeout / 2)),
            follow_redirects=False,
        )

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
            raise explain_failure(error, self._target.url, self._timeout) from None

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> AgentReply:
        started = perf_counter()
        async with self._client.stream("POST", self._target.url, content=body) as response:
            if not response.is_success:
                raise explain_status(response, await _read_beginning(response))
            if response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
                reply = await read_stream(_limited_events(response), self._target.endpoint)
                finished = perf_counter()
            else:
                raw = b"".join([chunk async for chunk in _limited(response)])
                finished = perf_counter()
                reply = self._read_body(raw)
        return replace(reply, latency_ms=(finished - started) * 1000)

    def _read_body(self, raw: bytes) -> AgentReply:
        text = decode_reply(raw)
        if not text.strip():
            raise AgentError(f"{shown_url(self._target.url)} answered with an empty body; JSON was expected")
        if looks_like_html(text):
            where = shown_url(self._target.url)
            raise AgentError(f"{where} answered with an HTML page; JSON was expected; check chatEndpoint.path")
        return read_reply(parse_reply_json(text), self._target.endpoint)


def _encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """As bytes, because httpx would refuse text outside ASCII. The line end of a secret's file is no part of it."""
    escape = "surrogateescape"  # bytes of the environment that are not UTF-8 leave as they came
    return [(name.encode(errors=escape), text.strip().encode(errors=escape)) for name, text in headers.items()]


async def _limited(response: httpx.Response) -> AsyncIterator[bytes]:
    """The decoded body in pieces.

    Raises:
        AgentError: it is longer than MAX_REPLY_BYTES.
    """
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise AgentError(f"the reply is larger than {MAX_REPLY_BYTES:,} bytes; an answer was expected")
        yield chunk


class _LimitedStream(httpx.AsyncByteStream):
    """A body within the size limit, and a blank line after it: the one that ends an event is often forgotten."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in _limited(self._response):
            yield chunk
        yield b"\n\n"


def _limited_events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent, None]:
    limited = httpx.Response(200, headers={"content-type": _EVENT_STREAM}, stream=_LimitedStream(response))
    return EventSource(limited).aiter_sse()


async def _read_beginning(response: httpx.Response) -> str:
    beginning = b""
    async for chunk in response.aiter_bytes():
        beginning += chunk
        if len(beginning) >= _ERROR_BODY_BYTES:
            break
    return beginning[:_ERROR_BODY_BYTES].decode(errors="replace")
