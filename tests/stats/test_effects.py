import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.stats.effects import compute_effect_size, compute_standard_error

varied = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=50).filter(
    lambda values: len(set(values)) > 1
)


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


@given(varied, st.integers(2, 4))
def test_copies_in_a_cluster_add_nothing(values, copies):
    repeated = [value for value in values for _ in range(copies)]
    clusters = [number for number in range(len(values)) for _ in range(copies)]
    assert compute_standard_error(repeated, clusters) == pytest.approx(scipy.stats.sem(values), rel=1e-9)


def test_clustered_standard_error_by_hand():
    """Mean 2; the clusters' sums of deviations are -2, 0 and 2, so sqrt(3 / 2 x 8) / 6."""
    error = compute_standard_error([1, 1, 0, 4, 2, 4], ["a", "a", "b", "b", "c", "c"])
    assert error == pytest.approx(math.sqrt(12) / 6)


def test_what_no_variation_leaves_unknown():
    assert compute_effect_size([]) is None
    assert compute_effect_size([0.5, 0.5]).cohens_dz is None
    assert compute_effect_size([0.0, 0.0]).superiority == 0.5
    assert compute_effect_size([0.5]).superiority == 1
    assert compute_standard_error([0.5]) is None
    assert compute_standard_error([0.5, 0.7], clusters="aa") is None
    assert compute_standard_error([0.1] * 9) == 0
