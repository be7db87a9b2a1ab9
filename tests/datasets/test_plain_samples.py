"""The fast reading of common lines must never say anything else than the strict one does."""

import hashlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.datasets import jsonl
from evalspec.datasets.base import Source
from evalspec.datasets.load import load_dataset
from evalspec.datasets.plain_samples import parse_plain_sample


def pairs(keys, inner):
    """An object as the pairs it is written of, so that a key may stand in it twice."""
    return st.lists(st.tuples(keys, inner), max_size=3).map(tuple)


texts = st.text(st.sampled_from('ab": ,{}\\\x7f\u00e9\u2028\n'), max_size=8) | st.sampled_from(["", "id", 'a": 1'])
numbers = st.sampled_from([0, 1, -1, 1.0, True, 2**70, 1e300])
values = st.recursive(
    st.none() | texts | numbers, lambda inner: st.lists(inner, max_size=2) | pairs(texts, inner), max_leaves=6
)


own_values = {
    "input": texts,
    "expected": texts | st.lists(texts, max_size=2),
    "context": st.lists(texts, max_size=2),
    "relevant": pairs(texts, st.sampled_from([0, 1, 2])) | st.lists(texts, max_size=2),
    "tags": st.lists(texts, max_size=2),
    "metadata": pairs(texts, values),
    "id": texts,
    "answerable": st.booleans(),
}
members = st.sampled_from([*own_values, "expected_output", "other"]).flatmap(
    lambda key: st.tuples(st.just(key), own_values.get(key, values) | values)
)
lines = st.tuples(
    st.tuples(st.just("input"), st.just("a") | texts),
    st.tuples(st.just("expected"), st.just("b") | texts),
    st.lists(members, max_size=4),
).map(lambda parts: (parts[0], parts[1], *parts[2]))
colons = st.sampled_from([":", ": ", " :", "\t: "])


def written(value, colon):
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(key)}{colon}{written(inner, colon)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(inner, colon) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(line=lines, colon=colons)
@example(line=(("input", "a"), ("expected", "b"), ("input", "c")), colon=": ")
@example(line=(("input", "a"), ("expected", "b"), ("metadata", (("k", 1), ("k", 2)))), colon=" : ")
@example(line=(("input", "a"), ("expected", "b"), ("tags", None)), colon=":")
def test_it_reads_what_the_strict_reader_reads(line, colon, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    path.write_text(written(line, colon), encoding="utf-8", errors="surrogatepass")
    found = load_dataset(Source(path, "line.jsonl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "parse_plain_sample", lambda _: None)
        strict = load_dataset(Source(path, "line.jsonl"))
    assert found == strict


def test_the_common_line_is_read_fast():
    line = {"id": "a", "input": "q", "expected": "x", "relevant": {"d": 2}, "metadata": {"k": [{"l": 1}]}, "tags": []}
    assert parse_plain_sample(json.dumps(line)) is not None


@given(question=st.text(max_size=20) | st.text(st.sampled_from('"\\\x00\x1f\x7f\u00e9'), max_size=5))
def test_ids_are_the_hash_of_canonical_json(question, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    path.write_text(json.dumps({"input": "q " + question, "expected": "a", "context": [question]}), encoding="utf-8")
    content = {"context": [question], "expected": "a", "input": "q " + question}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    sample = load_dataset(Source(path, "line.jsonl")).samples[0]
    assert sample.id == hashlib.sha256(canonical.encode()).hexdigest()[:12]
