"""The SARIF report against the part of the standard that it uses, and what code scanning makes of it."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import ComparedWith, RegressionOutcome, Run, SampleStatus
from evalspec.reports import sarif
from evalspec.reports.sarif import render_sarif
from evalspec.verdict.gate import compute_verdict
from fingerprints import as_fingerprint
from reporters.sample_run import sample_run
from reporters.small_runs import FAIL, INCOMPLETE, NOT_GATED, PASS, run_full_of, run_of

SCHEMA = jsonschema.Draft202012Validator(json.loads(Path(__file__).with_name("sarif.schema.json").read_text()))


def parsed(run: Run) -> dict:
    document = json.loads(render_sarif(run))
    SCHEMA.validate(document)
    (only,) = document["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in only["results"])
    return only


def place(result: dict) -> tuple[str, int | None]:
    location = result["locations"][0]["physicalLocation"]
    return unquote(location["artifactLocation"]["uri"]), location.get("region", {}).get("startLine")


def found(run: Run) -> list[tuple[str, str, str, int | None]]:
    return [(result["level"], result["ruleId"], *place(result)) for result in parsed(run)["results"]]


def test_findings_stand_at_the_line_of_their_sample_the_gravest_first():
    results = found(sample_run())
    assert results[:6] == [
        ("error", "string_match", "evals/rag.jsonl", None),
        ("error", "Recall@5", "evals/rag.jsonl", None),
        ("error", "latency_p95", "evals/rag.jsonl", None),
        ("error", "string_match", "evals/rag.jsonl", None),
        ("error", "new_failures", "evals/rag.jsonl", None),
        ("error", "Recall@5", "evals/rag.jsonl", 5),
    ]
    assert ("warning", "no_reply", "evals/rag.jsonl", 7) in results
    assert ("warning", "context_recall", "evals/rag.jsonl", 3) in results
    assert ("warning", "no_reply", "evals/support chat.jsonl", 4) in results
    assert results.count(("warning", "verdict", "evals/rag.jsonl", None)) == 1, "its maxErrorRate"
    assert not [result for result in results if result[2].startswith("evals/précision")], "that gate passes"
    levels = [level for level, *_ in results]
    assert levels == sorted(levels, key=["error", "warning"].index)


def test_a_run_that_exits_with_0_has_notes_only():
    for verdict in (PASS, NOT_GATED):
        levels = {level for level, *_ in found(run_of(0.1, status=FAIL, gated=verdict, min=0.5))}
        assert levels == {"note"}
    assert found(run_of(0.1, 0.9, status=PASS, min=0.5)) == []


def gated(run: Run, *regressions: RegressionOutcome, **gate) -> Run:
    """The run with the verdict of a gate."""
    found = compute_verdict(run.datasets, CiGate(**gate), partial=False, regressions=regressions)
    code = {FAIL: 1, INCOMPLETE: 3}.get(found.status, 0)
    return replace(run, verdict=found.status, reasons=found.reasons, exit_code=code, regressions=regressions)


def with_samples(run: Run, **changes) -> Run:
    """The run with a change of its first sample."""
    (dataset,) = run.datasets
    first = replace(dataset.samples[0], **changes)
    return replace(run, datasets=(replace(dataset, samples=(first, *dataset.samples[1:])),))


RUN = run_of(0.9, 0.9, status=PASS, min=0.5)
SLOW = RegressionOutcome("d", "m", INCOMPLETE, reason="too few pairs")
CAUSES = {
    "minPassRate": (
        gated(with_samples(RUN, pass_rate=0.5), minPassRate=0.8),
        [("error", "verdict", "d: 1 sample (s-0 (0.5)) below"), ("warning", "verdict", "d: 1 sample (s-1) with undec")],
    ),
    "maxErrorRate": (
        gated(with_samples(run_of(0.1, 0.1, min=0.5), status=SampleStatus.FAILED, scores={}), maxErrorRate=0.1),
        [
            ("error", "m", "m ≥ 0.50"),
            ("error", "m", "0.100 is below"),
            ("warning", "verdict", "d: 1 of 2 samples have no usable reply, maxErrorRate is 0.1"),
            ("warning", "no_reply", "no usable reply"),
        ],
    ),
    "nothing checked": (
        gated(run_of(0.9, status=NOT_GATED, min=0.5)),
        [("warning", "verdict", "no threshold could be checked"), ("warning", "verdict", "d: m: why")],
    ),
    "no baseline": (
        gated(RUN, RegressionOutcome("", None, INCOMPLETE, reason="there is no baseline", of_baseline=True)),
        [("warning", "baseline", "there is no baseline")],
    ),
    "baseline and anchor": (
        gated(
            RUN,
            SLOW,
            replace(SLOW, against=ComparedWith.ANCHOR),
            RegressionOutcome("d", None, FAIL, reason="3 new failures"),
        ),
        [
            ("error", "new_failures", "3 new failures"),
            ("warning", "m", "m against the baseline: too few pairs"),
            ("warning", "m", "m against the anchor: too few pairs"),
        ],
    ),
    "ended": (
        replace(RUN, verdict=INCOMPLETE, exit_code=3, reasons=("the run was ended",)),
        [("warning", "verdict", "evalspec: verdict: the run was ended")],
    ),
}


@pytest.mark.parametrize(("run", "wanted"), CAUSES.values(), ids=CAUSES)
def test_every_reason_of_a_verdict_has_one_result_with_a_location(run, wanted):
    results = parsed(run)["results"]
    said = [(one["level"], one["ruleId"], one["message"]["text"]) for one in results]
    assert len(said) == len(wanted), said
    for (level, rule, text), (its_level, its_rule, its_text) in zip(wanted, said, strict=True):
        assert (level, rule) == (its_level, its_rule)
        assert text.removeprefix("d: ") in its_text
    assert {place(one)[0] for one in results} <= {"d.jsonl", "agent.yaml"}
    fingerprints = {one["partialFingerprints"]["evalspecFinding/v1"] for one in results}
    assert len(fingerprints) == len(results)


def test_fingerprints_of_reasons_survive_other_numbers_and_samples():
    prints = []
    for reason in ("d: 3 samples (a, b, …) below minPassRate 0.8", "d: 1 sample (z) below minPassRate 0.75"):
        (only,) = parsed(replace(RUN, verdict=FAIL, exit_code=1, reasons=(reason,)))["results"]
        prints.append(only["partialFingerprints"])
    assert prints[0] == prints[1]


def test_what_is_about_the_whole_run_is_at_its_manifest():
    run = replace(CAUSES["ended"][0], fingerprint=as_fingerprint({"manifest": {"path": "eval/a b.yaml"}}))
    assert [place(one) for one in parsed(run)["results"]] == [("eval/a b.yaml", None)]


def test_fingerprints_tell_findings_apart_and_survive_new_values_and_lines():
    run = sample_run()
    fingerprints = [result["partialFingerprints"]["evalspecFinding/v1"] for result in parsed(run)["results"]]
    assert len(set(fingerprints)) == len(fingerprints)
    first = run.datasets[0]
    moved = replace(first, samples=tuple(replace(sample, line=sample.line + 9) for sample in first.samples))
    again = parsed(replace(run, id="another", datasets=(moved, *run.datasets[1:])))["results"]
    assert [result["partialFingerprints"]["evalspecFinding/v1"] for result in again] == fingerprints


def test_only_where_there_is_no_line_do_we_give_what_the_upload_action_computes_from_it():
    for result in parsed(sample_run())["results"]:
        assert ("primaryLocationLineHash" in result["partialFingerprints"]) == (place(result)[1] is None)


def test_paths_are_uris():
    run = run_of(0.1, min=0.5)
    (dataset,) = run.datasets
    uris = {}
    for file in ("evals/a b#1 [é].jsonl", "/data/d é.jsonl"):
        result = parsed(replace(run, datasets=(replace(dataset, file=file),)))["results"][0]
        uris[file] = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert [*uris.values()] == ["evals/a%20b%231%20%5B%C3%A9%5D.jsonl", "file:///data/d%20%C3%A9.jsonl"]


def test_more_than_github_takes_is_left_out_and_told(monkeypatch):
    assert sarif._MOST_RESULTS == 25_000
    monkeypatch.setattr(sarif, "_MOST_RESULTS", 50)
    only = parsed(run_of(*[0.1] * 60, min=0.5))
    assert len(only["results"]) == 50
    notes = only["invocations"][0]["toolExecutionNotifications"]
    assert notes[-1]["message"]["text"] == "11 more results were omitted"


def test_the_invocation_says_how_the_run_ended():
    (invocation,) = parsed(sample_run())["invocations"]
    assert (invocation["exitCode"], invocation["exitCodeDescription"]) == (1, "FAIL (PARTIAL)")
    assert invocation["executionSuccessful"] is True
    assert parsed(replace(sample_run(), exit_code=3))["invocations"][0]["executionSuccessful"] is False
    assert parsed(sample_run())["automationDetails"]["id"] == "evalspec/support-bot/20261121T061500Z-0a1b2c3d"


@given(text=st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30))
def test_any_text_gives_a_document_in_utf_8(text):
    run = replace(run_full_of(text), id="r")
    parsed(run)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", render_sarif(run))
