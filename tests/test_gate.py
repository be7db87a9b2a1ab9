import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import binomtest

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    Attempt,
    Cause,
    DatasetResult,
    Direction,
    RegressionOutcome,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Threshold,
    VerdictStatus,
)
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.gate import compute_outcome, compute_verdict, doubt_lost
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import compute_summary, in_slice
from evalspec.verdict.validity.coverage import LostSamples

PASS, FAIL, INCOMPLETE, NOT_GATED = (VerdictStatus(name) for name in ("PASS", "FAIL", "INCOMPLETE", "NOT_GATED"))


def outline(statistic, bounds):
    return MetricOutline("m", statistic, Direction.HIGHER, bounds)


MEAN01 = MetricOutline("m", "mean", Direction.HIGHER, (0.0, 1.0))
STRICT = CiGate()
FAILED, SKIPPED = Score.failed("judge down"), Score.skipped("no judge")
NOT_APPLICABLE, RETURNED_NONE = (Score.not_applicable("none", cause) for cause in (Cause.DATASET, Cause.OTHER))
EMPTY, UNSTATED = Score.not_applicable("empty", Cause.REPLY), Score.not_applicable("no statement", Cause.JUDGE)


def result(score, name="s", *, tags=(), metadata=None):
    score = score if isinstance(score, Score) else Score.scored(score)
    return SampleResult(id=name, status=SampleStatus.ANSWERED, tags=tags, metadata=metadata or {}, scores={"m": score})


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
        ([1.0] + [NOT_APPLICABLE, RETURNED_NONE] * 9, {"min": 0.9}, PASS),
        ([1.0, EMPTY], {"min": 0.9}, PASS),
        ([1.0, UNSTATED], {"min": 0.9}, PASS),
        ([1.0, EMPTY, UNSTATED], {"min": 0.9}, INCOMPLETE),
        ([1.0] * 18 + [EMPTY, UNSTATED], {"min": 0.9}, PASS),
        ([1.0] * 17 + [EMPTY, EMPTY, UNSTATED], {"min": 0.9}, INCOMPLETE),
        ([1.0] * 17 + [FAILED, EMPTY, UNSTATED], {"min": 0.5}, PASS),
        ([1.0] * 17 + [FAILED, EMPTY, UNSTATED], {"min": 0.95}, INCOMPLETE),
        ([EMPTY], {"min": 0.0}, INCOMPLETE),
        ([0.0, EMPTY], {"min": 0.4}, FAIL),
        ([0.0, EMPTY, UNSTATED], {"min": 0.9}, FAIL),
        ([0.0, EMPTY, UNSTATED], {"min": 0.6}, INCOMPLETE),
        ([1.0, EMPTY, EMPTY], {"max": 0.3}, FAIL),
        ([1.0, EMPTY, EMPTY], {"max": 0.4}, INCOMPLETE),
        ([1.0, FAILED], {"min": 0.1}, PASS),
        ([1.0, FAILED], {"min": 0.51}, INCOMPLETE),
        ([1.0] * 97 + [FAILED] * 3, {"min": 0.8}, PASS),
        ([1.0] * 97 + [FAILED] * 3, {"min": 0.9, "max": 0.98}, INCOMPLETE),
        ([1.0] * 97 + [FAILED] * 3, {"min": 0.8, "confidence": 0.95}, PASS),
        ([1.0] * 97 + [FAILED] * 3, {"min": 0.92, "confidence": 0.95}, INCOMPLETE),
        ([0.0] * 50 + [FAILED], {"min": 0.8, "confidence": 0.95}, FAIL),
        ([0.0, 1.0, 1.0, FAILED], {"min": 0.0, "stat": "min"}, PASS),
        ([0.0, 0.0, FAILED], {"min": 0.9}, FAIL),
        ([0.5, FAILED], {"min": 0.7}, INCOMPLETE),
        ([1.0, 1.0, FAILED], {"max": 0.5}, FAIL),
        ([0.0, FAILED], {"min": 0.4, "max": 1.0}, INCOMPLETE),
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
    assert decide([100.0] * 97 + [FAILED] * 3, metric=p95, max=2000).status is PASS
    assert decide([100.0] * 93 + [FAILED] * 7, metric=p95, max=2000).status is INCOMPLETE
    confident = decide([100.0] * 97 + [FAILED] * 3, metric=p95, max=2000, confidence=0.95)
    assert (confident.status, confident.bound) == (INCOMPLETE, None)


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (CiGate(min_coverage=0.5), PASS),
        (CiGate(min_coverage=0.51), INCOMPLETE),
        (CiGate(min_coverage=0.5, min_samples=2), INCOMPLETE),
        (CiGate(), PASS),
        (CiGate(min_coverage=1.0), INCOMPLETE),
    ],
)
def test_a_stated_policy_holds_even_where_the_missing_scores_could_not_break_the_limit(policy, status):
    assert decide([1.0, FAILED], policy=policy, min=0.5).status is status


@pytest.mark.parametrize(("policy", "status"), [({}, PASS), ({"max_not_applicable": 0.1}, INCOMPLETE)])
def test_a_default_share_of_not_applicable_yields_to_certainty_and_a_stated_one_does_not(policy, status):
    scores = [1.0, FAILED, EMPTY, EMPTY]
    assert decide(scores, policy=CiGate(min_coverage=0.5, **policy), min=0.25).status is status


P95 = outline("p95", (0.0, None))
LOST = LostSamples(removed=(result(1.0, "gone"),))


@pytest.mark.parametrize(
    ("metric", "scores", "limit", "lost", "status"),
    [
        (MEAN01, [1.0, 1.0], {"min": 0.9}, LOST, INCOMPLETE),
        (MEAN01, [1.0, 1.0], {"min": 0.5}, LOST, PASS),
        (MEAN01, [1.0, 1.0], {"min": 0.9}, LostSamples(), PASS),
        (MEAN01, [0.5, 0.5], {"min": 0.9}, LOST, FAIL),
        (MEAN01, [0.0, 0.0], {"max": 0.1}, LOST, INCOMPLETE),
        (outline("mean", (None, None)), [1.0, 1.0], {"min": 0.9}, LOST, PASS),
        (P95, [100.0, 100.0], {"max": 2000}, LOST, INCOMPLETE),
        (P95, [100.0, 100.0], {"max": 2000, "stat": "mean"}, LOST, PASS),
    ],
)
def test_lost_samples_leave_a_limit_open_that_they_could_break(metric, scores, limit, lost, status):
    """But for the mean of a metric without a range, which any sample could break."""
    samples = [result(score) for score in scores]
    outcome = compute_outcome(Threshold("m", **limit), metric, samples, STRICT)
    assert doubt_lost(outcome, metric, samples, lost, STRICT, None).status is status


def test_with_confidence_missing_scores_count_as_the_worst():
    allowed = CiGate(min_coverage=0.9)
    assert decide([1.0] * 97 + [FAILED] * 3, policy=allowed, min=0.92).status is PASS
    doubted = decide([1.0] * 97 + [FAILED] * 3, policy=allowed, min=0.92, confidence=0.95)
    worst = binomtest(97, 100).proportion_ci(0.95, "exact").low
    assert (doubted.status, doubted.bound) == (INCOMPLETE, pytest.approx(worst))
    assert "but the 3 missing could change it" in doubted.reason


def test_too_few_samples_break_no_limit():
    few = decide([0.0], policy=CiGate(min_samples=2), min=0.5)
    assert (few.status, few.reason) == (INCOMPLETE, "1 scored, minSamples is 2")
    assert decide([0.0, 0.0], policy=CiGate(min_samples=2), min=0.5).status is FAIL


@pytest.mark.parametrize(
    ("scores", "share", "status"), [((EMPTY,), 0, INCOMPLETE), ((EMPTY,), 0.01, PASS), ((), 0, PASS)]
)
def test_one_sample_is_allowed_unless_none_is(scores, share, status):
    assert decide([1.0, *scores], policy=CiGate(max_not_applicable=share), min=0.5).status is status


def test_reasons_name_the_number():
    assert decide([0.5], min=0.8).reason == "0.5 is below 0.8"
    assert decide([1.0, FAILED], min=0.6).reason == "1 of 2 scored (1 failed), minCoverage is 1"
    assert decide([FAILED], min=0.5).reason == "nothing was scored (1 failed)"
    assert decide([FAILED, EMPTY], min=0.5).reason == "nothing was scored (1 failed, 1 not applicable: empty (1))"
    assert decide([EMPTY, EMPTY], min=0.5).reason == "nothing was scored (2 not applicable: empty (2))"
    assert decide([], min=0.5).reason == "nothing was scored (it applies to no sample)"
    assert decide([NOT_APPLICABLE, SKIPPED], min=0.5).reason == "no judge"
    assert decide([1.0, EMPTY, UNSTATED, EMPTY], min=0.5).reason == (
        "3 of 4 not applicable: empty (2), no statement (1): s; maxNotApplicable is 0.1"
    )
    assert decide([1.0, FAILED, EMPTY, EMPTY], min=0.5).reason == (
        "1 of 2 scored (1 failed), minCoverage is 1; 2 of 4 not applicable: empty (2): s; maxNotApplicable is 0.1"
    )


def test_what_is_broken_is_named_only_where_enough_was_scored():
    assert decide([0.5, FAILED], min=0.7).reason == "1 of 2 scored (1 failed), minCoverage is 1"
    enough = decide([0.5, FAILED], policy=CiGate(min_coverage=0.5), min=0.7)
    assert enough.reason == "0.5 is below 0.7, but the 1 missing could change it"


def test_three_reasons_are_named_and_the_others_counted():
    """A stored score may have no reason; its cause is named instead."""
    lost = [Score(ScoreStatus.NOT_APPLICABLE, cause=cause) for cause in (Cause.REPLY, Cause.DATASET, None)]
    assert decide([lost[0], lost[1], lost[0], lost[2]], min=0.5).reason == (
        "nothing was scored (4 not applicable: by the reply (2), by the dataset (1), by other causes (1))"
    )
    named = [Score.not_applicable(f"r{min(n, 4)}", Cause.JUDGE) for n in range(6)]
    assert decide([1.0, *named], min=0.5).reason == (
        "6 of 7 not applicable: r4 (2), r0 (1), r1 (1) and 2 other reasons: s; maxNotApplicable is 0.1"
    )


def test_a_limit_counts_what_is_not_applicable_by_cause_and_in_its_own_slice():
    samples = [result(1.0, tags=("x",)), *[result(EMPTY, tags=("x",))] * 2, *[result(1.0)] * 30, result(NOT_APPLICABLE)]
    whole = compute_outcome(Threshold("m", min=0.9), MEAN01, samples, STRICT)
    part = compute_outcome(Threshold("m", min=0.9, slice="x"), MEAN01, samples, STRICT)
    assert (whole.status, whole.not_applicable_causes) == (PASS, {Cause.DATASET: 1, Cause.REPLY: 2})
    assert (part.status, part.not_applicable_causes) == (INCOMPLETE, {Cause.REPLY: 2})


def asked_often(*scores):
    attempts = [Attempt(SampleStatus.ANSWERED, scores=result(score).scores) for score in scores]
    return combine_attempts(Sample("s", "q"), attempts, ())


@pytest.mark.parametrize("stat", ["mean", "min"])
def test_of_repeats_each_attempt_counts(stat):
    """A sample whose attempts are empty but for one has a score all the same."""
    mostly_empty, full = asked_often(1.0, EMPTY, EMPTY, EMPTY), asked_often(1.0, 1.0, 1.0, 1.0)

    def of(*samples, low=0.9):
        return compute_outcome(Threshold("m", min=low, stat=stat), MEAN01, samples, STRICT)

    for allowed in ((mostly_empty,), (mostly_empty, full)):
        assert of(*allowed).status is PASS, "the attempts of one sample are allowed"
    half = of(mostly_empty, mostly_empty, full)
    assert half.status is INCOMPLETE
    assert half.reason == "6 of 12 not applicable: empty (6): s; maxNotApplicable is 0.1"
    one_low = [asked_often(0.0, EMPTY, EMPTY, EMPTY)] * 2
    assert of(*one_low, full).status is (FAIL if stat == "min" else INCOMPLETE), "the empty ones could have been 1"
    assert of(*one_low, *[asked_often(0.0, 0.0, 0.0, 0.0)] * 3).status is FAIL


def test_a_score_of_several_attempts_says_which_lack_evidence():
    some = asked_often(0.5, EMPTY).scores["m"]
    assert (some.value, some.cause) == (0.5, Cause.REPLY)
    assert some.reason == "mean of 0.5; 1 of 2 attempts: empty"
    assert asked_often(NOT_APPLICABLE, UNSTATED).scores["m"] == UNSTATED
    whole = asked_often(0.5, 1.0, NOT_APPLICABLE).scores["m"]
    assert (whole.reason, whole.cause) == ("mean of 0.5, 1", None)


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
    samples = [result(1.0)] * answered + [SampleResult(id="f", status=SampleStatus.FAILED, error="gone")] * failed
    outcomes = tuple(Threshold("m", min=0.5, status=s, value=0.5, scored=1, expected=1, reason="why") for s in statuses)
    return DatasetResult(name="d", samples=tuple(samples), metrics={}, thresholds=outcomes)


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
        ([dataset(PASS, failed=1)], STRICT, PASS, False),
        ([dataset(PASS, NOT_GATED, failed=1)], STRICT, PASS, True),
        ([dataset(failed=1), dataset(PASS)], STRICT, INCOMPLETE, False),
        ([dataset(PASS, failed=1)], CiGate(max_error_rate=0.0), INCOMPLETE, False),
        ([dataset(PASS, failed=1)], CiGate(max_error_rate=0.5), PASS, False),
        ([dataset(FAIL)], CiGate(enabled=False), NOT_GATED, False),
    ],
)
def test_verdict(datasets, policy, status, partial):
    verdict = compute_verdict(datasets, policy, partial=False)
    assert (verdict.status, verdict.partial) == (status, partial)
    assert bool(verdict.reasons) == (status is not PASS)
    assert compute_verdict(datasets, policy, partial=True).partial


REGRESSION = RegressionOutcome("d", "m", FAIL, 0.9, 0.5, reason="worse")


def test_a_verdict_is_the_worst_of_limits_and_regressions_and_names_each():
    def judge(*regressions, of=None):
        return compute_verdict([of or dataset()], STRICT, partial=False, regressions=regressions)

    new_failures = RegressionOutcome("d", None, INCOMPLETE, reason="3 new failures")
    failed = judge(new_failures, REGRESSION, of=dataset(PASS))
    assert (failed.status, failed.reasons) == (
        FAIL,
        ("d: m against the baseline: 0.9 → 0.5: worse", "undecided: d: against the baseline: 3 new failures"),
    )
    assert judge(replace(REGRESSION, baseline=None)).reasons == ("d: m against the baseline: worse",)
    unmeasured = replace(REGRESSION, status=VerdictStatus.INCOMPLETE, baseline=None, reason="too few samples")
    assert judge(unmeasured, of=None).reasons == ("d: m against the baseline: too few samples",)
    others = (replace(unmeasured, metric="n"), replace(REGRESSION, metric="o"))
    assert judge(unmeasured, *others).reasons[:2].count("undecided: d: m, n against the baseline: too few samples") == 1
    nowhere = replace(unmeasured, dataset="", reason="there is no baseline")
    assert judge(nowhere).reasons == ("there is no baseline",)
    assert judge(replace(REGRESSION, status=PASS)).status is PASS, "a regression gate alone is a gate"
    skipped = replace(REGRESSION, status=NOT_GATED, reason="skipped")
    assert (judge(skipped).status, judge(skipped, of=dataset(PASS)).status) == (INCOMPLETE, PASS)
    assert judge(skipped).reasons[0] == "no threshold could be checked"
    assert judge(replace(REGRESSION, status=PASS), of=dataset(NOT_GATED)).status is PASS


def test_a_reason_names_the_statistic_and_the_slice():
    outcomes = tuple(
        replace(limit, status=FAIL, value=0.4, scored=1, expected=1, reason="low")
        for limit in (Threshold("m", min=0.5), Threshold("m", min=0.5, slice="x", stat="median"))
    )
    verdict = compute_verdict([replace(dataset(), thresholds=outcomes)], STRICT, partial=False)
    assert verdict.reasons == ("d: m: low", "d: m median [x]: low")


def pass_rates(*rates, limit=None, policy=None, status=PASS):
    """What minPassRate 0.5 says of samples with those shares of passed attempts."""
    samples = tuple(replace(result(1.0, f"s{n}"), pass_rate=rate) for n, rate in enumerate(rates))
    outcome = replace(limit or Threshold("m", min=0.0), status=status, value=1.0, scored=1, expected=1, reason="why")
    summary = compute_summary([], "mean", Direction.HIGHER)
    given_dataset = DatasetResult(name="d", samples=samples, metrics={"m": summary}, thresholds=(outcome,))
    return compute_verdict([given_dataset], policy or CiGate(min_pass_rate=0.5), partial=False)


def test_the_floor_under_each_sample():
    assert pass_rates(0.5, 1.0).status is PASS
    low = pass_rates(0.25, 0.5, None)
    assert (low.status, low.reasons) == (
        FAIL,
        ("d: 1 sample (s0 (0.25)) below minPassRate 0.5", "undecided: d: 1 sample (s2) with undecided attempts"),
    )
    assert pass_rates(None).status is INCOMPLETE
    assert pass_rates(*[0.0] * 5).reasons == (
        "d: 5 samples (s0 (0), s1 (0), s2 (0), s3 (0), s4 (0)) below minPassRate 0.5",
    )
    assert "s4 (0), …) below" in pass_rates(*[0.0] * 6).reasons[0]
    assert pass_rates(0.0, policy=STRICT).status is PASS


@pytest.mark.parametrize("given_limit", [{"slice": "x"}, {"stat": "p50"}, {"status": NOT_GATED}])
def test_a_sample_under_no_limit_has_no_known_pass_rate(given_limit):
    status = given_limit.get("status", PASS)
    limit = Threshold("m", min=0.0, slice=given_limit.get("slice"), stat=given_limit.get("stat"))
    verdict = pass_rates(0.0, limit=limit, status=status)
    assert verdict.status is INCOMPLETE
    assert "d: 1 sample (s0 (0)) without a limit for minPassRate to check" in verdict.reasons


def test_the_error_rate_counts_attempts():
    failing = compute_verdict([dataset(PASS, failed=1)], CiGate(max_error_rate=0.0), partial=False)
    assert failing.reasons == ("d: 1 of 2 samples have no usable reply, maxErrorRate is 0",)
    attempts = [Attempt(status, scores={"m": FAILED}) for status in (SampleStatus.FAILED, SampleStatus.ANSWERED)]
    repeated = replace(dataset(PASS), samples=(combine_attempts(Sample("s", "q"), attempts, ()), result(1.0)))
    reasons = compute_verdict([repeated], CiGate(max_error_rate=0.0), partial=False).reasons
    assert reasons == ("d: 1 of 3 attempts have no usable reply, maxErrorRate is 0",)
    assert compute_verdict([replace(dataset(PASS), samples=())], STRICT, partial=False).status is PASS


anything = st.floats(0, 1).map(Score.scored) | st.sampled_from(
    [FAILED, SKIPPED, NOT_APPLICABLE, RETURNED_NONE, EMPTY, UNSTATED]
)


@given(st.lists(anything, max_size=30), st.floats(0, 1), st.integers(0, 20), st.floats(0, 1))
def test_the_share_of_what_is_not_applicable(given_scores, limit, twentieths, filler):
    """What the dataset or a scorer leaves out never counts; what reply or judge do up to the share."""
    share = CiGate(max_not_applicable=twentieths / 20, min_coverage=0.0)
    found = decide(given_scores, policy=share, min=limit)
    counted = [score for score in given_scores if score not in (NOT_APPLICABLE, RETURNED_NONE)]
    assert decide(counted, policy=share, min=limit).status is found.status
    lacking = [score for score in counted if score in (EMPTY, UNSTATED)]
    scored = [score for score in counted if score.value is not None]
    too_many = 20 * len(lacking) > max(20 * (twentieths > 0), twentieths * len(counted))
    if scored and not too_many:
        assert found.status is decide([s for s in counted if s not in lacking], policy=share, min=limit).status
    elif scored:
        assert found.status in (FAIL, INCOMPLETE)
        assert found.status is FAIL or "maxNotApplicable" in found.reason
        filled = [Score.scored(filler) if score.value is None else score for score in counted]
        assert found.status is INCOMPLETE or decide(filled, policy=share, min=limit).status is FAIL
    else:
        assert found.status is (NOT_GATED if {*counted} - {EMPTY, UNSTATED} == {SKIPPED} else INCOMPLETE)


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
        assert outcome.scored > 0
        assert outcome.value >= limit - 1e-6
        assert outcome.value * outcome.scored / outcome.expected >= limit - 1e-6


@pytest.mark.parametrize(
    ("passes", "attempts", "status"),
    [(5, 5, FAIL), (13, 13, FAIL), (20, 20, PASS), (95, 100, PASS), (88, 100, FAIL)],
)
def test_a_confident_limit_compares_the_worse_end_of_the_interval(passes, attempts, status):
    scores = [1.0] * passes + [0.0] * (attempts - passes)
    outcome = decide(scores, min=0.82, confidence=0.95)
    low = binomtest(passes, attempts).proportion_ci(0.95, "exact").low
    assert outcome.bound == pytest.approx(low)
    assert outcome.status is status
    assert outcome.status is (PASS if low >= 0.82 else FAIL)


def test_a_confident_maximum_compares_the_upper_end():
    outcome = decide([0.0] * 30, max=0.1, confidence=0.95)
    assert (outcome.status, outcome.bound) == (FAIL, pytest.approx(1 - 0.025 ** (1 / 30)))
    enough = decide([0.0] * 40, max=0.1, confidence=0.95)
    assert (enough.status, enough.bound) == (PASS, pytest.approx(1 - 0.025 ** (1 / 40)))


@pytest.mark.parametrize(
    ("limit", "status", "end"),
    [
        ({"min": 0.2, "max": 0.9}, PASS, "low"),
        ({"min": 0.2, "max": 0.8}, FAIL, "high"),
        ({"min": 0.7, "max": 0.9}, FAIL, "low"),
    ],
)
def test_a_confident_range_compares_the_end_that_breaks_it(limit, status, end):
    outcome = decide([1.0] * 30 + [0.0] * 10, confidence=0.95, **limit)
    interval = binomtest(30, 40).proportion_ci(0.95, "exact")
    assert (outcome.status, outcome.bound) == (status, pytest.approx(getattr(interval, end)))
    assert decide([1.0] * 30 + [0.0] * 10, **limit).bound is None


def test_a_confident_percentile_names_how_many_scores_it_needs():
    p95 = outline("p95", (0.0, None))
    few = decide([100.0] * 20, metric=p95, max=200, confidence=0.95)
    assert (few.status, few.bound) == (INCOMPLETE, None)
    assert few.reason == ("there is no 95 % interval: p95 needs 72 scores for a 95 % interval, but there are 20")
    failed = decide([100.0] * 20 + [FAILED], metric=p95, max=200, confidence=0.95)
    assert failed.reason == "20 of 21 scored (1 failed), minCoverage is 1"
    values = [float(n) for n in range(1, 101)]
    enough = decide(values, metric=p95, max=99, confidence=0.95)
    assert (enough.status, enough.bound) == (FAIL, 100.0)
    assert decide(values, metric=p95, max=100, confidence=0.95).status is PASS
    assert decide([100.0] * 368, metric=outline("p99", (0.0, None)), max=200, confidence=0.95).status is PASS
    assert decide([100.0] * 367, metric=outline("p99", (0.0, None)), max=200, confidence=0.95).status is INCOMPLETE


def test_a_confident_limit_over_clusters_counts_the_clusters():
    """Passes in four documents are four observations."""
    samples = [result(1.0, f"s{n}", metadata={"doc": n % 4}) for n in range(40)]
    limit = Threshold("m", min=0.5, confidence=0.95)
    assert compute_outcome(limit, MEAN01, samples, STRICT).status is PASS
    clustered = compute_outcome(limit, MEAN01, samples, STRICT, "doc")
    assert clustered.status is FAIL
    assert clustered.bound == pytest.approx(0.025 ** (1 / 4))
    alone = compute_outcome(limit, MEAN01, [replace(s, metadata={"doc": 1}) for s in samples], STRICT, "doc")
    assert (alone.status, "one cluster" in alone.reason) == (INCOMPLETE, True)
