import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.stats.bootstrap import bootstrap_interval
from evalspec.stats.paired import compute_randomisation_test, compute_standard_error

skewed = np.random.default_rng(5).lognormal(3, 1, 80).tolist()
graded = np.random.default_rng(6).choice([0.0, 0.5, 1.0], 200).tolist()


def student_confidence(count):
    """The confidence of a plain percentile interval that is as wide as Hesterberg's at 95 %, by scipy's Student's t."""
    reach = np.sqrt(count / (count - 1)) * scipy.stats.t.ppf(0.975, count - 1)
    return 1 - 2 * scipy.stats.norm.cdf(-reach)


def assert_near(ours, data, function, units, **options):
    """Equal to scipy's within Monte Carlo error, for which the width is the measure."""
    theirs = scipy.stats.bootstrap(
        data,
        function,
        confidence_level=student_confidence(units),
        method="percentile",
        n_resamples=20_000,
        batch=2000,
        rng=np.random.default_rng(1),
        **options,
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low) + 1e-9)


@pytest.mark.parametrize("values", [skewed, graded, skewed[:7], [1.0, 2.0]], ids=["skewed", "graded", "seven", "two"])
def test_intervals_are_scipy_s_with_the_tails_of_student_s_t(values):
    assert_near(bootstrap_interval(values, resamples=20_000), (values,), np.mean, len(values))


@pytest.mark.parametrize("sizes", [[3, 5, 1, 4, 2, 5, 3] * 4, [20, 1, 2, 1, 3, 1, 8]], ids=["alike", "one rules"])
def test_clustered_means_are_ratios_of_whole_clusters(sizes):
    rng = np.random.default_rng(1)
    members = [rng.normal(rng.lognormal(0, 1), 0.1, size) for size in sizes]
    values, clusters = np.concatenate(members).tolist(), np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert_near(
        bootstrap_interval(values, resamples=20_000, clusters=clusters),
        ([one.sum() for one in members], sizes),
        lambda sums, counts, axis: sums.sum(axis) / counts.sum(axis),
        len(sizes),
        paired=True,
    )


@pytest.mark.parametrize("heavy", [False, True], ids=["bounded", "heavy tail"])
def test_many_different_values_are_resampled_as_if_one_by_one(heavy):
    """6,000 values share cells; the other side draws each of them."""
    rng = np.random.default_rng(3)
    values = rng.lognormal(0, 2, 6000) if heavy else rng.beta(8, 2, 6000)
    drawn = np.concatenate([values[rng.integers(0, 6000, (500, 6000))].mean(axis=1) for _ in range(20)])
    for confidence in (0.5, 0.95):
        low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
        ours = bootstrap_interval(values.tolist(), confidence, resamples=20_000)
        assert ours == pytest.approx((low, high), abs=0.05 * (high - low))


@given(
    st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=80), st.sampled_from([0.5, 4.0]), st.integers(-3, 3)
)
def test_interval_follows_scale_and_shift(values, scale, shift):
    low, high = bootstrap_interval(values, resamples=200)
    moved = bootstrap_interval([scale * value + shift for value in values], resamples=200)
    assert moved == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-9)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_same_seed_same_interval():
    assert bootstrap_interval(skewed) == bootstrap_interval(skewed)
    assert bootstrap_interval(skewed) != bootstrap_interval(skewed, seed=1)
    narrow, wide = bootstrap_interval(skewed, 0.5), bootstrap_interval(skewed)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert bootstrap_interval(skewed, clusters=range(80)) == bootstrap_interval(skewed)


def test_too_few_values():
    assert bootstrap_interval([]) is None
    assert bootstrap_interval([0.5]) is None
    assert bootstrap_interval([0.1, 0.2], clusters=["a", "a"]) is None


@pytest.mark.parametrize(
    ("clusters", "message"),
    [("ab", "3 values but 2 cluster labels"), (["a", None, "b"], "value 1 has no cluster label")],
)
def test_labels_that_do_not_fit_are_refused(clusters, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval([1.0, 2.0, 4.0], clusters=clusters)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("compute", [bootstrap_interval, compute_randomisation_test, compute_standard_error])
def test_what_is_not_finite_is_refused(compute, wrong):
    """Of NaN every comparison is false, so that a test would find nothing as extreme: p = 0."""
    with pytest.raises(ValueError, match=r"value 1 is (nan|inf), not a finite number"):
        compute([0.5, wrong, 0.7])


@pytest.mark.parametrize("clustered", [False, True])
def test_memory_is_bounded_with_many_values(clustered):
    """100,000 values times 200 resamples at once would be 160 MB."""
    rng = np.random.default_rng(0)
    values = rng.random(100_000).tolist()
    clusters = rng.integers(0, 30_000, 100_000).tolist() if clustered else None
    tracemalloc.start()
    try:
        low, high = bootstrap_interval(values, resamples=200, clusters=clusters)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert low < np.mean(values) < high
    assert peak < 60e6
