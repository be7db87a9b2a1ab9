"""OpenTelemetry: a log record for each score and one for the run, as OTLP/JSON over HTTP.

Names are those of its conventions for generative AI (the event gen_ai.evaluation.result) and for tests (test.*).
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.json import encode

from evalspec import __version__
from evalspec.base.errors import ServiceError
from evalspec.base.foreign_text import encodable
from evalspec.base.text import one_line
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.model import Run, ScoreStatus, VerdictStatus
from evalspec.reports.base import StoredExchanges
from evalspec.reports.exports.base import ExportedScore, Exporter, describe_sent, iterate_batches, iterate_scores
from evalspec.reports.exports.connecting import Connection, connect
from evalspec.targets.http.failures import shown_url
from evalspec.targets.http.pacing import persist

_AT_ONCE = 512
_RETRIES = 3
_RUN_STATUS = {VerdictStatus.PASS: "success", VerdictStatus.FAIL: "failure", VerdictStatus.INCOMPLETE: "aborted"}
"""The convention has no word for a run without a gate."""
_CASE_STATUS = {True: "pass", False: "fail"}


async def send_logs(run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    """Send the records in batches to /v1/logs of a collector."""
    counts: Counter[str] = Counter()
    resource = {"attributes": _attributes({"service.name": to.name or run.fingerprint.agent_name})}
    async with connect("otel", to) as connection:
        for batch in iterate_batches(_list_records(run, exchanges, counts), _AT_ONCE):
            scope = {"scope": {"name": "evalspec", "version": __version__}, "logRecords": batch}
            body = encode({"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]})
            await persist(partial(_post, connection, body), _RETRIES)
    return f"{describe_sent(counts)} to {shown_url(to.url)}"


async def _post(connection: Connection, body: bytes) -> None:
    """Send a batch. A collector may accept it and reject some of its records."""
    answer = await connection.request("POST", "/v1/logs", body)
    try:
        said = (json.loads(answer or b"{}") or {}).get("partialSuccess") or {}
        rejected = int(said.get("rejectedLogRecords") or 0)
    except (ValueError, AttributeError, TypeError):
        raise ServiceError("the collector's answer is not OTLP/JSON, so it is unknown what it accepted") from None
    if rejected:
        why = connection.service.excerpt(one_line(str(said.get("errorMessage") or "no reason given")))
        raise ServiceError(f"the collector rejected {rejected:,} records: {why}")


def _list_records(run: Run, exchanges: StoredExchanges, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    for one in iterate_scores(run, exchanges, counts):
        yield _record("gen_ai.evaluation.result", _common(run) | _describe(one), one.span)
    told = {"evalspec.partial": run.partial, "evalspec.exit_code": run.exit_code, "evalspec.reasons": list(run.reasons)}
    status = {"test.suite.run.status": _RUN_STATUS.get(run.verdict)}
    yield _record("evalspec.run", _common(run) | status | {"evalspec.verdict": str(run.verdict)} | told, None)


def _common(run: Run) -> dict[str, Any]:
    return {"test.suite.name": run.fingerprint.agent_name, "evalspec.run.id": run.id}


def _describe(one: ExportedScore) -> dict[str, Any]:
    """Return the attributes of a score. One without a value has the cause as its type of error."""
    row, score = one.row, one.score
    return {
        "gen_ai.evaluation.name": one.metric,
        "gen_ai.evaluation.score.value": score.value,
        "gen_ai.evaluation.score.label": one.label,
        "gen_ai.evaluation.explanation": score.reason,
        "error.type": str(score.cause) if score.status is ScoreStatus.FAILED else None,
        "test.case.name": f"{row.dataset.name}/{row.sample.id}",
        "test.case.result.status": None if row.attempt.passed is None else _CASE_STATUS[row.attempt.passed],
        "evalspec.dataset": row.dataset.name,
        "evalspec.sample": row.sample.id,
        "evalspec.attempt": one.attempt,
    }


def _record(event: str, attributes: Mapping[str, Any], span: tuple[str, str] | None) -> dict[str, Any]:
    """Return a log record. When a score was made is unknown, so it has only the time of the export."""
    parent = {} if span is None else {"traceId": span[0], "spanId": span[1]}
    return {
        "observedTimeUnixNano": str(time.time_ns()),
        "eventName": event,
        "attributes": _attributes(attributes),
        **parent,
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP/JSON writes them. None: unknown, so there is none."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": encodable(value)}


OTEL = Exporter("otel", send_logs)
