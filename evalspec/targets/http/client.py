"""Send requests and read bodies within a size limit. No other module opens connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from msgspec import Struct

from evalspec import __version__
from evalspec.base.errors import ServiceError
from evalspec.base.text import decode_reply, excerpt, parse_reply_json
from evalspec.targets.http.failures import ServiceNames, explain_failure, explain_status, looks_like_html, shown_url
from evalspec.targets.http.routes import Route
from evalspec.targets.http.unpacking import MAX_UNPACKED_BYTES, TooLarge, iterate_unpacked

MAX_REPLY_BYTES = 10 * 1_048_576
_ERROR_BODY_BYTES = 4096
_MAX_CONNECT_SECONDS = 10.0
_DEFAULT_HEADERS = {
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": f"evalspec/{__version__}",
}

EncodedHeaders = Sequence[tuple[bytes, bytes]]


class OutgoingRequest(Struct, frozen=True):
    """One request. `headers`: in addition to the client's. `timeout`: seconds from sending to the last byte."""

    url: str
    timeout: float
    content: bytes | None = None
    method: str = "POST"
    headers: EncodedHeaders = ()


def open_client(headers: Mapping[str, str], route: Route) -> httpx.AsyncClient:
    """Return a client with one connection, because requests through a large shared pool cost O(workers) each.

    Cookies are not stored, so that samples cannot share a session. Redirects are not followed.
    """
    return httpx.AsyncClient(
        headers=encode_headers({**_DEFAULT_HEADERS, **{key.lower(): text for key, text in headers.items()}}),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        follow_redirects=False,
        **route.client_options,
    )


class Connections:
    """A pool of clients with one connection each. A free client serves the next call."""

    def __init__(self, open_one: Callable[[], httpx.AsyncClient]) -> None:
        self._open = open_one
        self._free: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def take(self) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client that no other call uses."""
        client = self._free.pop() if self._free else self._open()
        try:
            yield client
        finally:
            self._free.append(client)

    async def aclose(self) -> None:
        """Close all connections. No call may be in progress."""
        while self._free:
            await self._free.pop().aclose()


@asynccontextmanager
async def send(
    client: httpx.AsyncClient, request: OutgoingRequest, service: ServiceNames
) -> AsyncIterator[httpx.Response]:
    """Send a request and yield the reply. Its body is read inside the block, and the timeout covers the whole block.

    Raises:
        ServiceError: there is no complete reply. The error says whether to retry.
    """
    try:
        async with (
            asyncio.timeout(request.timeout),  # httpx limits each read only
            client.stream(
                request.method,
                request.url,
                content=request.content,
                headers=request.headers,
                timeout=_bound_waits(request.timeout),
            ) as response,
        ):
            yield response
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, OverflowError, ExceptionGroup) as error:
        # Without the cause: h11 quotes the header that it refuses. The last three types can be raised for a bad url.
        raise explain_failure(error, request.url, request.timeout, service) from None


async def refuse_status(response: httpx.Response, service: ServiceNames) -> None:
    """Raise a ServiceError unless the status is 2xx."""
    if not response.is_success:
        raise explain_status(response, await _read_beginning(response), service)


def explain_given_status(url: str, status: int, body: str, service: ServiceNames) -> ServiceError:
    """Return the error for a reply that arrived inside of another one. Nobody has to wait for a retry."""
    error = explain_status(httpx.Response(status, request=httpx.Request("POST", url)), body, service)
    error.retry_after = 0.0
    return error


async def read_whole(response: httpx.Response, most: int = MAX_REPLY_BYTES) -> bytes:
    """Return the unpacked body.

    Raises:
        ServiceError: the body has more than `most` bytes.
    """
    return b"".join([chunk async for chunk in read_limited(response, most)])


def parse_body(raw: bytes, url: str, service: ServiceNames) -> Any:
    """Return the JSON value of a whole body.

    Raises:
        ServiceError: the body is empty, an HTML page, a stream of events, or not JSON.
    """
    text = decode_reply(raw)
    if not text.strip():
        raise ServiceError(f"{shown_url(url)} returned an empty body instead of JSON")
    if looks_like_html(text):
        message = f"{shown_url(url)} returned an HTML page instead of JSON"
        raise ServiceError(f"{message}; check {service.setting}.{service.place_key}")
    if text.startswith(("data:", "event:")):
        raise ServiceError(f"{shown_url(url)} returned a stream instead of JSON; turn streaming off there")
    return parse_reply_json(text, quote=service.excerpt)


def encode_headers(headers: Mapping[str, str]) -> EncodedHeaders:
    """Return headers as bytes, because httpx rejects text outside ASCII. Outer white space is removed, such as the line
    end of a secret's file.
    """
    escape = "surrogateescape"  # sends bytes of the environment that are not UTF-8 unchanged
    return [(name.encode(errors=escape), text.strip().encode(errors=escape)) for name, text in headers.items()]


def _bound_waits(timeout: float) -> httpx.Timeout:
    """Return timeouts. Connecting may take half of the time, to distinguish an unreachable host from a slow service."""
    return httpx.Timeout(timeout, connect=min(_MAX_CONNECT_SECONDS, timeout / 2))


async def read_limited(response: httpx.Response, most: int = MAX_REPLY_BYTES) -> AsyncIterator[bytes]:
    """Yield the unpacked body in pieces.

    Raises:
        ServiceError: the body has more than `most` bytes, or exceeds the limit while it is unpacked.
        httpx.HTTPError: the body is incomplete, or does not match its content-encoding.
    """
    size = 0
    encoding = response.headers.get("content-encoding")
    unpacked = f" when unpacked (content-encoding: {excerpt(encoding)})" if encoding else ""
    try:
        async for chunk in iterate_unpacked(response):
            size += len(chunk)
            if size > most:
                raise ServiceError(f"the reply is larger than {most:,} bytes{unpacked}")
            yield chunk
    except TooLarge:
        raise ServiceError(f"the reply is larger than {MAX_UNPACKED_BYTES:,} bytes{unpacked}") from None


async def _read_beginning(response: httpx.Response) -> str:
    """Return the first few KiB of a body for quoting, as far as they arrive and can be unpacked."""
    beginning = b""
    with suppress(TooLarge, httpx.HTTPError):
        async for chunk in iterate_unpacked(response):
            beginning += chunk
            if len(beginning) >= _ERROR_BODY_BYTES:
                break
    return beginning[:_ERROR_BODY_BYTES].decode(errors="replace")
