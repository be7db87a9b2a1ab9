"""The set in evals/gold that shows what the commands do."""

from collections import Counter
from pathlib import Path

from evalspec import gold
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.states import State

ROOT = Path(__file__).parents[2]
SET = ROOT / "evals" / "gold" / "inkwharf"


def test_the_demonstration_set_follows_the_rules_and_says_what_it_is():
    checked = lint(SET)
    assert (checked.problems, checked.warnings) == ([], [])
    assert checked.found.config.demonstration
    assert all(name.endswith("-invented") for name in checked.found.config.people)
    states = Counter(entry.state for entry in checked.found.entries.values())
    assert states[State.ACCEPTED] >= 60
    assert {State.DISPUTED, State.DROPPED} <= set(states)
    assert len(gold.open_slice(checked.found, "2026Q4").entries) == 24


def test_the_example_evaluates_it(project, monkeypatch):
    done = project("validate", str(ROOT / "examples" / "gold" / "agent.yaml"))
    assert done.code == 0
    assert "1 triple is disputed, so not evaluated: file-size-business" in done.err
    assert "stale" not in done.err
