"""Limits of a run: nothing is spent beyond them, the rest is said, and a higher limit continues."""

import pytest

from cli.test_judge_cache import A_SAMPLE, FOUR, Runs
from servers.scripted_judge import ScriptedJudge, status


@pytest.fixture
def runs(project):
    with ScriptedJudge() as judge:
        yield Runs(project, judge)


def test_x(runs):
    outcome, calls = runs("--max-judge-calls", "12")
    print(outcome.out, outcome.err, calls)
    assert calls == 12
    run = outcome.document["runId"]
    print(outcome.document["judgeUsage"])
    again = runs.project("evaluate", "agent.yaml", "--resume", run, "--max-judge-calls", "100")
    print(again.out, again.err, len(runs.judge.chats))
    assert 0
