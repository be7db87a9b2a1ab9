"""The parts of a dataset in a JSON report read back, but its samples: summaries, slices, limits, repeats."""

from collections.abc import Mapping
from typing import Any

from evalspec.records import (
    Cause,
    RepeatSummary,
    SliceResult,
    Summary,
    Threshold,
    ThresholdOutcome,
    Variance,
    VerdictStatus,
)
from evalspec.reporters.checked_json import (
    Malformed,
    by_key,
    count,
    each,
    flag,
    mapping,
    member_of,
    number,
    optional,
    pair,
    refuse,
    take,
    text,
)

_MOST_DIGITS = 10

_cause = member_of(Cause)
_verdict_status = member_of(VerdictStatus)
_number_or_none = optional(number)
_text_or_none = optional(text)
_interval = optional(pair)


def parse_summaries(metrics: Any, statistics: Mapping[str, str]) -> dict[str, Summary]:
    """Metrics to their summaries; `statistics`: how the scores of each became a value.

    Raises:
        Malformed: it is not what the document promises.
    """
    found = {}
    for metric, fields in mapping(metrics).items():
        try:
            found[metric] = Summary(
                metric=metric,
                statistic=statistics.get(metric, "mean"),
                value=take(fields, "value", _number_or_none),
                interval=take(fields, "interval", _interval),
                scored=take(fields, "scored", count),
                failed=take(fields, "failed", count, 0),
                skipped=take(fields, "skipped", count, 0),
                not_applicable=_not_applicable(fields),
                median=take(fields, "median", _number_or_none, None),
                method=take(fields, "intervalMethod", _text_or_none, None),
                no_interval=take(fields, "noInterval", _text_or_none, None),
                units=take(fields, "units", count, 0),
                bounds=take(fields, "bounds", _interval, None),
            )
        except Malformed as error:
            raise error.within(f"metrics.{metric}") from None
    return found


def _not_applicable(fields: Mapping[str, Any]) -> dict[Cause, int]:
    """The counts by cause; earlier releases give no cause."""
    total = take(fields, "notApplicable", count, 0)
    causes = take(fields, "notApplicableCauses", by_key(count), {Cause.OTHER.value: total} if total else {})
    return {_cause(cause): times for cause, times in causes.items()}


def parse_slice(fields: Mapping[str, Any], statistics: Mapping[str, str]) -> SliceResult:
    """Part of the dataset.

    Raises:
        Malformed: it is not what the document promises.
    """
    return SliceResult(
        name=take(fields, "name", text),
        selected=take(fields, "selected", count),
        summaries=parse_summaries(take(fields, "metrics", mapping), statistics),
        small=take(fields, "small", flag, False),
    )


def parse_outcome(fields: Mapping[str, Any]) -> ThresholdOutcome:
    """One limit and what came of it.

    Raises:
        Malformed: it is not what the document promises.
    """
    return ThresholdOutcome(
        threshold=Threshold(
            metric=take(fields, "metric", text),
            min=take(fields, "min", _number_or_none),
            max=take(fields, "max", _number_or_none),
            slice=take(fields, "slice", _text_or_none),
            stat=take(fields, "stat", _text_or_none),
            confidence=take(fields, "confidence", _number_or_none, None),
        ),
        status=take(fields, "status", _verdict_status),
        value=take(fields, "value", _number_or_none),
        scored=take(fields, "scored", count),
        expected=take(fields, "expected", count),
        reason=take(fields, "reason", _text_or_none),
        bound=take(fields, "bound", _number_or_none, None),
        not_applicable=_not_applicable(fields),
    )


def parse_repeats(fields: Mapping[str, Any]) -> RepeatSummary:
    """What asking every sample several times showed.

    Raises:
        Malformed: it is not what the document promises.
    """
    return RepeatSummary(
        repeats=take(fields, "repeats", count),
        decided=take(fields, "decided", count),
        pass_at=_by_k(take(fields, "passAt", by_key(number))),
        pass_all=_by_k(take(fields, "passAll", by_key(number))),
        flaky=take(fields, "flaky", each(text)),
        variance=take(fields, "variance", by_key(_variance)),
    )


def _by_k(shares: Mapping[str, float]) -> dict[int, float]:
    return {
        int(k) if k.isdecimal() and len(k) < _MOST_DIGITS else refuse("a number of attempts", k): share
        for k, share in shares.items()
    }


def _variance(fields: Mapping[str, Any]) -> Variance:
    return Variance(*(take(fields, key, _number_or_none) for key in ("replies", "agent", "judge")))
