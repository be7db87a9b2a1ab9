from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.stats.holm import compute_holm

p_values = st.lists(st.floats(0, 1), max_size=6)


@given(p_values)
def test_holm_is_the_closure_of_bonferroni(given_values):
    """A hypothesis falls where every set with it falls by Bonferroni: the definition that Holm's steps shorten."""
    places = range(len(given_values))
    sets = [chosen for size in range(1, len(given_values) + 1) for chosen in combinations(places, size)]
    closed = [
        max(min(1.0, len(chosen) * min(given_values[place] for place in chosen)) for chosen in sets if own in chosen)
        for own in places
    ]
    assert compute_holm(given_values) == pytest.approx(closed)


def test_holm_by_hand():
    assert compute_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert compute_holm([0.7, 0.6]) == [1.0, 1.0]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_other_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="between 0 and 1"):
        compute_holm([0.5, wrong])
