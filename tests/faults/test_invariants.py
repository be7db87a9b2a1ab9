"""What must hold whatever is injected: of the gate itself for random scores, and of whole runs as faults spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Cause, Direction, SampleResult, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.verdict.gate import compute_outcome
from evalspec.verdict.outline import MetricOutline
from faults.bench import HEALTHY
from faults.injected import HARMLESS, SHARES

METRIC = MetricOutline("faithfulness", "mean", Direction.HIGHER, (0.0, 1.0))
GRADES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
MISSING = st.sampled_from(
    [
        Score.failed("the judge answered prose", Cause.JUDGE),
        Score.failed("no reply", Cause.REPLY),
        Score.not_applicable("the response is empty", Cause.REPLY),
        Score.not_applicable("the judge finds no statement", Cause.JUDGE),
    ]
)
SCORES = st.lists(GRADES.map(Score.scored) | MISSING, min_size=1, max_size=12)
POLICIES = st.builds(
    CiGate,
    min_coverage=st.sampled_from([0.0, 0.5, 1.0]),
    max_not_applicable=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    min_samples=st.integers(1, 4),
)
LIMITS = st.builds(Threshold, st.just("faithfulness"), min=GRADES) | st.builds(
    Threshold, st.just("faithfulness"), max=GRADES
)


def decide(limit, scores, policy):
    samples = [
        SampleResult(id=f"s{n}", status=SampleStatus.ANSWERED, scores={"faithfulness": score})
        for n, score in enumerate(scores)
    ]
    return compute_outcome(limit, METRIC, samples, policy).status


@given(LIMITS, SCORES, POLICIES, st.data())
def test_a_limit_that_fails_stays_broken_whatever_the_failed_scores_would_have_been(limit, scores, policy, data):
    if decide(limit, scores, policy) is not VerdictStatus.FAIL:
        return
    filled = [Score.scored(data.draw(GRADES)) if score.status == "failed" else score for score in scores]
    assert decide(limit, filled, policy) is VerdictStatus.FAIL


@given(LIMITS, SCORES, POLICIES)
def test_a_limit_passes_only_on_enough_evidence(limit, scores, policy):
    if decide(limit, scores, policy) is not VerdictStatus.PASS:
        return
    scored = sum(score.status == "scored" for score in scores)
    failed = sum(score.status == "failed" for score in scores)
    lacking = len(scores) - scored - failed
    assert scored >= policy.min_samples
    assert scored >= policy.min_coverage * (scored + failed)
    assert lacking <= max(bool(policy.max_not_applicable), policy.max_not_applicable * len(scores) + 1e-9)


@given(LIMITS, SCORES, st.data())
def test_under_the_strictest_gate_losing_a_score_never_makes_a_limit_pass(limit, scores, data):
    strict = CiGate(min_coverage=1.0, max_not_applicable=0.0)
    before = decide(limit, scores, strict)
    place = data.draw(st.integers(0, len(scores) - 1))
    after = decide(limit, [*scores[:place], data.draw(MISSING), *scores[place + 1 :]], strict)
    assert after is not VerdictStatus.PASS
    assert after is not VerdictStatus.FAIL or before is VerdictStatus.FAIL, "a missing score proves nothing"


@pytest.fixture(scope="module")
def healthy_runs():
    """The documents of runs without a fault, by gate, once somebody made them."""
    return {}


def run_healthy(bench, gate, healthy_runs):
    if gate not in healthy_runs:
        healthy_runs[gate] = bench.run(HEALTHY._replace(gate=gate)).document
    return healthy_runs[gate]


@pytest.mark.parametrize("fault", HARMLESS)
def test_a_judge_that_orders_or_explains_otherwise_gives_the_same_scores(fault, bench, healthy_runs):
    """Reordered verdicts and closed reasoning change no value."""
    plain = values_of(run_healthy(bench, HEALTHY.gate, healthy_runs))
    assert values_of(bench.run(HEALTHY._replace(judge=fault)).document) == plain


def values_of(document):
    return [
        {
            metric: (score["status"], score["value"])
            for metric, score in sample["scores"].items()
            if metric != "latency_p95"
        }
        for sample in document["datasets"][0]["samples"]
    ]


@pytest.mark.parametrize("gate", ["faithfulness", "several", "maxNotApplicable 0"])
@pytest.mark.parametrize(
    ("factor", "fault"),
    [("agent", "http_500"), ("agent", "empty"), ("agent", "invented"), ("judge", "prose"), ("judge", "no_statements")],
)
def test_a_fault_that_spreads_never_turns_a_verdict_into_pass(gate, factor, fault, bench, healthy_runs):
    healthy = HEALTHY._replace(gate=gate)
    spreading = [healthy._replace(**{factor: fault, f"{factor}_share": share}) for share in SHARES]
    verdicts = [bench.run(cell).document["verdict"] for cell in spreading]
    assert run_healthy(bench, gate, healthy_runs)["verdict"] == "PASS"
    assert verdicts[-1] != "PASS"
    assert sorted(verdicts, key="PASS".__ne__) == verdicts
