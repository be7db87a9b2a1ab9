"""The samples to look at first are those that decide the verdict."""

import pytest

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Attempt, RegressionOutcome, Run, SampleResult, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.model.fingerprints import Fingerprint
from evalspec.reports.affected_samples import find_failure_causes
from evalspec.reports.findings import scores_beyond_limits
from evalspec.reports.rows import read_attempts
from evalspec.reports.terminal import render_terminal, render_view_terminal
from evalspec.reports.view.failures import describe_failure
from evalspec.reports.view.sample import build_sample_view
from evalspec.reports.worst import FailedSample, list_worst
from evalspec.verdict.comparison.baseline import Baseline
from evalspec.verdict.comparison.regression import decide_regressions
from reporters.test_affected_samples import concerned, dataset, judge, sample

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
    found = zip(run.datasets, find_failure_causes(run), strict=True)
    return [[f"{one.id}: {say(one)}" for one in list_worst(part, blamed)] for part, blamed in found]


def say(one: FailedSample) -> str:
    return "".join(str(getattr(word, "text", word)) for word in describe_failure(one))


def headline(run, place: int = 0) -> str:
    part = run.datasets[0]
    rows = [row for row in read_attempts(run, lambda: ()) if row.sample.id == part.samples[place].id]
    view = build_sample_view(run, part, part.samples[place], rows)
    return render_view_terminal(view, width=100, color=False).splitlines()[0]


def test_a_sample_below_the_pass_rate_is_worst_and_is_not_within_its_limits():
    policy = CiGate(min_pass_rate=1)
    run = judge(dataset("d", [attempted("a", 1, 1, 1), attempted("b", 1, 0, 1)], LIMIT, policy=policy), policy=policy)
    assert run.verdict is VerdictStatus.FAIL
    assert worst_of(run) == [["b: 2 of 3 attempts passed"]]
    assert headline(run, 1).startswith("b  2 of 3 attempts passed")
    assert headline(run, 0).startswith("a  within its limits")


def test_samples_rank_the_same_with_and_without_a_gate():
    part = dataset("d", [sample("a", 0.1), sample("b", 0.9), attempted("c", 0.6, 0.3, 0.3)], LIMIT)
    for policy in (CiGate(), CiGate(enabled=False)):
        assert [said.partition(":")[0] for said in worst_of(judge(part, policy=policy))[0]] == ["c", "a"]


WORSE = ["b: m 0.100, 0.800 in the baseline", "a: m 0.700, 0.900 in the baseline"]
BELOW = [f"{name} is below 0.90" for name in ("new: m 0.000", "b: m 0.100", "c: m 0.600", "a: m 0.700")]


@pytest.mark.parametrize(("limits", "worst"), [((), WORSE), ((0.05,), WORSE), ((0.9,), BELOW)])
def test_a_drop_from_the_baseline_lists_the_samples_that_got_worse(limits, worst):
    policy = CiGate(baseline="main", max_drop={"m": 0.1}, alpha=None, max_not_applicable=1)
    before = [sample(name, value) for name, value in (("a", 0.9), ("b", 0.8), ("c", 0.5), ("gone", 1.0))]
    after = [sample(name, value) for name, value in (("a", 0.7), ("b", 0.1), ("c", 0.6), ("new", 0.0))]
    part = dataset("d", after, *(Threshold("m", min=limit) for limit in limits))
    found = decide_regressions(
        Baseline(Run(id="main", datasets=(dataset("d", before),))), [part], policy, Fingerprint()
    )
    assert [(one.status, one.worsened) for one in found] == [(VerdictStatus.FAIL, {"a": 0.9, "b": 0.8})]
    run = judge(part, policy=policy, regressions=found)
    reasons = dict(zip(run.reasons, concerned(run), strict=True))
    assert reasons[next(one for one in reasons if "against the baseline" in one)] == ("d", ["b", "a"])
    assert worst_of(run) == [worst]
    said = ["m was 0.900 in the baseline" in headline(run, 0), "baseline" in headline(run, 2)]
    assert said == [True, False]
    assert "no limit applies" not in headline(run, 0)


def test_a_drop_that_lacks_scores_does_not_blame_the_samples_that_have_them():
    policy = CiGate(baseline="main", max_drop={"m": 0.1}, alpha=None, max_not_applicable=0)
    before, after = dataset("d", [sample("a", 0.9), sample("b", 0.8)]), dataset("d", [sample("a", 0.85)])
    (found,) = decide_regressions(Baseline(Run(id="main", datasets=(before,))), [after], policy, Fingerprint())
    assert (found.status, found.worsened) == (VerdictStatus.INCOMPLETE, {})


def test_a_sample_with_more_attempts_got_worse_only_if_its_shown_values_say_so():
    policy = CiGate(baseline="main", max_drop={"m": 0.1}, alpha=None)
    before = dataset("d", [sample("a", 0.5), sample("b", 0.9)])
    after = dataset("d", [attempted("a", 0.0, 1.0, 1.0), attempted("b", 0.2, 0.5, 0.5)])
    (found,) = decide_regressions(Baseline(Run(id="main", datasets=(before,))), [after], policy, Fingerprint())
    assert (found.status, found.worsened) == (VerdictStatus.FAIL, {"b": 0.9})
    later = dataset("d", [sample("a", 0.0), sample("b", 0.1)])
    (found,) = decide_regressions(Baseline(Run(id="main", datasets=(after,))), [later], policy, Fingerprint())
    assert found.worsened == {"a": pytest.approx(2 / 3), "b": pytest.approx(0.4)}


def test_a_drop_within_its_limit_lists_no_samples():
    policy = CiGate(baseline="main", max_drop={"m": 0.9}, alpha=None)
    before, after = (dataset("d", [sample("a", value)]) for value in (0.9, 0.7))
    (found,) = decide_regressions(Baseline(Run(id="main", datasets=(before,))), [after], policy, Fingerprint())
    assert (found.status, found.worsened) == (VerdictStatus.PASS, {})


def test_a_drop_without_known_samples_blames_none():
    drop = RegressionOutcome("d", "rouge", VerdictStatus.FAIL, 0.9, 0.8, -0.1, reason="worse")
    run = judge(dataset("d", [sample("a", 0.4), sample("b", 0.9)], LIMIT), regressions=(drop,))
    assert worst_of(run) == [[]]
    assert "Worst samples" not in render_terminal(run, width=100, color=False)


@pytest.mark.parametrize("missing", [Score.failed("judge down"), Score.skipped("--no-judge")])
def test_an_undecided_limit_lists_the_samples_without_the_score(missing):
    samples = [sample("a", 0.4), sample("b", missing), sample("c", 0.9)]
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
