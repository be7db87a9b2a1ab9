"""How labels are dealt to strata: in proportion to size × spread, in whole numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.curation.labels.drawing import Stratum, allocate_labels, compute_spread, find_next
from evalspec.verdict.correction.estimates import FEWEST

strata = st.lists(st.builds(Stratum, st.integers(1, 60), st.just(0), st.floats(0.01, 0.6)), min_size=1, max_size=5)


def variance(every, counts):
    return sum((one.size * one.spread) ** 2 / count for one, count in zip(every, counts, strict=True))


@given(strata, st.integers(0, 200))
def test_every_stratum_gets_its_least_and_no_more_than_it_has(every, total):
    counts = allocate_labels(every, total)
    least = [min(FEWEST, one.size) for one in every]
    assert all(low <= count <= one.size for low, count, one in zip(least, counts, every, strict=True))
    assert sum(counts) == max(sum(least), min(total, sum(one.size for one in every)))


@given(strata, st.integers(0, 100), st.integers(0, 4), st.integers(0, 4))
def test_no_label_would_do_more_in_another_stratum(every, total, here, there):
    counts = allocate_labels(every, total)
    here, there = here % len(every), there % len(every)
    if here == there or counts[here] <= min(FEWEST, every[here].size) or counts[there] == every[there].size:
        return
    moved = [count - (place == here) + (place == there) for place, count in enumerate(counts)]
    assert variance(every, counts) <= variance(every, moved) * (1 + 1e-9)


def test_neyman_s_shares():
    every = [Stratum(1000, 0, 0.5), Stratum(1000, 0, 0.1), Stratum(500, 0, 0.2)]
    assert allocate_labels(every, 140) == [100, 20, 20]
    assert allocate_labels([Stratum(50, 8, 0.01), Stratum(50, 2, 0.5)], 20) == [8, 12], "what is given stays"


@given(st.lists(st.floats(0, 1), max_size=9))
def test_the_spread_of_few_scores_is_never_zero(values):
    spread = compute_spread(values, (0.0, 1.0))
    assert 0 < spread <= 0.5 + 1e-9


def test_the_next_label():
    assert compute_spread([], (0.0, 2.0)) == 1.0
    assert find_next([]) is None
    assert find_next([Stratum(3, 3), Stratum(2, 2)]) is None
    assert find_next([Stratum(3, 0), Stratum(9, 0)]) == 1, "of strata without labels, the larger one"
    assert Stratum(4, 1, 0.5).gain == pytest.approx(4 * 0.5 / math.sqrt(2))
