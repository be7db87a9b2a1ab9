"""A comparison as people and pipelines read it."""

import json

import pytest

from comparison.sample_comparison import GOLDEN, SAMPLES_SHOWN, golden_reports, sample_comparison, with_texts
from comparison.small_runs import make_dataset, make_sample, run_of
from evalspec.base.errors import ExitCode
from evalspec.reports.json_report import render_comparison_json
from evalspec.reports.markdown import MOST_BYTES, render_view_markdown
from evalspec.reports.terminal import render_view_terminal
from evalspec.reports.view.comparison import build_comparison_view
from evalspec.verdict.comparison.compare_runs import compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.validity.changes import SignificanceRules


@pytest.mark.parametrize("name", ["comparison.txt", "comparison.md", "candidates.txt", "candidates.md"])
def test_golden(name):
    assert golden_reports()[name] == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("candidates", [1, 2])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_terminal_report_keeps_to_its_width_and_its_names_whole(width, candidates):
    found = sample_comparison(candidates)
    view = build_comparison_view(with_texts(found), SAMPLES_SHOWN)
    text = render_view_terminal(view, width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
    if width >= 80:
        for name in ("hallucination ", "latency_p95 ", "easy ", "bm25+rerank ", "▼ degraded", "undecided"):
            assert name in text


def test_colours_are_those_of_the_verdict():
    view = build_comparison_view(sample_comparison(), 0)
    assert "\x1b[31m" in render_view_terminal(view, width=120, color=True)


def test_the_document_has_all_changes_on_a_line_each():
    found = sample_comparison()
    text = render_comparison_json(with_texts(found), ExitCode.OK)
    document = json.loads(text)
    (dataset,) = document["candidates"][0]["datasets"]
    changed = sum(count for kind, count in dataset["sampleCounts"].items() if kind != "unchanged")
    assert len(dataset["samples"]) == changed
    assert sum(line.strip().startswith('{"id"') for line in text.splitlines()) == changed
    assert text.replace("\n", "").isprintable()


def test_a_comment_has_room_for_a_part_of_ten_thousand_changes():
    def run(value):
        samples = [make_sample(f"{'very-' * 30}{n}", {"a": value, "b": value}) for n in range(2000)]
        return run_of(make_dataset(samples))

    found = compare_runs(NamedRun("a", run(0.0)), [NamedRun("b", run(1.0))], SignificanceRules(resamples=200))
    text = render_view_markdown(build_comparison_view(found, 2000))
    assert len(text.encode()) <= MOST_BYTES
    assert "**Left out**" in text
    assert "| `a` | 0.000 | 1.000 | +1.000 |" in text
