"""Read promptfoo's test cases, and write a dataset as some in YAML."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DatasetContent, ReadingNotes, Source, Written
from evalspec.inputs.datasets.located import refuse_empty
from evalspec.inputs.datasets.record_files import FileRow
from evalspec.inputs.datasets.record_form import RecordForm
from evalspec.inputs.datasets.record_names import CONTEXTS, QUESTIONS, nest
from evalspec.inputs.datasets.record_values import BadValue
from evalspec.inputs.datasets.record_writing import Writer
from evalspec.inputs.formats.promptfoo.asserts import choose_answers, find_counterpart
from evalspec.inputs.formats.promptfoo.listing import read_tests
from evalspec.model import Sample

_OWN = frozenset({"description", "providers", "provider", "prompts"})
_OF_A_TEST = "the threshold of a test"
_NAMED = ("id", "tags")
"""Keys of the metadata that are fields of a sample."""


def _adapt(test: dict[str, Any]) -> dict[str, Any]:
    """Return a test with its right answers in a column of their own."""
    variables = test.get("vars")
    if not isinstance(variables, dict):
        raise BadValue("the test has no vars", "write vars as a mapping")
    verdicts = choose_answers(test.get("assert") or (), variables)
    kept = {key: value for key, value in test.items() if key not in ("assert", "options", "threshold", "metadata")}
    own = test.get("metadata")
    metadata = own if isinstance(own, dict) else {}
    named = {key: metadata[key] for key in _NAMED if key in metadata}
    rest = {key: value for key, value in metadata.items() if key not in _NAMED}
    answers: dict[str, Any] = {"answers": list(verdicts.answers)} if verdicts.answers else {}
    answers |= {"checks": list(verdicts.checks)} if verdicts.checks else {}
    answers |= verdicts.tools
    return kept | named | ({"metadata": rest} if rest else {}) | answers


FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": nest("vars", (*QUESTIONS, "message", "text")),
        "expected": ("answers",),
        "checks": ("checks",),
        "expected_tools": ("expected_tools",),
        "forbidden_tools": ("forbidden_tools",),
        "context": tuple(f"vars.{name}" for name in CONTEXTS),
        "tags": ("tags",),
        "metadata": ("metadata",),
    },
    metadata=_OWN,
    adapt=_adapt,
)


def read_promptfoo(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield a sample per test and per combination of its lists of variables. Asserts without an answer are listed."""
    kinds: Counter[str] = Counter()
    used: Counter[str] = Counter()
    checked: Counter[str] = Counter()

    def count(rows: Iterator[FileRow]) -> Iterator[FileRow]:
        for row in rows:
            if isinstance(row.value, dict):
                verdicts = choose_answers(row.value.get("assert") or (), row.value.get("vars") or {})
                kinds.update(verdicts.others)
                kinds.update([_OF_A_TEST] if row.value.get("threshold") is not None else [])
                checked.update(verdicts.checked)
                used.update([verdicts.kind] if verdicts.kind else [])
            yield row

    yield from FORM.read_from(count(read_tests(source, notes)), source, notes)
    notes.warnings.extend(_list_asserts(used, checked, kinds, source.shown_as))


def _list_asserts(used: Counter[str], checked: Counter[str], kinds: Counter[str], shown_as: str) -> Iterator[Problem]:
    if checked:
        named = ", ".join(f"{kind} ({count})" for kind, count in checked.items())
        yield Problem(f"asserts read as checks: {named}", "set limits on checks or checks_all", shown_as)
    if used:
        named = ", ".join(f"{kind} ({count}, checked by {find_counterpart(kind)})" for kind, count in used.items())
        yield Problem(f"asserts read as the right answers: {named}", "list these metrics in the manifest", shown_as)
    counterparts = [f"{kind} ({count}; use {find_counterpart(kind)})" for kind, count in kinds.items()
                    if find_counterpart(kind)]  # fmt: skip
    others = [f"{kind} ({count})" for kind, count in kinds.items() if not find_counterpart(kind)]
    if counterparts:
        message = f"asserts that are metrics or further answers here: {', '.join(counterparts)}"
        yield Problem(message, "list the metrics in the manifest", shown_as)
    if others:
        fix = "write a rubric or a metric of your own for them: docs/how-to/migrating-from-promptfoo.md"
        yield Problem(f"asserts without a counterpart, which are not checked: {', '.join(others)}", fix, shown_as)


_SUFFIXES = ("", ".yaml", ".yml")


def _complete(record: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """Add the asserts: the answer, or one of the answers, has to be in the reply."""
    answers = list(sample.references)
    asserts: list[dict[str, Any]] = []
    if len(answers) == 1:
        asserts = [{"type": "icontains", "value": answers[0]}]
    elif answers:
        asserts = [{"type": "icontains-any", "value": answers}]
    # otherwise promptfoo makes a test of each passage
    fixed = {"options": {"disableVarExpansion": True}} if sample.retrieved_contexts is not None else {}
    return record | {"assert": asserts} | fixed


WRITER = Writer(
    FORM,
    {"id": "metadata.id", "input": "vars.question", "tags": "metadata.tags"},
    omits=("expected", "checks", "expected_tools", "forbidden_tools"),
    complete=_complete,
)
list_losses = WRITER.list_losses


def write_promptfoo(content: DatasetContent, path: Path) -> Written:
    """Write the list of tests.

    Raises:
        InvalidInput: the path has the suffix of another form, or no sample can be written.
    """
    if path.suffix not in _SUFFIXES:
        message = f"promptfoo's tests are written as YAML, not {path.suffix}"
        raise InvalidInput(Problem(message, f"write them to {path.with_suffix('.yaml').name}", path.name))
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for sample in content.samples:
            if WRITER.can_hold(sample):
                yaml.safe_dump([WRITER.to_record(sample)], file, allow_unicode=True, sort_keys=False, width=120)
                count += 1
    refuse_empty(count, path)
    return Written(count)
