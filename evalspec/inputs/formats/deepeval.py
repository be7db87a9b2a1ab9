"""deepeval: goldens and test cases, as `EvaluationDataset.save_as` writes them. Their `context` is the truth.

A conversational golden with turns is a conversation up to the user's last turn. What the assistant says after it is
the recorded reply. Without turns there is nothing to send, because only deepeval simulates users.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.record_files import Container, FileRow, probe, read_rows
from evalspec.inputs.datasets.record_form import RecordForm, Variant, has_columns
from evalspec.inputs.datasets.record_values import BadValue, parse_cell
from evalspec.inputs.datasets.record_writing import Writer, make_format
from evalspec.model import Sample

_SCENARIO, _TURNS, _OUTCOME = "scenario", "turns", "expected_outcome"
_TURN = frozenset({"role", "content"})
_LINES_SHOWN = 5
_MARKS = (
    "actual_output",
    "retrieval_context",
    "additional_metadata",
    "source_file",
    "tools_called",
    "custom_column_key_values",
)


def _adapt(record: dict[str, Any]) -> dict[str, Any]:
    """Return a conversational golden with its conversation and the reply to it; another record as it is."""
    turns = record.get(_TURNS)
    if "input" in record or not isinstance(turns, list):
        return record
    roles = [turn.get("role") if isinstance(turn, dict) else None for turn in turns]
    if "user" not in roles:
        raise BadValue("no turn of the conversation is the user's", 'write turns as {"role": "user", "content": …}')
    end = len(roles) - roles[::-1].index("user")
    replies = [turn for turn, role in zip(turns[end:], roles[end:], strict=True) if role == "assistant"]
    has_more = any(isinstance(turn, dict) and turn.keys() - _TURN for turn in turns)
    whole = {**record, "input": turns[:end]}
    if not has_more:
        del whole[_TURNS]
    if replies:
        whole |= {
            "actual_output": replies[-1].get("content"),
            "retrieval_context": replies[-1].get("retrieval_context"),
        }
    return whole


_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("input",),
        "expected": ("expected_output",),
        "reference_contexts": ("context",),
        "context": ("retrieval_context",),
        "metadata": ("additional_metadata",),
        "tags": ("tags",),
        "response": ("actual_output",),
        "expected_tools": ("expected_tools",),
        "tool_calls": ("tools_called",),
    },
    variants=(
        Variant(
            {},
            having=frozenset({_OUTCOME}),
            notice=f"`{_OUTCOME}` describes a conversation, so it is metadata; if it is the right answer to the last "
            f"turn, set `fields: {{expected: {_OUTCOME}}}`",
        ),
    ),
    metadata=frozenset(
        {
            "source_file",
            "name",
            "comments",
            "custom_column_key_values",
            _SCENARIO,
            _TURNS,
            _OUTCOME,
            "user_description",
            "chatbot_role",
        }
    ),
    adapt=_adapt,
    delimiter="|",
    opens_cells=(_TURNS,),
)
_is_marked = has_columns({"input"}, _MARKS)
_expects_tools = has_columns({"input"}, {"expected_tools"}, {"expected_output"})
_is_golden = has_columns({"input"}, {"expected_output"})
_is_conversation = has_columns({_SCENARIO, _TURNS}, {_OUTCOME, "user_description", "chatbot_role"})


def _recognises(path: Path, head: bytes) -> bool:
    # in JSON Lines, input and expected_output alone are the native format, which accepts both names
    is_lines = probe(path, head).container is Container.LINES
    return (
        _is_marked(path, head)
        or _expects_tools(path, head)
        or _is_conversation(path, head)
        or (not is_lines and _is_golden(path, head))
    )


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    rows = read_rows(source.path, source.shown_as, notes.problems, notes.warnings)
    return _FORM.read_from(_leave_out_scenarios(rows, source, notes), source, notes)


def _leave_out_scenarios(rows: Iterator[FileRow], source: Source, notes: ReadingNotes) -> Iterator[FileRow]:
    """Yield the rows that have something to send, and report the others together."""
    lines, has_others = [], False
    for row in rows:
        if _is_scenario(row.value):
            lines.append(row.line)
        else:
            has_others = True
            yield row
    if lines:
        shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", …" if len(lines) > _LINES_SHOWN else "")
        message = f"goldens with a scenario but no turns, because evalspec does not simulate users: lines {shown}"
        fix = "let deepeval simulate the conversations, and save the test cases with their turns"
        found = notes.warnings if has_others else notes.problems
        found.append(Problem(f"{'skipped' if has_others else 'only'} {message}", fix, source.shown_as, lines[0]))


def _is_scenario(record: Any) -> bool:
    if not isinstance(record, dict) or "input" in record or not record.keys() & {_SCENARIO, _TURNS}:
        return False
    turns = record.get(_TURNS)
    return not (parse_cell(turns) if isinstance(turns, str) else turns)


DEEPEVAL = make_format(
    "deepeval",
    "deepeval's goldens: input, expected_output, context (JSON or CSV)",
    _FORM,
    _recognises,
    Writer(
        _FORM,
        complete=lambda record, _: {"actual_output": None, **record},
        arguments_key="input_parameters",
        suffix=".json",
    ),
    read=_read,
)
