import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from evalspec.stats.bounded import OF_DIFFERENCE, compute_beta_cdf, compute_bounded_interval, compute_share_interval
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
def test_drawn_weights_agree_with_the_exact_share(passes, attempts):
    """Clusters of one sample are drawn, and the interval of 0/1 scores is known: the method itself is what is drawn."""
    scores = [1.0] * passes + [0.0] * (attempts - passes)
    low, high = compute_share_interval(passes, attempts)
    drawn = compute_bounded_interval(scores, UNIT, clusters=range(attempts))
    assert drawn == pytest.approx((low, high), abs=0.06 * (high - low))


@given(grades, st.sampled_from([OF_DIFFERENCE, 1.0]), st.sampled_from([0.5, 7.0, 1e6]), st.integers(-9, 9))
def test_the_interval_follows_scale_and_shift(scores, weight, scale, shift):
    ends = compute_bounded_interval(scores, UNIT, weight=weight)
    moved = compute_bounded_interval([scale * score + shift for score in scores], (shift, scale + shift), weight=weight)
    assert moved == pytest.approx([scale * end + shift for end in ends], rel=1e-9, abs=1e-9 * scale)
    low, high = compute_bounded_interval([1 - score for score in scores], UNIT, weight=weight)
    assert ends == pytest.approx((1 - high, 1 - low), abs=0.1 * (high - low) + 1e-9)


@given(grades, st.sampled_from([OF_DIFFERENCE, 1.0]), st.booleans())
def test_the_interval_is_within_the_bounds_around_the_mean_and_wider_with_confidence(scores, weight, clustered):
    assume(not clustered or len(scores) > 1)
    clusters = range(len(scores)) if clustered else None
    levels = (0.5, 0.8, 0.95, 0.99)
    ends = [compute_bounded_interval(scores, UNIT, level, clusters=clusters, weight=weight) for level in levels]
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
        assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_clusters_of_one_sample_are_no_clusters():
    low, high = compute_bounded_interval(mixed, UNIT)
    assert compute_bounded_interval(mixed, UNIT, clusters=range(60)) == pytest.approx(
        (low, high), abs=0.05 * (high - low)
    )


def test_copies_in_a_cluster_add_nothing():
    copied = compute_bounded_interval(mixed * 4, UNIT, clusters=[*range(60)] * 4)
    alone = compute_bounded_interval(mixed, UNIT, clusters=range(60))
    assert copied == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("count", [2, 30, 3000])
def test_many_different_scores_share_cells_but_not_their_interval(count):
    """From 256 different scores on neighbours are drawn together; far from the bounds the ends are nearly normal."""
    scores = np.random.default_rng(count).beta(8, 2, count)
    low, high = compute_bounded_interval(scores.tolist(), UNIT)
    rng = np.random.default_rng(0)
    weights, extra = rng.standard_exponential((4000, count)), rng.standard_exponential(4000)
    total = weights.sum(axis=1) + extra
    expected = np.quantile(weights @ scores / total, 0.025), np.quantile((weights @ scores + extra) / total, 0.975)
    assert (low, high) == pytest.approx(expected, abs=0.06 * (high - low))


@pytest.mark.parametrize("weight", [OF_DIFFERENCE, 1.0])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_simulations_count_the_misses_of_the_real_interval(weight, clustered):
    """What tests/validity/test_coverage.py counts quickly for thousands of samples, one by one for a hundred."""
    draw, truth = SCORES["85 % ones, 5 % zeros"]
    values = draw(np.random.default_rng(3), (100, 12))
    sizes = np.resize([1.0, 3.0, 2.0] if clustered else [1.0], values.shape)
    truth += 0.1  # so that misses are many
    below, above = find_misses(values * sizes, sizes, truth, UNIT, weight, confidence=0.8)
    labels = np.repeat(np.arange(12), sizes[0].astype(int)) if clustered else None
    ends = [
        compute_bounded_interval(
            (row if labels is None else row[labels]).tolist(),
            UNIT,
            0.8,
            weight=weight,
            clusters=None if labels is None else labels.tolist(),
        )
        for row in values
    ]
    real = np.array([[high < truth, low > truth] for low, high in ends])
    assert (real != np.column_stack([below, above])).sum() <= 5
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
