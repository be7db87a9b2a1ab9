"""The lines of `samples.jsonl`: one a reply, one or more a reply's scores, as JSON objects and back.

Every line ends with `"number"`, counted from 1, and `"crc"`, the CRC-32 of all before it: a line that was changed, cut
or taken out is known.

A reply: {"kind": "reply", "dataset", "id", "attempt", "status": "answered|failed", "response", "retrieved_contexts",
"retrieved_context_ids", "tool_calls", "usage": {"input_tokens", "output_tokens"}, "finish_reason", "latencyMs",
"error", "unreachable", "retrieval": {"candidate_ids", "deep_ids", "timingsMs", "oddities"}}, the last null where no
retriever was asked.
Where a retriever answered, `retrieved_contexts` is null and "retrieved_texts" has the digests of the texts, each of
which stands once in the log, before: {"kind": "text", "digest", "text"}.
Scores: {"kind": "scores", "dataset", "id", "attempt", "scores": {metric: {"status", "value", "reason", "evidence",
"repeats", "cause": "dataset|reply|judge|other"}}, "judgeUsage": {metric: {"calls", "retries", "input_tokens",
"output_tokens", "uncounted"}}}: those that were known together, and what the judge consumed since the record before.
The cause is null where a score needs none.
Report: {"kind": "report", "run", "sha256", "inputsSha256"}: the run of this id is finished, and these are the digests
of its report.json and inputs.jsonl. The last counts.
A later reply to the same attempt takes the place of the earlier and of its scores. Every key is always there; null says
that the thing is not known, or not kept. Later versions may add keys.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import asdict

from evalspec.errors import StoreError
from evalspec.jsonl import FINITE
from evalspec.model import (
    AgentReply,
    Cause,
    Exchange,
    JudgeUsage,
    Sample,
    SampleStatus,
    Score,
    ScoreStatus,
    SearchTrace,
    Usage,
    known_finish_reason,
)
from evalspec.store.files import store_errors

REPLY = "reply"
SCORES = "scores"
TEXT = "text"
REPORT = "report"
WITHHELD = "withheld (--no-content)"
"""Stands where a text was, and was not kept."""

Change = Callable[[Any], Any]
"""Takes a JSON value and gives one back, with its secrets hidden or restored (manifest.redaction)."""

_NEVER_HIDDEN = frozenset(
    {"kind", "dataset", "id", "attempt", "status", "cause", "usage", "judgeUsage", "line", "digest", "retrieved_texts"}
)
"""What identifies a record, or is counted by us: a variable that happens to hold an ordinary word would make the log
unreadable, and names and ids come from the user's own files."""

NOT_A_RECORD = "not a record of a run"


def describe_mending(run: str = "") -> str:
    """What to do about a damaged run."""
    named = f" {run}" if run else ""
    return f"`evalspec runs verify{named}` lists all damage; `evalspec evaluate --resume{named}` redoes what was lost"


MEND = describe_mending()
_TAIL = re.compile(rb',"number":([1-9][0-9]{0,14}),"crc":"([0-9a-f]{8})"\}\n\Z')
_TAIL_FORM = b',"number":%d,"crc":"%08x"}\n'
_DIGEST = re.compile("[0-9a-f]{8,64}")
_CRC_LENGTH = len('00000000"}\n')
_LONGEST_TAIL = 48
_AS_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_AS_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def reply_record(dataset: str, attempt: int, exchange: Exchange) -> dict[str, Any]:
    """What came back for one sample, ready for JSON. `attempt` counts from 1."""
    reply = exchange.reply
    usage = reply.usage if reply else None
    return {
        "kind": REPLY,
        "dataset": dataset,
        "id": exchange.sample.id,
        "attempt": attempt,
        "status": str(SampleStatus.ANSWERED if reply else SampleStatus.FAILED),
        "response": reply.response if reply else None,
        "retrieved_contexts": reply.retrieved_contexts if reply else None,
        "retrieved_context_ids": reply.retrieved_context_ids if reply else None,
        "tool_calls": reply.tool_calls if reply else None,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else None,
        "finish_reason": reply.finish_reason if reply else None,
        "latencyMs": reply.latency_ms if reply else None,
        "error": exchange.error,
        "unreachable": exchange.unreachable,
        "retrieval": _retrieval(reply),
    }


def _retrieval(reply: AgentReply | None) -> dict[str, Any] | None:
    if reply is None or reply.trace is None:
        return None
    return {
        "candidate_ids": reply.candidate_ids,
        "deep_ids": reply.deep_ids,
        "timingsMs": dict(reply.trace.timings_ms),
        "oddities": dict(reply.trace.oddities),
    }


def scores_record(
    dataset: str, sample_id: str, attempt: int, scores: Mapping[str, Score], usage: Mapping[str, JudgeUsage]
) -> dict[str, Any]:
    """Some metrics on one reply, ready for JSON. `usage`: what the judge consumed since the record before."""
    return {
        "kind": SCORES,
        "dataset": dataset,
        "id": sample_id,
        "attempt": attempt,
        "scores": {
            metric: {
                "status": str(score.status),
                "value": score.value,
                "reason": score.reason,
                "evidence": score.evidence_or_none,
                "repeats": score.repeats,
                "cause": score.cause,
            }
            for metric, score in scores.items()
        },
        "judgeUsage": {metric: asdict(used) for metric, used in usage.items()},
    }


def change_texts(record: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The record with its texts hidden or restored; the names of metrics and of metadata stay."""
    return {key: _change_field(key, value, change) for key, value in record.items()}


def _change_field(key: str, value: Any, change: Change) -> Any:
    if value is None or key in _NEVER_HIDDEN:
        return value
    if key == "scores":
        return {metric: change_texts(score, change) for metric, score in value.items()}
    if key == "metadata":
        return {name: change(item) for name, item in value.items()}
    return change(value)


def change_fingerprint(value: Any, change: Change) -> Any:
    """A fingerprint with its texts hidden. Digests stay, which runs are compared by: no secret can be read from one."""
    if isinstance(value, str):
        label, mark, digest = value.rpartition("#")
        return f"{change(label)}{mark}{digest}" if mark and _DIGEST.fullmatch(digest) else change(value)
    if isinstance(value, Mapping):
        return {key: item if _is_digest(key) else change_fingerprint(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [change_fingerprint(item, change) for item in value]
    return value


def _is_digest(key: str) -> bool:
    return key.casefold().endswith("sha256") or key in ("references", "fields")


def without_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with only what was measured: no answer, passage, reason or error message."""
    if record["kind"] == REPLY:
        kept = dict.fromkeys(("response", "retrieved_contexts", "retrieved_context_ids", "tool_calls"))
        kept["finish_reason"] = known_finish_reason(record["finish_reason"])
        error = None if record["error"] is None else WITHHELD
        retrieval = record["retrieval"] and {**record["retrieval"], "candidate_ids": None, "deep_ids": None}
        return {**record, **kept, "error": error, "retrieval": retrieval}
    return {**record, "scores": {metric: _without_reason(score) for metric, score in record["scores"].items()}}


def _without_reason(score: Mapping[str, Any]) -> dict[str, Any]:
    reason = None if score["status"] == ScoreStatus.SCORED or score["reason"] is None else WITHHELD
    return {**score, "reason": reason, "evidence": None}


def parse_reply_record(record: Mapping[str, Any], sample: Sample) -> Exchange:
    """The exchange that `reply_record` was given; `sample` is the one of the record's dataset and id.

    Raises:
        StoreError: a key is missing or holds something else.
    """
    try:
        if SampleStatus(record["status"]) is SampleStatus.FAILED:
            return Exchange(sample, error=record["error"], unreachable=record["unreachable"])
        retrieval = record.get("retrieval") or {}
        reply = AgentReply(
            response=record["response"],
            retrieved_contexts=_tuple(record["retrieved_contexts"]),
            retrieved_context_ids=_tuple(record["retrieved_context_ids"]),
            tool_calls=_tuple(record["tool_calls"]),
            usage=None if record["usage"] is None else Usage(**record["usage"]),
            latency_ms=record["latencyMs"],
            candidate_ids=_tuple(retrieval.get("candidate_ids")),
            deep_ids=_tuple(retrieval.get("deep_ids")),
            trace=SearchTrace(retrieval["timingsMs"], retrieval["oddities"]) if retrieval else None,
            finish_reason=record.get("finish_reason"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(record, error) from error
    return Exchange(sample, reply)


def parse_scores_record(record: Mapping[str, Any]) -> dict[str, Score]:
    """The scores that `scores_record` was given; tuples in their evidence have become lists.

    Raises:
        StoreError: a key is missing or holds something else.
    """
    try:
        return {
            metric: Score(
                ScoreStatus(fields["status"]),
                fields["value"],
                fields["reason"],
                tuple(fields["repeats"]),
                None if fields.get("cause") is None else Cause(fields["cause"]),
                fields["evidence"],
            )
            for metric, fields in record["scores"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _malformed(record, error) from error


def encode_record(record: Mapping[str, Any], number: int) -> bytes:
    """One line of valid UTF-8 JSON with its newline. Half a surrogate pair in a text makes the line plain ASCII.

    `number`: of the line in its file, from 1.

    Raises:
        StoreError: it holds what JSON cannot say (NaN, an object) or is nested too deeply.
    """
    try:
        try:
            text = _AS_TEXT.encode(record).encode()
        except UnicodeEncodeError:
            text = _AS_ASCII.encode(record).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{_name(record)} cannot be stored as JSON: {error}") from error
    return _seal(text[:-1], number)


def renumber(line: bytes, number: int) -> bytes:
    """A line with another number."""
    return _seal(_TAIL.sub(b"}\n", line).removesuffix(b"}\n"), number)


def _seal(text: bytes, number: int) -> bytes:
    """A record without its closing brace, with its number and checksum."""
    checked = text + b',"number":%d,"crc":"' % number
    return text + _TAIL_FORM % (number, zlib.crc32(checked))


class LogLine(NamedTuple):
    """A line of a stored file. `place`: the byte that it begins at; `at`: counted from 1.

    `damage`: what is wrong with it or lost before it, None where all is as it was written. `is_intact`: it is itself.
    """

    place: int
    at: int
    text: bytes
    is_intact: bool
    damage: str | None


def read_lines(path: Path) -> Iterator[LogLine]:
    """The lines of a stored file, each with what is wrong. What follows the last newline is torn and passed over.

    Raises:
        StoreError: the file cannot be read.
    """
    place, expected = 0, 1
    with store_errors(path), path.open("rb") as lines:
        for at, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            if line.endswith(_TAIL_FORM % (expected, zlib.crc32(line[:-_CRC_LENGTH]))):  # twice as fast as to parse it
                yield LogLine(place, at, line, True, None)
            elif (number := parse_number(line)) is None:
                yield LogLine(place, at, line, False, f"{path}:{at}: damaged: it is not what was written")
            else:
                missing = f"{path}:{at}: record {expected} should stand here, and it is record {number}"
                yield LogLine(place, at, line, True, missing)
                expected = number
            expected += 1
            place += len(line)


def parse_number(line: bytes) -> int | None:
    """The number of a line, None where it is not as it was written."""
    found = _TAIL.search(line[-_LONGEST_TAIL:])
    if found is None or zlib.crc32(line[:-_CRC_LENGTH]) != int(found[2], 16):
        return None
    return int(found[1])


def read_log(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a log in the order of writing, each with its place: the byte that its line begins at.

    Raises:
        StoreError: the file cannot be read, or a line, named as `file:line`, is damaged or missing.
    """
    for line in read_lines(path):
        if line.damage:
            raise StoreError(f"{line.damage}. {MEND}")
        yield line.place, parse_object(line.text, f"{path}:{line.at}")


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """One record; `place` is named in the error.

    Raises:
        StoreError: it is not what was written.
    """
    if parse_number(line) is None:
        raise StoreError(f"{place}: damaged: it is not what was written. {MEND}")
    try:
        record = json.loads(line, **FINITE)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{place}: {NOT_A_RECORD}: {error}. {MEND}") from error
    if not isinstance(record, dict):
        raise StoreError(f"{place}: {NOT_A_RECORD}: an object is expected. {MEND}")
    return record


def _tuple(items: list[Any] | None) -> tuple[Any, ...] | None:
    return None if items is None else tuple(items)


def _malformed(record: Mapping[str, Any], error: Exception) -> StoreError:
    what = f"no key {error}" if isinstance(error, KeyError) else str(error)
    return StoreError(f"{_name(record)} is malformed: {what}")


def _name(record: Mapping[str, Any]) -> str:
    parts = [str(record[key]) for key in ("dataset", "id", "metric") if key in record]
    return f"the {record.get('kind', 'unknown')} record of {' / '.join(parts)}"
