"""`evalspec score`: files in, numbers out."""

import gzip
import json
import subprocess
import sys

import pytest

QRELS = "q1 0 a 2\nq1 0 b 1\nq1 0 x 0\nq2 0 c 1\nq3 0 d 1\nq4 0 e 0\n"
RUN = "q1 Q0 x 1 9 t\nq1 Q0 a 2 8 t\nq1 Q0 b 3 7 t\nq2 Q0 y 1 9 t\nq2 Q0 c 2 8 t\nq4 Q0 e 1 9 t\nq9 Q0 a 1 9 t\n"


@pytest.fixture
def files(project):
    """qrels.txt and run.txt: q3 is missing from the run, q4 has nothing relevant, q9 no judgements."""
    (project.folder / "qrels.txt").write_text(QRELS)
    (project.folder / "run.txt").write_text(RUN)
    return project


def table(outcome):
    """{metric: (value, queries)} of a table."""
    rows = [line.split() for line in outcome.out.splitlines()[1:]]
    return {row[0]: (row[1], row[-1]) for row in rows}


def test_without_options(files):
    outcome = files("score", "qrels.txt", "run.txt")
    assert outcome.code == 0
    assert table(outcome) == {
        "nDCG@10": ("0.4335", "3"),
        "Recall@100": ("0.6667", "3"),
        "Precision@10": ("0.1000", "3"),
        "AP": ("0.3611", "3"),
        "RR": ("0.3333", "3"),
    }
    assert "queries missing from run.txt, which count 0: 1 of 4 (q3)" in outcome.err
    assert "queries of run.txt without judgements, left out: 1" in outcome.err
    assert "queries without a relevant document, not in the means (trec_eval counts them as 0): 1 of 4" in outcome.err


def test_metrics_are_named_as_in_a_manifest_and_printed_canonically(files):
    asked = ["-m", "map", "-m", "ndcg_at_5", "-m", "precision@1", "-m", "f0.5", "-m", "hit_rate", "-m", "R-precision"]
    outcome = files("score", "qrels.txt", "run.txt", *asked, "--k", "2,3")
    expected = ["AP@2", "AP@3", "nDCG@5", "Precision@1", "F0.5@2", "F0.5@3", "Success@2", "Success@3", "Rprec@2"]
    assert list(table(outcome))[:9] == expected


def test_cutoffs_of_the_default_metrics(files):
    expected = ["nDCG@1", "nDCG@3", "Recall@1", "Recall@3", "Precision@1", "Precision@3", "AP", "RR"]
    assert list(table(files("score", "qrels.txt", "run.txt", "--k", "1, 3"))) == expected


def test_min_grade(files):
    values = table(files("score", "qrels.txt", "run.txt", "--min-grade", "2", "-m", "RR", "-m", "Recall@3"))
    assert values == {"RR": ("0.5000", "1"), "Recall@3": ("1.0000", "1")}


def test_interval(files):
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "--interval")
    assert "95 % interval" in outcome.out
    assert "0.3333  0.0000 – 0.5000" in outcome.out


def test_per_query(files):
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "-m", "Judged@1", "--per-query")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[:5] == [
        ["query", "RR", "Judged@1"],
        ["q1", "0.5000", "1.0000"],
        ["q2", "0.5000", "0.0000"],
        ["q3", "0.0000", "–"],
        ["q4", "–", "1.0000"],
    ]
    assert lines[6:] == [["metric", "value", "queries"], ["RR", "0.3333", "3"], ["Judged@1", "0.6667", "3"]]


@pytest.mark.parametrize("per_query", [False, True])
def test_json_is_the_report_of_evaluate(files, per_query):
    import jsonschema

    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "--json", *["--per-query"] * per_query)
    document = outcome.document
    jsonschema.validate(document, files("schema", "report").document)
    assert (document["verdict"], document["exitCode"], outcome.code) == ("NOT_GATED", 0, 0)
    (dataset,) = document["datasets"]
    assert (dataset["name"], dataset["selected"], dataset["answered"]) == ("qrels", 4, 3)
    metric = dataset["metrics"]["RR"]
    assert metric["value"] == pytest.approx(1 / 3)
    assert (metric["scored"], metric["notApplicable"], metric["median"]) == (3, 1, 0.5)
    assert metric["interval"][0] < 1 / 3 < metric["interval"][1]
    assert len(document["notes"]) == 3
    samples = {sample["id"]: sample for sample in dataset["samples"]}
    assert list(samples) == (["q1", "q2", "q3", "q4"] if per_query else [])
    if per_query:
        assert samples["q1"]["scores"]["RR"] == {"status": "scored", "value": 0.5, "reason": None}
        assert (samples["q3"]["status"], samples["q3"]["scores"]["RR"]["value"]) == ("failed", 0.0)
        assert samples["q4"]["scores"]["RR"]["status"] == "not_applicable"


def test_beir_and_gz(files):
    rows = "".join(f"{q}\t{d}\t{g}\n" for q, _, d, g in (line.split() for line in QRELS.splitlines()))
    (files.folder / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (files.folder / "run.gz").write_bytes(gzip.compress(RUN.encode()))
    assert files("score", "test.tsv", "run.gz").out == files("score", "qrels.txt", "run.txt").out


def test_a_dataset_and_recorded_replies(files):
    samples = [
        {"id": "q1", "relevant": {"a": 2, "b": 1}},
        {"id": "q2", "relevant": [["c", "d"], ["e"]]},
        {"id": "unjudged"},
    ]
    files.dataset("qa", samples)
    replies = [{"id": "q1", "retrieved_context_ids": ["x", "x", "a"]}, {"id": "q2", "retrieved_context_ids": ["d"]}]
    (files.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    outcome = files("score", "qa.jsonl", "replies.jsonl", "-m", "RR", "-m", "Recall")
    assert table(outcome) == {"RR": ("0.7500", "2"), "Recall": ("0.5000", "2")}
    assert "repeated ids, which count where they stand first: 1" in outcome.err
    assert "samples that do not say which documents are relevant, left out: 1" in outcome.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.txt", "q1 Q0 a 1 2.5\n", "run.txt:1: 5 fields instead of 6. a line is: query Q0 document rank score tag"),
        ("run.txt", "q1 Q0 a 1 nan t\n", "run.txt:1: the score 'nan' is not a finite number"),
        ("run.txt", "q1 Q0 'a' 1 2 t\n", "run.txt: no retrieved id occurs in the ground truth: ''a'' against 'a'"),
        ("run.txt", "1 Q0 a 1 2 t\n", "run.txt: no query of the run occurs in the ground truth: for example '1'"),
        ("run.txt", '{"id": "q1", "response": "yes"}\n', "run.txt: replies that do not say what was retrieved: 1 (q1)"),
        ("qrels.txt", "q1 0 a 1.5\n", "qrels.txt:1: the grade '1.5' is not a whole number"),
        ("qrels.txt", "", "qrels.txt: the file is empty"),
        ("qrels.txt", '{"input": "x", "expected": "y"}\n', "qrels.txt: no sample says which documents are relevant"),
    ],
)
def test_bad_files(files, name, content, message):
    (files.folder / name).write_text(content)
    outcome = files("score", "qrels.txt", "run.txt", "--json")
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(f"evalspec: {message}")
    assert len(outcome.document["errors"]) == 1


def test_both_files_are_read_strictly_and_all_metrics_checked(files):
    outcome = files("score", "nowhere", "run.txt")
    assert (outcome.code, outcome.err) == (2, "evalspec: nowhere: no such file. check the path\n")
    outcome = files("score", "qrels.txt", "run.txt", "-m", "ndgc@5", "-m", "faithfulness", "-m", "AP@0")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "evalspec: --metric: unknown metric 'ndgc'. did you mean 'nDCG'?",
        "evalspec: --metric: faithfulness is no measure of a ranking. "
        "score knows Precision, Recall, F1, F2, nDCG, AP, RR, Rprec, Success, Judged",
        "evalspec: --metric: 'AP@0' cuts off at 0; a cut-off is at least 1",
    ]
    assert "not a list of whole numbers" in files("score", "qrels.txt", "run.txt", "--k", "0").err


def test_nothing_relevant_is_nothing_measured(files):
    (files.folder / "qrels.txt").write_text("q1 0 a 0\n")
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR")
    assert (outcome.code, table(outcome)) == (3, {"RR": ("–", "0")})


def test_warnings_are_told(files):
    (files.folder / "qrels.txt").write_text(QRELS + "q1 0 z -1\n")
    (files.folder / "run.txt").write_text(RUN + "q9 Q0 b 2 10 t\n")
    err = files("score", "qrels.txt", "run.txt").err
    assert "warning: qrels.txt:7: negative grades mean unjudged" in err
    assert "warning: run.txt:8: the rank contradicts the score" in err


def test_a_small_table_imports_nothing_heavy(files):
    program = "import sys; from evalspec.__main__ import main; main(); print('\\n'.join(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", program, "score", "qrels.txt", "run.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=files.folder)
    loaded = set(done.stderr.splitlines())
    assert "evalspec.ranking.engine" in loaded
    assert not {"numpy", "pydantic", "rich", "httpx", "evalspec.metrics"} & loaded
