"""What `weigh` promises of two runs: its false alarms, what it excludes, what it finds, and how many pairs that takes.

Each bound is followed by the standard error of the figure that it is for.
"""

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from evalspec.verdict.validity import changes
from evalspec.verdict.validity.changes import PairedScores, SignificanceRules, weigh
from evalspec.verdict.validity.estimates import Estimate
from simulated import Setting, find_misses

pytestmark = pytest.mark.simulation

ALPHA = 0.05
ONE_SIDED = SignificanceRules(ALPHA, two_sided=False, resamples=1000)
TWO_SIDED = SignificanceRules(ALPHA, two_sided=True, resamples=1000)


@pytest.fixture
def _without_intervals(monkeypatch):
    """P-values do not depend on the interval, which takes most of the time."""
    monkeypatch.setattr(changes, "estimate_difference", lambda scores, confidence: Estimate(len(scores)))


@pytest.mark.usefixtures("_without_intervals")
@pytest.mark.parametrize(
    ("setting", "rules"),
    [
        (Setting("normal", 12), ONE_SIDED),
        (Setting("graded", 50), TWO_SIDED),
        (Setting("binary", 60, 5), ONE_SIDED),
        (Setting("normal", 12, 5), TWO_SIDED),
        (Setting("normal", 50, 5, shared=0.8), ONE_SIDED),
        (Setting("graded", 200, 5, shared=0.8), ONE_SIDED),
        (Setting("normal", 40, 20), ONE_SIDED),
        (Setting("graded", 40, 20, shared=0.8), TWO_SIDED),
        (Setting("normal", 60, 5, clusters=12), ONE_SIDED),
        (Setting("graded", 100, 5, shared=0.5, clusters=20), TWO_SIDED),
    ],
    ids=str,
)
def test_the_same_agent_twice_is_seldom_different(setting, rules):
    """At most alpha + 1.5 points of comparisons have any significant metric; 1 point with 500 comparisons."""
    rng = np.random.default_rng(1)
    false = [any(one.is_significant for one in weigh([setting.draw(rng)], rules)[0]) for _ in range(500)]
    assert np.mean(false) <= ALPHA + 0.015


@pytest.mark.parametrize("count", [50, 200, 1000])
@pytest.mark.parametrize(("kind", "limit"), [("flips 5 %", 0.02), ("flips 10 %", 0.05), ("normal", 0.02)])
def test_a_drop_of_just_the_limit_is_seldom_excluded(kind, limit, count):
    """`largest_drop < maxDrop` in at most alpha + 1.5 points of the runs; 0.5 points with 2,000 runs."""
    rng, size = np.random.default_rng(count), (2000, count)
    if kind == "normal":
        differences = np.clip(rng.normal(-limit, 0.2, size), -1, 1)
    else:
        churn, drawn = float(kind.split()[1]) / 100, rng.random(size)
        differences = np.where(drawn < churn, 1.0, np.where(drawn < 2 * churn + limit, -1.0, 0.0))
    ones = np.ones(size)
    _, above = find_misses(differences, ones, -limit, (-1, 1), confidence=1 - 2 * ALPHA)
    assert above.mean() <= ALPHA + 0.015
    real = [_find_largest_drop(row) < limit for row in differences[:20]]
    assert np.sum(real != above[:20]) <= 1


@pytest.mark.parametrize("clusters", [10, 40])
def test_a_drop_of_just_the_limit_in_clusters_is_seldom_excluded(clusters):
    """The same where whole clusters are better or worse; 0.7 points with 1,000 runs."""
    rng, limit = np.random.default_rng(clusters), 0.05
    effects = rng.normal(-limit, 0.1, (1000, clusters))
    sums = (5 * effects + rng.normal(0, 0.2 * np.sqrt(5), effects.shape)).clip(-5, 5)
    sizes = np.full(sums.shape, 5.0)
    _, above = find_misses(sums, sizes, -limit, (-1, 1), confidence=1 - 2 * ALPHA)
    assert above.mean() <= ALPHA + 0.015


def _find_largest_drop(differences):
    row = differences.tolist()
    scores = PairedScores([0.0] * len(row), row, row, range(len(row)), bounds=(0.0, 1.0))
    return weigh([[scores]], ONE_SIDED)[0][0].largest_drop


@pytest.mark.usefixtures("_without_intervals")
@pytest.mark.parametrize(
    "setting",
    [
        Setting("normal", 20),
        Setting("binary", 20),
        Setting("graded", 50),
        Setting("normal", 50, 5),
        Setting("binary", 100, 5, shared=0.5),
        Setting("graded", 100, 5),
        Setting("normal", 50, 20, shared=0.5),
        Setting("binary", 500),
        Setting("normal", 100, 5, shared=0.5, clusters=20),
        Setting("binary", 200, clusters=30),
        Setting("binary", 60, repeats=4),
    ],
    ids=str,
)
def test_the_detectable_change_is_found_four_times_in_five(setting):
    """75 to 85 %: what one comparison of equals says is found in others; 1.6 points and X's own spread."""
    rng = np.random.default_rng(2)
    found = []
    for number in range(100):
        rules = replace(ONE_SIDED, seed=number)  # 1,000 resamples of one seed have a level of their own
        change = weigh([setting.draw(rng)], rules)[0][0].compute_detectable()
        found += [weigh([setting.draw(rng, change)], rules)[0][0].is_significant for _ in range(6)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


@cache
def _find_power(kind, samples, drop):
    rng, setting = np.random.default_rng(samples), Setting(kind, samples)
    return np.mean([weigh([setting.draw(rng, drop)], ONE_SIDED)[0][0].is_significant for _ in range(400)])


@pytest.mark.usefixtures("_without_intervals")
@pytest.mark.parametrize(("kind", "drop"), [("normal", 0.05), ("binary", 0.1), ("graded", 0.1)])
def test_the_pairs_that_are_needed_to_find_a_drop(kind, drop):
    """With a fifth fewer pairs the power is below 80 %, with a fifth more it is above; 2 points each."""
    rng = np.random.default_rng(3)
    needed = np.median([weigh([Setting(kind, 200).draw(rng)], ONE_SIDED)[0][0].compute_needed(drop) for _ in range(30)])
    assert _find_power(kind, round(0.8 * needed), drop) < 0.8 < _find_power(kind, round(1.2 * needed), drop)


@pytest.mark.usefixtures("_without_intervals")
@pytest.mark.parametrize("kind", ["graded", "binary"])
def test_the_pairs_that_are_needed_to_exclude_a_drop(kind):
    """The same for excluding a drop between equals; 2 points each."""
    rng, drop = np.random.default_rng(4), 0.05
    pilots = [weigh([Setting(kind, 200).draw(rng)], ONE_SIDED)[0][0] for _ in range(30)]
    needed = np.median([pilot.compute_needed_to_exclude(drop) for pilot in pilots])
    powers = []
    for samples in (round(0.8 * needed), round(1.2 * needed)):
        rows = np.array([Setting(kind, samples).draw(rng)[0].differences for _ in range(400)]).clip(-1, 1)
        _, above = find_misses(rows, np.ones(rows.shape), -drop, (-1, 1), 1 - 2 * ALPHA)
        powers.append(above.mean())
    assert powers[0] < 0.8 < powers[1]
