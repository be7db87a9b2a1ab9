"""Requests and tokens a minute, from the manifest and from headers, and quotas that fail no score."""

import random
from datetime import UTC, datetime

import pytest

from evalspec.scoring.judge.usage import JudgeListener
from evalspec.targets.http.pace import Pace, parse_reset
from judge.test_chat import Asking
from servers.scripted_judge import Quota, ScriptedJudge, status

ANTHROPIC = "anthropic-ratelimit-requests"


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def send_all(pace: Pace, clock: Clock, sizes: list[int]) -> list[float]:
    """When each request is sent, if all are waiting from the beginning."""
    moments = []
    for tokens in sizes:
        while (wait := pace.find_wait(tokens)) > 0:
            clock.now += wait
        pace.spend(tokens)
        moments.append(clock.now)
    return moments


def in_each_minute(moments: list[float], amounts: list[int]) -> list[int]:
    """The sums of all windows of 60 seconds that begin with a request."""
    timed = list(zip(moments, amounts, strict=True))
    return [sum(amount for at, amount in timed if start <= at < start + 60) for start in moments]


@pytest.mark.parametrize("seed", range(20))
def test_no_minute_has_more_than_permitted_and_none_waits_without_need(seed):
    chance = random.Random(seed)
    sizes = [chance.randint(1, 400) for _ in range(60)]
    clock = Clock()
    moments = send_all(Pace(7, 1000, clock), clock, sizes)
    requests, tokens = in_each_minute(moments, [1] * len(sizes)), in_each_minute(moments, sizes)
    assert max(requests) <= 7 and max(tokens) <= 1000
    for place in range(1, len(moments)):
        if moments[place] > moments[place - 1]:  # it waited: a moment before, it was too much
            before = [at for at in range(place) if moments[at] > moments[place] - 60 - 1e-6]
            assert len(before) + 1 > 7 or sum(sizes[at] for at in before) + sizes[place] > 1000


def test_a_request_larger_than_a_minute_is_sent_alone():
    clock = Clock()
    assert send_all(Pace(None, 100, clock), clock, [50, 500, 50]) == [1000, 1060, 1120]


def test_what_a_reply_counts_replaces_the_estimate():
    clock = Clock()
    pace = Pace(None, 100, clock)
    spending = pace.spend(90)
    assert pace.find_wait(50) == 60
    spending.tokens = 20
    assert pace.find_wait(50) == 0


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m6s"}, 66),
        ({"x-ratelimit-remaining-tokens": "149", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "150", "x-ratelimit-reset-tokens": "6s"}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8h"}, 0),
        ({"x-ratelimit-remaining-requests": "none", "x-ratelimit-reset-requests": "6s"}, 0),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6s"}, 0),
        ({f"{ANTHROPIC}-remaining": "0", f"{ANTHROPIC}-reset": "2001-01-01T00:00:00Z"}, 0),
    ],
)
def test_headers_pause_until_their_reset(headers, wait):
    pace = Pace(clock=Clock())
    pace.learn(headers)
    assert pace.find_wait(150) == pytest.approx(wait)


def test_each_form_of_a_reset_is_read():
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    read = {
        "6m0s": 360,
        "1h2m3.5s": 3723.5,
        "12ms": 0.012,
        "0.25": 0.25,
        "2026-01-31T12:00:09Z": 9,
        "": None,
        "soon": None,
    }
    assert {text: parse_reset(text, now) for text in read} == pytest.approx(read)


@pytest.mark.parametrize(
    ("quota", "config"),
    [
        (Quota(3, 10_000, 0.2), {}),
        (Quota(100, 5, 0.2), {}),
        (Quota(3, 10_000, 0.2, headers=False), {}),
        (Quota(2, 10_000, 0.2, headers=False), {"concurrency": 16, "max_retries": 1}),
    ],
    ids=["requests", "tokens", "no headers", "many at once"],
)
def test_a_quota_of_a_few_requests_a_window_fails_no_answer(quota, config):
    with ScriptedJudge() as judge:
        judge.quota = quota
        asking = Asking(judge.url, **({"max_retries": 2} | config))
        assert [answer["value"] for answer in asking(30)] == ["good"] * 30
    assert len(judge.chats) == 30 + quota.refused == 30 + asking.ledger.total.retries


def test_a_judge_that_answers_nothing_fails_after_the_retries():
    with ScriptedJudge() as judge:
        judge.mode = status(429, {"Retry-After": "0"})
        assert "429" in Asking(judge.url, max_retries=2).failure()
        assert len(judge.chats) == 3


def test_the_pace_of_the_manifest_reaches_the_requests(project):
    with ScriptedJudge() as judge:
        asking = Asking(judge.url, pace={"requestsPerMinute": 2}, timeout_seconds=5.0)
        assert len(asking(2)) == 2
    project.evaluation["judge"] = {"model": "m", "pace": {"requestsPerMinute": 0, "tokens": 3}}
    project.dataset("qa", [{"input": "Who pays?", "expected": "You."}], metrics=["answer_relevancy"])
    outcome = project.evaluate("--dry-run")
    assert outcome.code == 2 and "judge.pace.requestsPerMinute" in outcome.err and "judge.pace.tokens" in outcome.err


def test_a_paced_run_says_that_it_waits(monkeypatch):
    told = []
    monkeypatch.setattr("evalspec.targets.http.pace._WINDOW_SECONDS", 6.5)
    with ScriptedJudge() as judge:
        asking = Asking(judge.url, listener=JudgeListener(waits=told.append), pace={"requestsPerMinute": 2})
        assert len(asking(4)) == 4
    assert told and all(1.0 <= seconds <= 6.5 for seconds in told)


@pytest.mark.parametrize("text", ["2026-11-26T22:27:00", "Thu, 26 Nov 2026 22:27:00 -0000", "soon"])
def test_a_moment_without_a_zone_is_ignored(text):
    assert parse_reset(text) is None
