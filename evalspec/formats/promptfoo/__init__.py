"""promptfoo: test cases in YAML, JSON, JSON Lines or CSV. Asserts with a counterpart give the right answers."""

import re
from collections.abc import Iterator
from pathlib import Path

from evalspec.datasets.base import DatasetContent, DatasetFormat, ReadingNotes, Source, Written
from evalspec.datasets.record_files import Container, peek
from evalspec.model import Sample

_TEST_KEY = re.compile(rb"^[\s-]*(?:tests|vars)\s*:", re.MULTILINE)
_VARS = re.compile(rb"^[\s-]*vars\s*:\s*(?:\{|$)", re.MULTILINE)
_EXPECTED = "__expected"


def _recognises(path: Path, head: bytes) -> bool:
    if not head:
        return False
    found = peek(path, head)
    if found.container is Container.CELLS:
        return any(name.startswith(_EXPECTED) for name in found.columns)
    if found.container is Container.OTHER:
        return _TEST_KEY.search(head) is not None and _VARS.search(head) is not None
    return "vars" in found.columns


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    from evalspec.formats.promptfoo.reading import read_promptfoo

    return read_promptfoo(source, notes)


def _list_losses(content: DatasetContent) -> list[str]:
    from evalspec.formats.promptfoo.writing import WRITER

    return WRITER.list_losses(content)


def _write(content: DatasetContent, path: Path) -> Written:
    from evalspec.formats.promptfoo.writing import write_promptfoo

    return write_promptfoo(content, path)


PROMPTFOO = DatasetFormat(
    name="promptfoo",
    summary="promptfoo's tests: vars and asserts (YAML, JSON or CSV)",
    read=_read,
    recognises=_recognises,
    list_losses=_list_losses,
    write=_write,
    takes_fields=True,
)
