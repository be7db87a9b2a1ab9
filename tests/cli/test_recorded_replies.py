"""Recorded replies are scored many at a time. Progress counts only what the log has, and a reply is logged first."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalspec.api import public as api
from evalspec.base.errors import StoreError, Unmeasurable
from evalspec.model.log import ReplyRecord, ScoresRecord
from evalspec.runs.runner import worker
from evalspec.runs.store.run_log import RunLog

COUNT = 300
SLOW = """
import asyncio, json, time
from pathlib import Path

def is_written(exchange):
    (log,) = Path(".evalspec/runs").glob("2*/samples.jsonl")
    lines = [json.loads(line) for line in log.read_text().split("\\n")[:-1]]  # whole lines
    return any(line["kind"] == "reply" and line["id"] == exchange.sample.id for line in lines)

def slow(exchange):
    time.sleep(0.03)
    return is_written(exchange)

def waiting(exchange):
    while int(exchange.sample.id) >= 10 and not Path("go").exists():
        time.sleep(0.01)
    return 1

async def later(exchange):
    await asyncio.sleep(0.001)
    return is_written(exchange)

def together(exchange):
    '''How many scores were waited for at the same time, in hundredths.'''
    return _count()

async def cancelled(exchange):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)

now = most = 0

async def _count():
    global now, most
    now += 1
    most = max(most, now)
    await asyncio.sleep(0.005)
    now -= 1
    return most / 100
"""


@pytest.fixture
def recorded(project):
    """A project with recorded replies, every second one of them right."""

    def write(count, *metrics):
        project.dataset("qa", [{"id": f"{n}", "input": f"q{n}", "expected": "Paris"} for n in range(count)])
        project.evaluation["datasets"][0]["metrics"] = [*metrics]
        project.write()
        replies = [{"id": f"{n}", "response": "Paris" if n % 2 else "Rome"} for n in range(count)]
        (project.folder / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
        (project.folder / "slow.py").write_text(SLOW)
        return project

    return write


def _scorer(name):
    return {"name": name, "scorer": f"slow:{name}"}


def _read_log(folder: Path) -> list[dict]:
    (log,) = folder.glob(".evalspec/runs/2*/samples.jsonl")
    return [json.loads(line) for line in log.read_text().split("\n")[:-1]]  # whole lines


def _values(run, metric):
    return [sample.scores[metric].value for sample in run.datasets[0].samples]


def test_what_is_told_is_in_the_log(recorded, monkeypatch):
    monkeypatch.setattr(worker, "_SECONDS_AT_ONCE", 0.0005)
    project, told = recorded(COUNT, "string_match", "rouge"), []

    def listen(progress):
        lines = [line["kind"] for line in _read_log(project.folder)]
        assert lines.count("reply") == progress.asked
        assert lines.count("scores") == progress.scored
        told.append(progress.scored)

    run = api.evaluate("agent.yaml", progress=listen, responses="replies.jsonl")
    assert _values(run, "string_match") == [0.0, 1.0] * (COUNT // 2)
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == COUNT


@pytest.mark.parametrize("scorer", ["slow", "later"])
def test_a_reply_is_written_before_its_score_is_waited_for(recorded, scorer):
    recorded(20, "string_match", _scorer(scorer))
    run = api.evaluate("agent.yaml", responses="replies.jsonl")
    assert _values(run, scorer) == [1] * 20


def test_a_few_scores_are_waited_for_at_the_same_time(recorded):
    recorded(20, _scorer("together"))
    run = api.evaluate("agent.yaml", responses="replies.jsonl")
    assert max(_values(run, "together")) == worker._SCORERS / 100


def test_a_scorer_that_cancels_its_task_ends_the_run(recorded):
    recorded(20, _scorer("cancelled"))
    with pytest.raises(Unmeasurable, match="the evaluated code cancelled the task that called it"):
        api.evaluate("agent.yaml", responses="replies.jsonl")


def test_a_killed_run_is_resumed_to_the_same_report(recorded):
    project = recorded(40, _scorer("waiting"), "string_match")
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "--responses", "replies.jsonl"]
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(project.folder.glob(".evalspec/runs/2*/samples.jsonl"))) == 0 or len(_read_log(project.folder)) < 8:
        time.sleep(0.005)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    kept = _read_log(project.folder)
    assert 8 <= len(kept) < 80
    (project.folder / "go").touch()
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    lines = _read_log(project.folder)
    assert lines[: len(kept)] == kept, "what was scored before is not scored again"
    report = json.loads(next(project.folder.glob(".evalspec/runs/2*/report.json")).read_text())
    scores = [sample["scores"]["string_match"]["value"] for sample in report["datasets"][0]["samples"]]
    assert scores == [0.0, 1.0] * 20


class TestLog:
    REPLY, SCORES = ReplyRecord("qa", "q-1", 1, None), ScoresRecord("qa", "q-1", 1, {})

    def _lines(self, log):
        return [json.loads(line)["kind"] for line in (log.place / "samples.jsonl").read_text().splitlines()]

    def test_lines_are_written_together(self, tmp_path):
        with RunLog(tmp_path, redact=lambda value: value) as log:
            with log.together():
                log.append(self.REPLY)
                log.append(self.SCORES)
                assert self._lines(log) == []
            assert self._lines(log) == ["reply", "scores"]
            log.append(self.REPLY)
            assert self._lines(log) == ["reply", "scores", "reply"]

    def test_an_error_keeps_what_was_found_before(self, tmp_path):
        with RunLog(tmp_path, redact=lambda value: value) as log:
            with pytest.raises(ZeroDivisionError), log.together():
                log.append(self.REPLY)
                raise ZeroDivisionError
            assert self._lines(log) == ["reply"]

    def test_a_failure_is_told_at_the_end_and_ever_after(self, tmp_path, monkeypatch):
        with RunLog(tmp_path, redact=lambda value: value) as log:

            def fail(_line):
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(log, "_write_whole", fail)
            with pytest.raises(StoreError, match="No space left"), log.together():
                log.append(self.REPLY)
            monkeypatch.undo()
            with pytest.raises(StoreError, match="No space left"):
                log.append(self.REPLY)
            assert self._lines(log) == []
