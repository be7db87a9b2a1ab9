"""Unpack compressed bodies (`content-encoding`) in small pieces, to enforce a size limit.

httpx unpacks each chunk as a whole, which can make gigabytes of a few bytes before their size can be checked.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import httpx

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
