"""Retriever targets of the manifest: good ones, and where each bad one is wrong."""

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError

from evalspec.manifest.retriever_schema import (
    Bm25Options,
    HttpTarget,
    HybridOptions,
    PluginOptions,
    PythonTarget,
    QdrantOptions,
    RetrieverTarget,
)

TARGETS = TypeAdapter(dict[str, RetrieverTarget])
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
    ({"builtin": "qdrant", "url": "http://x", "path": "y"}, (), "not both"),
    ({"builtin": "qdrant", "apiKey": "k"}, (), "name its url"),
    ({"builtin": 3}, ("builtin",), "valid string"),
    ({"builtin": "bm25", "http": {}}, (), "one kind; write {builtin: bm25}"),
    ({}, (), "one kind"),
    ("bm25", (), "one kind"),
    ({"http": {}}, ("http", "search"), "required"),
    ({"http": {"search": {"path": "/s"}}}, ("http", "search"), "without a preset it needs request and response"),
    ({"http": {"search": {"preset": "mixpeek"}}}, ("http", "search"), "RETRIEVER_ID"),
    ({"http": {"search": SEARCH | {"response": {"id": "$"}}}}, ("http", "search", "response", "ids"), "required"),
    ({"python": "module"}, ("python",), "pattern"),
]


@pytest.mark.parametrize(("given", "model"), GOOD.values(), ids=GOOD)
def test_a_target_becomes_its_model(given, model):
    target = TARGETS.validate_python({"mine": given})["mine"]
    assert type(target) is model
    assert TARGETS.validate_python({"mine": target})["mine"] == target
    assert TARGETS.validate_python({"mine": target.model_dump(by_alias=True)})["mine"] == target


@pytest.mark.parametrize(("given", "place", "message"), BAD, ids=lambda value: str(value)[:50])
def test_a_bad_target_is_wrong_at_its_own_place(given, place, message):
    with pytest.raises(ValidationError) as caught:
        TARGETS.validate_python({"mine": given})
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert message in found[("mine", *place)]


def test_the_json_schema_for_editors_agrees():
    schema = jsonschema.Draft202012Validator(TARGETS.json_schema(by_alias=True))
    for name, (given, _) in GOOD.items():
        assert schema.is_valid({"mine": given}) == (name != "hybrid as in the paper"), name
    for given in ({"builtin": "bm25", "k2": 1}, {"builtin": "hybrid", "k": 1}, {"http": {}}, {}, "bm25"):
        assert not schema.is_valid({"mine": given}), given
