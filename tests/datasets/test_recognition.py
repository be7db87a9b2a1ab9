"""Each format's own files are recognised by that format and by no other; the native one is what is left over."""

import pytest

from dataset_contents import HOLDING_JUDGEMENTS, JUDGED
from evalspec.inputs.datasets.base import DATASETS, Source
from evalspec.inputs.datasets.load import load_dataset

FILE_NAMES = {"jsonl": "d.jsonl", "csv": "d.csv", "mixpeek": "d.json", "triples": "d.yaml", "unrag": "d.json"}
NATIVE = "jsonl"


@pytest.mark.parametrize("name", HOLDING_JUDGEMENTS)
@pytest.mark.parametrize("renamed", [False, True], ids=["usual name", "no suffix"])
def test_a_file_is_recognised_by_its_own_format_only(name, renamed, tmp_path):
    if renamed and name == NATIVE:
        pytest.skip("the native format goes by its suffix")
    dataset_format = DATASETS.find(name)
    path = tmp_path / FILE_NAMES.get(name, "folder")
    dataset_format.write(JUDGED, path)
    if renamed:
        path = path.rename(tmp_path / "data")
    head = path.read_bytes()[:65_536] if path.is_file() else b""
    others = {one.name for one in DATASETS if one.recognises(path, head) and not one.is_generic} - {NATIVE}
    assert others == {name} - {NATIVE, "csv"}
    data = load_dataset(Source(path, "d"))
    assert (data.format, data.problems) == (name, ())
    assert [(sample.id, sample.qrels) for sample in data.samples] == [("1", {"a": 1}), ("2", {"b": 1})]


@pytest.mark.parametrize(
    ("file_name", "content", "expected"),
    [
        ("qrels.txt", b"1 0 184 3\n", "trec"),
        ("judged", b"\n  q1\tQ0  d\t-1\r\n", "trec"),
        ("x.tsv", b"Query-ID\tcorpus-id\tscore\nq\td\t1\n", "beir"),
        ("qa.parquet", b"", "autorag"),
        ("renamed", b"PAR1\x15\x04", "autorag"),
        ("d.jsonl", b'{"input": "q", "expected": "a"}\n', "jsonl"),
        ("d.jsonl", b"1 0 184 3\n", "jsonl"),
        ("notes.txt", b"what is this 3 times\n", ""),
        ("empty", b"", "jsonl"),
    ],
)
def test_a_file_is_told_by_its_beginning(file_name, content, expected, tmp_path):
    (tmp_path / file_name).write_bytes(content)
    assert load_dataset(Source(tmp_path / file_name, file_name)).format == expected


def test_a_folder_of_both_layouts_is_one_of_them(tmp_path):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    assert [found.name for found in DATASETS if found.recognises(tmp_path, b"")] == ["trec"]
