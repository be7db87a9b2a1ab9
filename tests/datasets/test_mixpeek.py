import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_contents import JSON, METADATA, TEXT, samples, there_and_back
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetDefaults, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.formats.mixpeek import compute_overall
from evalspec.model import Document, Sample

FILES = Path(__file__).parent / "files" / "mixpeek"
OWN_INPUT = {"query": "headphones", "brand": "any"}
GOOD_SAMPLES = [
    ("q1", "wireless earbuds", {"d1": 5, "d2": 2, "d9": 0}, {}),
    ("q2", "headphones", {"d3": 1}, {"mixpeek": {"query_input": OWN_INPUT}}),
    ("q3", "a thing that does not exist", {}, {}),
]


@pytest.fixture
def load(load_content):
    return lambda content: load_content(content, "d.json", "mixpeek")


def query(**fields):
    return {"query_id": "q", "query_input": {"text": "What?"}, "relevant_documents": ["a", "b"]} | fields


@pytest.mark.parametrize(("name", "lines"), [("good.json", [7, 13, 14]), ("good.jsonl", [1, 3, 4])])
def test_a_good_file_whole(name, lines):
    loaded = load_dataset(Source(FILES / name, name))
    assert (loaded.problems, loaded.warnings) == ((), ())
    assert [(s.id, s.user_input, s.qrels, s.metadata) for s in loaded.samples] == GOOD_SAMPLES
    assert [sample.line for sample in loaded.samples] == lines
    settings = {"dataset_name": "product-search", "metadata": {"labelled_by": "two people"}}
    assert loaded.content.defaults.settings == (settings if name == "good.json" else {})


def test_a_list_of_queries_is_a_dataset_too(load):
    loaded = load(json.dumps([query(), query(query_id="r")], indent=1))
    assert not loaded.problems
    assert [(sample.id, sample.line) for sample in loaded.samples] == [("q", 2), ("r", 12)]


def test_without_scores_every_relevant_document_has_grade_one(load):
    assert load(json.dumps([query()])).samples[0].qrels == {"a": 1, "b": 1}
    assert load(json.dumps([query(relevance_scores=None)])).samples[0].qrels == {"a": 1, "b": 1}


def test_every_problem_of_a_bad_file_with_its_line():
    loaded = load_dataset(Source(FILES / "bad.json", "bad.json"))
    assert [(problem.line, problem.field) for problem in loaded.problems] == [
        (3, "[0].relevance_scores"),
        (4, "[1].query_id"),
        (7, "[2].query_input"),
        (9, "[2].relevance_scores.d1"),
        (9, "[2].relevance_scores.d2"),
        (10, "[2].relevant_document"),
    ]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"query_id": ""}, "query_id: it is empty"),
        ({"query_id": 7}, "query_id: 7 is not text. put it in quotes"),
        ({"query_input": 3}, "query_input: 3 is not accepted here"),
        ({"query_input": ""}, 'query_input: it has no question. write {"text": "…"}'),
        ({"query_input": {}}, "query_input: it has no question"),
        ({"query_input": {"text": 3}}, "query_input: it has no question"),
        ({"relevant_documents": "a"}, "relevant_documents: 'a' is not accepted here"),
        ({"relevant_documents": ["a", 2]}, "relevant_documents[1]: 2 is not text"),
        ({"relevance_scores": {"a": 3}}, "relevance_scores: no score for b. score every relevant document"),
        ({"relevance_scores": {}}, "relevance_scores: no score for a, b"),
        ({"relevance_scores": {"a": 3, "b": 6}}, "relevance_scores.b: 6 is not accepted here"),
        ({"relevance_scores": {"a": 3, "b": -1}}, "relevance_scores.b: -1 is not accepted here"),
        ({"relevance_scores": {"a": 3, "b": 2.5}}, "relevance_scores.b: 2.5 is not accepted here"),
        ({"relevance_scores": {"a": 3, "b": True}}, "relevance_scores.b: True is not accepted here"),
        ({"relevance_scores": {"a": 3, "b": 0}}, "relevance_scores: relevant, but with score 0: b. remove"),
        ({"relevance_score": {}}, "did you mean 'relevance_scores'?"),
    ],
    ids=str,
)
@pytest.mark.parametrize("lines", [True, False], ids=["jsonl", "json"])
def test_bad_content_is_one_clear_problem(load, fields, part, lines):
    content = json.dumps(query(**fields))
    (problem,) = load("\n" + content if lines else f'{{"queries":\n[{content}]}}').problems
    assert problem.render().startswith("d.json:2: " + ("" if lines else "queries[0]."))
    assert part in problem.render()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "d.json: the file is empty"),
        ("[]", "d.json:1: queries: it is empty"),
        ('{"queries": []}', "d.json:1: queries: it is empty"),
        ('{"dataset_name": "x"}', "d.json:1: queries: this key is required"),
        ('{"queries": {}}', "d.json:1: queries: it is a mapping"),
        ('{"dataset_nam": "x",\n"queries": [3]}', "d.json:1: dataset_nam: unknown key"),
        (f'{{"query_count": 2,\n"queries": [{json.dumps(query())}]}}', "d.json:1: query_count: query_count is 2"),
        ("3", "d.json:1: 3 is not accepted here"),
        ("[NaN]", "d.json:1: NaN is not JSON"),
        (json.dumps(query()) + "\n" + json.dumps(query()), "d.json:2: query_id: query_id 'q' is a duplicate of line 1"),
        (json.dumps(query()) + "\n{", "d.json:2: not valid JSON"),
    ],
)
def test_bad_documents(load, content, message):
    assert load(content).problems[0].render().startswith(message)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"relevant_documents": ["a", "a"]}, "relevant_documents: duplicate ids: a"),
        (
            {"relevance_scores": {"a": 3, "b": 3, "c": 1, "d": 0}},
            "relevance_scores: scored, but not in relevant_documents: c. they count as relevant",
        ),
    ],
)
def test_what_is_doubtful_is_accepted_with_a_warning(load, fields, part):
    loaded = load(json.dumps([query(**fields)]))
    assert not loaded.problems
    (warning,) = loaded.warnings
    assert part in warning.render()


GRADES = st.dictionaries(TEXT, st.integers(0, 5), max_size=4)
PLAIN = samples(id=TEXT, user_input=TEXT, qrels=GRADES)
OWN_INPUTS = st.dictionaries(TEXT.filter(lambda key: key not in ("text", "query")), JSON, min_size=1, max_size=2)
SETTINGS = st.fixed_dictionaries({"dataset_name": TEXT}, optional={"description": TEXT, "metadata": METADATA})


def with_own_input(sample, extras):
    return Sample(
        sample.id,
        sample.user_input,
        qrels=sample.qrels,
        metadata={"mixpeek": {"query_input": {"query": sample.user_input} | extras}},
    )


@given(PLAIN, OWN_INPUTS, SETTINGS)
def test_what_it_can_hold_comes_back_the_same(tmp_path_factory, plain, extras, settings):
    first, *others = plain
    content = DatasetContent([with_own_input(first, extras), *others], None, DatasetDefaults(settings=settings))
    assert DATASETS.find("mixpeek").list_losses(content) == []
    loaded, back = there_and_back(content, "mixpeek", tmp_path_factory.getbasetemp() / "back.json")
    assert (loaded.problems, loaded.warnings) == ((), ())
    assert back == content


A = Sample("q", "What?", qrels={"a": 1})


@pytest.mark.parametrize(
    ("content", "loss"),
    [
        (DatasetContent([Sample("q", "What?")]), "that relevance is unknown"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 6, "b": 2})]), "all grades of a sample"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1, "b": -1})]), "all grades of a sample"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1}, groups=(("a",),))]), "documents are alternatives"),
        (DatasetContent([Sample("q", "What?", qrels={}, references=("x",))]), "the right answers"),
        (DatasetContent([Sample("q", "What?", qrels={}, metadata={"x": 1})]), "metadata that is not Mixpeek's own"),
        (
            DatasetContent([Sample("q", "What?", qrels={}, metadata={"mixpeek": {"query_input": {"text": "Why?"}}})]),
            "metadata that is not Mixpeek's own",
        ),
        (
            DatasetContent([A, Sample("", "What?", qrels={})]),
            "1 of 2 samples, which the format rejects (query_id: it is",
        ),
        (DatasetContent([A], [Document("a", "A")]), "the text of 1 documents"),
        (DatasetContent([A], None, DatasetDefaults(k=(5,))), "the dataset's own cut-offs"),
        (DatasetContent([A], None, DatasetDefaults(thresholds={"RR": (0.5, None)})), "the dataset's own thresholds"),
        (DatasetContent([A], None, DatasetDefaults(settings={"scopePrefix": "x"})), "the setting scopePrefix"),
        (DatasetContent([A], None, DatasetDefaults(settings={"description": 3})), "the setting description"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_loss_is_told_and_the_rest_is_written(tmp_path, content, loss):
    (told,) = DATASETS.find("mixpeek").list_losses(content)
    assert loss in told
    loaded, _ = there_and_back(content, "mixpeek", tmp_path / "lossy.json")
    assert not loaded.problems


def test_a_dataset_without_a_name_gets_the_files(tmp_path):
    _, back = there_and_back(DatasetContent([A]), "mixpeek", tmp_path / "faq.json")
    assert back.defaults.settings == {"dataset_name": "faq"}


@pytest.mark.parametrize(
    ("precision", "recall", "f1", "f2"),
    [(0.90, 0.18, 0.30, 0.21), (0.85, 0.72, 0.78, 0.74), (0.75, 0.88, 0.81, 0.85), (0.62, 0.95, 0.75, 0.86)],
)
def test_f_values_of_the_guides_example_response(precision, recall, f1, f2):
    """The four rows of `metrics_by_k`, rounded as there."""
    assert round(compute_overall(precision, recall, 1), 2) == f1
    assert round(compute_overall(precision, recall, 2), 2) == f2
    assert compute_overall(0.0, 0.0, 2) == 0
