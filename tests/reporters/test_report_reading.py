"""A report comes back as the run that it was made of, or says in one line why not."""

import contextlib
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.model import (
    AlwaysRetrieved,
    Attempt,
    Cause,
    DatasetResult,
    Diagnosis,
    Distractor,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RetrieverSettings,
    Run,
    SampleResult,
    SampleStatus,
    StageLatency,
    VerdictStatus,
)
from evalspec.model.fingerprints import RetrieverMode
from evalspec.model.report_reading import build_run, parse_report, read_report
from evalspec.reports.json_report import render_json
from evalspec.verdict.comparison.baseline import Baseline, build_baseline, render_baseline
from reporters.sample_retrieval import retrieval_run
from reporters.sample_run import sample_run


@pytest.mark.parametrize(
    "run",
    [
        sample_run(),
        retrieval_run(),
        Run(id="r", verdict=VerdictStatus.INCOMPLETE, exit_code=3, datasets=(), has_texts=False),
    ],
)
def test_all_of_a_run_comes_back(run):
    assert parse_report(render_json(run)) == run


TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
TEXT_LISTS = st.lists(TEXTS, max_size=3).map(tuple)
COUNTS, NUMBERS = st.integers(0, 2**40), st.floats(-1e100, 1e100)
MAYBE_COUNTS = st.none() | COUNTS


def some(kind, *fields, **named):
    return st.lists(st.builds(kind, *fields, **named), max_size=3).map(tuple)


DIAGNOSES = st.builds(
    Diagnosis,
    COUNTS,
    COUNTS,
    COUNTS,
    TEXT_LISTS,
    some(
        QueryDiagnosis,
        TEXTS,
        COUNTS,
        COUNTS,
        some(MissingDocument, TEXTS, COUNTS, MAYBE_COUNTS, TEXT_LISTS),
        some(Distractor, TEXTS, COUNTS, MAYBE_COUNTS),
    ),
    some(NeverRetrieved, TEXTS, TEXT_LISTS, MAYBE_COUNTS, NUMBERS),
    some(AlwaysRetrieved, TEXTS, NUMBERS, COUNTS),
)
SETTINGS = st.builds(
    RetrieverSettings,
    TEXTS,
    st.sampled_from(RetrieverMode),
    COUNTS,
    MAYBE_COUNTS,
    TEXTS,
    COUNTS,
    COUNTS,
    st.dictionaries(TEXTS, TEXTS),
)


@given(
    settings=st.none() | SETTINGS,
    stages=some(StageLatency, TEXTS, COUNTS, NUMBERS, NUMBERS, NUMBERS),
    diagnosis=st.none() | DIAGNOSES,
    timings=st.dictionaries(TEXTS, NUMBERS),
    oddities=st.dictionaries(TEXTS, COUNTS),
)
def test_whatever_is_known_of_asking_a_retriever_comes_back(settings, stages, diagnosis, timings, oddities):
    asked = Attempt(SampleStatus.ANSWERED, timings_ms=timings, oddities=oddities)
    sample = SampleResult(
        id="s", status=SampleStatus.ANSWERED, timings_ms=timings, oddities=oddities, attempts=(asked, asked)
    )
    dataset = DatasetResult(
        name="d", samples=(sample,), metrics={}, thresholds=(), retriever=settings, stages=stages, diagnosis=diagnosis
    )
    run = Run(id="r", verdict=VerdictStatus.PASS, exit_code=0, datasets=(dataset,))
    assert parse_report(render_json(run)) == run


def test_a_report_from_before_retrievers_is_read():
    document = json.loads(render_json(retrieval_run()))
    for dataset in document["datasets"]:
        for key in ("retriever", "stages", "diagnosis"):
            del dataset[key]
        for asking in [part for sample in dataset["samples"] for part in (sample, *sample["attempts"])]:
            del asking["timingsMs"], asking["oddities"]
    for dataset in parse_report(json.dumps(document)).datasets:
        assert (dataset.retriever, dataset.stages, dataset.diagnosis) == (None, (), None)
        assert all(not sample.timings_ms and not sample.oddities for sample in dataset.samples)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["retriever", "topK"], "10", 'retriever.topK: expected a whole number, not "10"'),
        (["retriever", "origins"], {"topK": 1}, "retriever.origins.topK: expected text, not 1"),
        (["stages", 2, "p95"], None, "stages[2].p95: expected a number, not null"),
        (["samples", 0, "timingsMs", "embed"], True, "samples[0].timingsMs.embed: expected a number, not true"),
        (
            ["diagnosis", "queries", 0, "missing", 1, "grade"],
            None,
            "diagnosis.queries[0].missing[1].grade: expected a whole",
        ),
        (["diagnosis", "queries", 0, "pushedOutBy", 0], [], "diagnosis.queries[0].pushedOutBy[0]: expected an object"),
        (["diagnosis", "neverRetrieved", 0, "bestRank"], KeyError, "diagnosis.neverRetrieved[0].bestRank: is missing"),
    ],
)
def test_what_is_malformed_about_a_retriever_is_told_with_its_place(path, value, said):
    document = json.loads(render_json(retrieval_run()))
    change(document["datasets"][0], path, value)
    with pytest.raises(InvalidInput) as caught:
        parse_report(json.dumps(document), "report.json")
    assert f"report.json: datasets[0].{said}" in str(caught.value)


def test_keys_of_a_later_release_are_passed_over_and_those_of_an_earlier_are_not_missed():
    document = json.loads(render_json(sample_run()))
    before = parse_report(json.dumps(document))
    document["later"] = document["datasets"][0]["later"] = document["datasets"][0]["samples"][0]["later"] = {"x": 1}
    assert parse_report(json.dumps(document)) == before
    for key in ("hasTexts", "regressions", "notes", "judgeUsage", "fingerprint"):
        document.pop(key)
    for dataset in document["datasets"]:
        for key in ("file", "repeats", "slices"):
            dataset.pop(key)
        for sample in dataset["samples"]:
            for key in ("line", "passRate", "attempts"):
                sample.pop(key)
            for score in sample["scores"].values():
                score.pop("cause")
        for counted in (*dataset["metrics"].values(), *dataset["thresholds"]):
            counted.pop("notApplicableCauses")
        for threshold in dataset["thresholds"]:
            threshold.pop("notApplicable")
    old = parse_report(json.dumps(document))
    assert [len(dataset.samples) for dataset in old.datasets] == [len(dataset.samples) for dataset in before.datasets]
    assert old.has_texts
    first = old.datasets[0]
    assert first.metrics["Recall@5"].not_applicable_causes == {Cause.OTHER: 1}, "no cause is known"
    assert first.thresholds[0].not_applicable_causes == {}
    assert first.samples[4].scores["Recall@5"].cause is Cause.OTHER


def change(document, path, value):
    *steps, last = path
    for step in steps:
        document = document[step]
    if value is KeyError:
        del document[last]
    else:
        document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["schemaVersion"], 2, "report.json: schemaVersion: version 2 is from a later release"),
        (["schemaVersion"], "1", 'schemaVersion: "1" is not a version'),
        (["verdict"], "MAYBE", "report.json: verdict: Invalid enum value 'MAYBE'"),
        (["runId"], KeyError, "runId: is missing"),
        (["datasets"], {}, "datasets: expected a list, not {}"),
        (["datasets", 0, "samples", 2, "id"], 7, "datasets[0].samples[2].id: expected text, not 7"),
        (["datasets", 0, "samples", 1], [], "datasets[0].samples[1]: expected an object, not []"),
        (
            ["datasets", 0, "samples", 0, "scores", "string_match", "value"],
            None,
            "datasets[0].samples[0].scores.string_match: a score of status scored cannot have the value None",
        ),
        (
            ["datasets", 0, "samples", 0, "scores", "string_match", "value"],
            True,
            "datasets[0].samples[0].scores.string_match.value: expected a number, not true",
        ),
        (
            ["datasets", 0, "samples", 0, "scores", "string_match", "status"],
            "great",
            "scores.string_match.status: Invalid enum value 'great'",
        ),
        (["datasets", 0, "metrics", "Recall@5", "scored"], 1.5, "metrics.Recall@5.scored: expected a whole number"),
        (
            ["datasets", 0, "metrics", "Recall@5", "interval"],
            [1],
            "metrics.Recall@5.interval: Expected `array` of length 2, got 1",
        ),
        (
            ["datasets", 0, "samples", 4, "scores", "Recall@5", "cause"],
            "weather",
            "samples[4].scores.Recall@5.cause: Invalid enum value 'weather'",
        ),
        (
            ["datasets", 0, "metrics", "Recall@5", "notApplicableCauses"],
            {"weather": 1},
            "metrics.Recall@5.notApplicableCauses: its key 'weather': Invalid enum value 'weather'",
        ),
        (["datasets", 3, "repeats", "passAt"], {"1": 1, "x": 1}, "repeats.passAt: its key 'x': Expected `int`"),
        (["datasets", 3, "repeats", "passAt"], {"9" * 5000: 1}, "Integer value out of range"),
    ],
)
def test_what_is_malformed_is_told_in_one_line_with_its_place(path, value, said):
    document = json.loads(render_json(sample_run()))
    change(document, path, value)
    with pytest.raises(InvalidInput) as caught:
        parse_report(json.dumps(document), "report.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("report.json: ")
    assert "\n" not in str(caught.value)


HOSTILE = [None, True, -1, 1e99, 10**30, "", "\ud800", "x - at `$.a[0]`", [], [None], {"": None}, {"\ud800": 1}]


def places_in(value, place=()):
    """The places of all values within a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*place, key)
        yield from places_in(child, (*place, key))


REPORT = json.loads(render_json(sample_run()))
BASELINE = json.loads(render_baseline(Baseline(sample_run())))


@pytest.mark.parametrize(
    ("document", "build"), [(REPORT, build_run), (BASELINE, build_baseline)], ids=["report", "baseline"]
)
@given(data=st.data())
def test_whatever_is_changed_it_is_read_or_refused(document, build, data):
    changed = copy.deepcopy(document)
    change(
        changed, data.draw(st.sampled_from(list(places_in(document)))), data.draw(st.sampled_from([KeyError, *HOSTILE]))
    )
    with contextlib.suppress(InvalidInput):
        build(changed, "file.json")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["verdict"], "M - at `$.datasets[...].x`", "verdict: Invalid enum value 'M - at `$.datasets[...].x`'"),
        (["datasets", 0, "samples", 0, "status"], "x - at `$.a[0]`", "datasets[0].samples[0].status: Invalid enum"),
        (["verdict"], "\ud800", "a key contains a lone surrogate"),
        (["\ud800"], 1, "a key contains a lone surrogate"),
        (
            ["datasets", 0, "metrics", "Recall@5", "notApplicableCauses"],
            {"w - at `key` in `$.x`": 1},
            "datasets[0].metrics.Recall@5.notApplicableCauses: its key 'w - at `key`",
        ),
    ],
)
def test_a_value_that_looks_like_the_decoder_s_own_words(path, value, said):
    document = copy.deepcopy(REPORT)
    change(document, path, value)
    with pytest.raises(InvalidInput) as caught:
        parse_report(json.dumps(document), "report.json")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON at column 1"),
        (b'{"runId": "r",\n', "report.json:2: not valid JSON"),
        (b"[]", "expected a JSON object"),
        (b'{"schemaVersion": NaN}', "NaN is not JSON"),
        (b'{"schemaVersion": 1, "fingerprint": {"a": 1e999}}', "1e999 is too large for a number"),
        (b'{"a": "\xff"}', "not UTF-8 text"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_json(tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"report\.json") as caught:
        read_report(tmp_path / "report.json")
    assert said in str(caught.value)


def test_a_number_beyond_all_numbers():
    text = render_json(sample_run()).replace('"value": 0.4988', '"value": 1e308')
    with pytest.raises(InvalidInput, match=r"thresholds\[2\]\.value: Expected `float` <= 1e\+100"):
        parse_report(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_report(tmp_path / "report.json")
