"""TREC and BEIR files as they are, and as they should not be."""

import gzip

import pytest

from evalspec.inputs.ranking_files import SHOWN, looks_like_qrels, read_qrels, read_run
from evalspec.scoring.ranking.run_files import check_overlap


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file and read them: (content, problems, warnings), the problems as text."""

    def read(reader, content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        problems, warnings = [], []
        found = reader(path, "shown", problems, warnings)
        return found, [problem.render() for problem in problems], [warning.render() for warning in warnings]

    return read


CUT_OFF = gzip.compress(b"1 0 a 1\n1 0 b 1\n", mtime=0)[:-9]


@pytest.mark.parametrize(
    "content",
    [
        b"1 0 a 2\n1 0 b 0\n2 Q0 c 1",
        b"1\t0\ta\t2\r\n1\t0\tb\t0\r\n\r\n2\t0\tc\t+1\r\n",
        b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tc\t1\n",
        gzip.compress(b"1 0 a 2\n1 0 b 0\n2 0 c 1\n", mtime=0),
    ],
    ids=["TREC", "tabs, CRLF", "BEIR", "gz"],
)
def test_qrels(read, content):
    assert read(read_qrels, content) == ({"1": {"a": 2, "b": 0}, "2": {"c": 1}}, [], [])


def test_a_beir_id_may_hold_spaces(read):
    content = b"query-id\tcorpus-id\tscore\nwhat is it\tdoc 1\t1\n"
    assert read(read_qrels, content)[0] == {"what is it": {"doc 1": 1}}


def test_negative_grades_are_unjudged_and_counted(read):
    qrels, problems, warnings = read(read_qrels, b"1 0 a 1\n1 0 b -1\n2 0 c -2\n")
    assert (qrels, problems) == ({"1": {"a": 1}, "2": {}}, [])
    assert warnings == ["shown:2: negative grades mean unjudged, as in trec_eval; 2 left out"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 0 a 1\n1 0 b\n", "shown:2: 3 fields instead of 4"),
        (b"1 0 a 1 extra\n", "shown:1: 5 fields instead of 4"),
        (b"1 0 a 1.5\n", "shown:1: the grade '1.5' is not a whole number"),
        (b'{"query-id": 1, "corpus-id": "a", "score": 1}\n', "shown:1: query-id or corpus-id is not text"),
        (b'{"query-id": "1", "corpus-id": "a"}\n', "shown:1: the score is not a number"),
        (b"1 0 a high\n", "shown:1: the grade 'high' is not a whole number"),
        (b"1 0 a 1\n1 1 a 2\n", "shown:2: document 'a' has duplicate judgements for query '1'"),
        (b"1 0 \xff 1\n", "shown:1: the id '\\xff' is not UTF-8 text"),
        (b"query-id\tcorpus-id\tscore\n1\ta\n", "shown:2: 2 fields between tabs instead of 3"),
        (b"query-id\tcorpus-id\tscore\n", "shown: the file has a header but no judgements"),
        (b"", "shown: the file is empty"),
        (b" \n\n", "shown: the file is empty"),
        (
            gzip.compress(b"1 0 a 1\n1 0 b 1\n", mtime=0)[:-9],
            "shown: the gzip file is truncated or damaged",
        ),
    ],
)
def test_bad_qrels(read, content, message):
    _, problems, _ = read(read_qrels, content)
    assert len(problems) == 1
    assert problems[0].startswith(message)


def test_a_missing_file_is_one_problem(tmp_path):
    for reader in (read_qrels, read_run):
        problems = []
        reader(tmp_path / "nowhere", "nowhere", problems, [])
        assert [problem.render() for problem in problems] == ["nowhere: no such file. check the path"]


@pytest.mark.parametrize(
    "content",
    [
        b"q Q0 b 1 2e1 tag\nq Q0 a 2 -1.5E-3 tag\n",
        b"q\tQ0\tb\t1\t20\ttag\r\n\nq  Q0 a\t2 -.0015 tag",
        gzip.compress(b"q Q0 b 1 20 tag\nq Q0 a 2 -0.0015 tag\n"),
    ],
    ids=["scientific", "tabs", "gz"],
)
def test_runs(read, content):
    assert read(read_run, content) == ({"q": {"b": 20.0, "a": -0.0015}}, [], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"q Q0 d 1 2.5", "5 fields instead of 6"),
        (b"q Q0 d 1 nan tag", "the score 'nan' is not a finite number"),
        (b"q Q0 d 1 -inf tag", "the score '-inf' is not a finite number"),
        (b"q Q0 d 1 1e999 tag", "the score '1e999' is not a finite number"),
        (b"q Q0 d 1 1_0 tag", "the score '1_0' is not a finite number"),
        (b"q Q0 d 1 high tag", "the score 'high' is not a finite number"),
        (b"q Q0 d 2.5 1 tag", "the rank '2.5' is not a whole number"),
        (b"q Q0 \xe9 1 2.5 tag", "the id '\\xe9' is not UTF-8 text"),
        (b"\xe9 Q0 d 1 2.5 tag", "the id '\\xe9' is not UTF-8 text"),
        (b"q Q0 first 9 0.1 tag", "duplicate document 'first' in query 'q'"),
    ],
)
def test_bad_run_lines(read, line, message):
    _, problems, _ = read(read_run, b"q Q0 first 1 3 tag\n" + line + b"\nr Q0 first 1 3 tag\n")
    assert len(problems) == 1
    assert problems[0].startswith(f"shown:2: {message}. ")


def test_of_many_bad_lines_the_first_are_shown_and_the_others_counted(read):
    _, problems, _ = read(read_run, b"q Q0 d\n" * 1020)
    assert len(problems) == SHOWN + 1
    assert problems[-1] == "shown: and 1,000 more bad lines"


def test_ranks_that_contradict_the_scores_are_counted(read):
    lines = b"q Q0 a 1 3 t\nq Q0 b 2 4 t\nq Q0 c 1 3 t\nq Q0 d 1 9 t\nr Q0 a 7 99 t\nr Q0 b 8 99 t\n"
    run, problems, warnings = read(read_run, lines)
    assert (len(run["q"]), problems) == (4, [])
    assert warnings == [
        "shown:2: the rank contradicts the score, compared with the line before, on 2 lines. "
        "the score counts, as in trec_eval; the rank is ignored"
    ]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\n1 0 a 1\n", True),
        (b"query-id\tcorpus-id\tscore\n", True),
        (b"1 Q0 a 1 2.5 tag\n", False),
        (b"1 0 a one\n", False),
        (b'{"id": 1}\n', False),
        (b"", False),
    ],
)
def test_qrels_are_recognised(head, expected):
    assert looks_like_qrels(head) is expected


@pytest.mark.parametrize(
    ("judged", "retrieved", "words"),
    [
        ("12", '"12"', "quotes"),
        ("12", "12.0", "'.0' at the end"),
        ("12", "0012", "leading zeros"),
        ("Doc", "doc", "upper and lower case"),
        ("doc", "doc.txt", "a file suffix"),
        ("doc", "data/doc", "a path before it"),
    ],
)
def test_ids_that_never_meet_are_explained(judged, retrieved, words):
    problem = check_overlap({"q": {"x": 1, judged: 1}}, {"q": ["y", retrieved]}, "qrels.txt", "run.txt").render()
    assert problem.startswith(f"run.txt: no retrieved id occurs in the ground truth: '{retrieved}', but '{judged}'")
    assert f"differ only in {words}" in problem
    problem = check_overlap({judged: {"d": 1}}, {retrieved: ["d"]}, "qrels.txt", "run.txt").render()
    assert problem.startswith("run.txt: no query of the run occurs in the ground truth")
    assert f"differ only in {words}" in problem


def test_one_of_each_is_shown_where_the_ids_have_nothing_in_common():
    problem = check_overlap({"q": {"x": 1}}, {"q": ["y"]}, "qrels.txt", "run.txt").render()
    assert "for example 'y', but 'x' in qrels.txt" in problem


def test_one_id_in_common_is_enough_even_where_it_is_judged_for_another_query():
    assert check_overlap({"q": {"x": 1}, "r": {"y": 1}}, {"q": ["y"]}, "qrels.txt", "run.txt") is None
    assert check_overlap({"q": {"x": 1}}, {"q": []}, "qrels.txt", "run.txt") is None


def test_comments_text_after_the_tag_and_grades_with_a_point(read):
    qrels, problems, warnings = read(read_qrels, b"# made by hand\n1 0 a 1.0\n#2 0 b 2\n")
    assert (qrels, problems) == ({"1": {"a": 1}, "#2": {"b": 2}}, [])
    assert warnings == ["shown:1: comments are skipped: 1"]
    run, problems, warnings = read(read_run, b"# system: one\n1 Q0 a 1 2.5 my run, second try\n")
    assert (run, problems, len(warnings)) == ({"1": {"a": 2.5}}, [], 1)


def test_runs_of_three_columns_and_judgements_in_json(read):
    run, problems, _ = read(read_run, b"7\tb\t1\n7\ta\t2\n8\ta\t1\n")
    assert (run, problems) == ({"7": {"b": -1, "a": -2}, "8": {"a": -1}}, [])
    lines = b'{"query-id": "1", "corpus-id": "a b", "score": 2.0}\n{"query-id": "1", "corpus-id": "c", "score": 0}\n'
    assert read(read_qrels, lines)[0] == {"1": {"a b": 2, "c": 0}}


@pytest.mark.parametrize(
    ("line", "message"),
    [(b"q\te", "2 fields instead of 3, as in the first line"), (b"q\te\t0", "ranks are whole numbers")],
)
def test_bad_lines_of_three_columns(read, line, message):
    (problem,) = read(read_run, b"q\td\t1\n" + line + b"\n")[1]
    assert problem.startswith("shown:2: ")
    assert message in problem


def test_an_id_that_begins_with_a_brace_is_no_json(tmp_path):
    path, problems = tmp_path / "qrels.txt", []
    path.write_text("{ 0 a 1\n{b 0 {a} 2\n")
    assert read_qrels(path, "qrels.txt", problems, []) == {"{": {"a": 1}, "{b": {"{a}": 2}}
    assert problems == []
