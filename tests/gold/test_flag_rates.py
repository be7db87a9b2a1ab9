"""Flag rates, their baselines, and the promise about false alarms."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from evalspec import gold
from evalspec.curation.gold.flag_rates import CountedReview, Watch, compute_fisher, find_alarms, rate_person
from evalspec.model.curation import FlagRole

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def stream(flags, who="x"):
    return [CountedReview(BEGIN + timedelta(hours=n), f"{who}{n}", bool(flag)) for n, flag in enumerate(flags)]


def alarms_of(flags, team, *, alpha=0.01, newcomer=50, restarts=()):
    return list(find_alarms(stream(flags), stream(team, "y"), Watch(newcomer, alpha), restarts))


@given(st.integers(0, 40), st.integers(1, 60), st.integers(0, 80), st.integers(1, 400))
def test_the_test_is_fishers(flagged, size, others_flagged, others):
    flagged, others_flagged = min(flagged, size), min(others_flagged, others)
    found = compute_fisher(flagged, size, others_flagged, others)
    table = [[flagged, size - flagged], [others_flagged, others - others_flagged]]
    exact = fisher_exact(table, alternative="greater").pvalue
    if flagged * others > others_flagged * size:
        assert found == pytest.approx(exact, rel=1e-6)
    else:
        assert found == 1.0  # not above the baseline; never an alarm


@pytest.mark.simulation
def test_false_alarms_are_as_rare_as_stated():
    """A person and a team with one flag rate, looked at after each of 400 reviews: every alarm is false.

    Both tests of a look together may raise twice alpha. Without the correction for repeated looks, half of the people
    would get an alarm.
    """
    rng, runs, alpha = random.Random(3), 300, 0.1
    wrong = 0
    for _ in range(runs):
        rate = rng.choice([0.1, 0.3])
        flags, team = ([rng.random() < rate for _ in range(size)] for size in (400, 800))
        wrong += bool(alarms_of(flags, team, alpha=alpha))
    assert wrong / runs <= 2 * alpha


def test_looking_more_often_cannot_add_alarms():
    """A look depends only on what was known then, so an earlier conclusion never changes with later reviews."""
    rng = random.Random(1)
    flags = [rng.random() < (0.1 if n < 120 else 0.5) for n in range(300)]
    team = [rng.random() < 0.1 for n in range(900)]
    final = alarms_of(flags, team)
    assert {alarm.against for alarm in final} == {"team", "own"}
    for seen in range(0, 301, 10):
        known = alarms_of(flags[:seen], team[: max(1, seen)])
        assert known == [alarm for alarm in final if alarm.after <= seen]


def test_a_sustained_rate_raises_an_alarm_and_a_newcomer_none():
    team = [False, *[False] * 8, True] * 30
    assert alarms_of([True] * 74, team) == []
    (alarm,) = alarms_of([True] * 75, team)
    assert (alarm.against, alarm.after, alarm.rate) == ("team", 75, 1.0)
    assert alarms_of([True] * 75, team, newcomer=60) == []
    assert alarms_of([False] * 300, team) == []


def test_a_calibration_restarts_the_baseline():
    team = [False, *[False] * 8, True] * 60
    flags = [True] * 100
    assert alarms_of(flags, team)
    assert alarms_of(flags, team, restarts=[100]) == []
    assert alarms_of(flags + [False] * 100, team, restarts=[100]) == []
    assert alarms_of(flags + [True] * 100, team, restarts=[100])[0].after > 100
    found = rate_person("x", FlagRole.REVIEWER, stream([*flags, False, False]), stream(team), Watch(50, 0.01), [100])
    assert (found.recent, found.own, found.calibrations, found.flagged) == (0.0, None, 1, 100)


def test_rates_by_author_and_reviewer(curated):
    for number in range(4):
        curated.add(f"t{number}", by="ada" if number % 2 else "dan")
    curated.say("t0", "2026-01-05", ben="overstated", cleo="confirm")
    curated.say("t1", "2026-02-05T10:00:00Z", ben="overstated", cleo="overstated")
    curated.say("t2", "2026-02-31", ben="confirm", cleo="confirm")
    curated.say("t3", "0001-01-01T00:00+05:00", ben="confirm")
    found = {(one.role, one.person): one for one in gold.stats(curated.root).flag_rates}
    counts = {key: (one.flagged, one.reviewed) for key, one in found.items()}
    assert counts == {
        ("author", "ada"): (1, 1),  # t3 has only one review
        ("author", "dan"): (1, 2),
        ("reviewer", "ben"): (2, 4),
        ("reviewer", "cleo"): (1, 3),
    }
    months = {one.month: (one.flagged, one.reviewed) for one in found[FlagRole.REVIEWER, "ben"].periods}
    assert months == {"2026-01": (1, 1), "2026-02": (1, 1), "unknown": (0, 2)}
    assert found[FlagRole.REVIEWER, "ben"].newcomer_left == 46
    assert found[FlagRole.REVIEWER, "ben"].team is None
