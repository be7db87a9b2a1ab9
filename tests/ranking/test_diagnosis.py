from hypothesis import given
from hypothesis import strategies as st

from evalspec.model import AlwaysRetrieved, Distractor, MissingDocument, NeverRetrieved, QueryDiagnosis
from evalspec.reports.terminal import render_view_terminal
from evalspec.reports.view.parts import Cell, View
from evalspec.reports.view.retriever import build_missing
from evalspec.runs.runner.diagnosing import compute_diagnosis
from evalspec.scoring.ranking.measures import compute_recall, judge_ranking

QRELS = {
    "found": {"a": 1, "noise": 0},
    "half": {"a": 2, "b": 1, "noise": 0},
    "deep": {"c": 1},
    "nowhere": {"d": 1},
    "nobody": {"noise": 0},
    "silent": {"e": 1},
}
DEEP = {
    "found": ["a", "noise", "x"],
    "half": ["noise", "a", "a", "x", "y", "b"],
    "deep": ["noise", "x", "c"],
    "nowhere": ["noise", "x"],
    "nobody": ["noise", "y"],
    "unjudged query": ["z"],
}
LETTERS = st.sampled_from("abcdefgh")
GRADES = st.dictionaries(LETTERS, st.integers(-1, 2), min_size=1)
RANKINGS = st.lists(LETTERS, max_size=12)
CUTOFFS = st.integers(1, 9)


def diagnose_example():
    return compute_diagnosis(QRELS, DEEP, DEEP, 2, depth=5)


def test_each_query_says_what_is_missing_and_what_stands_above_it():
    assert diagnose_example().queries == (
        QueryDiagnosis(
            query="deep",
            missing=(MissingDocument("c", 1, 3),),
            pushed_out_by=(Distractor("noise", 1, None), Distractor("x", 2, None)),
            wanted=1,
            searched=3,
        ),
        QueryDiagnosis(
            query="nowhere",
            missing=(MissingDocument("d", 1, None),),
            pushed_out_by=(Distractor("noise", 1, None), Distractor("x", 2, None)),
            wanted=1,
            searched=2,
        ),
        QueryDiagnosis(
            query="half",
            missing=(MissingDocument("b", 1, 5),),
            pushed_out_by=(Distractor("noise", 1, 0), Distractor("x", 3, None), Distractor("y", 4, None)),
            wanted=2,
            searched=5,
        ),
    )


def test_documents_that_fail_over_all_queries():
    diagnosis = diagnose_example()
    assert (diagnosis.answered, diagnosis.unanswered) == (5, ("silent",))
    assert diagnosis.never_retrieved == (
        NeverRetrieved("c", ("deep",), 3, 1.0),
        NeverRetrieved("d", ("nowhere",), None, 1.0),
        NeverRetrieved("b", ("half",), 5, 0.5),
    )
    assert diagnosis.always_retrieved == (AlwaysRetrieved("noise", 1.0, 3),)


def test_a_document_that_other_queries_get_is_not_called_never_retrieved():
    deep = {"q1": ["x", "a"], "q2": ["a"]}
    diagnosis = compute_diagnosis({"q1": {"a": 1}, "q2": {"b": 1}}, deep, deep, 1)
    assert [one.document for one in diagnosis.never_retrieved] == ["b"]
    assert diagnosis.always_retrieved == ()


def test_a_group_is_missing_once_at_the_rank_of_its_best_document():
    groups = {"q": (("a", "b"), ("c", "d"))}
    deep = {"q": ["a", "x", "d", "c"]}
    (diagnosed,) = compute_diagnosis({"q": dict.fromkeys("abcd", 1)}, deep, deep, 1, groups=groups).queries
    assert diagnosed.missing == (MissingDocument("d", 1, 3, ("c",)),)
    assert diagnosed.pushed_out_by == (Distractor("x", 2, None),)
    assert diagnosed.harm == 0.5


def test_what_the_reranker_dropped_is_pushed_out_by_what_it_put_on_top():
    (diagnosed,) = compute_diagnosis({"q": {"a": 1}}, {"q": ["x", "y"]}, {"q": ["a", "x", "y"]}, 2).queries
    assert diagnosed.missing == (MissingDocument("a", 1, 1),)
    assert [one.document for one in diagnosed.pushed_out_by] == ["x", "y"]


@given(grades=GRADES, ranking=RANKINGS, cutoff=CUTOFFS, depth=st.integers(9, 12), min_grade=st.integers(1, 2))
def test_what_is_missing_is_the_recall_that_is_lacking(grades, ranking, cutoff, depth, min_grade):
    rankings = {"q": ranking}
    diagnosis = compute_diagnosis({"q": grades}, rankings, rankings, cutoff, depth=depth, min_grade=min_grade)
    judged = judge_ranking(ranking, grades, cutoff, min_grade)
    lacking = 1 - compute_recall(judged) if judged.relevant else 0
    assert abs(sum(one.harm for one in diagnosis.queries) - lacking) < 1e-9
    distinct = list(dict.fromkeys(ranking))[:depth]
    for diagnosed in diagnosis.queries:
        for one in diagnosed.missing:
            assert grades[one.document] >= min_grade
            assert one.rank is None or (distinct[one.rank - 1] == one.document and one.rank > cutoff)
            assert (one.rank is None) == (one.document not in distinct)
        above = distinct[:cutoff] if diagnosed.missing[0].rank is None else distinct[: diagnosed.missing[0].rank - 1]
        assert [one.document for one in diagnosed.pushed_out_by] == [d for d in above if grades.get(d, -1) < min_grade]


@given(st.dictionaries(st.sampled_from("123456"), st.tuples(GRADES, RANKINGS), min_size=1), CUTOFFS)
def test_the_lists_of_documents_are_what_counting_gives(queries, cutoff):
    qrels = {query: grades for query, (grades, _) in queries.items()}
    rankings = {query: ranking for query, (_, ranking) in queries.items()}
    diagnosis = compute_diagnosis(qrels, rankings, rankings, cutoff)
    tops = {query: set(list(dict.fromkeys(ranking))[:cutoff]) for query, ranking in rankings.items()}
    wanting = {d: [q for q in qrels if qrels[q].get(d, 0) > 0] for d in "abcdefgh"}
    never = {d: tuple(q) for d, q in wanting.items() if q and not any(d in top for top in tops.values())}
    assert {one.document: tuple(sorted(one.queries)) for one in diagnosis.never_retrieved} == {
        document: tuple(sorted(names)) for document, names in never.items()
    }
    harms = [one.harm for one in diagnosis.never_retrieved]
    assert harms == sorted(harms, reverse=True)
    vain = {d: sum(d in tops[q] and qrels[q].get(d, 0) < 1 for q in qrels) for d in "abcdefgh"}
    often = {d for d, count in vain.items() if count >= 0.8 * len(qrels)} if len(qrels) >= 3 else set()
    assert {one.document for one in diagnosis.always_retrieved} == often


def render(diagnosis):
    """The lines of a terminal report, with at most two of each list."""
    view = View((Cell(("PASS",)),), sections=tuple(build_missing(diagnosis, 2)))
    return render_view_terminal(view, width=100, color=False).splitlines()[2:]


def test_golden():
    assert render(diagnose_example()) == [
        "What is missing",
        "  3 of 5 queries miss something relevant among the first 2",
        "  queries without a ranking, not diagnosed: silent",
        "    deep: 0 of 1 found",
        "      missing: c (grade 1): rank 3",
        "      pushed out by: 1. noise (unjudged), 2. x (unjudged)",
        "    nowhere: 0 of 1 found",
        "      missing: d (grade 1): not among the 2 retrieved",
        "      pushed out by: 1. noise (unjudged), 2. x (unjudged)",
        "  … and 1 more",
        "  never retrieved, among the first 2 of no query",
        "    c: missed by 1 query, rank 3 at best",
        "    d: missed by 1 query, nowhere in their rankings",
        "  … and 1 more",
        "  always retrieved, among the first 2 of almost every query and not relevant",
        "    noise: for 5 of 5 queries, 3 of them miss something relevant",
    ]


def test_a_rank_beyond_the_depth_is_told_as_such_and_ids_cannot_steer_the_terminal():
    deep = {"q\x1b[2J": [*map(str, range(100)), "a\u202e"]}
    lines = render(compute_diagnosis({"q\x1b[2J": {"a\u202e": 1}}, deep, deep, 10))
    assert lines[2:4] == ["    q\\x1b[2J: 0 of 1 found", "      missing: a\\u202e (grade 1): not in the first 100"]
    assert " ".join("".join(lines[4:6]).split()).endswith("5. 4 (unjudged) and 5 more")
    assert all(line.isprintable() for line in lines)
