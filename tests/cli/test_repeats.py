"""Samples asked, and replies graded, more than once."""

import json
import re
from collections import Counter

import pytest

from evalspec.verdict.stats.repeats import compute_pass_at_k, compute_pass_hat_k
from servers.faulty_agent import status
from servers.scripted_judge import ScriptedJudge


@pytest.fixture
def moody(project, agent):
    """Three samples: one that always passes, one that never does, one that passes every other time."""
    asked: Counter[str] = Counter()

    def reply(body):
        question = body["message"]
        asked[question] += 1
        right = {"always": True, "never": False, "sometimes": asked[question] % 2 == 1}[question]
        return {"response": "Paris" if right else "Lyon"}

    agent.reply = reply
    project.api = {"url": agent.url}
    names = ("always", "never", "sometimes")
    project.dataset(
        "qa", [{"id": name, "input": name, "tags": [name]} for name in names], metrics=["string_match", "latency_p95"]
    )
    project.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": True}
    return project


def test_what_repeating_shows(moody, agent):
    outcome = moody.evaluate("--repeat", "4", "-j", "1", "--json")
    (dataset,) = outcome.document["datasets"]
    assert outcome.code == 0
    assert len(agent.requests) == 12
    assert dataset["metrics"]["string_match"]["value"] == 0.5
    assert dataset["metrics"]["string_match"]["scored"] == 3, "a sample counts once, however often it is asked"
    assert dataset["metrics"]["latency_p95"]["scored"] == 12, "a percentile is one of replies"
    repeats = dataset["repeats"]
    assert (repeats["repeats"], repeats["decided"], repeats["flaky"]) == (4, 3, ["sometimes"])
    for k in (1, 2, 3, 4):
        assert repeats["passAt"][str(k)] == pytest.approx((1 + 0 + compute_pass_at_k(4, 2, k)) / 3)
        assert repeats["passAll"][str(k)] == pytest.approx((1 + 0 + compute_pass_hat_k(4, 2, k)) / 3)
    found = repeats["variance"]["string_match"]
    assert found == {"replies": pytest.approx(1 / 9), "agent": pytest.approx(1 / 9), "judge": None}
    by_id = {sample["id"]: sample for sample in dataset["samples"]}
    assert {name: sample["passRate"] for name, sample in by_id.items()} == {"always": 1, "never": 0, "sometimes": 0.5}
    assert [attempt["passed"] for attempt in by_id["sometimes"]["attempts"]] == [True, False, True, False]


@pytest.mark.parametrize(("floor", "code", "said"), [(0.5, 1, "never (0)"), (0.0, 0, None), (1.0, 1, "2 samples")])
def test_a_floor_under_every_sample(floor, code, said, moody):
    moody.evaluation["ciGate"] = {"minPassRate": floor}
    outcome = moody.evaluate("--repeat", "2", "--json")
    assert outcome.code == code
    reasons = " ".join(outcome.document["reasons"])
    assert (said or "") in reasons
    assert ("minPassRate" in reasons) == (code == 1)


def test_a_dataset_that_does_not_exist_is_the_only_problem(moody):
    moody.evaluation["ciGate"] = {"minPassRate": 0.5}
    outcome = moody.evaluate("--dataset", "nope")
    assert outcome.code == 2
    assert "no dataset is named 'nope'" in outcome.err and "minPassRate" not in outcome.err


def test_a_floor_cannot_be_checked_under_a_sample_that_no_limit_holds(moody):
    moody.evaluation |= {
        "thresholds": {"string_match": {"min": 0.5, "slice": "always"}, "latency_p95": 60_000},
        "ciGate": {"minPassRate": 0.5},
    }
    outcome = moody.evaluate("--json")
    assert outcome.code == 3
    assert outcome.document["reasons"] == ["qa: 2 samples (never, sometimes) without a limit for minPassRate to check"]


def test_a_limit_on_a_skipped_metric_holds_no_sample(moody):
    """Samples that pass all that is measured are not undecided for what --no-judge leaves out."""
    rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
    moody.evaluation["datasets"][0]["metrics"] += [rubric]
    moody.evaluation |= {"thresholds": {"string_match": 0.2, "tone": 0.5}, "judge": {"model": "m", "apiKey": "k"}}
    outcome = moody.evaluate("--no-judge", "--repeat", "4", "-j", "1", "--json")
    (dataset,) = outcome.document["datasets"]
    assert (outcome.code, outcome.document["partial"]) == (0, True)
    assert dataset["repeats"]["decided"] == 3
    assert {s["id"]: s["passRate"] for s in dataset["samples"]} == {"always": 1.0, "never": 0.0, "sometimes": 0.5}
    only_judged = {"thresholds": {"tone": 0.5, "latency_p95": 60_000}, "ciGate": {"minPassRate": 0.5}}
    moody.evaluation |= only_judged
    outcome = moody.evaluate("--no-judge", "--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    assert "3 samples (always, never, sometimes) without a limit for minPassRate" in outcome.document["reasons"][0]
    assert {s["passRate"] for s in outcome.document["datasets"][0]["samples"]} == {None}


def test_a_floor_that_nothing_can_stand_on_is_refused(moody):
    moody.evaluation |= {"thresholds": {"latency_p95": 60_000}, "ciGate": {"minPassRate": 0.5}}
    outcome = moody.validate()
    assert (outcome.code, "no threshold applies to a single reply" in outcome.out) == (2, True)


def test_an_attempt_without_a_reply_fails_its_sample_and_leaves_a_gap(moody, agent):
    moody.api["chatEndpoint"] = {"maxRetries": 0}
    agent.script = [status(500)]
    outcome = moody.evaluate("--repeat", "2", "-j", "1", "--json")
    (dataset,) = outcome.document["datasets"]
    assert outcome.code == 3
    (failed,) = [sample for sample in dataset["samples"] if sample["status"] == "failed"]
    assert re.match("1 of 2 attempts: .* answered 500", failed["error"])
    assert failed["scores"]["string_match"]["status"] == "failed"
    assert failed["passRate"] is not None, "an agent that fails has not passed"
    again = moody.evaluate("--retry-errors", "--json")
    assert len(agent.requests) == 7
    assert again.document["datasets"][0]["answered"] == 3


def test_the_judge_s_own_noise_is_told_apart_from_the_agent_s(project, agent):
    """The judge answers 1 and 0 in turn about one and the same reply: all of the spread is its own."""
    with ScriptedJudge() as judge:
        judge.in_turn = True
        project.api = {"url": agent.url}
        rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
        project.samples(4, metrics=(rubric,))
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "concurrency": 1}
        outcome = project.evaluate("--repeat", "3", "--judge-repeat", "2", "--json")
        (dataset,) = outcome.document["datasets"]
        assert len(judge.chats) == 4 * 3 * 2, "no grading is replayed"
    assert dataset["metrics"]["tone"]["value"] == 0.5
    assert dataset["repeats"]["variance"]["tone"] == {"replies": 0.0, "agent": 0.0, "judge": 0.5}
    sample = dataset["samples"][0]
    assert [sorted(attempt["scores"]["tone"]["repeats"]) for attempt in sample["attempts"]] == [[0, 1]] * 3


def test_the_log_holds_every_attempt(moody):
    moody.evaluate("--repeat", "2")
    log = moody.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    replies = [json.loads(line) for line in log.read_text().splitlines() if '"kind":"reply"' in line]
    assert sorted((reply["id"], reply["attempt"]) for reply in replies) == [
        (name, attempt) for name in ("always", "never", "sometimes") for attempt in (1, 2)
    ]
