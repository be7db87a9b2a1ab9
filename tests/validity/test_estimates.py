"""Which interval an estimate takes, what it rests on, and why there is none."""

import json

import pytest

from evalspec.verdict.stats.bounded import compute_bounded_interval
from evalspec.verdict.validity.estimates import UNBOUNDED, Estimate, compute_percentile_interval, estimate

UNIT = (0.0, 1.0)
VALUES = [0.1, 0.2, 0.2, 0.5, 0.9, 1.0] * 10
PAIRS = [label // 2 for label in range(60)]


@pytest.mark.parametrize(
    ("values", "statistic", "bounds", "clusters", "expected"),
    [
        ([], "mean", UNIT, None, Estimate(0, reason="no sample is scored")),
        (
            [0.2, 0.4],
            "mean",
            UNIT,
            ["a", "a"],
            Estimate(1, reason="one cluster (a) has 2 of 2 scores, and an interval allows a quarter at most"),
        ),
        ([0.2] * 3, "mean", None, None, Estimate(3, reason=UNBOUNDED)),
        ([0.2, 0.4], "max", UNIT, None, Estimate(2, reason="a max depends on a single value")),
        (
            [0.2, 0.4],
            "p95",
            UNIT,
            None,
            Estimate(2, reason="p95 needs 72 scores for a 95 % interval, but there are 2"),
        ),
        (
            [0.2, 0.4, 0.6],
            "p95",
            UNIT,
            ["a", "b", "c"],
            Estimate(3, reason="one cluster (a) has 1 of 3 scores, and an interval allows a quarter at most"),
        ),
    ],
)
def test_why_there_is_no_interval(values, statistic, bounds, clusters, expected):
    assert estimate(values, statistic, bounds, clusters=clusters) == expected


def test_one_score_alone_has_the_interval_of_one():
    assert estimate([1.0], "mean", UNIT) == Estimate(1, compute_bounded_interval([1.0], UNIT, 0.95), "bounded")


@pytest.mark.parametrize(("clusters", "units"), [(None, 60), (PAIRS, 30)])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_each_statistic_has_its_interval_at_its_confidence_over_its_clusters(clusters, units, confidence):
    def of(statistic, bounds, **options):
        return estimate(VALUES, statistic, bounds, confidence, clusters=clusters, **options)

    bounded = compute_bounded_interval(VALUES, (-1, 1), confidence, clusters=clusters)
    assert of("mean", (-1, 1)) == Estimate(units, bounded, "bounded")
    assert of("mean", None) == Estimate(units, reason=UNBOUNDED)
    ordered = compute_percentile_interval(VALUES, "median", confidence, clusters=clusters)
    assert of("median", None) == Estimate(units, ordered, "order statistics")


def test_the_usual_confidence_is_95_percent():
    assert estimate(VALUES, "mean", UNIT) == estimate(VALUES, "mean", UNIT, 0.95)


@pytest.mark.parametrize(("samples", "cautioned"), [(4, True), (5, False)])
def test_numbers_of_less_than_five_samples_carry_a_caution(project, samples, cautioned):
    project.samples(samples)
    replies = "".join(json.dumps({"id": f"s{n}", "response": "Paris"}) + "\n" for n in range(samples))
    (project.folder / "replies.jsonl").write_text(replies)
    notes = project.evaluate("--responses", "replies.jsonl", "--json").document["notes"]
    assert any("independent samples say little" in note for note in notes) is cautioned
