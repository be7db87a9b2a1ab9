"""The HTTP agent against a real server that fails in every way we know."""

import asyncio
import gzip
import socket
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Message, Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.pacing import parse_retry_after
from evalspec.targets.http.routes import Route, choose_route
from servers.faulty_agent import Answer, redirect, status, throttled

SAMPLE = Sample("s1", "What is the capital of France?")
SECRET = "tok-4f8a21"


@pytest.fixture(scope="module")
def tls() -> Route:
    return choose_route("http://localhost")


def ask(url: str, tls: Route, *samples: Sample, headers: dict[str, str] | None = None, **endpoint: object):
    """Replies of one HttpAgent to the samples, in turn."""
    target = AgentTarget(url, ChatEndpoint.model_validate({"timeoutSeconds": 60.0} | endpoint), headers or {})

    async def run() -> list[AgentReply]:
        worker = HttpAgent(target, tls)
        try:
            return [await worker.ask(sample) for sample in samples or (SAMPLE,)]
        finally:
            await worker.aclose()

    return asyncio.run(run())


def failure(url: str, tls: Route, **options: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        ask(url, tls, **options)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return caught.value


def test_an_answer_with_its_latency_and_what_was_sent(agent, tls):
    agent.delay = 0.05
    started = time.perf_counter()
    replies = ask(f"{agent.url}/v1/chat", tls, SAMPLE, SAMPLE, headers={"Authorization": f"Bearer {SECRET}\n"})
    span = (time.perf_counter() - started) * 1000
    assert [reply.response for reply in replies] == ["Paris", "Paris"]
    assert all(reply.latency_ms >= 50 for reply in replies)
    assert sum(reply.latency_ms for reply in replies) < span
    sent = agent.requests[0]
    assert (sent.path, sent.body) == ("/v1/chat", {"message": SAMPLE.user_input})
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    assert sent.headers["content-type"] == "application/json"


def test_a_conversation_and_text_outside_unicode_arrive_unharmed(agent, tls):
    turns = (Message("user", "Zürich 🏔 \ud83d"), Message("assistant", "Yes?"), Message("user", "How high?"))
    ask(agent.url, tls, Sample("s1", turns))
    assert agent.requests[0].body == {
        "message": "How high?",
        "messages": [{"role": turn.role, "content": turn.content} for turn in turns],
    }


def test_one_connection_is_kept_and_no_cookie_is(agent, tls):
    agent.mode = Answer(headers={"Set-Cookie": "session=1; Path=/"}, body=b'{"response": "Paris"}')
    opened = []
    register = agent._server.process_request
    agent._server.process_request = lambda *connection: (opened.append(1), register(*connection))
    ask(agent.url, tls, SAMPLE, SAMPLE, SAMPLE)
    assert len(opened) == 1
    assert not any("cookie" in request.headers for request in agent.requests)


@pytest.mark.parametrize(
    ("mode", "says", "retryable", "throttled_"),
    [
        (status(500), "answered 500 Internal Server Error", True, False),
        (status(502, body="<html>bad gateway"), "answered 502", True, False),
        (status(503), "503", True, True),
        (throttled(7), "429", True, True),
        (redirect("http://elsewhere.test/v2/chat?token=x"), "http://elsewhere.test/v2/chat is the agent", False, False),
        (redirect("/v2/chat"), "/v2/chat is the agent, use that url in the manifest", False, False),
        (status(401), "check chatEndpoint.headers", False, False),
        (status(403), "check chatEndpoint.headers", False, False),
        (status(404), "/v1/chat answered 404 Not Found, expected 200; check chatEndpoint.path", False, False),
        (
            status(422, body='{"detail":\n "field \x1b[31mquestion"}'),
            """the reply says '{"detail": "field [31mqu""",
            False,
            False,
        ),
        ("html", "HTML page instead of JSON", False, False),
        ("empty", "empty body instead of JSON", False, False),
        ("invalid_json", "not valid JSON (Unterminated string starting at at line 1 column 14)", False, False),
        ("not_utf8", "not UTF-8 text (byte 16)", False, False),
        ("nan", "NaN is not JSON", False, False),
        ("missing_field", "text at response, message or content in the reply, but its keys are: reply", False, False),
        ("huge", "larger than 10,485,760 bytes", False, False),
        ("drop", "was closed before the reply was complete", True, False),
        ("refuse_to_speak", "was closed before the reply was complete", True, False),
        (Answer(body=b"[" * 100_000), "nested too deeply", False, False),
        (Answer(body=b'{"response": "a", "response": "b"}'), "duplicate key 'response'", False, False),
        (
            Answer(body=b"not gzip", headers={"Content-Encoding": "gzip"}),
            "does not match its content-encoding",
            False,
            False,
        ),
        (Answer(body=gzip.compress(b" " * 11 * 2**20), headers={"Content-Encoding": "gzip"}), "larger", False, False),
    ],
)
def test_each_bad_answer_is_one_clear_line(agent, tls, mode, says, retryable, throttled_):
    agent.mode = mode
    error = failure(f"{agent.url}/v1/chat", tls, headers={"X-Key": SECRET})
    assert says in str(error)
    assert (error.retryable, error.throttled, error.unreachable) == (retryable, throttled_, False)


def test_the_connection_still_serves_after_a_bad_answer(agent, tls):
    agent.script = [status(500), "ok"]
    target = AgentTarget(agent.url, ChatEndpoint())

    async def run() -> AgentReply:
        worker = HttpAgent(target, tls)
        with pytest.raises(ServiceError):
            await worker.ask(SAMPLE)
        try:
            return await worker.ask(SAMPLE)
        finally:
            await worker.aclose()

    assert asyncio.run(run()).response == "Paris"


@pytest.mark.parametrize("mode", ["hang", "dribble"])
def test_the_timeout_bounds_the_whole_exchange(agent, tls, mode):
    agent.mode = mode
    started = time.perf_counter()
    error = failure(agent.url, tls, timeoutSeconds=1)
    assert 0.9 < time.perf_counter() - started < 60
    assert "no complete reply" in str(error)
    assert "within 1 s (chatEndpoint.timeoutSeconds)" in str(error)
    assert (error.retryable, error.unreachable) == (True, False)


def test_nothing_listening(agent, tls):
    agent.stop()
    error = failure(agent.url.replace("http://", f"http://user:{SECRET}@"), tls)
    assert str(error) == f"cannot connect to {agent.url}: connection refused; is the agent running there?"
    assert (error.retryable, error.unreachable) == (True, True)


def test_an_agent_that_dies(agent, tls):
    agent.die_after = 2
    assert len(ask(agent.url, tls, SAMPLE, SAMPLE)) == 2
    assert failure(agent.url, tls).unreachable


def test_a_host_that_does_not_exist(tls):
    error = failure("http://agent.invalid/v1/chat", tls)
    assert "the host of http://agent.invalid/v1/chat cannot be resolved" in str(error)
    assert (error.retryable, error.unreachable) == (True, True)


def test_a_connection_that_is_never_made(tls):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = failure(f"https://127.0.0.1:{silent.getsockname()[1]}/", tls, timeoutSeconds=0.6)
    assert "no connection to https://127.0.0.1" in str(error)
    assert (error.retryable, error.unreachable) == (True, True)


def test_tls_to_a_server_without(agent, tls):
    error = failure(agent.url.replace("http:", "https:"), tls)
    assert "no TLS connection" in str(error)
    assert (error.retryable, error.unreachable) == (False, True)


@pytest.mark.parametrize(
    "url", ["localhost:4000/chat", "http://", "http://[::1/", "http://127.0.0.1:99999/", "ftp://x/", "http://x\n/"]
)
def test_an_unusable_url_is_an_agent_error(tls, url):
    error = failure(url, tls)
    assert not error.retryable


@pytest.mark.parametrize("headers", [{"X-Key": f"{SECRET}\nX-Evil: 1"}, {"bad name": SECRET}, {"X-Key": f"\0{SECRET}"}])
def test_a_header_that_cannot_be_sent_is_not_quoted(agent, tls, headers):
    error = failure(agent.url, tls, headers=headers)
    assert "chatEndpoint.headers has a forbidden character" in str(error)
    assert error.__cause__ is None
    assert not agent.requests


def test_headers_outside_ascii_are_sent(agent, tls):
    ask(agent.url, tls, headers={"X-City": "Zürich", "X-Raw": "\udcfc"})
    assert agent.requests[0].headers["x-city"].encode("latin-1").decode() == "Zürich"
    assert agent.requests[0].headers["x-raw"] == "ü"


def test_half_a_surrogate_pair_in_a_reply_becomes_the_replacement_character(agent, tls):
    agent.mode = Answer(body=rb'{"response": "\ud83d\ude00 cut \ud83d"}')
    assert ask(agent.url, tls)[0].response == "😀 cut �"


def test_a_streamed_reply_over_http(agent, tls):
    agent.mode = "sse_openai"
    reply = ask(agent.url, tls, protocol="openai-compatible", streaming=True)[0]
    assert reply.response == "Paris"
    assert reply.usage.total == 9
    assert reply.latency_ms > 0
    assert agent.requests[0].body["stream"] is True


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("sse_cut", "was closed before the reply was complete"),
        (Answer(body=b"data: x" * 2**21, content_type="text/event-stream"), "larger than 10,485,760 bytes"),
    ],
)
def test_a_stream_that_breaks_off_or_never_ends(agent, tls, mode, says):
    agent.mode = mode
    assert says in str(failure(agent.url, tls, protocol="openai-compatible"))


def test_a_last_event_without_its_blank_line_counts(agent, tls):
    agent.mode = Answer(body=b"data: Pa\n\ndata: ris\n", content_type="text/event-stream")
    assert ask(agent.url, tls)[0].response == "Paris"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("86400", 86400.0),
        ("Wed, 01 Jul 2026 12:00:30 GMT", 30.0),
        ("Wed, 01 Jul 2026 11:00:00 GMT", 0.0),
        ("Wed, 01 Jul 2026 12:00:30 -0000", 30.0),
        ("-5", None),
        ("nan", None),
        ("soon", None),
    ],
)
def test_retry_after(header, seconds):
    assert parse_retry_after(header, datetime(2026, 7, 1, 12, tzinfo=UTC)) == seconds


def test_retry_after_reaches_the_error(agent, tls):
    agent.mode = throttled(3, code=503)
    assert failure(agent.url, tls).retry_after == 3.0
