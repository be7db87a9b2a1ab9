import numpy as np
import pytest
import scipy.stats

from evalspec.verdict.stats.bootstrap import compute_student_tails


@pytest.mark.parametrize("units", [6, 12, 40, 1000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_tails_make_a_percentile_interval_as_wide_as_student_s_t(units, confidence):
    reach = np.sqrt(units / (units - 1)) * scipy.stats.t.ppf((1 + confidence) / 2, units - 1)
    low, high = compute_student_tails(units, confidence)
    assert (low, high) == pytest.approx((scipy.stats.norm.cdf(-reach), scipy.stats.norm.cdf(reach)), abs=1e-4)
