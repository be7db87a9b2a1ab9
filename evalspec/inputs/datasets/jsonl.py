"""The native format: one JSON object per line, with AgentSpec's field names.

Common lines are decoded with msgspec. Other lines (groups, nulls, lone surrogates, deep nesting, errors) are left to
the strict reader, which reports all errors.
"""

import json
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import inert, normalize
from evalspec.base.registry import find_close
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source, Written
from evalspec.inputs.datasets.jsonl_lines import (
    PlainSample,
    list_fields,
    parse_plain_samples,
    read_expected,
    read_plainly,
    render_reply,
)
from evalspec.inputs.datasets.located import LineOfFile, SeenIds, content_id
from evalspec.inputs.datasets.losses import list_default_losses, list_document_losses
from evalspec.inputs.datasets.record_files import read_native_lines
from evalspec.inputs.datasets.record_names import NAME_COLUMNS
from evalspec.model import AgentReply, Message, Sample
from evalspec.model.samples import render_input

if TYPE_CHECKING:
    from evalspec.inputs.datasets.jsonl_strict import JsonlSample

_SHOWN = 8
_ALIKE = 0.8


def explain_unknown_form(columns: Collection[str], shown_as: str, line: int) -> Problem:
    """Return the problem of a file whose records no format has."""
    named = ", ".join(map(inert, list(columns)[:_SHOWN])) + (", …" if len(columns) > _SHOWN else "")
    message = f"no format has records with the keys {named}" if columns else "the record has no keys"
    nearest = find_nearest(columns)
    hint = f"the nearest is {nearest.name} ({nearest.summary}); " if nearest is not None else ""
    fix = f"{hint}{NAME_COLUMNS}, or write input and expected"
    return Problem(message, fix, shown_as, line)


def find_nearest(columns: Collection[str]) -> DatasetFormat | None:
    """Return the format that shares the most names with a record, or has similar ones; None if none does."""
    known = [one for one in DATASETS if one.columns and not one.is_generic]
    best = max(known, key=lambda one: (_compute_likeness(columns, one.columns), -len(one.columns)), default=None)
    return best if best is not None and _compute_likeness(columns, best.columns) > 0 else None


def _compute_likeness(columns: Collection[str], names: Collection[str]) -> float:
    """Return how many columns have a name of the format. Similar ones count half."""
    shared = sum(column in names for column in columns)
    similar = sum(find_close(column, names, _ALIKE) is not None for column in columns if column not in names)
    return shared + similar / 2


_OWN_KEYS = frozenset({"input", "expected", "expected_output", "turns", "user"})
_read_lines = partial(read_plainly, parse=parse_plain_samples)


def read_jsonl(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield the samples of a JSONL file. Problems go to `notes` with their line."""
    seen = SeenIds("id", notes.problems)
    line = LineOfFile(source.shown_as)
    is_first = True
    for line.number, value in read_native_lines(source.path, source.shown_as, notes.problems, _read_lines):
        if is_first and isinstance(value, dict) and not value.keys() & _OWN_KEYS:
            notes.problems.append(explain_unknown_form(value.keys(), source.shown_as, line.number))
            return
        is_first = False
        record = value if isinstance(value, PlainSample) else _parse_strictly(value, line, notes)
        if record is None:
            continue
        sample, nameless = _to_sample(record, line.number), ""
        if not record.id:
            sample, nameless = _name_sample(sample, record), "this sample (same input, expected and context)"
        if seen.add(sample.id, line, (), nameless):
            yield sample


def _parse_strictly(value: Any, line: LineOfFile, notes: ReadingNotes) -> "JsonlSample | None":
    from evalspec.inputs.datasets.jsonl_strict import parse_line

    return parse_line(value, line, notes)


def _to_sample(record: "JsonlSample | PlainSample", line: int) -> Sample:
    if not isinstance(record, PlainSample):
        from evalspec.inputs.datasets.jsonl_strict import add_acts, to_plain

        return add_acts(_to_sample(to_plain(record), line), record)
    asked, relevant = record.input, record.relevant
    return Sample(
        normalize("NFC", record.id) if record.id else "",
        asked if isinstance(asked, str) else tuple(Message(turn.role, turn.content) for turn in asked),
        read_expected(record.expected),
        record.context,
        record.reference_contexts,
        dict.fromkeys(relevant, 1) if isinstance(relevant, tuple) else relevant,
        tuple(dict.fromkeys(record.tags)) if record.tags else (),
        record.metadata or {},
        line,
        answerable=record.answerable,
        forbidden_tools=record.forbidden_tools,
        max_steps=record.max_steps,
    )


def _name_sample(sample: Sample, record: "JsonlSample | PlainSample") -> Sample:
    """Return a sample with an id of its content."""
    asked = render_input(sample.user_input)
    content: dict[str, Any] = {"input": asked, "expected": record.expected, "context": record.context}
    tools, state = sample.expected_tools, None if isinstance(record, PlainSample) else record.expected_state
    content |= {} if tools is None else {"expected_tools": to_builtins(tools)}
    others = {"turns": sample.turns, "user": sample.user, "checks": sample.checks}
    content |= {key: to_builtins(value) for key, value in others.items() if value}
    kept = {"forbidden_tools": record.forbidden_tools, "max_steps": record.max_steps, "expected_state": state}
    content |= {key: value for key, value in kept.items() if value is not None}
    return replace(sample, id=content_id(content))


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    losses = list_document_losses(content) + list_default_losses(content)
    both = sum(
        sample.groups is not None and any(g != 1 for g in (sample.qrels or {}).values()) for sample in content.samples
    )
    return losses + ([f"grades beside AND/OR groups of {both} samples"] if both else [])


def write_jsonl(content: DatasetContent, path: Path) -> Written:
    """Write one line per sample, with ids."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        lines = (_to_line(sample, content.replies.get(sample.id)) for sample in content.samples)
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return Written(len(content.samples))


def _to_line(sample: Sample, reply: AgentReply | None) -> dict[str, Any]:
    """Return the line of a sample. A recorded reply is in it, and no empty answer, which would only seem expected."""
    fields = list_fields(sample)
    fields["expected"] = fields["expected"] or ("" if reply is None else None)
    fields |= {} if reply is None else render_reply(reply)
    return {key: value for key, value in fields.items() if value is not None}


JSONL = DatasetFormat(
    name="jsonl",
    summary="one JSON object per line, AgentSpec's field names",
    read=read_jsonl,
    recognises=lambda path, _head: path.name.removesuffix(".gz").endswith(".jsonl"),
    list_losses=list_losses,
    write=write_jsonl,
    takes_replies=True,
)
