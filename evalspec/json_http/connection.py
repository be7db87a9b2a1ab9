"""Connections to a service, and bodies read within a size."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from evalspec import __version__
from evalspec.errors import AgentError
from evalspec.json_http.failures import ServiceWords, looks_like_html, shown_url
from evalspec.json_http.hosts import HOOKS
from evalspec.json_http.routes import Route
from evalspec.json_http.text import decode_reply, excerpt, parse_reply_json
from evalspec.json_http.unpacking import MAX_UNPACKED_BYTES, TooLarge, iterate_unpacked

MAX_REPLY_BYTES = 10 * 1_048_576
_ERROR_BODY_BYTES = 4096
_MAX_CONNECT_SECONDS = 10.0
_DEFAULT_HEADERS = {
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": f"evalspec/{__version__}",
}


def open_client(headers: Mapping[str, str], route: Route, timeout: float) -> httpx.AsyncClient:
    """A client with one connection: a big shared pool costs O(workers) a request. `timeout`: the exchange's, seconds.

    Cookies are not kept: no sample may see the session of another. Redirects are not followed.
    """
    return httpx.AsyncClient(
        headers=encode_headers({**_DEFAULT_HEADERS, **{key.lower(): text for key, text in headers.items()}}),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        verify=route.ssl_context,
        proxy=route.proxy,
        trust_env=False,
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        timeout=bound_waits(timeout),
        follow_redirects=False,
        event_hooks=HOOKS,
    )


def bound_waits(timeout: float) -> httpx.Timeout:
    """Half of the time at most to connect, so that a host that does not answer is told from a service that is slow."""
    return httpx.Timeout(timeout, connect=min(_MAX_CONNECT_SECONDS, timeout / 2))


class Connections:
    """Clients of one connection each, as many as calls run at once; one that is free serves the next call."""

    def __init__(self, open_one: Callable[[], httpx.AsyncClient]) -> None:
        self._open = open_one
        self._free: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def take(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that is nobody else's meanwhile."""
        client = self._free.pop() if self._free else self._open()
        try:
            yield client
        finally:
            self._free.append(client)

    async def aclose(self) -> None:
        """Close all connections; no call is under way."""
        while self._free:
            await self._free.pop().aclose()


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """As bytes, because httpx would refuse text outside ASCII. The line end of a secret's file is no part of it."""
    escape = "surrogateescape"  # bytes of the environment that are not UTF-8 leave as they came
    return [(name.encode(errors=escape), text.strip().encode(errors=escape)) for name, text in headers.items()]


async def read_limited(response: httpx.Response, limit: int = MAX_REPLY_BYTES) -> AsyncIterator[bytes]:
    """The unpacked body in pieces.

    Raises:
        AgentError: it is longer than `limit`, or unpacks to far more on the way.
    """
    size = 0
    encoding = response.headers.get("content-encoding")
    unpacked = f" when unpacked (content-encoding: {excerpt(encoding)})" if encoding else ""
    try:
        async for chunk in iterate_unpacked(response):
            size += len(chunk)
            if size > limit:
                raise AgentError(f"the reply is larger than {limit:,} bytes{unpacked}; an answer was expected")
            yield chunk
    except TooLarge:
        raise AgentError(f"the reply is larger than {MAX_UNPACKED_BYTES:,} bytes{unpacked}") from None


async def read_beginning(response: httpx.Response) -> str:
    """The first few KiB of a body, to quote from, as far as they can be unpacked."""
    beginning = b""
    with suppress(TooLarge, httpx.DecodingError):
        async for chunk in iterate_unpacked(response):
            beginning += chunk
            if len(beginning) >= _ERROR_BODY_BYTES:
                break
    return beginning[:_ERROR_BODY_BYTES].decode(errors="replace")


def parse_body(raw: bytes, url: str, words: ServiceWords) -> Any:
    """The JSON value of a whole body.

    Raises:
        AgentError: it is empty, a page for people, or not JSON.
    """
    text = decode_reply(raw)
    if not text.strip():
        raise AgentError(f"{shown_url(url)} answered with an empty body; JSON was expected")
    if looks_like_html(text):
        message = f"{shown_url(url)} answered with an HTML page; JSON was expected"
        raise AgentError(f"{message}; check {words.setting}.path")
    return parse_reply_json(text)
