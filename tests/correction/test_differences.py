"""The difference between two runs as people see it, where both have labels."""

import numpy as np
import pytest

from evalspec.model import Draw, DrawKind, PeopleScore, PeopleScores, SampleResult, SampleStatus, Score
from evalspec.verdict.correction.people import correct_difference


def sample(name, value):
    return SampleResult(id=name, status=SampleStatus.ANSWERED, scores={"m": Score.scored(float(value))})


def said(values, names, kind=DrawKind.RANDOM):
    draw = Draw(kind=kind, seed=1, probability=len(names) / len(values))
    scores = (PeopleScore(id=f"s{n}", value=float(values[n]), run="r", draw=draw) for n in names)
    return PeopleScores(dataset="d", metric="m", scores=tuple(scores))


def draw_case(rng, count, labels, rates, agreement):
    """Return the pairs, people's scores of both runs, and the difference as all people would see it."""
    truth = [rng.random(count) < rate for rate in rates]
    judged = [np.where(rng.random(count) < agreement, one, ~one) for one in truth]
    pairs = [(sample(f"s{n}", judged[0][n]), sample(f"s{n}", judged[1][n])) for n in range(count)]
    chosen = rng.choice(count, labels, replace=False)
    return pairs, tuple(said(one, chosen) for one in truth), float(truth[1].mean() - truth[0].mean())


def count_covered(draws, count, labels, rates, agreement, seed):
    rng, held = np.random.default_rng(seed), 0
    for _ in range(draws):
        pairs, people, difference = draw_case(rng, count, labels, rates, agreement)
        found = correct_difference(pairs, "m", (0.0, 1.0), people, None, 0.95)
        assert not isinstance(found, str)
        held += found.interval[0] <= difference <= found.interval[1]
    return held / draws


def test_the_interval_contains_the_difference_that_people_see():
    assert count_covered(60, 120, 40, (0.9, 0.8), 0.7, 3) >= 0.9


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("labels", [20, 100])
@pytest.mark.parametrize("rates", [(0.9, 0.8), (0.5, 0.5), (0.98, 0.99), (0.3, 0.6)])
@pytest.mark.parametrize("agreement", [0.55, 0.8, 0.95])
def test_the_interval_holds_for_judges_of_any_quality(labels, rates, agreement):
    assert count_covered(150, 200, labels, rates, agreement, 5) >= 0.94


def test_what_is_not_paired_says_why():
    pairs = [(sample(f"s{n}", 1), sample(f"s{n}", 1)) for n in range(30)]
    values, some = [1.0] * 30, range(10)
    random, chosen = said(values, some), said(values, some, DrawKind.STRATIFIED)
    assert "only labels of --random" in str(correct_difference(pairs, "m", (0, 1), (random, chosen), None, 0.95))
    other = said(values, range(5, 12))
    assert "scored 5 samples in both runs" in str(correct_difference(pairs, "m", (0, 1), (random, other), None, 0.95))
