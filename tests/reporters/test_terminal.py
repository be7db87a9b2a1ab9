import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from evalspec.model import (
    DatasetResult,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reports.terminal import Amount, render_terminal
from evalspec.reports.view.retriever import list_rerankings
from evalspec.reports.worst import list_worst, plain_summaries
from fingerprints import as_fingerprint
from reporters.sample_retrieval import retrieval_run
from reporters.sample_run import GOLDEN, sample_run
from reporters.small_runs import retrieval_full_of

PASS, FAIL, INCOMPLETE = VerdictStatus.PASS, VerdictStatus.FAIL, VerdictStatus.INCOMPLETE
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def plain(run: Run, width: int = 100) -> str:
    return render_terminal(run, width=width, color=False)


def run_of_value(value: float, *, metric: str = "m", **limit: Any) -> Run:
    outcome = Threshold(metric, **limit, status=FAIL, value=value, scored=1, expected=1, reason="beyond")
    summary = Summary(value=value, scored=1)
    dataset = DatasetResult(name="d", samples=(), metrics={metric: summary}, thresholds=(outcome,)).with_limits()
    return Run(id="r", verdict=FAIL, reasons=("d: beyond",), exit_code=1, datasets=(dataset,))


def test_golden():
    assert plain(sample_run()) == (GOLDEN / "terminal.txt").read_text(encoding="utf-8")


def test_golden_of_a_retriever():
    assert plain(retrieval_run()) == (GOLDEN / "retrieval.txt").read_text(encoding="utf-8")


def test_colour_adds_nothing_but_styles():
    coloured = render_terminal(sample_run(), width=100, color=True)
    lines = [line.rstrip() for line in ANSI.sub("", coloured).split("\n")]
    assert lines == plain(sample_run()).split("\n")
    assert coloured.startswith("\x1b[1;31mFAIL")


@pytest.mark.parametrize("width", [40, 60, 80, 132])
def test_it_keeps_to_the_width_and_drops_no_number(width):
    text = plain(sample_run(), width)
    assert max(map(cell_len, text.split("\n"))) <= width
    for number in ("0.7996", "0.510 – 0.980", "≥ 0.80 ✗", "2,143 ms", "≤ 2,000 ms ✗", "4/5", "≥ 0.80 and ≤ 0.995 ✓"):
        assert number in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_what_a_retriever_adds_keeps_to_the_width_too(width):
    text = plain(retrieval_run(), width)
    assert max(map(cell_len, text.split("\n"))) <= width
    for number in ("0.635", "+0.111", "−0.264 –", "+0.252", "1,234 ms", "1,301 ms"):
        assert number in text


def test_what_reranking_gained_stands_in_its_own_table_and_with_the_limits_only_where_it_has_one():
    dataset = retrieval_run().datasets[0]
    assert list(plain_summaries(dataset)) == ["nDCG@10", "gain.nDCG@10", "Recall@10", "rerank.latency_p95"]
    assert [found.metric for found in list_rerankings(dataset)] == ["nDCG@10", "Recall@10"]
    unranked = replace(dataset, retriever=replace(dataset.retriever, mode="retrieve", rerank_top_k=None))
    assert (plain_summaries(unranked), list_rerankings(unranked)) == (dataset.metrics, [])


def test_one_side_of_reranking_alone_is_told():
    dataset = retrieval_run().datasets[0]
    alone = replace(dataset, metrics={"retrieved.R@5": Summary(value=0.5, scored=3)}, thresholds=())
    shown = plain(replace(retrieval_run(), datasets=(alone,)))
    assert "R@5 0.500 – – – 3/3" in " ".join(shown.split())
    assert "  threshold" not in shown


def test_a_dataset_without_limits_is_not_judged_by_what_reranking_gains():
    dataset = replace(retrieval_run().datasets[0], thresholds=())
    assert {trouble.metric for trouble in list_worst(dataset, None)} <= {None, "nDCG@10", "Recall@10"}


@given(text=st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_no_text_from_elsewhere_steers_the_terminal(text):
    sample = SampleResult(id=text, status=SampleStatus.FAILED, error=text, scores={text: Score.failed(text)})
    outcome = Threshold(text, min=1, slice=text, status=INCOMPLETE, value=None, scored=0, expected=1, reason=text)
    summary = Summary(value=None, scored=0, failed=1)
    dataset = DatasetResult(name=text, samples=(sample,), metrics={text: summary}, thresholds=(outcome,)).with_limits()
    run = Run(
        id=text,
        verdict=INCOMPLETE,
        reasons=(text,),
        exit_code=3,
        datasets=(dataset,),
        notes=(text,),
        fingerprint=as_fingerprint({"agent": {"name": text}}),
    )
    whole = plain(run, 200) + plain(retrieval_full_of(text), 200)
    harmless = whole.replace("\n", "").replace("\u200c", "").replace("\u200d", "")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", harmless)
    harmless.encode()


@pytest.mark.parametrize(
    ("status", "outcomes", "line"),
    [
        (PASS, (PASS, PASS), "PASS  2 of 2 thresholds met"),
        (PASS, (PASS, VerdictStatus.NOT_GATED), "PASS  1 of 2 thresholds met, 1 not measured"),
        (FAIL, (PASS, FAIL, INCOMPLETE), "FAIL  1 of 3 thresholds broken, 1 undecided"),
        (INCOMPLETE, (INCOMPLETE,), "INCOMPLETE  1 of 1 threshold undecided"),
        (FAIL, (PASS, PASS), "FAIL  2 of 2 thresholds met; FAIL because:"),
        (FAIL, (INCOMPLETE,), "FAIL  1 of 1 threshold undecided; FAIL because:"),
        (INCOMPLETE, (), "INCOMPLETE  no thresholds; INCOMPLETE because:"),
        (VerdictStatus.NOT_GATED, (), "NOT GATED  no thresholds"),
    ],
)
def test_the_verdict_stands_first(status, outcomes, line):
    outcomes = tuple(Threshold("m", min=0, status=outcome, value=None, scored=0, expected=0) for outcome in outcomes)
    run = Run(
        id="r",
        verdict=status,
        reasons=("d: why",),
        exit_code=0,
        datasets=(DatasetResult(name="d", samples=(), metrics={}, thresholds=outcomes).with_limits(),),
    )
    shown = plain(run).splitlines()
    assert (shown[0], shown[-1]) == (line, line.partition("; ")[0])
    assert render_terminal(run, width=90, color=False, amount=Amount.BRIEF) == f"{line.partition('; ')[0]}: d: why\n"


def test_a_first_reason_on_one_line_is_cut_to_the_width():
    run = Run(id="r", verdict=FAIL, reasons=("because " * 40,), exit_code=1, datasets=())
    brief = render_terminal(run, width=60, color=False, amount=Amount.BRIEF)
    assert brief.startswith("FAIL  no thresholds: because because") and brief.endswith("…\n") and len(brief) == 61
    narrow = render_terminal(run, width=40, color=False, amount=Amount.BRIEF)
    assert narrow.startswith("FAIL  no thresholds: because")


def test_many_reasons_are_cut_and_the_rest_counted():
    run = Run(id="r", verdict=FAIL, reasons=tuple(f"reason {n}" for n in range(20)), exit_code=1, datasets=())
    assert plain(run).split("\n")[8:] == ["  reason 7", "  … and 12 more", ""]


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (0.7996, {"min": 0.8}, "0.7996  –              ≥ 0.80 ✗"),
        (0.79, {"min": 0.8}, "0.790  –              ≥ 0.80 ✗"),
        (0.050002, {"max": 0.05}, "0.050002  –              ≤ 0.05 ✗"),
        (1234.4, {"max": 1234}, "1,234.4  –              ≤ 1,234 ✗"),
        (0.1, {"min": 0.8125}, "0.100  –              ≥ 0.8125 ✗"),
    ],
)
def test_a_value_beyond_its_limit_looks_beyond_it(value, limit, shown):
    assert shown in plain(run_of_value(value, **limit))


def test_worst_samples_unanswered_first_then_most_metrics_then_furthest_beyond():
    def sample(name: str, *values: float) -> SampleResult:
        scores = {metric: Score.scored(value) for metric, value in zip("abl", values, strict=True)}
        return SampleResult(id=name, status=SampleStatus.ANSWERED, scores=scores)

    unscored = SampleResult(
        id="unscored", status=SampleStatus.ANSWERED, scores={"a": Score.failed("judge"), "free": Score.scored(0)}
    )
    samples = (
        sample("fine", 0.9, 0.9, 100),
        sample("low", 0.3, 0.9, 100),
        sample("lower", 0.1, 0.9, 100),
        sample("slow", 0.9, 0.9, 250),
        sample("two", 0.7, 0.7, 100),
        unscored,
        SampleResult(id="lost", status=SampleStatus.FAILED, error="refused"),
    )
    limits = (Threshold("a", min=0.8), Threshold("b", min=0.8), Threshold("l", max=200))
    dataset = DatasetResult(
        name="d",
        samples=samples,
        metrics={metric: Summary(value=0.5, scored=1) for metric in "abl"},
        thresholds=tuple(replace(limit, status=PASS, value=0.5, scored=1, expected=1) for limit in limits),
    ).with_limits()
    worst = list_worst(dataset, None)
    assert [trouble.id for trouble in worst] == ["lost", "two", "unscored", "lower", "low", "slow"]
    assert [(trouble.metric, len(trouble.others)) for trouble in worst[:3]] == [(None, 0), ("a", 1), ("a", 0)]
    assert list_worst(replace(dataset, samples=samples[:1]), None) == []
