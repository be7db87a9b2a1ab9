"""Many queries at once give what the definitions give for each, in plain Python and over arrays alike."""

import random

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evalspec.ranking import engine
from evalspec.ranking.engine import MeasureSpec, compute_measures
from evalspec.ranking.measures import MEASURES, judge_ranking

DOCUMENTS = [f"d{number}" for number in range(30)]
SPECS = [MeasureSpec(measure, cutoff) for measure in (*MEASURES, "F0.5") for cutoff in (None, 1, 3, 10)]
rankings_of = st.dictionaries(st.sampled_from("pqrs"), st.lists(st.sampled_from(DOCUMENTS), max_size=25))
qrels_of = st.dictionaries(
    st.sampled_from("pqrt"), st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 3), max_size=12), min_size=1
)


@pytest.fixture(params=["plain Python", "arrays"])
def path(request, monkeypatch):
    """Both ways of computing, whatever the size of the work."""
    if request.param == "arrays":
        monkeypatch.setattr(engine, "_SMALL", -1)
    return request.param


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("min_grade", [1, 2])
def test_as_the_definitions_have_it(min_grade):
    @given(qrels_of, rankings_of)
    def check(qrels, rankings):
        measured = compute_measures(qrels, rankings, SPECS, min_grade=min_grade)
        assert measured.missing == qrels.keys() - rankings.keys()
        for spec, values in measured.values.items():
            for query, value in zip(measured.queries, values, strict=True):
                judged = judge_ranking(rankings.get(query, []), qrels[query], spec.cutoff, min_grade)
                find = engine.find_measure(spec.measure)
                assert value == pytest.approx(find(judged), abs=1e-12), (spec, query)

    check()


@pytest.mark.usefixtures("path")
def test_agrees_with_trec_eval_on_scored_runs_with_ties_missing_and_unjudged_queries():
    """Scores are eighths: float32, in which trec_eval 9 compares them, holds these exactly, so ties are the same."""
    generator = random.Random(11)
    cutoffs = (1, 5, 10, 20)
    named = {"P": "Precision", "recall": "Recall", "ndcg_cut": "nDCG", "map_cut": "AP", "success": "Success"}
    qrels = {
        f"q{query}": {d: generator.choice((0, 0, 1, 2, 3)) for d in generator.sample(DOCUMENTS, 12)}
        for query in range(900)
    }
    run = {
        f"q{query}": {d: generator.randint(0, 40) / 8 for d in generator.sample(DOCUMENTS, generator.randint(1, 30))}
        for query in range(20, 1000)
    }
    measures = {f"{name}.{','.join(map(str, cutoffs))}" for name in named} | {"map", "recip_rank", "Rprec"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    ours = {f"{trec}_{k}": MeasureSpec(name, k) for trec, name in named.items() for k in cutoffs}
    ours |= {"map": MeasureSpec("AP"), "recip_rank": MeasureSpec("RR"), "Rprec": MeasureSpec("Rprec")}
    measured = compute_measures(qrels, run, list(ours.values()))
    assert (len(measured.missing), measured.ignored) == (20, 100)
    compared = 0
    for trec, spec in ours.items():
        for query, value in zip(measured.queries, measured.values[spec], strict=True):
            expected = theirs[query][trec] if query in theirs else 0.0
            assert value == pytest.approx(expected, abs=1e-9), (trec, query)
            compared += 1
    assert compared == 900 * 23


def test_an_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="nope"):
        compute_measures({"q": {"a": 1}}, {"q": ["a"]}, [MeasureSpec("nope")])
