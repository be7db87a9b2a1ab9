"""A collector of OpenTelemetry spans on a loopback port: OTLP over HTTP, as protobuf or JSON.

It has a thread with an event loop of its own, so that reading spans delays no request that is being timed.
"""

import asyncio
import os
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from secrets import token_urlsafe
from threading import Thread
from typing import Any

from evalspec.base.errors import EvalspecError, InvalidInput
from evalspec.base.text import excerpt
from evalspec.inputs.traces.otlp import MOST_BYTES, Batch, read_logs, read_traces
from evalspec.targets.tracing import count_refusal

_HOST = "127.0.0.1"
_CHUNK = 1 << 16
_IDLE_SECONDS = 120.0
_LAST_TURNS = 5
"""Turns of the event loop in which connections that were accepted begin. Those that have not begun when asyncio's
server closes stay open, and an exporter waits for an answer."""
_GZIP = zlib.MAX_WBITS | 16
_JSON = "application/json"
_PROTOBUF = "application/x-protobuf"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_DELAYS = ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY")
_DELAY_MS = "500"
"""How long an exporter collects spans and log records; its default is 5 s, for which each trace would wait."""
_EMPTY = {_JSON: b"{}", _PROTOBUF: b""}


Deliver = Callable[[Batch], None]


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TraceReceiver:
    """Receives the spans of an agent. `deliver`: called in the event loop that started it, with what arrives.

    `port`: 0 for a free one. Then the path has a token, because other users of the machine can reach the port too.
    """

    def __init__(self, deliver: Deliver, port: int = 0) -> None:
        self._deliver, self._port = deliver, port
        self._prefix = "" if port else f"/{token_urlsafe(16)}"
        self._thread = Thread(target=lambda: asyncio.run(self._run()), name="evalspec traces", daemon=True)
        self._listening: Future[int] = Future()
        self._stop: Callable[[], object] = lambda: None
        self._home: asyncio.AbstractEventLoop | None = None
        self.refusals: Counter[str] = Counter()
        """Why requests were refused, with their number."""

    @property
    def endpoint(self) -> str:
        """The URL that an exporter sends to."""
        return f"http://{_HOST}:{self._port}{self._prefix}"

    @property
    def token(self) -> str:
        """The secret in the path; empty without one."""
        return self._prefix.removeprefix("/")

    @property
    def source(self) -> str:
        """The endpoint as messages show it: the variable that has it, because a path with a token is a secret."""
        return _ENDPOINT if self._prefix else self.endpoint

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which an OpenTelemetry exporter finds this receiver, and sends soon."""
        signals = {f"OTEL_EXPORTER_OTLP_{name.upper()}_ENDPOINT": f"{self.endpoint}/v1/{name}" for name in _READERS}
        delays = {name: _DELAY_MS for name in _DELAYS if name not in os.environ}
        return {
            _ENDPOINT: self.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            **signals,
            **delays,
        }

    async def start(self) -> None:
        """Listen.

        Raises:
            InvalidInput: the port is taken.
        """
        self._home = asyncio.get_running_loop()
        self._thread.start()
        try:
            self._port = await asyncio.wrap_future(self._listening)
        except OSError as error:
            fix = "stop what listens there, or name another port in spec.api.traces.receive"
            raise InvalidInput(f"port {self._port} for traces: {error.strerror}", fix) from error

    async def aclose(self) -> None:
        """Stop listening, and end the thread."""
        self._stop()
        await asyncio.to_thread(self._thread.join)

    async def _run(self) -> None:
        """Listen until it is stopped. What is still being received is lost, as it would be without a receiver."""
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        self._stop = partial(loop.call_soon_threadsafe, stopped.set)
        try:
            server = await asyncio.start_server(self._serve, _HOST, self._port)
        except OSError as error:
            self._listening.set_exception(error)
            return
        self._listening.set_result(server.sockets[0].getsockname()[1])
        await stopped.wait()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        connection = h11.Connection(h11.SERVER)
        try:
            while await self._answer(connection, reader, writer):
                connection.start_next_cycle()
        except (h11.ProtocolError, OSError, TimeoutError):
            pass  # a broken connection brought nothing; the exporter sends again
        except asyncio.CancelledError:
            writer.transport.abort()  # the run has ended, and the exporter must not wait for an answer
        finally:
            writer.close()

    async def _answer(self, connection: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and return whether another may follow on this connection."""
        import h11

        request = await _next_event(connection, reader)
        if not isinstance(request, h11.Request):
            return False
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        kind = _JSON if headers.get("content-type", "").lower().startswith(_JSON) else _PROTOBUF
        try:
            if connection.they_are_waiting_for_100_continue:
                writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])))
            body = await _read_body(connection, reader)
            self._receive(request, headers, body, is_json=kind == _JSON)
            status, content = 200, _EMPTY[kind]
        except _Refused as refused:
            count_refusal(self.refusals, str(refused))
            status, kind, content = refused.status, "text/plain", str(refused).encode()
        shown = [("content-type", kind), ("content-length", str(len(content)))]
        data = () if request.method == b"HEAD" else (h11.Data(data=content),)
        events = (h11.Response(status_code=status, headers=shown), *data, h11.EndOfMessage())
        writer.write(b"".join(connection.send(event) for event in events))
        await writer.drain()
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _receive(self, request: Any, headers: Mapping[str, str], body: bytes, *, is_json: bool) -> None:
        if request.method != b"POST":
            raise _Refused(405, "spans are received by POST only")
        path = request.target.decode("latin-1")
        prefix, _, signal = path.rpartition("/v1/")
        read = _READERS.get(signal) if prefix == self._prefix else None
        if read is None:
            raise _Refused(404, f"nothing is received at {excerpt(path.removeprefix(self._prefix))}")
        try:
            arrived = read(_unpack(body, headers.get("content-encoding", "identity").lower()), is_json)
        except (ValueError, RecursionError, EvalspecError) as error:
            raise _Refused(400, str(error)) from error
        if self._home is not None and (arrived.spans or arrived.events):
            with suppress(RuntimeError):  # the run has ended
                self._home.call_soon_threadsafe(self._deliver, arrived)


_READERS: Mapping[str, Callable[[bytes, bool], Batch]] = {
    "traces": lambda body, is_json: Batch(read_traces(body, is_json), []),
    "logs": lambda body, is_json: Batch([], read_logs(body, is_json)),
    "metrics": lambda _body, _is_json: Batch([], []),
}


async def _next_event(connection: Any, reader: asyncio.StreamReader) -> Any:
    import h11

    while (event := connection.next_event()) is h11.NEED_DATA:
        async with asyncio.timeout(_IDLE_SECONDS):
            connection.receive_data(await reader.read(_CHUNK))
    return event


async def _read_body(connection: Any, reader: asyncio.StreamReader) -> bytes:
    import h11

    parts, size = [], 0
    while isinstance(event := await _next_event(connection, reader), h11.Data):
        size += len(event.data)
        if size > MOST_BYTES:
            raise _Refused(413, f"a body is over {MOST_BYTES >> 20} MiB")
        parts.append(bytes(event.data))
    return b"".join(parts)


def _unpack(body: bytes, encoding: str) -> bytes:
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise _Refused(415, f"content-encoding {encoding} is not supported; use gzip")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacker.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise _Refused(400, f"a body is no gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise _Refused(413, f"a body is over {MOST_BYTES >> 20} MiB unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise _Refused(400, "a body is no whole gzip of one part")
    return unpacked
