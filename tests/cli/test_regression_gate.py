"""A run held against a promoted baseline."""

from collections import defaultdict
from itertools import count

import pytest


@pytest.fixture
def promoted(project, agent):
    """Forty samples, of which the agent has 36 right, promoted as the baseline `main`."""
    project.api = {"url": agent.url}
    project.dataset(
        "qa", [{"id": f"s{n}", "input": f"q{n}"} for n in range(40)], metrics=["string_match", "latency_p95"]
    )
    project.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": {"baseline": "main"}}
    answer_right(agent, 36)
    first = project.evaluate("--json")
    assert (first.code, first.document["verdict"]) == (3, "INCOMPLETE"), "there is nothing to hold it against yet"
    assert "runs promote RUN --as main" in first.err
    (missing,) = first.document["regressions"]
    assert (missing["dataset"], missing["metric"], missing["ofBaseline"]) == ("", None, True)
    said = "there is no baseline 'main'; write it with `evalspec runs promote RUN --as main`"
    assert first.document["reasons"] == [said]
    shown = project("report").out
    assert "new failures" not in shown
    assert f"baseline – – – ? {said}" in " ".join(shown.split())
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    return project


def answer_right(agent, right):
    agent.reply = lambda body: {"response": "Paris" if int(body["message"].strip("qx")) < right else "Lyon"}


def test_the_same_agent_passes(promoted):
    outcome = promoted.evaluate("--json")
    (regression,) = outcome.document["regressions"]
    assert (outcome.code, outcome.document["verdict"]) == (0, "PASS")
    assert (regression["metric"], regression["status"], regression["delta"], regression["pairs"]) == (
        "string_match",
        "PASS",
        0,
        40,
    )


FLAKY = {f"q{n}" for n in range(5)}


@pytest.mark.parametrize(
    ("right", "gate", "code"),
    [
        (20, {}, 1),
        (34, {}, 0),
        (34, {"alpha": None}, 1),
        (34, {"alpha": None, "maxDrop": 0.05}, 0),
        (34, {"newFailures": 1}, 0),
        (34, {"newFailures": 1, "alpha": None, "maxDrop": 0.5}, 1),
        (34, {"newFailures": 2}, 0),
        (20, {"maxDrop": 0.5}, 0),
        (20, {"maxDrop": {"latency_p95": 60_000}}, 0),
    ],
)
def test_worse_is_a_matter_of_size_and_of_chance(right, gate, code, promoted, agent):
    promoted.evaluation["ciGate"] |= gate
    answer_right(agent, right)
    outcome = promoted.evaluate("--json")
    assert outcome.code == code, outcome.document["reasons"]
    if code:
        assert any("against the baseline" in reason for reason in outcome.document["reasons"])


def test_a_report_made_again_says_the_same_though_the_baseline_has_moved_on(promoted, agent):
    answer_right(agent, 20)
    failed = promoted.evaluate("--json").document
    (promoted.folder / "evals" / "baselines" / "main.json").unlink()
    assert promoted("report", "--json").document == failed


def test_the_baseline_is_small_and_has_no_texts(promoted):
    path = promoted.folder / "evals" / "baselines" / "main.json"
    text = path.read_text()
    assert len(text) < 40 * 150 + 2000
    assert "Paris" not in text
    assert len([line for line in text.splitlines() if line.startswith('{"id"')]) == 40
    assert promoted("runs", "promote", "latest", "--as", "main").code == 0
    assert path.read_text() == text, "the same run gives the same file"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text("{"), "main.json"),
        (lambda path: path.write_text("{}"), "main.json: not a report of evalspec, a baseline"),
        (lambda path: path.write_text(path.read_text().replace('"id": "s1"', '"ix": "s1"')), "main.json"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_refused_before_anything_is_asked(spoil, said, promoted, agent):
    spoil(promoted.folder / "evals" / "baselines" / "main.json")
    asked = len(agent.requests)
    outcome = promoted.evaluate()
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err
    assert len(agent.requests) == asked


def test_a_limit_on_a_metric_that_nobody_computes_is_refused(promoted):
    promoted.evaluation["ciGate"]["maxDrop"] = {"string_mach": 0.1}
    outcome = promoted.validate()
    assert (outcome.code, "did you mean 'string_match'" in outcome.out) == (2, True)


def test_edited_samples_leave_the_comparison_and_count_at_their_worst(promoted):
    path = promoted.folder / "qa.jsonl"
    path.write_text(path.read_text().replace('"q7"', '"x7"'))
    (one,) = promoted.evaluate("--json").document["regressions"]
    assert (one["status"], one["pairs"]) == ("PASS", 39)
    path.write_text(path.read_text().replace('"q1', '"x1'))
    outcome = promoted.evaluate("--json")
    (many,) = outcome.document["regressions"]
    assert (outcome.code, many["status"], many["pairs"]) == (3, "INCOMPLETE", 28)
    said = "12 samples were edited since the baseline, which could change the outcome: promote a new baseline, or"
    assert said in many["reason"]
    said = (
        "qa: 12 samples were edited since the baseline, more than the share of 0.05 that ciGate.maxRemoved allows. no"
    )
    promoted.evaluation["ciGate"]["maxRemoved"] = 0.3
    outcome = promoted.evaluate("--json")
    assert (outcome.code, [note for note in outcome.document["notes"] if "maxRemoved" in note]) == (0, [])
    promoted.evaluation["ciGate"] |= {"maxRemoved": 0.05, "maxDrop": 1}
    outcome = promoted.evaluate("--json")
    assert (outcome.code, any(note.startswith(said) for note in outcome.document["notes"])) == (0, True)


def test_a_mismatch_of_a_whole_dataset_is_one_reason(promoted):
    promoted.evaluation["ciGate"] |= {"newFailures": 0, "maxDrop": {"string_match": 0, "latency_p95": 5000}}
    path = promoted.folder / "qa.jsonl"
    path.write_text(path.read_text().replace('"q', '"x'))
    said = "no sample is scored in both runs, 40 edited"
    outcome = promoted.evaluate("--json")
    assert [found["reason"] for found in outcome.document["regressions"]][:2] == [said] * 2
    assert f"qa: string_match, latency_p95 against the baseline: {said}" in outcome.document["reasons"]


def test_a_run_that_is_not_finished_is_not_promoted(promoted):
    (promoted.folder / ".evalspec" / "runs" / "latest" / "report.json").unlink()
    assert promoted("runs", "promote", "latest", "--as", "other").code == 2
    assert not (promoted.folder / "evals" / "baselines" / "other.json").exists()


def test_repeats_are_held_against_repeats(promoted, agent):
    """Five samples that always passed pass every other time: 1 in 32 for an agent that has not changed."""
    answer_right(agent, 40)
    promoted.evaluate("--repeat", "2")
    assert promoted("runs", "promote", "latest", "--as", "main").code == 0
    promoted.evaluation["ciGate"] |= {"newFailures": 0}
    turns = defaultdict(count)
    agent.reply = lambda body: {
        "response": "Lyon" if body["message"] in FLAKY and next(turns[body["message"]]) % 2 else "Paris"
    }
    outcome = promoted.evaluate("--repeat", "2", "-j", "1", "--json")
    assert outcome.code == 1
    assert "5 new failures (s0, s1, s2, s3, s4), more than the 0 allowed (p = 0.031)" in " ".join(
        outcome.document["reasons"]
    )


def test_the_cause_of_an_agent_that_is_down_comes_first(promoted, agent):
    promoted.api["url"] = "http://127.0.0.1:9"
    promoted.api["chatEndpoint"] = {"maxRetries": 0}
    document = promoted.evaluate("-j", "1", "--json").document
    first, second, *_ = document["notes"]
    refused = "cannot connect to http://127.0.0.1:9/v1/chat: connection refused"
    assert first.startswith(f"the agent is down: {refused}")
    assert second.startswith(f"qa: no usable reply: {refused}")
    assert second.endswith("(40 samples, 39 of them not asked)")
    assert not [note for note in document["notes"][2:] if refused in note]
    assert "qa: 40 of 40 samples have no usable reply, maxErrorRate is 0" in document["reasons"]
