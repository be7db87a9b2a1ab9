import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.verdict.stats import compute_statistic

PERCENTILES = {"min": 0, "p50": 50, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(numbers)
def test_statistics_are_numpy_s(values):
    assert compute_statistic(values, "mean") == pytest.approx(np.mean(values), rel=1e-12, abs=1e-9)
    for name, share in PERCENTILES.items():
        assert compute_statistic(values, name) == pytest.approx(np.percentile(values, share), rel=1e-12, abs=1e-9)


@given(numbers, st.sampled_from(["mean", *PERCENTILES]))
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


def test_importing_statistics_imports_no_numpy():
    rooms = ["bootstrap", "bounded", "detection", "max_t", "paired", "repeats"]
    imports = "; ".join(f"import evalspec.verdict.stats.{room}" for room in rooms)
    subprocess.run([sys.executable, "-c", f"{imports}; import sys; assert 'numpy' not in sys.modules"], check=True)
