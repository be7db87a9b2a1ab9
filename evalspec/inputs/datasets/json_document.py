"""Read a JSON document strictly, with the line of every value.

The standard library's parser is fast but reports no positions. A line is therefore looked up on demand, by walking the
containers on the way to the value, each of them once.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.base.jsonl import parse_shallow_json
from evalspec.inputs.datasets.located import read_text
from evalspec.inputs.manifest.yaml_source import Place

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Used to find the ends of values, not their content."""


class JsonDocument:
    """A parsed document. `data` has plain Python values; `line` returns the line of each."""

    def __init__(self, file: str, text: str, data: Any = None) -> None:
        self.file = file
        self.data = data
        self._text = text
        self._members: dict[int, dict[Any, tuple[int, int]]] = {}
        self._line_ends: list[int] | None = None

    def line(self, path: Place) -> int:
        """Return the line, from 1, of the value at `path` (of its key, in an object), or of its nearest parent."""
        shown = offset = _skip_space(self._text, 0)
        for step in path:
            members = self._members_at(offset)
            if step not in members:
                break
            shown, offset = members[step]
        return self.line_at(shown)

    def line_at(self, offset: int) -> int:
        """Return the line, from 1, of a character."""
        if self._line_ends is None:
            self._line_ends = [match.start() for match in re.finditer("\n", self._text)]
        return bisect_left(self._line_ends, offset) + 1

    def find_twin(self) -> tuple[str, int] | None:
        """Return a duplicate key and its line, which the parser does not report.

        Return None if there is none before the first invalid JSON, which the parser had not reached.
        """
        try:
            return self._find_twin()
        except (ValueError, IndexError, RecursionError):
            return None

    def _find_twin(self) -> tuple[str, int] | None:
        containers = [_skip_space(self._text, 0)]
        for container in containers:
            keys = set()
            for key, shown, offset in _walk(self._text, container):
                if key in keys:
                    return str(key), self.line_at(shown)
                keys.add(key)
                if self._text[offset] in "{[":
                    containers.append(offset)
        return None

    def _members_at(self, offset: int) -> dict[Any, tuple[int, int]]:
        if offset not in self._members:
            self._members[offset] = {step: (shown, value) for step, shown, value in _walk(self._text, offset)}
        return self._members[offset]


def read_json_document(path: Path, shown_as: str, problems: list[Problem]) -> JsonDocument | None:
    """Read a whole JSON file. Return None and add a problem if it is invalid; NaN and duplicate keys are errors."""
    text = read_text(path, shown_as, problems)
    if text is None:
        return None
    try:
        return JsonDocument(shown_as, text, parse_shallow_json(text))
    except (json.JSONDecodeError, RecursionError) as error:
        problems.append(explain_syntax(error, shown_as))
    except ValueError as error:
        problems.append(_explain_refusal(JsonDocument(shown_as, text), text, str(error)))
    return None


def explain_syntax(error: ValueError | RecursionError, shown_as: str) -> Problem:
    """Return the problem of a text that is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        return Problem(f"not valid JSON at column {error.colno}: {error.msg}", file=shown_as, line=error.lineno)
    return Problem("the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error), file=shown_as)


def _explain_refusal(document: JsonDocument, text: str, reason: str) -> Problem:
    """Return the problem of a document that the parser refused despite valid syntax: NaN or a duplicate key."""
    for match in _STRING_OR_CONSTANT.finditer(text):
        if not match[0].startswith('"'):
            return Problem(f"{match[0]} is not JSON", file=document.file, line=document.line_at(match.start()))
    twin = document.find_twin()
    if twin is None:
        return Problem(reason, file=document.file)
    return Problem(f"duplicate key '{twin[0]}'", "remove one of them", document.file, twin[1])


def write_json_document(fields: Mapping[str, Any], records: Mapping[str, Iterable[Any]], path: Path) -> None:
    """Write an indented object: its fields, then lists of records. Only one record at a time is in memory.

    A lone surrogate, which UTF-8 cannot encode, is escaped.

    Raises:
        ValueError: a number is not finite.
    """
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        opening = "{\n"
        for key, value in fields.items():
            file.write(f"{opening}  {_render(key)}: {_render(value, 1)}")
            opening = ",\n"
        for key, values in records.items():
            file.write(f"{opening}  {_render(key)}: ")
            opening, separator = ",\n", "[\n"
            for value in values:
                file.write(f"{separator}    {_render(value, 2)}")
                separator = ",\n"
            file.write("[]" if separator == "[\n" else "\n  ]")
        file.write("\n}\n")


def _render(value: Any, depth: int = 0) -> str:
    """Return JSON whose lines after the first are indented by `depth` levels. Texts contain no line breaks."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return text.replace("\n", "\n" + "  " * depth)


def keys_at(head: bytes, place: Place = ()) -> set[str]:
    """Return the keys of the object at `place` that the first bytes of a JSON file show; none if it is no object."""
    text = head.decode("utf-8-sig", "ignore")
    offset = _skip_space(text, 0)
    keys: set[str] = set()
    try:
        for step in place:
            offset = next((value for found, _, value in _walk(text, offset) if found == step), len(text))
        for key, _, _ in _walk(text, offset) if text[offset : offset + 1] == "{" else ():
            keys.add(str(key))
    except (ValueError, RecursionError):
        pass  # the head ends here or is not JSON: return the keys found so far
    return keys


def _walk(text: str, offset: int) -> Iterator[tuple[Any, int, int]]:
    """Yield the members of the container at `offset`: key or index, start of the member, start of its value.

    Raises:
        ValueError: the text ends, or is not JSON.
    """
    opening = text[offset : offset + 1]
    if opening not in ("{", "["):
        return
    position = _skip_space(text, offset + 1)
    index = 0
    while text[position : position + 1] not in ("", "}", "]"):
        shown, step = position, index
        if opening == "{":
            step, position = _DECODER.raw_decode(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        yield step, shown, position
        _, position = _DECODER.raw_decode(text, position)
        position = _skip_space(text, position)
        if text[position : position + 1] == ",":
            position = _skip_space(text, position + 1)
        index += 1


def _skip_space(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr] # it matches nothing too
