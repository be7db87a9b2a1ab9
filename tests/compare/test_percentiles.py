"""The paired bootstrap of a percentile against drawing the samples."""

import numpy as np
import pytest

from evalspec.compare.percentiles import bootstrap_percentile_difference


@pytest.mark.parametrize("statistic", ["p50", "p95", "max"])
@pytest.mark.parametrize(("count", "attempts"), [(30, 1), (400, 1), (60, 3)])
def test_it_is_what_drawing_gives(statistic, count, attempts):
    draw = np.random.default_rng(count)
    before = draw.lognormal(6, 1, (count, attempts))
    after = before * draw.lognormal(0.1, 0.3, (count, attempts))
    rows = np.random.default_rng(1).integers(0, count, (4000, count))
    share = {"p50": 0.5, "p95": 0.95, "max": 1.0}[statistic]
    drawn = [np.quantile(side[rows].reshape(4000, -1), share, axis=1) for side in (before, after)]
    expected = np.quantile(drawn[1] - drawn[0], (0.025, 0.975))
    units = [row for row in range(count) for _ in range(attempts)]
    found = bootstrap_percentile_difference(before.ravel().tolist(), after.ravel().tolist(), units, units, statistic)
    width = expected[1] - expected[0]
    assert np.abs(np.array(found) - expected).max() < 0.12 * width


def test_far_values_matter_only_as_counts():
    """Of 5,000 values most are outside the window; their sizes are of no account to the 95th percentile."""
    draw = np.random.default_rng(3)
    values = np.sort(draw.random(5000))
    other = values.copy()
    other[:1000] /= 2
    units = list(range(5000))
    assert bootstrap_percentile_difference(values.tolist(), other.tolist(), units, units, "p95") == (0.0, 0.0)


def test_what_are_no_pairs():
    assert bootstrap_percentile_difference([1.0], [2.0], ["a"], ["a"], "p95") is None
    with pytest.raises(ValueError, match="not pairs"):
        bootstrap_percentile_difference([1.0, 2.0], [2.0, 3.0], ["a", "b"], ["a", "c"], "p95")
