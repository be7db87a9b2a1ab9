"""List promptfoo's tests: of a configuration, of its scenarios, and of the files that they name."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.located import LineOfFile, Located, read_head
from evalspec.inputs.datasets.record_files import FileRow, read_rows
from evalspec.inputs.formats.promptfoo.asserts import has_answer, parse_cell_assert, substitute
from evalspec.inputs.formats.promptfoo.files import NamedFiles, Unreadable, names_file, read_document
from evalspec.inputs.formats.promptfoo.recognition import is_document
from evalspec.inputs.manifest.yaml_source import Place

Found = TypeVar("Found")
_MOST_COMBINATIONS = 10_000
_METADATA = "__metadata:"
_EXPECTED = "__expected"


def read_tests(source: Source, notes: ReadingNotes) -> Iterator[FileRow]:
    """Yield the tests, with defaults added, files read and variables expanded."""
    files = NamedFiles(source, notes)
    head = read_head(source.path)
    if not is_document(source.path, head):
        yield from _expand_all(_read_records(source.path, source.shown_as, notes), {}, files)
        return
    document = read_document(source.path, source.shown_as, notes)
    if document is None:
        return
    if isinstance(document.data, dict):
        yield from _read_config(document.data, document, files)
    else:
        yield from _expand_all(_list_tests(document.data, (), document, files), {}, files)


def _read_records(path: Path, shown_as: str, notes: ReadingNotes) -> Iterator[FileRow]:
    for row in read_rows(path, shown_as, notes.problems, notes.warnings):
        yield FileRow(row.line, _test_of_cells(row.value) if row.is_cells else row.value)


def _read_config(config: Mapping[str, Any], document: Located, files: NamedFiles) -> Iterator[FileRow]:
    defaults = config.get("defaultTest") or {}
    if names_file(defaults):
        defaults = _try(files, document.line(("defaultTest",)), _load_mapping, defaults, files) or {}
    tests, scenarios = config.get("tests"), config.get("scenarios")
    if not tests and not scenarios:
        problem = Problem("there are no tests", "write tests with vars", document.file, document.line(("tests",)))
        files.notes.problems.append(problem)
    rows = _list_tests(tests, ("tests",), document, files) if tests else iter(())
    of_scenarios = _list_scenarios(scenarios, document, files) if scenarios else iter(())
    yield from _expand_all(itertools.chain(rows, of_scenarios), defaults if isinstance(defaults, dict) else {}, files)


def _load_mapping(reference: Any, files: NamedFiles) -> dict[str, Any]:
    """Return the mappings of the files of a reference as one.

    Raises:
        Unreadable: a file has something else.
    """
    if not isinstance(reference, str):
        raise Unreadable("vars is a list with something that names no file", "write vars as a mapping")
    found: dict[str, Any] = {}
    for path in files.find(reference):
        content = files.load(path)
        if not isinstance(content, dict):
            raise Unreadable(f"{files.show(path)} is not a mapping", "write keys with values")
        found |= content
    return found


def _list_tests(value: Any, place: Place, document: Located, files: NamedFiles) -> Iterator[FileRow]:
    """Yield the tests of a list, in which a text names files of tests. Such tests have the line of that text."""
    if isinstance(value, str):
        yield from _read_named(value, document.line(place), files)
        return
    if not isinstance(value, list):
        message, fix = "there is no list of tests", "write tests with vars"
        files.notes.problems.append(Problem(message, fix, document.file, document.line(place), "tests"))
        return
    for index, test in enumerate(value):
        line = document.line((*place, index))
        yield from _read_named(test, line, files) if isinstance(test, str) else [FileRow(line, test)]


def _read_named(reference: str, line: int, files: NamedFiles) -> Iterator[FileRow]:
    for path in _try(files, line, files.find, reference) or ():
        files.note(path)
        if path.suffix in (".csv", ".jsonl", ".tsv"):
            tests = [row.value for row in _read_records(path, files.show(path), files.notes)]
        else:
            content = _try(files, line, files.load, path)
            tests = content if isinstance(content, list) else [] if content is None else [content]
        yield from (FileRow(line, test) for test in tests)


def _list_scenarios(value: Any, document: Located, files: NamedFiles) -> Iterator[FileRow]:
    """Yield each test of each scenario with each part of its data."""
    place: Place = ("scenarios",)
    for row in _list_tests(value, place, document, files):
        if not isinstance(row.value, dict) or not isinstance(row.value.get("config"), list | str):
            fix = "write config and tests"
            files.notes.problems.append(
                Problem("the scenario has no config", fix, document.file, row.line, "scenarios")
            )
            continue
        here = LineOfFile(document.file, row.line)
        parts = [part.value for part in _list_tests(row.value["config"], ("config",), here, files)]
        tests = [test.value for test in _list_tests(row.value.get("tests") or [{}], ("tests",), here, files)]
        for part, test in itertools.product(parts, tests):
            yield FileRow(row.line, _merge(part, test) if isinstance(part, dict) and isinstance(test, dict) else test)


def _merge(outer: Mapping[str, Any], test: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test with what applies to it and others: its own values win, and all asserts hold."""
    merged = {**outer, **test}
    for key in ("vars", "metadata", "options"):
        parts = [part for part in (outer.get(key), test.get(key)) if isinstance(part, dict)]
        if parts:
            merged[key] = {name: value for part in parts for name, value in part.items()}
    asserts = [*(outer.get("assert") or ()), *(test.get("assert") or ())]
    return {**merged, "assert": asserts} if asserts else merged


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


def _expand_all(rows: Iterator[FileRow], defaults: Mapping[str, Any], files: NamedFiles) -> Iterator[FileRow]:
    """Yield the tests with the defaults, the texts of their files, and each combination of their lists of variables."""
    for row in rows:
        if not isinstance(row.value, dict):
            message = f"the test is {str(row.value)[:60]!r}, not a mapping"
            problem = Problem(message, "write tests with vars", files.source.shown_as, row.line)
            files.notes.problems.append(problem)
            continue
        test = _try(files, row.line, _fill, row.value, defaults, files)
        if test is not None:
            yield from _combine(FileRow(row.line, test))


def _with_variables(test: dict[str, Any], files: NamedFiles) -> dict[str, Any]:
    """Return a test whose variables are in the test itself."""
    named = test.get("vars")
    references = [named] if isinstance(named, str) else named
    if not isinstance(references, list):
        return test
    return {**test, "vars": {key: value for one in references for key, value in _load_mapping(one, files).items()}}


def _fill(test: dict[str, Any], defaults: Mapping[str, Any], files: NamedFiles) -> dict[str, Any]:
    whole = _merge(defaults, _with_variables(test, files))
    variables = whole.get("vars")
    if isinstance(variables, dict):
        whole["vars"] = {name: _read_texts(value, files) for name, value in variables.items()}
    whole["assert"] = [_fill_assert(one, files) for one in whole.get("assert") or ()]
    return whole


def _fill_assert(one: Any, files: NamedFiles) -> Any:
    if not isinstance(one, dict) or not names_file(one.get("value")) or not has_answer(one.get("type")):
        return one
    return {**one, "value": _read_texts(one["value"], files)}


def _read_texts(value: Any, files: NamedFiles) -> Any:
    """Return a value with the texts of the files that it names. Several files make a list."""
    if names_file(value):
        texts = files.read(value)
        return texts[0] if len(texts) == 1 else texts
    if isinstance(value, list):
        return [text for item in value for text in (files.read(item) if names_file(item) else [item])]
    return value


def _combine(row: FileRow) -> Iterator[FileRow]:
    test = row.value
    variables, options = test.get("vars"), test.get("options")
    is_fixed = isinstance(options, dict) and options.get("disableVarExpansion")
    may_expand = isinstance(variables, dict) and not is_fixed
    lists = {name: value for name, value in variables.items() if isinstance(value, list)} if may_expand else {}
    for values in itertools.islice(itertools.product(*lists.values()), _MOST_COMBINATIONS):
        combined = {**variables, **dict(zip(lists, values, strict=True))} if isinstance(variables, dict) else variables
        yield FileRow(row.line, {**test, "vars": _substitute_each(combined)})


def _substitute_each(variables: Any) -> Any:
    """Return variables whose texts have the values of other variables in place of their names."""
    if not isinstance(variables, dict):
        return variables
    return {
        name: substitute(text, {other: value for other, value in variables.items() if other != name})
        if isinstance(text, str) and "{{" in text
        else text
        for name, text in variables.items()
    }


def _try(files: NamedFiles, line: int, read: Callable[..., Found], *given: Any) -> Found | None:
    """Return what `read` returns for the given arguments, or None and a problem if a file cannot be read."""
    try:
        return read(*given)
    except Unreadable as error:
        files.notes.problems.append(Problem(str(error), error.fix, files.source.shown_as, line))
        return None
