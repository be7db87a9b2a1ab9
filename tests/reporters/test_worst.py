"""The samples to look at first are those that decide the verdict."""

import pytest

from evalspec.manifest.schema import CiGate
from evalspec.model import Attempt, RegressionOutcome, SampleResult, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.reporters.concerned import find_blamed
from evalspec.reporters.findings import scores_beyond_limits
from evalspec.reporters.rows import read_attempts
from evalspec.reporters.terminal import render_terminal, render_view_terminal
from evalspec.reporters.view.failures import describe_trouble
from evalspec.reporters.view.sample import build_sample_view
from evalspec.reporters.worst import FailedSample, list_worst
from reporters.test_concerned import dataset, judge, sample

LIMIT = Threshold("m", min=0.5)


def attempted(name: str, *values: float) -> SampleResult:
    """A sample with an attempt per value, of which those of at least 0.5 passed."""
    attempts = tuple(
        Attempt(SampleStatus.ANSWERED, scores={"m": Score.scored(value)}, passed=value >= 0.5) for value in values
    )
    passed = sum(value >= 0.5 for value in values) / len(values)
    return sample(name, sum(values) / len(values), attempts=attempts, pass_rate=passed)


def worst_of(run) -> list[list[str]]:
    """The worst samples of each dataset, with what is wrong."""
    found = zip(run.datasets, find_blamed(run), strict=True)
    return [[f"{one.id}: {say(one)}" for one in list_worst(part, blamed)] for part, blamed in found]


def say(one: FailedSample) -> str:
    return "".join(str(getattr(word, "text", word)) for word in describe_trouble(one))


def headline(run, place: int = 0) -> str:
    part = run.datasets[0]
    rows = [row for row in read_attempts(run, lambda: ()) if row.sample.id == part.samples[place].id]
    view = build_sample_view(part, part.samples[place], rows)
    return render_view_terminal(view, width=100, color=False).splitlines()[0]


def test_a_sample_below_the_pass_rate_is_worst_and_is_not_within_its_limits():
    policy = CiGate(minPassRate=1)
    run = judge(dataset("d", [attempted("a", 1, 1, 1), attempted("b", 1, 0, 1)], LIMIT, policy=policy), policy=policy)
    assert run.verdict is VerdictStatus.FAIL
    assert worst_of(run) == [["b: 2 of 3 attempts passed"]]
    assert headline(run, 1).startswith("b  2 of 3 attempts passed")
    assert headline(run, 0).startswith("a  within its limits")


def test_samples_are_innocent_of_a_drop_from_the_baseline():
    drop = RegressionOutcome("d", "rouge", VerdictStatus.FAIL, 0.9, 0.8, -0.1, reason="worse")
    run = judge(dataset("d", [sample("a", 0.4), sample("b", 0.9)], LIMIT), regressions=(drop,))
    assert worst_of(run) == [[]]
    assert "Worst samples" not in render_terminal(run, width=100, color=False)


@pytest.mark.parametrize("missing", [Score.failed("judge down"), Score.skipped("--no-judge")])
def test_an_undecided_limit_lists_the_samples_without_the_score(missing):
    samples = [sample("a", 0.4), sample("b", missing), *(sample(f"c{n}", 0.9) for n in range(2))]
    run = judge(dataset("d", samples, LIMIT))
    assert run.verdict is VerdictStatus.INCOMPLETE
    assert worst_of(run) == [["b: m could not be scored"]]


def test_a_limit_that_was_not_measured_leaves_a_sample_undecided():
    run = judge(dataset("d", [sample("a", Score.skipped("--no-judge"))], LIMIT))
    assert headline(run).startswith("a  not decided")


def test_a_percentile_marks_no_sample():
    part = dataset("d", [sample("a", 0.1), sample("b", 0.9)], Threshold("m", min=0.9, stat="p50"))
    assert part.thresholds[0].status is VerdictStatus.FAIL
    assert not scores_beyond_limits(part)
    assert headline(judge(part)).startswith("a  no limit applies to a single reply")
    assert worst_of(judge(part)) == [["a: m 0.100 is below 0.90"]]
