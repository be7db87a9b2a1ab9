"""Limits of a run: nothing is spent beyond them, the rest is said, and a higher limit continues."""

import pytest

from cli.test_judge_cache import A_SAMPLE, FOUR, Runs
from servers.scripted_judge import ScriptedJudge, status


@pytest.fixture
def runs(project):
    with ScriptedJudge() as judge:
        yield Runs(project, judge)


def test_x(runs):
    log = []
    outcome, calls = runs("--max-judge-calls", "12")
    log += (outcome.code, outcome.document["notes"], outcome.document["verdict"], outcome.err, calls)
    runs.change("ciGate: false", "thresholds: {faithfulness: 0.9}\n    ciGate: true")
    runs.judge.script = []
    outcome, calls = runs("--fail-fast", count=40, changed=1)
    log += (outcome.code, outcome.document["reasons"], outcome.document["notes"], outcome.err, calls)
    log += [
        (
            {
                n: (s["scored"], s["skipped"], s["noInterval"])
                for n, s in outcome.document["datasets"][0]["metrics"].items()
            }
        )
    ]
    outcome, calls = runs("--max-judge-calls", "60", count=40, changed=1)
    log += (outcome.code, outcome.document["reasons"], outcome.document["notes"], outcome.err, calls)
    for x in log:
        print(x)
    assert 0
