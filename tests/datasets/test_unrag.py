import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dataset_contents import JSON, METADATA, WORDS, samples, there_and_back
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetDefaults, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Document, Sample

FILES = Path(__file__).parent / "files" / "unrag"
HEAD = {"version": "1", "id": "s", "defaults": {"scopePrefix": "eval:s:"}}
QUERY = {"id": "q", "query": "What?", "relevant": {"sourceIds": ["a"]}}


@pytest.fixture
def load(load_content):
    return lambda content: load_content(
        content if isinstance(content, bytes) else json.dumps(content), "d.json", "unrag"
    )


def changed(**fields):
    """The smallest good dataset with dotted keys set, or removed where the value is `...`."""
    dataset = copy.deepcopy(HEAD | {"documents": [{"sourceId": "a", "content": "A"}], "queries": [QUERY]})
    for key, value in fields.items():
        *way, last = [int(step) if step.isdigit() else step for step in key.split("__")]
        part: Any = dataset
        for step in way:
            part = part[step]
        if value is ...:
            del part[last]
        else:
            part[last] = value
    return dataset


def test_a_good_file_whole():
    loaded = load_dataset(Source(FILES / "good.json", "good.json"))
    assert not loaded.problems
    assert [warning.line for warning in loaded.warnings] == [24]
    first, second, third = loaded.samples
    assert (first.id, first.user_input, first.line) == ("q1", "How long does a refund take?", 17)
    assert (first.qrels, first.metadata) == ({"eval:support:refund": 1}, {})
    assert second.qrels == {"eval:support:plans": 1, "eval:support:refund": 1}
    assert second.metadata == {
        "unrag": {
            "notes": "Needs both pages.",
            "topK": 3,
            "scopePrefix": "eval:support:plans",
            "rerankTopK": 9,
            "relevant": ["eval:support:plans", "eval:support:refund", "eval:support:plans"],
        }
    }
    assert third.qrels == {}, "a query that nothing answers is judged, not unjudged"
    assert loaded.content.documents == [
        Document("eval:support:refund", "Refunds take 14 days.", metadata={"lang": "en", "pages": [1, 2]}),
        Document(
            "eval:support:plans", metadata={"unrag": {"loaderRef": "notion:plans", "assets": [{"kind": "image"}]}}
        ),
    ]
    assert loaded.content.defaults == DatasetDefaults(
        k=(5,),
        thresholds={
            "Success@5": (0.9, None),
            "Recall@5": (0.75, None),
            "RR@5": (0.5, None),
            "latency_p95": (None, 800.0),
        },
        settings={
            "id": "support",
            "description": "Questions of new customers",
            "scopePrefix": "eval:support:",
            "mode": "retrieve+rerank",
            "rerankTopK": 20,
        },
    )


def test_without_a_cut_off_limits_are_at_unrags_ten(load):
    loaded = load(changed(defaults__thresholds={"min": {"recallAtK": 1}}))
    assert (loaded.content.defaults.k, loaded.content.defaults.thresholds) == ((), {"Recall@10": (1.0, None)})


def test_every_problem_of_a_bad_file_with_its_line():
    loaded = load_dataset(Source(FILES / "bad.json", "bad.json"))
    assert [(problem.line, problem.field) for problem in loaded.problems] == [
        (2, "version"),
        (6, "defaults.topK"),
        (8, "defaults.thresholds.min.precisionAtK"),
        (13, "documents[1].sourceId"),
        (14, "documents[2]"),
        (17, "queries[0].relevant.sourceIds[0]"),
        (18, "queries[0].relevant.sourceIds[2]"),
        (19, "queries[1].id"),
        (20, "queries[2].query"),
        (20, "queries[2].topk"),
    ]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"version": 1}, 'version: 1 is not one of the accepted values. write "1"'),
        ({"version": ...}, "version: this key is required"),
        ({"id": " "}, "id: it is blank"),
        ({"description": None}, "description: null is not accepted here"),
        ({"tags": []}, "tags: unknown key 'tags'"),
        ({"querys": []}, "did you mean 'queries'?"),
        ({"defaults": ...}, "defaults: this key is required"),
        ({"defaults__scopePrefix": ...}, "defaults.scopePrefix: this key is required"),
        ({"defaults__scope_prefix": "x"}, "did you mean 'scopePrefix'?"),
        ({"defaults__topK": 0}, "defaults.topK: 0 is not accepted here"),
        ({"defaults__topK": -3}, "defaults.topK: -3 is not accepted here"),
        ({"defaults__topK": 2.5}, "defaults.topK: 2.5 is not accepted here"),
        ({"defaults__topK": True}, "defaults.topK: True is not accepted here"),
        ({"defaults__mode": "rerank"}, "defaults.mode: 'rerank' is not one of"),
        ({"defaults__rerankTopK": "9"}, "defaults.rerankTopK: '9' is text. remove the quotes"),
        ({"defaults__thresholds": {"min": 0.5}}, "defaults.thresholds.min: 0.5 is not accepted here"),
        ({"defaults__thresholds": {"min": {"recallAtk": 0.5}}}, "did you mean 'recallAtK'?"),
        ({"defaults__thresholds": {"min": {"recallAtK": 75}}}, "min.recallAtK: 75 is not accepted here"),
        ({"defaults__thresholds": {"min": {"recallAtK": "0.9"}}}, "min.recallAtK: '0.9' is text. remove the quotes"),
        ({"defaults__thresholds": {"max": {"p95TotalMs": 0}}}, "max.p95TotalMs: 0 is not accepted here"),
        ({"documents": {}}, "documents: it is a mapping"),
        ({"documents__0": "a"}, "documents[0]: 'a' is not accepted here"),
        ({"documents__0__content": ""}, "documents[0].content: it is blank"),
        ({"documents__0__content": ...}, "documents[0]: a document needs content or loaderRef"),
        ({"documents__0__metadata": []}, "documents[0].metadata: [] is not accepted here"),
        ({"documents__0__metadata": {"unrag": 1}}, "metadata.unrag is reserved for evalspec"),
        ({"queries": []}, "queries: it is empty"),
        ({"queries": {}}, "queries: it is a mapping"),
        ({"queries__0": []}, "queries[0]: [] is not accepted here"),
        ({"queries__0__id": 7}, "queries[0].id: 7 is not text. put it in quotes"),
        ({"queries__0__topK": 0}, "queries[0].topK: 0 is not accepted here"),
        ({"queries__0__expected": "x"}, "queries[0].expected: unknown key 'expected'"),
        ({"queries__0__relevant": ["a"]}, "queries[0].relevant: ['a'] is not accepted here"),
        ({"queries__0__relevant__sourceIds": ["b"]}, "sourceIds[0]: 'b' is not among the documents"),
        ({"queries__0__relevant__sourceIds": ["a", 1]}, "sourceIds[1]: 1 is not text"),
        ({"queries__0__relevant__grades": {}}, "queries[0].relevant.grades: unknown key 'grades'"),
    ],
    ids=str,
)
def test_bad_content_is_one_clear_problem(load, fields, part):
    (problem,) = load(changed(**fields)).problems
    assert part in problem.render()
    assert problem.render().startswith("d.json:1: ")


@pytest.mark.parametrize("fields", [{"defaults": ...}, {"queries": []}, {"version": 2}, {"documents": []}], ids=str)
def test_a_file_with_a_part_missing_is_still_recognised(tmp_path, fields):
    path = tmp_path / "data"
    path.write_text(json.dumps(changed(**fields)))
    assert load_dataset(Source(path, "data")).format == "unrag"


def test_a_file_of_queries_without_answers_is_recognised(tmp_path):
    path = tmp_path / "data"
    path.write_text(json.dumps(HEAD | {"queries": [{"id": "q", "query": "What?"}]}))
    assert load_dataset(Source(path, "data")).format == "unrag"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "d.json: the file is empty"),
        (b" \n", "d.json: the file is empty"),
        (b"[]", "d.json:1: [] is not accepted here"),
        (b'{\n"version": "1",,', "d.json:2: not valid JSON at column 16"),
        (b'{"version": "1"}\n{}', "d.json:2: not valid JSON at column 1: Extra data"),
        (b'{"version": "1",\n"x": ["NaN \\" NaN",\nNaN]}', "d.json:3: NaN is not JSON"),
        (b'{"version": "1",\n"x": -Infinity}', "d.json:2: -Infinity is not JSON"),
        (b'{"version": "1",\n"x": [{"a": 1, "b": 2,\n "a": 3}]}', "d.json:3: duplicate key 'a'"),
        (b'{"x":' * 100_000, "d.json: the JSON is nested too deeply"),
        (b'{"version":\n "\xe9"}', "d.json:2: not UTF-8 text (another encoding?)"),
        ('{"version": "1"}'.encode("utf-16"), "d.json:1: not UTF-8 text (UTF-16?)"),
        (b'{"version": ' + b"1" * 5000 + b"}", "d.json: Exceeds the limit"),
    ],
)
def test_what_is_not_one_json_object(load, content, message):
    problem = load(content).problems[0]
    assert problem.render().startswith(message)


def test_missing_file_and_directory(tmp_path):
    (missing,) = load_dataset(Source(tmp_path / "none.json", "none.json"), "unrag").problems
    (directory,) = load_dataset(Source(tmp_path, "evals"), "unrag").problems
    assert missing.render() == "none.json: no such file. check the path"
    assert "directory" in directory.render()


def test_an_empty_list_of_documents_knows_of_none_that_is_missing(load):
    loaded = load(changed(documents=[]))
    assert (loaded.problems, loaded.content.documents) == ((), [])


def test_a_document_that_is_wrong_itself_is_not_missing_too(load):
    (problem,) = load(changed(documents__0__content=3)).problems
    assert problem.field == "documents[0].content"


def test_lines_of_a_document_with_byte_order_mark_and_crlf(load):
    text = json.dumps(changed(queries__0__topK=0), indent=1).replace("\n", "\r\n")
    (problem,) = load(b"\xef\xbb\xbf" + text.encode()).problems
    assert text.split("\r\n")[problem.line - 1].strip().startswith('"topK": 0')


IDS = st.sampled_from(["eval:a", "eval:b", "eval:c"])
POSITIVE = st.integers(1, 100)
OVERRIDES = st.fixed_dictionaries(
    {}, optional={"notes": WORDS, "topK": POSITIVE, "scopePrefix": WORDS, "rerankTopK": POSITIVE}
)
OWN_SAMPLES = samples(
    id=WORDS,
    user_input=WORDS,
    qrels=st.dictionaries(IDS, st.just(1)),
    metadata=OVERRIDES.map(lambda own: {"unrag": own} if own else {}),
).map(lambda made: [with_duplicates(sample) for sample in made])
SETTINGS = st.fixed_dictionaries(
    {"id": WORDS, "scopePrefix": WORDS},
    optional={"description": WORDS, "mode": st.sampled_from(["retrieve", "retrieve+rerank"]), "rerankTopK": POSITIVE},
)
SOURCES = st.fixed_dictionaries({}, optional={"loaderRef": WORDS, "assets": st.lists(JSON, max_size=2)})


def with_duplicates(sample):
    """Where the notes say so, the relevant list has each id twice, which the reader keeps."""
    own = sample.metadata.get("unrag", {})
    if len(own.get("notes", "")) % 2 and sample.qrels:
        own["relevant"] = [*sample.qrels, *sample.qrels]
    return sample


@st.composite
def own_contents(draw):
    k = draw(st.just(()) | st.tuples(POSITIVE))
    cutoff = k[0] if k else 10
    share = st.tuples(st.floats(0, 1), st.none())
    limits = {f"{name}@{cutoff}": share for name in ("Success", "Recall", "RR")}
    limits["latency_p95"] = st.tuples(st.none(), st.floats(0.1, 1e6))
    thresholds = draw(st.fixed_dictionaries({}, optional=limits))
    documents = None
    if draw(st.booleans()):
        documents = [
            Document(name, draw(WORDS), metadata=draw(METADATA.filter(lambda m: "unrag" not in m)))
            for name in ("eval:a", "eval:b", "eval:c")
        ]
        own = draw(SOURCES)
        documents.append(Document("eval:d", "" if "loaderRef" in own else "d", metadata={"unrag": own} if own else {}))
    return DatasetContent(draw(OWN_SAMPLES), documents, DatasetDefaults(k, thresholds, draw(SETTINGS)))


@given(own_contents())
def test_what_it_can_hold_comes_back_the_same(tmp_path_factory, content):
    assert DATASETS.find("unrag").list_losses(content) == []
    loaded, back = there_and_back(content, "unrag", tmp_path_factory.getbasetemp() / "back.json")
    assert not loaded.problems
    assert back == content


def test_half_a_surrogate_pair_survives(tmp_path):
    content = DatasetContent([Sample("q", "What\ud800?", qrels={})])
    _, back = there_and_back(content, "unrag", tmp_path / "d.json")
    assert back.samples == content.samples


def test_a_dataset_without_names_gets_them_from_the_file(tmp_path):
    content = DatasetContent([Sample("q", "What?", qrels={"a": 1})])
    _, back = there_and_back(content, "unrag", tmp_path / "faq.json")
    assert back.defaults.settings == {"id": "faq", "scopePrefix": "eval:faq:"}


@pytest.mark.parametrize("prefix", ["eval:faq:", "kb/", "eval:faq:a/b:"])
def test_the_scope_prefix_is_the_one_that_all_documents_share(tmp_path, prefix):
    documents = [Document(f"{prefix}ab", "A"), Document(f"{prefix}ac", "B")]
    content = DatasetContent([Sample("q", "What?", qrels={f"{prefix}ab": 1})], documents)
    _, back = there_and_back(content, "unrag", tmp_path / "other.json")
    assert (back.defaults.settings["scopePrefix"], back.documents) == (prefix, documents)


A = Sample("q", "What?", qrels={"a": 1})
DOCUMENT = Document("a", "A")
SCOPED = DatasetDefaults(settings={"scopePrefix": "eval:a:"})


@pytest.mark.parametrize(
    ("content", "loss"),
    [
        (DatasetContent([Sample("q", "What?")]), "that relevance is unknown"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 2})]), "grades other than 1"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1, "b": 0})]), "grades other than 1"),
        (DatasetContent([Sample("q", "What?", qrels={"a": 1}, groups=(("a",),))]), "documents are alternatives"),
        (DatasetContent([Sample("q", "What?", qrels={}, references=("x",))]), "the right answers"),
        (DatasetContent([Sample("q", "What?", qrels={}, tags=("x",))]), "the tags"),
        (DatasetContent([Sample("q", "What?", qrels={}, metadata={"x": 1})]), "metadata that is not Unrag's own"),
        (
            DatasetContent([Sample("q", "What?", qrels={}, metadata={"unrag": {"topK": 0}})]),
            "metadata that is not Unrag's own",
        ),
        (
            DatasetContent([Sample("q", "What?", qrels={"a": 1}, metadata={"unrag": {"relevant": ["a"]}})]),
            "metadata that is not Unrag's own",
        ),
        (
            DatasetContent([A, Sample("r", " ", qrels={})]),
            "1 of 2 samples, which the format rejects (query: it is blank)",
        ),
        (DatasetContent([A], [Document("a", "A", "Title")], SCOPED), "the titles of 1 documents"),
        (DatasetContent([A], [DOCUMENT, Document("b")], SCOPED), "1 of 2 documents, which the format rejects"),
        (
            DatasetContent([A], [Document("b", "B")], SCOPED),
            "all 1 documents, because relevant ones are missing: a",
        ),
        (
            DatasetContent([A], [DOCUMENT, Document("b", "B")]),
            "all 2 documents, because their ids share no scope prefix",
        ),
        (DatasetContent([A], [Document("a", "A", metadata={"unrag": 1})], SCOPED), "metadata.unrag of 1 documents"),
        (DatasetContent([A], None, DatasetDefaults(k=(1, 5))), "the cut-off 1"),
        (DatasetContent([A], None, DatasetDefaults((5,), {"Recall@10": (0.5, None)})), "the threshold of Recall@10"),
        (DatasetContent([A], None, DatasetDefaults((5,), {"RR@5": (None, 0.5)})), "the threshold of RR@5"),
        (DatasetContent([A], None, DatasetDefaults((5,), {"RR@5": (50, None)})), "the threshold of RR@5"),
        (DatasetContent([A], None, DatasetDefaults((), {"nDCG@10": (0.5, None)})), "the threshold of nDCG@10"),
        (DatasetContent([A], None, DatasetDefaults(settings={"owner": "me"})), "the setting owner"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_loss_is_told_and_the_rest_is_written(tmp_path, content, loss):
    (told,) = DATASETS.find("unrag").list_losses(content)
    assert loss in told
    loaded, _ = there_and_back(content, "unrag", tmp_path / "lossy.json")
    assert not loaded.problems


def test_compat_measures_a_query_at_its_own_top_k():
    formula = DATASETS.find("unrag").compat.formulas["Precision"]
    ranking = ["a", *"bcdefghij"]
    sample = Sample("q", "q", qrels={"a": 1})
    assert formula(ranking, sample, 10) == 0.1
    assert formula(ranking, replace(sample, metadata={"unrag": {"topK": 5}}), 10) == 0.2
