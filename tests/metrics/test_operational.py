import pytest

from evalspec.model import AgentReply, Direction, Exchange, Sample, ScoreStatus, Usage
from evalspec.scoring.metrics.base import METRICS

SAMPLE = Sample("s", "q")
NAMES = ["latency_p50", "latency_p95", "latency_p99", "error_rate", "tokens_mean", "truncated_rate"]


@pytest.mark.parametrize("name", ["latency_p50", "latency_p95", "latency_p99"])
def test_latency_is_that_of_the_reply(name, build_scorer):
    score = build_scorer(name)
    assert score(Exchange(SAMPLE, AgentReply("a", latency_ms=51.25))).value == 51.25
    assert score(Exchange(SAMPLE, AgentReply("a", latency_ms=0.0))).value == 0.0
    assert score(Exchange(SAMPLE, AgentReply("a"))).status is ScoreStatus.NOT_APPLICABLE


def test_error_rate_counts_exchanges_without_a_reply(build_scorer):
    score = build_scorer("error_rate")
    assert score(Exchange(SAMPLE, AgentReply(""))).value == 0.0
    failed = score(Exchange(SAMPLE, error="timeout after 30 s"))
    assert (failed.value, failed.reason) == (1.0, "timeout after 30 s")
    assert METRICS.find("error_rate").scores_failures


def test_tokens_are_input_and_output(build_scorer):
    score = build_scorer("tokens_mean")
    assert score(Exchange(SAMPLE, AgentReply("a", usage=Usage(300, 20)))).value == 320
    assert score(Exchange(SAMPLE, AgentReply("a"))).status is ScoreStatus.NOT_APPLICABLE


@pytest.mark.parametrize("reason", ["length", "content_filter", "max_tokens", "MAX_TOKENS", "content-filter", "SAFETY"])
def test_a_reply_that_was_cut_off_counts(reason, build_scorer):
    scored = build_scorer("truncated_rate")(Exchange(SAMPLE, AgentReply("a", finish_reason=reason)))
    assert (scored.value, scored.reason) == (1.0, f"finish_reason {reason}")


@pytest.mark.parametrize("reason", ["stop", "STOP", "end_turn", "tool_calls"])
def test_a_reply_that_ended_by_itself_is_not_cut_off(reason, build_scorer):
    assert build_scorer("truncated_rate")(Exchange(SAMPLE, AgentReply("a", finish_reason=reason))).value == 0.0


@pytest.mark.parametrize("reason", [None, "because", "lengthy"])
def test_without_a_known_finish_reason_nobody_knows(reason, build_scorer):
    scored = build_scorer("truncated_rate")(Exchange(SAMPLE, AgentReply("a", finish_reason=reason)))
    assert scored.status is ScoreStatus.NOT_APPLICABLE
    assert (reason or "no finish reason") in scored.reason


def test_a_threshold_alone_is_enough_and_lower_is_better():
    definitions = [METRICS.find(name) for name in NAMES]
    assert all(known.implicit and known.direction is Direction.LOWER and not known.needs for known in definitions)
    assert [known.statistic for known in definitions] == ["p50", "p95", "p99", "mean", "mean", "mean"]
