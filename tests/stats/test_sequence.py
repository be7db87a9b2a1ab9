"""The confidence sequence: what the paper defines, and that it covers the mean at every time at once."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.verdict.stats.bounded import compute_confidence_sequence

SOURCES = {
    "0/1, 0.5": lambda rng, size: (rng.random(size) < 0.5).astype(float),
    "0/1, 0.8": lambda rng, size: (rng.random(size) < 0.8).astype(float),
    "0/1, 0.02": lambda rng, size: (rng.random(size) < 0.02).astype(float),
    "grades": lambda rng, size: rng.choice([0.0, 0.4, 1.0], size, p=[0.1, 0.5, 0.4]),
    "nearly constant": lambda rng, size: rng.choice([0.9, 0.91, 0.0], size, p=[0.49, 0.49, 0.02]),
    "uniform": lambda rng, size: rng.random(size),
}
MEANS = {"0/1, 0.5": 0.5, "0/1, 0.8": 0.8, "0/1, 0.02": 0.02, "grades": 0.6, "nearly constant": 0.8869, "uniform": 0.5}


def count_misses(name, draws, size, seed):
    rng, mean = np.random.default_rng(seed), MEANS[name]
    found = (compute_confidence_sequence(SOURCES[name](rng, size), (0.0, 1.0)) for _ in range(draws))
    return sum(any(not low <= mean <= high for low, high in one) for one in found)


@pytest.mark.parametrize("name", SOURCES)
def test_it_covers_the_mean_at_every_time_at_once(name):
    """In at least 95 % of the draws, so 5 % misses of 400 and two standard errors at most."""
    assert count_misses(name, 400, 200, 1) <= 20 + 2 * math.sqrt(19)


@pytest.mark.parametrize("name", SOURCES)
def test_it_covers_the_mean_quickly(name):
    assert count_misses(name, 100, 60, 2) <= 5 + 4 * math.sqrt(4.75)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=25), st.floats(0.001, 0.999))
def test_it_is_the_hedged_capital_of_the_paper(values, mean):
    """Whether a mean is excluded, computed score by score as in theorem 3 and equation 26."""
    up = down = 0.0
    seen, spread = [], 0.25
    excluded = False
    for time, value in enumerate(values, 1):
        bet = math.sqrt(2 * math.log(2 / 0.05) / (spread * time * math.log(time + 1)))
        up += math.log1p(min(bet, 0.5 / mean) * (value - mean))
        down += math.log1p(-min(bet, 0.5 / (1 - mean)) * (value - mean))
        excluded |= max(up, down) >= math.log(2 / 0.05)
        seen.append(value)
        means = [(0.5 + sum(seen[:t])) / (t + 1) for t in range(1, time + 1)]
        spread = (0.25 + sum((one - own) ** 2 for one, own in zip(seen, means, strict=True))) / (time + 1)
    low, high = compute_confidence_sequence(values, (0.0, 1.0))[-1]
    if not excluded:
        assert low <= mean <= high
    elif not low - 0.003 < mean < high + 0.003:
        assert not low <= mean <= high
    else:
        assert min(abs(mean - low), abs(mean - high)) < 0.003


def test_each_interval_is_within_the_one_before_and_in_the_unit_of_the_scores():
    scores: list[float] = np.random.default_rng(3).random(80).tolist()
    found = compute_confidence_sequence([1 + 4 * one for one in scores], (1.0, 5.0))
    plain = compute_confidence_sequence(scores, (0.0, 1.0))
    assert [one for pair in found for one in pair] == pytest.approx([1 + 4 * one for pair in plain for one in pair])
    assert all(a[0] <= b[0] < b[1] <= a[1] for a, b in pairwise(found))
    assert found[-1][1] - found[-1][0] < 0.4 * 4
    assert compute_confidence_sequence([], (0.0, 1.0)) == []
    with pytest.raises(ValueError, match="outside 0 to 1"):
        compute_confidence_sequence([1.5], (0.0, 1.0))


def test_scores_that_contradict_every_mean_leave_an_interval():
    low, high = compute_confidence_sequence([0.0] * 60 + [1.0] * 400, (0.0, 1.0))[-1]
    assert low < high
