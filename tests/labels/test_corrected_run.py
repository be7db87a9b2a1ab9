"""From a judge's pass over people's labels to another verdict, through the command line."""

import json
from pathlib import Path

import pytest

from evalspec import labels
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.runs.store.run_store import RunStore
from labels.conftest import STORE
from servers.scripted_judge import ScriptedJudge

RUBRIC = {"name": "tone", "rubric": "Is it kind?", "labels": {"kind": 1, "rude": 0}}


@pytest.fixture
def rated(project):
    """Sixty replies that a judge finds kind, each in an own word; the judge's calls are counted."""
    with ScriptedJudge() as judge:
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        rows = [{"id": f"s{n}", "input": f"Question {n}?", "expected": "x"} for n in range(60)]
        project.dataset("qa", rows, metrics=[RUBRIC])
        project.evaluation |= {"thresholds": {"tone": {"min": 0.8}}, "ciGate": {}}
        project.judge, project.replies = judge, {f"s{n}": f"Answer {n}." for n in range(60)}
        yield project


def run(project, *options):
    lines = [{"id": name, "response": text} for name, text in project.replies.items()]
    Path("replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return project.evaluate("--responses", "replies.jsonl", "--json", *options)


def label(count, value, seed=1, drawn=None):
    """Label replies at random. `value`: a function of the sample's number. `drawn`: of so many; default: of as many."""
    run = labels.LabelledRun(RunStore(STORE), "latest")
    session = DrawnSession(run, "ada", LabelDesign("tone", size=drawn or count, seed=seed))
    for _ in range(count):
        case = session.open()
        session.record(case, "rated", value=float(value(int(case.sample[1:]))))


def tone(outcome):
    (limit,) = outcome.document["datasets"][0]["thresholds"]
    return limit, outcome.document["datasets"][0]["metrics"]["tone"]["correction"]


def test_people_turn_a_pass_into_a_fail_without_another_call(rated):
    first = run(rated)
    limit, correction = tone(first)
    assert (first.code, limit["status"], limit["basis"], limit["value"], correction) == (0, "PASS", "judge", 1.0, None)
    assert any("in the opinion of the judge" in note for note in first.document["notes"])
    label(30, lambda number: number % 2)
    calls = len(rated.judge.chats)
    again = rated("rescore", "latest", "agent.yaml", "--json")
    limit, correction = tone(again)
    assert (again.code, limit["status"], limit["basis"]) == (1, "FAIL", "people")
    assert 0.3 < limit["value"] < 0.7
    assert (correction["judge"], correction["labels"], correction["replies"]) == (1.0, 30, 60)
    assert len(rated.judge.chats) == calls
    shown = rated("report", "--json")
    assert shown.document == again.document, "the labels are in the log of the run"
    text = " ".join(rated("report").out.split())
    assert "people say 0.467 on 30" in text


def test_only_equal_replies_keep_their_labels(rated):
    """Ten of sixty replies change. Nobody has labelled one of them, so they may be anything."""
    run(rated)
    label(40, lambda number: 1)
    rated.replies |= {f"s{n}": f"Another answer {n}." for n in range(10)}
    limit, correction = tone(run(rated))
    assert (limit["basis"], limit["status"], correction["missing"]) == ("people", "PASS", 10)
    assert correction["interval"][0] < 0.82
    rated.evaluation["thresholds"]["tone"] = {"min": 0.9}
    limit, _ = tone(run(rated))
    assert limit["status"] == "INCOMPLETE"


def test_labels_come_from_a_file_in_git(rated):
    run(rated)
    label(30, lambda number: 0)
    assert rated("labels", "export", "latest", "-o", "labels.jsonl").code == 0
    (rated.folder / ".evalspec").rename(rated.folder / "elsewhere")
    rated.evaluation["ciGate"] = {"judge": {"correct": "require", "labels": "labels.jsonl"}}
    limit, correction = tone(run(rated))
    assert (limit["basis"], correction["labels"], correction["missing"]) == ("people", 30, 30)
    rated.evaluation["ciGate"] = {"judge": {"labels": "gone.jsonl"}}
    outcome = run(rated)
    assert outcome.code == 2
    assert "gone.jsonl" in outcome.err


def test_require_says_what_to_do(rated):
    rated.evaluation["ciGate"] = {"judge": "require"}
    outcome = run(rated)
    limit, _ = tone(outcome)
    assert (outcome.code, limit["status"]) == (3, "INCOMPLETE")
    assert "`evalspec label RUN --metric 'tone' --random 50`" in limit["reason"]


def test_fail_fast_does_not_trust_the_judge_where_people_may_say_otherwise(rated):
    run(rated)
    label(30, lambda number: 0)
    limit, _ = tone(run(rated, "--fail-fast"))
    assert (limit["status"], limit["basis"]) == ("FAIL", "people")


def test_whoever_stops_early_leaves_the_rest_unknown(rated):
    """Thirty replies are drawn, and the person stops after the twelfth: the others may be anything."""
    run(rated)
    label(12, lambda number: 1, drawn=30)
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["status"], correction["unanswered"]) == ("INCOMPLETE", 18)
    assert "18 replies that were drawn and not labelled may be anything to people" in limit["reason"]
    assert correction["interval"][0] < 0.4
    label(18, lambda number: 1, drawn=30)
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["status"], correction["unanswered"]) == ("PASS", 0)
