"""The good files of every format under files/ are recognised by that format only; no empty file is ever written."""

from pathlib import Path

import pytest
from hypothesis import given

from dataset_contents import SAMPLES_OF_ANY_KIND, there_and_back
from evalspec.base.errors import InvalidInput
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, ReadingNotes, Source
from evalspec.inputs.datasets.load import find_format
from evalspec.model import Sample

FILES = Path(__file__).parent / "files"
GOOD = sorted(FILES.glob("*/good*"))
NATIVE = [
    '{"input": "What is an expected_block: a question: a text?", "expected": "a"}\n',
    '{"input": "q", "expected": "a", "metadata": {"query_id": "q1", "query_input": "q", "sourceIds": []}}\n',
    '{"id": "q", "input": "q", "expected": "a", "relevant": ["queries", "documents", "defaults"]}\n',
    '{"query_id": "q1", "text": "a topic of some other format"}\n',
    '{"queries": {"q1": "a question"}, "corpus": {}}\n',
    "question: what?\nanswer: this\n",
    '{"input": "q"\n',
    "[" * 70_000,
    '{"a":' * 20_000,
]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_good_file_is_recognised_by_its_own_format_only(path):
    head = path.read_bytes()[:65_536] if path.is_file() else b""
    found = {one.name for one in DATASETS if one.name != "jsonl" and not one.is_generic and one.recognises(path, head)}
    assert found == {path.parent.name}


@pytest.mark.parametrize("name", ["unrag/good.json", "mixpeek/good.json", "triples/good.yaml"])
def test_neither_the_suffix_nor_the_rest_of_the_file_is_needed(name, tmp_path):
    content = (FILES / name).read_bytes()
    path = tmp_path / "data"
    path.write_bytes(b"\xef\xbb\xbf" + content[: len(content) * 2 // 3])
    assert find_format(Source(path, "data"), None, ReadingNotes()).name == name.partition("/")[0]


@pytest.mark.parametrize("text", NATIVE, ids=range(len(NATIVE)))
def test_native_and_broken_files_are_left_to_the_native_reader(text, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    assert find_format(Source(path, "data.jsonl"), None, ReadingNotes()).name == "jsonl"


@pytest.mark.parametrize("name", ["unrag", "mixpeek", "triples"])
def test_a_file_with_nothing_in_it_is_not_written(name, tmp_path):
    with pytest.raises(InvalidInput, match="can hold none of the samples"):
        DATASETS.find(name).write(DatasetContent([Sample("", "", qrels={"a": 1})]), tmp_path / "d")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["mixpeek", "unrag"])
@given(any_samples=SAMPLES_OF_ANY_KIND)
def test_anything_is_written_so_that_it_can_be_read(tmp_path_factory, name, any_samples):
    content = DatasetContent(any_samples)
    losses = DATASETS.find(name).list_losses(content)
    loaded, back = there_and_back(content, name, tmp_path_factory.getbasetemp() / "any.json")
    assert not loaded.problems
    assert [(s.id, s.user_input) for s in back.samples] == [(s.id, s.question) for s in any_samples]
    assert losses or back.samples == any_samples
