"""Names that people give to the columns of a dataset when no system prescribes them, and how a column is found."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from evalspec.base.errors import Problem, ServiceError
from evalspec.base.foreign_text import inert
from evalspec.base.json_path import explain_bad_query, select_values
from evalspec.base.registry import find_close
from evalspec.inputs.datasets.filters import ABSENT, find_path, find_value
from evalspec.inputs.datasets.record_values import BadValue

QUESTIONS = ("input", "question", "query", "user_input", "prompt", "instruction", "user_query", "utterance")
ANSWERS = (
    "expected",
    "expected_output",
    "expected_answer",
    "ground_truth",
    "ground_truths",
    "reference",
    "references",
    "reference_answer",
    "reference_output",
    "reference_outputs",
    "correct_answer",
    "gold_answer",
    "golden_answer",
    "gold",
    "ideal",
    "target",
)
REPLIES = (
    "response",
    "actual_output",
    "prediction",
    "predicted_answer",
    "generated_answer",
    "model_answer",
    "model_output",
    "output",
)
CONTEXTS = ("context", "contexts", "retrieved_contexts", "retrieval_context", "retrieved_context", "documents")
REFERENCE_CONTEXTS = ("reference_contexts", "reference_context", "gold_contexts", "ground_truth_context")
RELEVANT = ("relevant", "reference_context_ids", "relevant_ids", "relevant_doc_ids", "relevant_documents", "qrels")
RETRIEVED = ("retrieved_context_ids", "retrieved_ids", "retrieved_doc_ids")
IDS = ("id", "_id", "qid", "query_id", "question_id", "sample_id")
ANSWER = "answer"
"""The answer of a person in most files, of the system in others."""
COLUMNS_SHOWN = 12
NAME_INPUT = "Set `fields: {input: COLUMN}` (convert: --field input=COLUMN)"
NAME_COLUMNS = "name the columns with `fields: {input: COLUMN, expected: COLUMN}`"
"""Fixes of a file whose columns have other names, for a manifest. A command without one says what it takes instead."""


def nest(outer: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of names within an outer column, and of its only value."""
    return (*(f"{outer}.{name}" for name in names), f"{outer}.*")


def nest_each(outers: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of names within each of several outer columns."""
    every = tuple(names)
    return tuple(f"{outer}.{name}" for outer in outers for name in every)


def flatten(outer: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns in a table that has no nested values: `input_question` for `input.question`."""
    return tuple(f"{outer}_{name}" for name in names if f"{outer}_{name}" not in REPLIES)


_HEAD = re.compile(r"""\$(?:\.([A-Za-z_]\w*)|\[["']([^"']+)["']\])""")
_SINGULAR = re.compile(r"""\$(?:\.[A-Za-z_]\w*|\[["'][^"']+["']\]|\[-?\d+\])*""")
_ONLY = ".*"


class ColumnPath(Struct, frozen=True):
    """Where a column is. `head`: the outermost column, empty if unknown. `problem`: why the text is no path."""

    text: str
    head: str
    is_query: bool = False
    problem: str | None = None

    def find(self, record: Mapping[str, Any]) -> Any:
        """Return the value in a record, ABSENT if there is none. A query with several matches gives a list.

        Raises:
            BadValue: the query fails on this record.
        """
        if self.is_query:
            return self._select(record)
        if self.text.endswith(_ONLY):
            inner = record.get(self.text.removesuffix(_ONLY))
            return next(iter(inner.values())) if isinstance(inner, dict) and len(inner) == 1 else ABSENT
        return find_value(record, self.text)

    def _select(self, record: Mapping[str, Any]) -> Any:
        try:
            found = select_values(self.text, record)
        except ServiceError as error:
            raise BadValue(str(error)) from error
        if _SINGULAR.fullmatch(self.text):
            return found[0] if found else ABSENT
        return found if found or self.head in record else ABSENT

    def locate(self, record: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the keys that lead to the value of a record. A query uses the whole outermost column."""
        if self.is_query or self.text.endswith(_ONLY):
            return (self.head,)
        return find_path(record, self.text) or (self.head,)


@lru_cache(maxsize=256)
def compile_path(text: str) -> ColumnPath:
    """Return the path that a text spells. An invalid query has a `problem`."""
    if not text.startswith("$"):
        return ColumnPath(text, text.partition(".")[0])
    head = _HEAD.match(text)
    return ColumnPath(text, (head[1] or head[2]) if head else "", True, explain_bad_query(text))


def _fold(column: str) -> str:
    """Return the name of a column without case and blanks: `Expected Answer` is `expected_answer`."""
    return re.sub(r"[\s_-]", "", column).casefold()


def match_columns(known: Iterable[str], columns: Collection[str]) -> dict[str, list[str]]:
    """Return the columns of a table by the known names that they mean in other letters. An exact name wins.

    `known`: paths. Only the outermost column of each counts.
    """
    names = dict.fromkeys(compile_path(name).head for name in known)
    exact = {_fold(column) for column in columns if column in names}
    meant = {_fold(name): name for name in reversed(names)}
    found: dict[str, list[str]] = {}
    for column in columns:
        if _fold(column) in meant.keys() - exact:
            found.setdefault(meant[_fold(column)], []).append(column)
    return found


def _name_values(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a record, those in objects with dots."""
    for column, value in record.items():
        yield from (f"{column}.{inner}" for inner in value) if isinstance(value, dict) else (column,)


class SoughtColumns(Struct):
    """The columns that `fields` of the manifest names, and that no record has had so far. `seen`: all columns.

    `has_header`: whether all records have the same columns.
    """

    missing: dict[str, str]
    has_header: bool
    seen: dict[str, None]

    def look_in(self, record: Any) -> None:
        """Note the columns of a record."""
        if self.missing and isinstance(record, dict):
            self.seen |= dict.fromkeys(_name_values(record))
            self.missing = {field: name for field, name in self.missing.items() if not self._is_in(record, name)}

    def _is_in(self, record: Mapping[str, Any], name: str) -> bool:
        path = compile_path(name)
        is_whole = self.has_header or path.is_query
        return not path.head or (path.head in record if is_whole else path.find(record) is not ABSENT)

    def list_problems(self, shown_as: str) -> list[Problem]:
        """Return a problem for each column that the file does not have."""
        shown = f"the columns are {', '.join(map(inert, [*self.seen][:COLUMNS_SHOWN]))}"
        problems = []
        for field, name in self.missing.items():
            close = find_close(name, self.seen)
            fix = f"{shown}; did you mean '{inert(close)}'?" if close else shown
            problems.append(Problem(f"there is no column '{name}'", fix, shown_as, 1, f"fields.{field}"))
        return problems
