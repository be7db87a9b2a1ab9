"""Limits of a run: nothing is spent beyond them, the rest is said, and a higher limit continues."""

import json

import pytest

from cli.test_judge_cache import A_SAMPLE, FOUR, Runs
from servers.scripted_judge import ScriptedJudge, status


@pytest.fixture
def runs(project):
    with ScriptedJudge() as judge:
        yield Runs(project, judge)


def test_x(runs, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    log=[]
    log.append(runs.project("plan", "agent.yaml").out) if 0 else None
    from cli.test_judge_cache import write
    write(runs.project.folder, 12)
    log.append(runs.project("plan", "agent.yaml").out)
    runs.change("model: scripted,", "model: scripted, price: {input: 2.5, output: 10, cached: 1},")
    log.append(runs.project("plan", "agent.yaml").out)
    outcome, calls = runs(count=10)
    log.append(runs.project("report").out)
    write(runs.project.folder, 12)
    log.append(runs.project("plan", "agent.yaml").out)
    log.append(json.dumps(runs.project("plan", "agent.yaml", "--json").document["datasets"][0]["judge"], indent=1)[:1500])
    for x in log: print(x)
    assert 0
