"""The samples behind the reasons that the gate gives."""

import pytest
from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Cause, DatasetResult, Direction, Run, SampleResult, SampleStatus, Score, Threshold
from evalspec.reports.affected_samples import find_affected
from evalspec.verdict.comparison.new_failures import decide_new_failures
from evalspec.verdict.gate import compute_outcome, compute_verdict
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import summarise

GATE = CiGate()
MEAN = MetricOutline("m", "mean", Direction.HIGHER, (0.0, 1.0))


def sample(name: str, value: float | Score, **fields) -> SampleResult:
    score = value if isinstance(value, Score) else Score.scored(value)
    return SampleResult(id=name, status=fields.pop("status", SampleStatus.ANSWERED), scores={"m": score}, **fields)


def dataset(name: str, samples, *limits: Threshold, policy: CiGate = GATE) -> DatasetResult:
    outcomes = tuple(compute_outcome(limit, MEAN, samples, policy) for limit in limits)
    return DatasetResult(name=name, samples=tuple(samples), metrics=summarise(samples, [MEAN]), thresholds=outcomes)


def judge(*datasets: DatasetResult, policy: CiGate = GATE, regressions=()) -> Run:
    found = compute_verdict(datasets, policy, partial=False, regressions=regressions)
    return Run(id="r", verdict=found.status, reasons=found.reasons, datasets=datasets, regressions=regressions)


def concerned(run: Run) -> list:
    """The dataset and the samples behind each reason."""
    return [
        one and (run.datasets[one.dataset].name, [run.datasets[one.dataset].samples[place].id for place in one.places])
        for one in find_affected(run)
    ]


def test_a_broken_limit_concerns_the_samples_beyond_it_in_its_dataset_and_slice():
    samples = [sample("a", 0.4, tags=("x",)), sample("b", 0.1), sample("c", 0.9), sample("d", 0.3, tags=("x",))]
    fine = [sample("a", 0.9)]
    run = judge(
        dataset("one", fine, Threshold("m", min=0.5)),
        dataset("one: two", samples, Threshold("m", min=0.5), Threshold("m", min=0.5, slice="x")),
    )
    assert concerned(run) == [("one: two", ["b", "d", "a"]), ("one: two", ["d", "a"])]


def test_an_undecided_limit_concerns_the_samples_without_a_value():
    samples = [sample("a", 0.9), sample("b", Score.failed("judge down")), sample("c", 0.2)]
    samples.append(sample("none", Score.not_applicable("no expected answer", Cause.OTHER)))
    assert concerned(judge(dataset("d", samples, Threshold("m", min=0.5)))) == [("d", ["b"])]


def test_what_is_undecided_beside_a_failure_is_marked_and_still_concerns_its_samples():
    fails = dataset("one", [sample("a", 0.4)], Threshold("m", min=0.5))
    run = judge(fails, dataset("two", [sample("b", Score.failed("judge down"))], Threshold("m", min=0.5)))
    assert [reason.startswith("undecided: two: m: ") for reason in run.reasons] == [False, True]
    assert concerned(run) == [("one", ["a"]), ("two", ["b"])]


def test_pass_rates_and_missing_replies_concern_all_of_their_samples_though_few_are_named():
    policy = CiGate(min_pass_rate=0.5, max_error_rate=0.1)
    samples = [sample(f"s-{number}", 0.9, pass_rate=0.25) for number in range(7)]
    samples.append(sample("gone", Score.failed("no reply"), status=SampleStatus.FAILED, pass_rate=1.0))
    run = judge(dataset("d", samples, Threshold("m", min=0.5), policy=policy), policy=policy)
    below = [reason for reason in run.reasons if "minPassRate" in reason]
    assert "…" in below[0]
    found = dict(zip(run.reasons, concerned(run), strict=True))
    assert found[below[0]] == ("d", [f"s-{number}" for number in range(7)])
    assert found[next(reason for reason in run.reasons if "maxErrorRate" in reason)] == ("d", ["gone"])


@pytest.mark.parametrize("ids", [["a, b", "a", "b (0.5)"], ["x)", "(", ", …"], [f"q{number}" for number in range(9)]])
def test_new_failures_are_found_by_their_names(ids):
    policy = CiGate(baseline="main", new_failures=0, alpha=None)
    limit = Threshold("m", min=0.5)
    before, after = (dataset("d", [sample(id, value) for id in ids], limit) for value in (0.9, 0.1))
    found = decide_new_failures(before, after, policy)
    run = judge(replace(after, thresholds=()), policy=policy, regressions=(found,))
    (one,) = find_affected(run)
    assert concerned(run) == [("d", ids[:5])]
    assert one.complete is (len(ids) <= 5)


def test_other_reasons_concern_no_samples():
    run = judge(dataset("d", [sample("a", 0.9)], Threshold("m", min=0.5)))
    other = replace(run, reasons=("ciGate is off", "d: m against the baseline: 0.9 → 0.8: worse", "e: m: 1 sample (a)"))
    assert concerned(other) == [None, None, None]
