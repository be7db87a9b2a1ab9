import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.verdict.stats.gamma_sums import compute_tails

counts = st.integers(1, 3000).map(float)


@given(counts, counts, st.floats(1e-6, 1 - 1e-6))
def test_two_terms_are_the_beta_distribution(first, second, limit):
    """The share of the first term exceeds the limit: also tails of 1e-200, relative to their size."""
    found = compute_tails(np.array([[1 - limit, -limit]]), np.array([[first, second]]))[0]
    assert found == pytest.approx(scipy.stats.beta.sf(limit, first, second), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("shapes", [(1, 3000), (1, 20_000), (2, 461), (5, 19_996), (10_000, 10_001)], ids=str)
@pytest.mark.parametrize("tail", [1e-6, 0.001, 0.025, 0.05, 0.3])
def test_one_large_and_one_small_shape(shapes, tail):
    """One failure in thousands of scores, on both sides: the integrand oscillates along a vertical line."""
    for first, second in (shapes, shapes[::-1]):
        limit = scipy.stats.beta.isf(tail, first, second)
        found = compute_tails(np.array([[1 - limit, -limit]]), np.array([[first, second]], dtype=float))[0]
        assert found == pytest.approx(scipy.stats.beta.sf(limit, first, second), rel=1e-8)


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=6), st.lists(st.floats(0.1, 5), min_size=1, max_size=6))
def test_many_terms_of_shape_one_have_a_closed_form(positive, negative):
    """A sum of exponentials with distinct scales is a mixture of them (Cox 1962)."""
    gains, losses = (
        np.array(one) * np.geomspace(1, 1.7, len(one)) ** np.arange(len(one)) for one in (positive, negative)
    )
    gaps = [abs(a - b) for one in (gains, losses) for i, a in enumerate(one) for b in one[:i]]
    if min(gaps, default=1) < 0.05:
        return
    expected = 0.0
    for i, gain in enumerate(gains):
        rest = np.delete(gains, i)
        expected += np.prod(gain / (gain - rest)) * np.prod(gain / (gain + losses))
    found = compute_tails(np.array([[*gains, *-losses]]), np.ones((1, len(gains) + len(losses))))[0]
    assert found == pytest.approx(expected, abs=1e-8)


def test_signs_that_agree_decide_and_empty_terms_do_not_count():
    terms = np.array([[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [5.0, -1.0], [1.0, -1.0]])
    shapes = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [7.0, 7.0]])
    assert compute_tails(terms, shapes) == pytest.approx([1, 0, 1, 0, 0.5], abs=1e-9)


def test_rows_do_not_influence_each_other():
    rng = np.random.default_rng(1)
    terms, shapes = rng.normal(size=(50, 8)), rng.integers(1, 30, (50, 8)).astype(float)
    together = compute_tails(terms, shapes)
    alone = [compute_tails(terms[row : row + 1], shapes[row : row + 1])[0] for row in range(50)]
    assert together == pytest.approx(alone, abs=1e-9)
