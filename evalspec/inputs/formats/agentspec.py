"""AgentSpec: its JSONL datasets, which are the native format, and the reports of `agentspec evaluate --json`."""

from collections.abc import Mapping
from typing import Any

from msgspec import field
from msgspec.structs import replace

from evalspec.inputs.datasets import jsonl
from evalspec.inputs.datasets.base import ForeignReport, ForeignRun, Malformed
from evalspec.inputs.datasets.located import content_id
from evalspec.model import AgentReply, Cause, Exchange, Sample, Score, StoredExchange, Summary
from evalspec.model.base import Number, Record

_LATENCY = "latency_p95"
_ANSWERS = "string_match(match=substring)"
"""Our name for AgentSpec's pass_rate, the share of answers that contain the expected text."""


class _Sample(Record, frozen=True, kw_only=True):
    input: str
    expected: str
    actual: str | None = None
    passed: bool = field(name="pass")
    latency_ms: Number | None = None
    error: str | None = None


class _Metrics(Record, frozen=True, rename=None):
    pass_rate: Number | None = None


class _Report(Record, frozen=True):
    dataset: str
    total_samples: int
    metrics: _Metrics
    samples: tuple[_Sample, ...] | None = None


def _is_report(document: Mapping[str, Any]) -> bool:
    return {"dataset", "totalSamples", "metrics"} <= document.keys() and "schemaVersion" not in document


def _build_run(report: _Report) -> ForeignRun:
    """Return a report as a run. Its samples have no ids, so they get the ids of dataset lines without one."""
    if report.samples is not None:
        exchanges = [_to_stored_exchange(sample, report.dataset) for sample in report.samples]
        return ForeignRun(report.dataset, exchanges, notes=["ids are hashes of input and expected"])
    if report.metrics.pass_rate is None:
        raise Malformed("is missing", "metrics.pass_rate")
    summary = Summary(value=report.metrics.pass_rate, scored=report.total_samples)
    return ForeignRun(report.dataset, summaries={_ANSWERS: summary})


def _to_stored_exchange(given: _Sample, dataset: str) -> StoredExchange:
    name = content_id({"input": given.input, "expected": given.expected, "context": None})
    sample = Sample(name, given.input, (given.expected,))
    if given.actual is None:
        exchange = Exchange(sample, error=given.error or "no reply")
        failed = Score.failed(f"no reply: {exchange.error}")
        return StoredExchange(dataset, 1, exchange, {_ANSWERS: failed, _LATENCY: _absent("no reply")})
    scores = {_ANSWERS: Score.scored(given.passed)}
    scores[_LATENCY] = _absent("no latency") if given.latency_ms is None else Score.scored(given.latency_ms)
    return StoredExchange(dataset, 1, Exchange(sample, AgentReply(given.actual, latency_ms=given.latency_ms)), scores)


def _absent(reason: str) -> Score:
    return Score.not_applicable(reason, Cause.OTHER)


JSONL = replace(jsonl.JSONL, report=ForeignReport("AgentSpec report", _is_report, _Report, _build_run))
