"""The correlation of differences between configurations."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from evalspec.verdict.stats.bootstrap import correlate_differences

WHOLE = [0.61, 0.64, 0.58, 0.70, 0.66, 0.72, 0.69, 0.63]
PART = [0.60, 0.68, 0.55, 0.71, 0.62, 0.74, 0.73, 0.59]


def test_it_is_the_correlation_over_all_pairs_and_equals_pearsons():
    pairs = list(permutations(range(len(WHOLE)), 2))
    differences = [[values[a] - values[b] for a, b in pairs] for values in (WHOLE, PART)]
    found = correlate_differences(WHOLE, PART)
    assert found.value == pytest.approx(np.asarray(np.corrcoef(differences))[0, 1])
    assert found.value == pytest.approx(stats.pearsonr(WHOLE, PART).statistic)
    assert found.interval[0] < found.value < found.interval[1] <= 1
    assert correlate_differences(WHOLE, PART) == found, "the resamples have a seed"


def test_the_interval_contains_the_true_correlation_as_often_as_it_says():
    rng, truth, hits = np.random.default_rng(3), 0.8, 0
    for _ in range(200):
        whole = rng.normal(size=8)
        part = truth * whole + np.sqrt(1 - truth**2) * rng.normal(size=8)
        low, high = correlate_differences(list(whole), list(part), resamples=1000).interval
        hits += low <= truth <= high
    assert hits >= 180


@pytest.mark.parametrize(
    ("whole", "part", "reason"),
    [
        ([0.5], [0.5], "no two configurations"),
        ([0.5] * 8, PART, "do not differ on the full set"),
        (WHOLE, [0.5] * 8, "do not differ on the slice"),
    ],
)
def test_without_differences_it_is_unknown(whole, part, reason):
    found = correlate_differences(whole, part)
    assert (found.value, found.interval) == (None, None)
    assert reason in found.reason


def test_impossible_input_is_refused():
    with pytest.raises(ValueError, match="each configuration"):
        correlate_differences([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="finite"):
        correlate_differences([1.0, float("nan")], [1.0, 2.0])
