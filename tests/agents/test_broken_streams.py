"""Streams that are cut, split, padded or repeated at every byte: a part of an answer never passes as the whole."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample
from evalspec.targets.agents import http
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent, read_events, read_stream
from evalspec.targets.agents.wire import open_stream
from evalspec.targets.http.routes import choose_route
from servers.faulty_agent import Answer, chunk

ANSWER = "Zürich, 東京 and 🗼"
PARTS = ("Zür", "ich, 東", "京 and ", "🗼")
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


@dataclass(frozen=True)
class Stream:
    """A good stream. `lines`: the lines of its body, as text.

    `no_end`: nothing in the protocol marks the end, so a cut between two events cannot be found.
    """

    name: str
    settings: dict[str, Any]
    lines: tuple[str, ...]
    content_type: str = SSE
    no_end: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode()


def sse(*events: str) -> tuple[str, ...]:
    return tuple(line for event in events for line in (f"data: {event}", ""))


def as_json(*values: Any) -> list[str]:
    return [json.dumps(value, ensure_ascii=False) for value in values]


def anthropic(*values: dict[str, Any]) -> tuple[str, ...]:
    typed = zip(values, as_json(*values), strict=True)
    return tuple(line for value, text in typed for line in (f"event: {value['type']}", f"data: {text}", ""))


CHUNKS = as_json(*({"choices": [{"index": 0, "delta": {"content": part}}]} for part in PARTS))
MAPPING = {"answer": "$.delta", "error": "$.failure", "done": {"path": "$.end"}}
CUSTOM = {"protocol": "custom", "request": {"q": "{{input}}"}, "response": MAPPING}
DELTAS = as_json(*({"delta": part} for part in PARTS))
RESPONSE = anthropic(
    *({"type": "response.output_text.delta", "output_index": 0, "delta": part} for part in PARTS),
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
)
STREAMS = (
    Stream("text", {}, sse(*PARTS), no_end=True),
    Stream("agentspec", {}, sse(*as_json(*({"response": part} for part in PARTS))), no_end=True),
    Stream("agentspec-lines", {}, tuple(DELTAS), NDJSON, no_end=True),
    Stream(
        "openai",
        {"protocol": "openai-compatible"},
        sse(*CHUNKS, chunk(finish="stop"), '{"choices": [], "usage": null}', "[DONE]"),
    ),
    Stream(
        "openai-mapped",
        {"protocol": "openai-compatible", "response": {"answer": "$.choices[0].delta.content"}},
        sse(*CHUNKS, chunk(finish="stop"), "[DONE]"),
    ),
    Stream(
        "anthropic",
        {"protocol": "anthropic"},
        anthropic(
            {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": {"text": part}} for part in PARTS),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ),
    ),
    Stream(
        "ollama",
        {"protocol": "ollama"},
        tuple(
            as_json(
                *({"message": {"content": part}, "done": False} for part in PARTS),
                {"message": {"content": ""}, "done": True, "done_reason": "stop"},
            )
        ),
        NDJSON,
    ),
    Stream("responses", {"protocol": "openai-responses"}, RESPONSE),
    Stream("responses-mapped", {"protocol": "openai-responses", "response": {"answer": "$.delta"}}, RESPONSE),
    Stream(
        "custom",
        {"protocol": "custom", "request": {"q": "{{input}}"}, "response": MAPPING},
        sse(*DELTAS, '{"end": true}'),
    ),
    Stream("custom-lines", {"response": MAPPING}, (*DELTAS, '{"end": true}'), NDJSON),
)
RUNNER: list[asyncio.Runner] = []
every_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)


@pytest.fixture(autouse=True, scope="module")
def runner() -> Iterator[None]:
    """One event loop for thousands of streams."""
    with asyncio.Runner() as opened:
        RUNNER.append(opened)
        yield
        RUNNER.clear()


class Body(httpx.AsyncByteStream):
    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._chunks:
            yield part


def read(stream: Stream, *chunks: bytes) -> AgentReply | ServiceError:
    """Return what becomes of a body that arrives in these pieces."""
    headers = {"content-type": stream.content_type, **stream.headers}

    async def whole() -> AgentReply:
        events = read_events(httpx.Response(200, headers=headers, stream=Body(chunks)))
        assert events is not None
        return (await read_stream(events, open_stream(ChatEndpoint.model_validate(stream.settings)), 0)).reply

    try:
        return RUNNER[0].run(whole())
    except ServiceError as error:
        return error
    except httpx.RemoteProtocolError:
        return ServiceError("the connection was closed", retryable=True)


def answer_of(outcome: AgentReply | ServiceError) -> str:
    assert isinstance(outcome, AgentReply), outcome
    return outcome.response


def list_beginnings(stream: Stream) -> Iterator[str]:
    """The answers that a stream without an end marker may have if it is cut between two events."""
    for count in range(1, len(PARTS) + 1):
        yield "".join(PARTS[:count])


@every_stream
def test_a_stream_cut_at_any_byte_is_never_a_whole_answer(stream):
    body = stream.body
    seen = set()
    for size in range(len(body)):
        outcome = read(stream, body[:size])
        if isinstance(outcome, ServiceError):
            assert outcome.retryable, (body[:size], outcome)
            continue
        seen.add(outcome.response)
        if not stream.no_end:
            assert outcome.response == ANSWER, body[:size]
    assert seen == (set(list_beginnings(stream)) if stream.no_end else {ANSWER})


@every_stream
def test_a_connection_that_breaks_at_any_place_is_no_answer(agent, stream):
    body = stream.body

    async def ask_all() -> list[AgentReply | ServiceError]:
        http = HttpAgent(AgentTarget(agent.url, ChatEndpoint.model_validate(stream.settings)), choose_route(agent.url))
        outcomes: list[AgentReply | ServiceError] = []
        for size in range(0, len(body), 29):
            agent.mode = Answer(body=body[:size], content_type=stream.content_type, cut=True)
            try:
                outcomes.append(await http.ask(Sample("s", "Where?")))
            except ServiceError as error:
                outcomes.append(error)
        await http.aclose()
        return outcomes

    assert all(isinstance(outcome, ServiceError) and outcome.retryable for outcome in asyncio.run(ask_all()))


@every_stream
def test_chunks_may_end_anywhere(stream):
    for body in (stream.body, stream.body.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + stream.body):
        assert answer_of(read(stream, *(body[at : at + 1] for at in range(len(body))))) == ANSWER
        for at in range(len(body)):
            assert answer_of(read(stream, body[:at], body[at:])) == ANSWER


@every_stream
def test_padding_between_events_is_not_read(stream):
    is_lines = stream.content_type == NDJSON
    for padding in ("\n", " \n\n") if is_lines else (": ping\n\n", "\n", "retry: 10\n\n", "id: 5\n\n"):
        padded = (f"{line}\n" + (padding if is_lines or not line else "") for line in stream.lines)
        assert answer_of(read(stream, (padding + "".join(padded)).encode())) == ANSWER


def test_events_may_end_with_cr():
    for stream in STREAMS:
        if stream.content_type == SSE:
            assert answer_of(read(stream, stream.body.replace(b"\n", b"\r"))) == ANSWER


@every_stream
def test_the_end_may_be_marked_twice_and_lack_its_blank_line(stream):
    last = [line for line in stream.lines if line][-1].encode()
    if not stream.no_end:
        assert answer_of(read(stream, stream.body, last, b"\n\n")) == ANSWER
    assert answer_of(read(stream, stream.body.rstrip(b"\n") + b"\n")) == ANSWER


@pytest.mark.parametrize("name", ["openai", "anthropic", "ollama", "custom"])
def test_an_end_marker_without_a_line_end_is_one(name):
    stream = next(stream for stream in STREAMS if stream.name == name)
    assert answer_of(read(stream, stream.body.rstrip(b"\n"))) == ANSWER


@pytest.mark.parametrize(
    "tail", ["data: Zür", "dat", "event: er", "id", "data: [DO", "data: {", 'data: "Zür"', "data: 4"]
)
def test_a_line_that_has_no_end_is_a_cut(tail):
    stream = STREAMS[0]
    cut = read(stream, stream.body, tail.encode())
    assert isinstance(cut, ServiceError)
    assert str(cut) == "the stream ended in the middle of a line"
    assert cut.retryable
    assert answer_of(read(stream, stream.body, b": bye")) == ANSWER


@every_stream
def test_bytes_that_are_not_utf8_are_refused(stream):
    refused = read(stream, stream.body.replace("ü".encode(), b"\xfc"))
    assert "not UTF-8" in str(refused)
    assert isinstance(refused, ServiceError)
    assert not refused.retryable


@every_stream
def test_an_error_in_the_middle_is_no_answer(stream):
    error = '{"type": "error", "error": {"type": "overloaded", "message": "overloaded"}}'
    is_lines = stream.content_type == NDJSON
    inserted = (error,) if is_lines else ("event: error", f"data: {error}", "")
    ends = [0, *(at + 1 for at, line in enumerate(stream.lines) if is_lines or not line)]
    own_ends = {"anthropic", "ollama", "responses", "custom", "custom-lines"}
    has_end = stream.lines[-2] == "data: [DONE]" or stream.name in own_ends
    for at in ends[:-1] if has_end else ends:
        broken = replace(stream, lines=(*stream.lines[:at], *inserted, *stream.lines[at:]))
        assert "overloaded" in str(read(broken, broken.body))


def test_interleaved_choices_are_refused():
    """A finished second choice would end the first."""
    second = [json.dumps({"choices": [{"index": 1, "delta": {"content": "Rome"}, "finish_reason": "stop"}]})]
    stream = Stream("two", {"protocol": "openai-compatible"}, sse(chunk("Zür"), *second))
    refused = read(stream, stream.body)
    assert "one choice" in str(refused)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("tail", [b"", b"data: {\n\n", b"\xff", b"data: x"])
def test_what_follows_the_end_changes_nothing(agent, tail, is_cut):
    stream = next(stream for stream in STREAMS if stream.name == "openai")
    agent.mode = Answer(body=stream.body + tail, content_type=SSE, cut=is_cut)

    async def ask_twice() -> list[str]:
        http = HttpAgent(AgentTarget(agent.url, ChatEndpoint.model_validate(stream.settings)), choose_route(agent.url))
        answers = [(await http.ask(Sample("s", "Where?"))).response for _ in range(2)]
        await http.aclose()
        return answers

    assert asyncio.run(ask_twice()) == [ANSWER] * 2
    if not tail and not is_cut:
        assert len({request.port for request in agent.requests}) == 1, "each stream opens a connection"


def test_a_connection_that_stays_open_after_the_end_costs_no_answer(monkeypatch):
    monkeypatch.setattr(http, "_REST_SECONDS", 60)
    stream = next(stream for stream in STREAMS if stream.name == "openai")
    endpoint = ChatEndpoint.model_validate({**stream.settings, "timeout_seconds": 6})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + stream.body)
        await reader.read()  # until the client hangs up
        writer.close()
        await writer.wait_closed()
        closed.set()

    async def ask() -> str:
        async with await asyncio.start_server(answer, "127.0.0.1") as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            http = HttpAgent(AgentTarget(url, endpoint, {}), choose_route(url))
            try:
                return (await http.ask(Sample("s", "Where?"))).response
            finally:
                await http.aclose()
                await closed.wait()

    closed = asyncio.Event()
    assert asyncio.run(ask()) == ANSWER


class TestPacked:
    def packed(self) -> Stream:
        return replace(STREAMS[0], headers={"content-encoding": "gzip"})

    def test_a_packed_stream_cut_at_any_byte(self):
        packed = gzip.compress(STREAMS[0].body)
        for size in range(1, len(packed)):
            outcome = read(self.packed(), packed[:size])
            assert isinstance(outcome, ServiceError), size
            assert outcome.retryable

    def test_every_member_of_a_packed_stream_is_read(self):
        members = [gzip.compress(f"data: {part}\n\n".encode()) for part in PARTS]
        body = b"".join(members)
        assert answer_of(read(self.packed(), *members)) == ANSWER
        assert answer_of(read(self.packed(), body)) == ANSWER
        assert answer_of(read(self.packed(), body, b"\0" * 9)) == ANSWER
        for at in range(1, len(body)):
            assert answer_of(read(self.packed(), body[:at], body[at:])) == ANSWER
