"""`evalspec compare` on runs that `evalspec evaluate` made."""

import itertools
import json
import shutil

import pytest

from comparison.small_runs import make_dataset, make_run, make_sample, run_of
from evalspec.reports.json_report import render_json
from evalspec.verdict.comparison.baseline import Baseline, render_baseline
from evalspec.verdict.comparison.run_files import read_run_file

RANKED = {"d1": 1, "d2": 1, "x": 0}


def words(text):
    return " ".join(text.split())


@pytest.fixture
def asked(project, agent):
    """Twelve samples about retrieval and the answer; `evaluate` runs against what the agent says at that moment."""
    project.api |= {
        "url": agent.url,
        "chatEndpoint": {
            "protocol": "custom",
            "request": {"message": "{{input}}"},
            "response": {"answer": "$.response", "contextIds": "$.ids"},
            "maxRetries": 0,
        },
    }
    lines = [{"id": f"s{n:02}", "relevant": RANKED, "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(12)]
    project.dataset("qa", lines, metrics=["string_match", "Recall@2", "RR@3"])
    agent.reply = {"response": "Paris", "ids": ["d1", "d2", "x"]}
    return project


@pytest.fixture
def two_runs(asked, agent):
    """`good` and `bad`: the second answers wrong and finds one document later and the other not at all."""
    asked.evaluate()
    asked("runs", "label", "latest", "good")
    agent.reply = {"response": "Lyon \x1b[2J", "ids": ["x", "y", "d1"]}
    asked.evaluate()
    asked("runs", "label", "latest", "bad")
    return asked


@pytest.mark.parametrize(
    ("before", "after", "shown", "said"),
    [
        ("PP", "PL", ("Paris", "Lyon"), "attempt 2 of 2"),
        ("PP", "LP", ("Paris", "Lyon"), "attempt 1 of 2"),
        ("LPP", "LLP", ("Paris", "Lyon"), "attempt 2 of 3"),
        ("LPP", "LL", ("Paris", "Lyon"), "attempt 2 of 2"),
        ("P", "L", ("Paris", "Lyon"), None),
    ],
)
def test_of_repeats_an_attempt_is_shown_in_which_the_sample_changed(before, after, shown, said, asked, agent):
    """The first attempts may be the same text twice, beside a score that fell."""
    for name, answers in (("old", before), ("new", after)):
        turns = itertools.cycle(answers)
        agent.reply = lambda body, turns=turns: {"response": {"P": "Paris", "L": "Lyon"}[next(turns)], "ids": ["d1"]}
        asked.evaluation["datasets"].clear()
        asked.dataset("qa", [{"id": "s0", "relevant": RANKED}], metrics=["string_match"])
        asked.evaluate("--repeat", str(len(answers)), "-j", "1")
        asked("runs", "label", "latest", name)
    (sample,) = asked("compare", "old", "new", "--json").document["candidates"][0]["datasets"][0]["samples"]
    texts = sample["texts"]
    assert (texts["baseline"], texts["candidate"]) == shown
    assert texts["attempt"] == (said and {"number": int(said.split()[1]), "of": int(said.split()[3])})
    out = words(asked("compare", "old", "new").out)
    assert f"{said} baseline: Paris candidate: Lyon" in out if said else "attempt" not in out
    asked("compare", "old", "new", "-o", "c.md")
    assert (f"  - {said}\n" in (asked.folder / "c.md").read_text()) is bool(said)


def test_a_promoted_baseline_is_named_after_labels_and_runs(two_runs):
    assert two_runs("runs", "promote", "good", "--as", "stable").code == 0
    outcome = two_runs("compare", "stable", "latest", "--json")
    assert outcome.code == 0, outcome.err
    assert (outcome.document["baseline"]["name"], outcome.document["baseline"]["kind"]) == ("stable", "baseline")
    two_runs("runs", "label", "bad", "stable")
    assert two_runs("compare", "stable", "latest", "--json").document["baseline"]["kind"] == "run"
    unknown = two_runs("compare", "stabel", "latest")
    assert (unknown.code, "no run or baseline is named 'stabel'" in unknown.err) == (2, True)
    assert two_runs("runs", "promote", "good", "--as", "stale").code == 0
    assert "did you mean 'stale'" in two_runs("compare", "stal", "latest").err


def test_what_got_worse_is_told_with_its_samples(two_runs):
    outcome = two_runs("compare", "good", "bad", "--samples", "2")
    assert outcome.code == 0
    said = words(outcome.out)
    assert said.startswith("3 degraded")
    assert "string_match 1.000 0.000 −1.000 −100.0 %" in said
    assert "qa 12 pairs" in said
    assert "Samples: 12 degraded" in said
    assert "s00: degraded, string_match 1.000 → 0.000" in said
    assert "d1 rank 1 → 3; d2 rank 2 → none" in said
    assert "baseline: Paris candidate: Lyon \\x1b[2J" in said
    assert "s02" not in said
    assert "\x1b" not in outcome.out


def test_the_other_way_round_it_got_better(two_runs):
    assert words(two_runs("compare", "bad", "good").out).startswith("3 improved")


def test_json(two_runs):
    document = two_runs("compare", "good", "bad", "--json").document
    assert (document["schemaVersion"], document["exitCode"], document["baseline"]["name"]) == (1, 0, "good")
    (dataset,) = document["candidates"][0]["datasets"]
    assert dataset["pairs"] == 12
    metric = dataset["metrics"]["string_match"]
    assert (metric["verdict"], metric["delta"], metric["test"], metric["pairs"]) == ("degraded", -1.0, "McNemar", 12)
    assert 0 < metric["pValue"] <= metric["pAdjusted"] < 0.05
    assert (metric["units"], metric["unpaired"], metric["requiredSize"]) == (12, 0, None)
    assert dataset["sampleCounts"]["degraded"] == len(dataset["samples"]) == 12
    first = dataset["samples"][0]
    assert first["scores"]["string_match"] == {"before": 1.0, "after": 0.0}
    assert first["texts"]["rankMoves"] == [
        {"document": "d1", "before": 1, "after": 3},
        {"document": "d2", "before": 2, "after": None},
    ]
    assert dataset["samples"][11]["texts"] is None
    assert {part["name"]: part["pairs"] for part in dataset["slices"]} == {"even": 6, "odd": 6}


def test_a_run_with_itself_has_no_evidence_of_a_change(two_runs):
    outcome = two_runs("compare", "good", "good", "--fail-on", "degraded")
    assert outcome.code == 0
    assert words(outcome.out).startswith("no differences in 12 samples")
    assert "Samples: 12 unchanged" in outcome.out
    assert "note: good and latest~1 are the same run" in two_runs("compare", "good", "latest~1").out
    assert "same run" not in two_runs("compare", "good", "bad").out


def test_fail_on_degraded(two_runs):
    assert two_runs("compare", "good", "bad", "--fail-on", "degraded").code == 1
    assert two_runs("compare", "bad", "good", "--fail-on", "degraded").code == 0
    failed = two_runs("compare", "good", "bad", "--fail-on", "degraded", "--json")
    assert failed.code == failed.document["exitCode"] == 1


def test_several_candidates_in_one_table(two_runs):
    outcome = two_runs("compare", "bad", "good", "latest", "--metric", "recall@2")
    said = words(outcome.out)
    assert "Recall@2 good 0.000 1.000 +1.000" in said
    assert "Recall@2 latest 0.000 0.000 ±0.000" in said
    assert "string_match" not in said.split("Samples")[0]
    assert "Candidates with each other metric run first second delta" in said
    assert "Recall@2 good → latest 1.000 0.000 −1.000" in said
    assert "Recall@2 ▲ good good 1.000 12" in said
    assert "adjusted for 3 tests (maxT), all ranges of a metric hold together at 95 %" in said


def test_several_candidates_in_json(two_runs):
    document = two_runs("compare", "bad", "good", "latest", "--metric", "recall@2", "--json").document
    (rivals,), (best,) = document["rivals"], document["bestRuns"]
    change = rivals.pop("change")
    assert rivals == {"dataset": "qa", "first": "good", "second": "latest"}
    assert (change["metric"], change["delta"], change["verdict"]) == ("Recall@2", -1.0, "degraded")
    assert change["pValue"] < change["pAdjusted"] < 0.05
    assert best == {
        "dataset": "qa",
        "metric": "Recall@2",
        "samples": 12,
        "means": {"good": 1.0, "bad": 0.0, "latest": 0.0},
        "possible": ["good"],
    }
    assert document["confidence"] == pytest.approx(1 - 0.05 / 3)
    alone = two_runs("compare", "bad", "good", "--json").document
    assert (alone["confidence"], alone["rivals"]) == (0.95, [])


def test_files(two_runs):
    (two_runs.folder / "out").mkdir()
    outcome = two_runs("compare", "good", "bad", "-o", "out/c.md", "-o", "c.json", "-o", "c.html")
    assert outcome.code == 0
    page = (two_runs.folder / "c.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Content-Security-Policy" in page
    text = (two_runs.folder / "out" / "c.md").read_text()
    assert "| `string_match` | 1.000 | 0.000 | −1.000 |" in text
    assert "\x1b" not in text
    assert json.loads((two_runs.folder / "c.json").read_text())["tests"] == 3
    refused = two_runs("compare", "good", "bad", "-o", "c.csv")
    assert refused.code == 2
    assert "use .html, .json or .md" in refused.err


def test_a_report_and_a_baseline_file_stand_for_the_run(two_runs):
    runs = two_runs.folder / ".evalspec" / "runs"
    good = runs / sorted(path.name for path in runs.iterdir() if path.name != "latest")[0] / "report.json"
    shutil.copy(good, two_runs.folder / "good.json")
    (two_runs.folder / "base.json").write_text(render_baseline(Baseline(read_run_file(good).run)))
    direct = two_runs("compare", "good", "bad", "--json").document["candidates"][0]["datasets"][0]
    for name in ("good.json", "base.json"):
        document = two_runs("compare", name, "bad", "--json").document
        (dataset,) = document["candidates"][0]["datasets"]
        assert dataset["metrics"] == direct["metrics"]
        assert dataset["sampleCounts"] == direct["sampleCounts"]
        assert {part["name"] for part in dataset["slices"]} == {"even", "odd"}


def test_an_unrag_report_is_a_baseline(two_runs):
    query = {
        "query": "?",
        "topK": 2,
        "relevant": {"sourceIds": ["d1"]},
        "retrieved": {"sourceIds": ["x"], "metrics": {"recallAtK": 0.0}, "durationsMs": {}},
    }
    queries = [query | {"id": f"s{n:02}"} for n in range(12)]
    document = {"version": "1", "dataset": {"id": "old"}, "config": {}, "results": {"queries": queries}}
    (two_runs.folder / "unrag.json").write_text(json.dumps(document))
    outcome = two_runs("compare", "unrag.json", "good")
    assert outcome.code == 0, outcome.err
    said = words(outcome.out)
    assert "Recall@2 0.000 1.000 +1.000" in said
    assert "dataset old of the baseline is compared with qa of good" in said
    assert "Unrag report: has no hash of its dataset" in said


def test_changed_content_is_in_no_number(two_runs):
    path = two_runs.folder / "qa.jsonl"
    path.write_text(path.read_text().replace('"Paris"', '"Rome"', 1))
    two_runs.evaluate()
    outcome = two_runs("compare", "good", "latest")
    assert (outcome.code, "1 edited in the dataset" in words(outcome.out)) == (0, True)
    refused = two_runs("compare", "good", "latest", "--fail-on", "degraded")
    assert (refused.code, "latest: dataset qa: 1 sample changed (s00)" in refused.err) == (2, True), refused.err


def test_another_k_is_refused(two_runs):
    two_runs.evaluation["datasets"][0]["metrics"] = ["string_match", "Recall@3"]
    two_runs.evaluate()
    outcome = two_runs("compare", "good", "latest")
    assert outcome.code == 2
    assert "Recall has different cutoffs: 2 in the baseline, 3 in the candidate" in outcome.err


def test_an_agent_that_was_down(two_runs, agent):
    agent.stop()
    two_runs.evaluate()
    outcome = two_runs("compare", "good", "latest", "--metric", "string_match")
    assert outcome.code == 0
    said = words(outcome.out)
    assert "? too few samples no sample is scored in both" in said
    assert "Samples: 12 not scored in one" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["good", "nothing"], "no run is named 'nothing'"),
        (["good", "nothing.json"], "nothing.json: no such file"),
        (["good", "agent.yaml"], "agent.yaml:1: not valid JSON"),
        (["good"], "Missing argument 'CANDIDATE...'"),
        (["good", "bad", "--dataset", "qb"], "--dataset: not in both runs: 'qb'. known: qa"),
        (
            ["good", "bad", "--metric", "bleu"],
            "--metric: bad and the baseline have no metric 'bleu' in common. known: RR@3",
        ),
        (["good", "bad", "--alpha", "2"], "--alpha"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(two_runs, arguments, said):
    outcome = two_runs("compare", *arguments)
    assert outcome.code == 2
    assert said in words(outcome.err)
    assert "Traceback" not in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_hostile_names_are_shown_and_never_interpreted(project):
    name = "\x1b[2J`x`|<b>[red]y\u202e"
    for file, value in (("a", 1.0), ("b", 0.0)):
        samples = [make_sample(f"{name}{n}", {name: value}, tags=(name,)) for n in range(9)]
        run = run_of(make_dataset(samples, name, ["tags"]))
        (project.folder / f"{file}.json").write_text(render_json(run))
    outcome = project("compare", "a.json", "b.json", "-o", "c.md")
    text = (project.folder / "c.md").read_text()
    for shown in (outcome.out, text):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "[red]y" in shown
    assert "``" in text
    assert "<details><summary>Slices (1), deltas" in text


def test_one_sample(project):
    for file, value in (("a", 1.0), ("b", 0.0)):
        (project.folder / f"{file}.json").write_text(render_json(make_run({"a": [value]})))
    outcome = project("compare", "a.json", "b.json")
    assert outcome.code == 0
    assert "1 pair cannot show a change at alpha 0.05: 6 are needed" in words(outcome.out)
