"""The records of a run refuse what JSON cannot represent, and know their limits."""

import math

import pytest
from msgspec.structs import replace

from evalspec.model import (
    DatasetResult,
    RegressionOutcome,
    Run,
    SliceResult,
    Summary,
    Threshold,
    VerdictStatus,
)

SUMMARY = Summary(value=0.5, scored=4)
OUTCOME = RegressionOutcome("qa", "RR", VerdictStatus.PASS)
LIMIT = Threshold("RR", min=0.9)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("record", "field"),
    [(SUMMARY, field) for field in ("value", "median", "interval", "bounds")]
    + [(OUTCOME, field) for field in ("baseline", "candidate", "delta", "p_value", "interval")]
    + [(LIMIT, field) for field in ("min", "max", "value", "bound")],
)
def test_no_record_holds_an_infinite_number(record, field, infinite):
    value = (0.0, infinite) if field in ("interval", "bounds") else infinite
    with pytest.raises(ValueError, match="finite"):
        replace(record, **{field: value})


def test_the_excess_is_a_share_of_the_limit():
    assert Threshold("RR", min=0.8).excess(0.6) == pytest.approx(0.25)
    assert Threshold("latency_p95", max=200).excess(300) == pytest.approx(0.5)
    assert Threshold("gain", min=0).excess(-0.1) == pytest.approx(0.1), "there is no share of 0"
    assert Threshold("RR", min=0.8, max=0.9).excess(0.85) == 0


def test_a_value_at_the_limit_is_within_it():
    both = Threshold("RR", min=0.8, max=0.9)
    assert [both.holds(value) for value in (0.79, 0.8, 0.85, 0.9, 0.91)] == [False, True, True, True, False]
    assert Threshold("RR", max=0.9).exceeded_by(1.0)
    assert Threshold("RR", min=0.9).undercut_by(0.0)


def test_a_limit_as_stated_has_no_outcome():
    limit = Threshold("RR", 0.25, 0.75, "eu", "p95", 0.9)
    decided = replace(limit, status=VerdictStatus.FAIL, value=1.0, scored=3, expected=4, reason="why")
    assert decided.as_stated() == limit
    assert (limit.status, limit.scored, limit.expected) == (VerdictStatus.NOT_GATED, 0, 0)


def test_a_limit_is_beside_the_value_that_it_limits():
    part = SliceResult(name="eu", selected=2, metrics={"RR": SUMMARY})
    limits = (
        replace(LIMIT, status=VerdictStatus.FAIL),
        Threshold("RR", min=0.4, slice="eu", status=VerdictStatus.PASS),
    )
    dataset = DatasetResult(name="qa", metrics={"RR": SUMMARY}, thresholds=limits, slices=(part,), samples=())
    limited = dataset.with_limits()
    assert (limited.metrics["RR"].threshold, limited.metrics["RR"].passed) == ({"min": 0.9}, False)
    in_slice = limited.slices[0].metrics["RR"]
    assert (in_slice.threshold, in_slice.passed) == ({"min": 0.4}, True)


def test_records_cannot_be_changed():
    run = Run(id="r", datasets=())
    assert (run.verdict, run.exit_code, run.partial) == (VerdictStatus.NOT_GATED, 0, False)
    dataset = DatasetResult(name="qa", metrics={}, samples=())
    part = SliceResult(name="eu", selected=0, metrics={})
    for record, field in ((run, "verdict"), (dataset, "name"), (part, "name"), (SUMMARY, "value"), (LIMIT, "status")):
        with pytest.raises(AttributeError):
            setattr(record, field, None)
