"""List promptfoo's tests: of a configuration, of its scenarios, and of the files that they name.

Only files in the folder of the tests are read, and no code is run.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.jsonl import read_head
from evalspec.base.trust import require_file
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.json_document import JsonDocument, read_json_document
from evalspec.inputs.datasets.located import LineOfFile, Located, read_text
from evalspec.inputs.datasets.record_files import FileRow, read_rows
from evalspec.inputs.datasets.record_values import BadValue
from evalspec.inputs.formats.promptfoo import is_document
from evalspec.inputs.formats.promptfoo.asserts import has_answer, parse_cell_assert, substitute
from evalspec.inputs.manifest.yaml_source import Place, YamlSource, parse_yaml

SCHEME = "file://"
MAX_BYTES = 8 * 1_048_576
_MAX_VALUES = 1_000_000
_MOST_FILES = 10_000
_YAML = (".yaml", ".yml")
_TESTS = (*_YAML, ".json", ".jsonl", ".csv")
_CODE = re.compile(r"\.(?:[cm]?[jt]sx?|py|rb|go)(?::\w+)?")
_PATTERN = re.compile(r"[*?\[]")


class Unreadable(BadValue):
    """A named file cannot be read."""


def names_file(value: Any) -> bool:
    """Return whether a value is a text that names a file."""
    return isinstance(value, str) and value.startswith(SCHEME)


def read_document(path: Path, shown_as: str, notes: ReadingNotes) -> YamlSource | JsonDocument | None:
    """Return a JSON or YAML document. Return None and add a problem if it is invalid."""
    if path.suffix == ".json":
        return read_json_document(path, shown_as, notes.problems)
    text = read_text(path, shown_as, notes.problems, MAX_BYTES)
    if text is None:
        return None
    try:
        return parse_yaml(text, shown_as, _MAX_VALUES)
    except InvalidInput as error:
        notes.problems.extend(error.problems)
        return None


def _require_inside(path: Path, folder: Path, name: str) -> None:
    """Check that a path does not lead out of a folder.

    Raises:
        Unreadable: it does.
        Refused: --untrusted does not read it.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise Unreadable(f"'{name}' leads out of the folder of the tests", "copy the file into that folder")
    require_file(path)


class NamedFiles(Struct):
    """The files that the tests of a source name, each read once."""

    source: Source
    notes: ReadingNotes
    _texts: dict[Path, str] = field(default_factory=dict)

    def find(self, reference: str) -> list[Path]:
        """Return the files of a reference, which may be a pattern or a folder of tests, in the order of their names.

        Raises:
            Unreadable: there are none, they are elsewhere, or they are code.
        """
        name = reference.removeprefix(SCHEME)
        if "://" in name:
            raise Unreadable(f"'{reference}' is not a file", "save it as a file, and name that")
        if _CODE.fullmatch(Path(name).suffix):
            raise Unreadable(f"'{reference}' is code, which evalspec does not run", "save what it returns as a file")
        folder = self.source.path.parent
        found = sorted(self._list_matches(folder, name))
        if not found or len(found) > _MOST_FILES:
            message = "there is no file" if not found else f"more than {_MOST_FILES:,} files match"
            raise Unreadable(f"{message} '{reference}'", f"paths start at {folder}")
        return found

    def _list_matches(self, folder: Path, name: str) -> Iterator[Path]:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise Unreadable(f"'{name}' is outside the folder of the tests", "copy the file into that folder")
        try:
            for path in folder.glob(name) if _PATTERN.search(name) else [folder / name]:
                _require_inside(path, folder, name)
                if path.is_dir():
                    inner = [file for file in path.iterdir() if file.suffix in _TESTS and file.is_file()]
                    for file in inner:
                        _require_inside(file, folder, f"{name}/{file.name}")
                    yield from inner
                elif path.is_file():
                    yield path
        except Unreadable:
            raise
        except (OSError, ValueError, RuntimeError, NotImplementedError) as error:  # no name, or a loop
            raise Unreadable(f"'{name[:100]}' cannot be read: {error}") from error

    def read(self, reference: str) -> list[str]:
        """Return the texts of a reference without outer white space. YAML is returned as JSON, as promptfoo does.

        Raises:
            Unreadable: a file cannot be read.
        """
        return [self._read_one(path) for path in self.find(reference)]

    def _read_one(self, path: Path) -> str:
        if path not in self._texts:
            problems: list[Problem] = []
            text = read_text(path, self.show(path), problems, MAX_BYTES)
            if text is None:
                raise Unreadable(f"{problems[0].file}: {problems[0].message}", problems[0].fix)
            if path.suffix in _YAML:
                text = json.dumps(self.load(path), ensure_ascii=False)
            self._texts[path] = text.strip()
            self.note(path)
        return self._texts[path]

    def load(self, path: Path) -> Any:
        """Return the content of a JSON or YAML file.

        Raises:
            Unreadable: the file is neither.
        """
        notes = ReadingNotes()
        document = read_document(path, self.show(path), notes)
        if document is None:
            raise Unreadable(notes.problems[0].render())
        self.note(path)
        return document.data

    def note(self, path: Path) -> None:
        """Add a file to those that the dataset depends on."""
        if path not in self.notes.files:
            self.notes.files.append(path)

    def show(self, path: Path) -> str:
        """Return the path of a file in messages."""
        return str(Path(self.source.shown_as).parent / path.relative_to(self.source.path.parent))


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
