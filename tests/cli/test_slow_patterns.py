"""Patterns that people write, against texts that agents write: each has a time limit, and signals are heard."""

import json
import signal
import subprocess
import sys
import time

import pytest

from evalspec.base import json_path

SLOW = "(a|aa)+$"
TEXT = "a" * 300 + "b"
"""For this text, the pattern takes longer than the universe has existed."""


@pytest.fixture
def searching(project, agent):
    agent.reply = lambda body: {"response": "Paris", "contexts": [{"text": TEXT if "2" in body["message"] else "aa"}]}
    mapping = {"answer": "$.response", "contexts": f"$.contexts[?search(@.text, '{SLOW}')].text"}
    project.api = {"url": agent.url, "chatEndpoint": {"response": mapping, "timeoutSeconds": 60}}
    project.samples(3)
    return project


def test_a_slow_pattern_fails_its_sample_only(searching, monkeypatch):
    monkeypatch.setattr(json_path, "PATTERN_SECONDS", 0.01)
    samples = searching.evaluate("--json").document["datasets"][0]["samples"]
    assert [one["status"] for one in samples] == ["answered", "answered", "failed"]
    said = f"the pattern of $.contexts[?search(@.text, '{SLOW}')].text takes longer than 0.01 s on this reply"
    assert said in samples[2]["error"].replace('"', "'")


def test_many_slow_texts_share_the_limit(searching, agent, monkeypatch):
    monkeypatch.setattr(json_path, "PATTERN_SECONDS", 0.01)
    agent.reply = {"response": "Paris", "contexts": [{"text": TEXT}] * 100_000}
    assert {one["status"] for one in searching.evaluate("--json").document["datasets"][0]["samples"]} == {"failed"}


def test_a_signal_is_heard_during_a_match(searching, agent):
    agent.reply = {"response": "Paris", "contexts": [{"text": TEXT}]}
    searching.write()
    program = (
        "import sys; from evalspec.base import json_path; json_path.PATTERN_SECONDS = 2.0; "
        "from evalspec.cli.main import run; sys.exit(run(['evaluate', 'agent.yaml', '-j', '1']))"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    while not agent.requests:
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted; results so far are kept" in said


def test_a_slow_pattern_of_a_dataset_is_one_line(project, monkeypatch):
    monkeypatch.setattr(json_path, "PATTERN_SECONDS", 0.01)
    lines = [{"q": "Who?", "a": "We", "c": [{"t": TEXT}]}]
    project.dataset("qa", lines, format="records", metrics=["string_match"])
    path = f"$.c[?search(@.t, '{SLOW}')].t"
    project.evaluation["datasets"][0]["fields"] = {"input": "q", "expected": "a", "context": path}
    outcome = project.validate()
    assert outcome.code == 2
    assert "takes longer than 0.01 s" in json.dumps(outcome.out)
