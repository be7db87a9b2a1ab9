"""Runs of two versions of a dataset are compared over the samples that both have, by one rule everywhere."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from comparison.small_runs import make_dataset, make_sample, run_of
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.verdict.comparison.baseline import Baseline
from evalspec.verdict.comparison.compare_runs import compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.regression import decide_regressions
from evalspec.verdict.validity.changes import SignificanceRules

SCORES = st.lists(st.sampled_from([0.0, 1.0]), max_size=6)
COMMON = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 2), min_size=1, max_size=6)


def build(scores, digest="d", prefix="s"):
    return [make_sample(f"{prefix}{at}", {"a": score}, digest=f"{digest}{at}") for at, score in enumerate(scores)]


def compare(before, after):
    named = [NamedRun(name, run_of(make_dataset(samples))) for name, samples in (("b", before), ("c", after))]
    (dataset,) = compare_runs(named[0], named[1:], SignificanceRules(resamples=200)).candidates[0].datasets
    return dataset


def gate(before, after):
    policy = CiGate.model_validate({"baseline": "main", "maxRemoved": 1})
    baseline, run = (run_of(make_dataset(samples)) for samples in (before, after))
    return [
        replace(one, reason=None)
        for one in decide_regressions(Baseline(baseline), run.datasets, policy, run.fingerprint)
    ]


@settings(max_examples=10)
@given(COMMON, SCORES, SCORES, SCORES)
def test_other_samples_change_nothing_about_those_that_both_have(common, removed, added, edited):
    before, after = (build(side) for side in zip(*common, strict=True))
    old = [*before, *build(removed, prefix="old"), *build(edited, "1", "e")]
    new = [*after, *build(added, prefix="new"), *build(edited[::-1], "2", "e")]
    alone, found = compare(before, after), compare(old, new)
    assert found.metrics == alone.metrics
    assert found.pairs == len(common)
    assert gate(old, new) == gate(before, after)


def test_edited_samples_are_in_no_number_and_are_listed_with_their_scores():
    found = compare([*build([1.0, 1.0]), *build([1.0], "1", "e")], [*build([1.0, 0.0]), *build([0.25], "2", "e")])
    assert (found.metrics["a"].baseline, found.metrics["a"].candidate) == (1.0, 0.5)
    (edited,) = [one for one in found.samples if one.id == "e0"]
    assert (edited.kind, edited.scores["a"].before, edited.scores["a"].after) == ("edited in the dataset", 1.0, 0.25)


@pytest.fixture
def changed(project, agent):
    """A run `old` of 20 samples, and a newer one: one removed that failed, two edited, three added."""
    wrong = {"q0", "q5"}
    agent.reply = lambda body: {"response": "Lyon" if body["message"] in wrong else f"{body['message']}: Paris"}
    project.api = {"url": agent.url}
    project.evaluation["thresholds"] = {"string_match": 0.5}
    lines = [{"id": f"s{n}", "input": f"q{n}", "expected": "Paris"} for n in range(23)]
    project.dataset("qa", lines[:20], metrics=["string_match"])
    assert project.evaluate().code == 0
    assert project("runs", "label", "latest", "old").code == 0
    wrong.add("q7")
    edited = [{**one, "input": f"{one['input']}?"} if one["id"] in ("s1", "s2") else one for one in lines[1:]]
    (project.folder / "qa.jsonl").write_text("".join(json.dumps(one) + "\n" for one in edited))
    assert project.evaluate().code == 0
    return project


def test_versions_of_a_dataset_are_compared_over_the_samples_that_both_have(changed):
    done = changed("compare", "old", "latest")
    assert done.code == 0, done.err
    said = (
        "on 17 of 23 samples that both have; 2 edited in the dataset, 1 only in the baseline, 3 only in the candidate"
    )
    assert said in " ".join(done.out.split())
    assert "0.941" in done.out
    assert "0.882" in done.out, "both means are over the 17"
    for entry in ("s1", "s0", "s20"):
        assert entry in done.out.partition("Samples that are not compared")[2]
    assert "string_match 0.000 → absent" in done.out
    changed("compare", "old", "latest", "-o", "c.html", "-o", "c.md")
    assert all(said in " ".join((changed.folder / name).read_text().split()) for name in ("c.html", "c.md"))


def test_a_comparison_that_gates_needs_a_declared_share(changed):
    done = changed("compare", "old", "latest", "--fail-on", "degraded")
    assert done.code == 2
    said = "dataset qa: 2 samples changed (s1, s2) and 1 sample removed (s0) of 20, more than the share of 0 that"
    assert f"{said} ciGate.maxRemoved allows" in done.err
    for share, code in ((0.15, 0), (0.1, 2)):
        changed.evaluation["ciGate"] = {"maxRemoved": share}
        assert changed.evaluate().code == 0
        assert changed("compare", "old", "latest").code == code
        assert changed("compare", "old", "latest", "--fail-on", "degraded").code == code


def test_the_gate_says_which_samples_it_compared_and_what_the_removed_ones_scored(changed):
    assert changed("runs", "promote", "old", "--as", "main").code == 0
    changed.evaluation["ciGate"] = {"baseline": "main", "maxRemoved": 0.15}
    done = changed.evaluate("--json")
    assert done.code == 0
    (outcome,) = done.document["regressions"]
    assert (outcome["pairs"], outcome["baseline"]) == (17, pytest.approx(16 / 17))
    assert "1 only in the baseline, 3 only in this run, 2 edited" in outcome["reason"]
    (gone,) = [one["text"] for one in done.document["measurement"] if one["kind"] == "removed"]
    assert gone == "1 sample gone from the file since the baseline: s0 (string_match 0.000)"


def test_a_sample_size_hides_no_deleted_samples(project, agent):
    """Twelve of forty samples fail now. They are deleted, and one more is left out by the sample size."""
    agent.reply = lambda body: {"response": f"{body['message']}: Paris"}
    project.api = {"url": agent.url}
    lines = [{"id": f"s{n}", "input": f"q{n}", "expected": "Paris"} for n in range(40)]
    project.dataset("qa", lines, metrics=["string_match"])
    project.evaluate()
    project("runs", "label", "latest", "old")
    project.dataset("qa", lines[12:], metrics=["string_match"])
    project.evaluation["datasets"] = project.evaluation["datasets"][-1:]
    project.evaluate("--sample-size", "27")
    refused = project("compare", "old", "latest", "--fail-on", "degraded")
    assert (refused.code, "at least 12 samples removed of 40" in refused.err) == (2, True), refused.err
    project.dataset("qa", lines, metrics=["string_match"])
    project.evaluation["datasets"] = project.evaluation["datasets"][-1:]
    project.evaluate("--sample-size", "27")
    assert project("compare", "old", "latest", "--fail-on", "degraded").code == 0
