"""Limits on pass^k and pass@k: how often all attempts at a sample succeed, or one of them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from servers.faulty_agent import status
from servers.scripted_judge import ScriptedJudge


@pytest.fixture
def flaky(project, agent):
    """Five samples; the agent gives `s-N` N right answers in five attempts."""
    asked: Counter[str] = Counter()

    def reply(body):
        question = body["message"]
        asked[question] += 1
        return {"response": "Paris" if asked[question] <= int(question) else "Lyon"}

    agent.reply = reply
    project.api = {"url": agent.url, "chatEndpoint": {"maxRetries": 0}}
    project.dataset("qa", [{"id": f"s-{n}", "input": str(n)} for n in range(1, 6)], metrics=["string_match"])
    project.evaluation |= {"thresholds": {"pass^2": {"min": 0.3, "of": "string_match"}}, "ciGate": True}
    return project


RATES = [0, 0.1, 0.3, 0.6, 1]
"""C(c, 2) / C(5, 2) for c = 1 to 5."""


def scores_of(document, metric):
    return [sample["scores"][metric] for sample in document["datasets"][0]["samples"]]


def test_a_limit_on_pass_k_of_a_metric_is_a_metric_like_any(flaky):
    outcome = flaky.evaluate("--repeat", "5", "-j", "1", "--json")
    metric = "pass^2 of string_match"
    (dataset,) = outcome.document["datasets"]
    (limit,) = dataset["thresholds"]
    assert outcome.code == 0
    assert [score["value"] for score in scores_of(outcome.document, metric)] == pytest.approx(RATES)
    assert scores_of(outcome.document, metric)[1]["reason"] == "2 of 5 attempts succeed"
    summary = dataset["metrics"][metric]
    assert (limit["metric"], limit["status"], limit["value"]) == (metric, "PASS", pytest.approx(0.4))
    assert (summary["scored"], summary["bounds"], summary["intervalMethod"]) == (5, [0, 1], "bounded")
    assert summary["interval"][0] < 0.4 < summary["interval"][1]


def test_the_example_of_the_reference_is_what_a_run_prints(flaky, agent):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    shown = next(block for block in page.split("```") if "pass^4 of string_match" in block).removeprefix("text\n")
    rights = [5] * 17 + [4, 3, 1]
    left = dict(zip(map(str, range(20)), rights, strict=True))

    def reply(body):
        left[body["message"]] -= 1
        return {"response": "Paris" if left[body["message"]] >= 0 else "Lyon"}

    agent.reply = reply
    flaky.evaluation["datasets"] = []
    flaky.dataset("tasks", [{"id": f"s-{n}", "input": str(n)} for n in range(20)], metrics=["string_match"])
    flaky.evaluation["thresholds"] = {"pass^4": {"min": 0.7, "of": "string_match"}}
    assert shown in flaky.evaluate("--repeat", "5", "-j", "1").out


def test_every_report_has_its_row(flaky):
    outcome = flaky.evaluate("--repeat", "5", "-j", "1", "-o", "r.md", "-o", "r.junit.xml", "-o", "r.html")
    assert "pass^2 of string_match" in outcome.out
    for name in ("r.md", "r.junit.xml", "r.html"):
        assert "pass^2 of string_match" in (flaky.folder / name).read_text().replace("\\", "")


def test_an_attempt_without_a_score_is_not_decided_and_too_few_fail_the_sample(flaky):
    """The scorer can make nothing of a wrong answer, so s-1 has one decided attempt."""
    code = "def right(x):\n    assert x.answer == 'Paris', 'no city'\n    return True\n"
    (flaky.folder / "own.py").write_text(code)
    own = {"name": "right", "scorer": "own:right", "range": [0, 1]}
    flaky.evaluation["datasets"][0]["metrics"] = [own]
    flaky.evaluation["thresholds"] = {"right": 0.1, "pass^2": {"min": 0.9, "of": "right"}}
    outcome = flaky.evaluate("--repeat", "5", "-j", "1", "--json")
    limit = outcome.document["datasets"][0]["thresholds"][1]
    first, *others = scores_of(outcome.document, "pass^2 of right")
    assert (first["status"], first["value"]) == ("failed", None)
    assert first["reason"].startswith("pass^2 of right needs 2 decided attempts, and 1 is; 4 of 5 attempts: ")
    assert [score["value"] for score in others] == [1, 1, 1, 1]
    assert "; 3 of 5 attempts: " in others[0]["reason"]
    assert (limit["status"], limit["scored"], limit["expected"]) == ("INCOMPLETE", 4, 5)
    assert outcome.code == 3


def test_success_is_what_the_metrics_own_limits_say(flaky):
    flaky.evaluation["thresholds"] = {
        "pass@2 of rouge": {"max": 0.5},
        "rouge": [0.2, {"max": 0.9}],
        "string_match": 0.1,
        "pass^2": 0.1,
    }
    flaky.evaluation["datasets"][0]["metrics"] = ["string_match", "rouge"]
    outcome = flaky.evaluate("--repeat", "5", "-j", "1", "--json")
    assert {score["value"] for score in scores_of(outcome.document, "pass@2 of rouge")} == {0}, "1 is above 0.9"
    assert {score["value"] for score in scores_of(outcome.document, "pass^2")} == {0}, "no attempt meets all limits"


@pytest.mark.parametrize(
    ("thresholds", "said"),
    [
        ({"pass^2": 0.5}, "no threshold of dataset 'qa' says for every sample whether an attempt succeeds"),
        ({"pass^2": {"min": 0.5, "of": "rouge"}}, "no threshold on rouge of dataset 'qa' says for every sample"),
        ({"pass^2": {"min": 0.5, "of": "rouge"}, "rouge": {"min": 0.5, "stat": "p50"}}, "no threshold on rouge"),
        ({"pass^2": {"min": 0.5, "of": "bleu"}}, "no dataset computes bleu"),
        ({"pass^2": {"min": 0.5, "of": "string_match", "stat": "p50"}}, "stat means nothing for pass^2"),
        ({"string_match": {"min": 0.5, "of": "rouge"}}, "of means nothing for string_match"),
        ({"pass^2": {"min": 50, "of": "string_match"}}, "did you mean 0.5?"),
        (
            {"pass^2": [{"min": 0.5, "of": "string_match"}, {"min": 0.5, "of": "rouge"}], "rouge": 0.5},
            "the limits of pass^2 are about different metrics",
        ),
        ({"pass^0": 0.5}, "pass^0"),
    ],
)
def test_what_declares_no_success_is_refused(thresholds, said, flaky):
    flaky.evaluation["datasets"][0]["metrics"] = ["string_match", "rouge"]
    flaky.evaluation["thresholds"] = thresholds
    outcome = flaky.validate()
    assert (outcome.code, said in outcome.out + outcome.err) == (2, True), outcome.out + outcome.err


def test_more_attempts_than_the_run_has_are_refused_before_the_first_request(flaky, agent):
    assert flaky.validate().code == 0, "a manifest is valid for any number of attempts"
    for command in ("evaluate", "plan"):
        outcome = flaky(command, "agent.yaml")
        assert outcome.code == 2
        assert "pass^2 of string_match needs 2 attempts at each sample, and --repeat is 1" in outcome.err
        assert "--repeat 2" in outcome.err
    assert not agent.requests
    planned = flaky("plan", "agent.yaml", "--repeat", "2")
    assert planned.code == 0
    assert "pass^2 of string_match: no forecast of the change that a comparison detects" in planned.out


def test_a_run_that_is_read_resumed_or_scored_again_says_the_same(flaky, agent):
    metric = "pass^2 of string_match"
    agent.script = [status(500)]
    first = flaky.evaluate("--repeat", "5", "-j", "1", "--json")
    assert flaky("report", "latest", "-o", "r.json").code == first.code
    read = json.loads((flaky.folder / "r.json").read_text())
    again = flaky("rescore", "latest", "agent.yaml", "--json").document
    assert scores_of(read, metric) == scores_of(again, metric) == scores_of(first.document, metric)
    resumed = flaky.evaluate("--repeat", "5", "--retry-errors", "--json")
    assert scores_of(resumed.document, metric)[1] == scores_of(first.document, metric)[1]


def test_it_is_compared_with_a_baseline(flaky, agent):
    flaky.evaluation["ciGate"] = {"baseline": "main", "newFailures": 5}
    flaky.evaluate("--repeat", "5", "-j", "1")
    assert flaky("runs", "promote", "latest", "--as", "main").code == 0
    agent.reply = lambda body: {"response": "Lyon"}
    flaky.evaluate("--repeat", "5")
    assert flaky("runs", "promote", "latest", "--as", "main", "--add").code == 0
    outcome = flaky.evaluate("--repeat", "5", "--json")
    regressions = {one["metric"]: one for one in outcome.document["regressions"] if one["against"] == "baseline"}
    found = regressions["pass^2 of string_match"]
    assert (found["pairs"], found["baseline"], found["candidate"]) == (5, pytest.approx(0.2), 0), (
        "the mean of both runs"
    )


def test_a_judge_s_success_is_its_opinion_and_is_skipped_without_it(flaky):
    """A rubric that scores 0 or 1 needs no limit: 1 is a success. The judge says 1 and 0 in turn."""
    rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
    flaky.evaluation["datasets"][0]["metrics"] = ["string_match", rubric]
    flaky.evaluation["thresholds"] = {"pass@2": {"min": 0.5, "of": "tone"}, "string_match": 0.1}
    with ScriptedJudge() as judge:
        judge.in_turn = True
        flaky.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "concurrency": 1}
        outcome = flaky.evaluate("--repeat", "4", "-j", "1", "--json")
        limit = outcome.document["datasets"][0]["thresholds"][0]
        assert (limit["value"], limit["status"], limit["basis"]) == (pytest.approx(5 / 6), "PASS", "judge")
        flaky.evaluation["ciGate"] = {"judge": "require"}
        outcome = flaky.evaluate("--repeat", "4", "-j", "1", "--json")
        limit = outcome.document["datasets"][0]["thresholds"][0]
        assert (limit["status"], "--metric tone" in limit["reason"]) == ("INCOMPLETE", True)
    outcome = flaky.evaluate("--repeat", "4", "--no-judge", "--json")
    limit = outcome.document["datasets"][0]["thresholds"][0]
    assert (limit["status"], limit["reason"], outcome.document["partial"]) == (
        "NOT_GATED",
        "no judge (--no-judge)",
        True,
    )


def test_fail_fast_says_the_same(flaky):
    """A metric over attempts has no value before the last one, so it makes no verdict certain."""
    rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
    flaky.evaluation["datasets"][0]["metrics"] = ["string_match", rubric]
    with ScriptedJudge() as judge:
        flaky.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        outcome = flaky.evaluate("--repeat", "5", "-j", "1", "--fail-fast", "--json")
    assert outcome.document["datasets"][0]["thresholds"][0]["value"] == pytest.approx(0.4)
