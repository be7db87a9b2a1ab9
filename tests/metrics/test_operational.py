import pytest

from evalspec.metrics.base import METRICS
from evalspec.records import AgentReply, Direction, Exchange, Sample, ScoreStatus, Usage

SAMPLE = Sample("s", "q")
NAMES = ["latency_p50", "latency_p95", "latency_p99", "error_rate", "tokens_mean"]


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


def test_a_threshold_alone_is_enough_and_lower_is_better():
    definitions = [METRICS.find(name) for name in NAMES]
    assert all(known.implicit and known.direction is Direction.LOWER and not known.needs for known in definitions)
    assert [known.statistic for known in definitions] == ["p50", "p95", "p99", "mean", "mean"]
