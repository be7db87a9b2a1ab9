import json

import jsonschema
import pytest
from msgspec.structs import replace

from evalspec.inputs.manifest.references import References
from evalspec.model import (
    DatasetResult,
    Run,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reports.json_report import render_json, report_json_schema
from evalspec.runs.store.run_redaction import redact_run, withhold_texts
from fingerprints import as_fingerprint
from reporters.sample_retrieval import HOSTILE_QUERY, retrieval_run
from reporters.sample_run import GOLDEN, HOSTILE_ID, HOSTILE_REASON, sample_run
from reporters.small_runs import retrieval_full_of

PASS, FAIL, INCOMPLETE = VerdictStatus.PASS, VerdictStatus.FAIL, VerdictStatus.INCOMPLETE


@pytest.fixture(scope="module")
def schema():
    """A validator of the schema of reports, which is itself checked once."""
    jsonschema.Draft202012Validator.check_schema(report_json_schema())
    return jsonschema.Draft202012Validator(report_json_schema())


def run_with(*outcomes: Threshold) -> Run:
    summary = Summary(value=0.5, scored=1)
    dataset = DatasetResult(name="d", samples=(), metrics={"m": summary}, thresholds=outcomes).with_limits()
    return Run(id="r", verdict=PASS, exit_code=0, datasets=(dataset,))


def outcome(status: VerdictStatus, **limit) -> Threshold:
    return Threshold("m", **limit, status=status, value=0.5, scored=1, expected=1)


def test_golden():
    assert render_json(sample_run()) == (GOLDEN / "report.json").read_text(encoding="utf-8")


def test_it_keeps_its_own_schema_whose_every_key_is_required(schema):
    document = json.loads(render_json(sample_run()))
    schema.validate(document)
    for part in (document, document["datasets"][0], document["datasets"][0]["samples"][0]):
        for key in part:
            assert not schema.is_valid(_without(document, part, key)), key


def _without(document, part, key):
    if document is part:
        return {name: value for name, value in document.items() if name != key}
    if isinstance(document, dict):
        return {name: _without(value, part, key) for name, value in document.items()}
    return [_without(item, part, key) for item in document] if isinstance(document, list) else document


def test_hostile_text_comes_back_whole_and_cannot_steer_a_terminal():
    text = render_json(sample_run())
    sample = json.loads(text)["datasets"][0]["samples"][3]
    assert (sample["id"], sample["scores"]["string_match"]["reason"]) == (HOSTILE_ID, HOSTILE_REASON)
    text.encode()
    assert text.replace("\n", "").isprintable()


def test_a_diagnosed_query_is_a_line():
    lines = render_json(retrieval_run()).splitlines()
    assert [json.loads(line.rstrip(","))["query"] for line in lines if '{"query": ' in line] == [HOSTILE_QUERY, "q-2"]
    assert sum('"neverRetrieved": [' in line for line in lines) == 2


def test_its_schema_knows_all_of_a_retriever(schema):
    document = json.loads(render_json(retrieval_run()))
    schema.validate(document)
    dataset = document["datasets"][0]
    query = dataset["diagnosis"]["queries"][0]
    parts = [dataset["retriever"], dataset["stages"][0], dataset["diagnosis"], query]
    parts += [query["missing"][0], query["pushedOutBy"][0]]
    for part in (*parts, dataset["diagnosis"]["neverRetrieved"][0], dataset["diagnosis"]["alwaysRetrieved"][0]):
        for key in part:
            assert not schema.is_valid(_without(document, part, key)), key


def test_without_texts_the_settings_and_latencies_stay_and_no_document_does():
    run = withhold_texts(retrieval_run(), ())
    kept = run.datasets[0]
    assert (kept.retriever, kept.stages) == (retrieval_run().datasets[0].retriever, retrieval_run().datasets[0].stages)
    assert [dataset.diagnosis for dataset in run.datasets] == [None, None]
    assert kept.samples[0].timings_ms == {"embed": 4.25, "retrieve": 12.0, "rerank": 61.0}
    assert kept.samples[0].oddities == {"duplicates": 2}
    assert "faq-" not in render_json(run)


def test_ten_thousand_samples_are_about_as_many_lines():
    dataset = sample_run().datasets[2]
    many = replace(dataset, samples=dataset.samples * 1_000)
    text = render_json(replace(sample_run(), datasets=(many,)))
    assert text.count("\n") <= 8_210


def test_an_empty_run_is_a_document(schema):
    schema.validate(json.loads(render_json(Run(id="r", verdict=INCOMPLETE, exit_code=3, datasets=()))))


@pytest.mark.parametrize(
    ("outcomes", "threshold", "passed"),
    [
        ((), None, None),
        ((outcome(PASS, min=0.4),), {"min": 0.4}, True),
        ((outcome(PASS, min=0.4), outcome(FAIL, max=0.4)), {"min": 0.4, "max": 0.4}, False),
        ((outcome(PASS, min=0.4), outcome(FAIL, min=0.6)), {"min": 0.6}, False),
        ((outcome(PASS, min=0.4), outcome(INCOMPLETE, max=0.6)), {"min": 0.4, "max": 0.6}, None),
        ((outcome(FAIL, min=0.6, slice="hard"), outcome(FAIL, min=0.6, stat="p95")), None, None),
        ((outcome(FAIL, min=0.6, stat="mean"),), {"min": 0.6}, False),
    ],
)
def test_threshold_and_passed_speak_of_the_whole_dataset(outcomes, threshold, passed):
    dataset = json.loads(render_json(run_with(*outcomes)))["datasets"][0]
    assert (dataset["metrics"]["m"]["threshold"], dataset["metrics"]["m"]["passed"]) == (threshold, passed)
    assert len(dataset["thresholds"]) == len(outcomes)


def test_a_number_that_json_lacks_is_an_error_and_never_null():
    with pytest.raises(ValueError, match="nan is not a finite number"):
        Summary(value=float("nan"), scored=1)
    described = as_fingerprint({"embeddings": {"a": float("inf")}})
    of_other_tools = Run(id="r", verdict=PASS, exit_code=0, datasets=(), fingerprint=described)
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_json(of_other_tools)


def test_a_redacted_run_holds_no_secret_in_any_text(tmp_path):
    secret = 'to"ken\nü'
    references = References(tmp_path, {"T": secret})
    references.resolve("$env:T")

    def tainted(score):
        return replace(score, reason=f"<{secret}>", evidence={"quote": [secret]})

    run = sample_run()
    first = run.datasets[0]
    samples = tuple(
        replace(
            sample,
            error=secret,
            metadata={"key": [secret]},
            scores={metric: tainted(score) for metric, score in sample.scores.items()},
        )
        for sample in first.samples
    )
    outcomes = tuple(replace(outcome, reason=secret) for outcome in first.thresholds)
    run = replace(
        run,
        reasons=(secret,),
        datasets=(replace(first, samples=samples, thresholds=outcomes),),
        notes=(secret,),
        fingerprint=as_fingerprint({"agent": {"url": f"http://x/?t={secret}"}}),
    )
    assert r"to\"ken" in render_json(run)
    redacted = redact_run(run, references.redact_data, references.redaction.is_clean)
    assert "ken" not in render_json(redacted).replace("tokens", "").replace("Tokens", "")
    of_retriever = redact_run(
        retrieval_full_of(secret), references.redact_data, references.redaction.is_clean
    ).datasets[0]
    bare = replace(of_retriever, name="d", samples=(), metrics={})
    assert "ken" not in render_json(replace(redacted, datasets=(bare,))).replace("tokens", "").replace("Tokens", "")
    assert of_retriever.samples[0].timings_ms == {"[redacted:env:T]": 1.0}
    assert of_retriever.samples[0].oddities == {"[redacted:env:T]": 1}
    assert of_retriever.diagnosis == retrieval_full_of("[redacted:env:T]").datasets[0].diagnosis
    asked = redacted.datasets[0].samples[0]
    assert asked.id == "q-1"
    assert asked.scores["string_match"].evidence == {"quote": ["[redacted:env:T]"]}
