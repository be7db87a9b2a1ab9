import json
import tracemalloc
from itertools import count, pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

import evalspec
from dataset_contents import HOLDING_JUDGEMENTS, SAMPLES_OF_ANY_KIND, WORDS, WRITTEN
from evalspec.base.errors import InvalidInput
from evalspec.cli.main import run
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.datasets.losses import list_default_losses
from evalspec.model import Document, Message, Sample

FILE_NAMES = {"csv": "d.csv", "jsonl": "d.jsonl", "mixpeek": "d.json", "triples": "d.yaml", "unrag": "d.json"}
NUMBERS = count()
LINE = '{"id": "1", "input": "q", "expected": "", "relevant": {"a": 2}}\n'
TAGGED = '{"id": "1", "input": "q", "expected": "x", "relevant": {"a": 2}, "tags": ["t"]}\n'


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def folder(project):
    (project.folder / "d.jsonl").write_text(LINE)
    (project.folder / "tagged.jsonl").write_text(TAGGED)
    return project.folder


def test_a_dataset_is_written_in_the_other_format(project, folder):
    done = project("convert", "d.jsonl", "out", "--to", "trec")
    assert (done.code, done.out, done.err) == (0, "wrote 1 sample to out\n", "")
    assert (folder / "out" / "qrels.txt").read_text() == "1 0 a 2\n"
    assert (folder / "out" / "topics.tsv").read_text() == "1\tq\n"
    done = project("convert", "out", "back.jsonl", "--to", "JSONL")
    assert (folder / "back.jsonl").read_text() == LINE
    assert names(folder) == ["back.jsonl", "d.jsonl", "out", "out/qrels.txt", "out/topics.tsv", "tagged.jsonl"]


TICKETS = "Ticket No,subject,solution\n7,How long is the trial?,21 days\n"
NAMED = ("--field", "input=subject", "--field", "expected=solution", "--field", "id=Ticket No")


def test_any_table_is_converted_by_the_names_of_its_columns(project, folder, monkeypatch):
    (folder / "tickets.csv").write_text(TICKETS)
    refused = project("convert", "tickets.csv", "out.jsonl", "--to", "jsonl")
    assert refused.code == 2 and "has Ticket No, subject, solution. Set `fields: {input: COLUMN}`" in refused.err
    assert "(convert: --field input=COLUMN)" in refused.err
    assert project("convert", "tickets.csv", "out.jsonl", "--to", "jsonl", *NAMED).code == 0
    wanted = {"id": "7", "input": "How long is the trial?", "expected": "21 days"}
    assert json.loads((folder / "out.jsonl").read_text()) == wanted
    evalspec.convert("tickets.csv", "again.jsonl", to="jsonl", fields={"input": "subject", "expected": "solution"})
    assert json.loads((folder / "again.jsonl").read_text())["input"] == wanted["input"]
    monkeypatch.setenv("EVALSPEC_FIELD", "input=subject;expected=solution;id=Ticket No")
    assert project("convert", "tickets.csv", "out.jsonl", "--to", "jsonl", "--force").code == 0
    assert json.loads((folder / "out.jsonl").read_text()) == wanted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--field", "input"), "'input' is not FIELD=COLUMN, such as input=question"),
        (("--field", "inputs=subject"), "unknown field 'inputs'. did you mean 'input'?"),
        (("--field", "input=subject", "--from", "jsonl"), "files of jsonl have no columns to name"),
    ],
)
def test_a_field_that_names_nothing_is_refused(project, folder, options, says):
    (folder / "tickets.csv").write_text(TICKETS)
    done = project("convert", "tickets.csv", "out.jsonl", "--to", "jsonl", *options)
    assert done.code == 2 and says in done.err and done.err.count("\n") == 1
    assert not (folder / "out.jsonl").exists()


def test_losses_are_refused_and_with_lossy_told(project, folder):
    done = project("convert", "tagged.jsonl", "out", "--to", "trec")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "evalspec: tagged.jsonl: trec cannot hold the right answers (1 of 1 samples). pass --lossy to write the rest",
        "evalspec: tagged.jsonl: trec cannot hold the tags (1 of 1 samples). pass --lossy to write the rest",
    ]
    assert names(folder) == ["d.jsonl", "tagged.jsonl"]
    done = project("convert", "tagged.jsonl", "out", "--to", "trec", "--lossy")
    assert (done.code, done.out) == (0, "wrote 1 sample to out\n")
    assert done.err.splitlines() == [
        "warning: tagged.jsonl: trec cannot hold the right answers (1 of 1 samples)",
        "warning: tagged.jsonl: trec cannot hold the tags (1 of 1 samples)",
    ]


@pytest.mark.parametrize("target", sorted({*WRITTEN} - {"jsonl"}))
def test_which_questions_can_be_answered_is_a_loss_but_in_jsonl(project, folder, target):
    project.dataset("qa", [{"id": "a", "answerable": False}, {"id": "b"}])
    refused = project("convert", "qa.jsonl", "out", "--to", target)
    assert (refused.code, f"{target} cannot hold which questions can be answered (1 of 2 samples)" in refused.err) == (
        2,
        True,
    )
    assert project("convert", "qa.jsonl", "again.jsonl", "--to", "jsonl").code == 0
    lines = map(json.loads, (folder / "again.jsonl").read_text().splitlines())
    assert [line.get("answerable") for line in lines] == [False, None]


def test_what_is_written_is_counted_not_what_was_read(project, folder):
    lines = [{"id": name, "input": "q", "expected": name, "relevant": list(name)} for name in ("a", "ab", "")]
    project.dataset("three", [line | {"id": line["id"] or "none"} for line in lines])
    done = project("convert", "three.jsonl", "out.yaml", "--to", "triples", "--lossy")
    assert (done.code, done.out) == (0, "wrote 1 of 3 samples to out.yaml\n")
    document = project("convert", "three.jsonl", "out", "--to", "trec", "--lossy", "--json").document
    assert (document["samples"], document["documents"]) == (2, None)
    (folder / "out" / "corpus.jsonl").write_text('{"_id": "a", "text": "A"}\n{"_id": "b", "text": "B"}\n')
    assert project("convert", "out", "beir", "--to", "beir").out == "wrote 2 samples and 2 documents to beir\n"
    document = project("convert", "out", "back.jsonl", "--to", "jsonl", "--lossy", "--json").document
    assert (document["samples"], document["documents"]) == (2, 0)


@pytest.mark.parametrize("name", WRITTEN)
@given(given_samples=SAMPLES_OF_ANY_KIND, ids=st.lists(WORDS, max_size=3, unique=True))
def test_as_many_are_counted_as_are_read_back(name, given_samples, ids, tmp_path_factory):
    judged = [replace(s, qrels=s.qrels and {d: abs(grade) for d, grade in s.qrels.items()}) for s in given_samples]
    content = DatasetContent(judged, [Document(document, "text") for document in ids] or None)
    path = tmp_path_factory.getbasetemp() / f"count-{next(NUMBERS)}" / FILE_NAMES.get(name, "d")
    path.parent.mkdir()
    try:
        written = DATASETS.find(name).write(content, path)
    except InvalidInput:
        return
    data = load_dataset(Source(path, "d"), name)
    assert written == (len(data.samples), len(data.content.documents or ())), data.problems


def test_json_is_one_document_in_success_and_failure(project, folder):
    document = project("convert", "tagged.jsonl", "out", "--to", "beir", "--lossy", "--json").document
    assert document == {
        "schemaVersion": 1,
        "exitCode": 0,
        "from": "jsonl",
        "to": "beir",
        "path": "out",
        "samples": 1,
        "available": 1,
        "documents": None,
        "losses": [
            "beir cannot hold the right answers (1 of 1 samples)",
            "beir cannot hold the tags (1 of 1 samples)",
        ],
        "warnings": [],
    }
    failed = project("convert", "tagged.jsonl", "other", "--to", "beir", "--json")
    assert (failed.code, [error["file"] for error in failed.document["errors"]]) == (2, ["tagged.jsonl"] * 2)


def test_every_problem_of_the_source_is_told(project, folder):
    (folder / "bad.jsonl").write_text('{"input": 3, "expected": "a"}\nx\n')
    done = project("convert", "bad.jsonl", "out", "--to", "beir")
    assert (done.code, done.out) == (2, "")
    assert [line.split(": ")[1] for line in done.err.splitlines()] == ["bad.jsonl:1", "bad.jsonl:2"]
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["d.jsonl", "out", "--to", "jsnol"], "--to: unknown dataset format 'jsnol'. did you mean 'jsonl'?"),
        (["d.jsonl", "out", "--to", "beir", "--from", "x"], "d.jsonl: format: unknown dataset format 'x'"),
        (["none.jsonl", "out", "--to", "beir"], "none.jsonl: no such file"),
        (
            ["d.jsonl", "tagged.jsonl", "--to", "jsonl"],
            "tagged.jsonl: already exists. choose another name, or pass --force",
        ),
        (["d.jsonl", "out.tsv", "--to", "beir"], "out.tsv: beir is a folder of several files. use a folder, for ex"),
        (["d.jsonl", "a/b/out", "--to", "beir"], "a/b/out: cannot be written: No such file or directory. create its"),
        (["d.jsonl", "d.jsonl/x", "--to", "beir"], "d.jsonl/x: cannot be written: Not a directory"),
    ],
)
def test_mistakes_end_with_one_line_and_nothing_written(project, folder, arguments, message):
    done = project("convert", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"evalspec: {message}")
    assert done.err.count("\n") == 1
    assert names(folder) == ["d.jsonl", "tagged.jsonl"]
    assert (folder / "tagged.jsonl").read_text() == TAGGED


def test_force_replaces_a_file_and_a_folder_of_the_same_files(project, folder):
    assert project("convert", "d.jsonl", "tagged.jsonl", "--to", "jsonl", "--force").code == 0
    assert (folder / "tagged.jsonl").read_text() == LINE
    assert project("convert", "d.jsonl", "out", "--to", "trec").code == 0
    (folder / "d.jsonl").write_text(LINE.replace('"a"', '"b"'))
    assert project("convert", "d.jsonl", "out", "--to", "trec", "--force").code == 0
    assert (folder / "out" / "qrels.txt").read_text() == "1 0 b 2\n"


def test_force_does_not_delete_what_it_does_not_write(project, folder):
    (folder / "out").mkdir()
    (folder / "out" / "thesis.txt").write_text("mine")
    for target in ("trec", "jsonl"):
        done = project("convert", "d.jsonl", "out", "--to", target, "--force")
        assert done.code == 2
        assert "--force would delete thesis.txt" in done.err
    assert names(folder / "out") == ["thesis.txt"]


def test_half_a_character_is_named_not_a_crash(project, folder):
    (folder / "half.jsonl").write_text(
        '{"id": "1", "input": "q", "expected": "x", "relevant": ["a"], "metadata": {"k": "\\udc00"}}'
    )
    for target in ("beir", "autorag"):
        done = project("convert", "half.jsonl", "out", "--to", target, "--lossy")
        assert done.code == 2
        assert "half.jsonl: a text has a lone surrogate" in done.err
    assert names(folder) == ["d.jsonl", "half.jsonl", "tagged.jsonl"]


def test_autorag_with_its_corpus_and_its_flat_lists(project, folder):
    qa = {"qid": ["1"], "query": ["q"], "retrieval_gt": [["a", "b"]], "generation_gt": ["x"]}
    pq.write_table(pa.table(qa), folder / "qa.parquet")
    pq.write_table(pa.table({"doc_id": ["a", "b"], "contents": ["A", "B"]}), folder / "docs.parquet")
    arguments = ("convert", "qa.parquet", "out.jsonl", "--to", "jsonl", "--corpus", "docs.parquet", "--lossy")
    assert "--retrieval-gt-1d" in project(*arguments).err
    done = project(*arguments, "--retrieval-gt-1d", "or")
    assert (done.code, done.out) == (0, "wrote 1 sample to out.jsonl\n")
    assert json.loads((folder / "out.jsonl").read_text())["relevant"] == [["a", "b"]]
    assert "docs.parquet: doc_id" not in done.err


LETTERS = st.text("abc", min_size=1, max_size=4)
TEXTS = st.text(min_size=1, max_size=8).filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(LETTERS, inner, max_size=2),
    max_leaves=4,
)
METADATA = st.dictionaries(LETTERS | TEXTS, VALUES, min_size=1, max_size=3)
GRADES = st.dictionaries(LETTERS, st.integers(0, 4), min_size=1, max_size=3)
FEATURES = {
    "ids": lambda draw, s: replace(s, id=draw(TEXTS)),
    "question": lambda draw, s: replace(s, user_input=draw(TEXTS)),
    "conversation": lambda draw, s: replace(s, user_input=(Message("system", ""), Message("user", draw(TEXTS)))),
    "answer": lambda draw, s: replace(s, references=(draw(TEXTS),)),
    "answers": lambda draw, s: replace(s, references=tuple(draw(st.lists(TEXTS, min_size=2, max_size=3)))),
    "contexts": lambda draw, s: replace(s, retrieved_contexts=tuple(draw(st.lists(st.text(max_size=3), max_size=2)))),
    "passages": lambda draw, s: replace(s, reference_contexts=tuple(draw(st.lists(TEXTS, max_size=2)))),
    "grades": lambda draw, s: replace(s, qrels=draw(GRADES), groups=None),
    "relevant": lambda draw, s: replace(
        s, qrels=dict.fromkeys(draw(st.lists(LETTERS | TEXTS, max_size=3)), 1), groups=None
    ),
    "groups": lambda draw, s: replace(s, qrels={"a": 1, "b": 1, "c": 1}, groups=(("a", "b"), ("c",))),
    "unjudged": lambda draw, s: replace(s, qrels=None, groups=None),
    "tags": lambda draw, s: replace(s, tags=tuple(draw(st.lists(TEXTS, max_size=3, unique=True)))),
    "metadata": lambda draw, s: replace(s, metadata=draw(METADATA)),
    "answerable": lambda draw, s: replace(s, answerable=draw(st.booleans())),
}


@st.composite
def contents(draw, *formats):
    """As rich a content as all the formats can hold, from features put in one after the other, each if it is held."""
    ids = draw(st.lists(LETTERS, min_size=1, max_size=3, unique=True))
    content = DatasetContent([Sample(name, f"what is {name}?", qrels={name: 1}) for name in ids])
    features = draw(st.permutations([*FEATURES, "documents", "titles", "document metadata"]))
    for feature in features:
        richer = enrich(draw, content, feature)
        unique = len({sample.id for sample in richer.samples}) == len(ids)
        if unique and not any(dataset_format.list_losses(richer) for dataset_format in formats):
            content = richer
    return content


def enrich(draw, content, feature):
    if feature in FEATURES:
        return structs.replace(
            content, samples=[FEATURES[feature](draw, s) if draw(st.booleans()) else s for s in content.samples]
        )
    judged = dict.fromkeys(document for sample in content.samples for document in sample.qrels or ())
    documents = content.documents or [Document(name, draw(TEXTS)) for name in [*judged, "never judged"]]
    if feature == "titles":
        documents = [replace(document, title=draw(st.text(max_size=3))) for document in documents]
    if feature == "document metadata":
        documents = [replace(document, metadata=draw(METADATA)) for document in documents]
    return structs.replace(content, documents=documents)


def comparable(content):
    samples = [
        (
            s.id,
            s.user_input,
            s.references,
            s.retrieved_contexts,
            s.reference_contexts,
            s.qrels,
            s.groups,
            s.tags,
            s.metadata,
            s.answerable,
        )
        for s in content.samples
    ]
    documents = content.documents and [(d.id, d.text, d.title, d.metadata) for d in content.documents]
    return samples, documents


def loaded(path):
    data = load_dataset(Source(path, "d"))
    assert data.problems == ()
    return data


# Through the one that holds everything, and through a neighbour: what is between two formats is the same for all.
PAIRS = {*((name, "jsonl") for name in HOLDING_JUDGEMENTS), *pairwise([*HOLDING_JUDGEMENTS, HOLDING_JUDGEMENTS[0]])}


@pytest.mark.parametrize(("first", "second"), sorted(pair for pair in PAIRS if pair[0] != pair[1]))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_there_and_back_is_the_same(first, second, data, tmp_path_factory):
    formats = [DATASETS.find(first), DATASETS.find(second)]
    content = data.draw(contents(*formats))
    folder = tmp_path_factory.getbasetemp() / f"convert-{next(NUMBERS)}"
    paths = [folder / f"{step}" / FILE_NAMES.get(name, "d") for step, name in enumerate((first, second, first))]
    for path in paths:
        path.parent.mkdir(parents=True)
    formats[0].write(content, paths[0])
    assert comparable(loaded(paths[0]).content) == comparable(content)
    for source, target, name in ((paths[0], paths[1], second), (paths[1], paths[2], first)):
        read = loaded(source)
        added = ["--lossy"] if list_default_losses(read.content) else []  # some formats cannot do without an id
        assert run(["convert", str(source), str(target), "--to", name, *added]) == 0
        assert loaded(target).format == name
        assert comparable(loaded(target).content) == comparable(content)


@pytest.mark.parametrize("target", ["jsonl", "trec", "unrag", "mixpeek"])
def test_memory_does_not_grow_with_the_samples(project, target):
    line = {"input": "why " * 2500, "expected": "", "context": ["x" * 10_000], "relevant": ["d1"]}
    with (project.folder / "big.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"s{n}"} | line) + "\n" for n in range(2000))
    tracemalloc.start()
    done = project("convert", "big.jsonl", FILE_NAMES.get(target, "out"), "--to", target, "--lossy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.code == 0
    assert peak < 25_000_000, "the texts take 40 MB"
