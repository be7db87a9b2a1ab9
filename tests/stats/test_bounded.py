import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from evalspec.verdict.stats.bounded import (
    compute_beta_cdf,
    compute_bounded_interval,
    compute_bounded_p_value,
    compute_share_interval,
)
from simulated import SCORES, find_misses

UNIT = (0.0, 1.0)

grades = st.lists(st.integers(0, 8).map(lambda count: count / 8), min_size=1, max_size=40)
mixed = np.random.default_rng(1).choice([0.0, 1.0, 0.35, 0.8, 0.93], 60, p=[0.1, 0.4, 0.1, 0.2, 0.2]).tolist()


@given(st.floats(-3, 6), st.floats(-3, 6), st.floats(-6, -1e-9) | st.floats(-0.3, -1e-9))
def test_beta_cdf_is_scipy_s(a, b, x):
    """Over nine decades of both parameters, near 0, near the mean and near 1."""
    a, b = 10**a, 10**b
    for point in (10**x, 1 - 10**x, a / (a + b), scipy.stats.beta.ppf(0.025, a, b), scipy.stats.beta.ppf(0.975, a, b)):
        assert compute_beta_cdf(point, a, b) == pytest.approx(scipy.special.betainc(a, b, point), rel=2e-6, abs=1e-9)


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([0.8, 0.95, 0.99]))
def test_shares_have_clopper_and_pearson_s_interval(passes, failures, confidence):
    assume(passes + failures)
    theirs = scipy.stats.binomtest(passes, passes + failures).proportion_ci(confidence, method="exact")
    ours = compute_share_interval(passes, passes + failures, confidence)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from([UNIT, (-1.0, 1.0), (1.0, 5.0)]))
def test_scores_at_the_bounds_are_a_share(passes, failures, bounds):
    assume(passes + failures)
    low, high = bounds
    ends = compute_bounded_interval([high] * passes + [low] * failures, bounds)
    least, most = compute_share_interval(passes, passes + failures)
    assert ends == pytest.approx((low + least * (high - low), low + most * (high - low)))


@pytest.mark.parametrize(("passes", "attempts"), [(0, 5), (4, 5), (18, 20), (19, 60), (199, 200)])
def test_clusters_of_one_sample_have_the_exact_interval_of_a_share(passes, attempts):
    """Found by the search for an end, with no use of the beta distribution."""
    scores = [1.0] * passes + [0.0] * (attempts - passes)
    found = compute_bounded_interval(scores, UNIT, clusters=range(attempts))
    assert found == pytest.approx(compute_share_interval(passes, attempts), abs=1e-8)


@given(st.integers(0, 60), st.integers(1, 60), st.floats(0, 0.5))
def test_losses_alone_have_clopper_and_pearson_s_bound(lost, equal, margin):
    """The p-value of a drop beyond the margin is the binomial tail, and that of its exclusion the other one."""
    differences = [-1.0] * lost + [0.0] * equal
    beyond = compute_bounded_p_value(differences, (-1.0, 0.0), -margin)
    assert beyond == pytest.approx(scipy.stats.binom.sf(lost - 1, lost + equal, margin), abs=1e-8)
    _, most = compute_share_interval(lost, lost + equal, 0.9)
    assert compute_bounded_interval(differences, (-1.0, 1.0), 0.9)[0] == pytest.approx(-most, abs=1e-8)


@given(grades, st.floats(0.01, 0.99), st.sampled_from([0.01, 0.05, 0.3]))
def test_the_claim_that_a_mean_is_below_a_limit_is_made_where_the_interval_is(scores, limit, alpha):
    _, high = compute_bounded_interval(scores, UNIT, 1 - 2 * alpha)
    assume(abs(high - limit) > 1e-6)
    assert (compute_bounded_p_value(scores, UNIT, limit) <= alpha) is (high <= limit)


@given(grades, st.sampled_from([0.5, 7.0, 1e6]), st.integers(-9, 9))
def test_the_interval_follows_scale_and_shift(scores, scale, shift):
    ends = compute_bounded_interval(scores, UNIT)
    moved = compute_bounded_interval([scale * score + shift for score in scores], (shift, scale + shift))
    assert moved == pytest.approx([scale * end + shift for end in ends], rel=1e-9, abs=1e-9 * scale)
    low, high = compute_bounded_interval([1 - score for score in scores], UNIT)
    assert ends == pytest.approx((1 - high, 1 - low), abs=1e-7)


@given(grades, st.booleans())
def test_the_interval_is_within_the_bounds_around_the_mean_and_wider_with_confidence(scores, clustered):
    assume(not clustered or len(scores) > 1)
    clusters = range(len(scores)) if clustered else None
    levels = (0.5, 0.8, 0.95, 0.99)
    ends = [compute_bounded_interval(scores, UNIT, level, clusters=clusters) for level in levels]
    for narrow, wide in pairwise(ends):
        assert 0 <= wide[0] <= narrow[0] <= np.mean(scores) + 1e-9
        assert np.mean(scores) - 1e-9 <= narrow[1] <= wide[1] <= 1
    assert ends[-1][0] < ends[-1][1]


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0]), st.integers(0, 5)), min_size=6), st.randoms())
def test_the_order_of_the_samples_does_not_matter(scored, random):
    assume(len({cluster for _, cluster in scored}) > 1)
    shuffled = random.sample(scored, len(scored))
    for clustered in (False, True):
        ends = [
            compute_bounded_interval(scores, UNIT, clusters=clusters if clustered else None)
            for scores, clusters in (zip(*order, strict=True) for order in (scored, shuffled))
        ]
        assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_clusters_of_one_sample_are_no_clusters():
    low, high = compute_bounded_interval(mixed, UNIT)
    assert compute_bounded_interval(mixed, UNIT, clusters=range(60)) == pytest.approx((low, high), abs=1e-7)


def test_copies_in_a_cluster_add_nothing():
    copied = compute_bounded_interval(mixed * 4, UNIT, clusters=[*range(60)] * 4)
    alone = compute_bounded_interval(mixed, UNIT, clusters=range(60))
    assert copied == pytest.approx(alone, abs=1e-7)


@pytest.mark.parametrize("count", [2, 30, 3000])
def test_many_different_scores_share_cells_but_not_their_interval(count):
    """Weights that are drawn find the same ends, up to the error of 4,000 draws."""
    scores = np.random.default_rng(count).beta(8, 2, count)
    low, high = compute_bounded_interval(scores.tolist(), UNIT)
    rng = np.random.default_rng(0)
    weights, extra = rng.standard_exponential((4000, count)), rng.standard_exponential(4000)
    total = weights.sum(axis=1) + extra
    expected = np.quantile(weights @ scores / total, 0.025), np.quantile((weights @ scores + extra) / total, 0.975)
    assert (low, high) == pytest.approx(expected, abs=0.06 * (high - low))


@pytest.mark.parametrize("clustered", [False, True])
def test_the_simulations_count_the_misses_of_the_real_interval(clustered):
    """What tests/validity/test_coverage.py counts quickly for thousands of samples, one by one for a hundred."""
    draw, truth = SCORES["85 % ones, 5 % zeros"]
    values = draw(np.random.default_rng(3), (100, 12))
    sizes = np.resize([1.0, 3.0, 2.0] if clustered else [1.0], values.shape)
    truth += 0.05  # so that misses are many
    below, above = find_misses(values * sizes, sizes, truth, UNIT, confidence=0.8)
    labels = np.repeat(np.arange(12), sizes[0].astype(int)) if clustered else None
    ends = [
        compute_bounded_interval(
            (row if labels is None else row[labels]).tolist(),
            UNIT,
            0.8,
            clusters=None if labels is None else labels.tolist(),
        )
        for row in values
    ]
    real = np.array([[high < truth, low > truth] for low, high in ends])
    assert (real == np.column_stack([below, above])).all()
    assert 20 < real[:, 0].sum() < 90


def test_one_large_cluster_among_small_ones_is_few_clusters():
    """Half of all samples in one cluster tell less than 100 clusters of two; the other half cannot make up for it."""
    scores = [1.0, 0.0] * 100
    even = compute_bounded_interval(scores, UNIT, clusters=[place // 2 for place in range(200)])
    large = compute_bounded_interval(scores, UNIT, clusters=[max(0, place - 100) for place in range(200)])
    assert large[1] - large[0] > 4 * (even[1] - even[0])


def test_nothing_to_say():
    assert compute_bounded_interval([], UNIT) is None
    assert compute_bounded_interval([0.5, 1.0], UNIT, clusters="aa") is None
    assert compute_bounded_interval([1.0], UNIT) == pytest.approx((0.025, 1))


@pytest.mark.parametrize("wrong", [1.1, -0.1, math.nan, math.inf])
def test_scores_outside_their_bounds_are_refused(wrong):
    with pytest.raises(ValueError, match="a value is outside 0 to 1"):
        compute_bounded_interval([0.5, wrong, 0.7], UNIT)


@pytest.mark.parametrize(("passes", "attempts"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_is_refused(passes, attempts):
    with pytest.raises(ValueError, match="is not a share"):
        compute_share_interval(passes, attempts)
