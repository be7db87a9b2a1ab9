import json
import math
import random
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import MetricError
from evalspec.model import AgentReply, Exchange, Sample, ScoreStatus
from evalspec.scoring.metrics.base import METRICS
from evalspec.scoring.ranking.measures import MEASURES, judge_ranking

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
CUTOFFS = (1, 2, 3, 5, 10)
DOCUMENTS = [f"d{number}" for number in range(25)]

rankings = st.lists(st.sampled_from(DOCUMENTS), max_size=25)
qrels_of = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), max_size=25)
cutoffs = st.none() | st.integers(1, 30)


def exchange(ranking, qrels) -> Exchange:
    ids = None if ranking is None else tuple(ranking)
    return Exchange(Sample("s", "q", qrels=qrels), AgentReply("", retrieved_context_ids=ids))


def compute(measure, ranking, qrels, cutoff=None, min_grade=1) -> float:
    return MEASURES[measure](judge_ranking(ranking, qrels, cutoff, min_grade))


@pytest.mark.parametrize(
    ("case", "metric"),
    [pytest.param(case, name, id=f"{case['name']}: {name}") for case in CASES for name in case["expected"]],
)
def test_hand_worked_cases(case, metric, build_scorer):
    score = build_scorer(metric)(exchange(case["ranking"], case["qrels"]))
    assert score.value == pytest.approx(eval(case["expected"][metric], {"log2": math.log2}), abs=1e-12)


TREC_CUT = {"P": "Precision", "recall": "Recall", "ndcg_cut": "nDCG", "map_cut": "AP", "success": "Success"}
TREC_WHOLE = {"map": "AP", "ndcg": "nDCG", "recip_rank": "RR", "set_P": "Precision", "set_recall": "Recall"}
TREC_F = {"set_F.1": "F1", "set_F.4": "F2"}
"""trec_eval names its F after beta²."""


def test_agrees_with_trec_eval():
    """trec_eval gets strictly decreasing scores, so that it ranks as the reply did."""
    generator = random.Random(7)
    qrels = {f"q{query}": _random_qrels(generator) for query in range(250)}
    rankings = {query: generator.sample(DOCUMENTS, generator.randint(1, len(DOCUMENTS))) for query in qrels}
    run = {query: {doc: float(-rank) for rank, doc in enumerate(docs)} for query, docs in rankings.items()}
    at_cutoffs = {f"{name}.{','.join(map(str, CUTOFFS))}" for name in TREC_CUT}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, at_cutoffs | set(TREC_WHOLE)).evaluate(run)
    for option, name in TREC_F.items():
        for query, values in pytrec_eval.RelevanceEvaluator(qrels, {option}).evaluate(run).items():
            theirs[query][name] = values["set_F"]
    ours = {f"{trec}_{k}": (name, k) for trec, name in TREC_CUT.items() for k in CUTOFFS}
    ours |= {trec: (name, None) for trec, name in TREC_WHOLE.items()} | {name: (name, None) for name in TREC_F.values()}
    for query in qrels:
        for key, (name, cutoff) in ours.items():
            mine = compute(name, rankings[query], qrels[query], cutoff)
            assert mine == pytest.approx(theirs[query][key], abs=1e-12), (query, key)
    assert len(qrels) * len(ours) == 8000


def _random_qrels(generator: random.Random) -> dict[str, int]:
    """From nothing judged relevant to nearly everything."""
    judged = generator.sample(DOCUMENTS, generator.randint(1, 20))
    return {document: generator.choice([-1, 0, 0, 1, 2, 3]) for document in judged}


@pytest.mark.parametrize("min_grade", [1, 2, 3])
def test_relevance_level_agrees_with_trec_eval(min_grade):
    generator = random.Random(11)
    qrels = {f"q{query}": _random_qrels(generator) for query in range(40)}
    run = {query: {doc: generator.random() for doc in DOCUMENTS} for query in qrels}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"P.5", "map", "ndcg", "recip_rank"}, relevance_level=min_grade)
    names = {"P_5": ("Precision", 5), "map": ("AP", None), "ndcg": ("nDCG", None), "recip_rank": ("RR", None)}
    for query, theirs in evaluator.evaluate(run).items():
        ranking = sorted(DOCUMENTS, key=run[query].__getitem__, reverse=True)
        for key, (name, cutoff) in names.items():
            assert compute(name, ranking, qrels[query], cutoff, min_grade) == pytest.approx(theirs[key], abs=1e-12)


@given(st.sampled_from(list(MEASURES)), rankings, qrels_of, cutoffs)
def test_within_bounds(measure, ranking, qrels, cutoff):
    assert 0 <= compute(measure, ranking, qrels, cutoff) <= 1 + 1e-12


@given(qrels_of.filter(lambda qrels: any(grade > 0 for grade in qrels.values())), cutoffs)
def test_perfect_ranking_has_ndcg_ap_and_rr_of_one(qrels, cutoff):
    best_first = sorted((doc for doc in qrels if qrels[doc] > 0), key=lambda doc: -qrels[doc])
    assert compute("nDCG", best_first, qrels, cutoff) == pytest.approx(1)
    assert compute("AP", best_first, qrels) == pytest.approx(1)
    assert compute("RR", best_first, qrels, cutoff) == 1


@given(rankings, qrels_of)
def test_irrelevant_document_at_the_end_changes_only_what_divides_by_the_length(ranking, qrels):
    longer = [*ranking, "unheard of"]
    for measure in ("RR", "AP", "nDCG", "Recall", "Success"):
        assert compute(measure, longer, qrels) == compute(measure, ranking, qrels)
    assert compute("Precision", longer, qrels) <= compute("Precision", ranking, qrels)


@given(rankings, qrels_of, st.randoms())
def test_order_within_the_cut_matters_only_to_rank_measures(ranking, qrels, generator):
    shuffled = generator.sample(ranking, len(ranking))
    for measure in ("Precision", "Recall", "F1", "F2", "Success", "Judged"):
        assert compute(measure, shuffled, qrels) == compute(measure, ranking, qrels)


@given(rankings, qrels_of, cutoffs)
def test_repeating_documents_at_the_end_changes_nothing(ranking, qrels, cutoff):
    for measure in MEASURES:
        assert compute(measure, ranking + ranking, qrels, cutoff) == compute(measure, ranking, qrels, cutoff)


@pytest.mark.parametrize("metric", [name for name in MEASURES if name != "Judged"])
@pytest.mark.parametrize("qrels", [{}, {"a": 0}, {"a": -1}])
def test_not_applicable_without_a_relevant_document(metric, qrels, build_scorer):
    score = build_scorer(metric)(exchange(["a", "b"], qrels))
    assert score.status is ScoreStatus.NOT_APPLICABLE


def test_judged_is_about_what_was_retrieved(build_scorer):
    judged = build_scorer("Judged@10")
    assert judged(exchange(["a", "b"], {"a": 0})).value == 0.5
    assert judged(exchange([], {"a": 1})).status is ScoreStatus.NOT_APPLICABLE


def test_score_tells_what_it_rests_on(build_scorer):
    qrels = {"a": 1, "b": 3, "c": 1} | {f"other{number}": 1 for number in range(30)}
    score = build_scorer("Recall@3")(exchange(["x", "a", "a", "c", "b"], qrels))
    assert score.value == 2 / 33
    assert "1 duplicate" in score.reason
    assert score.evidence["found"] == {"a": 2, "c": 3}
    assert score.evidence["missing"][0] == "b"
    assert len(score.evidence["missing"]) == 20
    assert (score.evidence["relevant"], score.evidence["duplicates"]) == (33, 1)


def test_nothing_retrieved_is_zero_and_said(build_scorer):
    score = build_scorer("AP")(exchange([], {"a": 1}))
    assert (score.value, score.reason) == (0.0, "nothing was retrieved")


def test_a_reply_without_ids_cannot_be_scored(build_scorer):
    with pytest.raises(MetricError, match="contextIds"):
        build_scorer("nDCG@5")(exchange(None, {"a": 1}))


@pytest.mark.parametrize(
    ("written", "meant"),
    [("map", "AP"), ("MRR", "RR"), ("hit_rate", "Success"), ("hit", "Success"), ("ndcg", "nDCG"), ("f2", "F2")],
)
def test_usual_names_are_understood(written, meant):
    assert METRICS.find(written).name == meant
