"""The same fault means the same to agent, judge, embeddings and retrievers, in the same words."""

import asyncio
import socket

import pytest

from doors import DOORS
from evalspec.base.errors import ServiceError
from servers.faulty_agent import Answer, redirect, status, throttled

QUOTA = '{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
FLAGS = ("retryable", "throttled", "unreachable", "fatal")


def fail(door, url):
    with pytest.raises(ServiceError) as caught:
        asyncio.run(door(url))
    assert "\n" not in str(caught.value)
    return caught.value


def flags(error):
    return {name for name in FLAGS if getattr(error, name)}


@EVERY_DOOR
@pytest.mark.parametrize(
    ("mode", "says", "expected"),
    [
        (status(400), "answered 400", set()),
        (status(401), "answered 401 Unauthorized, expected 200; check", {"fatal"}),
        (status(404), "answered 404 Not Found, expected 200; check", {"fatal"}),
        (status(408), "answered 408", {"retryable"}),
        (status(425), "answered 425", {"retryable"}),
        (throttled(7), "answered 429", {"retryable", "throttled"}),
        (status(500, body='{"error": {"message": "disk full"}}'), "the reply says 'disk full'", {"retryable"}),
        (status(500, body='{"error": "disk full"}'), "the reply says 'disk full'", {"retryable"}),
        (status(500, body='{"message": "disk full"}'), "the reply says 'disk full'", {"retryable"}),
        (status(503), "answered 503", {"retryable", "throttled"}),
        (status(429, body=QUOTA), "the account has no quota left", {"throttled", "fatal"}),
        (redirect("http://elsewhere.test/v2?token=x"), "if http://elsewhere.test/v2 is the", {"fatal"}),
        ("drop", "was closed before the reply was complete", {"retryable"}),
        ("huge", "larger than 10,485,760 bytes", set()),
        (Answer(body=b"not gzip", headers={"Content-Encoding": "gzip"}), "does not match its content-encoding", set()),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_fault_means_the_same_to_all(agent, door, mode, says, expected):
    agent.mode = mode
    error = fail(door, agent.url)
    assert says in str(error)
    assert flags(error) == expected


@EVERY_DOOR
def test_a_wait_that_is_too_long_is_told_by_all(agent, door):
    agent.mode = throttled(7200)
    error = fail(door, agent.url)
    assert "it asks to wait 7200 s, more than the limit of 120 s" in str(error)
    assert error.retry_after == 7200


@EVERY_DOOR
def test_no_connection(agent, door):
    agent.stop()
    error = fail(door, agent.url)
    assert "connection refused; is the" in str(error)
    assert flags(error) == {"retryable", "unreachable"}


@EVERY_DOOR
def test_a_host_that_does_not_exist(door):
    error = fail(door, "http://service.invalid")
    assert "the host of http://service.invalid" in str(error)
    assert flags(error) == {"retryable", "unreachable"}


@EVERY_DOOR
def test_a_server_without_tls_is_not_tried_again(agent, door):
    error = fail(door, agent.url.replace("http:", "https:"))
    assert "no TLS connection" in str(error)
    assert flags(error) == {"unreachable"}


@EVERY_DOOR
def test_a_connection_that_is_never_made_is_told_from_a_slow_reply(door, monkeypatch):
    monkeypatch.setattr("doors.SECONDS", 0.6)
    monkeypatch.setattr("evalspec.targets.http.client._MAX_CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = fail(door, f"https://127.0.0.1:{silent.getsockname()[1]}")
    assert "no connection to https://127.0.0.1" in str(error)
    assert flags(error) == {"retryable", "unreachable"}


@EVERY_DOOR
def test_no_cookie_is_kept(agent, door):
    agent.mode = Answer(500, {"Set-Cookie": "session=1; Path=/"}, b"{}")
    with pytest.raises(ServiceError):
        asyncio.run(door(agent.url, times=3))
    assert len(agent.requests) == 3
    assert not any("cookie" in request.headers for request in agent.requests)


@EVERY_DOOR
@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("empty", "returned an empty body instead of JSON"),
        ("html", "returned an HTML page instead of JSON; check"),
        ("invalid_json", "is not valid JSON"),
        ("not_utf8", "is not UTF-8 text"),
        ("nan", "NaN is not JSON"),
    ],
)
def test_a_body_is_read_as_strictly_by_all(agent, door, mode, says):
    """What the judge or the embeddings service garbles is asked for again: it is not what is evaluated."""
    agent.mode = mode
    error = fail(door, agent.url)
    assert says in str(error)
    assert error.retryable is (door.__name__ in ("ask_judge", "ask_embeddings"))
