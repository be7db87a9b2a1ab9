"""Unpack compressed bodies (`content-encoding`) in small pieces, to enforce a size limit.

httpx unpacks each chunk as a whole, which can make gigabytes of a few bytes before their size can be checked.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx

MAX_UNPACKED_BYTES = 64 * 1_048_576
"""Limit over all encodings of a reply: the output of inner encodings counts too."""

_MAX_ENCODINGS = 4
_PIECE_BYTES = 65_536
_SLICE_BYTES = 16
"""Bytes per call for unpackers without an output limit: zstd makes 128 KiB of 4 bytes, br 16 MiB."""

Unpacker = Callable[[bytes], Iterator[bytes]]


class TooLarge(Exception):
    """A reply unpacks to more than the limit."""


def list_encodings() -> str:
    """Return the supported encodings for messages. httpx offers the same to a service."""
    return ", ".join(["gzip", "deflate", *(name for name in ("br", "zstd") if _find_module(name))])


async def iterate_unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body of a streamed reply in pieces, without its content-encodings.

    Raises:
        TooLarge: the body unpacks to more than MAX_UNPACKED_BYTES.
        httpx.DecodingError: the body does not match its header, or the encoding is not supported.
    """
    unpackers = _open_unpackers(response.headers.get_list("content-encoding", split_commas=True))
    budget = _Budget()
    async for chunk in response.aiter_raw():
        for piece in _unpack(chunk, unpackers, budget):
            yield piece


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
    for piece in unpackers[0](data):
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
        return _Inflater(zlib.MAX_WBITS | 16)
    if name == "deflate":
        return _Inflater(zlib.MAX_WBITS, otherwise=-zlib.MAX_WBITS)
    if _find_module(name) is None:
        raise httpx.DecodingError(f"'{name}' is not supported; supported: {list_encodings()}")
    return _open_sliced(name)


class _Inflater:
    """gzip, or deflate. `otherwise`: the window to try if the data does not begin with zlib's header."""

    def __init__(self, window: int, otherwise: int | None = None) -> None:
        self._inflate = zlib.decompressobj(window)
        self._otherwise = otherwise

    def __call__(self, data: bytes) -> Iterator[bytes]:
        is_more = bool(data)
        while is_more:
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                if self._otherwise is None:
                    raise httpx.DecodingError(str(error)) from error
                self._inflate, self._otherwise = zlib.decompressobj(self._otherwise), None
                continue
            self._otherwise = None
            yield piece
            data = self._inflate.unconsumed_tail
            is_more = bool(data) or len(piece) == _PIECE_BYTES


def _find_module(encoding: str) -> str | None:
    """Return the installed package that unpacks an encoding. None of them is a dependency."""
    names = {"br": ("brotli", "brotlicffi"), "zstd": ("zstandard",)}.get(encoding, ())
    return next((name for name in names if find_spec(name) is not None), None)


def _open_sliced(encoding: str) -> Unpacker:
    module = import_module(_find_module(encoding) or "")
    opener, failures = (_open_zstd, module.ZstdError) if encoding == "zstd" else (_open_brotli, module.error)
    unpack = opener(module)

    def sliced(data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _SLICE_BYTES):
            try:
                yield unpack(data[start : start + _SLICE_BYTES])
            except failures as error:
                raise httpx.DecodingError(str(error)) from error

    return sliced


def _open_brotli(module: Any) -> Callable[[bytes], bytes]:
    opened = module.Decompressor()
    unpack: Callable[[bytes], bytes] = opened.decompress if hasattr(opened, "decompress") else opened.process
    return unpack


def _open_zstd(module: Any) -> Callable[[bytes], bytes]:
    opened = module.ZstdDecompressor().decompressobj()

    def unpack(data: bytes) -> bytes:
        """Unpack a piece of a body, which may have several frames. One object reads one of them."""
        nonlocal opened
        unpacked = b""
        while data:
            if opened.eof:
                opened = module.ZstdDecompressor().decompressobj()
            unpacked += opened.decompress(data)
            data = opened.unused_data if opened.eof else b""
        return unpacked

    return unpack
