import datetime
import math
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.inputs.datasets.base import DATASETS, DatasetContent, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.formats.autorag import FORMULAS as AUTORAG
from evalspec.model import Document, Sample
from evalspec.model.conventions import FlatIds

QA = {"qid": ["1", "2"], "query": ["q1", "q2"], "retrieval_gt": [[["a"]], [["b"]]], "generation_gt": [["x"], ["y"]]}
CORPUS = {"doc_id": ["a", "b", "c"], "contents": ["A", "B", "C"], "metadata": [{"page": 1}, {"page": 2}, {"page": 3}]}
REAL_FILES = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "autorag"


@pytest.fixture
def load(tmp_path):
    def load(qa=None, corpus=CORPUS, retrieval_gt_1d=None, **columns):
        qa = QA | columns if qa is None else qa
        write(tmp_path / "qa.parquet", {name: cells for name, cells in qa.items() if cells is not None})
        if corpus is not None:
            write(tmp_path / "corpus.parquet", corpus)
        source = Source(tmp_path / "qa.parquet", "qa.parquet", retrieval_gt_1d=retrieval_gt_1d)
        return load_dataset(source)

    return load


def write(path, columns):
    pq.write_table(pa.table(columns), path)


def test_every_column_is_read(load):
    when = datetime.datetime(2024, 1, 2, 3, 4, 5)
    data = load(
        retrieval_gt=[[["a", "b", "a"], ["c"]], [["b"]]],
        generation_gt=[["x", " ", "z"], ["y"]],
        difficulty=["hard", None],
        notes=[[None, None], None],
        corpus=CORPUS
        | {
            "path": ["a.pdf", None, "c.pdf"],
            "start_end_idx": [[0, 10], [11, 20], None],
            "metadata": [{"page": 1, "at": when}, {"page": 2, "at": None}, None],
            "language": ["en", "en", "ko"],
        },
    )
    assert data.problems == data.warnings == ()
    first, second = data.samples
    assert (data.format, first.id, first.user_input, first.references, first.line) == (
        "autorag",
        "1",
        "q1",
        ("x", "z"),
        1,
    )
    assert (first.groups, first.qrels) == ((("a", "b"), ("c",)), {"a": 1, "b": 1, "c": 1})
    assert first.metadata == {
        "difficulty": "hard",
        "notes": [None, None],
        "passages": {
            "a": {
                "path": "a.pdf",
                "start_end_idx": [0, 10],
                "metadata": {"page": 1, "at": "2024-01-02T03:04:05", "language": "en"},
            },
            "b": {"start_end_idx": [11, 20], "metadata": {"page": 2, "language": "en"}},
            "c": {"path": "c.pdf", "metadata": {"language": "ko"}},
        },
    }
    assert "difficulty" not in second.metadata
    documents = data.content.documents
    assert [(document.id, document.text) for document in documents] == [("a", "A"), ("b", "B"), ("c", "C")]
    assert documents[2].metadata == {"path": "c.pdf", "language": "ko"}


def test_nanoseconds_become_microseconds(load):
    stamps = pa.array([{"at": 1_700_000_000_123_456_789}] * 3, pa.struct([("at", pa.timestamp("ns"))]))
    data = load(corpus=CORPUS | {"metadata": stamps})
    assert data.content.documents[0].metadata == {"at": "2023-11-14T22:13:20.123456"}


@pytest.mark.parametrize(
    ("cells", "one_dimensional", "groups", "qrels"),
    [
        (["a", "b"], None, None, {"a": 1}),
        ([["a"], ["b"]], None, None, {"a": 1}),
        ([["a", "a"], ["b"]], None, None, {"a": 1}),
        ([["a", "b"], ["c"]], FlatIds.ALL, None, {"a": 1, "b": 1}),
        ([["a", "b"], ["c"]], FlatIds.ANY, (("a", "b"),), {"a": 1, "b": 1}),
        ([[["a"], ["b"]], [["c"]]], None, None, {"a": 1, "b": 1}),
        ([[["a", "b"]], [["c"]]], None, (("a", "b"),), {"a": 1, "b": 1}),
        ([[["a", "b"], ["b"]], [["c"]]], None, (("a", "b"), ("b",)), {"a": 1, "b": 1}),
        ([[["a"], ["a"]], [["c"]]], None, (("a",), ("a",)), {"a": 1}),
        ([[[]], [["c"]]], None, None, {}),
        ([[], [["c"]]], None, None, {}),
        ([[], []], None, None, {}),
    ],
)
def test_ground_truth_of_every_shape(load, cells, one_dimensional, groups, qrels):
    data = load(retrieval_gt=cells, retrieval_gt_1d=one_dimensional)
    assert data.problems == ()
    assert (data.samples[0].groups, data.samples[0].qrels) == (groups, qrels)


def test_a_flat_list_of_several_ids_must_be_explained_once(load):
    (problem,) = load(retrieval_gt=[["a", "b"], ["b", "c"]]).problems
    assert problem.render() == (
        "qa.parquet:1: retrieval_gt: a flat list of several ids is ambiguous: AutoRAG's documentation says that all "
        "are needed, its code accepts any of them (2 of 2 rows). set retrievalGt1d: and (all) or "
        "retrievalGt1d: or (any), or compat: autorag (all); for convert, pass --retrieval-gt-1d"
    )


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"qid": None}, "qa.parquet: qid: the column is missing. the file has query, retrieval_gt, generation_gt"),
        ({"qid": [1, 2]}, "qa.parquet: qid: the column has int64, not text"),
        ({"qid": ["1", None]}, "qa.parquet:2: qid: empty"),
        ({"qid": ["1", "1"]}, "qa.parquet: qid: 1 of 1 ids are duplicated: '1' (rows 1, 2)"),
        ({"query": ["q", " "]}, "qa.parquet:2: query: empty"),
        ({"query": [["q"], ["r"]]}, "qa.parquet: query: the column has list<"),
        ({"generation_gt": [["x"], None]}, "qa.parquet:2: generation_gt: null"),
        ({"generation_gt": [["x"], ["y", None]]}, "qa.parquet:2: generation_gt: null"),
        ({"retrieval_gt": [[["a"]], None]}, "qa.parquet:2: retrieval_gt: null"),
        ({"retrieval_gt": [[["a"]], [None]]}, "qa.parquet:2: retrieval_gt: an id is empty"),
        ({"retrieval_gt": [[["a"]], [["b"], None]]}, "qa.parquet:2: retrieval_gt: a group is empty"),
        ({"retrieval_gt": [[["a"]], [["b"], []]]}, "qa.parquet:2: retrieval_gt: a group is empty"),
        ({"retrieval_gt": [[["a"]], [["b", ""]]]}, "qa.parquet:2: retrieval_gt: an id is empty"),
        ({"retrieval_gt": ["a", ""]}, "qa.parquet:2: retrieval_gt: an id is empty"),
        ({"retrieval_gt": [[[1]], [[2]]]}, "qa.parquet: retrieval_gt: the column has int64, not text"),
        ({"retrieval_gt": [[[["a"]]], [[["b"]]]]}, "qa.parquet: retrieval_gt: the column has list<"),
        ({"passages": ["p", "p"]}, "qa.parquet: passages: this name is reserved"),
        (
            {"retrieval_gt": [[["a"], ["zz"]], [["yy", "zz"]]]},
            "qa.parquet: retrieval_gt: 2 of 3 ids not in corpus.parquet: 'zz' (row 1), 'yy' (row 2)",
        ),
        (
            {"retrieval_gt": [[["A"]], [["B"]]]},
            "qa.parquet: retrieval_gt: no id of retrieval_gt is in corpus.parquet: retrieval_gt has 'A', "
            "the corpus has 'a'",
        ),
        ({"corpus": CORPUS | {"doc_id": [1, 2, 3]}}, "corpus.parquet: doc_id: the column has int64, not text"),
        ({"corpus": CORPUS | {"doc_id": ["a", "b", None]}}, "corpus.parquet:3: doc_id: empty"),
        (
            {"corpus": CORPUS | {"doc_id": ["a", "b", "a"]}},
            "corpus.parquet: doc_id: 1 of 2 ids are duplicated: 'a' (rows 1, 3)",
        ),
        ({"corpus": {"doc_id": ["a", "b"]}}, "corpus.parquet: contents: the column is missing. the file has doc_id"),
    ],
)
def test_bad_content_is_one_clear_problem(load, columns, problem):
    (found,) = load(**columns).problems
    assert found.render().startswith(problem)


def test_problems_of_both_files_come_together(load):
    data = load(qid=["", "2"], query=["q", None], corpus=CORPUS | {"doc_id": ["a", "a", "b"]})
    assert [(problem.file, problem.field) for problem in data.problems] == [
        ("corpus.parquet", "doc_id"),
        ("qa.parquet", "qid"),
        ("qa.parquet", "query"),
    ]


def test_missing_ids_are_named_up_to_a_bound(load):
    (problem,) = load(retrieval_gt=[[["a"]], [[f"m{number}" for number in range(150)]]]).problems
    assert "150 of 151 ids not in corpus.parquet: 'm0' (row 2), " in problem.message
    assert problem.message.endswith("'m99' (row 2) and 50 more")


def test_a_document_without_text_is_told_and_refused_as_ground_truth(load):
    data = load(corpus=CORPUS | {"contents": ["A", None, " "]})
    assert [warning.message for warning in data.warnings] == ["empty in 2 of 3 documents: 'b', 'c'"]
    (problem,) = data.problems
    assert problem.message == "1 of 2 ids without contents: 'b' (row 2)"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"qid,query\n1,q\n", None])
def test_what_is_not_parquet(load, tmp_path, content):
    load()
    path = tmp_path / "qa.parquet"
    path.write_bytes(path.read_bytes()[:-200] if content is None else content)
    (problem,) = load_dataset(Source(path, "qa.parquet")).problems
    assert problem.render().startswith("qa.parquet: invalid or incomplete Parquet file: ")


def test_a_damaged_page_is_one_problem(load, tmp_path):
    load(query=["q" * 500, "r" * 500])
    path = tmp_path / "qa.parquet"
    raw = path.read_bytes()
    path.write_bytes(raw[:60] + b"\xff" * 60 + raw[120:])
    (problem,) = load_dataset(Source(path, "qa.parquet")).problems
    assert "invalid or incomplete Parquet file" in problem.message


def test_no_rows_and_no_file(load, tmp_path):
    columns = {name: pa.array([], pa.array(cells).type) for name, cells in QA.items()}
    (problem,) = load(columns).problems
    assert problem.render() == "qa.parquet: there are no rows. write one per question"
    (problem,) = load_dataset(Source(tmp_path / "none.parquet", "none.parquet")).problems
    assert problem.render() == "none.parquet: no such file. check the path"


def test_without_a_corpus_the_ids_are_not_checked_and_that_is_told(load):
    data = load(corpus=None)
    assert data.problems == () and data.content.documents is None
    assert [warning.message for warning in data.warnings] == [
        "there is no corpus.parquet beside it, so the ids of retrieval_gt are not checked"
    ]


def test_a_folder_and_a_corpus_of_another_name(load, tmp_path):
    load(qid=["1", "1"])
    (problem,) = load_dataset(Source(tmp_path, "evals/ar")).problems
    assert problem.file == "evals/ar/qa.parquet"
    other = tmp_path / "documents.parquet"
    (tmp_path / "corpus.parquet").rename(other)
    load(corpus=None)
    data = load_dataset(Source(tmp_path, "ar", corpus=other, corpus_shown_as="documents.parquet"))
    assert data.problems == data.warnings == ()
    assert len(data.content.documents) == 3


def test_a_pandas_index_and_categories_are_fine(load):
    data = load(
        query=pa.array(["same", "same"]).dictionary_encode(),
        __index_level_0__=[7, 3],
        qid=pa.array(["1", "2"], pa.large_string()),
    )
    assert data.problems == ()
    assert [(sample.user_input, "__index_level_0__" in sample.metadata) for sample in data.samples] == [
        ("same", False)
    ] * 2


def test_metadata_that_parquet_would_change_is_a_loss():
    first = {"fine": 1, "mixed": 1, "empty": {}, "query": "q", "huge": 2**70, "truths": [1.5, True]}
    samples = [Sample("1", "q", qrels={}, metadata=first)]
    samples.append(Sample("2", "q", qrels={}, metadata={"fine": 2.5, "mixed": "1", "endless": math.inf, "none": None}))
    losses = DATASETS.find("autorag").list_losses(DatasetContent(samples))
    reason = "reserved name, or Parquet has no type for all values"
    assert losses == [
        f"the sample metadata empty, endless, huge, mixed, query, truths ({reason})",
        "the nulls in the metadata of 1 samples",
    ]


def test_pyarrow_missing_is_said_with_the_extra(load, tmp_path):
    load()
    program = (
        "import sys; sys.modules['pyarrow'] = None; from evalspec.cli.main import run; "
        "raise SystemExit(run(['convert', 'qa.parquet', 'out.jsonl', '--to', 'jsonl']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "evalspec: a file of Parquet or Arrow needs pyarrow, which is not installed. pip install 'pyarrow>=15'\n"
    )


@pytest.mark.skipif(not REAL_FILES.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with AutoRAG's files")
class TestRealFiles:
    def test_korean(self):
        data = load_dataset(Source(REAL_FILES / "autorag_gen_ko", "ko"))
        assert data.problems == data.warnings == ()
        assert len(data.samples) == 20 and len(data.content.documents) == 55
        assert all(len(sample.references) == 2 and len(sample.metadata["passages"]) == 1 for sample in data.samples)

    @pytest.mark.parametrize(
        "node", ["lexical_retrieval", "semantic_retrieval", "hybrid_retrieval", "passage_reranker"]
    )
    def test_stored_results_are_reproduced(self, node):
        corpus = REAL_FILES / "corpus_data_sample.parquet"
        samples = load_dataset(Source(REAL_FILES / "qa_data_sample.parquet", "qa", corpus, "corpus")).samples
        rows = pq.ParquetFile(REAL_FILES / "trial0" / node / "0.parquet").read().to_pylist()
        for sample, row in zip(samples, rows, strict=True):
            groups = sample.groups or [(document,) for document in sample.qrels]
            for measure in ("Recall", "Precision", "F1"):
                assert AUTORAG[measure](row["retrieved_ids"], groups) == row[f"retrieval_{measure.lower()}"]


def test_times_stay_times_and_metadata_of_other_systems_is_nested(tmp_path):
    when = datetime.datetime(2024, 1, 2, 3, 4, 5)
    stated = {"last_modified_datetime": when.isoformat(), "prev_id": "b"}
    documents = [
        Document("a", "text", metadata={"path": "a.md", **stated}),
        Document("b", "more", metadata={"topic": "x"}),
    ]
    content = DatasetContent([Sample("1", "q", qrels={"a": 1})], documents)
    target = DATASETS.find("autorag")
    assert target.list_losses(content) == []
    target.write(content, tmp_path / "d")
    first, second = pq.read_table(tmp_path / "d" / "corpus.parquet").to_pylist()
    assert (first["path"], first["metadata"]["last_modified_datetime"]) == ("a.md", when)
    assert second["metadata"]["topic"] == "x"
    assert load_dataset(Source(tmp_path / "d", "d")).content.documents == documents
