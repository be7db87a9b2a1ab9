import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.stats import bootstrap_interval, compute_statistic

PERCENTILES = {"min": 0, "p50": 50, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
STATISTICS = ["mean", *PERCENTILES]

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)
skewed = np.random.default_rng(5).lognormal(3, 1, 80).tolist()
graded = np.random.default_rng(6).choice([0.0, 0.5, 1.0], 40).tolist()


@given(numbers)
def test_statistics_are_numpy_s(values):
    assert compute_statistic(values, "mean") == pytest.approx(np.mean(values), rel=1e-12, abs=1e-9)
    for name, share in PERCENTILES.items():
        assert compute_statistic(values, name) == pytest.approx(np.percentile(values, share), rel=1e-12, abs=1e-9)


@given(numbers, st.sampled_from(STATISTICS))
def test_statistics_lie_among_the_values(values, statistic):
    value = compute_statistic(values, statistic)
    assert min(values) - 1e-9 <= value <= max(values) + 1e-9


def test_statistics_by_hand():
    assert compute_statistic([4, 1, 2, 3], "median") == 2.5
    assert compute_statistic([10, 20], "p95") == pytest.approx(19.5)
    assert compute_statistic([7], "p99") == 7


@pytest.mark.parametrize(("values", "statistic", "message"), [([], "mean", "no values"), ([1], "p96", "known: mean")])
def test_what_cannot_be_computed_is_refused(values, statistic, message):
    with pytest.raises(ValueError, match=message):
        compute_statistic(values, statistic)


@pytest.mark.parametrize("statistic", ["mean", "median", "p90", "p95", "p99", "min", "max"])
@pytest.mark.parametrize("values", [skewed, graded, [1.0, 2.0]], ids=["skewed", "graded", "two"])
def test_intervals_agree_with_resampling_in_full(values, statistic):
    """Many more resamples than usual, so that both sides settle; the measure is the spread of the values."""
    function = np.mean if statistic == "mean" else lambda data, axis: np.percentile(data, PERCENTILES[statistic], axis)
    brute = scipy.stats.bootstrap(
        (values,), function, method="percentile", n_resamples=20_000, batch=2000, rng=np.random.default_rng(1)
    ).confidence_interval
    ours = bootstrap_interval(values, statistic, resamples=20_000)
    widest = brute.high - brute.low
    assert ours == pytest.approx((brute.low, brute.high), abs=0.05 * widest + 1e-9)


def test_interval_covers_the_true_mean_as_often_as_it_says():
    generator = np.random.default_rng(2)
    samples = generator.normal(0.7, 0.2, size=(400, 60)).tolist()
    intervals = [bootstrap_interval(sample, resamples=400, seed=seed) for seed, sample in enumerate(samples)]
    covered = sum(low <= 0.7 <= high for low, high in intervals) / len(intervals)
    assert 0.90 <= covered <= 0.98


def test_same_seed_same_interval():
    assert bootstrap_interval(skewed) == bootstrap_interval(skewed)
    assert bootstrap_interval(skewed) != bootstrap_interval(skewed, seed=1)
    narrow, wide = bootstrap_interval(skewed, confidence=0.5), bootstrap_interval(skewed)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_too_few_or_equal_values(statistic):
    assert bootstrap_interval([], statistic) is None
    assert bootstrap_interval([0.5], statistic) is None
    assert bootstrap_interval([0.1] * 7, statistic) == (0.1, 0.1)


@pytest.mark.parametrize("statistic", ["mean", "p95"])
def test_memory_is_bounded_with_many_values(statistic):
    """100,000 values times 200 resamples at once would be 160 MB."""
    values = np.random.default_rng(0).random(100_000).tolist()
    tracemalloc.start()
    try:
        low, high = bootstrap_interval(values, statistic, resamples=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert low < compute_statistic(values, statistic) < high
    assert peak < 40e6
