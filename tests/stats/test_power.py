"""The power that `plan` computes is within 5 points of the share of runs that the gate fails, given the true rates.

Attempts are drawn, and the gate's own tests decide. Beside 5 points, two standard errors of the simulated share are
allowed: 3 points, or 6 where an exchange of several attempts is slow. `benchmarks/simulations.py --only power` has all
settings and more runs.
"""

import pytest

from evalspec.verdict.validity import changes
from evalspec.verdict.validity.estimates import Estimate
from gate_power import Gate

RUNS = 800

GATES = [
    Gate(60),
    Gate(60, is_confirmed=False),
    Gate(60, 5, 1),
    Gate(40, 3, 3),
    Gate(30, 5, 5, concentration=5),
    Gate(60, margin=0.05),
    Gate(60, 5, 1, 0.05),
    Gate(60, is_graded=True),
    Gate(60, 5, 1, 0.05, is_graded=True),
    Gate(100, 5, 1, 0.05, is_graded=True, clusters=20),
    Gate(100, 5, 1, clusters=20),
    Gate(100, 3, 3, 0.05, clusters=20),
]


@pytest.fixture(autouse=True)
def without_intervals(monkeypatch):
    """They are slow, and no test needs them."""
    monkeypatch.setattr(changes, "estimate_difference", lambda scores, _: Estimate(len(scores)))


@pytest.mark.simulation
@pytest.mark.parametrize("gate", GATES, ids=str)
def test_the_gate_finds_what_the_plan_says(gate):
    drop = gate.find_drop()
    runs = RUNS // 4 if gate.before + gate.own > 2 and not gate.margin else RUNS
    found = gate.simulate(drop, runs, resamples=399)
    assert gate.plan()(drop) == pytest.approx(found, abs=0.05 + 2 * (found * (1 - found) / runs) ** 0.5)


@pytest.mark.simulation
def test_a_plan_for_an_unchanged_agent_has_the_level():
    """Two tests at 5 % against the same baseline fail less often than one of them."""
    assert Gate(60, is_confirmed=False).plan()(0.0) <= 0.05
    assert 0 < Gate(60, 5, 1).plan()(0.0) < 0.05
    assert Gate(60, 5, 1).simulate(0.0, 200, resamples=499) < 0.05
