"""Read the events of streams: server-sent events, or lines of JSON. A line without its end is the sign of a cut."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from evalspec.base.errors import ServiceError
from evalspec.base.jsonl import parse_json
from evalspec.base.text import parse_event, refuse_encoding
from evalspec.targets.http.client import read_limited

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

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
    with suppress(TimeoutError, ServiceError, httpx.HTTPError):
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
