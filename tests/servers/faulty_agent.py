"""A RAG agent on loopback that answers well or fails in a chosen way: a real threaded HTTP/1.1 server.

    with FaultyAgent() as agent:                   # on a port of its own, or FaultyAgent(port)
        agent.url                                  # http://127.0.0.1:PORT, without a path: every path is answered
        agent.mode = "html"                        # from now on
        agent.script = ["hang", status(500), "ok"] # the next requests, one each, before `mode` holds again
        agent.reply = {"response": "Paris"}        # body of "ok"; or a function of the request's JSON
        agent.delay = 0.05                         # seconds of work before each answer
        agent.die_after = 3                        # after three answers it stops listening and hangs up
    agent.answer_only(3)                       # later requests wait until it may answer more; None: all
        agent.requests[0].body                     # JSON; also .path, .headers (names in lower case)
        agent.requests[0].arrived, .answered       # time.perf_counter() seconds; answered is None until it is
        agent.peak_concurrency                     # most requests that were in work at one moment

Modes, by name:
    ok, html, empty, invalid_json, not_utf8, nan, missing_field, huge (over 10 MiB)
    hang (no answer until the server stops), dribble (one byte now and then, for ever)
    drop (hangs up in mid body), refuse_to_speak (hangs up without an answer)
    sse_openai, sse_custom, sse_cut (hangs up in mid stream), sse_error, sse_silent (no events)
or as an Answer: `status(code, headers, body)`, `redirect(location)`, `throttled(seconds)`, `sse(*events)`.
GET is answered with 200 at any path while the server lives, and is not recorded.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from servers.hanging_up import HangingUpServer
from servers.ports import reserve_port

DEFAULT_REPLY = {"response": "Paris", "contexts": [{"id": "d1", "text": "Paris is the capital of France."}]}
_HUGE = 11 * 1_048_576


@dataclass
class Request:
    """One request as it arrived, from `number` 1. `port`: of the client: requests of one connection share it."""

    path: str
    headers: Mapping[str, str]
    body: Any
    arrived: float
    answered: float | None = None
    last: bool = False
    port: int = 0
    sent: bool = False
    number: int = 0


@dataclass(frozen=True)
class Answer:
    """An answer: its status, headers and body. `cut`: the connection breaks after the body, before its stated end."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    cut: bool = False


def status(code: int, headers: Mapping[str, str] | None = None, body: str = '{"detail": "no"}') -> Answer:
    """An answer of that status."""
    return Answer(code, headers or {}, body.encode())


def redirect(location: str) -> Answer:
    """302 to a url."""
    return status(302, {"Location": location}, "")


def throttled(retry_after: float | str | None = None, code: int = 429) -> Answer:
    """429 or 503, with Retry-After where one is given."""
    return status(code, {} if retry_after is None else {"Retry-After": str(retry_after)})


def sse(*events: str) -> Answer:
    """A whole stream of the given data lines."""
    body = "".join(f"data: {event}\n\n" for event in events)
    return Answer(body=body.encode(), content_type="text/event-stream; charset=utf-8")


def chunk(content: str | None = None, finish: str | None = None, **more: Any) -> str:
    """One openai-compatible chunk as JSON."""
    delta = {} if content is None else {"content": content}
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


_OPENAI_CHUNKS = (
    chunk("Pa"),
    chunk("ris"),
    chunk(finish="stop"),
    json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
)
_ANSWERS: Mapping[str, Answer] = {
    "html": Answer(body=b"<!doctype html><title>Sign in</title>", content_type="text/html"),
    "empty": Answer(),
    "invalid_json": Answer(body=b'{"response": "Par'),
    "not_utf8": Answer(body='{"response": "Zürich"}'.encode("latin-1")),
    "nan": Answer(body=b'{"response": "Paris", "score": NaN}'),
    "missing_field": Answer(body=b'{"reply": "Paris"}'),
    "huge": Answer(body=b'{"response": "' + b"x" * _HUGE + b'"}'),
    "sse_openai": sse(*_OPENAI_CHUNKS, "[DONE]"),
    "sse_custom": sse('{"delta": "Pa"}', '{"delta": "ris"}', '{"contexts": ["Paris is the capital of France."]}'),
    "sse_error": Answer(body=b'event: error\ndata: {"detail": "model is gone"}\n\n', content_type="text/event-stream"),
    "sse_silent": Answer(body=b": keep-alive\n\n", content_type="text/event-stream"),
    "sse_cut": replace(sse(*_OPENAI_CHUNKS[:2]), cut=True),
    "drop": Answer(body=b'{"response": "Pa', cut=True),
}


class FaultyAgent:
    """See the module. The attributes may be changed at any time; a request keeps the mode that it found."""

    def __init__(self, port: int = 0) -> None:
        self.mode: str | Answer = "ok"
        self.script: Sequence[str | Answer] = []
        self.reply: Any | Callable[[Any], Any] = DEFAULT_REPLY
        self.delay = 0.0
        self.die_after: int | None = None
        self.requests: list[Request] = []
        self.peak_concurrency = 0
        self.stopping = threading.Event()
        self._in_work = 0
        self._lock = threading.Lock()
        self._sending = threading.Condition(self._lock)
        self._kept = reserve_port(port) if port == 0 else None  # nobody else listens there once this agent is gone
        self._most: int | None = None
        self._may_answer = threading.Condition()
        self._server = _Server(self, self._kept.getsockname()[1] if self._kept else port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
        if self._kept:
            self._kept.close()

    def stop(self) -> None:
        """Hang up on everybody and stop listening. From then on connections are refused."""
        self.stop_listening()
        self.hang_up()
        self._server.server_close()
        self._thread.join()

    def begin(self, request: Request) -> str | Answer:
        """Record a request and say how it is to be answered."""
        with self._lock:
            self.requests.append(request)
            self._in_work += 1
            self.peak_concurrency = max(self.peak_concurrency, self._in_work)
            request.number = len(self.requests)
            request.last = request.number == self.die_after
            if self.die_after is not None and len(self.requests) > self.die_after:
                return "refuse_to_speak"
            if not self.script:
                return self.mode
            mode, *rest = self.script
            self.script = rest
            return mode

    def answer_only(self, most: int | None) -> None:
        """Let requests after the first so many wait, so that what asks them cannot end meanwhile. None: answer all."""
        with self._may_answer:
            self._most = most
            self._may_answer.notify_all()

    def wait_to_answer(self, request: Request) -> None:
        """Return when a request may be answered, or the server stops."""
        with self._may_answer:
            self._may_answer.wait_for(
                lambda: self._most is None or request.number <= self._most or self.stopping.is_set()
            )

    def end(self, request: Request) -> None:
        """Note that the work on a request is done: just before its answer leaves, so that whoever has it can look."""
        with self._lock:
            if request.answered is None:
                request.answered = time.perf_counter()
                self._in_work -= 1

    def note_sent(self, request: Request) -> None:
        """Note that the answer to a request has left."""
        with self._sending:
            request.sent = True
            self._sending.notify_all()

    def await_answers(self) -> None:
        """Wait until all answers before the death have left."""
        with self._sending:
            self._sending.wait_for(lambda: all(request.sent for request in self.requests[: self.die_after]))

    def stop_listening(self) -> None:
        """Refuse connections from now on; those that are open go on."""
        self._server.shutdown()
        self._server.socket.close()

    def hang_up(self) -> None:
        """Break all connections."""
        self.stopping.set()
        self.answer_only(None)
        self._server.hang_up()

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        """The complete answer of a mode."""
        if isinstance(mode, Answer):
            return mode
        if mode != "ok":
            return _ANSWERS[mode]
        reply = self.reply(body) if callable(self.reply) else self.reply
        return Answer(body=json.dumps(reply).encode())


class _Server(HangingUpServer):
    def __init__(self, agent: FaultyAgent, port: int) -> None:
        self.agent = agent
        super().__init__(port, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news, nor what a connection says that we break; anything else is a bug of this
        server and shown."""
        error = sys.exc_info()[1]
        is_broken_by_us = self.agent.stopping.is_set() and isinstance(error, OSError | ValueError)
        if not isinstance(error, ConnectionError) and not is_broken_by_us:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._send(Answer(body=b'{"status": "ok"}'))

    def do_POST(self) -> None:
        arrived = time.perf_counter()
        agent = self.server.agent
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(
            self.path,
            {name.lower(): text for name, text in self.headers.items()},
            json.loads(raw) if raw else None,
            arrived,
            port=self.client_address[1],
        )
        mode = agent.begin(request)
        if request.last:
            agent.stop_listening()  # before the answer, so that whoever has it finds the agent gone
        try:
            agent.wait_to_answer(request)
            if agent.delay:
                time.sleep(agent.delay)
            self._act(mode, request)
        finally:
            agent.end(request)
            agent.note_sent(request)
        if request.last:
            agent.await_answers()
            agent.hang_up()

    def _act(self, mode: str | Answer, request: Request) -> None:
        agent = self.server.agent
        if mode == "hang":
            agent.stopping.wait()
            self.close_connection = True
        elif mode == "dribble":
            self._send(Answer(cut=True))
            while not agent.stopping.wait(0.05):
                self.wfile.write(b" ")
        elif mode == "refuse_to_speak":
            self.close_connection = True
        else:
            answer = agent.answer(mode, request.body)
            agent.end(request)
            self._send(replace(answer, headers={**answer.headers, "Connection": "close"}) if request.last else answer)

    def _send(self, answer: Answer) -> None:
        """Head and body leave in one write: two would meet delayed acknowledgements and cost 40 ms."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body) + (_HUGE if answer.cut else 0)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self._headers_buffer.append(b"\r\n" + answer.body)  # type: ignore[attr-defined]  # typeshed has only what is public
        self.flush_headers()
        self.close_connection = self.close_connection or answer.cut

    def log_message(self, *_arguments: object) -> None:
        """Tests print nothing."""
