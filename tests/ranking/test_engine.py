"""Many queries at once: by the definitions for one, and by trec_eval."""

import random
import struct
import subprocess
import sys
from collections import UserList

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evalspec.scoring.ranking import engine
from evalspec.scoring.ranking.engine import MeasureSpec, compute_measures
from evalspec.scoring.ranking.measures import MEASURES, find_measure, judge_ranking

MEASURE_NAMES = [*MEASURES, "F0.5"]
DOCUMENTS = st.sampled_from([f"d{number}" for number in range(20)])
QUERIES = st.sampled_from("abcd")
QRELS = st.dictionaries(QUERIES, st.dictionaries(DOCUMENTS, st.integers(-1, 3)), min_size=1)
RANKINGS = {
    "ordered": st.dictionaries(QUERIES, st.lists(DOCUMENTS, max_size=40)),
    "scored": st.dictionaries(
        QUERIES, st.dictionaries(DOCUMENTS, st.sampled_from([-1.5, 0.0, 0.1, 0.1 + 1e-12, 2, 1e300]))
    ),
}
SPECS = st.lists(
    st.builds(MeasureSpec, st.sampled_from(MEASURE_NAMES), st.none() | st.integers(1, 14)), min_size=1, max_size=6
)


def by_definition(qrels, rankings, spec, min_grade):
    """One query after the other, straight from the definitions."""
    for query, grades in qrels.items():
        ranking = rankings.get(query, [])
        if isinstance(ranking, dict):
            ranking = [d for d, _ in sorted(ranking.items(), key=lambda item: (item[1], item[0]), reverse=True)]
        yield find_measure(spec.measure)(judge_ranking(ranking, grades, spec.cutoff, min_grade))


@pytest.fixture(params=["plain Python", "arrays"])
def way(request, monkeypatch):
    """Either way of computing, whatever the size of the work."""
    monkeypatch.setattr(engine, "_SMALL", -1 if request.param == "arrays" else 10**9)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", RANKINGS)
def test_all_ways_of_computing_follow_the_definitions(kind):
    @given(QRELS, RANKINGS[kind], SPECS, st.integers(1, 2))
    def check(qrels, rankings, specs, min_grade):
        measured = compute_measures(qrels, rankings, specs, min_grade=min_grade)
        assert_defined_so(measured, qrels, rankings, specs, min_grade)

    check()


def assert_defined_so(measured, qrels, rankings, specs, min_grade):
    for spec in specs:
        assert measured.values[spec] == pytest.approx(list(by_definition(qrels, rankings, spec, min_grade)), abs=1e-12)
    depth = None if any(spec.cutoff is None for spec in specs) else max(spec.cutoff for spec in specs)
    assert measured.queries == tuple(qrels)
    assert measured.retrieved == [len([*dict.fromkeys(rankings.get(query, ()))][:depth]) for query in qrels]
    assert measured.relevant == [sum(grade >= min_grade for grade in grades.values()) for grades in qrels.values()]
    assert measured.missing == qrels.keys() - rankings.keys()
    assert measured.ignored == len(rankings.keys() - qrels.keys())


@pytest.mark.usefixtures("way")
def test_who_vouches_for_distinct_ids_gets_the_same():
    @given(QRELS, SPECS)
    def check(qrels, specs):
        rankings = {query: [f"d{number}" for number in range(17, -1, -1)] for query in qrels}
        assert compute_measures(qrels, rankings, specs, distinct=True) == compute_measures(qrels, rankings, specs)

    check()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [list, tuple, UserList])
@pytest.mark.parametrize("distinct", [True, False])
def test_any_sequence_is_a_ranking(kind, distinct):
    specs = [MeasureSpec("AP"), MeasureSpec("nDCG", 3), MeasureSpec("Judged", 2)]
    qrels = {"q": {"a": 1, "c": 0, "d": 2, "e": 1}}
    listed = compute_measures(qrels, {"q": ["x", "d", "c", "y", "a"]}, specs)
    assert compute_measures(qrels, {"q": kind(["x", "d", "c", "y", "a"])}, specs, distinct=distinct) == listed
    assert listed.values[MeasureSpec("AP")] == [pytest.approx((1 / 2 + 2 / 5) / 3)]


def collection(queries, seed):
    """Judgements and scores with many ties, missing queries, queries without judgements, and all-zero judgements.

    Scores are eighths: single and double precision know the same ties.
    """
    chance = random.Random(seed)
    qrels, run = {}, {}
    for number in range(queries):
        pool = [f"d{document:04}" for document in chance.sample(range(3000), 40)]
        if chance.random() > 0.02:
            grades = (0, 0, 1, 1, 2, 3) if chance.random() > 0.02 else (0,)
            qrels[f"q{number}"] = {document: chance.choice(grades) for document in chance.sample(pool, 9)}
        if chance.random() > 0.02:
            retrieved = pool[: chance.randrange(1, 31)]
            run[f"q{number}"] = {document: chance.randrange(80) / 8 for document in retrieved}
    return qrels, run


ORACLE = {"Precision": "P", "Recall": "recall", "nDCG": "ndcg_cut", "AP": "map_cut", "Success": "success"}
CUTOFFS = (1, 5, 10, 20)
UNCUT = {"AP": "map", "RR": "recip_rank", "Rprec": "Rprec", "nDCG": "ndcg"}


@pytest.mark.parametrize("min_grade", [1, 2])
def test_trec_eval_agrees(min_grade):
    qrels, run = collection(3700, seed=min_grade)
    names = {MeasureSpec(ours, k): f"{theirs}_{k}" for ours, theirs in ORACLE.items() for k in CUTOFFS}
    names |= {MeasureSpec(ours): theirs for ours, theirs in UNCUT.items()}
    asked = {f"{theirs}.{','.join(map(str, CUTOFFS))}" for theirs in ORACLE.values()} | set(UNCUT.values())
    expected = pytrec_eval.RelevanceEvaluator(qrels, asked, relevance_level=min_grade).evaluate(run)
    measured = compute_measures(qrels, run, list(names), min_grade=min_grade)
    compared = 0
    for spec, name in names.items():
        for query, value in zip(measured.queries, measured.values[spec], strict=True):
            assert value == pytest.approx(expected[query][name] if query in expected else 0, abs=1e-9), (query, spec)
            compared += 1
    assert compared > 85_000  # both cases together: more than 170,000
    assert set(measured.missing) == qrels.keys() - expected.keys()
    assert measured.ignored > 0


def test_scores_are_doubles_where_pytrec_eval_has_ties_of_single_precision():
    qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.00000001, "b": 1.0}}
    measured = compute_measures(qrels, run, [MeasureSpec("RR")])
    assert measured.values[MeasureSpec("RR")] == [1.0]
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"})
    assert oracle.evaluate(run)["q"]["recip_rank"] == 0.5  # for it they are equal, and b is the higher id
    assert oracle.evaluate({"q": {"a": 1.5, "b": 1.0}})["q"]["recip_rank"] == 1.0


def test_single_precision_is_all_that_differs_from_pytrec_eval():
    qrels, run = collection(500, seed=3)
    chance = random.Random(3)
    run = {query: {d: score + chance.choice([0, 1e-9]) for d, score in scores.items()} for query, scores in run.items()}
    single = {query: {d: struct.unpack("f", struct.pack("f", s))[0] for d, s in run[query].items()} for query in run}
    expected = pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)
    ours, rounded = (
        dict(zip(qrels, compute_measures(qrels, scores, [MeasureSpec("AP")]).values[MeasureSpec("AP")], strict=True))
        for scores in (run, single)
    )
    assert {query: rounded[query] for query in expected} == pytest.approx(
        {query: values["map"] for query, values in expected.items()}, abs=1e-9
    )
    differing = {query for query in qrels if abs(ours[query] - rounded[query]) > 1e-9}
    with_new_ties = {query for query in run if len({*single[query].values()}) < len({*run[query].values()})}
    assert differing
    assert differing <= with_new_ties


@pytest.mark.usefixtures("way")
def test_nan_is_refused_and_infinity_is_not():
    with pytest.raises(ValueError, match="query 'q' is NaN"):
        compute_measures({"q": {"a": 1}}, {"q": {"a": 1.0, "b": float("nan")}}, [MeasureSpec("RR")])
    infinite = {"q": {"a": 1.0, "b": float("inf"), "c": float("-inf")}}
    assert compute_measures({"q": {"a": 1}}, infinite, [MeasureSpec("RR")]).values[MeasureSpec("RR")] == [0.5]


def test_an_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="unknown measure 'DCG'"):
        compute_measures({"q": {"a": 1}}, {"q": ["a"]}, [MeasureSpec("DCG", 10)])


@pytest.mark.usefixtures("way")
def test_groups_are_measured_as_such():
    measured = compute_measures(
        {"q": {"a": 1, "b": 1, "c": 1}}, {"q": ["b", "c"]}, [MeasureSpec("Recall")], groups={"q": (("a", "b"), ("c",))}
    )
    assert measured.values[MeasureSpec("Recall")] == [1.0]
    assert measured.relevant == [2]


def test_what_has_no_value_is_told_from_zero():
    qrels = {"found": {"a": 1}, "nothing relevant": {"a": 0}, "missing": {"a": 1}}
    rankings = {"found": ["a"], "nothing relevant": ["a"]}
    measured = compute_measures(qrels, rankings, [MeasureSpec("RR"), MeasureSpec("Judged")])
    assert measured.defined(MeasureSpec("RR")) == [1.0, None, 0.0]
    assert measured.defined(MeasureSpec("Judged")) == [1.0, 1.0, None]


def test_small_work_imports_no_numpy():
    program = (
        "import sys; from evalspec.scoring.ranking.engine import *; "
        "qrels = {str(n): {'a': 1} for n in range(50)}; "
        "compute_measures(qrels, {q: list('bcdefghija') for q in qrels}, [MeasureSpec('nDCG', 10)]); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
