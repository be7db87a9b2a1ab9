"""The mean of people's scores, estimated from a random part of them and the judge's scores of all replies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from statsmodels.stats.inter_rater import cohens_kappa

from evalspec.verdict.correction.agreement import measure_kappa
from evalspec.verdict.correction.estimates import LABELS_ALONE, POST_STRATIFIED, Opinions, correct


def opinions_of(counts, unlabelled, **options):
    """Replies by (judge, people), and the number of unlabelled ones by the judge's score."""
    labelled = [pair for pair, count in counts.items() for _ in range(count)]
    rest = [(judged, None) for judged, count in unlabelled.items() for _ in range(count)]
    judged, people = zip(*labelled, *rest, strict=True)
    return Opinions(judged, people, **options)


def test_each_value_of_the_judge_counts_by_its_share_of_all_replies():
    """Of 100 replies, the judge passes 80. People pass 9 of its 15 labelled passes, and 2 of its 10 failures."""
    found = correct(opinions_of({(1, 1): 9, (1, 0): 6, (0, 1): 2, (0, 0): 8}, {1: 65, 0: 10}))
    assert found.value == pytest.approx(0.8 * 9 / 15 + 0.2 * 2 / 10)
    assert (found.method, found.missing, found.ends) == (POST_STRATIFIED, 0, (found.value, found.value))
    low, high = found.interval
    assert low < found.value < high


def test_a_judge_that_says_nothing_leaves_the_interval_of_the_labels():
    for passes, labels in ((0, 30), (21, 30), (30, 30), (4, 50)):
        found = correct(opinions_of({(1, 1): passes, (1, 0): labels - passes}, {1: 70}))
        exact = (
            beta.ppf(0.025, passes, labels - passes + 1) if passes else 0,
            beta.ppf(0.975, passes + 1, labels - passes) if passes < labels else 1,
        )
        assert found.interval == pytest.approx(exact, abs=0.012)


def test_a_good_judge_narrows_the_interval_and_a_bad_one_does_not_widen_it():
    labels = {(1, 1): 34, (0, 0): 14, (1, 0): 1, (0, 1): 1}
    good = correct(opinions_of(labels, {1: 350, 0: 100})).interval
    bad = correct(opinions_of({(1, 1): 18, (0, 1): 17, (1, 0): 8, (0, 0): 7}, {1: 250, 0: 200})).interval
    alone = correct(opinions_of({(1, 1): 35, (1, 0): 15}, {1: 450})).interval
    widths = [high - low for low, high in (good, bad, alone)]
    assert widths[0] < 0.6 * widths[2]
    assert widths[1] == pytest.approx(widths[2], rel=0.03)


def test_values_with_few_labels_join_their_neighbour():
    """The judge's 0.5 has one label: its replies are estimated with those of 0, which has fewer labels than 1."""
    found = correct(opinions_of({(1, 1): 12, (0.5, 1): 1, (0, 0): 9}, {1: 20, 0.5: 50, 0: 8}))
    assert found.value == pytest.approx((32 * 1 + 68 * 1 / 10) / 100)


def test_scores_with_many_values_are_divided_at_their_quantiles():
    judged = np.linspace(0, 1, 300)
    people = [float(score > 0.4) if n % 3 == 0 else None for n, score in enumerate(judged)]
    found = correct(Opinions(judged.tolist(), people))
    plain = correct(Opinions([0.0] * 300, people))
    assert found.value == pytest.approx(0.6, abs=0.02)
    assert found.interval[1] - found.interval[0] < 0.75 * (plain.interval[1] - plain.interval[0])


def test_replies_without_score_and_label_may_be_anything():
    known = {(1, 1): 20, (0, 0): 20}
    found = correct(opinions_of(known, {1: 20, 0: 20, None: 20}))
    assert found.missing == 20
    assert (found.value, found.ends) == (pytest.approx(0.5), (pytest.approx(0.4), pytest.approx(0.6)))
    complete = correct(opinions_of(known, {1: 20, 0: 20})).interval
    assert found.interval[0] < complete[0] - 0.05
    assert found.interval[1] > complete[1] + 0.05
    labelled = correct(opinions_of({**known, (None, 0): 8}, {1: 20, 0: 20, None: 12}))
    assert (labelled.missing, labelled.value) == (0, pytest.approx(0.4))


def test_replies_that_were_drawn_apart_are_strata_of_their_own():
    """Old replies have labels, the 50 new ones have none: whatever the judge says about them, they are unknown."""
    labels = {(1, 1): 30, (0, 0): 20}
    groups = ["old"] * 50 + ["new"] * 50
    found = correct(opinions_of(labels, {1: 50}, groups=groups))
    assert (found.missing, found.ends) == (50, (pytest.approx(0.3), pytest.approx(0.8)))


def test_labels_with_unequal_chances_are_weighted():
    """One stratum, because the judge says the same of all: half of the labels stand for nine times as many replies."""
    weights = [1.0] * 20 + [9.0] * 20 + [1.0] * 60
    found = correct(opinions_of({(1, 1): 20, (1, 0): 20}, {1: 60}, weights=weights))
    assert found.value == pytest.approx(0.1)


def test_clusters_count_once():
    labels, rest = {(1, 1): 40, (0, 0): 20}, {1: 80, 0: 60}
    single = correct(opinions_of(labels, rest)).interval
    paired = correct(opinions_of(labels, rest, units=[n // 4 for n in range(200)])).interval
    assert paired[1] - paired[0] > 1.5 * (single[1] - single[0])


def test_few_labels_count_without_the_judge_and_fewer_than_five_not_at_all():
    assert correct(opinions_of({(1, 1): 6, (0, 0): 6}, {1: 88})).value == pytest.approx(0.5)
    assert correct(opinions_of({(1, 1): 6, (0, 0): 6}, {1: 88})).method == LABELS_ALONE
    assert correct(opinions_of({(1, 1): 4}, {1: 96})) is None


@pytest.mark.parametrize("opinions", [Opinions([1.5], [None]), Opinions([1.0], [-1.0]), Opinions([1.0], [])])
def test_impossible_scores_are_refused(opinions):
    with pytest.raises(ValueError, match=r"outside|as many"):
        correct(opinions)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
        st.integers(0, 8),
        st.floats(0.1, 5),
    ),
    min_size=1,
    max_size=60,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_estimate_lies_in_its_interval_whatever_the_order(rows, random):
    def estimate(given):
        judged, people, units, weights = zip(*given, strict=True)
        return correct(Opinions(judged, people, (0.0, 1.0), weights, units))

    found = estimate(rows)
    if found is None:
        assert sum(people is not None for _, people, *_ in rows) < 60
        return
    low, high = found.interval
    assert 0 <= low <= found.ends[0] + 0.02 <= found.ends[1] + 0.04
    assert found.ends[1] - 0.02 <= high <= 1
    shuffled = list(rows)
    random.shuffle(shuffled)
    again = estimate(shuffled)
    assert again.value == pytest.approx(found.value, abs=1e-9)
    assert again.interval == pytest.approx(found.interval, abs=0.03)


@pytest.mark.parametrize(("labels", "sensitivity", "specificity"), [(30, 0.9, 0.8), (60, 0.6, 0.5)])
def test_the_interval_contains_the_share_in_most_draws(labels, sensitivity, specificity):
    rng = np.random.default_rng(labels)
    covered = 0
    for _ in range(200):
        people = rng.random(300) < 0.3
        judged = np.where(people, rng.random(300) < sensitivity, rng.random(300) > specificity).astype(float)
        known = [float(one) if place < labels else None for place, one in enumerate(people)]
        low, high = correct(Opinions(judged.tolist(), known)).interval
        covered += low <= 0.3 <= high
    assert covered >= 184  # 95 % less two standard errors


class TestKappa:
    def test_it_is_cohens_for_passes_and_weighted_for_grades(self):
        rng = np.random.default_rng(3)
        for grades in (2, 4):
            people = rng.integers(0, grades, 80)
            judged = np.where(rng.random(80) < 0.7, people, rng.integers(0, grades, 80))
            found = measure_kappa(judged.tolist(), people.tolist(), (0, grades - 1))
            table = np.histogram2d(judged, people, bins=grades)[0]
            oracle = cohens_kappa(table, weights=np.arange(grades), wt="quadratic", return_results=False)
            assert found.value == pytest.approx(oracle)
            assert found.interval[0] < found.value < found.interval[1]

    def test_agreement_on_one_value_only_is_unknown(self):
        assert measure_kappa([1.0] * 30, [1.0] * 30, (0, 1)).value is None

    def test_thirty_equal_labels_do_not_prove_a_perfect_judge(self):
        low, high = measure_kappa([0.0] * 10 + [1.0] * 20, [0.0] * 10 + [1.0] * 20, (0, 1)).interval
        assert (low, high) == (pytest.approx(0.71, abs=0.05), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "called_good", "people"), [(30, 0.2, (0.03, 0.7)), (30, 0.3, (0.03, 0.7)), (50, 0.12, (0.01, 0.7))]
)
def test_a_small_stratum_does_not_make_the_interval_too_narrow(labels, called_good, people):
    """The judge is right about most replies and calls few good, so few labels decide about them."""
    draw, wrong, draws = np.random.default_rng(1), 0, 400
    target = (1 - called_good) * people[0] + called_good * people[1]
    for _ in range(draws):
        judged = draw.random(2_000) < called_good
        said = (draw.random(labels) < np.where(judged[:labels], people[1], people[0])).astype(float).tolist()
        found = correct(Opinions(judged.astype(float).tolist(), [*said, *[None] * (2_000 - labels)]))
        wrong += not found.interval[0] <= target <= found.interval[1]
    assert wrong / draws <= 0.06
