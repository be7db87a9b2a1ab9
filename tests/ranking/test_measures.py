"""Ground truth with AND and OR, and the formulas of other systems."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.inputs.formats.autorag import FORMULAS as AUTORAG
from evalspec.inputs.formats.autorag import is_defined
from evalspec.inputs.formats.unrag.compat import FORMULAS as UNRAG
from evalspec.scoring.ranking.measures import MEASURES, find_measure, judge_ranking

DOCUMENTS = [f"d{number}" for number in range(12)]
groups_of = st.lists(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3, unique=True), min_size=1, max_size=4)
rankings = st.lists(st.sampled_from(DOCUMENTS), max_size=12)
cutoffs = st.none() | st.integers(1, 12)


def compute(measure, ranking, groups, cutoff=None):
    qrels = {document: 1 for group in groups for document in group}
    return find_measure(measure)(judge_ranking(ranking, qrels, cutoff, groups=groups))


@pytest.mark.parametrize(
    ("measure", "ranking", "cutoff", "value"),
    [
        ("Recall", "a", None, 1 / 2),
        ("Recall", "ab", None, 1 / 2),
        ("Recall", "bc", None, 1),
        ("Recall", "xbc", 2, 1 / 2),
        ("Precision", "abxc", None, 3 / 4),
        ("AP", "ac", None, 1),
        ("AP", "abc", None, (1 + 2 / 3) / 2),
        ("RR", "xb", None, 1 / 2),
        ("nDCG", "ca", None, 1),
        ("nDCG", "a", None, 1 / (1 + 1 / math.log2(3))),
        ("Rprec", "abc", None, 1 / 2),
        ("Success", "xb", 1, 0),
        ("F0.5", "ac", None, 1),
    ],
)
def test_a_or_b_and_c(measure, ranking, cutoff, value):
    assert compute(measure, list(ranking), [["a", "b"], ["c"]], cutoff) == pytest.approx(value, abs=1e-12)


def test_one_document_that_answers_both_is_perfect_and_not_more():
    for measure in ("Recall", "AP", "RR", "nDCG", "Rprec"):
        assert compute(measure, ["b"], [["a", "b"], ["b", "c"]]) == 1


@given(rankings, groups_of, cutoffs, st.sampled_from(list(MEASURES)))
def test_no_measure_exceeds_one(ranking, groups, cutoff, measure):
    assert 0 <= compute(measure, ranking, groups, cutoff) <= 1 + 1e-12


@given(groups_of, cutoffs, st.sampled_from(["AP", "RR", "nDCG"]))
def test_a_perfect_ranking_reaches_one(groups, cutoff, measure):
    ranking = list(dict.fromkeys(group[0] for group in groups))
    if cutoff is None or cutoff >= len(groups) or measure != "AP":
        assert compute(measure, ranking, groups, cutoff) == pytest.approx(1, abs=1e-12)


@given(
    rankings, st.lists(st.sampled_from(DOCUMENTS), min_size=1, unique=True), cutoffs, st.sampled_from(list(MEASURES))
)
def test_groups_of_one_are_plain_relevance(ranking, relevant, cutoff, measure):
    qrels = dict.fromkeys(relevant, 1)
    plain = MEASURES[measure](judge_ranking(ranking, qrels, cutoff))
    assert compute(measure, ranking, [[document] for document in relevant], cutoff) == pytest.approx(plain, abs=1e-12)


@given(rankings, st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 3)), cutoffs)
def test_r_precision_is_precision_at_r(ranking, qrels, cutoff):
    relevant = sum(grade > 0 for grade in qrels.values())
    if relevant and (cutoff is None or cutoff >= relevant):
        expected = MEASURES["Precision"](judge_ranking(ranking, qrels, relevant))
        assert MEASURES["Rprec"](judge_ranking(ranking, qrels, cutoff)) == pytest.approx(expected, abs=1e-12)


AUTORAG_VECTORS = [
    # ranking, groups, {measure: value}: worked from the formulas that its documentation and code agree on
    (["a", "b", "x"], [["a"], ["b"]], {"Recall": 1, "Precision": 2 / 3, "F1": 0.8, "RR": 0.75, "AP": 0.75}),
    (["a", "x", "y"], [["a", "b", "c"]], {"Recall": 1, "nDCG": 1 / (1 + 1 / math.log2(3) + 1 / 2)}),
    (["a", "a"], [["a"]], {"Precision": 1 / 2, "nDCG": 1 + 1 / math.log2(3)}),
    (["x", "y"], [["a"]], {"Recall": 0, "Precision": 0, "F1": 0, "nDCG": 0, "RR": 0, "AP": 0}),
    (["x", "a", "b"], [["a", "b"]], {"AP": (1 / 2 + 2 / 3) / 2, "RR": 1 / 2}),
]


@pytest.mark.parametrize(("ranking", "groups", "values"), AUTORAG_VECTORS)
def test_autorag(ranking, groups, values):
    assert {name: AUTORAG[name](ranking, groups) for name in values} == pytest.approx(values, abs=1e-12)


@pytest.mark.parametrize(
    ("ranking", "groups"),
    [([], [["a"]]), (["a", ""], [["a"]]), (["a"], []), (["a"], [["a"], []]), (["a"], [["", "a"]])],
)
def test_autorag_gives_no_value(ranking, groups):
    assert not is_defined(ranking, groups)


def test_unrag():
    values = {name: UNRAG[name](["x", "x", "x", "a"], ["a"], 2) for name in UNRAG}
    assert values == pytest.approx(
        {"Success": 1, "Recall": 1, "Precision": 1 / 2, "RR": 1 / 2, "nDCG": 1 / math.log2(3)}, abs=1e-12
    )
    assert UNRAG["Recall"](["a"], ["a", "a"], 10) == 1 / 2, "the list as it is written"
    assert UNRAG["nDCG"](["a"], ["a", "a"], 10) == 1
    assert UNRAG["Precision"](["a"], ["a"], 10) == 1 / 10
    assert {UNRAG[name](["a"], [], 5) for name in UNRAG} == {0}
