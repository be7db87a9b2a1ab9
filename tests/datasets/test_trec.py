import gzip
import json
import os
from pathlib import Path

import pytest

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset

QRELS = "q1 0 a 2\nq1 0 b 0\nq2 0 c 1\n"
BEIR_QRELS = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tc\t1\n"
TOPICS = "q1\tfirst question\nq2\tsecond\tquestion\n"
QUERIES = '{"_id": "q1", "text": "first question"}\n{"_id": "q2", "text": "second\\tquestion", "metadata": {"n": 1}}\n'
CORPUS = "".join(json.dumps({"_id": name, "title": name.upper(), "text": f"text of {name}"}) + "\n" for name in "abcd")
CRANFIELD = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "cranfield"


@pytest.fixture
def load(tmp_path):
    def load(files, path=".", **source):
        for name, content in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            raw = content if isinstance(content, bytes) else content.encode()
            file.write_bytes(gzip.compress(raw) if name.endswith(".gz") and raw[:2] != b"\x1f\x8b" else raw)
        shown_as = "trec" if path == "." else f"trec/{path}"
        return load_dataset(Source(tmp_path / path, shown_as, **source))

    return load


@pytest.mark.parametrize(
    ("format_name", "files", "path"),
    [
        ("trec", {"qrels.txt": QRELS, "topics.tsv": TOPICS}, "."),
        ("trec", {"qrels.txt": QRELS, "topics.tsv": TOPICS}, "qrels.txt"),
        ("trec", {"dl.qrels": QRELS, "topics.tsv": TOPICS.replace("\n", "\r\n")}, "dl.qrels"),
        ("trec", {"qrels.trec.gz": QRELS, "topics.tsv.gz": TOPICS}, "."),
        ("trec", {"dl.gz": QRELS, "queries.jsonl.gz": "\ufeff" + QUERIES}, "dl.gz"),
        ("beir", {"qrels/test.tsv": BEIR_QRELS, "queries.jsonl": QUERIES}, "."),
        ("beir", {"qrels/dev.tsv": BEIR_QRELS, "queries.jsonl": QUERIES}, "."),
        ("beir", {"qrels/dev.tsv": BEIR_QRELS, "qrels/train.tsv": "", "queries.jsonl": QUERIES}, "qrels/dev.tsv"),
        ("beir", {"qrels/test.tsv.gz": BEIR_QRELS, "queries.jsonl.gz": QUERIES}, "."),
        ("beir", {"judged.tsv.gz": BEIR_QRELS, "queries.tsv": TOPICS}, "judged.tsv.gz"),
    ],
)
def test_every_layout_gives_the_same_samples(load, format_name, files, path):
    data = load(files, path)
    assert data.problems == data.warnings == ()
    assert data.format == format_name
    assert [(sample.id, sample.user_input, sample.qrels) for sample in data.samples] == [
        ("q1", "first question", {"a": 2, "b": 0}),
        ("q2", "second\tquestion", {"c": 1}),
    ]


@pytest.mark.parametrize(("name", "documents"), [("trec", None), ("beir", 3)])
def test_the_good_folders_are_read_whole(name, documents):
    data = load_dataset(Source(Path(__file__).parent / "files" / name / "good", name))
    assert (data.format, data.problems, data.warnings) == (name, (), ())
    assert [sample.question for sample in data.samples] == ["How long does a refund take?", "Who pays for the return?"]
    assert (data.content.documents and len(data.content.documents)) == documents


def test_other_keys_of_a_query_are_kept_as_metadata(load):
    lines = (
        '{"query_id": "q1", "query": "x", "title": "t", "kind": "k"}\n{"id": "q2", "text": "y", "metadata": {"n": 1}}'
    )
    samples = load({"qrels": QRELS, "queries.jsonl": lines}).samples
    assert [sample.metadata for sample in samples] == [{"kind": "k", "title": "t"}, {"n": 1}]


def test_documents_come_from_the_folder_or_the_named_corpus(load, tmp_path):
    files = {
        "qrels.txt": QRELS,
        "topics.tsv": TOPICS,
        "corpus.jsonl": CORPUS,
        "other.jsonl.gz": CORPUS[: CORPUS.index("\n")],
    }
    documents = load(files).content.documents
    assert [(d.id, d.title, d.text) for d in documents][:2] == [("a", "A", "text of a"), ("b", "B", "text of b")]
    assert load(files, "qrels.txt").content.documents is None
    data = load(files, "qrels.txt", corpus=tmp_path / "other.jsonl.gz", corpus_shown_as="other.jsonl.gz")
    assert [document.id for document in data.content.documents] == ["a"]
    assert [warning.render() for warning in data.warnings] == [
        "other.jsonl.gz: 2 of 3 judged documents are not in the corpus: b, c"
    ]


def test_a_query_without_judgements_is_left_out_and_told(load):
    data = load({"qrels.txt": QRELS, "topics.tsv": TOPICS + "q3\tthird\nq4\tfourth\n"})
    assert [sample.id for sample in data.samples] == ["q1", "q2"]
    assert [warning.render() for warning in data.warnings] == [
        "trec/topics.tsv: 2 of 4 queries have no judgements and are skipped: q3, q4"
    ]


def test_a_negative_grade_is_unjudged(load):
    data = load({"qrels.txt": "q1 0 a 2\nq1 0 b -1\nq2 0 c -1\n", "topics.tsv": TOPICS})
    assert data.problems == ()
    assert len(data.warnings) == 1
    assert [sample.qrels for sample in data.samples] == [{"a": 2}, {}]


@pytest.mark.parametrize(
    ("files", "path", "problem"),
    [
        (
            {"topics.tsv": TOPICS, "qrels/README": ""},
            ".",
            "trec: no judgements in the folder: looked for qrels, qrels.txt",
        ),
        (
            {"qrels/dev.tsv": BEIR_QRELS, "qrels/train.tsv": BEIR_QRELS, "queries.jsonl": QUERIES},
            ".",
            "trec: qrels/ has no test.tsv, but dev.tsv, train.tsv. set path to one of them",
        ),
        (
            {"qrels.txt": QRELS},
            "qrels.txt",
            "trec/qrels.txt: no queries beside the judgements: looked for queries.jsonl, queries.tsv, topics.jsonl, "
            "topics.tsv, topics.txt (or with .gz) in trec. put one there",
        ),
        (
            {"qrels.txt": QRELS, "topics.tsv": "q1\tx\n"},
            ".",
            "trec/qrels.txt: 1 of 2 judged queries are not in trec/topics.tsv: q2",
        ),
        (
            {"qrels.txt": QRELS, "topics.tsv": "1\tx\n2\ty\n"},
            ".",
            "trec/qrels.txt: no judged query is in trec/topics.tsv: the judgements have 'q1', the queries '1'",
        ),
        (
            {"qrels.txt": QRELS, "topics.tsv": TOPICS, "corpus.jsonl": '{"_id": "A", "text": ""}'},
            ".",
            "trec/corpus.jsonl: no judged document occurs in the corpus: the judgements have 'a', the corpus 'A'",
        ),
        (
            {"qrels.txt": "1 0 a 1\n", "queries.jsonl": '{"_id": 1, "text": "x"}\n{"_id": 2, "text": "y"}\n'},
            ".",
            "trec/queries.jsonl:1: the id is a number (and those of 1 more lines). put ids in quotes",
        ),
    ],
)
def test_bad_content_is_one_clear_problem(load, files, path, problem):
    (found,) = load(files, path).problems
    assert found.render().startswith(problem)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("topics.tsv", TOPICS + "q1\tagain", "3: duplicate id 'q1', first at"),
        ("topics.tsv", TOPICS + "q3 third", "3: the line is not an id, a tab"),
        ("topics.tsv", TOPICS + "q3\t ", " the query 'q3' has no text"),
        ("topics.tsv", "", " the file is empty"),
        ("topics.tsv", b"q1\tx\nq2\t\xe9\n", "2: not UTF-8"),
        ("queries.jsonl", QUERIES + "{", "3: not valid JSON"),
        ("queries.jsonl", QUERIES + "[" * 100_000, "3: not valid JSON"),
        ("queries.jsonl", QUERIES + "3", "3: the line is not a JSON object"),
        ("queries.jsonl", QUERIES + '{"text": "x"}', "3: there is no '_id'"),
        ("queries.jsonl", QUERIES + '{"_id": "3"}', "3: there is no 'text'"),
        ("queries.jsonl", QUERIES + '{"_id": "3", "text": null}', "3: text: it should be text"),
        ("queries.jsonl", QUERIES + '{"_id": "", "text": "x"}', "3: _id: empty"),
        (
            "queries.jsonl.gz",
            gzip.compress(QUERIES.encode(), mtime=0)[:-12],
            " the gzip file is truncated or damaged: ",
        ),
        ("queries.jsonl.gz", b"\x1f\x8bno gzip", " the gzip file is truncated or damaged: "),
    ],
)
def test_bad_queries_are_one_clear_problem(load, name, content, problem):
    (found,) = load({"qrels.txt": QRELS, name: content}).problems
    assert found.render().startswith(f"trec/{name}:{problem}")


def test_bad_judgements_are_told_by_their_reader(load):
    data = load({"qrels.txt": "q1 0 a 1\nq1 0 b x\n", "topics.tsv": TOPICS}, "qrels.txt")
    assert [(problem.file, problem.line) for problem in data.problems] == [("trec/qrels.txt", 2)]


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with Cranfield")
def test_cranfield():
    data = load_dataset(Source(CRANFIELD, "cranfield"))
    assert data.problems == data.warnings == ()
    assert (data.format, len(data.samples), len(data.content.documents)) == ("trec", 225, 1400)
    assert data.samples[0].qrels["184"] == 3
    assert data.samples[0].qrels["486"] == 0
