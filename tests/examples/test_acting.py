"""The examples of examples/acting run as they are, but for the port."""

import shutil
from pathlib import Path

import pytest

from servers.ports import find_free_port

ACTING = Path(__file__).resolve().parents[2] / "examples" / "acting"


@pytest.fixture
def example(project):
    """Run an example and return the outcome, and the values of its samples by id and metric."""
    shutil.copytree(
        ACTING, project.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".evalspec")
    )
    port = str(find_free_port())

    def run(name, *arguments):
        path = project.folder / f"{name}.yaml"
        path.write_text(path.read_text().replace("8923", port))
        done = project("evaluate", path.name, "--json", *arguments)
        assert "warning" not in done.err
        assert done.code in (0, 1), done.err
        (dataset,) = done.document["datasets"]
        scores = {one["id"]: one["scores"] for one in dataset["samples"]}
        return done, {
            name: {metric: (score["value"], score["reason"]) for metric, score in found.items()}
            for name, found in scores.items()
        }

    return run


def test_an_agent_that_books_is_right_in_its_calls_and_in_the_world(example):
    done, scores = example("booking", "-j", "4")
    assert done.code == 0, done.err + done.out[-2000:]
    assert {found["end_state"][0] for found in scores.values()} == {1}
    assert {found["tool_calls_exact"][0] for found in scores.values()} == {1}
    assert scores["thanks"]["tool_schema_valid"] == (None, "the agent called no declared tool")
    assert len(scores) == 6


def test_an_agent_that_also_cancels_fails_only_by_the_state_of_the_world(example, monkeypatch):
    monkeypatch.setenv("FLIGHTS_BUG", "cancel")
    done, scores = example("booking")
    assert done.code == 1
    assert {name for name, found in scores.items() if found["end_state"][0] == 0} == {"paris", "rome"}
    assert "$.bookings[0]" in scores["paris"]["end_state"][1]
    assert {found["tool_calls_exact"][0] for found in scores.values()} == {1}


def test_conversations_are_right_turn_by_turn(example):
    done, scores = example("conversation", "-j", "2")
    assert done.code == 0, done.err + done.out[-2000:]
    assert {found["string_match(turns=worst)"][0] for found in scores.values()} == {1}
    assert {found["end_state"][0] for found in scores.values()} == {1}
    assert len(scores) == 3


def test_an_agent_that_forgets_fails_in_the_turn_that_needs_its_memory(example, monkeypatch):
    monkeypatch.setenv("FLIGHTS_BUG", "forget")
    done, scores = example("conversation")
    assert done.code == 1
    assert scores["seats"]["string_match(turns=worst)"] == (0, "turn 2: answered 'Where do you want to go?'")
    assert scores["cancel"]["end_state"][0] == 1


def test_users_with_a_goal_reach_it(example):
    done, scores = example("simulated-user")
    assert done.code == 0, done.err + done.out[-2000:]
    assert {name: (found["end_state"][0], found["user_error_rate"][0]) for name, found in scores.items()} == {
        "rome": (1, 0),
        "paris": (1, 0),
    }
    assert done.document["judgeUsage"]["simulated user"]["calls"] == 8, "three messages and an end, for each user"


def test_every_example_is_explained():
    page = (ACTING / "README.md").read_text()
    assert [path.name for path in ACTING.glob("*.yaml") if f"`{path.name}`" not in page] == []
