"""From a judge's pass over people's labels to another verdict, through the command line."""

import json
from pathlib import Path

import pytest

from evalspec import labels
from evalspec.api.erasure import erase
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.model.corrections import DrawKind
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


def label(count, value, seed=1, drawn=None, by="ada", metric="tone", kind=DrawKind.RANDOM):
    """Label drawn replies. `value`: a function of the sample's number. `drawn`: of so many; default: of as many."""
    run = labels.LabelledRun(RunStore(STORE), "latest")
    size = None if kind is DrawKind.SEQUENTIAL else drawn or count
    session = DrawnSession(run, by, LabelDesign(metric, kind=kind, size=size, seed=seed))
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
    assert any(
        "only the judge says that tone meets its limit." in note and first.document["runId"] in note
        for note in first.document["notes"]
    )
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
    said = "spec.evaluation.ciGate.judge.labels: there is no file gone.jsonl. write it with `evalspec labels export"
    assert said in outcome.err and said in rated.validate().out


def test_require_says_what_to_do(rated):
    rated.evaluation["ciGate"] = {"judge": "require"}
    outcome = run(rated)
    limit, _ = tone(outcome)
    assert (outcome.code, limit["status"]) == (3, "INCOMPLETE")
    assert (
        "`evalspec label latest --metric tone --random 50`, then `evalspec rescore latest agent.yaml`"
        in limit["reason"]
    )


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


ASK = ("label", "latest", "--as", "ada", "--metric", "tone")
RATE = ("--verdict", "rated", "--value")


def test_drawn_labels_without_a_terminal_correct_the_judge(rated):
    run(rated)
    draw = ("--random", "12", "--seed", "3")
    drawn = rated(*ASK, *draw, "--json").document["drawn"]
    assert len(drawn) == 12
    assert drawn[0]["response"] == f"Answer {drawn[0]['sample'][1:]}."
    assert (drawn[0]["rubric"], drawn[0]["grades"]) == ("Is it kind?", RUBRIC["labels"])
    assert "its turn" not in json.dumps(drawn), "the judge's reason is hidden"
    for one in drawn:
        done = rated(*ASK, *draw, "--sample", one["sample"], *RATE, "0")
        assert (done.code, "does not correct" in done.err) == (0, False), done.err
    assert rated(*ASK, *draw, "--json").document["drawn"] == []
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["status"], limit["basis"]) == ("FAIL", "people")
    assert (correction["labels"], correction["unanswered"]) == (12, 0)


def test_what_is_no_drawn_label_is_refused_or_said(rated):
    assert "control cases" not in run(rated).err, "none can be made for a rubric"
    refused = rated(*ASK, "--new", "--json")
    assert (refused.code, "--random N --json" in str(refused.document)) == (2, True)
    drawn = {one["sample"] for one in rated(*ASK, "--random", "5", "--json").document["drawn"]}
    other = next(f"s{n}" for n in range(60) if f"s{n}" not in drawn)
    refused = rated(*ASK, "--random", "5", "--sample", other, *RATE, "1")
    assert (refused.code, f"'{other}' is not in the draw" in refused.err) == (2, True), refused.err
    refused = rated(*ASK, "--random", "5", "--sample", min(drawn), "--verdict", "agree")
    assert (refused.code, "a drawn reply gets a score without sight of the judge's" in refused.err) == (2, True)
    assert labels.list_labels() == []
    chosen = rated(*ASK, "--sample", other, *RATE, "1", "--blind")
    assert "this label does not correct the judge: the reply was chosen, not drawn at random" in chosen.err
    seen = rated(*ASK, "--random", "60", "--sample", other, *RATE, "0")
    assert "not blind: after an earlier label" in seen.err
    assert "this label does not correct the judge: it was given with the score in sight" in seen.err
    agreed = rated(*ASK, "--sample", min(drawn), "--verdict", "agree")
    assert "does not correct the judge: it was given with the score in sight" in agreed.err


def test_labels_that_chose_a_threshold_say_what_they_did(rated):
    run(rated)
    label(20, lambda number: 1)
    labelled = {one.sample for one in labels.list_labels()}
    other = next(f"s{n}" for n in range(60) if f"s{n}" not in labelled)
    rated(*ASK, "--sample", other, *RATE, "1", "--blind")
    used = rated("labels", "use", "latest", "--metric", "tone", "--for", "threshold")
    assert "21 labels of tone used to choose a threshold" in used.err
    assert "1 of them was not drawn at random, so it corrected nothing before either" in used.err
    command = used.err.rpartition("draw others: evalspec ")[2].split()
    assert command == ["label", "latest", "--metric", "tone", "--random", "50"]
    unlabelled = rated("judge", "calibrate")
    assert (unlabelled.code, "--metric tone --random 50" in unlabelled.err) == (2, True), "the same hint"
    session = DrawnSession(
        labels.LabelledRun(RunStore(STORE), "latest"),
        "ada",
        LabelDesign("tone", kind=DrawKind.STRATIFIED, is_new=True, size=20),
    )
    for _ in range(20):
        session.record(session.open(), "rated", value=0.0)
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["basis"], limit["value"], correction["labels"]) == ("people", 0.0, 20)


def test_labels_until_decided_say_nothing_of_replies_that_changed(rated):
    """The labelled replies stay, and all others become other ones: whether people like these is unknown."""
    run(rated)
    opened = labels.LabelledRun(RunStore(STORE), "latest")
    session = DrawnSession(opened, "ada", LabelDesign("tone", kind=DrawKind.SEQUENTIAL))
    while (case := session.open()) is not None:
        session.record(case, "rated", value=1.0)
    limit, _ = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["status"], limit["basis"], limit["value"]) == ("PASS", "people", 1.0)
    kept = {one.sample for one in labels.list_labels(opened.id)}
    assert 10 < len(kept) < 50
    rated.replies |= {name: f"Rubbish {name}." for name in rated.replies if name not in kept}
    limit, correction = tone(run(rated))
    assert (limit["status"], correction["missing"]) == ("INCOMPLETE", 60 - len(kept))
    assert correction["interval"][0] < len(kept) / 60
    assert correction["interval"][1] == 1.0


def compare_with_labels(rated, before, after, **policy):
    """Promote a labelled run, change every reply, label again, and return the outcome of tone against the baseline."""
    rated.evaluation |= {"thresholds": {}, "ciGate": {"baseline": "main", "maxDrop": {"tone": 0.05}} | policy}
    run(rated)
    if before:
        label(40, before)
        assert rated("rescore", "latest", "agent.yaml").code in (1, 3)
    assert rated("runs", "promote", "latest", "--as", "main").code == 0
    rated.replies = {name: f"New {text}" for name, text in rated.replies.items()}
    run(rated)
    if after:
        label(40, after)
    outcome = rated("rescore", "latest", "agent.yaml", "--json")
    return next(one for one in outcome.document["regressions"] if one["metric"] == "tone"), outcome


def test_labels_of_both_runs_see_a_drop_that_the_judge_does_not_see(rated):
    found, outcome = compare_with_labels(rated, lambda number: 1, lambda number: number % 2)
    assert (found["status"], found["basis"], outcome.code) == ("FAIL", "people", 1)
    assert -0.7 < found["delta"] < -0.3 and found["interval"][1] < -0.05
    assert found["reason"].startswith("people see a drop of 0.") and "the judge a drop of 0.000" in found["reason"]


def test_a_drop_beyond_the_limit_and_beyond_noise_fails_whoever_sees_it(rated):
    """People see a drop of a quarter, between 0.1 and 0.5. The limit is inside of that, and no drop is outside."""
    found, _ = compare_with_labels(rated, lambda _: 1, lambda number: number % 4 > 0, maxDrop={"tone": 0.15})
    low, high = found["interval"]
    assert low < -0.15 < high < 0 and found["delta"] < -0.15
    assert (found["status"], found["basis"]) == ("FAIL", "people")


def test_compare_shows_what_people_see(rated):
    found, _ = compare_with_labels(rated, lambda number: 1, lambda number: number % 2)
    shown = rated("compare", "main", "latest", "--json", "-o", "compare.html")
    (change,) = shown.document["candidates"][0]["datasets"][0]["metrics"].values()
    assert (change["delta"], change["people"]["reason"]) == (0, None)
    assert change["people"]["delta"] == pytest.approx(found["delta"])
    assert 20 <= change["people"]["labelled"] <= 40
    said = f"people see {change['people']['delta']:.3f}".replace("-", "−")
    assert said in Path("compare.html").read_text() and said in rated("compare", "main", "latest").out
    stored = rated("compare", "latest", "latest", "--json").document["candidates"][0]["datasets"][0]["metrics"]
    assert stored["tone"]["people"]["delta"] == 0, "runs have their labels too"


def test_labels_of_both_runs_exclude_a_drop(rated):
    strict = {"maxDrop": {"tone": 0.3}, "regression": "notWorse"}
    found, _ = compare_with_labels(rated, lambda number: number % 2, lambda number: number % 2, **strict)
    assert (found["status"], found["basis"], found["delta"], found["proven"]) == ("PASS", "people", 0, True)


@pytest.mark.parametrize("sides", [(lambda _: 1, None), (None, lambda _: 0)])
def test_labels_of_one_run_decide_no_difference(rated, sides):
    found, _ = compare_with_labels(rated, *sides)
    assert (found["status"], found["basis"], found["delta"]) == ("PASS", "judge", 0)
    assert found["reason"].endswith("the judge's opinion")


def test_an_erased_sample_takes_no_verdict_of_people_with_it(rated):
    run(rated)
    label(30, lambda number: number % 2)
    before, _ = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (before["status"], before["basis"]) == ("FAIL", "people")
    assert erase(Path(), (), [("qa", "s3")]).runs
    limit, correction = tone(rated("report", "latest", "--json"))
    assert (limit["status"], limit["basis"], correction["labels"]) == ("FAIL", "people", 30)


@pytest.mark.parametrize(("count", "status"), [(9, "INCOMPLETE"), (20, "FAIL")])
def test_a_few_labels_that_agree_with_the_judge_turn_no_drop_into_a_pass(rated, count, status):
    rated.evaluation |= {"thresholds": {}, "ciGate": {"baseline": "main", "maxDrop": {"tone": 0.05}}}
    run(rated)
    label(count, lambda _: 1)
    rated("rescore", "latest", "agent.yaml")
    assert rated("runs", "promote", "latest", "--as", "main").code == 0
    worse = {name: int(name[1:]) % 4 == 0 for name in rated.replies}
    rated.replies = {name: f"New {text}{' [grade: rude]' * worse[name]}" for name, text in rated.replies.items()}
    run(rated)
    label(count, lambda number: number % 4 > 0)
    (found,) = rated("rescore", "latest", "agent.yaml", "--json").document["regressions"]
    assert (found["status"], found["basis"]) == (status, "people")
    assert ("the judge's drop is no noise" in found["reason"]) is (status == "INCOMPLETE")


def commit_labels(rated, change=lambda line: line, count=30):
    """Move the labels of a run to a file that the manifest names, each line changed, and forget the run."""
    run(rated)
    label(count, lambda number: number % 2)
    assert rated("labels", "export", "latest", "-o", "labels.jsonl").code == 0
    (rated.folder / ".evalspec").rename(rated.folder / "elsewhere")
    lines = [change(json.loads(line)) for line in Path("labels.jsonl").read_text().splitlines()]
    Path("labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rated.evaluation["ciGate"] = {"judge": {"correct": "require", "labels": "labels.jsonl"}}


def test_a_label_outside_the_scale_is_refused_before_a_call(rated):
    commit_labels(rated, lambda line: {**line, "value": line["value"] * 7})
    calls = len(rated.judge.chats)
    outcome = run(rated)
    assert outcome.code == 2, outcome.err
    said = [line for line in outcome.err.splitlines() if "value: 7 is outside 0 to 1" in line]
    assert said and all("labels.jsonl:" in line for line in said), outcome.err
    assert len(rated.judge.chats) == calls


def test_a_label_of_another_scale_is_left_out_with_its_reason(rated):
    """Another judge: whether the scale was the same then is not known before the labels are compared with the run."""
    commit_labels(rated, lambda line: {**line, "value": line["value"] * 7})
    rated.evaluation["judge"]["model"] = "another"
    outcome = run(rated)
    count = sum(json.loads(line)["value"] == 7 for line in Path("labels.jsonl").read_text().splitlines())
    said = f"qa: {count} labels on tone do not count: their score is outside the metric's range ({count})"
    assert said in outcome.document["notes"]
    assert tone(outcome)[1]["missing"] == 30 + count, "they may be anything"


def test_labels_that_do_not_count_are_named(rated):
    commit_labels(rated)
    rated.replies = {name: f"New {text}" for name, text in rated.replies.items()}
    outcome = run(rated)
    limit, _ = tone(outcome)
    said = "qa: 30 labels on tone do not count: the reply or the sample changed (30)"
    assert said in outcome.document["notes"]
    assert limit["status"] == "INCOMPLETE" and said in limit["reason"], limit["reason"]
    rated.evaluation["ciGate"]["judge"]["correct"] = "off"
    del rated.evaluation["ciGate"]["judge"]["labels"]
    assert not any("do not count" in note for note in run(rated).document["notes"])


def test_replies_without_a_statement_count_if_people_have_scored_them(project):
    """Six of sixty replies say nothing that the judge could check. People find them bad."""
    with ScriptedJudge() as judge:
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        rows = [{"id": f"s{n}", "input": f"Where is station {n}?", "expected": f"Station {n}."} for n in range(60)]
        project.dataset("qa", rows, metrics=["faithfulness"])
        project.evaluation |= {"thresholds": {"faithfulness": {"min": 0.95}}, "ciGate": {"judge": "require"}}
        lines = [
            {
                "id": f"s{n}",
                "response": "I do not know." if n < 6 else f"Station {n} lies beside the lake.",
                "retrieved_contexts": [f"Station {n} lies beside the lake."],
            }
            for n in range(60)
        ]
        Path("replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        first = project.evaluate("--responses", "replies.jsonl", "--json").document
        assert first["datasets"][0]["metrics"]["faithfulness"]["notApplicable"] == 6
        label(60, lambda number: number >= 6, metric="faithfulness")
        (dataset,) = project("rescore", "latest", "agent.yaml", "--json").document["datasets"]
    (limit,), correction = dataset["thresholds"], dataset["metrics"]["faithfulness"]["correction"]
    assert (limit["status"], limit["value"]) == ("FAIL", pytest.approx(0.9))
    assert (correction["labels"], correction["replies"], correction["judge"]) == (60, 60, 1.0)


def test_labels_that_have_not_decided_yet_decide_nothing(rated):
    rated.evaluation["thresholds"]["tone"] = {"min": 0.5}
    run(rated)
    label(8, lambda number: number % 4 > 0, kind=DrawKind.SEQUENTIAL)
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert (limit["status"], limit["basis"]) == ("INCOMPLETE", "people"), limit
    assert correction["value"] > 0.5 > correction["interval"][0]
    assert "`evalspec label latest --metric tone --until-decided`" in limit["reason"]


def test_withdrawn_labels_leave_their_replies_open(rated):
    run(rated)
    label(20, lambda number: 0)
    gone = [{"run": one.run, "dataset": "qa", "sample": one.sample, "metric": "tone", "labeller": "ada"}
            for one in labels.list_labels()]  # fmt: skip
    Path("gone.jsonl").write_text("".join(json.dumps(line | {"verdict": "withdrawn"}) + "\n" for line in gone))
    assert rated("labels", "import", "gone.jsonl").code == 0
    label(10, lambda number: 1, seed=2, by="ben")
    limit, correction = tone(rated("rescore", "latest", "agent.yaml", "--json"))
    assert limit["status"] == "INCOMPLETE"
    left = {one["sample"] for one in gone} - {one.sample for one in labels.list_labels(gone[0]["run"])}
    assert correction["unanswered"] == len(left) > 10


@pytest.mark.parametrize("policy", ["require", {"correct": "require", "minAgreement": 0.9}])
def test_a_comparison_needs_labels_where_the_gate_requires_them(rated, policy):
    found, outcome = compare_with_labels(rated, None, None, judge=policy)
    assert (found["status"], outcome.code) == ("INCOMPLETE", 3)
    assert "ciGate.judge requires people's labels" in found["reason"]


def test_people_who_contradict_each_other_decide_no_comparison(rated):
    compare_with_labels(rated, lambda number: number % 2, None, maxDrop={"tone": 0.3})
    label(40, lambda number: number % 2)
    label(40, lambda number: 1 - number % 2, by="ben")
    (found,) = rated("rescore", "latest", "agent.yaml", "--json").document["regressions"]
    assert found["status"] == "INCOMPLETE" and "people do not agree with each other" in found["reason"]


def test_a_draw_that_nobody_can_repeat_corrects_nothing(rated):
    commit_labels(rated, lambda line: line | {"draw": {"kind": "random", "probability": 1}})
    outcome = run(rated)
    said = "qa: 30 labels on tone do not count: their draw has no seed, so nobody can repeat it (30)"
    assert said in outcome.document["notes"] and tone(outcome)[0]["basis"] == "judge"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": "2020-01-01T00:00:00Z"}, "is before run"),
        ({"value": 0.5}, "0.5 is the score of no grade. write one of 1 (kind), 0 (rude)"),
    ],
)
def test_impossible_lines_are_refused(rated, change, said):
    run(rated)
    label(3, lambda number: 1)
    rated("labels", "export", "latest", "-o", "labels.jsonl")
    line = json.loads(Path("labels.jsonl").read_text().splitlines()[0])
    Path("other.jsonl").write_text(json.dumps(line | change) + "\n")
    refused = rated("labels", "import", "other.jsonl")
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_a_person_says_one_thing_at_a_time(rated):
    run(rated)
    label(1, lambda number: 1)
    rated("labels", "export", "latest", "-o", "labels.jsonl")
    line = json.loads(Path("labels.jsonl").read_text())
    Path("labels.jsonl").write_text("".join(json.dumps(line | {"value": value}) + "\n" for value in (1, 0)))
    refused = rated("labels", "import", "labels.jsonl")
    assert "labels.jsonl:2: at: ada says something else about it at the same time, on line 1" in refused.err


def test_only_means_are_corrected(rated):
    rated.evaluation |= {"thresholds": {"tone": {"min": 0.8, "stat": "median"}}, "ciGate": {"judge": "require"}}
    (limit,) = run(rated).document["datasets"][0]["thresholds"]
    assert (limit["status"], "which correct only means" in limit["reason"]) == ("INCOMPLETE", True)


def test_a_pass_rate_by_the_judge_alone_is_no_pass_where_labels_are_required(rated):
    rated.evaluation["ciGate"] = {"judge": "require", "minPassRate": 0.5}
    run(rated)
    label(60, lambda number: 1)
    outcome = rated("rescore", "latest", "agent.yaml", "--json")
    assert (tone(outcome)[0]["status"], outcome.code) == ("PASS", 3)
    assert "minPassRate rests on single scores of the judge (tone)" in outcome.document["reasons"][0]


def test_junit_says_what_is_only_the_judges_opinion(rated):
    run(rated, "-o", "junit:junit.xml")
    assert "<system-out>the judge's opinion</system-out>" in Path("junit.xml").read_text()
