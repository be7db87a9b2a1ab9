"""AgentSpec: its JSONL datasets, which are the native format, and the reports of `agentspec evaluate --json`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalspec.datasets.base import DatasetFormat, ForeignReport, ForeignRun
from evalspec.datasets.jsonl import JSONL
from evalspec.datasets.located import content_id
from evalspec.records import AgentReply, Cause, Exchange, Sample, Score, Summary, Transcript
from evalspec.registry import Registry

_LATENCY = "latency_p95"
_ANSWERS = "string_match"
"""Our name of its pass_rate, the share of answers that contain the expected text."""


def _is_report(document: Mapping[str, Any]) -> bool:
    return {"dataset", "totalSamples", "metrics"} <= document.keys() and "schemaVersion" not in document


def _parse_report(document: Mapping[str, Any]) -> ForeignRun:
    """A sample has no id in the report; it gets the id that evalspec gives to a line without one."""
    from evalspec.reporters.checked_json import count, each, mapping, number, take, text  # slow to import

    name = take(document, "dataset", text)
    transcripts = take(document, "samples", each(lambda sample: _to_transcript(sample, name)), None)
    if transcripts is None:
        rate = take(take(document, "metrics", mapping), "pass_rate", number)
        total = take(document, "totalSamples", count)
        return ForeignRun(name, summaries={_ANSWERS: Summary(_ANSWERS, "mean", rate, None, total)})
    return ForeignRun(name, transcripts, notes=["an id is a hash of input and expected"])


def _to_transcript(fields: Mapping[str, Any], dataset: str) -> Transcript:
    from evalspec.reporters.checked_json import flag, number, optional, take, text

    question, expected = take(fields, "input", text), take(fields, "expected", text)
    latency = take(fields, "latencyMs", optional(number), None)
    error = take(fields, "error", optional(text), None)
    answer = take(fields, "actual", optional(text), None)
    name = content_id({"input": question, "expected": expected, "context": None})
    sample = Sample(name, question, (expected,))
    if answer is None:
        exchange = Exchange(sample, error=error or "no reply")
        failed = Score.failed(f"no reply: {exchange.error}")
        return Transcript(dataset, 1, exchange, {_ANSWERS: failed, _LATENCY: _absent("no reply")})
    scores = {_ANSWERS: Score.scored(take(fields, "pass", flag))}
    scores[_LATENCY] = _absent("no latency") if latency is None else Score.scored(latency)
    return Transcript(dataset, 1, Exchange(sample, AgentReply(answer, latency_ms=latency)), scores)


def _absent(reason: str) -> Score:
    return Score.not_applicable(reason, Cause.OTHER)


def register_format(registry: Registry[DatasetFormat]) -> None:
    """Add the native format, with AgentSpec's report."""
    report = ForeignReport("AgentSpec report", _is_report, _parse_report)
    registry.add("jsonl", replace(JSONL, report=report))
