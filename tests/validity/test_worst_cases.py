"""A statement at a level is false in no more runs than the level allows, in the worst case that a search finds.

The true mean is exactly at the limit. All outcomes are enumerated, except where members of a cluster differ.
`benchmarks/simulations.py --only worst` searches longer.
"""

import numpy as np
import pytest

from evalspec.verdict.stats.bounded import compute_bounded_interval
from worst_cases import (
    Grades,
    draw_classes,
    find_confidence_end,
    find_lower_ends,
    find_worst_clusters,
    find_worst_three,
    list_counts,
    screen_and_confirm,
    search_clusters,
    search_grades,
    simulate_clusters,
    simulate_grades,
)

pytestmark = pytest.mark.simulation

EXACT = 1e-6
LEVELS = [0.025, 0.05]
GRADES = (0, 0.25, 0.5, 0.75, 1)


def test_the_search_has_the_ends_of_the_real_interval():
    scores = [[0.0] * none + [0.5] * half + [1.0] * all for none, half, all in list_counts(9, 3).tolist()]
    real = [compute_bounded_interval(one, (0, 1), 0.9)[0] for one in scores]
    found = find_lower_ends(np.array([0, 0.5, 1]), np.ones(3), list_counts(9, 3), 1.0, 0.05)
    assert found == pytest.approx(real, abs=1e-9)


def test_the_search_has_the_ends_of_the_real_interval_with_clusters():
    """Two clusters of three samples, and five single ones, that pass or fail as a whole."""
    labels = [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6]
    for large in range(3):
        for small in range(6):
            scores = [1.0] * (3 * large) + [0.0] * (6 - 3 * large) + [1.0] * small + [0.0] * (5 - small)
            real = compute_bounded_interval(scores, (0, 1), 0.9, clusters=labels)[0]
            sums, sizes = np.array([3.0, 1, 0, 0]), np.array([3.0, 1, 3, 1])
            counts = np.array([[large, small, 2 - large, 5 - small]])
            unseen = (2 * 3**3 + 5) / (2 * 3**2 + 5)
            assert find_lower_ends(sums, sizes, counts, unseen, 0.05)[0] == pytest.approx(real, abs=1e-9)


@pytest.mark.parametrize("alpha", LEVELS)
@pytest.mark.parametrize("units", [5, 20, 50])
def test_three_grades(units, alpha):
    """The worst case has two grades, with Clopper and Pearson's bound: exactly the level, and never above it."""
    found = [find_worst_three((0, middle, 1), units, alpha) for middle in (0.25, 0.5, 0.75)]
    assert max(found).share == pytest.approx(alpha, abs=EXACT)
    three = [find_worst_three((0, middle, 1), units, alpha, 0.05).share for middle in (0.25, 0.5)]
    assert 0.7 * alpha < max(three) < 0.9 * alpha


@pytest.mark.parametrize("units", [5, 10])
def test_five_grades(units):
    found = search_grades(np.random.default_rng(units), GRADES, units, 0.05, 6)
    assert 0.045 < found.share <= 0.05 + EXACT


def test_five_grades_of_many_scores():
    """Drawn: the worst of 40 distributions, from fresh draws."""
    cases = list(np.random.default_rng(1).dirichlet(np.full(5, 0.3), 40))
    share, _ = screen_and_confirm(
        cases, lambda rng, chances, draws: simulate_grades(rng, GRADES, chances, 100, 0.05, draws), 1
    )[0]
    assert share > 0.03
    assert find_confidence_end(share, 40_000) <= 0.05


def test_drawn_grades_are_those_that_are_enumerated():
    chances = np.array([0.2, 0.3, 0.5])
    exact = Grades((0, 0.5, 1), 20, 0.05).share(chances[None])[0]
    assert simulate_grades(np.random.default_rng(1), (0, 0.5, 1), chances, 20, 0.05, 40_000) == pytest.approx(
        exact, abs=0.003
    )


@pytest.mark.parametrize("alpha", LEVELS)
def test_clusters_whose_members_agree(alpha):
    found = search_clusters(np.random.default_rng(1), 16, alpha)
    assert found[0].share == pytest.approx(alpha, abs=EXACT)
    assert {len(one.case) for one in found} == {1, 2, 3}


def test_the_worst_unequal_clusters_of_a_long_search():
    assert 0.0495 < find_worst_clusters(((1, 247), (2, 2)), 0.05).share <= 0.05 + EXACT


def test_the_search_finds_a_cluster_that_stands_for_too_few_unseen_ones(monkeypatch):
    """With the mean weighted by size, Σn² / Σn, 10 % of the statements are false."""
    monkeypatch.setattr("worst_cases.compute_unseen_size", lambda sizes: (sizes**2).sum() / sizes.sum())
    assert find_worst_clusters(((30, 3), (1, 183)), 0.05).share > 0.09


def test_clusters_whose_members_are_correlated():
    """Drawn: the worst of 16 configurations, from fresh draws."""
    rng = np.random.default_rng(3)
    drawn = draw_classes(rng)
    cases = [
        (next(drawn), correlation, limit) for correlation in (0, 0.05, 0.3, 0.7) for limit in rng.uniform(0.05, 0.95, 4)
    ]
    share, _ = screen_and_confirm(cases, lambda rng, case, draws: simulate_clusters(rng, *case, 0.05, draws), 1)[0]
    assert share > 0.02
    assert find_confidence_end(share, 40_000) <= 0.05


def test_drawn_clusters_are_those_that_are_enumerated():
    worst = find_worst_clusters(((5, 4), (1, 40)), 0.05)
    drawn = simulate_clusters(np.random.default_rng(1), worst.case, 1, worst.limit - 1e-9, 0.05, 40_000)
    assert drawn == pytest.approx(worst.share, abs=0.004)
