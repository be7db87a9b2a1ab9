"""`evalspec remap` from files to files, in every format."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataset_contents import HOLDING_JUDGEMENTS
from evalspec.curation.remap.corpus import Chunk, load_corpus
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetDefaults, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Document, Sample

GOLDEN = Path(__file__).parent / "golden"
REAL_FILES = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "autorag"
SENTENCES = [
    "Refunds take fourteen days from the day on which the goods arrive. ",
    "A trial ends by itself after thirty days and costs nothing at all. ",
    "Invoices are sent on the first working day of every month by mail. ",
    "Support answers between nine and five, Berlin time, Monday to Friday. ",
    "Passwords are reset from the page of the account, never by telephone. ",
    "Data is kept in Frankfurt and deleted ninety days after the contract. ",
]
TEXT = "".join(SENTENCES)
STARTS = [sum(map(len, SENTENCES[:n])) for n in range(len(SENTENCES) + 1)]
FILE_NAMES = {"csv": "d.csv", "jsonl": "d.jsonl", "mixpeek": "d.json", "triples": "d.yaml", "unrag": "d.json"}


def chunk(name, first, last, **more):
    """The sentences from the first to the last, which is not among them."""
    span = [STARTS[first], STARTS[last] - 1]
    return {"id": name, "text": TEXT[STARTS[first] : STARTS[last]], "path": "faq.md", "start_end_idx": span} | more


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def read_lines(path):
    return list(map(json.loads, path.read_text().splitlines()))


@pytest.fixture
def folder(project):
    write_lines(
        project.folder / "old.jsonl", [chunk("o1", 0, 2), chunk("o2", 2, 4), chunk("same", 4, 5), chunk("o3", 5, 6)]
    )
    new = [chunk("n1", 0, 1), chunk("n2", 1, 3), chunk("n3", 3, 4), chunk("same", 4, 5)]
    write_lines(project.folder / "new.jsonl", new)
    asked = [("refund", ["o1"]), ("both", [["o1"], ["same", "o2"]]), ("graded", {"o2": 2, "same": 0})]
    lines = [{"id": name, "input": name, "expected": "", "relevant": relevant} for name, relevant in asked]
    write_lines(project.folder / "d.jsonl", lines)
    write_lines(
        project.folder / "lost.jsonl", [*lines, {"id": "data", "input": "?", "expected": "", "relevant": ["o3"]}]
    )
    return project.folder


def relevant(path):
    return {sample["id"]: sample.get("relevant") for sample in read_lines(path)}


def test_golden(project, folder):
    """A passage that is split, one of which a half is gone, and one of which only the last words are left."""
    end = STARTS[6] - 1
    tail = {
        "id": "tail",
        "text": TEXT[end - 17 :] + "Nothing more. " * 5,
        "path": "faq.md",
        "start_end_idx": [end - 17, end + 70],
    }
    write_lines(folder / "new.jsonl", [chunk("n1", 0, 1), chunk("n2", 1, 3), chunk("same", 4, 5), tail])
    (folder / "evals").mkdir()
    (folder / "lost.jsonl").rename(folder / "evals" / "rag.jsonl")
    done = project("remap", "old.jsonl", "new.jsonl", "evals/rag.jsonl", "-o", "evals/rag-2.jsonl", "--lossy")
    assert done.code == 0
    assert done.err + done.out == (GOLDEN / "terminal.txt").read_text(encoding="utf-8")


def test_the_dataset_is_written_over_the_new_chunks(project, folder):
    assert project("remap", "old.jsonl", "new.jsonl", "d.jsonl", "-o", "out.jsonl").code == 0
    assert relevant(folder / "out.jsonl") == {
        "refund": [["n1", "n2"]],
        "both": [["n1", "n2"], ["same", "n2", "n3"]],
        "graded": {"n2": 2, "n3": 2, "same": 0},
    }


def test_without_an_output_nothing_is_written(project, folder):
    before = sorted(folder.iterdir())
    done = project("remap", "old.jsonl", "new.jsonl", "d.jsonl")
    assert done.code == 0
    assert done.out.endswith("3 samples; nothing is written without -o\n")
    assert sorted(folder.iterdir()) == before


def test_lost_ground_truth_is_refused_line_by_line(project, folder):
    done = project("remap", "old.jsonl", "new.jsonl", "lost.jsonl", "-o", "out.jsonl")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "evalspec: lost.jsonl:4: relevant: 'o3' of query 'data' is not carried over: no new chunk has any of it. "
        "--lossy writes what is left"
    )
    assert not (folder / "out.jsonl").exists()
    done = project("remap", "old.jsonl", "new.jsonl", "lost.jsonl", "-o", "out.jsonl", "--lossy")
    assert done.code == 0
    assert "warning: lost.jsonl:4: relevant: 'o3' of query 'data' is not carried over" in done.err
    assert relevant(folder / "out.jsonl")["data"] is None


def test_json_says_all_of_it_once(project, folder):
    document = project("remap", "old.jsonl", "new.jsonl", "lost.jsonl", "-o", "o.jsonl", "--lossy", "--json").document
    assert {
        key: document[key] for key in ("schemaVersion", "exitCode", "from", "to", "path", "samples", "documents")
    } == {
        "schemaVersion": 1,
        "exitCode": 0,
        "from": "jsonl",
        "to": "jsonl",
        "path": "o.jsonl",
        "samples": 4,
        "documents": None,
    }
    chunks = {entry["old"]: entry for entry in document["chunks"]}
    assert [(new["id"], new["by"], new["ofNew"]) for new in chunks["o1"]["new"]] == [
        ("n1", "span", 1),
        ("n2", "span", 0.5),
    ]
    assert (chunks["o1"]["held"], chunks["same"]["new"][0]["by"], chunks["o3"]["new"]) == (1, "same", [])
    assert document["lost"] == [
        {"sample": "data", "line": 4, "old": "o3", "grade": 1, "why": "no new chunk has any of it", "best": None}
    ]
    assert [warning["line"] for warning in document["warnings"]] == [None, 4]
    failed = project("remap", "old.jsonl", "new.jsonl", "lost.jsonl", "--json")
    assert (failed.code, [error["line"] for error in failed.document["errors"]]) == (2, [4])


def old_documents():
    return [Document(record["id"], record["text"]) for record in read_lines(Path("old.jsonl"))]


@pytest.mark.parametrize("name", HOLDING_JUDGEMENTS)
def test_every_format_is_written_as_it_was_read_and_with_the_new_corpus(project, folder, name):
    """Here each old chunk becomes one new one, which every format can hold."""
    write_lines(folder / "renamed.jsonl", [chunk(f"n-{n}", n, n + 1) for n in range(6)])
    write_lines(folder / "old.jsonl", [chunk(f"o-{n}", n, n + 1) for n in range(6)])
    path = folder / FILE_NAMES.get(name, "d")
    samples = [Sample("1", "What?", qrels={"o-1": 1}), Sample("2", "Why?", qrels={"o-4": 1})]
    defaults = DatasetDefaults(settings={"scopePrefix": "eval:x:"} if name == "unrag" else {})
    losses = DATASETS.find(name).list_losses(DatasetContent(samples, old_documents(), defaults))
    documents = None if any("documents" in loss for loss in losses) else old_documents()
    DATASETS.find(name).write(DatasetContent(samples, documents, defaults), path)
    target = FILE_NAMES.get(name, "d").replace("d", "out", 1)
    done = project("remap", "old.jsonl", "renamed.jsonl", path.name, "-o", target)
    assert done.code == 0, done.err
    data = load_dataset(Source(folder / target, target))
    assert (data.problems, data.format) == ((), name)
    assert [sample.qrels for sample in data.samples] == [{"n-1": 1}, {"n-4": 1}]
    held: Any = data.content.documents and [document.id for document in data.content.documents]
    assert held == (documents and [f"n-{n}" for n in range(6)])


def test_groups_that_the_format_cannot_hold_are_refused_and_kept_in_another(project, folder):
    (folder / "qrels.txt").write_text("1 0 o1 1\n")
    (folder / "topics.tsv").write_text("1\twhat\n")
    done = project("remap", "old.jsonl", "new.jsonl", "qrels.txt", "-o", "out")
    assert done.code == 2
    assert "qrels.txt: trec cannot hold which relevant documents are alternatives (1 of 1 samples). " in done.err
    assert "--to (jsonl supports groups), or use --lossy to write the rest" in done.err
    assert (
        project("remap", "old.jsonl", "new.jsonl", "qrels.txt", "-o", "out.jsonl", "--to", "jsonl", "--lossy").code == 0
    )
    assert relevant(folder / "out.jsonl") == {"1": [["n1", "n2"]]}


def test_corpora_of_every_kind_say_the_same(project, folder):
    records = read_lines(folder / "new.jsonl")
    ids, texts = [r["id"] for r in records], [r["text"] for r in records]
    spans = [r["start_end_idx"] for r in records]
    pages = [{"page": -1, "path": "faq.md"} for _ in records]
    table = {"doc_id": ids, "contents": texts, "path": ["faq.md"] * 4, "start_end_idx": spans, "metadata": pages}
    (folder / "autorag").mkdir()
    pq.write_table(pa.table(table), folder / "autorag" / "corpus.parquet")
    (folder / "beir").mkdir()
    beir = [{"_id": r["id"], "title": "", "text": r["text"], "metadata": {"path": "faq.md"}} for r in records]
    write_lines(folder / "beir" / "corpus.jsonl", beir)
    documents = [{"sourceId": r["id"], "content": r["text"]} for r in records]
    query = {"id": "1", "query": "?", "relevant": {"sourceIds": []}}
    unrag = {
        "version": "1",
        "id": "u",
        "defaults": {"scopePrefix": "eval:u:"},
        "documents": documents,
        "queries": [query],
    }
    (folder / "unrag.json").write_text(json.dumps(unrag))
    (folder / "new.tsv").write_text("".join(f"{r['id']}\t{r['text']}\n" for r in records))
    expected = None
    for number, kind in enumerate(("new.jsonl", "autorag", "beir", "unrag.json", "new.tsv")):
        done = project("remap", "old.jsonl", kind, "d.jsonl", "-o", f"out{number}.jsonl")
        assert done.code == 0, done.err
        expected = expected or relevant(folder / "out0.jsonl")
        assert relevant(folder / f"out{number}.jsonl") == expected


def test_places_are_read_as_autorag_writes_them(tmp_path):
    """The last character is included, page -1 is the whole file, and [0, 0] is a chunk that was not found in it."""
    rows = [([3, 9], -1, "a.md"), ([0, 0], 2, "a.md"), (None, None, None)]
    columns = {"doc_id": ["1", "2", "3"], "contents": ["A", "B", "C"], "start_end_idx": [span for span, _, _ in rows]}
    inner = pa.array([{"page": page, "path": path} for _, page, path in rows])
    pq.write_table(pa.table(columns | {"metadata": inner}), tmp_path / "corpus.parquet")
    corpus = load_corpus(tmp_path, "c", problems := [], [])
    assert (problems, corpus.shown_as) == ([], "c/corpus.parquet")
    assert corpus.chunks == (Chunk("1", "A", "a.md", None, (3, 10)), Chunk("2", "B", "a.md", 2), Chunk("3", "C"))


def test_a_chunk_judged_not_relevant_that_is_gone_is_told_and_no_failure(project, folder):
    line = {"id": "q", "input": "?", "expected": "", "relevant": {"same": 1, "o3": 0}}
    write_lines(folder / "zero.jsonl", [line])
    done = project("remap", "old.jsonl", "new.jsonl", "zero.jsonl", "-o", "out.jsonl")
    assert done.code == 0
    assert "'o3' of query 'q' is not carried over: no new chunk has any of it; it was judged not relevant" in done.err
    assert relevant(folder / "out.jsonl") == {"q": {"same": 1}}


def test_autorag_is_read_with_the_old_corpus_though_the_new_one_lies_beside_it(project, folder):
    """And what its rows say of their passages is made again."""
    for name in ("old", "new"):
        records = read_lines(folder / f"{name}.jsonl")
        spans = [r["start_end_idx"] for r in records]
        columns = {"doc_id": [r["id"] for r in records], "contents": [r["text"] for r in records]}
        table = pa.table(columns | {"path": ["faq.md"] * 4, "start_end_idx": spans})
        pq.write_table(table, folder / ("corpus.parquet" if name == "new" else "old.parquet"))
    old_texts = [[r["text"]] for r in read_lines(folder / "old.jsonl")]
    qa = {"qid": ["1"], "query": ["q"], "retrieval_gt": [[["o2"]]], "generation_gt": [["x"]]}
    pq.write_table(pa.table(qa | {"retrieval_gt_contents": [old_texts[1:2]]}), folder / "qa.parquet")
    done = project("remap", "old.parquet", "corpus.parquet", "qa.parquet", "-o", "out")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("wrote 1 sample and 4 documents to out\n")
    (sample,) = load_dataset(Source(folder / "out", "out")).samples
    assert sample.groups == (("n2", "n3"),)
    assert sample.metadata["passages"]["n3"] == {"path": "faq.md", "start_end_idx": [STARTS[3], STARTS[4] - 1]}
    assert sample.metadata["retrieval_gt_contents"] == [[TEXT[STARTS[1] : STARTS[3]], SENTENCES[3]]]


def test_what_was_said_of_the_old_block_is_left_out_and_told(project, folder):
    (folder / "d.yaml").write_text(
        "- question: refund?\n  expected_block: {block_id: o1, document_id: terms, page_range: [3, 4]}\n"
    )
    write_lines(folder / "one.jsonl", [chunk("whole", 0, 6)])
    done = project("remap", "old.jsonl", "one.jsonl", "d.yaml", "-o", "out.yaml")
    assert done.err == "warning: d.yaml: metadata of 1 sample about the old chunks was removed\n"
    (sample,) = load_dataset(Source(folder / "out.yaml", "out.yaml")).samples
    assert (sample.qrels, sample.metadata) == ({"whole": 1}, {})


def test_spans_that_the_texts_contradict_are_told(project, folder):
    write_lines(folder / "edited.jsonl", [chunk("n", 0, 4, text=" ".join(reversed(TEXT.split())))])
    done = project("remap", "old.jsonl", "edited.jsonl", "d.jsonl")
    assert (
        "warning: edited.jsonl: start_end_idx: spans overlap whose texts have little in common: 'o1' and 'n'"
        in done.err
    )


OLD, NEW = "old.jsonl", "new.jsonl"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl", NEW, "d.jsonl"], "none.jsonl: no such file. check the path"),
        ([OLD, "none.parquet", "d.jsonl"], "none.parquet: no such file"),
        (
            [OLD, "here", "d.jsonl"],
            "here: there is no corpus.parquet or corpus.jsonl or corpus.jsonl.gz in this folder",
        ),
        ([OLD, "pipe", "d.jsonl"], "pipe: this is not a regular file. name the file of the corpus"),
        (
            [OLD, "order.jsonl", "d.jsonl"],
            "order.jsonl:3: start_end_idx: [5, 2] is not a valid range. write the fi",
        ),
        (
            [OLD, "words.jsonl", "d.jsonl"],
            "words.jsonl:1: start_end_idx: '0-5' is not a pair of integers. write [first,",
        ),
        ([OLD, "path.jsonl", "d.jsonl"], "path.jsonl:1: path: 7 is not text. write the path of the file as text"),
        ([OLD, "page.jsonl", "d.jsonl"], "page.jsonl:1: page: True is not a page. write an integer or text"),
        (
            [OLD, "rows.parquet", "d.jsonl"],
            "rows.parquet:2: start_end_idx: [1] is not a pair of integers. write [first,",
        ),
        (
            [OLD, "unrag.json", "d.jsonl"],
            "unrag.json:8: start_end_idx: [4] is not a pair of integers. write [first, last",
        ),
        ([OLD, "bare.json", "d.jsonl"], "bare.json: there are no documents. name the file with the documents"),
        (
            ["foreign.jsonl", NEW, "d.jsonl"],
            "d.jsonl: relevant: no relevant id occurs in foreign.jsonl: the dataset has 'o1', the corpus 'x'",
        ),
        (
            [OLD, NEW, "plain.jsonl"],
            "plain.jsonl: no sample has relevant documents. there is nothing to carry",
        ),
        ([OLD, NEW, "d.jsonl", "-o", "here"], "here: already exists. choose another name"),
        (
            [OLD, OLD, "d.jsonl", "-o", "no/out.jsonl"],
            "no/out.jsonl: cannot be written: No such file or directory. crea",
        ),
        (
            [OLD, NEW, "d.jsonl", "-o", "out.jsonl", "--to", "jsnol"],
            "--to: unknown dataset format 'jsnol'. did you mean",
        ),
        (
            [OLD, NEW, "d.jsonl", "--min-overlap", "2"],
            "Invalid value for '--min-overlap' (env var: 'EVALSPEC_MIN_OVERLAP'): 2.0 is not in",
        ),
    ],
)
def test_mistakes_end_with_one_line_and_nothing_written(project, folder, arguments, message):
    good = {"id": "x", "text": "t"}
    write_lines(folder / "order.jsonl", [good, good | {"id": "y", "start_end_idx": [5, 2]}])
    (folder / "order.jsonl").write_text((folder / "order.jsonl").read_text().replace("\n", "\n\n", 1))
    write_lines(folder / "words.jsonl", [good | {"start_end_idx": "0-5"}])
    write_lines(folder / "path.jsonl", [good | {"path": 7}])
    write_lines(folder / "page.jsonl", [good | {"metadata": {"page": True}}])
    write_lines(folder / "foreign.jsonl", [good])
    write_lines(folder / "plain.jsonl", [{"input": "q", "expected": "x"}])
    rows = {"doc_id": ["a", "b"], "contents": ["A", "B"], "start_end_idx": [[0, 1], [1]]}
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    query = {"id": "1", "query": "?", "relevant": {"sourceIds": []}}
    head = {"version": "1", "id": "u", "defaults": {"scopePrefix": "eval:u:"}}
    bad = {"sourceId": "a", "content": "A", "metadata": {"start_end_idx": [4]}}
    (folder / "bare.json").write_text(json.dumps(head | {"queries": [query]}))
    (folder / "unrag.json").write_text(json.dumps(head | {"documents": [bad], "queries": [query]}, indent=1))
    (folder / "here").mkdir()
    os.mkfifo(folder / "pipe")
    before = sorted(folder.rglob("*"))
    done = project("remap", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"evalspec: {message}"), done.err
    assert done.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(not REAL_FILES.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with AutoRAG's files")
class TestRealFiles:
    KOREAN = str(REAL_FILES / "autorag_gen_ko")

    def rechunk(self, folder, size):
        """The file that the corpus was made of, as far as its chunks hold it, cut anew."""
        rows = pq.ParquetFile(REAL_FILES / "autorag_gen_ko" / "corpus.parquet").read().to_pylist()
        characters = {}
        for row in rows:
            start, end = row["start_end_idx"]
            body = row["contents"][start - end - 1 :]
            characters |= dict(enumerate(body, start))
        text = "".join(characters.get(place, "\n") for place in range(max(characters) + 1))
        starts = range(0, len(text), size)
        columns = {
            "doc_id": [f"n{start}" for start in starts],
            "contents": [text[start : start + size] for start in starts],
            "path": [rows[0]["path"]] * len(starts),
            "start_end_idx": [[start, min(start + size, len(text)) - 1] for start in starts],
            "metadata": [{"page": -1}] * len(starts),
        }
        pq.write_table(pa.table(columns), folder / "spans.parquet")
        columns["start_end_idx"] = [[0, 0]] * len(starts)
        pq.write_table(pa.table(columns), folder / "texts.parquet")

    def test_onto_itself_nothing_changes(self, project):
        done = project("remap", f"{self.KOREAN}/corpus.parquet", self.KOREAN, self.KOREAN, "-o", "out")
        assert (done.code, done.err) == (0, "")
        before, after = (load_dataset(Source(Path(path), "d")) for path in (self.KOREAN, "out"))
        assert after.content == before.content

    @pytest.mark.parametrize("size", [150, 500, 1400])
    def test_a_new_chunking_is_found_by_span_and_by_text_alike(self, project, size):
        self.rechunk(project.folder, size)
        found = {}
        for corpus in ("spans", "texts"):
            document = project("remap", self.KOREAN, f"{corpus}.parquet", self.KOREAN, "--json").document
            assert document["lost"] == []
            assert not any(new["doubtful"] for entry in document["chunks"] for new in entry["new"])
            found[corpus] = {entry["old"]: {new["id"] for new in entry["new"]} for entry in document["chunks"]}
        assert len(found["spans"]) == 20
        same = sum(found["spans"][old] == found["texts"][old] for old in found["spans"])
        assert same >= 15  # the prefix of each text counts as text that the new corpus has not
        assert all(found["spans"][old] & found["texts"][old] for old in found["spans"])
