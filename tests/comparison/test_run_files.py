"""Baselines, reports and reports of other tools, told by their content."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import seal
from comparison.small_runs import make_dataset, make_run, make_sample, run_of
from evalspec.base.errors import InvalidInput
from evalspec.model import Attempt, Run, SampleStatus, Score, VerdictStatus
from evalspec.model.comparisons import Change
from evalspec.reports.json_report import render_json
from evalspec.verdict.comparison.baseline import Baseline, baseline_path, render_baseline
from evalspec.verdict.comparison.compare_runs import compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.run_files import read_baseline, read_run_file
from evalspec.verdict.validity.changes import SignificanceRules
from reporters.sample_run import HOSTILE_ID, sample_run

SUBSTRING = "string_match(match=substring)"


def write(folder, content, name="run.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read_promoted(folder, content):
    """The run of a baseline, whose digest is right."""
    sealed = seal(json.loads(content) if isinstance(content, str) else content)
    return read_baseline(write(folder, sealed)).run


def test_a_baseline_has_a_line_a_sample_and_no_text(tmp_path):
    text = render_baseline(Baseline(sample_run()))
    assert text.isascii() or text.replace("\n", "").isprintable()
    for secret in ("upstream said", "no judge", "tickets", "supported", "lamp"):
        assert secret not in text
    lines = [line for line in text.splitlines() if line.startswith('{"id"')]
    assert len(lines) == sum(len(dataset.samples) for dataset in sample_run().datasets)
    read = read_promoted(tmp_path, text)
    for before, after in zip(sample_run().datasets, read.datasets, strict=True):
        assert {s.id: s.pass_rate for s in before.samples} == {s.id: s.pass_rate for s in after.samples}
        assert HOSTILE_ID not in {s.id for s in before.samples} or HOSTILE_ID in {s.id for s in after.samples}
        values = [
            {s.id: {m: (x.status, x.value) for m, x in s.scores.items()} for s in d.samples} for d in (before, after)
        ]
        assert values[0] == values[1]
    assert render_baseline(Baseline(read)) == text


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=5))
def test_values_come_back_exactly(tmp_path_factory, values):
    text = render_baseline(Baseline(make_run({"a": values})))
    run = read_promoted(tmp_path_factory.mktemp("b"), text)
    found = {sample.id: sample.scores["a"].value for sample in run.datasets[0].samples}
    assert [found[f"s{n}"] for n in range(len(values))] == values


def test_the_order_of_the_samples_does_not_matter():
    samples = [make_sample(name, {"a": 1.0}) for name in ("z", "a", "m")]
    texts = {render_baseline(Baseline(run_of(make_dataset(order)))) for order in (samples, samples[::-1])}
    assert len(texts) == 1


def test_a_percentile_of_attempts_stays_one_of_replies(tmp_path):
    attempts = tuple(
        Attempt(SampleStatus.ANSWERED, scores={"latency_p95": Score.scored(v), "a": Score.scored(1)}) for v in (1, 2, 9)
    )
    run = run_of(make_dataset([make_sample(f"s{n}", {"latency_p95": 4.0, "a": 1.0}, attempts=attempts) for n in "12"]))
    read = read_promoted(tmp_path, render_baseline(Baseline(run)))
    assert read.datasets[0].metrics["latency_p95"].value == run.datasets[0].metrics["latency_p95"].value == 9.0
    assert read.datasets[0].metrics["a"].value == 1.0


def test_every_attempt_comes_back(tmp_path):
    scores = [{"a": Score.scored(0.25), "p": Score.failed("x")}, {"a": Score.scored(1), "p": Score.scored(0.75)}]
    passes = (True, None)
    attempts = tuple(
        Attempt(SampleStatus.ANSWERED, scores=given, passed=passed)
        for given, passed in zip(scores, passes, strict=True)
    )
    combined = {"a": 0.625, "p": Score.failed("x")}
    run = run_of(make_dataset([make_sample("s", combined, attempts=attempts, digest="0f")]))
    (sample,) = read_promoted(tmp_path, render_baseline(Baseline(run))).datasets[0].samples
    assert (sample.scores["a"].value, sample.scores["p"].status, sample.digest) == (0.625, "failed", "0f")
    read = [(a.passed, a.scores["a"].value, a.scores["p"].value) for a in sample.attempts]
    assert read == [(True, 0.25, None), (None, 1.0, 0.75)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"passes": [True]}, r"datasets\[0\].samples: the lists of attempts of sample s differ in length"),
        ({"passes": [1, True]}, r"samples\[0\].passes\[0\]: expected true or false"),
        ({"scores": {"latency_p95": [1, 2], "a": [1]}}, "differ in length"),
        ({"scores": {"latency_p95": 1, "a": [1, 2]}}, "sample s has no list of attempts for latency_p95"),
        ({"scores": {"latency_p95": [1, 2], "a": []}}, r"samples\[0\].scores.a: Expected `array` of length >= 1"),
        ({"digest": 7}, r"samples\[0\].digest: expected text"),
    ],
)
def test_attempts_that_are_damaged(change, said, tmp_path):
    scores = {"latency_p95": 1.0, "a": 1.0}
    attempts = tuple(
        Attempt(SampleStatus.ANSWERED, scores={metric: Score.scored(value) for metric, value in scores.items()})
        for _ in "12"
    )
    document = json.loads(
        render_baseline(Baseline(run_of(make_dataset([make_sample("s", scores, attempts=attempts)]))))
    )
    document["datasets"][0]["samples"][0] |= change
    with pytest.raises(InvalidInput, match=said):
        read_promoted(tmp_path, document)


def test_where_a_baseline_is(tmp_path):
    assert baseline_path(tmp_path, "main") == tmp_path / "evals" / "baselines" / "main.json"
    assert baseline_path(tmp_path, "v1.2") == tmp_path / "evals" / "baselines" / "v1.2.json"
    assert baseline_path(tmp_path, "main.json") == tmp_path / "main.json"
    assert baseline_path(tmp_path, "old/main") == tmp_path / "old" / "main"


def test_a_baseline_that_is_not_there_or_not_one(tmp_path):
    with pytest.raises(InvalidInput, match="create it with `evalspec runs promote RUN --as main`"):
        read_baseline(tmp_path / "main.json")
    document = json.loads(render_baseline(Baseline(make_run({"a": [1.0]}))))
    for change, said in (
        ({"schemaVersion": 2}, "is from a later release"),
        ({"datasets": [{"name": "qa"}]}, r"datasets\[0\]\.metrics: is missing"),
        ({"runId": None}, "runId: expected text"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_promoted(tmp_path, document | change)
    document["datasets"][0]["samples"][0]["scores"] = {"a": 1e99}
    with pytest.raises(InvalidInput, match=r"a of sample s0 is 1e\+99, outside 0 to 1"):
        read_promoted(tmp_path, document)
    document["datasets"][0]["samples"][0]["scores"] = {}
    with pytest.raises(InvalidInput, match="sample s0 has no score for a"):
        read_promoted(tmp_path, document)
    with pytest.raises(InvalidInput, match="has no scores per sample"):
        render_baseline(Baseline(Run(id="r", verdict=VerdictStatus.PASS, exit_code=0, datasets=())))


def test_a_report(tmp_path):
    found = read_run_file(write(tmp_path, render_json(sample_run())), "latest.json")
    assert (found.name, found.kind, found.run.id) == ("latest.json", "report", sample_run().id)


def unrag(ids, recall=1.0, **changes):
    query = {
        "query": "Where?",
        "topK": 5,
        "scopePrefix": "eval:",
        "relevant": {"sourceIds": ["eval:a"]},
        "retrieved": {
            "sourceIds": ["eval:b", "eval:a"],
            "metrics": {"hitAtK": 1, "recallAtK": recall, "precisionAtK": None, "mrrAtK": 0.5},
            "durationsMs": {"embeddingMs": 1, "retrievalMs": 2, "totalMs": 3.5},
        },
    }
    return {
        "version": "1",
        "createdAt": "2026-01-10T05:10:32.691Z",
        "dataset": {"id": "sample", "version": "1"},
        "config": {"mode": "retrieve", "topK": 5},
        "results": {"queries": [query | {"id": name} | changes for name in ids], "aggregates": {}},
    }


def test_an_unrag_report(tmp_path):
    found = read_run_file(write(tmp_path, unrag(["q1", "q2"])), "unrag.json")
    (dataset,) = found.run.datasets
    values = {metric: (score.status, score.value) for metric, score in dataset.samples[0].scores.items()}
    assert values == {
        "Success@5": ("scored", 1.0),
        "Recall@5": ("scored", 1.0),
        "Precision@5": ("failed", None),
        "RR@5": ("scored", 0.5),
        "latency_p95": ("scored", 3.5),
    }
    assert dataset.name == "sample"
    assert "samples are compared by id only" in found.notes[0]
    (stored_exchange,) = found.texts({("sample", "q2")})
    assert stored_exchange.exchange.ranking == ("eval:b", "eval:a")


def test_an_unrag_report_with_reranking(tmp_path):
    document = unrag(["q1"])
    stage = {"sourceIds": ["eval:a"], "metrics": {"recallAtK": 0.25}, "durationsMs": {"rerankMs": 1, "totalMs": 4.0}}
    document["results"]["queries"][0]["reranked"] = stage
    found = read_run_file(write(tmp_path, document))
    scores = found.run.datasets[0].samples[0].scores
    assert (scores["Recall@5"].value, scores["latency_p95"].value) == (0.25, 7.5)
    assert any("after reranking" in note for note in found.notes)


def test_an_unrag_report_that_is_wrong(tmp_path):
    with pytest.raises(InvalidInput, match="sample id 'q' occurs 2 times"):
        read_run_file(write(tmp_path, unrag(["q", "q"])))
    with pytest.raises(InvalidInput, match="version: Invalid enum value '2'"):
        read_run_file(write(tmp_path, unrag(["q"]) | {"version": "2"}))
    with pytest.raises(InvalidInput, match=r"results.queries\[1\].topK: expected a number"):
        broken = unrag(["p", "q"])
        broken["results"]["queries"][1]["topK"] = "x"
        read_run_file(write(tmp_path, broken))


def agentspec(passes, **changes):
    samples = [
        {"index": n, "input": f"q{n}", "expected": "a", "actual": "a" if ok else "b", "pass": ok, "latencyMs": 5}
        for n, ok in enumerate(passes)
    ]
    rate = sum(passes) / len(passes)
    head = {"dataset": "qa", "agentUrl": "http://x", "totalSamples": len(passes), "metrics": {"pass_rate": rate}}
    return head | {"ciGateResult": "PASS", "samples": samples} | changes


def test_agentspec_reports_are_compared(tmp_path):
    before = read_run_file(write(tmp_path, agentspec([True] * 12), "a.json"))
    after = read_run_file(write(tmp_path, agentspec([False] * 9 + [True] * 3), "b.json"))
    (change, *_) = compare_runs(before, [after], SignificanceRules()).candidates[0].changes
    assert (change.metric, change.pairs, change.verdict) == (SUBSTRING, 12, Change.DEGRADED)


def test_an_agentspec_report_without_samples_has_no_p_value(tmp_path):
    bare = agentspec([True, False])
    del bare["samples"]
    found = read_run_file(write(tmp_path, bare))
    assert "nothing can be tested" in found.notes[0]
    (change,) = (
        compare_runs(found, [NamedRun("r", make_run({SUBSTRING: [1.0] * 9}))], SignificanceRules())
        .candidates[0]
        .changes
    )
    assert (change.baseline, change.candidate, change.delta) == (0.5, 1.0, 0.5)
    assert (change.p_value, change.verdict) == (None, Change.TOO_FEW)


def test_an_agentspec_error_is_no_wrong_answer(tmp_path):
    document = agentspec([True])
    document["samples"][0] |= {"actual": None, "pass": False, "error": "Agent returned HTTP 500"}
    (sample,) = read_run_file(write(tmp_path, document)).run.datasets[0].samples
    assert (sample.status, sample.scores[SUBSTRING].status) == ("failed", "failed")


@pytest.mark.parametrize("content", ["{}", '{"a": 1}', "[]", "", '{"schemaVersion": 1}'])
def test_a_file_that_is_nothing_of_the_kind(tmp_path, content):
    with pytest.raises(InvalidInput, match=Path("run.json").stem):
        read_run_file(write(tmp_path, content))
