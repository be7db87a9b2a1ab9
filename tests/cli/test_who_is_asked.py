"""Something already answers where the manifest's `command` would: the run says so, and CI refuses."""

import json

import pytest

from conftest import without_few
from servers.faulty_agent import FaultyAgent


@pytest.fixture
def occupied(project, agent):
    """An agent with a command, and another that already answers at its url."""
    project.api = {"url": agent.url, "command": ["touch", "started"]}
    project.samples(2)
    return project


def sentence(agent):
    return f"used the agent already running at {agent.url}; `command` was not started"


def words(text):
    return " ".join(text.split())


def test_every_report_says_who_was_asked(occupied, agent):
    outcome = occupied.evaluate("-o", "out.json", "-o", "out.md", "-o", "out.html")
    assert outcome.code == 0
    assert sentence(agent) in outcome.out.splitlines()[1]
    assert words(outcome.out).count(sentence(agent)) == 1
    assert without_few(json.loads((occupied.folder / "out.json").read_text())["notes"]) == [sentence(agent)]
    assert sentence(agent) in (occupied.folder / "out.md").read_text().split("###")[0]
    header = (occupied.folder / "out.html").read_text().partition("</header>")[0]
    assert f'<p class="remark"><bdi>{sentence(agent)}</bdi></p>' in header
    assert not (occupied.folder / "started").exists()


def test_a_stored_run_still_says_so(occupied, agent):
    outcome = occupied.evaluate("--json")
    assert occupied("report", "--json").document == outcome.document
    assert sentence(agent) in words(occupied("report").out)
    assert sentence(agent) in words(occupied("rescore", "latest", "agent.yaml").out), "the replies are the same"


def test_a_run_without_texts_says_so_too(occupied, agent):
    assert sentence(agent) in words(occupied.evaluate("--no-content").out)


@pytest.mark.parametrize(
    ("reuse", "ci", "refused"),
    [
        (None, None, False),
        (None, "false", False),
        (None, "true", True),
        ("auto", "1", True),
        (True, "true", False),
        (False, None, True),
    ],
)
def test_whether_what_answers_is_asked(occupied, agent, monkeypatch, reuse, ci, refused):
    if reuse is not None:
        occupied.api["reuse"] = reuse
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    outcome = occupied.evaluate()
    assert (outcome.code, len(agent.requests)) == ((2, 0) if refused else (0, 2))
    assert not (occupied.folder / "started").exists()


def test_the_refusal_is_one_line_with_the_fix(occupied, agent, monkeypatch):
    monkeypatch.setenv("CI", "true")
    line, go_on = occupied.evaluate().err.splitlines()
    assert line.removeprefix("evalspec: ") == (
        f"agent.yaml:8: spec.api.command: something already answers at {agent.url}, and in CI evalspec queries "
        "only the agent that `command` starts. stop it, change the port, or set spec.api.reuse: true"
    )
    occupied.api["reuse"] = True
    occupied.write()
    resumed = occupied("evaluate", *go_on.partition(" evaluate ")[2].split())
    assert (resumed.code, len(agent.requests)) == (0, 2), "how it is started is no part of what is asked"
    occupied.api["reuse"] = False
    assert "and spec.api.reuse is false. stop it" in occupied.evaluate().err


def test_only_where_the_command_would_be_started(occupied, agent, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with FaultyAgent() as other:
        outcome = occupied.evaluate("--url", other.url, "--json")
        assert (outcome.code, without_few(outcome.document["notes"]), len(other.requests)) == (0, [], 2)
    (occupied.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Paris"}\n{"id": "s1", "response": "x"}\n')
    notes = without_few(occupied.evaluate("--responses", "replies.jsonl", "--json").document["notes"])
    assert notes == ["2 recorded replies do not say what was asked: they are not checked against the question"]
    del occupied.api["command"]
    assert without_few(occupied.evaluate("--json").document["notes"]) == []


@pytest.mark.parametrize("value", ["never", 2, "true", None])
def test_reuse_is_auto_true_or_false(occupied, value):
    occupied.api["reuse"] = value
    outcome = occupied.validate()
    assert outcome.code == 2
    assert "spec.api.reuse" in outcome.out
    assert 'write "auto", true or false' in outcome.out


def test_yaml_booleans_are_understood(occupied, agent):
    manifest = occupied.write()
    for written in ("auto", "'auto'", "true", "True"):
        manifest.write_text(manifest.read_text().replace("  api:\n", f"  api:\n    reuse: {written}\n"))
        assert occupied("validate", "agent.yaml").code == 0
        occupied.write()
