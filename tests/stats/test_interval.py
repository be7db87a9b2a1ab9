import pytest
import scipy.stats

from evalspec.stats import bootstrap_interval, compute_interval
from evalspec.stats.interval import compute_wilson_interval


@pytest.mark.parametrize(("passes", "attempts"), [(0, 1), (0, 12), (7, 12), (12, 12), (799, 1000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_wilson_is_scipy_s(passes, attempts, confidence):
    theirs = scipy.stats.binomtest(passes, attempts).proportion_ci(confidence, method="wilson")
    assert compute_wilson_interval(passes, attempts, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("passes", "attempts"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_is_refused(passes, attempts):
    with pytest.raises(ValueError, match="is not a share"):
        compute_wilson_interval(passes, attempts)


def test_ten_of_ten_are_not_certain():
    low, high = compute_interval([1.0] * 10)
    assert high == 1
    assert low == pytest.approx(0.722, abs=0.001)


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.0, 1.0, 0.5, 1.0], {}),
        ([0.0, 1.0, 1.0, 1.0], {"statistic": "p90"}),
        ([0.0, 1.0, 1.0, 1.0], {"clusters": ["a", "a", "b", "c"]}),
        ([0.0, 1.0, 0.5, 1.0], {"confidence": 0.8, "resamples": 99, "seed": 3}),
        ([0.5, 0.5], {}),
        ([1.0], {}),
    ],
    ids=["not 0/1", "percentile", "clusters", "options", "equal", "one"],
)
def test_all_else_is_bootstrapped(values, options):
    assert compute_interval(values, **options) == bootstrap_interval(values, **options)
