"""Files that promptfoo's tests name by `file://`: texts of variables, defaults and lists of tests.

Only files in the folder of the tests are read, and no code is run.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.trust import require_file
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.json_document import JsonDocument, read_json_document
from evalspec.inputs.datasets.located import read_text
from evalspec.inputs.manifest.yaml_source import YamlSource, parse_yaml

SCHEME = "file://"
MAX_BYTES = 8 * 1_048_576
_MAX_VALUES = 1_000_000
_MOST_FILES = 10_000
_YAML = (".yaml", ".yml")
_TESTS = (*_YAML, ".json", ".jsonl", ".csv")
_CODE = re.compile(r"\.(?:[cm]?[jt]sx?|py|rb|go)(?::\w+)?")
_PATTERN = re.compile(r"[*?\[]")


class Unreadable(ValueError):
    """A named file cannot be read. `fix`: what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


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
