"""The lines of `samples.jsonl`: one a reply, one a score, as JSON objects and back.

A reply: {"kind": "reply", "dataset", "id", "status": "answered|failed", "response", "retrieved_contexts",
"retrieved_context_ids", "tool_calls", "usage": {"input_tokens", "output_tokens"}, "latencyMs", "error"}.
A score: {"kind": "score", "dataset", "id", "metric", "status", "value", "reason", "evidence"}.
Every key is always there; null says that the thing is not known. Later versions may add keys and kinds.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.errors import StoreError
from evalspec.jsonl import parse_json
from evalspec.records import AgentReply, Exchange, Sample, SampleStatus, Score, ScoreStatus, Usage
from evalspec.store.files import store_errors

REPLY = "reply"
SCORE = "score"

_AS_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_AS_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def reply_record(dataset: str, exchange: Exchange) -> dict[str, Any]:
    """What came back for one sample, ready for JSON."""
    reply = exchange.reply
    usage = reply.usage if reply else None
    return {
        "kind": REPLY,
        "dataset": dataset,
        "id": exchange.sample.id,
        "status": str(SampleStatus.ANSWERED if reply else SampleStatus.FAILED),
        "response": reply.response if reply else None,
        "retrieved_contexts": reply.retrieved_contexts if reply else None,
        "retrieved_context_ids": reply.retrieved_context_ids if reply else None,
        "tool_calls": reply.tool_calls if reply else None,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else None,
        "latencyMs": reply.latency_ms if reply else None,
        "error": exchange.error,
    }


def score_record(dataset: str, sample_id: str, metric: str, score: Score) -> dict[str, Any]:
    """One metric on one sample, ready for JSON."""
    return {
        "kind": SCORE,
        "dataset": dataset,
        "id": sample_id,
        "metric": metric,
        "status": str(score.status),
        "value": score.value,
        "reason": score.reason,
        "evidence": score.evidence,
    }


def parse_reply_record(record: Mapping[str, Any], sample: Sample) -> Exchange:
    """The exchange that `reply_record` was given; `sample` is the one of the record's dataset and id.

    Raises:
        StoreError: a key is missing or holds something else.
    """
    try:
        if SampleStatus(record["status"]) is SampleStatus.FAILED:
            return Exchange(sample, error=record["error"])
        reply = AgentReply(
            response=record["response"],
            retrieved_contexts=_tuple(record["retrieved_contexts"]),
            retrieved_context_ids=_tuple(record["retrieved_context_ids"]),
            tool_calls=_tuple(record["tool_calls"]),
            usage=None if record["usage"] is None else Usage(**record["usage"]),
            latency_ms=record["latencyMs"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(record, error) from error
    return Exchange(sample, reply)


def parse_score_record(record: Mapping[str, Any]) -> Score:
    """The score that `score_record` was given; tuples in its evidence have become lists.

    Raises:
        StoreError: a key is missing or holds something else.
    """
    try:
        return Score(ScoreStatus(record["status"]), record["value"], record["reason"], record["evidence"])
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(record, error) from error


def encode_record(record: Mapping[str, Any]) -> bytes:
    """One line of valid UTF-8 JSON with its newline. Half a surrogate pair in a text makes the line plain ASCII.

    Raises:
        StoreError: it holds what JSON cannot say (NaN, an object) or is nested too deeply.
    """
    try:
        try:
            return (_AS_TEXT.encode(record) + "\n").encode()
        except UnicodeEncodeError:
            return (_AS_ASCII.encode(record) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{_name(record)} cannot be stored as JSON: {error}") from error


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a log in the order of writing. What follows the last newline is torn and passed over.

    Raises:
        StoreError: the file cannot be read, or a line, named as `file:line`, is not a record.
    """
    with store_errors(path), path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                yield _parse_line(line, f"{path}:{number}")


def _parse_line(line: bytes, place: str) -> dict[str, Any]:
    try:
        record = parse_json(line.decode())
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{place}: not a record of a run: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise StoreError(f"{place}: not a record of a run: an object with a kind is expected")
    return record


def _tuple(items: list[Any] | None) -> tuple[Any, ...] | None:
    return None if items is None else tuple(items)


def _malformed(record: Mapping[str, Any], error: Exception) -> StoreError:
    what = f"no key {error}" if isinstance(error, KeyError) else str(error)
    return StoreError(f"{_name(record)} is malformed: {what}")


def _name(record: Mapping[str, Any]) -> str:
    parts = [str(record[key]) for key in ("dataset", "id", "metric") if key in record]
    return f"the {record.get('kind', 'unknown')} record of {' / '.join(parts)}"
