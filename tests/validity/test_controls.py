"""Whether a judge distinguishes good from bad cases: the exact test, the cases, and how often which judge passes."""

import random
from itertools import combinations
from statistics import mean

import pytest

from evalspec.model import Sample
from evalspec.scoring.controls import MOST_PAIRS, make_controls
from evalspec.scoring.metrics.base import METRICS, ControlKind
from evalspec.verdict.correction.controls import LEVEL, compute_p_value, plan_rounds

TEXTS = ("Ships sail north.", "Bread rises overnight.", "Taxes fall due in May.", "Bees dance.", "Rust eats iron.")


def count_divisions(good, bad):
    """The definition: the share of all divisions of the scores with so high a rank sum."""
    scores = [*good, *bad]
    ranks = [mean(place for place, other in enumerate(sorted(scores)) if other == one) for one in scores]
    observed = sum(ranks[: len(good)])
    sums = [sum(chosen) for chosen in combinations(ranks, len(good))]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


@pytest.mark.parametrize("seed", range(40))
def test_the_p_value_is_that_of_all_divisions(seed):
    draw = random.Random(seed)
    count = draw.randint(2, 6)
    good, bad = ([draw.choice((0, 0.5, 0.75, 1)) for _ in range(count)] for _ in range(2))
    assert compute_p_value(good, bad) == pytest.approx(count_divisions(good, bad))


@pytest.mark.parametrize(("count", "rounds"), [(0, ()), (2, ()), (3, (3,)), (5, (5,)), (7, (5, 7)), (40, (5, 10))])
def test_a_perfect_judge_passes_in_the_first_round_wherever_there_is_a_test(count, rounds):
    assert plan_rounds(count) == rounds
    if rounds:
        assert compute_p_value([1.0] * rounds[0], [0.5] * rounds[0]) <= LEVEL / len(rounds)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_constant_judge_never_passes(value):
    assert compute_p_value([value] * 10, [value] * 10) == 1


def find_share_passing(right_of_good, right_of_bad, draws=2_000, pairs=40):
    """The share of judges that pass, if they call so many of the good ones good, and of the bad ones bad."""
    draw, passed = random.Random(6), 0
    for _ in range(draws):
        good = [draw.random() < right_of_good for _ in range(MOST_PAIRS)]
        bad = [draw.random() >= right_of_bad for _ in range(MOST_PAIRS)]
        rounds = plan_rounds(pairs)
        passed += any(compute_p_value(good[:size], bad[:size]) <= LEVEL / len(rounds) for size in rounds)
    return passed / draws


def test_how_many_judges_pass():
    assert find_share_passing(0.5, 0.5) <= LEVEL
    assert find_share_passing(0.95, 0.05) <= LEVEL  # lenient: calls nearly everything good
    assert find_share_passing(1.0, 0.9) >= 0.99
    assert find_share_passing(0.9, 0.9) >= 0.95


def make_samples(count=5):
    return [
        Sample(f"s{n}", f"Question {n}?", (TEXTS[n],), reference_contexts=(f"Indeed. {TEXTS[n]}",))
        for n in range(count)
    ]


@pytest.mark.parametrize("kind", ControlKind)
def test_cases_do_not_depend_on_the_order_of_samples(kind):
    samples = make_samples()
    assert make_controls(kind, samples) == make_controls(kind, samples[::-1])
    assert len(make_controls(kind, samples)) == 5


def test_what_the_cases_are():
    (answer, *_), (support, *_), (passages, *_) = (make_controls(kind, make_samples()) for kind in ControlKind)
    sample = answer.good.sample
    assert (answer.good.response, answer.bad.response in TEXTS) == (sample.reference, True)
    assert answer.bad.response != sample.reference
    assert support.bad.response == f"{support.good.response} {answer.bad.response}"
    assert sample.reference in support.bad.retrieved_contexts
    assert passages.good.retrieved_contexts == sample.reference_contexts != passages.bad.retrieved_contexts


def test_answers_that_say_the_same_or_nothing_make_no_cases():
    same = [Sample(f"s{n}", f"Capital of France? {n}", ("Paris",)) for n in range(9)]
    nothing = [Sample(f"s{n}", "Why?", ("I do not know.",)) for n in range(9)]
    assert not [pair for kind in ControlKind for given in (same, nothing) for pair in make_controls(kind, given)]


def test_every_metric_that_is_about_the_right_answer_has_cases():
    judged = {one.name: one.control for one in METRICS if one.judge_calls}
    assert [name for name, kind in judged.items() if kind is None] == [
        "agent_goal_accuracy",
        "topic_adherence",
        "noise_sensitivity",
        "preference",
        "toxicity",
        "bias",
    ]
