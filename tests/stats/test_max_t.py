from itertools import combinations, product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evalspec.verdict.stats.max_t import Family
from evalspec.verdict.stats.max_t import compute_max_t as compute_joint
from evalspec.verdict.stats.paired import compute_randomisation_test

eighths = st.integers(-8, 8).map(lambda count: count / 8)
small = arrays(float, st.tuples(st.integers(1, 5), st.integers(1, 3)), elements=eighths)


def flip(differences):
    return Family(np.stack([np.zeros_like(differences), differences], axis=1))


def compute_max_t(differences, alpha, **options):
    return compute_joint([flip(one) for one in differences], alpha, **options)


def adjust_by_brute_force(families, two_sided):
    """Westfall and Young's step-down procedure as it is defined, over every assignment of signs."""

    def compute_statistics(signed):
        squares = [np.sqrt((family**2).sum(axis=0)) for family in signed]
        return np.concatenate([f.sum(axis=0) / np.where(s > 0, s, 1) for f, s in zip(signed, squares, strict=True)])

    side = np.abs if two_sided else np.asarray
    seen = side(compute_statistics(families))
    null = []
    for signs in product([-1, 1], repeat=sum(map(len, families))):
        parts = np.split(np.array(signs)[:, None], np.cumsum([len(family) for family in families])[:-1])
        null.append(side(compute_statistics([p * family for p, family in zip(parts, families, strict=True)])))
    adjusted, greatest = {}, 0.0
    left = list(np.argsort(-seen, kind="stable"))
    while left:
        share = (np.array(null)[:, left].max(axis=1) >= seen[left[0]] - 1e-9).mean()
        greatest = max(greatest, share)
        adjusted[left.pop(0)] = greatest
    return [adjusted[place] for place in range(len(seen))]


@given(st.lists(small, min_size=1, max_size=2), st.booleans())
def test_few_units_are_adjusted_over_every_assignment_of_signs(families, two_sided):
    joint = compute_max_t(families, 0.05, two_sided=two_sided)
    assert joint.adjusted == pytest.approx(adjust_by_brute_force(families, two_sided), abs=1e-12)


@given(arrays(float, st.tuples(st.integers(1, 12), st.just(1)), elements=eighths), st.booleans())
def test_one_test_is_the_exact_randomisation_test(family, two_sided):
    joint = compute_max_t([family], 0.05, two_sided=two_sided)
    alone = compute_randomisation_test(family[:, 0].tolist(), "two-sided" if two_sided else "greater")
    assert joint.adjusted == pytest.approx([alone.p_value])


@given(st.integers(0, 50), st.booleans(), st.sampled_from([10, 30]))
def test_the_order_of_the_tests_does_not_matter_and_the_clearer_has_the_smaller_p(seed, two_sided, units):
    rng = np.random.default_rng(seed)
    family = rng.normal(0.2, 1, (units, 4))
    order = rng.permutation(4)
    adjusted = compute_max_t([family], 0.05, two_sided=two_sided, resamples=500).adjusted
    assert compute_max_t([family[:, order]], 0.05, two_sided=two_sided, resamples=500).adjusted == pytest.approx(
        [adjusted[place] for place in order]
    )
    clear = family.sum(axis=0) / np.sqrt((family**2).sum(axis=0))
    clear = np.abs(clear) if two_sided else clear
    assert (np.diff(np.array(adjusted)[np.argsort(-clear)]) >= 0).all()


@pytest.mark.parametrize("units", [12, 200, 6000], ids=["every sign", "drawn signs", "normal"])
def test_equal_tests_count_once_and_independent_ones_multiply(units):
    """Three ways to find the distribution, for one p-value of about 0.03."""
    values = np.abs(np.random.default_rng(2).normal(1, 0.3, units))
    wrong = {12: 2, 200: 86, 6000: 2940}[units]
    values[:wrong] *= -1
    one = values[:, None]
    alone = compute_max_t([one], 0.05, two_sided=False).adjusted[0]
    exact = compute_randomisation_test(values.tolist(), "greater", resamples=100_000).p_value
    assert 0.003 < exact < 0.1
    assert alone == pytest.approx(exact, abs=0.006)
    assert compute_max_t([np.hstack([one] * 5)], 0.05, two_sided=False).adjusted == pytest.approx(
        [alone] * 5, abs=0.006
    )
    apart = compute_max_t([one] * 5, 0.05, two_sided=False).adjusted
    assert apart == pytest.approx([1 - (1 - alone) ** 5] * 5, abs=0.015)


def test_a_family_of_few_units_is_not_approximated_beside_a_large_one():
    """Six differences of one sign have p = 2 / 64, and their normal approximation 0.014."""
    large = np.random.default_rng(4).normal(size=(6000, 1))
    few = compute_max_t([large, np.ones((6, 1))], 0.05, two_sided=True).adjusted[1]
    assert few == pytest.approx(1 - (1 - 2 / 64) * (1 - 2 * scipy.stats.norm.sf(6**0.5)), abs=0.006)


def test_the_critical_statistic_is_the_normal_quantile_of_the_largest():
    family = np.random.default_rng(1).normal(size=(300, 5))
    for two_sided in (False, True):
        critical = compute_max_t([family], 0.05, two_sided=two_sided).critical
        tail = (1 - 0.95 ** (1 / 5)) / (2 if two_sided else 1)
        assert critical == pytest.approx(scipy.stats.norm.isf(tail), abs=0.06)


def test_what_never_changes_is_never_significant():
    family = np.column_stack([np.zeros(20), np.ones(20)])
    adjusted = compute_max_t([family, np.zeros((3, 1))], 0.05, two_sided=True).adjusted
    assert (adjusted[0], adjusted[2]) == (1, 1)
    assert adjusted[1] < 0.001
    assert compute_max_t([], 0.05, two_sided=True).adjusted == ()


def list_assignments(attempts, own):
    return [list(places) for places in combinations(range(attempts), own)]


@given(
    arrays(float, st.tuples(st.integers(1, 4), st.just(3), st.integers(1, 2)), elements=eighths),
    st.sampled_from([1, 2]),
)
def test_attempts_of_a_unit_are_exchanged(columns, own):
    """Three attempts, one or two of them the candidate's: p over every choice, within the error of the draws."""

    def compute(choices):
        centred = columns - columns.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred**2).sum(axis=(0, 1)))
        return sum(centred[unit, chosen].sum(axis=0) for unit, chosen in enumerate(choices)) / np.where(scale, scale, 1)

    seen = compute([list(range(3 - own, 3))] * len(columns))
    null = np.array([compute(choices) for choices in product(list_assignments(3, own), repeat=len(columns))])
    largest = (null.max(axis=1) >= seen.max() - 1e-9).mean()
    found = compute_joint([Family(columns, own)], 0.05, two_sided=False, resamples=4000).adjusted
    assert min(found) == pytest.approx(largest, abs=0.04)


def test_ties_of_inexact_numbers_count_as_ties():
    """0.1 + 0.2 is not 0.3: with a strict comparison p would be 1/8, not 3/8."""
    family = np.array([[0.1], [0.2], [0.3]])
    family = np.vstack([family, [[-0.3]], [[0.1 + 0.2]]])
    exact = adjust_by_brute_force([np.round(family, 6)], two_sided=False)
    assert compute_max_t([family], 0.05, two_sided=False).adjusted == pytest.approx(exact)
    assert compute_randomisation_test(family[:, 0].tolist(), "greater").p_value == pytest.approx(exact[0])
