"""What the judge fails to score is scored again, and slices that a run leaves out are not gated."""

import pytest

from servers.scripted_judge import status

RUBRIC = {"name": "tone", "rubric": "Is it polite? {response}", "labels": {"yes": 1, "no": 0}}


@pytest.fixture
def judged(project, agent, judge, monkeypatch):
    """Four samples that a scripted judge scores, one call each, without retries."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-key-000")
    project.api = {"url": agent.url}
    project.evaluation["judge"] = {"model": "scripted", "baseUrl": judge.url, "maxRetries": 0, "concurrency": 1}
    project.samples(4, metrics=(RUBRIC,))
    project.evaluation |= {"thresholds": {"tone": 0.9}, "ciGate": {"minCoverage": 1.0}}
    return project


def test_what_the_judge_fails_to_score_is_scored_once_more(judged, judge):
    judge.script = ["ok", status(500), "ok", "prose"]
    outcome = judged.evaluate("--json")
    found = outcome.document["datasets"][0]["metrics"]["tone"]
    assert (outcome.code, found["scored"], found["value"]) == (0, 4, 1.0)
    assert "asking the judge again about 2 replies that it failed on" in outcome.err
    assert judged("report", "--json").document == outcome.document
    assert len(judge.chats) == 6
    again = judged("report", "--json").document
    assert again["datasets"] == outcome.document["datasets"]
    judged.evaluate("--resume", "latest")
    assert len(judge.chats) == 6


def test_a_second_failure_is_final(judged, judge):
    judge.script = ["ok", "ok", status(500), "ok", status(500)]
    outcome = judged.evaluate("--json")
    assert (outcome.code, outcome.document["datasets"][0]["metrics"]["tone"]["failed"]) == (3, 1)
    assert len(judge.chats) == 5


def test_a_judge_that_scores_nothing_is_not_asked_again(judged, judge):
    judge.mode = status(500)
    outcome = judged.evaluate("--json")
    assert (outcome.code, len(judge.chats)) == (3, 4)


@pytest.mark.parametrize("options", [("--tag", "easy"), ("--exclude-tag", "hard"), ("--where", "level=1")])
def test_a_slice_that_the_run_leaves_out_on_purpose_is_not_gated(options, project, agent):
    project.api = {"url": agent.url}
    samples = [
        {"id": f"s{n}", "tags": ["hard" if n % 2 else "easy"], "metadata": {"level": n % 2 + 1}} for n in range(6)
    ]
    project.dataset("qa", samples, metrics=["string_match"])
    project.evaluation["thresholds"] = {"string_match": [0.5, {"min": 0.9, "slice": "hard"}]}
    project.evaluation["ciGate"] = True
    assert project.evaluate("--json").document["verdict"] == "PASS"
    outcome = project.evaluate(*options, "--json")
    assert (outcome.code, outcome.document["verdict"], outcome.document["partial"]) == (0, "PASS", True)
    whole, hard = outcome.document["datasets"][0]["thresholds"]
    assert (whole["status"], hard["status"]) == ("PASS", "NOT_GATED")
    assert hard["reason"] == "the run leaves out all samples of this slice"
    assert project("report", "--json").document == outcome.document
