import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from evalspec.verdict.stats.detection import (
    Power,
    compute_detectable,
    compute_moments,
    compute_needed,
    compute_needed_to_exclude,
    count_needed_to_decide,
)

ALPHA = 0.05


def observe(differences, **options):
    return Power(list(differences), options.pop("members", None), options.pop("is_binary", False), ALPHA, **options)


def draw(count, seed=0):
    return np.random.default_rng(seed).normal(0, 0.2, count)


@pytest.mark.parametrize("count", [500, 3000])
def test_many_normal_differences_have_the_textbook_s_detectable_change(count):
    differences = draw(count)
    textbook = (norm.isf(ALPHA) + norm.isf(0.2)) * differences.std(ddof=1) / math.sqrt(count)
    assert compute_detectable(observe(differences)) == pytest.approx(textbook, rel=0.05)
    assert compute_needed(observe(differences), textbook) == pytest.approx(count, rel=0.03)


@pytest.mark.parametrize("count", [5, 20, 100, 3000])
def test_unchanged_passes_have_the_binomial_s_detectable_change(count):
    """Five losses without a gain are significant: 1 / 32 < 0.05."""
    exact = brentq(lambda share: binom.sf(4, count, share) - 0.8, 1e-6, 1)
    assert compute_detectable(observe([0.0] * count, is_binary=True)) == pytest.approx(exact, rel=0.05)
    assert compute_detectable(observe([0.0] * 4, is_binary=True)) is None


@given(st.integers(0, 20), st.sampled_from([0.01, 3.0, 1000.0]), st.booleans())
def test_the_detectable_change_follows_the_unit(seed, scale, clustered):
    power = observe(draw(60, seed), members=(np.arange(60) // 3).tolist() if clustered else None)
    scaled = replace(power, differences=[scale * difference for difference in power.differences])
    change = compute_detectable(power)
    assert compute_detectable(scaled) == pytest.approx(scale * change, rel=1e-3)
    assert compute_needed(scaled, scale * change) == compute_needed(power, change)


@pytest.mark.parametrize("is_binary", [False, True])
def test_more_pairs_find_less_and_more_tests_find_only_more(is_binary):
    differences = [1.0, -1.0, *[0.0] * 8] if is_binary else draw(10).tolist()
    changes = [compute_detectable(observe(differences * times, is_binary=is_binary)) for times in (3, 10, 100, 300)]
    assert changes == sorted(changes, reverse=True)
    assert len(set(changes)) == 4
    power = observe(differences * 10, is_binary=is_binary)
    harder = [compute_detectable(replace(power, critical=critical)) for critical in (None, 2.3, 3.0)]
    assert harder == sorted(harder)
    assert len(set(harder)) == 3
    assert compute_needed(replace(power, critical=3.0), 0.1) > compute_needed(power, 0.1) > compute_needed(power, 0.2)
    assert compute_needed_to_exclude(compute_moments(power), 0.05, ALPHA, 1.0) > compute_needed_to_exclude(
        compute_moments(power), 0.1, ALPHA, 1.0
    )


def test_from_2000_units_on_the_formula_takes_over_without_a_step():
    for members in (None, (np.arange(8000) // 4).tolist()):
        count = 2000 if members is None else 8000
        differences = draw(count + 1)
        below = compute_detectable(observe(differences[:count], members=members))
        more = None if members is None else [*members, 2000]
        assert compute_detectable(observe(differences, members=more)) == pytest.approx(below, rel=0.05)


def test_copies_in_a_cluster_add_nothing():
    differences = draw(40)
    alone = observe(differences, members=list(range(40)))
    copied = observe(differences.repeat(5), members=np.arange(40).repeat(5).tolist())
    assert compute_detectable(copied) == pytest.approx(compute_detectable(alone), rel=0.01)
    assert compute_needed(copied, 0.05) == pytest.approx(5 * compute_needed(alone, 0.05), abs=5)
    assert compute_needed_to_exclude(compute_moments(copied), 0.05, ALPHA, 1.0) == pytest.approx(
        5 * compute_needed_to_exclude(compute_moments(alone), 0.05, ALPHA, 1.0), abs=5
    )


@pytest.mark.parametrize("differences", [[], [0.25], [0.25] * 30])
def test_without_any_noise_seen_nothing_is_known(differences):
    power = observe(differences)
    assert compute_detectable(power) is None
    assert compute_needed(power, 0.1) is None
    assert compute_needed_to_exclude(compute_moments(power), 0.1, ALPHA, 1.0) is None


def test_clusters_that_are_all_alike_show_no_noise():
    for is_binary in (False, True):
        power = observe([1.0, -1.0] * 10, members=(np.arange(20) // 2).tolist(), is_binary=is_binary)
        assert compute_detectable(power) is None


def test_no_number_of_pairs_finds_or_excludes_a_change_of_0():
    with pytest.raises(ValueError, match="a change of 0"):
        compute_needed(observe(draw(30)), 0)
    assert compute_needed_to_exclude(compute_moments(observe(draw(30))), 0, ALPHA, 1.0) is None


@pytest.mark.parametrize(("truth", "limit"), [(0.9, 0.8), (0.7, 0.8), (0.5, 0.3), (0.02, 0.1), (0.97, 0.95)])
def test_the_labels_that_decide_a_limit_are_those_of_the_exact_test(truth, limit):
    def decided(count):
        """Share of the draws whose exact interval is on the right side of the limit."""
        passes = np.arange(count + 1)
        low, high = beta.ppf(0.025, passes, count - passes + 1), beta.ppf(0.975, passes + 1, count - passes)
        right = np.nan_to_num(low) >= limit if truth > limit else np.nan_to_num(high, nan=1.0) <= limit
        return binom.pmf(passes, count, truth)[right].sum()

    count = count_needed_to_decide(truth, limit, 0.05, 10_000)
    assert decided(count) >= 0.8
    assert all(decided(fewer) < 0.8 for fewer in range(1, round(0.75 * count)))
    assert count_needed_to_decide(truth, limit, 0.05, round(0.75 * count)) is None
    assert count_needed_to_decide(limit, limit, 0.05, 10_000) is None
