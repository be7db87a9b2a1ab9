"""promptfoo: test cases in YAML, JSON, JSON Lines or CSV. Asserts with a counterpart give the right answers."""

from collections.abc import Iterator
from pathlib import Path

from evalspec.datasets.base import DatasetContent, DatasetFormat, ReadingNotes, Source, Written
from evalspec.formats.promptfoo.recognition import recognises
from evalspec.model import Sample


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
    recognises=recognises,
    list_losses=_list_losses,
    write=_write,
    takes_fields=True,
)
