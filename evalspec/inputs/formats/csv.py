"""Plain tables: CSV and TSV with a header, in the names that people use."""

from pathlib import Path

from evalspec.inputs.datasets.record_files import Container, probe
from evalspec.inputs.datasets.record_form import REPLY_FIELDS, RecordForm, Variant, has_columns
from evalspec.inputs.datasets.record_names import (
    ANSWER,
    ANSWERS,
    CONTEXTS,
    IDS,
    QUESTIONS,
    REFERENCE_CONTEXTS,
    RELEVANT,
    REPLIES,
    RETRIEVED,
)
from evalspec.inputs.datasets.record_writing import Writer, make_format

_ANSWERED = Variant({"response": (*REPLIES, ANSWER)}, having=frozenset(ANSWERS))
_QUIZ = Variant(
    {"expected": (ANSWER, "answers")},
    having=frozenset({ANSWER, "answers"}),
    notice="`answer` is read as the right answer; set `fields: {expected: answer}` to confirm that, or "
    "`fields: {response: answer}` if it is the system's reply",
)
_RECORDED = Variant(
    {"tool_calls": ("tool_calls",), "usage": ("usage",), "latency_ms": ("latencyMs",), "steps": ("steps",)},
    having=frozenset({"latencyMs"}),
)
"""Recorded replies, in the keys of their own files."""
FORM = RecordForm(
    columns={
        "id": IDS,
        "input": QUESTIONS,
        "expected": ANSWERS,
        "context": CONTEXTS,
        "reference_contexts": REFERENCE_CONTEXTS,
        "relevant": RELEVANT,
        "answerable": ("answerable",),
        "tags": ("tags",),
        "metadata": ("metadata",),
        "response": REPLIES,
        "retrieved_context_ids": RETRIEVED,
    },
    variants=(_RECORDED, _ANSWERED, _QUIZ),
)
"""Records in no system's names."""

_NATIVE = FORM.columns.keys() - REPLY_FIELDS
_asks = has_columns(QUESTIONS)


def _is_table(path: Path, head: bytes) -> bool:
    is_named = Path(path.name.removesuffix(".gz")).suffix in (".csv", ".tsv")
    return bool(head) and probe(path, head).container is Container.CELLS and (is_named or _asks(path, head))


def _has_records(path: Path, head: bytes) -> bool:
    """Return whether a file has records, but not those of the native format."""
    found = probe(path, head)
    if found.container in (Container.TABLE, Container.FOLDER):
        return bool(found.columns)
    if found.container in (Container.CELLS, Container.OTHER) or not _asks(path, head):
        return False
    is_native = "input" in found.columns and (
        found.columns <= _NATIVE or not found.columns.isdisjoint({"expected", "expected_output", "turns", "user"})
    )
    if found.container is Container.DOCUMENT or not is_native:
        return True
    return not found.columns.isdisjoint((*REPLIES, *RETRIEVED))


CSV = make_format(
    "csv",
    "CSV or TSV with a header: question, answer and others",
    FORM,
    _is_table,
    Writer(FORM, omits=("answerable",), has_many_answers=True, has_conversations=True, suffix=".csv"),
    is_generic=True,
)
RECORDS = make_format(
    "records",
    "other records in JSON, JSON Lines, Parquet, Arrow or a Hugging Face folder",
    FORM,
    _has_records,
    is_generic=True,
)
