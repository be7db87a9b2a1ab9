"""Whether a drift of the judge is seen on anchors, and how often one is seen that is none."""

import random
from itertools import product

import pytest

from evalspec.model.corrections import Drift
from evalspec.verdict.correction.drift import (
    FEWEST_FRESH,
    LEVEL,
    MOST_FRESH,
    RUNS,
    Anchor,
    compute_drift_p_value,
    decide_drift,
)

DRAWS = 2_000
ANCHORS = 50


def draw_anchors(draw, own, changed, anchors=ANCHORS):
    """Anchors of a judge that flips a share of its verdicts by itself, and that has changed its mind on a share."""
    drawn = [draw_anchor(draw, own, place < changed * anchors) for place in range(anchors)]
    draw.shuffle(drawn)
    return drawn


def draw_anchor(draw, own, is_changed):
    true = draw.random() < 0.5
    stored = tuple(float(true ^ (draw.random() < own)) for _ in range(3))
    return Anchor(stored, tuple(float(true ^ is_changed ^ (draw.random() < own)) for _ in range(MOST_FRESH)))


def find_state(draw, own, changed, first=ANCHORS // 2, anchors=ANCHORS):
    """The state that a run finds: two grades of the first anchors, and four of all if these are suspicious."""
    drawn = draw_anchors(draw, own, changed, anchors)
    suspicion = compute_drift_p_value([Anchor(one.stored, one.fresh[:FEWEST_FRESH]) for one in drawn[:first]])
    state = decide_drift(suspicion)
    return decide_drift(suspicion, compute_drift_p_value(drawn)) if state is Drift.SUSPECTED else state


@pytest.mark.parametrize(("own", "goal"), [(0.0, 0.9), (0.02, 0.9), (0.05, 0.8)])
def test_flips_of_a_tenth_are_found(own, goal):
    draw = random.Random(1)
    found = sum(find_state(draw, own, 0.1) is Drift.DRIFTED for _ in range(DRAWS)) / DRAWS
    assert found >= goal


@pytest.mark.parametrize(
    ("first", "kept", "own", "documented"),
    [(5, 50, 0, 0.42), (10, 50, 0.02, 0.66), (25, 50, 0.05, 0.90), (50, 50, 0.05, 0.99), (20, 20, 0.05, 0.48)],
)
def test_the_documented_power_of_a_run(first, kept, own, documented, monkeypatch):
    monkeypatch.setattr("evalspec.verdict.correction.drift._DRAWS", 2_000)
    draw = random.Random(4)
    found = sum(find_state(draw, own, 0.1, first, kept) is Drift.DRIFTED for _ in range(DRAWS)) / DRAWS
    assert found == pytest.approx(documented, abs=0.04)


@pytest.mark.parametrize("own", [0.02, 0.05, 0.2])
def test_few_histories_have_a_false_alarm(own, monkeypatch):
    monkeypatch.setattr("evalspec.verdict.correction.drift._DRAWS", 2_000)  # as valid, and ten times as fast
    draw, histories = random.Random(2), 800
    alarms = sum(any(find_state(draw, own, 0) is Drift.DRIFTED for _ in range(RUNS)) for _ in range(histories))
    assert alarms / histories <= LEVEL


def test_the_p_value_is_that_of_all_permutations():
    draw = random.Random(3)
    anchors = [Anchor(tuple(map(float, draw.choices((0, 1), k=3))), (1.0, 0.5)) for _ in range(4)]
    differences = [one.list_differences() for one in anchors]
    observed = sum(one[0] for one in differences)
    sums = [sum(one) for one in product(*differences)]
    exact = sum(one >= observed - 1e-9 for one in sums) / len(sums)
    assert compute_drift_p_value(anchors) == pytest.approx(exact, abs=0.01)


def test_a_judge_that_says_the_same_has_not_drifted():
    assert compute_drift_p_value([Anchor((1.0,) * 3, (1.0,) * 2)] * 50) == 1
    assert compute_drift_p_value([Anchor((1.0,) * 3, (0.0,) * 2)] * 50) < 1e-4


@pytest.mark.parametrize("tests", [1, 5])
def test_a_suspicion_is_tested_at_the_level_that_the_metrics_of_a_run_share(tests):
    level = LEVEL / RUNS / tests
    assert decide_drift(0.3) is Drift.UNCHANGED
    assert decide_drift(0.001) is Drift.SUSPECTED
    assert decide_drift(0.001, level, tests=tests) is Drift.DRIFTED
    assert decide_drift(0.001, level * 1.01, tests=tests) is Drift.UNCHANGED


@pytest.mark.parametrize(("stored", "fresh"), [((1.0,) * 2, (1.0,) * 2), ((1.0,) * 3, (1.0,))])
def test_too_few_scores_are_refused(stored, fresh):
    with pytest.raises(ValueError, match="an anchor needs 3 stored and 2 fresh scores"):
        Anchor(stored, fresh)
