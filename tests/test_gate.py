import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.gate import compute_outcome, compute_verdict
from evalspec.manifest.schema import CiGate
from evalspec.outline import MetricOutline
from evalspec.records import (
    DatasetResult,
    Direction,
    SampleResult,
    SampleStatus,
    Score,
    Threshold,
    ThresholdOutcome,
    VerdictStatus,
)
from evalspec.summary import in_slice

PASS, FAIL, INCOMPLETE, NOT_GATED = (VerdictStatus(name) for name in ("PASS", "FAIL", "INCOMPLETE", "NOT_GATED"))


def outline(statistic, bounds):
    return MetricOutline("m", statistic, Direction.HIGHER, bounds)


MEAN01 = outline("mean", (0.0, 1.0))
STRICT = CiGate()
FAILED, SKIPPED, NOT_APPLICABLE = Score.failed("judge down"), Score.skipped("no judge"), Score.not_applicable("no docs")


def result(score, name="s", *, tags=(), metadata=None):
    score = score if isinstance(score, Score) else Score.scored(score)
    return SampleResult(name, SampleStatus.ANSWERED, tags, metadata or {}, scores={"m": score})


def decide(scores, *, policy=STRICT, metric=MEAN01, **limit):
    return compute_outcome(Threshold("m", **limit), metric, [result(score) for score in scores], policy)


@pytest.mark.parametrize(
    ("scores", "limit", "status"),
    [
        ([1.0, 0.6], {"min": 0.8}, PASS),
        ([0.8] * 7, {"min": 0.8}, PASS),
        ([0.1 + 0.2], {"max": 0.3}, PASS),
        ([1.0, 0.5], {"min": 0.8}, FAIL),
        ([0.1, 0.3], {"max": 0.1}, FAIL),
        ([], {"min": 0.0}, INCOMPLETE),
        ([FAILED, FAILED], {"min": 0.0}, INCOMPLETE),
        ([NOT_APPLICABLE], {"min": 0.0}, INCOMPLETE),
        ([1.0, NOT_APPLICABLE], {"min": 0.9}, PASS),
        ([1.0, FAILED], {"min": 0.1}, INCOMPLETE),
        ([0.0, 0.0, FAILED], {"min": 0.9}, FAIL),
        ([0.5, FAILED], {"min": 0.7}, INCOMPLETE),
        ([1.0, 1.0, FAILED], {"max": 0.5}, FAIL),
        ([SKIPPED, SKIPPED], {"min": 0.9}, NOT_GATED),
        ([0.0, 1.0, 1.0], {"min": 0.9, "stat": "median"}, PASS),
        ([0.0, 1.0, 1.0], {"min": 0.9, "stat": "min"}, FAIL),
    ],
)
def test_one_limit(scores, limit, status):
    assert decide(scores, **limit).status is status


def test_missing_scores_can_always_save_a_metric_without_bounds():
    unbounded = outline("mean", (None, None))
    assert decide([0.0, FAILED], metric=unbounded, min=0.9).status is INCOMPLETE
    assert decide([0.0, 0.0], metric=unbounded, min=0.9).status is FAIL


def test_latency_fails_on_its_own_percentile_in_spite_of_missing_ones():
    p95 = outline("p95", (0.0, None))
    assert decide([3000.0] * 50 + [FAILED], metric=p95, max=2000).status is FAIL
    assert decide([100.0] * 50 + [3000.0, 3000.0, 3000.0, FAILED], metric=p95, max=2000).status is INCOMPLETE


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (CiGate(min_coverage=0.5), PASS),
        (CiGate(min_coverage=0.51), INCOMPLETE),
        (CiGate(min_coverage=0.5, min_samples=2), INCOMPLETE),
    ],
)
def test_policy(policy, status):
    assert decide([1.0, FAILED], policy=policy, min=0.5).status is status


def test_reasons_name_the_number():
    assert decide([0.5], min=0.8).reason == "0.5 is below 0.8"
    assert decide([1.0, FAILED], min=0.5).reason == "1 of 2 scored (1 failed), minCoverage is 1"
    assert decide([FAILED], min=0.5).reason == "nothing was scored (1 failed)"


@pytest.mark.parametrize(
    ("name", "member"),
    [
        (None, True),
        ("x", True),
        ("y", False),
        ("level=1", True),
        ("level=2", False),
        ("none=1", False),
        ("level", False),
    ],
)
def test_slices(name, member):
    assert in_slice(result(1.0, tags=("x",), metadata={"level": 1}), name) is member


def test_a_sliced_limit_looks_at_its_slice_only():
    samples = [result(1.0, tags=("x",)), result(0.0)]
    assert compute_outcome(Threshold("m", min=0.9, slice="x"), MEAN01, samples, STRICT).status is PASS
    assert compute_outcome(Threshold("m", min=0.9), MEAN01, samples, STRICT).status is FAIL
    assert compute_outcome(Threshold("m", min=0.9, slice="y"), MEAN01, samples, STRICT).status is INCOMPLETE


def dataset(*statuses, failed=0, answered=1):
    samples = [result(1.0)] * answered + [SampleResult("f", SampleStatus.FAILED, error="gone")] * failed
    outcomes = tuple(ThresholdOutcome(Threshold("m", min=0.5), s, 0.5, 1, 1, "why") for s in statuses)
    return DatasetResult("d", {}, tuple(samples), {}, outcomes)


@pytest.mark.parametrize(
    ("datasets", "policy", "status", "partial"),
    [
        ([dataset(PASS, PASS)], STRICT, PASS, False),
        ([dataset(PASS, FAIL)], STRICT, FAIL, False),
        ([dataset(PASS), dataset(FAIL), dataset(INCOMPLETE)], STRICT, FAIL, False),
        ([dataset(PASS), dataset(INCOMPLETE)], STRICT, INCOMPLETE, False),
        ([dataset(PASS, NOT_GATED)], STRICT, PASS, True),
        ([dataset(NOT_GATED)], STRICT, INCOMPLETE, True),
        ([dataset()], STRICT, NOT_GATED, False),
        ([dataset(PASS, failed=1)], STRICT, INCOMPLETE, False),
        ([dataset(PASS, failed=1)], CiGate(max_error_rate=0.5), PASS, False),
        ([dataset(FAIL)], CiGate(enabled=False), NOT_GATED, False),
    ],
)
def test_verdict(datasets, policy, status, partial):
    verdict = compute_verdict(datasets, policy, partial=False)
    assert (verdict.status, verdict.partial) == (status, partial)
    assert bool(verdict.reasons) == (status is not PASS)


scores = st.lists(st.floats(0, 1).map(Score.scored) | st.sampled_from([FAILED, NOT_APPLICABLE, SKIPPED]), max_size=12)


@given(scores, st.floats(0, 1), st.data())
def test_a_decision_survives_whatever_the_missing_scores_turn_out_to_be(given_scores, limit, data):
    """FAIL and PASS are final: no values in the place of failed and skipped scores change them."""
    first = decide(given_scores, min=limit)
    missing = (FAILED, SKIPPED)
    completed = [Score.scored(data.draw(st.floats(0, 1))) if score in missing else score for score in given_scores]
    if first.status in (PASS, FAIL):
        assert decide(completed, min=limit).status is first.status


@given(scores, st.floats(0, 1))
def test_pass_means_enough_was_scored_and_the_value_is_within(given_scores, limit):
    outcome = decide(given_scores, min=limit)
    if outcome.status is PASS:
        assert outcome.scored == outcome.expected > 0
        assert outcome.value >= limit - 1e-6
