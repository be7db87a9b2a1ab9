"""Changes of level: by a plain search, and on histories without noise. Their rates: benchmarks/change_points.py."""

import math

import numpy as np
import pytest

from evalspec.verdict.stats.change_points import WINDOW, list_changes


def search(values: list[float], metrics: int) -> list[int]:
    """Look after each value, at each cut, and begin again after a change."""
    limit, first, found = math.sqrt(12.6 + 1.7 * math.log(metrics)), 0, []
    for end in range(2, len(values) + 1):
        best, place = 0.0, None
        for cut in range(first + 1, end):
            pairs = [(old, new) for old in values[first:cut] for new in values[cut:end]]
            rises = sum((new > old) - (new < old) for old, new in pairs)
            if (size := abs(rises) / math.sqrt(len(pairs) * (end - first + 1) / 3)) > max(best, limit):
                best, place = size, cut
        if place is not None:
            first = place
            found.append(place)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(np.repeat([0, 3, -1], 18), 1), 1).tolist()
    found = list_changes(values, 2)
    assert found == search(values, 2)
    assert found


def test_one_outlier_is_no_change_and_a_step_is():
    assert list_changes([1.0] * 99 + [0.0], 1) == []
    assert list_changes([1.0] * 20 + [0.5] * 20 + [0.9] * 20, 10) == [20, 40]
    assert list_changes([1.0] * 60 + [0.5] * 30, 10) == list_changes([1.0] * 60 + [0.5] * 7, 10) == [60]


def test_only_the_newest_values_are_searched():
    assert list_changes([0.0] * 50 + [1.0] * WINDOW, 1) == []
    assert list_changes([0.0] * 80 + [1.0] * (WINDOW - 20), 1) == [80]


def test_a_limit_for_more_metrics_is_higher():
    values = [0.0] * 9 + [1.0] * 9
    assert (list_changes(values, 1), list_changes(values, 20)) == ([9], [])
