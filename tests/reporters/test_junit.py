"""The JUnit report: read back by junitparser, and held against a schema of what its readers agree on."""

import json
import re
from collections import Counter
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from msgspec.structs import replace

from evalspec.model import Run
from evalspec.reports.junit import render_junit
from reporters.sample_run import HOSTILE_ID, HOSTILE_REASON, sample_run
from reporters.small_runs import FAIL, INCOMPLETE, NOT_GATED, PASS, run_full_of, run_of

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))
COUNTED = {"failures": Failure, "errors": Error, "skipped": Skipped}


def parsed(run: Run) -> JUnitXml:
    content = render_junit(run)
    SCHEMA.validate(BytesIO(content))
    return JUnitXml.fromstring(content)


def red_cases(run: Run) -> list[tuple[str, str, type]]:
    return [
        (case.classname, case.name, type(result))
        for suite in parsed(run)
        for case in suite
        for result in case.result
        if not isinstance(result, Skipped)
    ]


def lines_of(run: Run, suite: str) -> list[int | None]:
    """The lines of the cases of a suite, which junitparser does not read."""
    found = next(child for child in ElementTree.fromstring(render_junit(run)) if child.get("name") == suite)
    return [int(case.get("line")) if case.get("line") else None for case in found.iter("testcase")]


def test_counts_say_what_is_there():
    report = parsed(sample_run())
    for suite in report:
        kinds = Counter(type(result) for case in suite for result in case.result)
        assert suite.tests == len(list(suite))
        assert {name: getattr(suite, name) for name in COUNTED} == {name: kinds[k] for name, k in COUNTED.items()}
    totals = ElementTree.fromstring(render_junit(sample_run())).attrib
    for name in ("tests", "failures", "errors"):
        assert int(totals[name]) == sum(getattr(suite, name) for suite in report)


def test_each_sample_and_metric_is_a_case_at_its_line_and_latency_counts_once():
    run = sample_run()
    for dataset, suite in zip(run.datasets, parsed(run), strict=False):
        cases = [(sample, metric) for sample in dataset.samples for metric in sample.scores]
        assert [case.classname for case in suite] == [f"{dataset.name}.{metric}" for _, metric in cases]
        assert lines_of(run, dataset.name) == [sample.line for sample, _ in cases]
        latencies = [sample.latency_ms for sample in dataset.samples if sample.latency_ms]
        assert sum(case.time or 0 for case in suite) == pytest.approx(sum(latencies) / 1000, abs=0.001 * len(latencies))


def test_every_limit_and_regression_is_a_case_of_the_gate():
    run = sample_run()
    *_, gate = parsed(run)
    assert gate.name == "gate"
    assert {p.name: p.value for p in gate.properties()}["verdict"] == "FAIL"
    names = [case.name for case in gate]
    assert len(names) == 1 + sum(len(dataset.thresholds) for dataset in run.datasets) + len(run.regressions)
    assert {"Recall@5 [advanced] ≥ 0.90", "string_match min ≥ 0.25", "string_match against the baseline"} <= set(names)
    outcome_of = {name: [type(result) for result in case.result] for name, case in zip(names, gate, strict=True)}
    assert outcome_of["string_match ≥ 0.80"] == [Failure]
    assert outcome_of["context_recall ≥ 0.75"] == [Error]
    assert outcome_of["faithfulness ≥ 0.80"] == [Skipped]
    assert outcome_of["string_match min ≥ 0.25"] == []


@pytest.mark.parametrize("verdict", [PASS, NOT_GATED])
def test_a_run_that_exits_with_0_is_not_red(verdict):
    run = replace(sample_run(), exit_code=0, verdict=verdict)
    assert red_cases(run) == []
    assert "tolerated, the verdict is" in render_junit(run).decode()


@pytest.mark.parametrize("verdict", [FAIL, INCOMPLETE, NOT_GATED])
def test_a_run_that_exits_otherwise_is_red_even_if_no_sample_and_no_limit_is(verdict):
    run = replace(run_of(0.9, status=PASS, gated=verdict, min=0.5), exit_code=3)
    assert [(classname, name) for classname, name, _ in red_cases(run)] == [("gate", "verdict")]


def test_only_a_broken_limit_makes_failures_of_the_scores_beyond_it():
    assert red_cases(run_of(0.1, 0.9, status=PASS, gated=FAIL, min=0.5)) == [("gate", "verdict", Failure)]
    assert ("d.m", "s-0", Failure) in red_cases(run_of(0.1, 0.4, 0.5, status=FAIL, min=0.5))
    assert ("d.m", "s-2", Failure) not in red_cases(run_of(0.1, 0.4, 0.5, status=FAIL, min=0.5))
    assert ("d.m", "s-1", Failure) in red_cases(run_of(0.1, 0.4, status=FAIL, min=0.5))
    only_first = red_cases(run_of(0.1, 0.4, status=FAIL, min=0.5, slice="first"))
    assert [name for classname, name, _ in only_first if classname == "d.m"] == ["s-0"]


def test_a_value_a_rounding_error_beyond_the_limit_is_within_it():
    assert ("d.m", "s-0", Failure) not in red_cases(run_of(0.1 + 0.7, 0.1, status=FAIL, min=0.8 + 1e-12))


def test_what_xml_cannot_hold_is_shown():
    content = render_junit(sample_run()).decode()
    assert "\\x1b[2Jq&#10;7" in content
    assert "\\ud800 half a pair" in content
    assert HOSTILE_ID not in content
    assert HOSTILE_REASON not in content


@given(text=st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30))
def test_no_text_breaks_the_document_or_its_counts(text):
    report = parsed(run_full_of(text))
    assert [suite.tests for suite in report] == [3, 4]


def test_a_sample_without_an_id_is_named_by_its_question_and_the_form_may_stand_before_the_path(project, agent):
    project.api = {"url": agent.url}
    project.dataset("qa", [{}, {"input": "A question " * 20}, {"id": "given"}], metrics=["string_match"])
    assert project.evaluate("-o", "junit:out.xml", "-o", "json:same.txt").code == 0
    names = [case.name for case in next(iter(JUnitXml.fromstring((project.folder / "out.xml").read_bytes())))]
    assert re.fullmatch(r"Capital of France\? \[[0-9a-f]{12}\]", names[0])
    assert re.fullmatch(r"(A question )+.*… \[[0-9a-f]{12}\]", names[1]) and len(names[1]) == 95
    assert names[2] == "given"
    assert json.loads((project.folder / "same.txt").read_bytes())["verdict"] == "NOT_GATED"
    wrong = project("report", "-o", "junt:x.xml")
    assert (wrong.code, "write the format before it, as in junit:" in wrong.err) == (2, True)
