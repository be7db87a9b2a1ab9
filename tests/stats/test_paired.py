import math
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.verdict.stats.paired import (
    compute_differences,
    compute_effect_size,
    compute_randomisation_test,
    compute_standard_error,
)

ALTERNATIVES = ["two-sided", "greater", "less"]

eighths = st.integers(-8, 8).map(lambda count: count / 8)
fractions = st.integers(-1024, 1024).map(lambda count: count / 1024)
few = st.lists(eighths | fractions, min_size=2, max_size=9)
binary = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=120)
varied = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=50).filter(
    lambda values: len(set(values)) > 1
)
many = np.random.default_rng(4).normal(0.1, 1, 300).tolist()


@given(few, st.sampled_from(ALTERNATIVES))
def test_few_pairs_are_tested_as_by_scipy(differences, alternative):
    """In eighths and the like, whose sums are exact: scipy would tell sums apart that differ by rounding alone."""
    test = compute_randomisation_test(differences, alternative)
    theirs = scipy.stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", alternative=alternative, n_resamples=np.inf
    )
    assert test.p_value == pytest.approx(theirs.pvalue, abs=1e-12)
    assert test.exact
    assert test.mean == pytest.approx(np.mean(differences), abs=1e-12)


def test_sums_that_are_equal_but_for_rounding_are_as_extreme():
    """0.1 + 0.2 - 0.3 is not 0 to a computer: of the eight sums, 0.6 once, -0.6 once, 0 twice, ±0.2, ±0.4."""
    assert compute_randomisation_test([0.1, 0.2, -0.3], "greater").p_value == 5 / 8
    assert compute_randomisation_test([0.1, 0.2, 0.3]).p_value == 2 / 8
    assert compute_randomisation_test([-6, -2, 1, 1], "greater").p_value == 13 / 16, (
        "sixths are rounded, and sums of them"
    )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("flips", [3, 7, 11])
def test_many_pairs_are_tested_as_by_wilcoxon(alternative, flips):
    """With differences of sizes 1, 2 … 40 the test is Wilcoxon's signed-rank test, whose distribution is known."""
    signs = np.where(np.random.default_rng(flips).permutation(40) < flips, -1, 1)
    differences = (np.arange(1.0, 41) * signs).tolist()
    test = compute_randomisation_test(differences, alternative, resamples=200_000)
    exact = scipy.stats.wilcoxon(differences, alternative=alternative, method="exact").pvalue
    assert not test.exact
    assert test.p_value == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 200_000) + 1e-5)


def test_signs_are_tossed_alike_for_few_and_for_many_equal_differences():
    """300 differences of one size are tossed by a binomial, 100 of another by bits; the sum is close to normal."""
    generator = np.random.default_rng(1)
    repeated = np.concatenate([np.repeat([0.25, 0.5, 1.0], 300), np.repeat([0.3, 0.7], 100), generator.random(95)])
    differences = np.where(generator.random(len(repeated)) < 0.53, repeated, -repeated).tolist()
    test = compute_randomisation_test(differences, resamples=100_000)
    deviation = np.sum(differences) / np.sqrt(np.square(differences).sum())
    assert test.p_value == pytest.approx(2 * scipy.stats.norm.sf(abs(deviation)), abs=0.006)


@given(binary, st.sampled_from(ALTERNATIVES))
def test_scores_of_0_and_1_are_tested_as_by_mcnemar(pairs, alternative):
    """McNemar's exact test is a binomial test of the changes."""
    baseline, candidate = ([float(side) for side in sides] for sides in zip(*pairs, strict=True))
    differences = compute_differences(baseline, candidate)
    test = compute_randomisation_test(differences, alternative)
    exact = (
        scipy.stats.binomtest(differences.count(1), test.nonzero, alternative=alternative).pvalue
        if test.nonzero
        else 1.0
    )
    assert test.p_value == pytest.approx(exact, rel=1e-9)


def test_very_many_changes_of_one_size_are_tested_exactly():
    test = compute_randomisation_test([1.0] * 60_400 + [-1.0] * 59_600)
    assert test.exact
    assert test.p_value == pytest.approx(scipy.stats.binomtest(59_600, 120_000).pvalue, rel=1e-6)


@given(few)
def test_runs_that_change_places_change_sides(differences):
    def p_value(values, alternative):
        return compute_randomisation_test(values, alternative).p_value

    swapped = [-difference for difference in differences]
    assert p_value(swapped, "two-sided") == pytest.approx(p_value(differences, "two-sided"), rel=1e-12)
    assert p_value(swapped, "less") == pytest.approx(p_value(differences, "greater"), rel=1e-12)


@given(few | st.just(many), st.sampled_from([1e-6, 3.0, 1e9]), st.integers(0, 5), st.randoms(use_true_random=False))
def test_unit_order_and_unchanged_pairs_do_not_matter(differences, scale, unchanged, random):
    test = compute_randomisation_test(differences, resamples=500)
    other = [scale * difference for difference in differences] + [0.0] * unchanged
    random.shuffle(other)
    again = compute_randomisation_test(other, resamples=500)
    assert again.p_value == pytest.approx(test.p_value, rel=1e-9)
    assert (again.nonzero, again.pairs) == (test.nonzero, test.pairs + unchanged)


def test_pairs_of_a_cluster_change_sign_together():
    differences, labels = [0.1, 0.4, -0.2, 0.3, 0.3, 0.5], ["a", "a", "b", "c", "b", "c"]
    clustered = compute_randomisation_test(differences, clusters=labels)
    summed = compute_randomisation_test([0.5, 0.1, 0.8])
    assert clustered.p_value == summed.p_value == 2 / 8
    assert (clustered.pairs, clustered.units, clustered.nonzero) == (6, 3, 3)
    assert clustered.mean == pytest.approx(1.4 / 6)
    assert compute_randomisation_test(many, clusters=range(300)) == compute_randomisation_test(many)
    with pytest.raises(ValueError, match="6 values but 1 cluster labels"):
        compute_randomisation_test(differences, clusters="a")


def test_nothing_to_test():
    assert compute_randomisation_test([]) is None
    unchanged = compute_randomisation_test([0.0, 0.0])
    assert (unchanged.p_value, unchanged.nonzero, unchanged.exact) == (1.0, 0, True)
    assert compute_randomisation_test([0.25]).p_value == 1.0


def test_a_drawn_p_value_is_never_0_and_repeats_with_its_seed():
    certain = compute_randomisation_test([abs(value) + 1 for value in many], resamples=999)
    assert (certain.p_value, certain.exact) == (1 / 1000, False)
    assert compute_randomisation_test(many) == compute_randomisation_test(many)
    assert compute_randomisation_test(many).p_value != compute_randomisation_test(many, seed=1).p_value


def test_differences_are_of_pairs_and_free_of_rounding():
    assert compute_differences([0.3, 1000.0, 0.0, 0.5], [0.1 + 0.2, 1000.0 + 1e-10, 1e-15, 0.75]) == [0, 0, 0, 0.25]
    with pytest.raises(ValueError, match="2 baseline values but 1 candidate values"):
        compute_differences([1, 2], [1])


def test_memory_is_bounded_with_many_pairs():
    """100,000 pairs times 1,000 resamples at once would be 800 MB."""
    differences = np.random.default_rng(0).normal(size=100_000).tolist()
    tracemalloc.start()
    try:
        test = compute_randomisation_test(differences, resamples=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < test.p_value <= 1
    assert peak < 50e6


@given(varied)
def test_effect_sizes(differences):
    effect = compute_effect_size(differences)
    student = scipy.stats.ttest_1samp(differences, 0).statistic
    assert effect.cohens_dz == pytest.approx(student / math.sqrt(len(differences)), rel=1e-9, abs=1e-12)
    ahead, behind = np.greater(differences, 0).sum(), np.less(differences, 0).sum()
    assert 2 * effect.superiority - 1 == pytest.approx((ahead - behind) / len(differences))
    swapped = compute_effect_size([-difference for difference in differences])
    assert swapped.superiority == pytest.approx(1 - effect.superiority)


@given(varied)
def test_standard_error_is_scipy_s(values):
    assert compute_standard_error(values) == pytest.approx(scipy.stats.sem(values), rel=1e-9)


def test_what_no_variation_leaves_unknown():
    assert compute_effect_size([]) is None
    assert compute_effect_size([0.5, 0.5]).cohens_dz is None
    assert compute_effect_size([0.0, 0.0]).superiority == 0.5
    assert compute_effect_size([0.5]).superiority == 1
    assert compute_standard_error([0.5]) is None
    assert compute_standard_error([0.1] * 9) == 0
