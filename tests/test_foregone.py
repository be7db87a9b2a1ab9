"""A verdict that is called certain is the verdict of every completion of the missing scores."""

from itertools import combinations_with_replacement

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Attempt, Cause, Direction, Sample, SampleStatus, Score, ScoreStatus, Threshold
from evalspec.runs.runner.conclude import RunMetadata, conclude
from evalspec.runs.runner.deciding import find_foregone
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.outline import DatasetOutline, MetricOutline, RunOutline
from evalspec.verdict.summary import add_slices, reply_limits

METRICS = {"good": Direction.HIGHER, "bad": Direction.LOWER}
OUTCOMES = (
    *map(Score.scored, (0.0, 0.5, 1.0)),
    *(Score.not_applicable("n/a", cause) for cause in (Cause.DATASET, Cause.REPLY, Cause.JUDGE)),
    Score.failed("no verdict", Cause.JUDGE),
)
MISSING = Score(ScoreStatus.SKIPPED, reason="not computed", cause=Cause.STOPPED)
POLICIES = {
    "min_coverage": st.sampled_from([0.5, 0.9]),
    "max_not_applicable": st.sampled_from([0.0, 0.3, 1.0]),
    "max_error_rate": st.sampled_from([0.0, 0.5]),
    "min_samples": st.integers(1, 3),
    "min_pass_rate": st.just(0.5),
}


@st.composite
def limits(draw):
    ends = {"min": draw(st.sampled_from([0.25, 0.5, 0.75]))}
    if draw(st.booleans()):
        ends = {"max": 1 - ends["min"]}
    return Threshold(
        draw(st.sampled_from([*METRICS])),
        **ends,
        slice=draw(st.sampled_from([None, None, "odd"])),
        stat=draw(st.sampled_from([None, None, None, "p50", "min", "max"])),
        confidence=draw(st.sampled_from([None, None, None, 0.8])),
    )


@st.composite
def unfinished(draw):
    """A planned run, and the scores of its attempts by dataset and sample; those that are missing are None."""
    policy = draw(st.fixed_dictionaries({}, optional=POLICIES))
    repeats = draw(st.sampled_from([1, 1, 2]))
    metrics = tuple(MetricOutline(name, "mean", direction, (0.0, 1.0)) for name, direction in METRICS.items())
    thresholds = tuple(draw(st.lists(limits(), min_size=1, max_size=3)))
    cluster = draw(st.sampled_from([None, "page"]))
    dataset = DatasetOutline(name="qa", metrics=metrics, thresholds=thresholds, cluster=cluster)
    outline = RunOutline(CiGate(**policy), (dataset,), repeats=repeats)
    known = st.one_of(st.sampled_from(OUTCOMES[:3]), st.sampled_from(OUTCOMES))
    score = st.one_of(known, known, st.none()) if draw(st.booleans()) else st.one_of(known, *[st.none()] * 3)
    replies = st.fixed_dictionaries(dict.fromkeys(METRICS, score))
    attempts = st.lists(replies, min_size=repeats, max_size=repeats)
    return outline, draw(st.lists(attempts, min_size=1, max_size=9))


def combine(outline, samples, fill):
    """The results of samples, with the next score of `fill` in place of each missing one."""
    (dataset,) = outline.datasets
    by_reply = reply_limits(dataset.thresholds, dict.fromkeys(METRICS, "mean"))
    results = []
    for number, replies in enumerate(samples):
        tags = ("odd",) if number % 2 else ()
        sample = Sample(id=f"s{number}", user_input="?", tags=tags, metadata={"page": number // 3})
        add_slices(sample, ["odd"])
        filled = [{name: next(fill) if one is None else one for name, one in reply.items()} for reply in replies]
        attempts = [Attempt(SampleStatus.ANSWERED, scores=scores) for scores in filled]
        results.append(combine_attempts(sample, attempts, by_reply))
    return [results]


def repeat(score):
    while True:
        yield score


def conclude_filled(outline, samples, fill):
    return conclude(outline, "run", combine(outline, samples, fill), RunMetadata()).verdict


def count_missing(samples):
    return sum(score is None for replies in samples for reply in replies for score in reply.values())


@settings(max_examples=200)
@given(unfinished(), st.data())
def test_no_completion_changes_a_certain_verdict(run, data):
    outline, samples = run
    certain = find_foregone(outline, combine(outline, samples, repeat(Score.failed("unknown"))))
    count = count_missing(samples)
    if certain is None:
        return
    reached = conclude_filled(outline, samples, repeat(MISSING))
    assert f"the verdict is {reached} whatever" in certain
    event(f"certain: {reached}")
    fills = data.draw(st.lists(st.lists(st.sampled_from(OUTCOMES), min_size=count, max_size=count), max_size=6))
    for one in (*fills, *([outcome] * count for outcome in OUTCOMES)):
        assert conclude_filled(outline, samples, iter(one)) == reached, one


GOOD, HALF = Score.scored(1.0), Score.scored(0.6)
RULES = ({"min_coverage": 0.9}, {"max_not_applicable": 0.0}, {"max_error_rate": 0.0}, {"min_pass_rate": 0.5})


@pytest.mark.parametrize(
    ("known", "policy", "confidence", "expected"),
    [
        (GOOD, {}, None, "PASS"),
        *((GOOD, policy, None, None) for policy in (*RULES, {"baseline": "main"})),
        (GOOD, {}, 0.8, None),
        (HALF, {}, 0.8, None),
        (Score.scored(0.0), {"baseline": "main", "min_coverage": 0.9}, 0.8, "FAIL"),
    ],
)
def test_other_rules_than_limits_leave_only_a_failure_certain(known, policy, confidence, expected):
    metrics = (MetricOutline("good", "mean", Direction.HIGHER, (0.0, 1.0)),)
    limit = Threshold("good", min=0.5, confidence=confidence)
    outline = RunOutline(CiGate(**policy), (DatasetOutline(name="qa", metrics=metrics, thresholds=(limit,)),))
    samples = [[{"good": score}] for score in (known, known, known, None)]
    said = find_foregone(outline, combine(outline, samples, repeat(Score.failed("unknown"))))
    assert said is None if expected is None else said.startswith(f"the verdict is {expected} whatever")


@pytest.mark.parametrize("least", [0.4, 0.5, 0.75])
def test_every_completion_of_a_small_run_has_the_verdict(least):
    """Exhaustively: each run of a few samples with one limit, two scores of which are missing, and each completion."""
    metrics = (MetricOutline("good", "mean", Direction.HIGHER, (0.0, 1.0)),)
    limited = DatasetOutline(name="qa", metrics=metrics, thresholds=(Threshold("good", min=least),))
    outline, certain = RunOutline(CiGate(), (limited,)), 0
    completions = list(combinations_with_replacement(OUTCOMES, 2))
    for known in combinations_with_replacement(OUTCOMES, 3):
        samples = [[{"good": score}] for score in (*known, None, None)]
        if find_foregone(outline, combine(outline, samples, repeat(Score.failed("unknown")))) is None:
            continue
        certain += 1
        reached = conclude_filled(outline, samples, repeat(MISSING))
        for one in completions:
            assert conclude_filled(outline, samples, iter(one)) == reached, (known, one)
    assert certain > 0
