"""Encode and decode the lines of `samples.jsonl`, a log of JSON objects.

Every line ends with `"number"`, counted from 1, and `"crc"`, the CRC-32 of everything before it. They reveal lines that
were changed, truncated or removed. There are five kinds of records:

- Reply: {"kind": "reply", "dataset", "id", "attempt", "status": "answered|failed", the keys of `model.AgentReply`,
  "error", "unreachable", "retries", "answerDigest", "questionDigest", "requestDigest"}. "retries" counts failed
  requests. "trace" is null without a retriever and without a stream. With one, `retrievedContexts` is null and
  "retrieved_texts" has the digests of the texts.
- Text: {"kind": "text", "digest", "text"}. Every retrieved text is in the log once, before the replies that contain it.
- Scores: {"kind": "scores", "dataset", "id", "attempt", "scores": {metric: the keys of `model.Score`}, "judgeUsage":
  {metric: the keys of `model.JudgeUsage`}}. A reply has one or more of these records. "judgeUsage" counts what the
  judge used since the previous record. "cause" is null for a score that needs none.
- Erased: {"kind": "erased", "dataset", "id"}: the texts of this sample were erased from the run, because a customer
  revoked its permission. Its scores are intact. Its other records have no texts.
- Report: {"kind": "report", "run", "sha256", "inputsSha256"}: the run with this id is finished, with the digests of its
  report.json and inputs.jsonl. The last one counts.

A later reply to the same attempt replaces the earlier reply and its scores. All keys are always present. Null means
unknown, or not stored. Later versions may add keys.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import ValidationError, convert, to_builtins
from msgspec.json import Encoder
from msgspec.structs import astuple

from evalspec.base.errors import StoreError
from evalspec.base.json_text import is_plain
from evalspec.base.jsonl import FINITE
from evalspec.model import (
    AgentReply,
    Exchange,
    JudgeUsage,
    Sample,
    SampleStatus,
    Score,
    ScoreStatus,
    known_finish_reason,
)
from evalspec.model.base import Record, built
from evalspec.model.fingerprints import Fingerprint
from evalspec.runs.store.files import store_errors

REPLY = "reply"
SCORES = "scores"
TEXT = "text"
REPORT = "report"
ERASED = "erased"
WITHHELD = "withheld (--no-content)"
"""Replaces a text that is not stored."""
NO_LONGER_KEPT = "erased (permission revoked)"
"""Replaces a text that was erased."""

Change = Callable[[Any], Any]
"""A function that returns a JSON value with its secrets redacted or restored (manifest.redaction)."""

_DIGESTS = ("answerDigest", "questionDigest", "requestDigest")
_NEVER_HIDDEN = frozenset(
    {
        "kind",
        "dataset",
        "id",
        "attempt",
        "status",
        "cause",
        "usage",
        "judgeUsage",
        "line",
        "digest",
        "retrieved_texts",
        *_DIGESTS,
    }
)
"""Keys that identify a record, or that evalspec counts. They are never redacted: a variable whose value is an ordinary
word would make the log unreadable. Names and ids come from the user's own files."""

_DOUBTFUL = ("evidence", "latencyMs", "metadata", "qrels", "toolCalls", "trace", "usage")
"""Keys whose values come from user code or services, as numbers or as any JSON. All other values are typed."""

NOT_A_RECORD = "not a record of a run"


def describe_repair(run: str = "") -> str:
    """Return the fix for a damaged run."""
    named = f" {run}" if run else ""
    return f"`evalspec runs verify{named}` lists all damage; `evalspec evaluate --resume{named}` repeats what was lost"


REPAIR = describe_repair()
_TAIL = re.compile(rb',"number":([1-9][0-9]{0,14}),"crc":"([0-9a-f]{8})"\}\n\Z')
_TAIL_FORM = b',"number":%d,"crc":"%08x"}\n'
_DIGEST = re.compile("[0-9a-f]{8,64}")
_CRC_LENGTH = len('00000000"}\n')
_LONGEST_TAIL = 48
_encode = Encoder().encode
_NO_REPLY = dict.fromkeys(AgentReply.__struct_encode_fields__)
_NO_TEXTS = dict.fromkeys(
    ("response", "retrievedContexts", "retrievedContextIds", "toolCalls", "candidateIds", "deepIds", *_DIGESTS)
)
_AS_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def to_fields(record: Record) -> dict[str, Any]:
    """Return the values of a record by their names in JSON, as they are."""
    return dict(zip(record.__struct_encode_fields__, astuple(record), strict=True))


def reply_record(dataset: str, attempt: int, exchange: Exchange) -> dict[str, Any]:
    """Return a reply, or a failed attempt, as a JSON-serializable record. `attempt` counts from 1."""
    reply = exchange.reply
    nested = {"usage": reply.usage, "trace": reply.trace} if reply else {}
    return {
        "kind": REPLY,
        "dataset": dataset,
        "id": exchange.sample.id,
        "attempt": attempt,
        "status": str(SampleStatus.ANSWERED if reply else SampleStatus.FAILED),
        **(to_fields(reply) if reply else _NO_REPLY),
        **{name: to_fields(record) for name, record in nested.items() if record},
        "error": exchange.error,
        "unreachable": exchange.unreachable,
        "retries": exchange.retries,
        "answerDigest": exchange.answer_digest,
        "questionDigest": exchange.question_digest,
        "requestDigest": exchange.request_digest,
    }


def scores_record(
    dataset: str, sample_id: str, attempt: int, scores: Mapping[str, Score], usage: Mapping[str, JudgeUsage]
) -> dict[str, Any]:
    """Return scores of one reply as a JSON-serializable record. `usage`: the judge's since the previous record."""
    return {
        "kind": SCORES,
        "dataset": dataset,
        "id": sample_id,
        "attempt": attempt,
        "scores": {
            metric: {**to_fields(score), "evidence": score.evidence_or_none} for metric, score in scores.items()
        },
        "judgeUsage": {metric: to_fields(used) for metric, used in usage.items()},
    }


def change_texts(record: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return the record with its texts redacted or restored. Names of metrics and metadata are unchanged."""
    return {key: _change_field(key, value, change) for key, value in record.items()}


def _change_field(key: str, value: Any, change: Change) -> Any:
    if value is None or key in _NEVER_HIDDEN:
        return value
    if key == "scores":
        return {metric: change_texts(score, change) for metric, score in value.items()}
    if key == "metadata":
        return {name: change(item) for name, item in value.items()}
    return change(value)


def change_fingerprint(fingerprint: Fingerprint, change: Change) -> Fingerprint:
    """Return a fingerprint with its texts redacted.

    Digests are unchanged: they reveal no secrets, and runs are compared by them.
    """
    return convert(_change_texts(to_builtins(fingerprint), change), built(Fingerprint))


def _change_texts(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        label, mark, digest = value.rpartition("#")
        return f"{change(label)}{mark}{digest}" if mark and _DIGEST.fullmatch(digest) else change(value)
    if isinstance(value, Mapping):
        return {key: item if _is_digest(key) else _change_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_change_texts(item, change) for item in value]
    return value


def _is_digest(key: str) -> bool:
    return key.casefold().endswith("sha256") or key in ("references", "fields")


def without_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with measurements only: no answers, passages, reasons or error messages."""
    if record["kind"] == REPLY:
        finish_reason = known_finish_reason(record["finishReason"])
        error = None if record["error"] is None else WITHHELD
        return {**record, **_NO_TEXTS, "finishReason": finish_reason, "error": error}
    return {**record, "scores": {metric: _without_reason(score) for metric, score in record["scores"].items()}}


def without_erased_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply or scores of an erased sample: measurements only, and the reason of every score says why."""
    bare = without_texts(record)
    if record["kind"] == REPLY:
        return {**bare, "error": bare["error"] and NO_LONGER_KEPT, "retrieved_texts": None}
    return {**bare, "scores": {metric: {**score, "reason": NO_LONGER_KEPT} for metric, score in bare["scores"].items()}}


def _without_reason(score: Mapping[str, Any]) -> dict[str, Any]:
    reason = None if score["status"] == ScoreStatus.SCORED or score["reason"] is None else WITHHELD
    return {**score, "reason": reason, "evidence": None}


def parse_reply_record(record: Mapping[str, Any], sample: Sample) -> Exchange:
    """Return the exchange that `reply_record` encoded. `sample`: the sample with the record's dataset and id.

    Raises:
        StoreError: A key is missing or has an invalid value.
    """
    try:
        is_failed = SampleStatus(record["status"]) is SampleStatus.FAILED
        return Exchange(
            sample,
            None if is_failed else convert(record, built(AgentReply)),
            record["error"],
            record["unreachable"],
            record["retries"],
            record.get("questionDigest"),
            record.get("requestDigest"),
        )
    except (KeyError, ValueError, ValidationError) as error:
        raise _malformed(record, error) from error


def parse_scores_record(record: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores that `scores_record` encoded. Tuples in their evidence become lists.

    Raises:
        StoreError: A key is missing or has an invalid value.
    """
    try:
        return {metric: convert(fields, built(Score)) for metric, fields in record["scores"].items()}
    except (AttributeError, KeyError, ValidationError) as error:
        raise _malformed(record, error) from error


def encode_record(record: Mapping[str, Any], number: int) -> bytes:
    """Return one line of valid UTF-8 JSON with its newline.

    A line is plain ASCII if it has a lone surrogate, or an integer of more than 64 bits.

    `number`: line number in the file, from 1.

    Raises:
        StoreError: The record has a value that JSON cannot represent (NaN, an object), or is nested too deeply.
    """
    try:
        text = _encode_plain(record) or _AS_ASCII.encode(record).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{_name(record)} cannot be stored as JSON: {error}") from error
    return _seal(text[:-1], number)


def _encode_plain(record: Mapping[str, Any]) -> bytes | None:
    """Return a record as JSON, or None for the few that only the standard library encodes unchanged, or refuses."""
    parts = (record, *record.get("scores", {}).values())
    doubtful = [part[key] for part in parts for key in _DOUBTFUL if part.get(key) is not None]
    try:
        return _encode(record) if is_plain(doubtful) else None
    except (TypeError, UnicodeEncodeError):  # a subclass of a plain type, or a lone surrogate
        return None


def renumber(line: bytes, number: int) -> bytes:
    """Return a line with another number and a new checksum."""
    return _seal(_TAIL.sub(b"}\n", line).removesuffix(b"}\n"), number)


def _seal(text: bytes, number: int) -> bytes:
    """Return a line. `text`: the encoded record without its closing brace."""
    checked = text + b',"number":%d,"crc":"' % number
    return text + _TAIL_FORM % (number, zlib.crc32(checked))


class LogLine(NamedTuple):
    """A line of a stored file. `place`: its byte offset. `at`: its line number, from 1.

    `damage`: the problem of this line, or that lines before it are missing; None if there is neither. `is_intact`:
    whether the line itself is undamaged.
    """

    place: int
    at: int
    text: bytes
    is_intact: bool
    damage: str | None


def read_lines(path: Path) -> Iterator[LogLine]:
    """Return the lines of a stored file with their damage. A torn line after the last newline is ignored.

    Raises:
        StoreError: The file cannot be read.
    """
    place, expected = 0, 1
    with store_errors(path), path.open("rb") as lines:
        for at, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            if line.endswith(_TAIL_FORM % (expected, zlib.crc32(line[:-_CRC_LENGTH]))):  # twice as fast as parsing
                yield LogLine(place, at, line, True, None)
            elif (number := parse_number(line)) is None:
                yield LogLine(place, at, line, False, f"{path}:{at}: damaged: the checksum does not match")
            else:
                missing = f"{path}:{at}: expected record {expected}, found record {number}"
                yield LogLine(place, at, line, True, missing)
                expected = number
            expected += 1
            place += len(line)


def parse_number(line: bytes) -> int | None:
    """Return the number of a line, or None if the line is damaged."""
    found = _TAIL.search(line[-_LONGEST_TAIL:])
    if found is None or zlib.crc32(line[:-_CRC_LENGTH]) != int(found[2], 16):
        return None
    return int(found[1])


def read_log(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the records of a log in order, each with the byte offset of its line.

    Raises:
        StoreError: The file cannot be read, or a line is damaged or missing. The message names the line.
    """
    for line in read_lines(path):
        if line.damage:
            raise StoreError(f"{line.damage}. {REPAIR}")
        yield line.place, parse_object(line.text, f"{path}:{line.at}")


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """Return one record. `place`: the location for the error message.

    Raises:
        StoreError: The line is damaged or is not a record.
    """
    if parse_number(line) is None:
        raise StoreError(f"{place}: damaged: the checksum does not match. {REPAIR}")
    try:
        record = json.loads(line, **FINITE)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{place}: {NOT_A_RECORD}: {error}. {REPAIR}") from error
    if not isinstance(record, dict):
        raise StoreError(f"{place}: {NOT_A_RECORD}: expected an object. {REPAIR}")
    return record


def _malformed(record: Mapping[str, Any], error: Exception) -> StoreError:
    what = f"no key {error}" if isinstance(error, KeyError) else str(error)
    return StoreError(f"{_name(record)} is malformed: {what}")


def _name(record: Mapping[str, Any]) -> str:
    parts = [str(record[key]) for key in ("dataset", "id", "metric") if key in record]
    return f"the {record.get('kind', 'unknown')} record of {' / '.join(parts)}"
