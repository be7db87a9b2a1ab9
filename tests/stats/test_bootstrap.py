import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.stats import bootstrap_interval, compute_statistic
from evalspec.stats.effects import compute_standard_error
from evalspec.stats.paired import compute_randomisation_test

PERCENTILES = {"min": 0, "p50": 50, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
STATISTICS = ["mean", *PERCENTILES]

skewed = np.random.default_rng(5).lognormal(3, 1, 80).tolist()
graded = np.random.default_rng(6).choice([0.0, 0.5, 1.0], 200).tolist()
labels = np.repeat(np.arange(25), np.random.default_rng(7).integers(1, 6, 25)).tolist()
effects = np.random.default_rng(8).normal(0, 10, 25)
grouped = (effects[labels] + np.random.default_rng(9).normal(50, 5, len(labels))).tolist()


def scipy_interval(data, function, method, **options):
    """Many more resamples than usual, so that both sides settle."""
    rng = np.random.default_rng(1)
    return scipy.stats.bootstrap(
        data, function, method=method, n_resamples=20_000, batch=2000, rng=rng, **options
    ).confidence_interval


def student_confidence(count):
    """The confidence of a plain percentile interval that is as wide as Hesterberg's at 95 %, by scipy's Student's t."""
    reach = np.sqrt(count / (count - 1)) * scipy.stats.t.ppf(0.975, count - 1)
    return 1 - 2 * scipy.stats.norm.cdf(-reach)


def assert_near(ours, theirs):
    """Equal within Monte Carlo error, for which the width is the measure."""
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low) + 1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("values", [skewed, graded, skewed[:7], [1.0, 2.0]], ids=["skewed", "graded", "seven", "two"])
def test_percentile_intervals_are_scipy_s(values, statistic):
    if statistic == "mean":
        theirs = scipy_interval((values,), np.mean, "percentile", confidence_level=student_confidence(len(values)))
    else:
        share = PERCENTILES[statistic]
        theirs = scipy_interval((values,), lambda data, axis: np.percentile(data, share, axis), "percentile")
    assert_near(bootstrap_interval(values, statistic, resamples=20_000), theirs)


@pytest.mark.parametrize(
    "values", [skewed, graded, skewed[:7], [0.0, 0.5, 0.5, 1, 1, 1]], ids=["skewed", "graded", "seven", "six with ties"]
)
def test_bca_intervals_are_scipy_s(values):
    theirs = scipy_interval((values,), np.mean, "bca")
    assert_near(bootstrap_interval(values, resamples=20_000, method="bca"), theirs)


@pytest.mark.parametrize("sizes", [[3, 5, 1, 4, 2, 5, 3] * 4, [20, 1, 2, 1, 3, 1, 8]], ids=["alike", "one rules"])
@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_clustered_means_are_ratios_of_whole_clusters(method, sizes):
    generator = np.random.default_rng(1)
    members = [generator.normal(generator.lognormal(0, 1), 0.1, size) for size in sizes]
    sums = [values.sum() for values in members]
    confidence = student_confidence(len(sizes)) if method == "percentile" else 0.95
    theirs = scipy_interval(
        (sums, sizes), lambda s, n, axis: s.sum(axis) / n.sum(axis), method, paired=True, confidence_level=confidence
    )
    values, clusters = np.concatenate(members).tolist(), np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert_near(bootstrap_interval(values, resamples=20_000, method=method, clusters=clusters), theirs)


@pytest.mark.parametrize("statistic", ["median", "p95", "max"])
def test_clustered_percentiles_are_those_of_pooled_clusters(statistic):
    rng = np.random.default_rng(1)
    members = [np.array(grouped)[np.array(labels) == label] for label in range(25)]
    pooled = (np.concatenate([members[cluster] for cluster in rng.integers(0, 25, 25)]) for _ in range(20_000))
    replicates = [np.percentile(values, PERCENTILES[statistic]) for values in pooled]
    low, high = bootstrap_interval(grouped, statistic, resamples=20_000, clusters=labels)
    lows, highs = np.quantile(replicates, [0.02, 0.03]), np.quantile(replicates, [0.97, 0.98])
    assert lows[0] <= low <= lows[1]
    assert highs[0] <= high <= highs[1]


@pytest.mark.parametrize("heavy", [False, True], ids=["bounded", "heavy tail"])
def test_many_different_values_are_resampled_as_if_one_by_one(heavy):
    """6,000 values share cells; the other side draws each of them."""
    generator = np.random.default_rng(3)
    values = generator.lognormal(0, 2, 6000) if heavy else generator.beta(8, 2, 6000)
    resamples = 20_000
    drawn = np.concatenate([values[generator.integers(0, 6000, (500, 6000))].mean(axis=1) for _ in range(40)])
    for confidence in (0.5, 0.95, 0.99):
        tail = (1 - confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail])
        ours = bootstrap_interval(values.tolist(), confidence=confidence, resamples=resamples)
        assert ours == pytest.approx((low, high), abs=0.05 * (high - low))


values_of_any_kind = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=80)


@given(values_of_any_kind, st.sampled_from(["percentile", "bca"]), st.sampled_from([0.5, 4.0]), st.integers(-3, 3))
def test_interval_follows_scale_and_shift(values, method, scale, shift):
    low, high = bootstrap_interval(values, resamples=200, method=method)
    moved = bootstrap_interval([scale * value + shift for value in values], resamples=200, method=method)
    assert moved == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-9)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_every_value_its_own_cluster_is_no_clusters():
    assert bootstrap_interval(skewed, clusters=range(80)) == bootstrap_interval(skewed)


def test_same_seed_same_interval():
    assert bootstrap_interval(skewed) == bootstrap_interval(skewed)
    assert bootstrap_interval(skewed) != bootstrap_interval(skewed, seed=1)
    narrow, wide = bootstrap_interval(skewed, confidence=0.5), bootstrap_interval(skewed)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_too_few_or_equal_values(statistic):
    assert bootstrap_interval([], statistic) is None
    assert bootstrap_interval([0.5], statistic) is None
    assert bootstrap_interval([0.1, 0.2], statistic, clusters=["a", "a"]) is None
    assert bootstrap_interval([0.1] * 7, statistic) == (0.1, 0.1)
    assert bootstrap_interval([0.1] * 7, statistic, clusters="aabbccc") == (0.1, 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "p96"}, "known: mean"),
        ({"statistic": "p95", "method": "bca"}, "of the mean, not of the p95"),
        ({"clusters": "ab"}, "3 values but 2 cluster labels"),
        ({"clusters": ["a", None, "b"]}, "value 1 has no cluster label"),
    ],
)
def test_what_cannot_be_computed_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval([1.0, 2.0, 4.0], **options)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("compute", [bootstrap_interval, compute_randomisation_test, compute_standard_error])
def test_what_is_not_finite_is_refused(compute, wrong):
    """Of NaN every comparison is false, so that a test would find nothing as extreme: p = 0."""
    with pytest.raises(ValueError, match=r"value 1 is (nan|inf), not a finite number"):
        compute([0.5, wrong, 0.7])


@pytest.mark.parametrize(
    ("statistic", "clustered"), [("mean", False), ("p95", False), ("mean", True), ("p95", True)], ids=str
)
def test_memory_is_bounded_with_many_values(statistic, clustered):
    """100,000 values times 200 resamples at once would be 160 MB."""
    generator = np.random.default_rng(0)
    values = generator.random(100_000).tolist()
    clusters = generator.integers(0, 30_000, 100_000).tolist() if clustered else None
    tracemalloc.start()
    try:
        low, high = bootstrap_interval(values, statistic, resamples=200, clusters=clusters)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert low < compute_statistic(values, statistic) < high
    assert peak < 60e6
