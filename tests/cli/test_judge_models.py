"""The models that the judge's replies state: a judge that was swapped behind its name is another measurement."""

import json
import re
import shlex

import pytest

from servers.judge_wires import KEY, OPENAI
from servers.scripted_judge import ScriptedJudge
from stored_log import keep_records

TONE = {"name": "tone", "rubric": "Is it kind? [grade: good]", "labels": {"good": 1, "bad": 0}}
OLD, NEW = {"model": "m-2026-08-06"}, {"model": "m-2026-11-20"}
MAIN = "evals/baselines/main.json"


@pytest.fixture
def judged(project, agent, judge):
    """Twelve samples on a judged and an unjudged metric, promoted as `main`; the judge states a dated alias."""
    project.api = {"url": agent.url}
    project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
    project.samples(12, metrics=(TONE, "string_match"))
    judge.states = OLD
    promote(project)
    project.evaluation["ciGate"] = {"baseline": "main"}
    return project


def promote(project, *arguments):
    project.evaluate()
    outcome = project("runs", "promote", "latest", "--as", "main", *arguments)
    assert outcome.code == 0, outcome.err


def decide(project, *arguments):
    """Exit code, and the status and reason of each metric against the baseline."""
    outcome = project.evaluate("--json", *arguments)
    found = [one for one in outcome.document["regressions"] if one["against"] == "baseline"]
    return outcome.code, {one["metric"]: (one["status"], one["reason"]) for one in found}


def changed_judge(document):
    (found,) = (one for one in document["measurement"] if one["kind"] == "judge_model")
    return found


def names_in(document, key="judgeModels"):
    return list(document["fingerprint"].get(key, {}).values())


def stated(project):
    return names_in(project("report", "--json").document)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (OLD, OLD, "PASS"),
        (OLD, NEW, "INCOMPLETE"),
        (OLD, {}, "PASS"),
        ({}, NEW, "PASS"),
        (OLD, {"model": ""}, "PASS"),
        (OLD, {"model": 7}, "PASS"),
        ({}, {"model": "m\ud800" * 1000}, "PASS"),
        (OLD | {"system_fingerprint": "fp_1"}, OLD | {"system_fingerprint": "fp_2"}, "PASS"),
    ],
)
def test_a_model_that_the_baseline_does_not_know_blocks_what_is_judged(before, after, status, judged, judge):
    judge.states = before
    promote(judged)
    judge.states = after
    code, found = decide(judged)
    assert (code, found["tone"][0]) == (3 if status == "INCOMPLETE" else 0, status)
    assert found["string_match"][0] == "PASS"
    assert judged("report").code == code
    if status == "INCOMPLETE":
        assert "state the model m-2026-11-20, those of the baseline only m-2026-08-06" in found["tone"][1]


def test_the_commands_of_the_message_make_it_comparable_again(judged, judge):
    """A judge that was swapped behind its name and is more lenient: the baseline is judged again, by the new one."""
    judge.states = NEW
    outcome = judged.evaluate("--json")
    found = changed_judge(outcome.document)
    assert (outcome.code, found["blocks"]) == (3, True)
    rescore, promote_it = re.findall(r"`(evalspec .+?)`", found["text"])
    assert "if its replies are gone, evaluate its version of the agent" in found["text"]
    for command, code in ((rescore, 3), (promote_it, 0)):
        done = judged(*shlex.split(command)[1:])
        assert done.code == code, done.err
    assert names_in(json.loads((judged.folder / MAIN).read_text())) == [NEW["model"]]
    code, decided = decide(judged)
    assert (code, decided["tone"][0]) == (0, "PASS")
    judge.states = OLD
    assert decide(judged)[0] == 3, "and back"


def test_new_failures_by_the_judge_are_not_counted_either(judged, judge):
    judged.evaluation["thresholds"] = {"tone": 0.5}
    judged.evaluation["ciGate"] = {"baseline": "main", "newFailures": 0}
    judge.states = NEW
    code, found = decide(judged)
    assert (code, found[None][0]) == (3, "INCOMPLETE")
    assert "the judge's replies state the model" in found[None][1]
    judged.evaluation["thresholds"] = {"string_match": 0.5}
    assert decide(judged)[1][None][0] == "PASS"


def test_what_was_stated_before_a_kill_is_kept(judged, judge):
    log = judged.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    keep_records(log, lambda record: "tone" not in record.get("scores", {}) or record["id"] < "s3")
    judge.states = NEW
    judged.evaluation.pop("ciGate")
    assert judged.evaluate("--resume").code == 0
    assert stated(judged) == [OLD["model"], NEW["model"]]


def test_reused_scores_keep_what_their_judge_stated(judged, judge):
    judge.states = NEW
    judged.write()
    judged("rescore", "latest", "agent.yaml")
    assert stated(judged) == [OLD["model"]]
    judged.evaluation["datasets"][0]["metrics"] = [TONE, TONE | {"name": "again"}]
    judged.write()
    judged("rescore", "latest", "agent.yaml")
    assert stated(judged) == [OLD["model"], NEW["model"]]
    judged("rescore", "latest", "agent.yaml", "--fresh")
    assert stated(judged) == [NEW["model"]]
    judged.evaluation["datasets"][0]["metrics"] = [TONE | {"rubric": "Is it short? [grade: good]"}]
    judged.write()
    judge.states = {}
    judged("rescore", "latest", "agent.yaml")
    assert stated(judged) == [], "no score of the source is left"


def test_reused_scores_keep_which_parameters_their_judge_refused(project, agent):
    with ScriptedJudge(wire=OPENAI) as judge:
        project.api = {"url": agent.url}
        config = {"model": OPENAI.model, "baseUrl": judge.base_url, "apiKey": KEY}
        project.evaluation["judge"] = config | {"parameters": {"temperature": 0}}
        project.samples(2, metrics=(TONE,))
        first = project.evaluate("--json").document["fingerprint"].get("judgeRefused")
        again = project("rescore", "latest", "agent.yaml", "--json").document["fingerprint"].get("judgeRefused")
    assert first
    assert again == first


def test_a_pool_holds_what_all_its_runs_stated_and_takes_no_other_judge(judged, judge):
    judge.states = {}
    promote(judged)
    judge.states = OLD
    promote(judged, "--add")
    assert names_in(json.loads((judged.folder / MAIN).read_text())) == [OLD["model"]]
    judge.states = NEW
    judged.evaluate()
    refused = judged("runs", "promote", "latest", "--as", "main", "--add")
    assert (refused.code, "the judge's replies state the model m-2026-11-20" in refused.err) == (2, True)
    found = changed_judge(judged("report", "--json").document)
    assert re.search(r"; the same for \S+, with --add;", found["text"])


def test_compare_refuses_another_model_on_judged_metrics(judged, judge):
    judged("runs", "label", "latest", "old")
    judge.states = NEW
    judged.evaluate()
    outcome = judged("compare", "old", "latest")
    assert outcome.code == 2
    assert "dataset qa: tone: the judge's replies state the model m-2026-11-20" in outcome.err
    assert judged("compare", "old", "latest", "--metric", "string_match").code == 0
    assert judged("compare", "old", "latest", "--allow-mismatch").code == 0


def test_reports_show_a_model_that_is_not_the_configured_one(judged, judge):
    note = "the judge is configured as m; its replies state the model m-2026-08-06"
    for report in ("report.md", "report.html"):
        judged("report", "-o", report)
        assert note in (judged.folder / report).read_text()
    assert note in judged("report").out
    judge.states = {"model": "m", "system_fingerprint": "fp_44709d6fcb"}
    judged.evaluate()
    shown = judged("report", "--json").document
    assert not [one for one in shown["notes"] if "its replies state" in one]
    assert names_in(shown, "judgeSystemFingerprints") == ["fp_44709d6fcb"]
    assert "fp_44709d6fcb" in judged("runs", "show", "latest").out


def test_a_stated_model_that_is_redacted_is_the_same_model(judged, judge, monkeypatch):
    monkeypatch.setenv("JUDGE_MODEL", OLD["model"])
    judged.evaluation["judge"]["model"] = "$env:JUDGE_MODEL"
    promote(judged)
    assert stated(judged) == ["[redacted:env:JUDGE_MODEL]"]
    assert decide(judged)[1]["tone"][0] == "PASS"


def test_a_judge_that_states_another_model_each_time_is_stored_up_to_a_limit(judged, judge, monkeypatch):
    monkeypatch.setattr("evalspec.runs.runner.session._MOST_LEARNED", 3)
    names = iter(range(1000))
    counting = property(lambda _: {"model": f"m-{next(names)}"})
    monkeypatch.setattr(type(judge), "states", counting, raising=False)
    judged.evaluate("-j", "1")
    assert len(stated(judged)) == 3
