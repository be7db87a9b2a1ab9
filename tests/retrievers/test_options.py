"""Retriever targets of the manifest: good ones, and where each bad one is wrong."""

from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError

from evalspec.inputs.manifest.fields import RetrieverVariants
from evalspec.inputs.manifest.retriever_schema import (
    Bm25Options,
    HttpTarget,
    HybridOptions,
    PluginOptions,
    PythonTarget,
    QdrantOptions,
    retriever_json_schema,
)

TARGETS = TypeAdapter(dict[str, RetrieverVariants])
SEARCH = {"path": "/search", "request": {"q": "{{query}}"}, "response": {"ids": "$.hits[*].id"}}

GOOD = {
    "bm25": ({"builtin": "bm25", "k1": 0.9, "b": 0, "method": "atire", "language": None}, Bm25Options),
    "hybrid": ({"builtin": "hybrid", "rrfK": 10}, HybridOptions),
    "hybrid as in the paper": ({"builtin": "hybrid", "rrf_k": 10}, HybridOptions),
    "store": ({"builtin": "qdrant", "url": "$env:QDRANT_URL", "apiKey": "$env:QDRANT_KEY"}, QdrantOptions),
    "another package's": ({"builtin": "colbert", "anything": [1]}, PluginOptions),
    "http": ({"http": {"search": SEARCH, "delete": {"path": "/docs", "method": "DELETE"}}}, HttpTarget),
    "preset": ({"http": {"url": "http://x", "search": {"preset": "autorag"}}}, HttpTarget),
    "python": ({"python": "my.module:Retriever"}, PythonTarget),
}
BAD = [
    ({"builtin": "bm25", "k2": 1}, ("k2",), "Extra"),
    ({"builtin": "bm25", "k1": -1}, ("k1",), "greater than or equal to 0"),
    ({"builtin": "bm25", "b": 1.5}, ("b",), "less than or equal to 1"),
    ({"builtin": "bm25", "k1": "1.5"}, ("k1",), "valid number"),
    ({"builtin": "bm25", "method": "bm26"}, ("method",), "'lucene'"),
    ({"builtin": "dense", "rrf_k": 1}, ("rrf_k",), "Extra"),
    ({"builtin": "qdrant", "url": "http://x", "path": "y"}, (), "remove one of them"),
    ({"builtin": "qdrant", "apiKey": "k"}, (), "add its url"),
    ({"builtin": 3}, ("builtin",), "valid string"),
    ({"builtin": "bm25", "http": {}}, (), "one kind; write {builtin: bm25}"),
    ({}, (), "one kind"),
    ("bm25", (), "one kind"),
    ({"http": {}}, ("http", "search"), "required"),
    ({"http": {"search": {"path": "/s"}}}, ("http", "search"), "a request without a preset needs request and response"),
    ({"http": {"search": {"preset": ""}}}, ("http", "search", "preset"), "at least 1 character"),
    ({"http": {"search": SEARCH | {"response": {"id": "$"}}}}, ("http", "search", "response", "ids"), "required"),
    ({"python": "module"}, ("python",), "write module:name"),
    ({"builtin": "bm25", "k1": []}, (), "the list of k1 is empty"),
    ({"builtin": "bm25", "k1": [1, 1]}, (), "has a duplicate value"),
    ({"builtin": "bm25", "k1": [1, -1]}, ("k1",), "greater than or equal to 0"),
    ({"builtin": "bm25", "k1": list(range(11)), "topK": list(range(1, 11))}, (), "more than 100 variants"),
    ({"python": ["a:b", "c:d"]}, ("python",), "valid string"),
]


@pytest.mark.parametrize(("given", "model"), GOOD.values(), ids=GOOD)
def test_a_target_becomes_its_model(given, model):
    target = TARGETS.validate_python({"mine": given})["mine"][""]
    assert type(target) is model
    assert TARGETS.validate_python({"mine": target.model_dump(by_alias=True)})["mine"] == {"": target}


def test_a_grid_becomes_a_variant_for_each_combination():
    given = {"builtin": "hybrid", "rrf_k": [10, 60.5], "topK": [5, 10], "rerankTopK": 40}
    variants: dict[str, Any] = TARGETS.validate_python({"mine": given})["mine"]
    assert {label: (v.rrf_k, v.top_k, v.rerank_top_k) for label, v in variants.items()} == {
        "rrfK=10,topK=5": (10, 5, 40),
        "rrfK=10,topK=10": (10, 10, 40),
        "rrfK=60.5,topK=5": (60.5, 5, 40),
        "rrfK=60.5,topK=10": (60.5, 10, 40),
    }


def test_lists_that_are_no_grid_stay_lists():
    plugin = TARGETS.validate_python({"mine": {"builtin": "colbert", "layers": [1, 2], "topK": [1, 2]}})["mine"]
    assert [(label, v.model_extra) for label, v in plugin.items()] == [
        ("topK=1", {"layers": [1, 2]}),
        ("topK=2", {"layers": [1, 2]}),
    ]
    http = {"http": {"search": SEARCH | {"request": [{"q": "{{query}}"}]}}}
    assert list(TARGETS.validate_python({"mine": http})["mine"]) == [""]


@pytest.mark.parametrize(("given", "place", "message"), BAD, ids=lambda value: str(value)[:50])
def test_a_bad_target_is_wrong_at_its_own_place(given, place, message):
    with pytest.raises(ValidationError) as caught:
        TARGETS.validate_python({"mine": given})
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert message in found[("mine", *place)]


def test_the_json_schema_for_editors_agrees():
    schema = jsonschema.Draft202012Validator(retriever_json_schema("#/$defs/{model}"))
    for name, (given, _) in GOOD.items():
        assert schema.is_valid(given) == (name != "hybrid as in the paper"), name
    assert schema.is_valid({"builtin": "hybrid", "rrfK": [10, 60], "topK": [5]})
    for given in ({"builtin": "bm25", "k2": 1}, {"builtin": "hybrid", "k": 1}, {"http": {}}, {}, "bm25"):
        assert not schema.is_valid(given), given
