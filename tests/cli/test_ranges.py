"""Metrics without a range: no statement about their mean, but one about their median; and `range` in the manifest."""

import pytest

from evalspec.scoring.metrics.base import METRICS

OPEN = {"tokens_mean", "latency", "cost", "steps", "forbidden_tool_calls", "redundant_tool_calls"}


def test_every_metric_declares_its_range_or_is_known_to_have_none():
    """A latency is limited by its percentiles, which need no range."""
    means = [metric for metric in METRICS if metric.statistic == "mean"]
    assert {metric.name for metric in means if None in metric.bounds} == OPEN
    assert METRICS.find("answer_similarity").bounds == (-1.0, 1.0)


def answer(tokens):
    return {"response": "Paris", "usage": {"input_tokens": 0, "output_tokens": tokens}}


@pytest.fixture
def counted(project, agent):
    """Thirty replies of 100 to 129 tokens."""
    project.api = {"url": agent.url, "chatEndpoint": {"response": {"answer": "$.response", "usage": "$.usage"}}}
    agent.reply = lambda body: answer(100 + int(body["message"]))
    project.dataset("qa", [{"id": f"s{n}", "input": str(n)} for n in range(30)], metrics=["tokens_mean"])
    project.evaluation["thresholds"] = {"tokens_mean": 200}
    return project


def test_an_unbounded_mean_has_the_interval_of_its_median(counted):
    outcome = counted.evaluate("--json")
    found = outcome.document["datasets"][0]["metrics"]["tokens_mean"]
    assert (outcome.code, found["value"], found["interval"], found["median"]) == (0, 114.5, None, 114.5)
    assert found["medianInterval"] == [109.0, 120.0]
    assert found["noInterval"] == "the metric has no range, so a rare value could move its mean by any amount"
    assert "median 114.5 (109.0 – 120.0)" in counted("report").out


def test_equal_values_have_one_reason(counted, agent):
    agent.reply = answer(100)
    found = counted.evaluate("--json").document["datasets"][0]["metrics"]["tokens_mean"]
    assert found["noInterval"] == "the metric has no range, so a rare value could move its mean by any amount"


def test_no_limit_with_confidence_on_what_has_no_range(counted):
    counted.evaluation["ciGate"] = {"confidence": 0.95}
    outcome = counted.validate()
    assert outcome.code == 2
    assert "no mean of tokens_mean is known at 95 % confidence, because it has no range" in outcome.out
    assert "declare one, as in {name: tokens_mean, range: [0, 1000]}, limit a percentile" in outcome.out
    for limit in ({"max": 200, "confidence": None}, {"max": 200, "stat": "median"}):
        counted.evaluation["thresholds"] = {"tokens_mean": limit}
        assert counted.evaluate().code == 0
    counted.evaluation["thresholds"] = {"tokens_mean": 200}
    counted.evaluation["datasets"][0]["metrics"] = [{"name": "tokens_mean", "range": [0, 300]}]
    outcome = counted.evaluate("--json")
    (limit,) = outcome.document["datasets"][0]["thresholds"]
    assert (outcome.code, 114.5 < limit["bound"] < 200) == (0, True)


def test_a_value_beyond_the_declared_range_is_an_error(counted):
    counted.evaluation["datasets"][0]["metrics"] = [{"name": "tokens_mean", "range": [0, 120]}]
    counted.evaluation |= {"thresholds": {"tokens_mean": 111}, "ciGate": True}
    outcome = counted.evaluate("--json")
    found = outcome.document["datasets"][0]["metrics"]["tokens_mean(range=[0, 120])"]
    assert (outcome.code, found["failed"]) == (3, 9)
    assert any(
        "tokens_mean(range=[0, 120]) gave 121, outside its range [0, 120]" in note for note in outcome.document["notes"]
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"name": "string_match", "range": [0, 2]}, "the range of string_match is [0, 1] already"),
        ({"name": "tokens_mean", "range": [-1, 5]}, "the range of tokens_mean is [0, …] already"),
        ({"name": "tokens_mean", "range": [5, 5]}, "range must be [lowest, highest], such as [0, 10]"),
        ({"name": "tokens_mean", "range": [5]}, "range must be [lowest, highest], such as [0, 10]"),
    ],
)
def test_a_range_that_cannot_be(entry, said, counted):
    counted.evaluation["datasets"][0]["metrics"] = [entry]
    outcome = counted.validate()
    assert (outcome.code, said in outcome.out) == (2, True), outcome.out


def test_a_cosine_has_the_interval_of_its_whole_range(project, agent):
    project.api = {"url": agent.url}
    project.dataset("qa", [{"id": f"s{n}"} for n in range(20)], metrics=["answer_similarity"])
    found = project.evaluate("--json").document["datasets"][0]["metrics"]["answer_similarity"]
    assert (found["bounds"], found["intervalMethod"]) == ([-1.0, 1.0], "bounded")


@pytest.mark.parametrize(("score", "ends"), [(0.7, [0.7, 1]), (0.1, [0, 0.1])])
def test_a_mean_of_attempts_at_the_end_of_a_range_is_within_it(score, ends, project, agent):
    """The sum of three times 0.7, divided by three, is below 0.7 by a rounding error."""
    project.api = {"url": agent.url}
    (project.folder / "scorer.py").write_text(f"def score(exchange):\n    return {score}\n")
    project.dataset(
        "qa", [{"id": f"s{n}"} for n in range(8)], metrics=[{"name": "m", "scorer": "scorer:score", "range": ends}]
    )
    outcome = project.evaluate("--repeat", "3", "--json")
    assert (outcome.code, outcome.document["datasets"][0]["metrics"]["m"]["value"]) == (0, score)
    assert project("report", "--json").document == outcome.document
