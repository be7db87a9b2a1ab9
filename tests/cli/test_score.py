"""`evalspec score`: files in, numbers out."""

import gzip
import json
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval

QRELS = "q1 0 a 2\nq1 0 b 1\nq1 0 x 0\nq2 0 c 1\nq3 0 d 1\nq4 0 e 0\n"
RUN = "q1 Q0 x 1 9 t\nq1 Q0 a 2 8 t\nq1 Q0 b 3 7 t\nq2 Q0 y 1 9 t\nq2 Q0 c 2 8 t\nq4 Q0 e 1 9 t\nq9 Q0 a 1 9 t\n"


DAMAGED = gzip.compress(RUN.encode(), mtime=0)[:10] + b"\xff" * 60


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
        "no_answer": ("0.0000", "1"),
    }
    assert "queries missing from run.txt, counted as 0: 1 of 4 (q3)" in outcome.err
    assert "queries of run.txt without judgements, left out: 1" in outcome.err
    assert "queries without a relevant document, not in the means (trec_eval counts them as 0): 1 of 4" in outcome.err


def test_cutoffs_may_be_given_one_by_one(files):
    together, apart = ("--k", "1,5"), ("--k", "1", "--k", "5")
    assert table(files("score", "qrels.txt", "run.txt", *apart)) == table(
        files("score", "qrels.txt", "run.txt", *together)
    )
    assert (
        "'1 x' is not a list of positive integers" in files("score", "qrels.txt", "run.txt", "--k", "1", "--k", "x").err
    )


def test_a_short_option_is_a_name_after_two_dashes_and_nowhere_a_value(files):
    for asked in (["-m", "AP"], ["-mAP"], ["--metric=AP"]):
        assert [*table(files("score", "qrels.txt", "run.txt", *asked))] == ["AP", "no_answer"]
    (files.folder / "run.txt").rename(files.folder / "-m")
    assert [*table(files("score", "--metric", "AP", "--", "qrels.txt", "-m"))] == ["AP", "no_answer"]
    assert "requires an argument" in files("score", "qrels.txt", "run.txt", "-m", "-m").err
    assert "requires an argument" in files("score", "qrels.txt", "run.txt", "-m").err


def test_metrics_are_named_as_in_a_manifest_and_printed_canonically(files):
    asked = ["-m", "map", "-m", "ndcg_at_5", "-m", "precision@1", "-m", "f0.5", "-m", "hit_rate", "-m", "R-precision"]
    outcome = files("score", "qrels.txt", "run.txt", *asked, "--k", "2,3")
    expected = ["AP@2", "AP@3", "nDCG@5", "Precision@1", "F0.5@2", "F0.5@3", "Success@2", "Success@3", "Rprec@2"]
    assert list(table(outcome))[:9] == expected


def test_cutoffs_of_the_default_metrics(files):
    expected = ["nDCG@1", "nDCG@3", "Recall@1", "Recall@3", "Precision@1", "Precision@3", "AP", "RR", "no_answer"]
    assert list(table(files("score", "qrels.txt", "run.txt", "--k", "1, 3,1"))) == expected


def test_min_grade(files):
    values = table(files("score", "qrels.txt", "run.txt", "--min-grade", "2", "-m", "RR", "-m", "Recall@3"))
    assert values == {"RR": ("0.5000", "1"), "Recall@3": ("1.0000", "1"), "no_answer": ("0.0000", "2")}


def test_interval(files):
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "--interval")
    assert "95 % interval" in outcome.out
    assert "0.3333  0.0471 – 0.8158" in outcome.out


def test_per_query(files):
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "-m", "Judged@1", "--per-query")
    assert outcome.out.splitlines() == [
        "query        RR  Judged@1  no_answer",
        "q1       0.5000    1.0000          –",
        "q2       0.5000    0.0000          –",
        "q3       0.0000         –          –",
        "q4            –    1.0000     0.0000",
        "",
        "metric      value  queries",
        "RR         0.3333        3",
        "Judged@1   0.6667        3",
        "no_answer  0.0000        1",
    ]


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
        score = samples["q1"]["scores"]["RR"]
        assert (score["status"], score["value"], score["reason"]) == ("scored", 0.5, None)
        assert (samples["q3"]["status"], samples["q3"]["scores"]["RR"]["value"]) == ("failed", 0.0)
        assert samples["q4"]["scores"]["RR"]["status"] == "not_applicable"
        assert samples["q4"]["scores"]["no_answer"]["value"] == 0.0
        assert samples["q1"]["scores"]["no_answer"]["reason"] == "the query has relevant documents"


def test_beir_and_gz(files):
    rows = "".join(f"{q}\t{d}\t{g}\n" for q, _, d, g in (line.split() for line in QRELS.splitlines()))
    (files.folder / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (files.folder / "run.gz").write_bytes(gzip.compress(RUN.encode(), mtime=0))
    assert files("score", "test.tsv", "run.gz").out == files("score", "qrels.txt", "run.txt").out


def test_tabs_and_scientific_scores_are_fine(files):
    (files.folder / "tabs.txt").write_text(RUN.replace(" ", "\t").replace("\t9\t", "\t9.0E+0\t"))
    assert files("score", "qrels.txt", "tabs.txt").out == files("score", "qrels.txt", "run.txt").out


def test_of_a_collection_only_the_judgements_are_read(files):
    folder = files.folder / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t2\n")
    (folder / "corpus.jsonl").write_text("never read\n")
    outcome = files("score", "beir", "run.txt", "-m", "RR", "--json")
    assert outcome.document["datasets"][0]["metrics"]["RR"]["value"] == 0.5
    assert outcome.document["datasets"][0]["name"] == "beir"
    (files.folder / "qrels.txt").rename(folder / "qrels.txt")
    assert table(files("score", "beir", "run.txt", "-m", "RR"))["RR"] == ("0.3333", "3")


@pytest.mark.parametrize(("place", "name"), [("qrels.txt", "qrels"), ("qrels.txt.gz", "qrels"), (".", "{folder}")])
def test_the_report_names_the_ground_truth(files, place, name):
    (files.folder / "qrels.txt.gz").write_bytes(gzip.compress(QRELS.encode(), mtime=0))
    (dataset,) = files("score", place, "run.txt", "--json").document["datasets"]
    assert dataset["name"] == name.format(folder=files.folder.name)


ORACLE = {
    "Precision@5": "P_5",
    "Recall@5": "recall_5",
    "nDCG@10": "ndcg_cut_10",
    "AP@10": "map_cut_10",
    "RR": "recip_rank",
}
ORACLE |= {"AP": "map", "Rprec": "Rprec", "nDCG": "ndcg", "Success@5": "success_5", "F1": "set_F", "Precision": "set_P"}


@pytest.mark.parametrize("min_grade", [1, 2])
def test_trec_eval_agrees_on_every_query_and_on_the_means(files, min_grade):
    """Ties, queries missing from the run, unjudged and irrelevant ones; of the latter trec_eval has zeros."""
    chance = random.Random(min_grade)
    qrels, run = {}, {}
    for query in (f"q{number}" for number in range(60)):
        pool = chance.sample(range(1000), 30)
        grades = (0,) if chance.random() < 0.1 else (0, 1, 2)
        qrels[query] = {f"d{document}": chance.choice(grades) for document in pool[:8]}
        if chance.random() > 0.1:
            run[query] = {f"d{document}": chance.randrange(8) / 4 for document in chance.sample(pool, 20)}
    run["unjudged"] = {"d1": 1.0}
    lines = [f"{query} 0 {document} {grade}\n" for query in qrels for document, grade in qrels[query].items()]
    (files.folder / "qrels.txt").write_text("".join(lines))
    lines = [f"{query} Q0 {document} 1 {score} t\n" for query in run for document, score in run[query].items()]
    (files.folder / "run.txt").write_text("".join(lines))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(ORACLE.values()), relevance_level=min_grade)
    expected = dict.fromkeys(qrels, dict.fromkeys(ORACLE.values(), 0.0)) | evaluator.evaluate(run)
    asked = [word for name in ORACLE for word in ("-m", name)]
    arguments = ("score", "qrels.txt", "run.txt", "--min-grade", str(min_grade), "--json", "--per-query", *asked)
    (dataset,) = files(*arguments, "--empty-qrels", "zero").document["datasets"]
    assert dataset["metrics"].keys() == ORACLE.keys()
    for ours, theirs in ORACLE.items():
        values = {sample["id"]: sample["scores"][ours]["value"] for sample in dataset["samples"]}
        assert values == pytest.approx({query: expected[query][theirs] for query in qrels}, abs=1e-9), ours
        assert dataset["metrics"][ours]["value"] == pytest.approx(sum(values.values()) / len(qrels), abs=1e-9)
    (dataset,) = files(*arguments).document["datasets"]
    undefined = [query for query, grades in qrels.items() if max(grades.values()) < min_grade]
    assert dataset["metrics"]["AP"]["notApplicable"] == len(undefined) > 0


def test_no_answer_is_what_the_replies_say(files):
    files.dataset(
        "qa", [{"id": name, "relevant": ["a"] if name == "found" else []} for name in ("found", "no", "yes", "gone")]
    )
    replies = [{"id": "found", "retrieved_context_ids": ["a"]}, {"id": "no", "retrieved_context_ids": []}]
    replies += [{"id": "yes", "retrieved_context_ids": ["b"]}]
    (files.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    outcome = files("score", "qa.jsonl", "replies.jsonl", "-m", "RR", "--json")
    metric = outcome.document["datasets"][0]["metrics"]["no_answer"]
    counts = [metric[key] for key in ("value", "scored", "expected", "failed", "notApplicable")]
    assert counts == [0.5, 2, 3, 1, 1]
    outcome = files("score", "qa.jsonl", "replies.jsonl", "-m", "RR", "--json", "--per-query")
    (dataset,) = outcome.document["datasets"]
    assert dataset["metrics"]["no_answer"] == metric
    statuses = [sample["scores"]["no_answer"]["status"] for sample in dataset["samples"]]
    assert statuses == ["not_applicable", "scored", "scored", "failed"]
    outcome = files("score", "qa.jsonl", "replies.jsonl", "-m", "RR", "--empty-qrels", "zero")
    assert table(outcome) == {"RR": ("0.2500", "4")}
    assert "queries without a relevant document, counted as 0: 3 of 4" in outcome.err


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
    assert "duplicate ids, counted at their first rank: 1" in outcome.err
    assert "skipped samples without `relevant`: 1" in outcome.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.txt", "q1 Q0 a 1 2.5\n", "run.txt:1: 5 fields instead of 6. a line is: query Q0 document rank score tag"),
        ("run.txt", "q1 Q0 a 1 nan t\n", "run.txt:1: the score 'nan' is not a finite number"),
        (
            "run.txt",
            RUN + "q1 Q0 a 4 1 t\n",
            "run.txt:8: duplicate document 'a' in query 'q1'. remove one of the lines",
        ),
        ("run.txt", "", "run.txt: the file is empty"),
        (
            "run.txt",
            "q1 Q0 zz 1 2 t\n",
            "run.txt: no retrieved id occurs in the ground truth: for example 'zz', but",
        ),
        (
            "run.txt",
            gzip.compress(RUN.encode(), mtime=0)[:-9],
            "run.txt: the gzip file is truncated or damaged",
        ),
        ("run.txt", DAMAGED, "run.txt: the gzip file is truncated or damaged"),
        (
            "run.txt",
            gzip.compress(b"", mtime=0) + gzip.compress(b'{"id": "q1"}', mtime=0),
            "run.txt: compressed replies are not supported. decompress the file",
        ),
        ("run.txt", "q1 Q0 'a' 1 2 t\n", "run.txt: no retrieved id occurs in the ground truth: ''a'', but 'a'"),
        ("run.txt", "1 Q0 a 1 2 t\n", "run.txt: no query of the run occurs in the ground truth: for example '1'"),
        ("run.txt", '{"id": "q1", "response": "yes"}\n', "run.txt: replies without retrieved_context_ids: 1 (q1)"),
        ("qrels.txt", "q1 0 a 1.5\n", "qrels.txt:1: the grade '1.5' is not a whole number"),
        ("qrels.txt", "q1 0 a\n", "qrels.txt:1: 3 fields instead of 4"),
        ("qrels.txt", "", "qrels.txt: the file is empty"),
        (
            "qrels.txt",
            gzip.compress(QRELS.encode(), mtime=0)[:-9],
            "qrels.txt: the gzip file is truncated or damaged",
        ),
        ("qrels.txt", DAMAGED, "qrels.txt: the gzip file is truncated or damaged"),
        (
            "qrels.txt",
            '{"id": "q1", "input": "x", "expected": "", "relevant": [7]}',
            "qrels.txt:1: relevant[0]: 7 is not text",
        ),
        ("qrels.txt", '{"input": "x", "expected": "y"}\n', "qrels.txt: no sample says which documents are relevant"),
    ],
)
def test_bad_files(files, name, content, message):
    (files.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = files("score", "qrels.txt", "run.txt", "--json")
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(f"evalspec: {message}")
    assert len(outcome.document["errors"]) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"retrieval_gt": None},
            "qa.parquet: retrieval_gt: the column is missing. the file has qid, query, generation_gt",
        ),
        (
            {"retrieval_gt": [[[7]]]},
            "qa.parquet: retrieval_gt: the column has int64, not text. ids and texts are text",
        ),
        ({"qid": [None]}, "qa.parquet:1: qid: empty"),
    ],
)
def test_bad_parquet(files, changed, message):
    columns = {"qid": ["q1"], "query": ["?"], "retrieval_gt": [[["a"]]], "generation_gt": [["x"]]} | changed
    pq.write_table(pa.table({name: cells for name, cells in columns.items() if cells}), files.folder / "qa.parquet")
    outcome = files("score", "qa.parquet", "run.txt")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith(f"evalspec: {message}")


def test_files_in_the_wrong_order_are_one_error(files):
    outcome = files("score", "run.txt", "qrels.txt")
    assert outcome.code == 2
    assert outcome.err == (
        "evalspec: run.txt: this is a run, and qrels.txt contains judgements. "
        "name the judgements first: evalspec score QRELS RUN\n"
    )


def test_a_pipe_is_refused_rather_than_read_without_its_beginning(files):
    os.mkfifo(files.folder / "pipe")
    for arguments in (("pipe", "run.txt"), ("qrels.txt", "pipe")):
        outcome = files("score", *arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == (
            "evalspec: pipe: this is a pipe, and the file has to be read twice. write it to a file first\n"
        )


def test_both_files_are_read_strictly_and_all_metrics_checked(files):
    outcome = files("score", "nowhere", "none either")
    assert (outcome.code, outcome.err.splitlines()) == (
        2,
        ["evalspec: nowhere: no such file. check the path", "evalspec: none either: no such file. check the path"],
    )
    outcome = files("score", "qrels.txt", "run.txt", "-m", "ndgc@5", "-m", "faithfulness", "-m", "AP@0")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "evalspec: --metric: unknown metric 'ndgc'. did you mean 'nDCG'?",
        "evalspec: --metric: faithfulness is not a ranking metric. "
        "score computes Precision, Recall, F1, F2, nDCG, AP, RR, Rprec, Success, Judged",
        "evalspec: --metric: 'AP@0' has the cut-off 0; a cut-off is at least 1",
    ]
    asked = ["-m", "P_5", "-m", "ndcg_cut.10", "-m", "recip_rank"]
    assert [line.rpartition(". ")[2] for line in files("score", "qrels.txt", "run.txt", *asked).err.splitlines()] == [
        "it is 'Precision@5' here",
        "it is 'nDCG@10' here",
        "it is 'RR' here",
    ]
    for cutoffs in ("0", "5,x", "9" * 5000):
        assert "not a list of positive integers" in files("score", "qrels.txt", "run.txt", "--k", cutoffs).err


def test_nothing_relevant_is_nothing_measured(files):
    (files.folder / "qrels.txt").write_text("q1 0 a 0\n")
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR")
    assert (outcome.code, table(outcome)) == (3, {"RR": ("–", "0"), "no_answer": ("0.0000", "1")})
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "-m", "Judged@2")
    assert (outcome.code, table(outcome)["Judged@2"]) == (0, ("0.5000", "1"))
    (dataset,) = files("score", "qrels.txt", "run.txt", "-m", "RR", "--json").document["datasets"]
    unknown = {"interval": None, "intervalMethod": None, "noInterval": "no sample is scored"}
    assert dataset["metrics"]["RR"].items() >= unknown.items()


def test_warnings_are_told(files):
    (files.folder / "qrels.txt").write_text(QRELS + "q1 0 z -1\n")
    (files.folder / "run.txt").write_text("q1 Q0 a 1 7 t\nq1 Q0 x 2 8 t\n")
    outcome = files("score", "qrels.txt", "run.txt", "-m", "RR", "--per-query")
    assert "warning: qrels.txt:7: negative grades mean unjudged" in outcome.err
    assert "warning: run.txt:2: the rank contradicts the score" in outcome.err
    assert "the score counts, as in trec_eval; the rank is ignored" in outcome.err
    assert ["q1", "0.5000"] in [line.split()[:2] for line in outcome.out.splitlines()]
    (files.folder / "run.txt").write_text("q1 Q0 z 1 8 t\n")
    outcome = files("score", "qrels.txt", "run.txt")
    assert outcome.code == 2
    assert outcome.err.startswith("warning: qrels.txt:7: negative grades"), "why the only retrieved id is unknown"


def test_ids_cannot_steer_the_terminal(files):
    (files.folder / "qrels.txt").write_text(QRELS + "q\x1b[31m 0 a 1\n")
    outcome = files("score", "qrels.txt", "run.txt", "--per-query")
    assert "\x1b" not in outcome.out + outcome.err
    assert "(q3, q\\x1b[31m)" in outcome.err


def test_a_small_table_imports_nothing_heavy(files):
    program = "import sys; from evalspec.__main__ import main; main(); print('\\n'.join(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", program, "score", "qrels.txt", "run.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=files.folder)
    loaded = set(done.stderr.splitlines())
    assert "evalspec.scoring.ranking.engine" in loaded
    assert not {"numpy", "pydantic", "rich", "httpx", "evalspec.metrics"} & loaded


def test_the_page_shows_what_is_printed(project):
    page = Path(__file__).parents[2] / "docs" / "reference" / "score.md"
    ran = 0
    for block in re.findall(r"^```text\n\$ (.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        command, _, shown = block.partition("\n")
        program, *arguments = shlex.split(command)
        if program == "cat":
            (project.folder / arguments[0]).write_text(shown)
            continue
        outcome = project(*arguments)
        assert outcome.err + outcome.out == shown
        ran += 1
    assert ran == 4
