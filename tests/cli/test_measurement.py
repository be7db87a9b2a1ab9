"""What changed in the measurement since the baseline: each row of the table in gate.md, and an honest history."""

import json
import re
from pathlib import Path

import pytest

from evalspec.verdict.comparison.measurement import KINDS
from servers.faulty_agent import status
from servers.scripted_judge import ScriptedJudge

SAMPLES = 100


def lines(count=SAMPLES, text="q"):
    return [{"id": f"s{n}", "input": f"{text}{n}", "expected": "Paris"} for n in range(count)]


def write(project, samples, name="qa"):
    (project.folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))


@pytest.fixture
def measured(project, agent):
    """A hundred samples, of which the agent has 90 right, promoted as `main`. The limit is 0.85."""
    project.api = {"url": agent.url}
    project.dataset("qa", lines(), metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": 0.85}, "ciGate": {"baseline": "main", "maxErrorRate": 0.01}}
    answer(agent, 10)
    project.evaluate()
    promote(project)
    return project


def answer(agent, wrong):
    agent.reply = lambda body: {"response": "Lyon" if int(body["message"][1:]) < wrong else f"{body['message']}: Paris"}


def promote(project):
    assert project("runs", "promote", "latest", "--as", "main").code == 0


def lower_limit(project, agent):
    project.evaluation["thresholds"] = {"string_match": 0.5}


def remove_limit(project, agent):
    project.evaluation["thresholds"] = {"error_rate": 0.1}


def soften_gate(project, agent):
    project.evaluation["ciGate"]["maxErrorRate"] = 0.5


def remove_samples(project, agent):
    write(project, lines()[:80])


def edit_samples(project, agent):
    write(project, [*lines(20, "x"), *lines()[20:]])


def grow(project, agent):
    write(project, lines(110))


def record(project, agent):
    replies = [{"id": f"s{n}", "response": "Paris" if n > 9 else "Lyon"} for n in range(SAMPLES)]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))


def fail_often(project, agent):
    agent.script = [status(503, {"Retry-After": "0"}), status(503, {"Retry-After": "0"}), "ok"] * 12
    project.api["chatEndpoint"] = {"maxRetries": 5}
    project.evaluation["thresholds"]["retry_rate"] = 0.9


def say_the_same(project, agent):
    agent.reply = lambda body: {"response": "Paris"}


def cluster(project, agent):
    write(project, [{**one, "metadata": {"document": n // 2}} for n, one in enumerate(lines())])
    project.evaluate()
    promote(project)
    project.evaluation["datasets"][0]["cluster"] = "document"


SAME_ANSWERS = "qa: 100 of 100 different questions have the same answer"
ROWS = [
    ("limit", lower_limit, (), 0, "qa: limit lowered since the baseline: string_match min 0.85 → min 0.5"),
    ("limit", remove_limit, (), 0, "qa: limit removed since the baseline: string_match min 0.85"),
    ("gate", soften_gate, (), 0, "gate softened since the baseline: maxErrorRate 0.01 → 0.5"),
    (
        "removed",
        remove_samples,
        (),
        3,
        "qa: 20 samples gone from the file since the baseline: s80 (string_match 1.000), s81 (string_match 1.000),",
    ),
    ("edited", edit_samples, (), 3, "qa: 20 samples edited since the baseline: s0, s1, s10, s11, s12, …"),
    ("grown", grow, (), 0, "qa: 10 samples added since the baseline"),
    ("recorded", record, ("--responses", "replies.jsonl"), 0, "the replies are recorded, those of the baseline came"),
    ("cluster", cluster, (), 0, "qa: cluster changed since the baseline: none → document"),
    ("answers", say_the_same, (), 0, SAME_ANSWERS),
]


@pytest.mark.parametrize(("kind", "change", "options", "code", "said"), ROWS, ids=[row[1].__name__ for row in ROWS])
def test_a_change_of_the_measurement_is_said_beside_the_verdict(kind, change, options, code, said, measured, agent):
    change(measured, agent)
    outcome = measured.evaluate(*options, "--json")
    found = [one for one in outcome.document["measurement"] if one["kind"] == kind]
    assert outcome.code == code, outcome.document["reasons"]
    assert [one["blocks"] for one in found] == [kind in KINDS and KINDS[kind].blocks]
    text = f"{found[0]['dataset']}: {found[0]['text']}" if found[0]["dataset"] else found[0]["text"]
    assert text.startswith(said)
    terminal = measured("report").out.splitlines()
    assert terminal[1].strip().startswith("measurement: ")
    for report in ("report.md", "report.html", "report.junit.xml", "report.sarif"):
        measured("report", "-o", report)
        assert said[:30].split(" → ")[0] in (measured.folder / report).read_text()
    assert measured("report", "--json").document == outcome.document


def test_the_table_has_each_kind():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "gate.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page.partition("## What changed")[2], flags=re.M))
    assert {kind: "INCOMPLETE" in effect for kind, effect in rows.items() if kind in KINDS} == {
        name: kind.blocks for name, kind in KINDS.items()
    }


def test_an_unchanged_measurement_says_so(measured):
    outcome = measured.evaluate("--json")
    assert (outcome.code, outcome.document["measurement"]) == (0, [])
    assert "measured as in the baseline" in measured("report", "-v").out


def test_deleting_what_fails_does_not_pass(measured, agent):
    """Ten of a hundred fail, a limit of 0.95 breaks: without the ten it would be met."""
    measured.evaluation["thresholds"] = {"string_match": 0.95}
    assert measured.evaluate().code == 1
    write(measured, lines()[10:])
    outcome = measured.evaluate("--json")
    (limit,) = outcome.document["datasets"][0]["thresholds"]
    assert (outcome.code, limit["value"], limit["status"]) == (3, 1.0, "INCOMPLETE")
    assert "10 samples of the baseline are gone from the dataset, which could change the outcome" in limit["reason"]
    measured.evaluation["ciGate"]["maxRemoved"] = 0.1
    assert measured.evaluate().code == 0
    del measured.evaluation["ciGate"]["maxRemoved"]
    promote(measured)
    assert measured.evaluate().code == 0, "a baseline without them was promoted on purpose"


def test_editing_what_fails_does_not_pass_either(measured):
    """The same ten under their old ids, with questions that the agent answers."""
    measured.evaluation["thresholds"] = {"string_match": 0.95}
    assert measured.evaluate().code == 1
    write(measured, [{**one, "input": f"q{500 + n}"} if n < 10 else one for n, one in enumerate(lines())])
    outcome = measured.evaluate("--json")
    (limit,) = outcome.document["datasets"][0]["thresholds"]
    assert (outcome.code, limit["status"], limit["value"]) == (3, "INCOMPLETE", 1.0)
    assert "10 samples were edited since the baseline, which could change the outcome" in limit["reason"]
    measured.evaluation["thresholds"] = {"string_match": 0.8}
    assert measured.evaluate().code == 0, "even at their worst"


def test_deleting_the_samples_that_fail_leaves_their_pass_rate_open(measured):
    measured.evaluation["thresholds"] = {"string_match": 0.5}
    measured.evaluation["ciGate"] = {"baseline": "main", "minPassRate": 1}
    assert measured.evaluate().code == 1
    write(measured, lines()[10:])
    outcome = measured.evaluate("--json")
    assert (outcome.code, "10 samples of the baseline are gone" in outcome.document["reasons"][0]) == (3, True)
    measured.evaluation["ciGate"]["maxRemoved"] = 0.1
    assert measured.evaluate().code == 0


def test_removed_samples_may_be_in_any_slice_that_had_no_limit_in_the_baseline(measured):
    samples = [{**one, "metadata": {"topic": "returns" if n < 20 else "other"}} for n, one in enumerate(lines())]
    write(measured, samples)
    measured.evaluate()
    promote(measured)
    measured.evaluation["thresholds"] = {"string_match": {"min": 0.9, "slice": "topic=returns"}}
    assert measured.evaluate().code == 1
    write(measured, samples[10:])
    assert measured.evaluate().code == 3


def test_what_cannot_be_compared_is_not_measured_as_before(measured):
    measured.evaluation["ciGate"]["baseline"] = "none"
    measured.evaluate()
    assert "measured as in the baseline" not in measured("report", "-v").out
    measured.evaluation["ciGate"]["baseline"] = "main"
    measured.evaluation["thresholds"] = {"string_match": {"min": 0.85, "stat": "mean"}}
    assert measured.evaluate("--json").document["measurement"] == [], "the same limit, spelled out"


def test_a_gate_without_a_baseline_had_no_rule_to_soften(measured):
    measured.evaluation["ciGate"] = True
    measured.evaluate()
    promote(measured)
    measured.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.02, "alpha": 0.01}
    assert measured.evaluate("--json").document["measurement"] == []
    promote(measured)
    measured.evaluation["ciGate"] = {"baseline": "main", "maxDrop": {"string_match": 0.02}, "alpha": 0.001}
    texts = [one["text"] for one in measured.evaluate("--json").document["measurement"]]
    said = "gate softened since the baseline: "
    assert texts == [f"{said}maxDrop 0.02 → string_match 0.02", f"{said}alpha 0.01 → 0.001"]


@pytest.mark.parametrize("selection", [("--sample-size", "20"), ("--tag", "smoke")])
def test_a_narrow_baseline_does_not_cover_a_full_run(selection, measured, agent):
    write(measured, [{**one, "tags": ["smoke"] if n % 5 == 0 else []} for n, one in enumerate(lines())])
    measured.evaluation["thresholds"] = {"string_match": 0.1}
    measured.evaluation["ciGate"] = {"baseline": "narrow"}
    measured.evaluate(*selection)
    assert measured("runs", "promote", "latest", "--as", "narrow").err.startswith("warning: run")
    known = json.loads((measured.folder / "evals/baselines/narrow.json").read_text())["datasets"][0]["samples"]
    right = {one["id"] for one in known if one["scores"]["string_match"] == 1}
    agent.reply = lambda body: {"response": "Paris" if f"s{body['message'][1:]}" in right else "Lyon"}
    outcome = measured.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    assert any(
        "80 of 100 samples were not selected when the baseline was made" in r for r in outcome.document["reasons"]
    )
    assert {"selection"} <= {one["kind"] for one in outcome.document["measurement"]}
    assert measured.evaluate(*selection).code == 0, "the same selection is covered"


def test_retries_are_counted_and_can_be_limited(measured, agent):
    write(measured, lines(12))
    measured.evaluation["ciGate"] = True
    fail_often(measured, agent)
    outcome = measured.evaluate("-j", "1", "--json")
    (found,) = (one for one in outcome.document["measurement"] if one["kind"] == "retries")
    assert found["text"] == "24 requests failed and were repeated, for 12 attempts"
    rates = {name: one["value"] for name, one in outcome.document["datasets"][0]["metrics"].items()}
    assert rates["retry_rate"] == pytest.approx(2 / 3)
    assert measured("report", "--json").document == outcome.document
    measured.evaluation["thresholds"]["retry_rate"] = 0.5
    assert measured("rescore", "latest", "agent.yaml").code == 1


def test_an_honest_history_of_twenty_commits_is_incomplete_at_most_once(measured, agent):
    """Datasets grow, a limit is lowered in review, a sample is corrected, a file is renamed, a metric is added."""
    size, codes = SAMPLES, []
    for commit in range(20):
        if commit % 3 == 0:
            size += 5
            write(measured, lines(size))
        if commit == 4:
            measured.evaluation["thresholds"] = {"string_match": 0.8}
        if commit in (7, 15):
            corrected = lines(size)
            corrected[50 + commit]["expected"] = "Paris!"
            write(measured, corrected)
        if commit == 9:
            (measured.folder / "qa.jsonl").rename(measured.folder / "questions.jsonl")
            measured.evaluation["datasets"][0]["path"] = "$file:questions.jsonl"
        if commit == 11:
            (measured.folder / "questions.jsonl").rename(measured.folder / "qa.jsonl")
            measured.evaluation["datasets"][0]["path"] = "$file:qa.jsonl"
        if commit == 12:
            measured.evaluation["datasets"][0]["metrics"] = ["string_match", "exact_match"]
        if commit == 17:
            write(measured, lines(size)[: size - 2])
        codes.append(measured.evaluate().code)
        promote(measured)
    assert codes.count(3) <= 1
    assert 1 not in codes


RUBRIC = {"name": "tone", "rubric": "Is it polite? {response}", "labels": {"yes": 1, "no": 0}}


def test_a_judge_that_gives_one_value_to_everything_is_doubted(project, agent, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-key-000")
    project.api = {"url": agent.url}
    with ScriptedJudge() as judge:
        project.evaluation["judge"] = {"model": "scripted", "baseUrl": judge.url}
        project.samples(10, metrics=(RUBRIC,))
        (found,) = (one for one in project.evaluate("--json").document["measurement"] if one["kind"] == "judge")
    assert (found["text"], found["blocks"]) == ("the judge gave tone 1 to all 10 samples", False)
