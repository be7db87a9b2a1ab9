"""Calibration of a judge by blind random labels, what it says about other runs, and how stable a judge is."""

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from evalspec import labels
from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.model.corrections import DrawKind
from evalspec.runs.store.run_store import RunStore
from evalspec.verdict.correction.calibration_file import write_calibration
from labels.conftest import STORE
from servers.scripted_judge import ScriptedJudge

RUBRIC = {"name": "tone", "rubric": "Is it kind?", "labels": {"kind": 1, "rude": 0}}
GRADED = {**RUBRIC, "labels": {"kind": 1, "so-so": 0.5, "rude": 0}}
MAIN = Path("evals/calibrations/main.json")


@pytest.fixture
def judged(labelled):
    """Forty replies that a scripted judge grades as each of them says: rude from s30 on."""
    with ScriptedJudge() as judge:
        labelled.judge = judge
        labelled.project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        labelled.project.evaluation["ciGate"] = False
        prepare(labelled, RUBRIC)
        yield labelled


def prepare(labelled, rubric, grade=lambda n: "rude" if n >= 30 else "kind", limit=0.7, **key):
    """Write the project and run it. `grade`: what the judge says about a reply."""
    labelled.project.evaluation["datasets"] = []
    labelled.project.evaluation["thresholds"] = {} if limit is None else {"tone": limit}
    rows = [{"id": f"s{n}", "input": f"Question {n}?", "expected": "Yes."} for n in range(40)]
    labelled.project.dataset("talk", rows, metrics=[rubric], **key)
    labelled.replies = {f"s{n}": f"Reply {n}. [grade: {grade(n)}]" for n in range(40)}
    labelled.id = labelled.run()


def give(value, count=40, by="ada", **design):
    """Give blind scores to drawn replies. `value`: a function of the number of the sample."""
    opened = labels.LabelledRun(RunStore(STORE), "latest")
    session = DrawnSession(opened, by, LabelDesign("tone", size=count, **design))
    for _ in range(count):
        case = session.open()
        if case is None:
            return
        session.record(case, "rated", value=float(value(int(case.sample[1:]))))


def is_kind(n):
    """What people say: the judge wrongly praises s28 and s29, and wrongly blames s30."""
    return n < 28 or n == 30


def only():
    (found,) = labels.calibrate().metrics
    return found


def test_rates_bias_kappa_and_each_disagreement(judged):
    give(is_kind)
    found = only()
    cells = found.confusion
    assert (cells.both_pass, cells.both_fail, cells.only_metric_passes, cells.only_people_pass) == (28, 9, 2, 1)
    assert (found.sensitivity.value, found.specificity.value) == (28 / 29, 9 / 11)
    assert found.sensitivity.interval == pytest.approx((0.82236, 0.99913), abs=1e-5), "Clopper and Pearson's"
    assert found.specificity.interval == pytest.approx((0.48224, 0.97717), abs=1e-5)
    assert found.bias == pytest.approx(1 / 40)
    assert found.bias_interval[0] < 0 < found.bias_interval[1]
    assert found.kappa == pytest.approx(1 - (3 / 40) / ((30 * 11 + 10 * 29) / 1600)), "Cohen's"
    assert {(one.sample, one.judge, one.people) for one in found.disagreements} == {
        ("s28", 1, 0), ("s29", 1, 0), ("s30", 0, 1)
    }  # fmt: skip
    assert all(one.reason for one in found.disagreements)
    assert (found.best.agreement, found.best.present, found.best.cross_validated) == (37 / 40, 37 / 40, 37 / 40)


def test_the_best_threshold_is_another_and_its_gain_is_cross_validated(judged):
    prepare(judged, GRADED, lambda n: ("rude", "so-so", "kind")[n % 3], limit=0.9)
    give(lambda n: n % 3 > 0)
    best = only().best
    assert (best.value, best.agreement, best.cross_validated, best.lost) == (0.5, 1, 1, 0)
    assert best.present == 1 - 13 / 40
    assert only().kappa < 1


def test_the_command_prints_shows_and_keeps_it(judged):
    give(is_kind)
    shown = judged.project("judge", "calibrate", "latest", "--as", "main", "-o", "judge.html")
    assert shown.code == 0
    use = "evalspec labels use latest --metric tone --for threshold"
    assert use in " ".join(shown.out.split()), shown.out
    for said in ("sensitivity", "97 %", "82 – 100 %", "people: bad", "s28", "cross-validated 92 %"):
        assert said in shown.out
    assert "evals/calibrations/main.json" in shown.err
    assert "specificity" in Path("judge.html").read_text()
    printed = judged.project("judge", "calibrate", "--json").document
    kept = json.loads(MAIN.read_text())
    assert kept["kind"] == "evalspec calibration"
    assert [kept["metrics"][0][key] for key in ("identity", "sensitivity", "labels")] == [
        printed["metrics"][0][key] for key in ("identity", "sensitivity", "labels")
    ]
    assert {"judge", "prompt"} <= kept["metrics"][0]["identity"].keys()
    assert "Reply" not in MAIN.read_text(), "no texts"
    assert labels.read_calibration(MAIN).metrics[0].disagreements == ()


def test_the_plan_knows_what_people_said_about_this_rubric(judged):
    give(is_kind)
    judged.project.evaluation["ciGate"] = True
    judged.project.write()
    assert judged.project("judge", "calibrate", "--as", "main").code == 0
    kept = labels.read_calibration(MAIN)
    older = replace(kept, at="2020-01-01T00:00:00Z", metrics=(replace(kept.metrics[0], people=0.99),))
    write_calibration(MAIN.with_name("older.json"), older)

    def find():
        judged.project.write()
        found = judged.project("plan", "agent.yaml", "--json").document["datasets"][0]["labels"]
        return {one["people"] for one in found if one["isCalibrated"]}

    assert find() == {29 / 40}
    judged.project.evaluation["judge"]["model"] = "another"
    assert find() == {29 / 40}
    judged.project.evaluation["datasets"][0]["metrics"] = [RUBRIC | {"rubric": "Is it short?"}]
    assert find() == set()


def test_only_a_calibration_is_overwritten_and_read(judged):
    give(is_kind)
    MAIN.parent.mkdir(parents=True)
    MAIN.write_text("{}")
    refused = judged.project("judge", "calibrate", "--as", "main")
    assert refused.code == 2
    assert "this file exists and is not a calibration" in refused.err
    assert "its kind is not 'evalspec calibration'" in judged.project("judge", "apply", "main").err
    assert "there is no such file" in judged.project("judge", "apply", "other").err


def test_a_calibration_that_somebody_edited_is_refused(judged):
    give(is_kind)
    assert judged.project("judge", "calibrate", "--as", "main").code == 0
    kept = json.loads(MAIN.read_text())
    kept["metrics"][0]["confusion"]["bothPass"] = 100
    MAIN.write_text(json.dumps(kept))
    refused = judged.project("judge", "apply", "main")
    assert (refused.code, "this file was edited" in refused.err) == (2, True), refused.err


def test_labels_that_chose_a_threshold_calibrate_and_correct_nothing(judged):
    give(is_kind, count=20)
    used = judged.project("labels", "use", "latest", "--metric", "tone", "--for", "threshold")
    assert (used.code, "20 labels of tone used to choose a threshold" in used.err) == (0, True), used.err
    refused = judged.project("judge", "calibrate")
    assert (refused.code, "no blind random labels" in refused.err) == (2, True)
    rescored = judged.project("rescore", "latest", "agent.yaml", "--json").document
    correction = rescored["datasets"][0]["metrics"]["tone"]["correction"]
    assert correction is None or correction["value"] is None
    give(is_kind, count=10, by="ben", seed=5)
    assert (only().labels, sum(only().left_out.values())) == (10, 20)
    again = judged.project("labels", "use", "latest", "--metric", "tone", "--for", "prompt")
    assert (again.code, "10 labels" in again.err) == (0, True)
    assert judged.project("labels", "use", "latest", "--metric", "tone", "--for", "prompt").code == 2
    assert "has no metric 'x'" in judged.project("labels", "use", "--metric", "x", "--for", "prompt").err
    judged.project("labels", "export", judged.id, "-o", "labels.csv")
    assert "threshold" in Path("labels.csv").read_text()


@pytest.mark.parametrize("door", ["file", "import"])
def test_an_older_export_does_not_free_used_labels(judged, door):
    give(is_kind)
    project = judged.project
    assert project("labels", "export", judged.id, "-o", "older.jsonl").code == 0
    assert project("labels", "use", "latest", "--metric", "tone", "--for", "threshold").code == 0
    if door == "import":
        assert project("labels", "import", "older.jsonl", "--json").document["known"] == 40
    else:
        project.evaluation["ciGate"] = {"judge": {"labels": "older.jsonl"}}
    project.write()
    rescored = project("rescore", "latest", "agent.yaml", "--json").document
    correction = rescored["datasets"][0]["metrics"]["tone"]["correction"]
    assert correction is None or correction["value"] is None
    with pytest.raises(InvalidInput, match="no blind random labels"):
        labels.calibrate()


def test_an_import_brings_the_use_of_labels_along(judged):
    give(is_kind)
    project = judged.project
    project("labels", "export", judged.id, "-o", "older.jsonl")
    project("labels", "use", "latest", "--metric", "tone", "--for", "threshold")
    project("labels", "export", judged.id, "-o", "newer.jsonl")
    shutil.rmtree(STORE / "verdicts")
    assert project("labels", "import", "older.jsonl", "--json").document["added"] == {judged.id: 40}
    assert labels.calibrate().metrics[0].labels == 40
    project("labels", "import", "newer.jsonl")
    with pytest.raises(InvalidInput, match="no blind random labels"):
        labels.calibrate()


def test_no_labels_are_an_error_with_the_command_that_gives_some(judged):
    refused = judged.project("judge", "calibrate")
    assert refused.code == 2
    assert "no blind random labels of tone" in refused.err
    assert f"evalspec label {judged.id} --metric tone --random 50" in refused.err
    labels.label("latest", "s1", "agree", metric="tone", by="ada")
    assert judged.project("judge", "calibrate").code == 2, "given with the score in sight"


def test_labels_on_one_side_leave_a_rate_unknown(judged):
    give(lambda _: 1)
    found = only()
    assert (found.specificity.value, found.specificity.unknown) == (
        None,
        "people call none of the labelled replies bad",
    )
    assert (found.kappa, found.kappa_interval, found.best) == (None, None, None)
    assert "people gave 1 to each labelled reply, so kappa is unknown" in found.notes
    assert found.sensitivity.value == 30 / 40
    assert "people call none of the labelled replies bad" in judged.project("judge", "calibrate").out


def test_a_constant_judge_has_no_rates(judged):
    prepare(judged, RUBRIC, lambda _: "kind")
    give(is_kind)
    found = only()
    assert found.reason == "the judge gave 1 to all 40 replies, so it cannot tell good from bad ones"
    assert (found.confusion, found.sensitivity.value, found.bias, found.kappa) == (None, None, None, None)


def test_few_labels_choose_no_threshold(judged):
    give(is_kind, 12)
    found = only()
    assert found.labels == 12
    assert found.best is None
    assert "12 labels cannot choose a threshold; 20 can" in found.notes


def test_without_a_threshold_the_middle_of_the_range_divides(judged):
    prepare(judged, RUBRIC, limit=None)
    give(is_kind)
    found = only()
    assert (found.cut, found.confusion.min) == ("midpoint", 0.5)
    assert found.sensitivity.value == 28 / 29


def test_of_stratified_draws_a_part_with_equal_chances_counts(judged):
    prepare(judged, RUBRIC, lambda n: "rude" if n >= 36 else "kind")
    give(lambda n: n < 30, 26, kind=DrawKind.STRATIFIED)
    found = only()
    assert found.labels + sum(found.left_out.values()) == 26
    assert any("more likely to be drawn" in reason for reason in found.left_out)


def test_labels_that_stopped_when_the_threshold_was_decided_are_left_out(judged):
    give(is_kind, 15, kind=DrawKind.SEQUENTIAL)
    found = only()
    assert found.labels == 0
    assert found.reason == "there are no blind random labels"
    assert any("--until-decided" in reason for reason in found.left_out)


def test_clusters_are_not_independent(judged):
    rows = judged.project.evaluation
    judged.project.evaluation["datasets"] = []
    lines = [
        {"id": f"s{n}", "input": f"Question {n}?", "expected": "Yes.", "metadata": {"page": n // 4}} for n in range(40)
    ]
    judged.project.dataset("talk", lines, metrics=[RUBRIC], cluster="page")
    rows["thresholds"] = {"tone": 0.7}
    judged.id = judged.run()
    give(is_kind)
    found = only()
    assert (found.sensitivity.units, found.sensitivity.interval_method) == (8, "bounded")
    assert found.kappa is not None
    assert found.kappa_interval is None
    labels.calibrate()


def test_a_kept_calibration_corrects_another_run_for_show(judged):
    give(is_kind)
    judged.project("judge", "calibrate", "--as", "main")
    judged.replies = {f"s{n}": f"Other reply {n}. [grade: {'rude' if n >= 32 else 'kind'}]" for n in range(40)}
    judged.id = judged.run()
    outcome = judged.project("judge", "apply", "main", "--json")
    (found,) = outcome.document["metrics"]
    assert found["judge"] == 0.8
    assert found["value"] == pytest.approx((0.8 + 9 / 11 - 1) / (28 / 29 + 9 / 11 - 1))
    assert found["interval"][0] < found["value"] < found["interval"][1]
    assert found["tippingPoint"] == pytest.approx((1 - 0.8 - 0.7 / 29) / 0.3)
    assert found["said"] == "the limit is met unless specificity is below 0.59; it was 0.82 in the calibration"
    shown = judged.project("judge", "apply", "main").out
    for said in (
        "if the judge errs as it did on",
        "these shares decide no threshold",
        "unless specificity is below 0.59",
    ):
        assert said in " ".join(shown.split())


def test_another_judge_or_rubric_makes_a_calibration_void(judged):
    give(is_kind)
    judged.project("judge", "calibrate", "--as", "main")
    judged.project.evaluation["judge"]["model"] = "m2"
    judged.id = judged.run()
    (found,) = judged.project("judge", "apply", "main", "--json").document["metrics"]
    assert found["value"] is None
    assert "is void, because this changed: judge (" in found["reason"]
    assert "m2" in found["reason"]
    judged.project.evaluation["judge"]["model"] = "m"
    prepare(judged, {**RUBRIC, "rubric": "Is it short?"})
    (found,) = judged.project("judge", "apply", "main", "--json").document["metrics"]
    assert "is void, because this changed: prompt (" in found["reason"]


def test_another_threshold_needs_another_calibration(judged):
    give(is_kind)
    kept = labels.calibrate()
    prepare(judged, GRADED | {"labels": RUBRIC["labels"]}, limit=0.9)
    (found,) = labels.apply(kept).metrics
    assert "the threshold is not that of the calibration" in found.reason


def test_flips_variance_and_repeats_of_a_judge(judged):
    judged.judge.in_turn = True
    judged.run("--judge-repeat", "3")
    (found,) = labels.stability().metrics
    assert (found.replies, found.gradings) == (40, 120)
    assert 0 < found.flipped <= 40
    assert 0 < found.flips.value < 1
    assert found.judge_variance > 0
    shown = judged.project("judge", "stability").out
    assert "the order of answers matters only to `preference`" in shown
    assert "grades needed" in shown


def test_a_stable_judge_flips_nothing_and_needs_one_grade(judged):
    judged.run("--judge-repeat", "3")
    (found,) = labels.stability().metrics
    assert (found.flipped, found.flips.value, found.share, found.repeats_needed) == (0, 0, 0, 1)


def test_a_run_without_repeats_names_the_command(judged):
    refused = judged.project("judge", "stability")
    assert refused.code == 2
    assert f"evalspec rescore {judged.id} agent.yaml --judge-repeat 3" in refused.err


def test_a_run_without_a_judge_has_nothing_to_calibrate(labelled):
    for command in ("calibrate", "stability"):
        assert "has no judged metric" in labelled.project("judge", command).err


def test_unknown_names_are_reported(judged):
    give(is_kind)
    with pytest.raises(InvalidInput, match="has no metric 'tome'"):
        labels.calibrate(metric="tome")
    assert judged.project("judge", "calibrate", "-o", "judge.pdf").code == 2
