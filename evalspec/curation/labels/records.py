"""Labels as JSON objects: what is valid, and one line for each fault."""

import shlex
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.model.base import built
from evalspec.model.labels import OF_REPLIES, OF_SCORES, Label, LabelVerdict
from evalspec.model.typed_json import explain
from evalspec.runs.store.run_store import is_run_name

LONGEST_NOTE = 4000
WITH_VALUE = (LabelVerdict.DISAGREE, LabelVerdict.RATED)
_LONGEST_NAME = 100
_FIX_STORED = "the file was changed; restore it, or delete it"
_IN_NOTES = frozenset("\n\t")
KEYS = {field.name: field.encode_name for field in msgspec.structs.fields(Label)}
"""The key of each field in JSON, and its column in CSV."""

Fault = tuple[str, str, str]
"""Key, message and fix."""


_TIME = "write it as 2026-11-21T10:37:06Z, or leave it out"
_FIXES = {
    "": "write one label per line, as `evalspec labels export` does",
    "run": "write the id of a run; evalspec runs list shows the ids",
    "dataset": "name the dataset of the run",
    "sample": "write the id of the sample",
    "labeller": "name the person",
    "verdict": f"write {', '.join(LabelVerdict)}",
    "metric": "name the metric of the score, or leave it out for the reply as a whole",
    "attempt": "write the number of the attempt, from 1, or leave it out",
    "value": "write the score as a number, or leave it out",
    "at": _TIME,
}
"""What to write for the keys of a line by hand. Others are copied."""


def parse_stored(data: Any, file: str, line: int, problems: list[Problem]) -> Label | None:
    """Return a label from a file of the store, or None and a problem. Keys of later releases are ignored."""
    try:
        label = msgspec.convert(data, built(Label))
    except msgspec.ValidationError as error:
        field, message = explain(error, data, Label)
        problems.append(Problem(message, _FIX_STORED, file, line, field))
        return None
    faults = list(list_faults(label))
    problems += [Problem(message, _FIX_STORED, file, line, key) for key, message, _ in faults]
    return None if faults else label


def parse_given(data: Any, file: str, line: int, problems: list[Problem], *, at: str) -> Label | None:
    """Return a label that a person imports, or None and its problems.

    `at`: its time, if it has none. A time of another zone becomes UTC.
    """
    if not isinstance(data, dict):
        problems.append(Problem("expected a JSON object", "write one label per line", file, line))
        return None
    known = set(KEYS.values())
    unknown = [str(key) for key in data if key not in known]
    problems += [Problem("unknown key", near_miss(key, known), file, line, key) for key in unknown]
    filled = {"at": at, **{key: value for key, value in data.items() if key in known}}
    try:
        label = msgspec.convert({**filled, "at": to_utc(filled["at"])}, built(Label))
    except msgspec.ValidationError as error:
        field, message = explain(error, filled, Label)
        problems.append(Problem(message, find_fix(field), file, line, field))
        return None
    faults = list(list_faults(label))
    problems += [Problem(message, fix, file, line, key) for key, message, fix in faults]
    return None if faults or unknown else label


def list_faults(label: Label) -> Iterator[Fault]:
    """Yield what the types of a label's fields do not exclude."""
    if not is_run_name(label.run):
        yield "run", f"'{label.run}' is not the id of a run", _FIXES["run"]
    if not label.dataset:
        yield "dataset", "is empty", _FIXES["dataset"]
    if not label.sample:
        yield "sample", "is empty", _FIXES["sample"]
    fault = explain_name(label.labeller)
    if fault is not None:
        yield "labeller", *fault
    if _parse_time(label.at) is None:
        yield "at", f"'{label.at}' is not a time with its zone", _TIME
    yield from _list_verdict_faults(label)
    note = explain_note(label.note)
    if note is not None:
        yield "note", *note


def _list_verdict_faults(label: Label) -> Iterator[Fault]:
    possible = (*(OF_REPLIES if label.metric is None else OF_SCORES), LabelVerdict.WITHDRAWN)
    if label.verdict not in possible:
        subject = "a reply" if label.metric is None else "a score"
        other = ", or name the metric of the score" if label.metric is None else ", or leave out the metric"
        yield "verdict", f"{subject} cannot be '{label.verdict}'", f"write {' or '.join(possible[:-1])}{other}"
    elif label.value is not None and label.verdict not in WITH_VALUE:
        yield "value", f"'{label.verdict}' has no value", "leave it out; only 'disagree' and 'rated' have one"
    elif label.value is None and label.verdict in WITH_VALUE:
        draw = f"evalspec label {label.run} --metric {shlex.quote(label.metric or 'METRIC')} --random 50"
        hint = f", or score without sight of the judge: {draw}" if label.verdict != "rated" else ""
        yield "value", f"'{label.verdict}' needs a value", f"give the score that you would have given{hint}"
    if label.verdict is not LabelVerdict.RATED and (label.is_blind or label.answers):
        yield (
            ("isBlind" if label.is_blind else "answers"),
            f"'{label.verdict}' has none",
            "write rated, or leave it out",
        )
    if label.metric is None and (label.shown_value is not None or label.metric_key or label.metric_identity):
        yield "metric", "is missing, but the label has a score", "name the metric of the score"


def explain_name(name: str) -> tuple[str, str] | None:
    """Return why a text cannot be the name of a person, and a fix; None if it can."""
    if not name or name != name.strip() or len(name) > _LONGEST_NAME or not _is_plain(name, frozenset()):
        fix = f"use 1 to {_LONGEST_NAME} characters, with no blanks around them and no control characters"
        return f"{name[:_LONGEST_NAME]!r} is not a name", fix
    return None


def explain_note(note: str | None) -> tuple[str, str] | None:
    """Return why a text cannot be a note, and a fix; None if it can."""
    if note is None:
        return None
    if not note.strip():
        return "is empty", "leave it out"
    if len(note) > LONGEST_NOTE:
        return f"has {len(note):,} characters; at most {LONGEST_NOTE:,} are possible", "shorten it"
    if not _is_plain(note, _IN_NOTES):
        return "has a control character", "remove it; line breaks and tabs are possible"
    return None


def make_label(values: Mapping[str, Any]) -> Label:
    """Return a label from values by field name.

    Raises:
        InvalidInput: A value is invalid.
    """
    label = Label(**values)
    problems = [Problem(message, fix, field=key) for key, message, fix in list_faults(label)]
    if problems:
        raise InvalidInput(problems)
    return label


def render_time(moment: datetime) -> str:
    """Return a time as labels have it: in UTC with microseconds, so that texts sort as times do."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def to_utc(at: Any) -> Any:
    """Return a time as labels have it; anything else as it is."""
    time = _parse_time(at) if isinstance(at, str) else None
    return at if time is None else render_time(time)


def _parse_time(at: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(at)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def find_fix(field: str) -> str:
    """Return what to write for a key of a label that is malformed, or for a line if the key is unknown."""
    root = field.partition(".")[0].partition("[")[0]
    return _FIXES.get(root, "copy it from `evalspec labels export`, or leave it out")


def _is_plain(text: str, allowed: frozenset[str]) -> bool:
    """Return whether a text has no control characters and no half of a surrogate pair."""
    return not any(sign not in allowed and unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in text)
