"""The fast reading of common lines must never say anything else than the strict one does."""

import hashlib
import json
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.base.jsonl import number_lines
from evalspec.inputs.datasets import jsonl
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.jsonl_lines import parse_plain_samples
from evalspec.inputs.datasets.load import load_dataset
from evalspec.targets.agents import replay as recorded
from evalspec.targets.agents.replay import load_replies


class Raw(str):
    """JSON as it is in the file, valid or not."""


def pairs(keys, inner):
    """An object as the pairs it is written of, so that a key may be in it twice."""
    return st.lists(st.tuples(keys, inner), max_size=3).map(tuple)


texts = st.text(st.sampled_from('ab": ,{}\\\x7f\u00e9\u2028\n'), min_size=1, max_size=8) | st.sampled_from(["", "id"])
numbers = st.sampled_from([0, 1, -1, 1.0, True, 2**63, 2**70, 1e300, 5e-324, 0.1 + 0.2])
raws = st.sampled_from([
    "-0", "-0.0", "1E2", "1e999", "1e-999", "01", "1.", "NaN", "-Infinity", "nul", "9" * 25, "9" * 400, "9" * 5000,
    r'"\ud800"', r'"\udc00\ud83d"', r'"\ud83d\ude00"', r'"\u0000"', '"\x00"', r'"\u003a"', r'"\/"', '"\t"',
    "[" * 3000 + "]" * 3000, '{"a": ' * 3000 + "1" + "}" * 3000, r'{"a": 1, "\u0061": "\u003A"}',
]).map(Raw)  # fmt: skip
values = st.recursive(
    st.none() | texts | numbers | raws, lambda inner: st.lists(inner, max_size=2) | pairs(texts, inner), max_leaves=6
)


turns = st.builds(
    lambda role, text: (("role", role), ("content", text)), st.sampled_from(["user", "user", "tool", "x"]), texts
)
own_values = {
    "input": texts | st.lists(turns | pairs(st.sampled_from(["role", "content"]), texts), max_size=2),
    "expected": texts | st.lists(texts, max_size=2),
    "context": st.lists(texts, max_size=2),
    "reference_contexts": st.lists(texts, max_size=2),
    "relevant": pairs(texts, st.sampled_from([0, 1, 2, 10**9])) | st.lists(texts | st.lists(texts), max_size=2),
    "tags": st.lists(texts, max_size=2),
    "metadata": pairs(texts, values),
    "id": texts,
    "answerable": st.booleans(),
}
members = st.sampled_from([*own_values, "expected_output", "other"]).flatmap(
    lambda key: st.tuples(st.just(key), st.one_of(*[own_values.get(key, values)] * 5, values))
)
lines = st.tuples(
    st.tuples(st.just("input"), st.just("a") | texts | st.lists(turns, max_size=3)),
    st.tuples(st.just("expected"), st.just("b") | texts | st.lists(texts, max_size=2)),
    st.lists(members, max_size=3),
).map(lambda parts: (parts[0], parts[1], *parts[2]))
colons = st.sampled_from([":", ": ", " :", "\t: "])


def written(value, colon):
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(key)}{colon}{written(inner, colon)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(inner, colon) for inner in value) + "]"
    return value if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


MUTATIONS = {
    "insert": lambda part, token: token + part,
    "delete": lambda part, token: b"",
    "double": lambda part, token: part + part,
    "escape": lambda part, token: b"\\u%04x" % part[0] + part[1:] if part else part,
}
tokens = st.sampled_from([b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", *(bytes([byte]) for byte in b'":,{}[]0\\ \r\n\0')])
changes = st.tuples(st.sampled_from([*MUTATIONS.values()]), st.integers(0, 200), st.integers(1, 20), tokens)
mutations = st.just([]) | st.lists(changes, max_size=2)


def mutated(line, mutations):
    for change, start, length, token in mutations:
        start %= len(line) + 1
        end = start + length
        line = line[:start] + change(line[start:end], token) + line[end:]
    return line


@given(file=st.lists(st.tuples(lines, colons, mutations), min_size=1, max_size=2))
@example(file=[((("input", "a"), ("expected", "b"), ("input", "c")), ": ", [])])
@example(file=[((("input", "a"), ("expected", "b"), ("metadata", (("k", 1), ("k", 2)))), " : ", [])])
@example(file=[((("input", "a"), ("expected", "b"), ("expected", Raw(r'"\u003a"'))), ": ", [])])
@example(file=[((("input", "a"), ("expected", "b"), ("tags", None)), ":", [])])
def test_it_reads_what_the_strict_reader_reads(file, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    written_lines = (mutated(written(line, colon).encode(), changes) for line, colon, changes in file)
    path.write_bytes(b"\n".join(written_lines))
    found = load_dataset(Source(path, "line.jsonl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_read_lines", number_lines)
        strict = load_dataset(Source(path, "line.jsonl"))
    assert repr(found) == repr(strict), "equal is not enough: 1, 1.0 and True are"


reply_members = st.sampled_from(["id", "response", "dataset", "error", "other"]).flatmap(
    lambda key: st.tuples(st.just(key), texts | numbers | raws)
)
reply_lines = st.tuples(
    st.tuples(st.just("id"), texts | numbers | raws),
    st.tuples(st.just("response"), texts | raws),
    st.lists(reply_members, max_size=1),
).map(lambda parts: (parts[0], parts[1], *parts[2]))


def read_replies(path):
    try:
        return repr(load_replies(path, "line.jsonl"))
    except InvalidInput as error:
        return [problem.render() for problem in error.problems]


@given(file=st.lists(st.tuples(reply_lines, colons, mutations), min_size=1, max_size=2))
@example(file=[((("id", "a"), ("response", "b"), ("id", "c")), ": ", [])])
@example(file=[((("id", ""), ("response", "b")), ": ", [])])
@example(file=[((("id", "e\u0301"), ("response", "b")), ": ", [])])
def test_it_reads_the_replies_that_the_strict_reader_reads(file, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    written_lines = (mutated(written(line, colon).encode(), changes) for line, colon, changes in file)
    path.write_bytes(b"\n".join(written_lines))
    found = read_replies(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "_read_lines", number_lines)
        assert found == read_replies(path)


@pytest.mark.parametrize("text", ["x", "Note: x", 'he says "x": why'])
def test_the_common_line_is_read_fast(text):
    line = {
        "id": "a",
        "input": text,
        "expected": "",
        "relevant": {"d": 2},
        "metadata": {"k": [{"l": text}]},
        "tags": [],
    }
    assert parse_plain_samples(json.dumps(line).encode()) is not None
    assert parse_plain_samples(json.dumps(line, separators=(" ,", " : ")).encode()) is not None


@given(question=st.text(max_size=20) | st.text(st.sampled_from('"\\\x00\x1f\x7f\u00e9'), max_size=5))
@example(question="\uf900")
def test_ids_are_the_hash_of_canonical_json(question, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    path.write_text(json.dumps({"input": "q " + question, "expected": "a", "context": [question]}), encoding="utf-8")
    composed = normalize("NFC", "q " + question)
    content = {"context": [normalize("NFC", question)], "expected": "a", "input": composed}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    sample = load_dataset(Source(path, "line.jsonl")).samples[0]
    assert sample.id == hashlib.sha256(canonical.encode()).hexdigest()[:12]
