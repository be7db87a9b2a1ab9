"""Pairs of rows and columns, compared with scipy's, which is an oracle of the tests only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from evalspec.base.assignment import assign, pair_up

sides = st.tuples(st.integers(1, 7), st.integers(1, 7))


@given(sides, st.integers(0, 2**32), st.sampled_from([1, 2, 10, 1_000_000]))
def test_pairs_are_those_of_scipy_also_among_equal_sums(shape, seed, values):
    worth = np.random.default_rng(seed).integers(0, values + 1, shape) / values
    theirs = linear_sum_assignment(worth, maximize=True)
    assert list(assign(worth)) == list(zip(*(map(int, places) for places in theirs), strict=True))


@given(sides, st.integers(0, 2**32), st.floats(0, 1))
def test_as_many_as_possible_are_paired(shape, seed, share):
    compatible = np.random.default_rng(seed).random(shape) < share
    found = pair_up(compatible)
    taken = [column for column in found if column >= 0]
    assert len(found) == shape[0] and len(set(taken)) == len(taken)
    assert all(compatible[row][column] for row, column in enumerate(found) if column >= 0)
    most = maximum_bipartite_matching(csr_array(compatible, dtype="int8"), perm_type="column")
    assert len(taken) == sum(most >= 0)


def test_nothing_pairs_with_nothing():
    assert (pair_up([]), pair_up([[], []]), pair_up([[False, True]])) == ([], [-1, -1], [1])
