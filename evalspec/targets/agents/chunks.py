"""Answers in pieces: generators of text, of LangChain's chunks, or of dicts, and LlamaIndex's streaming responses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from time import perf_counter
from typing import Any

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.targets.agents.results import ANSWER_KEYS, read_text

_LONGEST_ANSWER = 10 * 1_048_576
"""In characters, as a reply by HTTP: a generator without an end would use up the memory before its timeout."""
_OWN_SECONDS = 0.05
"""How long pieces that are ready at once may keep other samples and the timeout waiting."""


class Streamed(Struct, frozen=True):
    """What the pieces of a stream amount to. `first_token_at`: when the first text arrived, by `perf_counter`."""

    result: Any
    first_token_at: float | None


class Stream(Struct, frozen=True):
    """A stream of an agent. `finish`: makes the result from the joined pieces."""

    pieces: Any
    finish: Callable[[Any], Any]

    @property
    def is_async(self) -> bool:
        """Whether the pieces are read with `async for`."""
        return isinstance(self.pieces, AsyncIterator)


def open_stream(result: Any) -> Stream | None:
    """Return the stream that a call of an agent returned, or None for an answer in one piece."""
    if isinstance(result, Iterator | AsyncIterator):
        return Stream(result, lambda joined: joined)
    pieces = getattr(result, "response_gen", None)
    if not isinstance(pieces, Iterator | AsyncIterator):
        return None
    return Stream(pieces, lambda joined: {"answer": joined, "context": getattr(result, "source_nodes", None)})


def join_stream(stream: Stream) -> Streamed:
    """Return the joined pieces of a sync stream.

    Raises:
        ServiceError: there is no piece, there are too many, or they do not fit together.
    """
    joining = _Joining()
    for piece in stream.pieces:
        joining.add(piece)
    return joining.end(stream)


async def join_stream_async(stream: Stream) -> Streamed:
    """Return the joined pieces of an async stream, as `join_stream`."""
    joining = _Joining()
    if not hasattr(stream.pieces, "aclose"):
        await joining.add_all(stream.pieces)
        return joining.end(stream)
    async with aclosing(stream.pieces):
        await joining.add_all(stream.pieces)
    return joining.end(stream)


class _Joining:
    def __init__(self) -> None:
        self._total: Any = None
        self._size = 0
        self._first_token_at: float | None = None

    async def add_all(self, pieces: AsyncIterator[Any]) -> None:
        """Add the pieces of a stream that may neither wait for anything nor let itself be cancelled."""
        task, let_others_at = asyncio.current_task(), perf_counter() + _OWN_SECONDS
        async for piece in pieces:
            self.add(piece)
            if perf_counter() >= let_others_at:
                await asyncio.sleep(0)
                let_others_at = perf_counter() + _OWN_SECONDS
            if task is not None and task.cancelling():
                raise asyncio.CancelledError

    def add(self, piece: Any) -> None:
        text = read_text(piece)
        if self._first_token_at is None and text:
            self._first_token_at = perf_counter()
        self._size += len(text or "")
        if self._size > _LONGEST_ANSWER:
            raise ServiceError(f"the agent's stream has more than {_LONGEST_ANSWER:,} characters")
        self._total = piece if self._total is None else _join(self._total, piece)

    def end(self, stream: Stream) -> Streamed:
        if self._total is None:
            raise ServiceError("the agent's stream ended without any piece")
        return Streamed(stream.finish(self._total), self._first_token_at)


def _join(total: Any, piece: Any) -> Any:
    """Return two pieces as one. Answers in dicts are joined; of every other key the last value counts."""
    if isinstance(total, str) and isinstance(piece, str):
        return total + piece
    if isinstance(total, dict) and isinstance(piece, dict):
        joined = {key: _join(total[key], piece[key]) for key in ANSWER_KEYS if key in total and key in piece}
        return {**total, **piece, **joined}
    if hasattr(total, "content") and hasattr(piece, "content"):
        return total + piece
    kinds = f"{type(total).__name__} and {type(piece).__name__}"
    raise ServiceError(f"the pieces of the agent's stream are values of type {kinds}; yield text, or dicts")
