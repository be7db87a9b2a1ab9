"""A JSON report read back as the run that it was made of: all of it but the evidence, which only the run log keeps.

What was not there in earlier releases has its default, keys that a later one adds are passed over, and anything else
must be as the document promises.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.records import (
    LARGEST_VALUE,
    Attempt,
    Cause,
    DatasetResult,
    Direction,
    JudgeUsage,
    RegressionOutcome,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Verdict,
    VerdictStatus,
)
from evalspec.reporters.checked_json import (
    Malformed,
    by_key,
    check_version,
    count,
    each,
    fingerprint,
    flag,
    growing,
    malformed,
    mapping,
    member_of,
    number,
    optional,
    pair,
    parse_document,
    read_bytes,
    refuse,
    statistic,
    take,
    text,
)
from evalspec.reporters.dataset_reading import parse_outcome, parse_repeats, parse_slice, parse_summaries
from evalspec.reporters.retriever_reading import parse_diagnosis, parse_settings, parse_stage, parse_trace

_STATUSES = {str(status): status for status in ScoreStatus}


def read_report(path: Path) -> Run:
    """The run of a report file.

    Raises:
        InvalidInput: the file cannot be read, or is no report that this version understands.
    """
    return parse_report(read_bytes(path), str(path))


def parse_report(content: str | bytes, shown_as: str = "report") -> Run:
    """The run of a report; `shown_as` names it in errors.

    Raises:
        InvalidInput: it is no report that this version understands.
    """
    return build_run(parse_document(content, shown_as), shown_as)


def build_run(document: Mapping[str, Any], shown_as: str) -> Run:
    """The run of a report that is parsed already.

    Raises:
        InvalidInput: it is no report that this version understands.
    """
    check_version(document, shown_as)
    try:
        with growing():
            return _run(document)
    except Malformed as error:
        raise malformed(error, shown_as) from error


def score_of(
    status: str,
    value: float | None,
    reason: str | None,
    repeats: tuple[float, ...] = (),
    cause: Cause | None = None,
) -> Score:
    """A score of which only the scored have a value.

    Raises:
        Malformed: there is no such status, or the value does not fit it.
    """
    if status not in _STATUSES:
        refuse(f"one of {', '.join(_STATUSES)}", status)
    try:
        return Score(_STATUSES[status], value, reason, None, repeats, cause)
    except ValueError as error:
        raise Malformed(str(error)) from error


_verdict_status = member_of(VerdictStatus)
_sample_status = member_of(SampleStatus)
_direction = member_of(Direction)
_texts = each(text)
_numbers = each(number)
_cause = optional(member_of(Cause))
_number_or_none = optional(number)
_text_or_none = optional(text)
_interval = optional(pair)


def _run(fields: Mapping[str, Any]) -> Run:
    return Run(
        id=take(fields, "runId", text),
        verdict=Verdict(
            take(fields, "verdict", _verdict_status), take(fields, "reasons", _texts), take(fields, "partial", flag)
        ),
        exit_code=take(fields, "exitCode", count),
        datasets=take(fields, "datasets", each(_dataset)),
        notes=take(fields, "notes", _texts, ()),
        fingerprint=take(fields, "fingerprint", fingerprint, {}),
        judge_usage=take(fields, "judgeUsage", by_key(_usage), {}),
        regressions=take(fields, "regressions", each(_regression), ()),
        has_texts=take(fields, "hasTexts", flag, True),
    )


def _usage(fields: Mapping[str, Any]) -> JudgeUsage:
    keys = ("calls", "retries", "inputTokens", "outputTokens", "uncounted")
    return JudgeUsage(*(take(fields, key, count) for key in keys))


def _regression(fields: Mapping[str, Any]) -> RegressionOutcome:
    return RegressionOutcome(
        dataset=take(fields, "dataset", text),
        metric=take(fields, "metric", _text_or_none),
        status=take(fields, "status", _verdict_status),
        baseline=take(fields, "baseline", _number_or_none),
        candidate=take(fields, "candidate", _number_or_none),
        delta=take(fields, "delta", _number_or_none),
        interval=take(fields, "interval", _interval),
        p_value=take(fields, "pValue", _number_or_none),
        pairs=take(fields, "pairs", count),
        reason=take(fields, "reason", _text_or_none),
        units=take(fields, "units", count, 0),
        unpaired=take(fields, "unpaired", count, 0),
        proven=take(fields, "proven", flag, False),
        of_baseline=take(fields, "ofBaseline", flag, False),
    )


def _dataset(fields: Mapping[str, Any]) -> DatasetResult:
    metrics = take(fields, "metrics", mapping)
    statistics = take(fields, "metrics", by_key(lambda metric: take(metric, "statistic", statistic)))
    return DatasetResult(
        name=take(fields, "name", text),
        direction=take(fields, "metrics", by_key(lambda metric: take(metric, "direction", _direction))),
        samples=take(fields, "samples", each(_sample)),
        summaries=parse_summaries(metrics, statistics),
        outcomes=take(fields, "thresholds", each(parse_outcome)),
        slices=take(fields, "slices", each(lambda part: parse_slice(part, statistics)), ()),
        file=take(fields, "file", _text_or_none, None),
        repeats=take(fields, "repeats", optional(parse_repeats), None),
        retriever=take(fields, "retriever", optional(parse_settings), None),
        stages=take(fields, "stages", each(parse_stage), ()),
        diagnosis=take(fields, "diagnosis", optional(parse_diagnosis), None),
        cluster=take(fields, "cluster", _text_or_none, None),
    )


def _score(fields: Mapping[str, Any]) -> Score:
    """One score. Nearly all are scored and graded once: these are taken at once, all others value by value."""
    if (
        type(fields) is dict
        and fields.get("status") == ScoreStatus.SCORED
        and not fields.get("repeats")
        and not fields.get("cause")
    ):
        value, reason = fields.get("value"), fields.get("reason")
        if type(value) is float and abs(value) <= LARGEST_VALUE and (reason is None or type(reason) is str):
            return Score(ScoreStatus.SCORED, value, reason)
    return score_of(
        take(fields, "status", text),
        take(fields, "value", _number_or_none),
        take(fields, "reason", _text_or_none),
        take(fields, "repeats", _numbers, ()),
        take(fields, "cause", _cause, None),
    )


_scores = by_key(_score)


def _sample(fields: Mapping[str, Any]) -> SampleResult:
    return SampleResult(
        id=take(fields, "id", text),
        status=take(fields, "status", _sample_status),
        tags=take(fields, "tags", _texts, ()),
        metadata=take(fields, "metadata", mapping, {}),
        latency_ms=take(fields, "latencyMs", _number_or_none, None),
        error=take(fields, "error", _text_or_none, None),
        scores=take(fields, "scores", _scores),
        line=take(fields, "line", optional(count), None),
        pass_rate=take(fields, "passRate", _number_or_none, None),
        attempts=take(fields, "attempts", each(_attempt), ()),
        trace=parse_trace(fields),
        digest=take(fields, "digest", _text_or_none, None),
        finish_reason=take(fields, "finishReason", _text_or_none, None),
    )


def _attempt(fields: Mapping[str, Any]) -> Attempt:
    return Attempt(
        status=take(fields, "status", _sample_status),
        latency_ms=take(fields, "latencyMs", _number_or_none),
        error=take(fields, "error", _text_or_none),
        unreachable=take(fields, "unreachable", flag, False),
        scores=take(fields, "scores", _scores),
        passed=take(fields, "passed", optional(flag)),
        trace=parse_trace(fields),
        finish_reason=take(fields, "finishReason", _text_or_none, None),
    )
