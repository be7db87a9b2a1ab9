"""The share of good replies by Rogan and Gladen, with its interval and tipping point."""

from typing import NamedTuple

import numpy as np
import pytest

from evalspec.verdict.correction import rates
from evalspec.verdict.correction.rates import RightCalls, correct_share, find_tipping_point, transport

RIGHT, WRONG = RightCalls(27, 30), RightCalls(14, 20)


@pytest.mark.parametrize(
    ("share", "sensitivity", "specificity", "value"),
    [
        # judgy: (p_obs + specificity - 1) / (sensitivity + specificity - 1), from 0 to 1
        (0.8, 0.9, 0.7, 0.8333333333333334),
        (0.6, 0.95, 0.85, 0.5625),
        (0.5, 0.75, 0.75, 0.5),
        (0.2, 0.9, 0.7, 0.0),
        (0.95, 0.9, 0.7, 1.0),
    ],
)
def test_the_value_is_that_of_judgy(share, sensitivity, specificity, value):
    assert correct_share(share, sensitivity, specificity) == pytest.approx(value, abs=1e-12)


def test_a_judge_that_is_no_better_than_chance_corrects_nothing():
    assert correct_share(0.5, 0.4, 0.6) is None
    found = transport(0.5, 100, RightCalls(4, 10), RightCalls(6, 10))
    assert found.value is None
    assert found.interval == (0.0, 1.0)


def test_a_perfect_judge_leaves_only_the_noise_of_the_replies():
    exact = RightCalls(1_000_000, 1_000_000)
    low, high = transport(0.5, 100, exact, exact).interval
    assert (low, high) == pytest.approx((0.3983, 0.6017), abs=5e-3), "Clopper and Pearson's"


def test_more_labels_and_more_replies_narrow_the_interval():
    def width(*given):
        low, high = transport(*given).interval
        return high - low

    more = RightCalls(270, 300), RightCalls(140, 200)
    assert width(0.7, 200, *more) < width(0.7, 200, RIGHT, WRONG)
    assert width(0.7, 2000, *more) < width(0.7, 200, *more)


def test_the_interval_contains_the_value_and_is_always_the_same():
    found = transport(0.7, 200, RIGHT, WRONG)
    assert found == transport(0.7, 200, RIGHT, WRONG)
    assert found.interval[0] < found.value < found.interval[1]


@pytest.mark.parametrize("given", [(0, RIGHT, WRONG), (10, RightCalls(0, 0), WRONG), (10, RIGHT, RightCalls(0, 0))])
def test_without_replies_or_labels_of_one_side_nothing_is_computed(given):
    with pytest.raises(ValueError, match="a share needs replies"):
        transport(0.5, *given)


@pytest.mark.parametrize(("share", "sensitivity", "limit"), [(0.8, 0.9, 0.7), (0.9, 0.95, 0.85), (0.6, 0.8, 0.5)])
def test_at_the_tipping_point_the_share_is_the_limit(share, sensitivity, limit):
    point = find_tipping_point(share, sensitivity, limit)
    assert correct_share(share, sensitivity, point) == pytest.approx(limit)
    assert correct_share(share, sensitivity, point - 0.05) < limit < correct_share(share, sensitivity, point + 0.05)


@pytest.mark.parametrize(("share", "limit"), [(0.2, 0.9), (0.95, 0.5), (0.9, 1.0)])
def test_limits_that_no_specificity_decides_have_no_tipping_point(share, limit):
    assert find_tipping_point(share, 0.9, limit) is None


class Case(NamedTuple):
    """A population, and how many of its replies are judged and labelled."""

    prevalence: float
    sensitivity: float
    specificity: float
    replies: int
    labels: int


def cover(rng, case, draws):
    """Share of the intervals that contain the true share. Draws without good or bad replies are left out."""
    covered = tried = 0
    good_judged = case.prevalence * case.sensitivity + (1 - case.prevalence) * (1 - case.specificity)
    for _ in range(draws):
        good = rng.binomial(case.labels, case.prevalence)
        if not 0 < good < case.labels:
            continue
        share = rng.binomial(case.replies, good_judged) / case.replies
        right = RightCalls(rng.binomial(good, case.sensitivity), good)
        wrong = RightCalls(rng.binomial(case.labels - good, case.specificity), case.labels - good)
        low, high = transport(share, case.replies, right, wrong).interval
        covered += low - 1e-9 <= case.prevalence <= high + 1e-9
        tried += 1
    return covered / tried if tried > draws / 4 else 1.0


def test_the_interval_covers_the_share(monkeypatch):
    monkeypatch.setattr(rates, "_DRAWS", 2000)
    rng = np.random.default_rng(1)
    assert cover(rng, Case(0.8, 0.9, 0.7, 200, 100), 400) >= 0.93
    assert cover(rng, Case(0.3, 0.99, 0.95, 1000, 50), 400) >= 0.93


def draw_case(rng):
    return Case(
        prevalence=rng.uniform(0.03, 0.97),
        sensitivity=rng.uniform(0.55, 0.999),
        specificity=rng.uniform(0.55, 0.999),
        replies=int(rng.choice([50, 300, 5000])),
        labels=int(rng.choice([30, 100, 500])),
    )


def test_the_interval_covers_the_share_in_the_worst_case_found(monkeypatch):
    monkeypatch.setattr(rates, "_DRAWS", 2000)
    rng = np.random.default_rng(2)
    found = sorted((cover(rng, case, 200), case) for case in [draw_case(rng) for _ in range(60)])
    worst = [(cover(rng, case, 2000), case) for _, case in found[:4]]
    assert min(worst)[0] >= 0.94, min(worst)
