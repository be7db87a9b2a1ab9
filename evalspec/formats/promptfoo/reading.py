"""Read promptfoo's test cases."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.datasets.base import ReadingNotes, Source
from evalspec.datasets.located import read_head, read_text
from evalspec.datasets.record_files import Container, Row, detect_container, read_rows
from evalspec.datasets.record_form import RecordForm
from evalspec.datasets.record_names import CONTEXTS, QUESTIONS, nest
from evalspec.datasets.record_values import BadValue
from evalspec.errors import InvalidInput, Problem
from evalspec.formats.promptfoo.asserts import choose_answers, find_counterpart, parse_cell_assert
from evalspec.manifest.yaml_source import YamlSource, parse_yaml
from evalspec.model import Sample

_MAX_VALUES = 1_000_000
_MAX_BYTES = 8 * 1_048_576
_MOST_COMBINATIONS = 10_000
_METADATA = "__metadata:"
_EXPECTED = "__expected"
_FILE = "file://"
_OWN = frozenset({"description", "providers", "provider", "prompts"})
_NAMED = ("id", "tags")
"""Keys of the metadata that are fields of a sample."""


def _adapt(test: dict[str, Any]) -> dict[str, Any]:
    """Return a test with its right answers in a column of their own."""
    variables = test.get("vars")
    if not isinstance(variables, dict):
        raise BadValue("the test has no vars", "write vars as a mapping")
    loaded = [name for name, value in variables.items() if isinstance(value, str) and value.startswith(_FILE)]
    if loaded:
        raise BadValue(f"the value of {loaded[0]} is in a file", "write the text itself")
    verdicts = choose_answers(test.get("assert") or (), variables)
    kept = {key: value for key, value in test.items() if key not in ("assert", "options", "threshold", "metadata")}
    own = test.get("metadata")
    metadata = own if isinstance(own, dict) else {}
    named = {key: metadata[key] for key in _NAMED if key in metadata}
    rest = {key: value for key, value in metadata.items() if key not in _NAMED}
    answers = {"answers": list(verdicts.answers)} if verdicts.answers else {}
    return kept | named | ({"metadata": rest} if rest else {}) | answers


FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": nest("vars", (*QUESTIONS, "message", "text")),
        "expected": ("answers",),
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

    def count(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if isinstance(row.value, dict):
                verdicts = choose_answers(row.value.get("assert") or (), row.value.get("vars") or {})
                kinds.update(verdicts.others)
                used.update([verdicts.kind] if verdicts.kind else [])
            yield row

    yield from FORM.read_from(count(_read_tests(source, notes)), source, notes)
    notes.warnings.extend(_list_asserts(used, kinds, source.shown_as))


def _list_asserts(used: Counter[str], kinds: Counter[str], shown_as: str) -> Iterator[Problem]:
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
        fix = "write a rubric or a metric of your own for them: docs/migrating-from-promptfoo.md"
        yield Problem(f"asserts without a counterpart, which are not checked: {', '.join(others)}", fix, shown_as)


def _read_tests(source: Source, notes: ReadingNotes) -> Iterator[Row]:
    """Yield the tests, with defaults added and variables expanded."""
    if detect_container(source.path, read_head(source.path)) is Container.OTHER:
        yield from _read_yaml(source, notes)
        return
    for row in read_rows(source.path, source.shown_as, notes.problems, notes.warnings):
        test = _test_of_cells(row.value) if row.is_cells else row.value
        yield from _expand(Row(row.line, test), {}, source, notes)


def _read_yaml(source: Source, notes: ReadingNotes) -> Iterator[Row]:
    text = read_text(source.path, source.shown_as, notes.problems, _MAX_BYTES)
    if text is None:
        return
    try:
        document = parse_yaml(text, source.shown_as, _MAX_VALUES)
    except InvalidInput as error:
        notes.problems.extend(error.problems)
        return
    is_config = isinstance(document.data, dict)
    tests = document.data.get("tests") if is_config else document.data
    if not isinstance(tests, list):
        _refuse_tests(tests, document, notes)
        return
    defaults = (document.data.get("defaultTest") if is_config else None) or {}
    if is_config and document.data.get("scenarios"):
        notes.warnings.append(Problem("scenarios are not read", "write their tests under tests", source.shown_as))
    for index, test in enumerate(tests):
        line = document.line(("tests", index) if is_config else (index,))
        yield from _expand(Row(line, test), defaults if isinstance(defaults, dict) else {}, source, notes)


def _refuse_tests(tests: Any, document: YamlSource, notes: ReadingNotes) -> None:
    named = f"the tests are in {tests}" if isinstance(tests, str) else "there is no list of tests"
    fix = "set path to that file" if isinstance(tests, str) else "write tests with vars"
    notes.problems.append(Problem(named, fix, document.file, document.line(("tests",)), "tests"))


def _test_of_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of a CSV as a test: columns with two underscores have a meaning, the others are variables."""
    expected = [value for name, value in cells.items() if name.startswith(_EXPECTED) and _is_numbered(name)]
    own = {name.removeprefix(_METADATA): value for name, value in cells.items() if name.startswith(_METADATA)}
    test: dict[str, Any] = {"vars": {name: value for name, value in cells.items() if not name.startswith("__")}}
    test["assert"] = [parse_cell_assert(value) for value in expected]
    test |= {"metadata": own} if own else {}
    return test | ({"description": cells["__description"]} if "__description" in cells else {})


def _is_numbered(name: str) -> bool:
    rest = name.removeprefix(_EXPECTED)
    return not rest or rest.isdecimal()


def _expand(row: Row, defaults: Mapping[str, Any], source: Source, notes: ReadingNotes) -> Iterator[Row]:
    """Yield a test for each combination of its lists of variables, with the defaults of all tests."""
    test = row.value
    if isinstance(test, str) or not isinstance(test, dict):
        fix = "set path to that file" if isinstance(test, str) else "write tests with vars"
        notes.problems.append(Problem(f"the test is {str(test)[:60]!r}, not a mapping", fix, source.shown_as, row.line))
        return
    shared = defaults.get("vars")
    own = test.get("vars")
    variables = {**(shared if isinstance(shared, dict) else {}), **(own if isinstance(own, dict) else {})}
    asserts = [*(defaults.get("assert") or ()), *(test.get("assert") or ())]
    whole = {**test, "vars": variables, "assert": asserts}
    options = test.get("options")
    is_fixed = isinstance(options, dict) and options.get("disableVarExpansion")
    lists = {} if is_fixed else {name: value for name, value in variables.items() if isinstance(value, list)}
    combinations = itertools.product(*lists.values())
    for values in itertools.islice(combinations, _MOST_COMBINATIONS):
        yield Row(row.line, {**whole, "vars": variables | dict(zip(lists, values, strict=True))})
