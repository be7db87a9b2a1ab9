"""A judge that changes after its calibration is noticed, and its scores are not compared with those before."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from evalspec.api.erasure import erase
from evalspec.base.json_text import compute_digest
from evalspec.runs.store.run_store import RunStore
from labels.conftest import STORE
from labels.test_calibrating import RUBRIC, give, is_kind, judged, prepare  # noqa: F401 - a fixture

ANCHORS = Path("evals/calibrations/main.anchors.json")


def grade_more_strictly(prompt, changed=12):
    """The judge now blames some of what it praised: so many that every half of the anchors has one."""
    is_one = any(f"Reply {n}." in prompt for n in range(changed))
    return prompt.replace("[grade: kind]", "[grade: rude]") if is_one else prompt


@pytest.fixture
def anchored(judged):  # noqa: F811
    """A judge of a calibration with forty anchors, which later runs ask again about half of, and a baseline."""
    prepare(judged, RUBRIC, limit=None)
    give(is_kind)
    rescored = judged.project("rescore", "latest", "agent.yaml", "--judge-repeat", "3", "--fresh", "--json")
    judged.id = rescored.document["runId"]
    assert judged.project("judge", "calibrate", "--as", "main", "--anchors", "50").code == 0
    assert judged.project("runs", "promote", "latest", "--as", "main").code == 0
    judged.project.evaluation["ciGate"] = {
        "baseline": "main", "maxDrop": {"tone": 0.5},
        "judge": {"calibration": "main", "anchorShare": 1, "controls": False},
    }  # fmt: skip
    judged.project.write()
    return judged


def evaluate(anchored, *options):
    found = anchored.project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "--json", *options)
    drifts = found.document["fingerprint"].get("judgeDrifts", {})
    return found, drifts["talk"]["tone"] if drifts else None


def test_the_same_judge_is_called_the_same_and_nothing_is_from_a_cache(anchored):
    before = len(anchored.judge.chats)
    found, drift = evaluate(anchored)
    assert found.code == 0, found.err
    assert (drift["state"], drift["anchors"], drift["pValues"]) == ("unchanged", 20, [1])
    assert len(anchored.judge.chats) - before == 40 + 2 * 20
    assert any("the judge is the same as far as they show" in note for note in found.document["notes"])
    _, drift = evaluate(anchored, "--no-judge")
    assert drift is None


def test_shards_test_the_judge_once(anchored):
    anchored.judge.reads = grade_more_strictly
    found = [evaluate(anchored, "--shard", f"{number}/2") for number in (1, 2)]
    assert [drift is not None for _, drift in found] == [True, False]
    merged = anchored.project("merge", *(outcome.document["runId"] for outcome, _ in found), "--json")
    drift = merged.document["fingerprint"]["judgeDrifts"]["talk"]["tone"]
    assert (drift["state"], drift["anchors"]) == ("drifted", 40), "as in a run of all"
    assert len(anchored.judge.chats) >= 40 + 2 * 40
    assert (merged.code, merged.document["verdict"]) == (3, "INCOMPLETE")


def test_a_changed_judge_voids_calibration_and_comparison_until_both_are_judged_again(anchored):
    anchored.judge.reads = grade_more_strictly
    found, drift = evaluate(anchored)
    assert (drift["state"], drift["anchors"]) == ("drifted", 40)
    assert (found.code, found.document["verdict"]) == (3, "INCOMPLETE")
    (outcome,) = found.document["regressions"]
    assert "the judge has changed since the calibration" in outcome["reason"]
    assert "its answers changed behind the same name (" in outcome["reason"]
    assert "rescore RUN agent.yaml --fresh" in outcome["reason"]
    small, drift = evaluate(anchored, "--sample-size", "10")
    assert (drift["state"], small.document["verdict"]) == ("drifted", "INCOMPLETE"), "too small to test it again"
    applied = anchored.project("judge", "apply", "main", "--json").document["metrics"][0]
    assert (applied["value"], applied["reason"][:23]) == (None, "the calibration is void")
    assert applied["replies"] == 10, "of the smaller run, all scored"
    assert anchored.project("compare", "main", "latest").code == 2
    again = anchored.project("rescore", anchored.id, "agent.yaml", "--fresh", "--json").document
    compared = anchored.project("compare", again["runId"], found.document["runId"])
    assert compared.code == 0, compared.err


def test_the_plan_counts_them_and_too_few_are_a_reason(anchored):
    (forecast,) = anchored.project("plan", "agent.yaml", "--json").document["datasets"][0]["controls"]
    assert forecast["calls"] == [40, 160]
    anchored.project.evaluation["ciGate"]["judge"]["anchorShare"] = 0.1
    anchored.project.write()
    found, drift = evaluate(anchored)
    assert found.code == 0
    assert (drift.get("state"), drift["reason"]) == (
        None,
        "ciGate.judge.anchorShare 0.1 of 40 grades and the calibration's 40 replies for this dataset allow 2, "
        "and 5 are needed: set anchorShare to 0.25",
    )  # fmt: skip


def test_a_run_with_many_grades_asks_all_at_first(anchored):
    anchored.judge.reads = grade_more_strictly
    (forecast,) = anchored.project("plan", "agent.yaml", "--judge-repeat", "3", "--json").document["datasets"][0][
        "controls"
    ]
    assert forecast["calls"] == [80, 160]
    before = len(anchored.judge.chats)
    found, drift = evaluate(anchored, "--judge-repeat", "3")
    assert (drift.get("state"), drift["anchors"], len(drift["pValues"])) == ("drifted", 40, 2)
    assert len(anchored.judge.chats) - before == 3 * 40 + 160
    assert (found.code, found.document["verdict"]) == (3, "INCOMPLETE")


def test_the_metrics_of_a_run_share_the_level(anchored):
    """Two of forty changed replies have p 1/35²: enough for one metric, not for one of five."""
    anchored.judge.reads = partial(grade_more_strictly, changed=2)
    names = [f"tone{n}" for n in range(4)]
    kept = json.loads(ANCHORS.read_text())
    kept["metrics"] += [{**kept["metrics"][0], "metric": name} for name in names]
    before = ANCHORS.read_text()
    kept["sha256"] = compute_digest({key: value for key, value in kept.items() if key != "sha256"})
    ANCHORS.write_text(json.dumps(kept))
    anchored.project.evaluation["datasets"][0]["metrics"] = [RUBRIC, *({**RUBRIC, "name": name} for name in names)]
    anchored.project.write()
    assert evaluate(anchored, "--judge-repeat", "2")[1]["state"] == "unchanged"
    ANCHORS.write_text(before)
    assert evaluate(anchored, "--judge-repeat", "2")[1]["state"] == "drifted"


def test_each_run_begins_with_others(anchored):
    asked = []
    for _ in range(2):
        before = len(anchored.judge.chats)
        evaluate(anchored)
        prompts = Counter(json.dumps(chat.body) for chat in anchored.judge.chats[before:])
        asked.append({prompt for prompt, times in prompts.items() if times > 1})
    assert [len(one) for one in asked] == [20, 20]
    assert asked[0] != asked[1]


def test_another_rubric_is_not_the_calibrated_one(anchored):
    anchored.project.evaluation["datasets"][0]["metrics"] = [{**RUBRIC, "rubric": "Is it friendly?"}]
    anchored.project.write()
    _, drift = evaluate(anchored)
    assert drift["reason"].startswith("the calibration is void: ")


def test_a_missing_file_is_an_error_before_anything_is_asked(anchored):
    ANCHORS.unlink()
    before = len(anchored.judge.chats)
    for command in (["validate", "agent.yaml"], ["evaluate", "agent.yaml", "--responses", "replies.jsonl"]):
        refused = anchored.project(*command)
        assert refused.code == 2
        assert "there is no such file. create it with `evalspec judge calibrate RUN --as main --anchors 50`" in (
            refused.out + refused.err
        )
    assert len(anchored.judge.chats) == before


def test_anchors_need_three_grades_and_a_name(judged):  # noqa: F811
    give(is_kind)
    refused = judged.project("judge", "calibrate", "--as", "main", "--anchors", "50")
    assert (refused.code, ANCHORS.exists()) == (2, False)
    assert "--judge-repeat 3" in refused.err
    assert "add --as NAME" in judged.project("judge", "calibrate", "--anchors", "50").err


def test_erasing_a_sample_erases_its_anchor(anchored):
    assert "Reply 3." in ANCHORS.read_text()
    done = erase(Path(), (), [("talk", "s3")])
    assert done.baselines["evals/calibrations/main.anchors.json"] == 1
    assert "Reply 3." not in ANCHORS.read_text()
    assert len(json.loads(ANCHORS.read_text())["metrics"][0]["anchors"]) == 39


def test_validate_reads_the_labels_of_the_gate(judged):  # noqa: F811
    judged.project.evaluation["ciGate"] = {"judge": {"labels": "people.jsonl"}}
    judged.project.write()
    assert "people.jsonl" in judged.project("validate", "agent.yaml").out
    Path("people.jsonl").write_text('{"sample": "s1"}\n')
    refused = judged.project("validate", "agent.yaml")
    assert (refused.code, "people.jsonl:1" in refused.out) == (2, True)


def test_what_is_all_from_the_cache_is_not_tested_and_says_so(anchored, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    evaluate(anchored)
    before = len(anchored.judge.chats)
    _, drift = evaluate(anchored)
    assert (drift.get("state"), drift["reason"][:34]) == (None, "the judge was asked about no reply")
    assert len(anchored.judge.chats) == before


def test_anchors_are_asked_again_although_the_cache_has_their_grades(anchored, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    evaluate(anchored)
    anchored.replies["s39"] = "Another reply. [grade: rude]"
    before = len(anchored.judge.chats)
    anchored.run()
    assert len(anchored.judge.chats) - before == 1 + 2 * 20


def test_erased_texts_leave_the_anchors_also_if_their_run_is_gone(anchored):
    kept = len(json.loads(ANCHORS.read_text())["metrics"][0]["anchors"])
    assert anchored.project("runs", "rm", *(path.name for path in RunStore(STORE).list())).code == 0
    assert erase(Path(), ["Reply 7."]).baselines == {str(ANCHORS): 1}
    assert "Reply 7." not in ANCHORS.read_text()
    assert len(json.loads(ANCHORS.read_text())["metrics"][0]["anchors"]) == kept - 1
    _, drift = evaluate(anchored)
    assert (drift["state"], drift["anchors"]) == ("unchanged", 20)
