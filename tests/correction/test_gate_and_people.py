"""Limits on judged metrics, with what people say about the replies."""

import pytest
from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    Attempt,
    Basis,
    Cause,
    Correction,
    DatasetResult,
    Direction,
    Draw,
    DrawKind,
    PeopleScore,
    PeopleScores,
    SampleResult,
    SampleStatus,
    Score,
    Threshold,
    VerdictStatus,
)
from evalspec.verdict.gate import compute_outcome
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import summarise
from evalspec.verdict.wording import list_opinion_notes, render_correction

PASS, FAIL, INCOMPLETE = VerdictStatus.PASS, VerdictStatus.FAIL, VerdictStatus.INCOMPLETE
JUDGED = MetricOutline("faithfulness", "mean", Direction.HIGHER, (0.0, 1.0), judged=True)
DRAWN = Draw(kind=DrawKind.RANDOM, seed=1, probability=0.5)


def samples_of(*scores):
    return [
        SampleResult(
            id=f"s{number}",
            status=SampleStatus.ANSWERED,
            scores={"faithfulness": Score.failed("judge down") if score is None else Score.scored(score)},
        )
        for number, score in enumerate(scores)
    ]


def people_of(*values, **options):
    scores = [
        PeopleScore(id=f"s{number}", value=value, run="r", draw=DRAWN)
        for number, value in enumerate(values)
        if value is not None
    ]
    return {"faithfulness": PeopleScores(dataset="qa", metric="faithfulness", scores=tuple(scores), **options)}


def decide(samples, people=None, *, judge="auto", **limit):
    return compute_outcome(Threshold("faithfulness", **limit), JUDGED, samples, CiGate(judge=judge), None, people)


LENIENT = samples_of(*[1.0] * 190, *[0.0] * 10)
"""A judge that passes 95 %. """
TWO_OF_THREE = people_of(*[1.0, 1.0, 0.0] * 16)
"""People pass 67 % of what it passes."""
AGREEING = [None] * 170 + [1.0] * 20 + [0.0] * 10
"""Labels on the last thirty replies, each with the judge's score."""


def test_the_value_of_people_takes_the_place_of_the_judges():
    alone, corrected = decide(LENIENT, min=0.8), decide(LENIENT, TWO_OF_THREE, min=0.8)
    assert (alone.status, alone.basis, alone.value) == (PASS, Basis.JUDGE, 0.95)
    assert (corrected.status, corrected.basis) == (FAIL, Basis.PEOPLE)
    assert corrected.value == pytest.approx(2 / 3)


def test_the_interval_is_of_people_too():
    limit = {"min": 0.6, "confidence": 0.95}
    assert decide(LENIENT, **limit).status is PASS
    found = decide(LENIENT, TWO_OF_THREE, **limit)
    assert (found.status, found.bound) == (FAIL, pytest.approx(0.52, abs=0.02))
    assert decide(LENIENT, people_of(*[1.0] * 60), **limit).status is PASS
    assert decide(LENIENT, people_of(*[0.0] * 60), **limit).status is FAIL


def test_replies_without_a_score_are_not_taken_from_the_rest():
    """Half of the replies have no score of the judge, and no label."""
    half = samples_of(*[1.0] * 100, *[None] * 100)
    found = decide(half, people_of(*[1.0] * 30), min=0.8)
    assert found.status is INCOMPLETE
    assert decide(half, people_of(*[0.0] * 30), min=0.8).status is FAIL


@pytest.mark.parametrize(
    ("people", "judge", "status", "said"),
    [
        (None, "require", INCOMPLETE, "requires people's labels, and there are no blind random labels"),
        (people_of(1.0, 1.0), "require", INCOMPLETE, "2 blind random labels are too few"),
        (people_of(*[1.0] * 30), "require", PASS, None),
        (people_of(*[1.0] * 30), "off", PASS, None),
        (None, {"minAgreement": 0.4}, INCOMPLETE, "the agreement is unknown"),
        (people_of(*[1.0, 0.0] * 20), {"minAgreement": 0.4}, INCOMPLETE, "may be as low as"),
        (
            people_of(*[1.0, 0.0] * 20),
            {"minAgreement": 0.4},
            INCOMPLETE,
            ": improve the prompt of the judge",
        ),
        (people_of(*AGREEING), {"minAgreement": 0.9}, INCOMPLETE, "label latest --metric faithfulness --new`"),
        (people_of(*[1.0] * 30, alpha=0.5), "auto", INCOMPLETE, "people do not agree with each other: alpha is 0.50"),
        (people_of(*[1.0] * 30, alpha=0.7), "auto", PASS, None),
    ],
)
def test_what_a_manifest_may_ask_for(people, judge, status, said):
    found = decide(LENIENT, people, judge=judge, min=0.3)
    assert found.status is status
    assert said is None or said in found.reason


@pytest.mark.parametrize("off", ["off", False, {"correct": "off"}, {"correct": False, "controls": False}])
def test_off_is_the_judges_opinion(off):
    """YAML reads `off` as false, in each of the two forms."""
    found = decide(LENIENT, people_of(*[0.0] * 60), judge=off, min=0.8)
    assert (found.status, found.basis, found.value) == (PASS, Basis.JUDGE, 0.95)


def test_what_rounds_to_zero_has_no_sign():
    found = Correction(judge=-1e-9, people=0.5, value=0.5, interval=(0.4, 0.6), labels=30, replies=60,
                       kappa=-0.001, kappa_interval=(-0.12, 0.38))  # fmt: skip
    said = " ".join(render_correction("tone", found))
    assert "the judge says 0.000 on" in said and said.endswith("kappa of judge and people 0.00 (-0.12 – 0.38)")


def test_a_metric_without_a_judge_has_no_basis():
    plain = replace(JUDGED, judged=False)
    found = compute_outcome(
        Threshold("faithfulness", min=0.8), plain, LENIENT, CiGate(judge="require"), None, TWO_OF_THREE
    )
    assert (found.status, found.basis) == (PASS, None)


def test_other_statistics_are_the_judges():
    found = decide(LENIENT, TWO_OF_THREE, min=0.5, stat="median")
    assert (found.basis, found.value) == (Basis.JUDGE, 1.0)


def test_a_summary_has_what_judge_and_people_say():
    summary = summarise(LENIENT, [JUDGED], None, TWO_OF_THREE)["faithfulness"]
    found = summary.correction
    assert (found.judge, found.people, found.labels, found.replies) == (0.95, pytest.approx(2 / 3), 48, 200)
    assert (summary.value, summary.interval) == (found.value, found.interval)
    few = summarise(LENIENT, [JUDGED], None, people_of(1.0))["faithfulness"]
    assert (few.value, few.correction.value, few.correction.reason) == (
        0.95,
        None,
        "1 blind random label is too few",
    )


def test_the_attempts_at_a_sample_are_one_unit():
    attempts = [Attempt(SampleStatus.ANSWERED, scores={"faithfulness": Score.scored(1.0)})] * 2
    samples = [replace(sample, attempts=tuple(attempts)) for sample in samples_of(*[1.0] * 40)]
    scores = [
        PeopleScore(id=f"s{number}", attempt=attempt, value=float(number % 4 > 0), run="r", draw=DRAWN)
        for number in range(40)
        for attempt in (1, 2)
    ]
    people = {"faithfulness": PeopleScores(dataset="qa", metric="faithfulness", scores=tuple(scores))}
    found = decide(samples, people, min=0.5, confidence=0.95)
    assert found.bound == pytest.approx(0.59, abs=0.02)  # 30 of 40 samples, not 60 of 80 replies


def test_limits_that_only_the_judge_meets_are_named():
    limits = (decide(LENIENT, min=0.8), decide(LENIENT, TWO_OF_THREE, min=0.5))
    named = replace(limits[0], metric="is it kind?")
    dataset = DatasetResult(name="qa", selected=200, answered=200, thresholds=(*limits, named), samples=(), metrics={})
    assert list_opinion_notes([dataset], CiGate(), "r-1") == [
        "qa: only the judge says that faithfulness, is it kind? meet their limits. To check it, label replies: "
        "`evalspec label r-1 --metric faithfulness --random 50`, `evalspec "
        "label r-1 --metric 'is it kind?' --random 50`"
    ]
    assert list_opinion_notes([dataset], CiGate(judge="off"), "r-1") == []


def test_missing_labels_leave_a_limit_with_confidence_open():
    """Ten of forty drawn replies have no label. With bad ones the limit is missed, with good ones it is met."""
    people = people_of(*[1.0] * 30, unanswered=[(f"s{number}", 1) for number in range(30, 40)])
    found = decide(samples_of(*[1.0] * 60), people, min=0.8, confidence=0.95)
    assert (found.status, found.basis) == (INCOMPLETE, Basis.PEOPLE)
    assert "10 replies that were drawn and not labelled" in found.reason


def test_scores_that_the_judge_does_not_give_are_not_good_because_people_like_the_others():
    """The judge finds that its metric does not apply to a third of the replies. Nobody has looked at these."""
    away = {"faithfulness": Score.not_applicable("no statements", Cause.JUDGE)}
    samples = [
        *samples_of(*[1.0] * 40),
        *(replace(one, id=f"a{one.id}", scores=away) for one in samples_of(*[1.0] * 20)),
    ]
    assert decide(samples, min=0.8).status is INCOMPLETE
    assert decide(samples, people_of(*[1.0] * 40), min=0.8).status is INCOMPLETE


@pytest.mark.parametrize("kind", [DrawKind.RANDOM, DrawKind.SEQUENTIAL])
def test_samples_without_a_reply_are_not_like_those_with_one(kind):
    """People like forty replies. A third of the samples has none, so nobody could draw them."""
    lost = [replace(one, id=f"a{one.id}", status=SampleStatus.FAILED) for one in samples_of(*[None] * 20)]
    (said,) = people_of(*[1.0] * 40).values()
    draws = [Draw(kind=kind, seed=1, probability=1.0, place=place) for place in range(1, 41)]
    scores = tuple(replace(one, draw=draw) for one, draw in zip(said.scores, draws, strict=True))
    found = decide([*samples_of(*[1.0] * 40), *lost], {"faithfulness": replace(said, scores=scores)}, min=0.8)
    assert (found.status, found.basis) == (INCOMPLETE, Basis.PEOPLE)


def test_the_sequence_counts_what_was_passed_over_at_its_worst():
    (said,) = people_of(*[1.0 if number % 3 else None for number in range(60)]).values()
    draw = Draw(kind=DrawKind.SEQUENTIAL, seed=1, probability=1.0, place=1)
    scores = tuple(replace(one, draw=draw) for one in said.scores)
    samples, passed = samples_of(*[1.0] * 60), tuple((f"s{number}", 1) for number in range(0, 60, 3))
    for unanswered, status in (((), PASS), (passed, INCOMPLETE)):
        people = {"faithfulness": replace(said, scores=scores, unanswered=unanswered)}
        assert decide(samples, people, min=0.75).status is status
