"""How stable a judge is, and the threshold on its scores that agrees best with people."""

import random

import pytest

from evalspec.model import Direction, Threshold
from evalspec.model.calibrations import Cut, MetricCalibration
from evalspec.verdict.correction.agreement import RepeatedGrades, count_repeats, measure_stability, share_flips
from evalspec.verdict.correction.calibrating import Pair, choose_threshold, measure_calibration
from evalspec.verdict.correction.rates import RunScores, apply_calibration
from evalspec.verdict.outline import MetricOutline

AT_LEAST = Threshold("m", min=0.5)
METRIC = MetricOutline("m", "mean", Direction.HIGHER, (0.0, 1.0), judged=True)
EMPTY = MetricCalibration(dataset="d", metric="m")


def calibrated(given, every=()):
    return measure_calibration(EMPTY, METRIC, (AT_LEAST, Cut.THRESHOLD), given, [*every, *(one.judge for one in given)])


@pytest.mark.parametrize(
    ("grades", "share"), [((1, 1, 1), 0), ((1, 0), 1), ((1, 1, 0), 2 / 3), ((1, 1, 0, 0), 2 / 3), ((0.6, 0.9), 0)]
)
def test_flips_are_pairs_on_different_sides(grades, share):
    assert share_flips(grades, AT_LEAST) == pytest.approx(share)


def test_shares_of_variance_and_repeats_are_those_of_the_simulated_judge():
    generator = random.Random(5)
    replies = []
    for number in range(2000):
        truth = generator.gauss(0, 2)  # variance 4 between replies, 1 between grades
        replies.append(RepeatedGrades(number, [generator.gauss(truth, 1) for _ in range(3)]))
    found = measure_stability("d", "m", AT_LEAST, replies)
    assert found.judge_variance == pytest.approx(1, rel=0.1)
    assert found.reply_variance == pytest.approx(4, rel=0.1)
    assert found.share == pytest.approx(0.2, abs=0.03)
    assert found.repeats_needed == 3, "1 / J is at most a tenth of 4 + 1 / J from J = 2.25 on"
    assert found.flips.interval[0] < found.flips.value < found.flips.interval[1]


@pytest.mark.parametrize(
    ("judge", "replies", "needed"),
    [(1, 4, 3), (1, 9, 1), (1, 8.9, 2), (0, 0, None), (0, 1, 1), (1, 0, None), (None, 1, None)],
)
def test_repeats_needed(judge, replies, needed):
    assert count_repeats(judge, replies) == needed


def test_replies_with_one_grade_say_nothing():
    found = measure_stability("d", "m", AT_LEAST, [RepeatedGrades(1, [1.0]), RepeatedGrades(2, [])])
    assert (found.replies, found.flips.value, found.share, found.repeats_needed) == (0, None, None, None)


def test_a_constant_judge_is_said_to_be_of_no_use():
    found = measure_stability("d", "m", AT_LEAST, [RepeatedGrades(n, [1.0, 1.0]) for n in range(5)])
    assert "every grade is 1" in found.notes[0]


def test_the_repeats_of_a_constant_judge_are_unknown():
    found = measure_stability("d", "m", AT_LEAST, [RepeatedGrades(n, [1.0, 1.0]) for n in range(5)])
    assert (found.share, found.repeats_needed) == (None, None)


def pairs(count, people, judge):
    return [Pair(f"s{n}", 1, n, judge(n), people(n)) for n in range(count)]


def test_a_shifted_judge_gets_a_shifted_threshold():
    best = choose_threshold(pairs(100, lambda n: n / 99, lambda n: min(1.0, n / 99 + 0.2)), AT_LEAST)
    assert best.value == pytest.approx(0.7, abs=0.02)
    assert (best.agreement, best.present) == (1.0, pytest.approx(0.8, abs=0.01))
    assert best.cross_validated >= 0.97


def test_where_lower_is_better_the_threshold_is_the_highest_good_score():
    given = pairs(100, lambda n: n / 99, lambda n: min(1.0, n / 99 + 0.2))
    best = choose_threshold(given, Threshold("m", max=0.5))
    assert best.value == pytest.approx(0.7, abs=0.02)
    assert best.agreement == 1.0


def test_of_a_judge_that_knows_nothing_the_gain_is_lost():
    generator = random.Random(3)
    lost = [
        choose_threshold(pairs(40, lambda n: float(n % 2), lambda _: generator.random()), AT_LEAST).lost
        for _ in range(40)
    ]
    assert sum(lost) / len(lost) > 0.05


def test_clusters_stay_in_one_fold():
    given = [Pair(f"s{n}", 1, n // 2, n // 2 / 30, float(n // 2 % 2)) for n in range(60)]
    best = choose_threshold(given, AT_LEAST)
    assert best.cross_validated < best.agreement, "with a copy in another part, each reply would be known"


@pytest.mark.parametrize(
    ("count", "people", "limit"),
    [(19, lambda n: n % 2, AT_LEAST), (40, lambda _: 1.0, AT_LEAST), (40, lambda n: n % 2, Threshold("m", 0.2, 0.8))],
)
def test_few_or_one_sided_labels_and_two_ends_choose_nothing(count, people, limit):
    assert choose_threshold(pairs(count, people, lambda n: n / count), limit) is None


def test_a_judge_outside_its_scale_has_no_rates():
    found = calibrated(pairs(40, lambda n: float(n % 2), lambda n: float(n % 3 > 0)), every=[10.0])
    assert found.reason == "the judge gave 10, outside 0 to 1"
    assert (found.sensitivity.value, found.kappa, found.bias) == (None, None, None)


def test_a_judge_without_scores_on_labelled_replies_has_no_rates():
    assert calibrated([], every=[0.0, 1.0]).reason == "the judge has scored none of the labelled replies"


def apply(scores, units=None, **identity):
    kept = calibrated(pairs(60, lambda n: float(n < 40), lambda n: float(n < 36 or n >= 56)))
    own = RunScores(scores, units or range(len(scores)), identity, None)
    return apply_calibration(kept, "r", (AT_LEAST, Cut.THRESHOLD), own)


def test_scores_that_the_judge_could_not_give_widen_both_ends():
    known = apply([1.0] * 60 + [0.0] * 20)
    found = apply([1.0] * 60 + [0.0] * 20 + [None] * 20)
    assert (found.missing, found.value) == (20, known.value)
    assert found.interval[0] < known.interval[0] < known.interval[1] < found.interval[1] + 1e-9


def test_clusters_count_for_less():
    whole, in_pairs = apply([1.0, 0.0] * 40), apply([1.0, 0.0] * 40, [n // 4 for n in range(80)])
    assert whole.value == in_pairs.value
    assert in_pairs.interval[0] < whole.interval[0]


def test_a_run_without_scores_and_another_identity_say_why():
    assert apply([None, None]).reason == "the judge has scored no reply"
    assert apply([1.0], judge="n").reason == ("the calibration on r is void, because this changed: judge (none → n)")


def test_a_limit_that_no_specificity_changes_is_said_to_be_met_or_missed():
    assert apply([0.0] * 40).said == "the limit is missed at every specificity"
    assert apply([1.0] * 99 + [0.0]).said == "the limit is met at every specificity"
