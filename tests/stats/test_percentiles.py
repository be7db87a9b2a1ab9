import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from evalspec.verdict.validity.estimates import compute_percentile_interval, count_needed

SHARES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@pytest.mark.parametrize(("statistic", "least"), [("median", 6), ("p50", 6), ("p90", 36), ("p95", 72), ("p99", 368)])
def test_the_least_number_of_values(statistic, least):
    assert count_needed(statistic) == least
    assert compute_percentile_interval(range(least - 1), statistic) is None
    assert compute_percentile_interval(range(least), statistic)[1] == least - 1
    assert count_needed(statistic, 0.99) > least


@given(st.sampled_from(sorted(SHARES)), st.integers(0, 300), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_ends_have_the_ranks_of_the_binomial_distribution(statistic, more, confidence):
    """The tightest ranks of which each misses the percentile in at most one tail, by scipy."""
    share, tail = SHARES[statistic], (1 - confidence) / 2
    count = int(count_needed(statistic, confidence)) + more
    low, high = compute_percentile_interval(range(1, count + 1), statistic, confidence)
    assert binom.cdf(low - 1, count, share) <= tail < binom.cdf(low, count, share)
    assert binom.sf(high - 1, count, share) <= tail < binom.sf(high - 2, count, share)


@given(st.lists(st.integers(0, 6).map(float), min_size=6, max_size=60), st.randoms())
def test_ties_order_and_unit_do_not_matter(values, random):
    ranks = compute_percentile_interval(range(len(values)), "median")
    ends = compute_percentile_interval(values, "median")
    assert ends == tuple(sorted(values)[int(rank)] for rank in ranks)
    assert compute_percentile_interval(random.sample(values, len(values)), "median") == ends
    assert compute_percentile_interval([8 * value - 3 for value in values], "median") == (
        8 * ends[0] - 3,
        8 * ends[1] - 3,
    )


def test_clusters_count_instead_of_values():
    values = np.random.default_rng(1).normal(size=40).repeat(5).tolist()
    clusters = np.arange(40).repeat(5).tolist()
    low, high = compute_percentile_interval(values, "median")
    clustered = compute_percentile_interval(values, "median", clusters=clusters)
    alone = compute_percentile_interval(values[::5], "median")
    assert clustered[0] < low < high < clustered[1]
    ordered = sorted(set(values))
    ranks = [[ordered.index(end) for end in ends] for ends in (clustered, alone)]
    assert ranks[0] == pytest.approx(ranks[1], abs=1)
    assert compute_percentile_interval(values, "p95", clusters=clusters) is None
    assert compute_percentile_interval(values, "median", clusters=[0] * 200) is None


@pytest.mark.parametrize("statistic", ["min", "max"])
def test_extremes_have_no_interval(statistic):
    assert math.isinf(count_needed(statistic))
    assert compute_percentile_interval(range(1000), statistic) is None


def test_what_cannot_be_computed():
    assert compute_percentile_interval([], "median") is None
    with pytest.raises(ValueError, match="known: mean"):
        compute_percentile_interval([1.0], "p96")
    with pytest.raises(ValueError, match="9 values but 2 cluster labels"):
        compute_percentile_interval([1.0] * 9, "median", clusters="ab")
