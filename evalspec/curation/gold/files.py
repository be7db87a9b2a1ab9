"""Read and write the YAML files of a gold set."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import yaml
from msgspec import Struct
from msgspec import json as fast_json
from pydantic import BaseModel

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import is_stream, write_file
from evalspec.inputs.datasets.located import parse_record, read_text
from evalspec.inputs.manifest.yaml_source import MAX_EXPANDED_NODES, Place, YamlSource, parse_yaml
from evalspec.runs.store.files import FULL, store_error

_SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 8 * 1_048_576
"""Gold sets are written by hand, so larger files are mistakes."""

_LIBYAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORTH_A_CLOSER_LOOK = re.compile(r"(?:^|[\s\[{,:-])[&*!]\w|^[ \t?-]{100}|^---\s|^%", re.MULTILINE)
"""Anchors, tags, deep nesting and several documents, which the quick reader leaves to the careful one."""
_MOST_BRACKETS = 100
_UNICODE_BREAK = re.compile("[\x85\u2028\u2029]")
_CONFLICT = re.compile(r"^<{7} .*$", re.MULTILINE)
_MARK = re.compile(r"^(?:---|\.\.\.)(?:\s|\Z)", re.MULTILINE)
"""What begins or ends a document, unless it is inside a quoted text."""
_BARE_MARK = re.compile(r"---[ \t]*\r?\n")

Record = TypeVar("Record", bound=BaseModel)


class _QuickLoader(_LIBYAML):  # type: ignore[misc,valid-type]
    """libyaml's loader, which keeps dates as text and refuses duplicate keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
        first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002 - of the base class
        """Return the mapping of a node.

        Raises:
            yaml.YAMLError: A key is duplicated, or may be a word that YAML takes for true or false.
        """
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=True)
        if len(mapping) != len(node.value):
            raise yaml.YAMLError("duplicate key")
        if True in mapping or False in mapping:
            raise yaml.YAMLError("perhaps a word such as `on`")  # which the careful reader takes for a name
        return mapping


class YamlFile(Struct):
    """One YAML document of a file. Lines are only looked up for messages, because that takes ten times as long.

    `first_line`: the line of the file, from 0, at which the text begins.
    """

    file: str
    text: str
    data: Any = None
    first_line: int = 0
    _source: YamlSource | None = None

    def line(self, place: Place) -> int:
        """Return the line, from 1, of the value at a place, or of its nearest parent."""
        self._source = self._source or parse_yaml(self.text, self.file, len(self.text))
        return self.first_line + self._source.line(place)


def read_documents(path: Path, shown_as: str, problems: list[Problem]) -> list[YamlFile]:
    """Return the YAML documents of a file, mostly one. Problems go to the list."""
    text = read_text(path, shown_as, problems, MAX_BYTES)
    if text is None:
        return []
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        message = "git left a conflict here, because two branches edited this file"
        fix = "keep one side, or merge both and record that: evalspec gold revise ID"
        problems.append(Problem(message, fix, shown_as, text.count("\n", 0, conflict.start()) + 1))
        return []
    found = []
    for first_line, part in _split(text):
        try:
            document = parse(part, shown_as, first_line)
        except InvalidInput as error:
            problems.extend(_move(problem, first_line) for problem in error.problems)
        else:
            found += [document] if document.data is not None else []
    if not found and not problems:
        problems.append(Problem("the file is empty", file=shown_as))
    return found


def parse(text: str, shown_as: str, first_line: int = 0) -> YamlFile:
    """Parse one YAML document.

    Raises:
        InvalidInput: It is not YAML, or has duplicate keys, tags, or aliases that expand to too many values.
    """
    if _is_plain(text):
        try:
            return YamlFile(shown_as, text, yaml.load(text, _QuickLoader), first_line)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, ValueError):
            pass  # the careful reader explains it
    source = parse_yaml(text, shown_as, max(MAX_EXPANDED_NODES, len(text)))
    return YamlFile(shown_as, text, source.data, first_line, source)


def _is_plain(text: str) -> bool:
    brackets = text.count("[") + text.count("{")
    return brackets <= _MOST_BRACKETS and _WORTH_A_CLOSER_LOOK.search(text) is None


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line of the file from 0, text) of each document. A `---` on a line of its own is left out."""
    starts = _find_starts(text) if _MARK.search(text) else [(0, 0)]
    for (start, line), (end, _) in pairwise([*starts, (len(text), 0)]):
        mark = _BARE_MARK.match(text, start, end)
        part = text[mark.end() if mark else start : end]
        if part.strip():
            yield line + (mark is not None), part


def _find_starts(text: str) -> list[tuple[int, int]]:
    """Return (offset, line from 0) of each document. The last one that is found has everything that is not YAML."""
    found = []
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_LIBYAML):
            if isinstance(event, yaml.DocumentStartEvent) and (mark := event.start_mark) is not None:
                found.append((mark.index, mark.line))
    return [(0, 0), *found[1:]]


def _move(problem: Problem, lines: int) -> Problem:
    moved = None if problem.line is None else problem.line + lines
    return Problem(problem.message, problem.fix, problem.file, moved, problem.field)


def show(path: Path) -> str:
    """Return a path for messages: relative to the working directory if it is inside."""
    return str(path).removeprefix(f"{os.getcwd()}{os.sep}")  # noqa: PTH109 - for each of thousands of files


def read_record(model: type[Record], path: Path, problems: list[Problem]) -> Record | None:
    """Return the one record of a file. Return None and add all problems if there is none."""
    shown_as = show(path)
    documents = read_documents(path, shown_as, problems)
    if len(documents) > 1:
        message = f"the file has {len(documents)} YAML documents"
        problems.append(Problem(message, "keep one", shown_as, documents[1].first_line + 1))
        return None
    return parse_record(model, documents[0].data, documents[0], (), problems) if documents else None


def read_records(model: type[Record], folder: Path, problems: list[Problem]) -> Iterator[tuple[Path, Record]]:
    """Yield the records of a folder with their files, by name. Files without a valid record are problems."""
    for path in list_files(folder, show(folder), problems):
        record = read_record(model, path, problems)
        if record is not None:
            yield path, record


def require_records(model: type[Record], folder: Path) -> list[tuple[Path, Record]]:
    """Return the records of a folder with their files, by name.

    Raises:
        InvalidInput: A file is invalid.
    """
    problems: list[Problem] = []
    found = list(read_records(model, folder, problems))
    if problems:
        raise InvalidInput(problems)
    return found


def list_files(folder: Path, shown_as: str, problems: list[Problem]) -> list[Path]:
    """Return the YAML files of a folder, sorted by name.

    Symbolic links are problems, since they lead elsewhere, and so are pipes, which would be waited for.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda one: one.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror}", file=shown_as))
        return []
    for entry in found:
        if entry.is_symlink():
            problems.append(explain_link(f"{shown_as}/{entry.name}"))
        elif entry.name.endswith(_SUFFIXES) and not entry.is_file() and not entry.is_dir():
            problems.append(Problem("not a regular file", "remove it", f"{shown_as}/{entry.name}"))
    return [folder / one.name for one in found if _is_read(one)]


def _is_read(entry: os.DirEntry[str]) -> bool:
    is_yaml = entry.name.endswith(_SUFFIXES) and not entry.name.startswith(".")
    return is_yaml and entry.is_file(follow_symlinks=False)


def list_unread(folder: Path, shown_as: str) -> Iterator[Problem]:
    """Yield a problem for everything in a folder that `list_files` passes over. Hidden files only count if YAML."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            is_hidden = entry.name.startswith(".") and not entry.name.lower().endswith(_SUFFIXES)
            if not (is_hidden or entry.is_symlink() or _is_read(entry)):
                message = "this is not read: only files are whose names end in .yaml or .yml"
                yield Problem(message, "rename, move or remove it", f"{shown_as}/{entry.name}")


def explain_link(shown_as: str) -> Problem:
    """Return the problem that a part of a set is a symbolic link."""
    return Problem("a symbolic link cannot be part of a gold set", "replace it with what it leads to", shown_as)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """A dumper for people: texts of several lines as blocks. Unicode line breaks are kept in double quotes."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of the base class
        """Write equal values out instead of referring to one of them."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return the node of a text."""
        style = '"' if _UNICODE_BREAK.search(text) else "|" if "\n" in text.strip("\n") else None
        node: yaml.ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style)
        return node


_Dumper.add_representer(str, _Dumper.represent_text)


def render_yaml(data: Any) -> str:
    """Return data as YAML in the order of its keys."""
    return str(yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100))


def to_plain(record: BaseModel) -> dict[str, Any]:
    """Return a record as it is written: without missing values."""
    return record.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def write_record(path: Path, record: BaseModel | Mapping[str, Any]) -> None:
    """Write a record as YAML. An existing file is replaced in one step.

    Raises:
        InvalidInput: The file cannot be written.
    """
    data = to_plain(record) if isinstance(record, BaseModel) else dict(record)
    write_text(path, render_yaml(data))


def write_text(path: Path, text: str) -> None:
    """Write a text file.

    Raises:
        InvalidInput: The file cannot be written, is a pipe or device, or would be too large to be read again. It is
            unchanged.
        StoreError: The disk is full. The file is unchanged.
    """
    refuse_stream(path)
    try:
        content = text.encode()
        if len(content) > MAX_BYTES:
            message = f"the file would have {len(content):,} bytes; at most {MAX_BYTES:,} are accepted"
            raise InvalidInput(Problem(message, "shorten its texts", str(path)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, [content])
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise store_error(path, error) from error
        reason = error.strerror if isinstance(error, OSError) else "the text has half of a surrogate pair"
        raise InvalidInput(Problem(f"cannot be written: {reason}", "check folder and text", str(path))) from error


def refuse_stream(path: Path) -> None:
    """Check that a file of a set is no pipe or device, which would be waited for.

    Raises:
        InvalidInput: It is.
    """
    if is_stream(path):
        raise InvalidInput(Problem("not a regular file", "remove it", str(path)))


def compute_hash(content: Any) -> str:
    """Return 32 hex digits of SHA-256 over the canonical JSON of a content (sorted keys, UTF-8)."""
    return hashlib.sha256(fast_json.encode(content, order="sorted")).hexdigest()[:32]
