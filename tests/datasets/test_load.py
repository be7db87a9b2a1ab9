import gzip
import json
import os
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.jsonl import MAX_LINE_BYTES
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Message

MEBIBYTE = 1_048_576


@pytest.fixture
def load(load_content):
    return lambda content: load_content(content, "d.jsonl")


def line(**fields):
    return json.dumps({"input": "q", "expected": "a"} | fields)


def test_every_field_is_read(load):
    fields = {
        "input": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "context": ["c"],
        "reference_contexts": ["r"],
        "relevant": {"d1": 3, "d2": 0},
        "tags": ["x", "y", "x"],
        "metadata": {"n": 1},
        "id": "one",
        "answerable": False,
    }
    (sample,) = load(line(**fields)).samples
    assert sample.user_input == (Message("system", "s"), Message("user", "q"))
    assert (sample.id, sample.question, sample.reference, sample.line) == ("one", "q", "a", 1)
    assert (sample.retrieved_contexts, sample.reference_contexts) == (("c",), ("r",))
    assert (sample.qrels, sample.tags, sample.metadata) == ({"d1": 3, "d2": 0}, ("x", "y"), {"n": 1})
    assert sample.answerable is False
    assert load(line()).samples[0].answerable is None


def test_relevant_ids_without_grades_have_grade_one(load):
    assert load(line(relevant=["a", "b"])).samples[0].qrels == {"a": 1, "b": 1}


def test_expected_output_is_read_with_a_warning(load):
    data = load('{"input": "q", "expected_output": "a"}')
    assert data.samples[0].reference == "a"
    assert [warning.render() for warning in data.warnings] == [
        "d.jsonl:1: expected_output: expected_output is read as expected. rename it"
    ]


def test_byte_order_mark_crlf_and_blank_lines_are_fine(load):
    data = load(b"\xef\xbb\xbf" + line(id="a").encode() + b"\r\n\r\n  \r\n" + line(id="b").encode() + b"\r\n")
    assert not data.problems
    assert [(sample.id, sample.line) for sample in data.samples] == [("a", 1), ("b", 4)]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"", "d.jsonl", "the file is empty"),
        (b"\n \n", "d.jsonl", "the file is empty"),
        ('{"input": "q", "expected"', "d.jsonl:1", "not valid JSON at column"),
        ("[" * 100_000, "d.jsonl", "nested too deeply"),
        ('{"a":' * 100_000, "d.jsonl:1", "nested too deeply"),
        ("3", "d.jsonl:1", "is not a JSON object"),
        (line(input=3), "d.jsonl:1: input", "3 is not text"),
        (line(input=1.5), "d.jsonl:1: input", "is not text"),
        (line(relevant={"": 1}), "d.jsonl:1: relevant.", "empty"),
        (gzip.compress(line().encode() + b"\n{", mtime=0), "d.jsonl:2", "not valid JSON at column"),
        (gzip.compress(line().encode(), mtime=0)[:-9], "d.jsonl", "the gzip file is truncated or damaged"),
        (gzip.compress(b"", mtime=0), "d.jsonl", "the file is empty"),
        (line(input=""), "d.jsonl:1: input", "empty"),
        (line(input=[]), "d.jsonl:1: input", "it is empty"),
        (line(input=[{"role": "assistant", "content": "x"}]), "d.jsonl:1", "must have the role user"),
        (line(input=[{"role": "bot", "content": "x"}]), "d.jsonl:1: input[0].role", "'bot' is not one of"),
        ('{"input": "q"}', "d.jsonl:1: expected", "required"),
        (line(context="c"), "d.jsonl:1: context", "it should be a list"),
        (line(relevant={"a": 1.5}), "d.jsonl:1: relevant.a", "1.5 is not accepted"),
        (line(relevant={"a": -1}), "d.jsonl:1: relevant.a", "greater than or equal to 0"),
        (line(relevant={"a": 10**400}), "d.jsonl:1: relevant.a", "less than or equal to 999999999"),
        (line(relevant=[7]), "d.jsonl:1: relevant[0]", "put it in quotes"),
        (line(answerable="no"), "d.jsonl:1: answerable", "it should be a boolean"),
        (line(answerable=0), "d.jsonl:1: answerable", "it should be a boolean"),
        (line(id=7), "d.jsonl:1: id", "put it in quotes"),
        (line(reference_context=[]), "d.jsonl:1: reference_context", "did you mean 'reference_contexts'?"),
        ('{"input": "q", "expected": NaN}', "d.jsonl:1", "NaN is not JSON"),
        (line(metadata={"x": 0}).replace("0", "-1e999"), "d.jsonl:1", "-1e999 is too large for a number"),
        ('{"input": "q", "expected": "a", "metadata": {"x": -Infinity}}', "d.jsonl:1", "-Infinity is not JSON"),
        ('{"input": "q", "input": "r", "expected": "a"}', "d.jsonl:1", "duplicate key 'input'"),
        (line(id="a") + "\n" + line(id="a", input="other"), "d.jsonl:2: id", "duplicate of line 1"),
        (line() + "\n" + line(tags=["t"]), "d.jsonl:2: id", "duplicate of line 1"),
        (line().encode() + b'\n{"input": "\xe9", "expected": "a"}', "d.jsonl:2", "not UTF-8"),
        (line().encode("utf-16"), "d.jsonl:1", "UTF-16"),
    ],
)
def test_bad_content_is_one_clear_problem(load, content, place, message):
    (problem,) = load(content).problems
    assert problem.render().startswith(place + ": ")
    assert message in problem.render()


def test_every_bad_line_is_told_and_every_good_one_read(load):
    data = load("\n".join([line(id="a"), "x", line(id="b"), line(tags="t"), '{"input": "q"}']))
    assert [sample.id for sample in data.samples] == ["a", "b"]
    assert [problem.line for problem in data.problems] == [2, 4, 5]


@pytest.mark.parametrize("long", [line(input="x" * 50_000_000), line() + " " * MAX_LINE_BYTES], ids=["text", "blanks"])
def test_a_line_that_is_too_long_is_refused_and_the_next_one_read(load, long):
    data = load(long + "\n" + line(id="next"))
    (problem,) = data.problems
    assert problem.line == 1
    assert f"{MAX_LINE_BYTES:,}" in problem.message
    assert [(sample.id, sample.line) for sample in data.samples] == [("next", 2)]


def test_missing_file_and_directory(tmp_path):
    (missing,) = load_dataset(Source(tmp_path / "none.jsonl", "none.jsonl")).problems
    assert missing.render() == "none.jsonl: no such file. check the path"
    (directory,) = load_dataset(Source(tmp_path, "evals")).problems
    assert "directory" in directory.render()


def test_a_pipe_is_refused_rather_than_read_without_its_beginning(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (problem,) = load_dataset(Source(tmp_path / "pipe", "pipe")).problems
    assert problem.render() == "pipe: this is a pipe, and the file has to be read twice. write it to a file first"


def test_the_id_follows_the_content_not_the_annotations(load):
    ids = [load(line(**fields)).samples[0].id for fields in ({}, {"tags": ["t"], "metadata": {"n": 1}}, {"input": "r"})]
    assert ids[0] == ids[1] != ids[2]


@given(st.text(min_size=1), st.text(), st.lists(st.text()))
def test_any_text_survives(tmp_path_factory, question, expected, context):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(line(input=question, expected=expected, context=context), encoding="utf-8")
    data = load_dataset(Source(path, "any.jsonl"))
    assert not data.problems
    assert data.samples[0].user_input == question
    assert data.samples[0].retrieved_contexts == tuple(context)


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.jsonl", "queries.gz"])
def test_gz_of_lines_is_read_as_the_lines_are(tmp_path, name):
    text = "\n".join(line(id=f"s{n}", relevant={"d": n}) for n in range(3))
    if name == "queries.gz":
        query = '{"query_id": "s%d", "query_input": {"text": "q"}, "relevant_documents": []}'
        text = "\n".join(query % n for n in range(3))
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    data = load_dataset(Source(tmp_path / name, name))
    assert [sample.id for sample in data.samples] == ["s0", "s1", "s2"]
    assert data.problems == ()


@pytest.mark.parametrize(("name", "text"), [("d.json.gz", '{"queries": [], "defaults": {}}'), ("d.gz", "a: 1")])
def test_gz_of_one_document_is_refused(tmp_path, name, text):
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    (problem,) = load_dataset(Source(tmp_path / name, name)).problems
    assert problem.render().startswith(f"{name}: gz files are supported only for")


@pytest.mark.parametrize("name", ["d.jsonl.gz", "qrels.txt.gz"])
def test_a_gz_bomb_of_one_line_takes_no_more_memory_than_a_line(tmp_path, name):
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = b"1 0 d 1\n" if name.startswith("qrels") else b""
    packed = packer.compress(head) + b"".join(packer.compress(b"x" * MEBIBYTE) for _ in range(128))
    (tmp_path / name).write_bytes(packed + packer.flush())
    (tmp_path / "topics.tsv").write_text("1\tq\n")
    tracemalloc.start()
    data = load_dataset(Source(tmp_path / name, name))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "the line is longer than 10,485,760 bytes" in data.problems[0].message
    assert peak < 64 * MEBIBYTE
