"""Send requests and read bodies within a size limit. No other module opens connections.

Compressed bodies (`content-encoding`) are unpacked in small pieces. httpx unpacks each chunk as a whole, which can make
gigabytes of a few bytes before their size can be checked.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import httpx
from msgspec import Struct

from evalspec import __version__
from evalspec.base.errors import ServiceError
from evalspec.base.text import decode_reply, excerpt, parse_reply_json
from evalspec.targets.http.failures import ServiceNames, explain_failure, explain_status, looks_like_html, shown_url
from evalspec.targets.http.routes import Route

MAX_UNPACKED_BYTES = 64 * 1_048_576
"""Limit over all encodings of a reply: the output of inner encodings counts too."""

_GZIP = zlib.MAX_WBITS | 16
_ZLIB_HEADER = 2
_MAX_ENCODINGS = 4
_PIECE_BYTES = 65_536
_SLICE_BYTES = 16
"""Bytes per call for unpackers without an output limit: zstd makes 128 KiB of 4 bytes, br 16 MiB."""


class TooLarge(Exception):
    """A reply unpacks to more than the limit."""


class Unpacker(Protocol):
    """Unpacks one encoding."""

    def unpack(self, data: bytes) -> Iterator[bytes]:
        """Yield what a piece of the packed body contains.

        Raises:
            httpx.DecodingError: the body has another encoding.
        """
        ...

    @property
    def is_cut(self) -> bool:
        """Whether the packed body has begun and its end is missing."""
        ...


def list_encodings() -> str:
    """Return the supported encodings for messages. httpx offers the same to a service."""
    return ", ".join(["gzip", "deflate", *(name for name in ("br", "zstd") if _find_module(name))])


async def iterate_unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body of a streamed reply in pieces, without its content-encodings.

    Raises:
        TooLarge: the body unpacks to more than MAX_UNPACKED_BYTES.
        httpx.DecodingError: the body does not match its header, or the encoding is not supported.
        httpx.RemoteProtocolError: the packed body ends before its end.
    """
    unpackers = _open_unpackers(response.headers.get_list("content-encoding", split_commas=True))
    budget = _Budget()
    async for chunk in response.aiter_raw():
        for piece in _unpack(chunk, unpackers, budget):
            yield piece
    if any(unpacker.is_cut for unpacker in unpackers):
        raise httpx.RemoteProtocolError("the packed body is incomplete")


class _Budget:
    """The number of bytes that may still be unpacked."""

    def __init__(self) -> None:
        self._left = MAX_UNPACKED_BYTES

    def spend(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise TooLarge


def _unpack(data: bytes, unpackers: Sequence[Unpacker], budget: _Budget) -> Iterator[bytes]:
    if not unpackers:
        yield data
        return
    for piece in unpackers[0].unpack(data):
        budget.spend(piece)
        yield from _unpack(piece, unpackers[1:], budget)


def _open_unpackers(encodings: Sequence[str]) -> list[Unpacker]:
    """Return one unpacker per encoding, the last applied first."""
    names = [name.strip().lower() for name in encodings if name.strip().lower() not in ("", "identity")]
    if len(names) > _MAX_ENCODINGS:
        raise httpx.DecodingError(f"{len(names)} nested encodings")
    return [_open_unpacker(name) for name in reversed(names)]


def _open_unpacker(name: str) -> Unpacker:
    if name in ("gzip", "x-gzip"):
        return _Inflater(_GZIP)
    if name == "deflate":
        return _Deflated()
    package = _find_module(name)
    if package is None:
        raise httpx.DecodingError(f"'{name}' is not supported; supported: {list_encodings()}")
    module = import_module(package)
    return _Sliced(_Zstd(module) if name == "zstd" else _Brotli(module))


class _Inflater:
    """gzip with any number of members, or deflate."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inflate = zlib.decompressobj(window)
        self._has_begun = False

    @property
    def is_cut(self) -> bool:
        return self._has_begun and not self._inflate.eof

    def unpack(self, data: bytes) -> Iterator[bytes]:
        is_more = bool(data)
        while is_more:
            if self._inflate.eof:
                data = data.lstrip(b"\0")  # padding
                if not data or self._window != _GZIP:
                    return
                self._inflate = zlib.decompressobj(self._window)
            self._has_begun = True
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            yield piece
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            is_more = bool(data) or (len(piece) == _PIECE_BYTES and not self._inflate.eof)


class _Deflated:
    """deflate, with or without the header of zlib, which has two bytes."""

    def __init__(self) -> None:
        self._head = b""
        self._inflater: _Inflater | None = None

    @property
    def is_cut(self) -> bool:
        return bool(self._head) if self._inflater is None else self._inflater.is_cut

    def unpack(self, data: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            self._head += data
            if len(self._head) < _ZLIB_HEADER:
                return
            is_zlib = self._head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(self._head[:2]) % 31 == 0
            self._inflater, data = _Inflater(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS), self._head
        yield from self._inflater.unpack(data)


def _find_module(encoding: str) -> str | None:
    """Return the installed package that unpacks an encoding. None of them is a dependency."""
    names = {"br": ("brotli", "brotlicffi"), "zstd": ("zstandard",)}.get(encoding, ())
    return next((name for name in names if find_spec(name) is not None), None)


class _Sliced:
    """An unpacker without an output limit, which gets a few bytes a call."""

    def __init__(self, unpacker: "_Brotli | _Zstd") -> None:
        self._unpacker = unpacker
        self._has_begun = False

    @property
    def is_cut(self) -> bool:
        return self._has_begun and not self._unpacker.is_finished

    def unpack(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _SLICE_BYTES):
            self._has_begun = True
            try:
                yield self._unpacker.unpack(data[start : start + _SLICE_BYTES])
            except self._unpacker.failure as error:
                raise httpx.DecodingError(str(error)) from error


class _Brotli:
    def __init__(self, module: Any) -> None:
        self.failure: type[Exception] = module.error
        self._opened = module.Decompressor()
        # The packages brotli and brotlicffi name it differently.
        self.unpack: Callable[[bytes], bytes] = getattr(self._opened, "decompress", None) or self._opened.process

    @property
    def is_finished(self) -> bool:
        return bool(self._opened.is_finished())


class _Zstd:
    def __init__(self, module: Any) -> None:
        self.failure: type[Exception] = module.ZstdError
        self._module = module
        self._opened = self._open_frame()

    @property
    def is_finished(self) -> bool:
        return bool(self._opened.eof)

    def unpack(self, data: bytes) -> bytes:
        """Unpack a piece of a body, which may have several frames. One object reads one of them."""
        unpacked = b""
        while data:
            if self._opened.eof:
                self._opened = self._open_frame()
            unpacked += self._opened.decompress(data)
            data = self._opened.unused_data if self._opened.eof else b""
        return unpacked

    def _open_frame(self) -> Any:
        return self._module.ZstdDecompressor().decompressobj()


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
    with suppress(TooLarge, httpx.HTTPError, OSError):
        async for chunk in iterate_unpacked(response):
            beginning += chunk
            if len(beginning) >= _ERROR_BODY_BYTES:
                break
    return beginning[:_ERROR_BODY_BYTES].decode(errors="replace")
