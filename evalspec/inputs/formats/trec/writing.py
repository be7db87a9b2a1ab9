"""Write a dataset as a test collection, and list what it cannot represent."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct

from evalspec.inputs.datasets.base import DatasetContent, Written
from evalspec.inputs.datasets.corpus import CORPUS_NAME
from evalspec.inputs.datasets.located import refuse_empty
from evalspec.inputs.datasets.losses import (
    ANSWERS,
    BLANK_QUESTIONS,
    GROUPS,
    NATIVE_ONLY,
    Loss,
    list_default_losses,
    list_sample_losses,
)
from evalspec.model import Sample

_LOSSES = (
    ANSWERS,
    *NATIVE_ONLY,
    BLANK_QUESTIONS,
    GROUPS,
    Loss("samples without judged documents, which qrels cannot represent", lambda sample: not sample.qrels),
)


class CollectionLayout(Struct, frozen=True):
    """The layout of a collection.

    `judgements` and `queries`: paths of the two files in the folder. `header`: first line of the judgements. `form`:
    line of a judgement, with `{}` for query, document and grade. `render_query`: returns the line of a query.
    `can_name`: whether an id fits into these lines. `losses`: what only this layout cannot represent.
    """

    judgements: str
    header: str
    form: str
    queries: str
    render_query: Callable[[Sample], str]
    can_name: Callable[[str], bool]
    losses: tuple[Loss, ...]

    def list_losses(self, content: DatasetContent) -> list[str]:
        """Return what these files cannot represent."""
        losses = list_sample_losses(content.samples, _LOSSES + self.losses) + list_default_losses(content)
        if content.documents and not _is_corpus(content):
            losses.append(f"all {len(content.documents)} documents, because none of them is judged")
        return losses

    def write(self, content: DatasetContent, path: Path) -> Written:
        """Write the folder `path` with judgements, queries and, if there are documents, corpus.jsonl.

        Raises:
            InvalidInput: No sample can be written.
        """
        (path / self.judgements).parent.mkdir(parents=True)
        with _open(path / self.judgements) as file:
            file.write(self.header)
            judged = self._write_judgements(content, file)
        refuse_empty(judged, path)
        _write_lines(path / self.queries, map(self.render_query, self._writable(content)))
        return Written(judged, _write_corpus(content, path))

    def _writable(self, content: DatasetContent) -> Iterator[Sample]:
        return (sample for sample in content.samples if self.can_name(sample.id) and sample.question.strip())

    def _write_judgements(self, content: DatasetContent, file: TextIO) -> int:
        """Write the judgements. Return the number of samples with judgements, because the reader skips the others."""
        judged = 0
        for sample in self._writable(content):
            grades = [(name, grade) for name, grade in (sample.qrels or {}).items() if self.can_name(name)]
            file.writelines(self.form.format(sample.id, name, grade) for name, grade in grades)
            judged += bool(grades)
        return judged


def _write_corpus(content: DatasetContent, folder: Path) -> int:
    """Write the corpus if any of its documents is judged. Return the number of written documents."""
    documents = content.documents
    if not documents or not _is_corpus(content):
        return 0
    records = ({"_id": d.id, "title": d.title, "text": d.text, "metadata": d.metadata} for d in documents)
    _write_lines(folder / CORPUS_NAME, map(to_json_line, records))
    return len(documents)


def _is_corpus(content: DatasetContent) -> bool:
    """Return whether any document is judged. The reader rejects a corpus without a judged document."""
    judged = {name for sample in content.samples for name in sample.qrels or ()}
    return not judged or any(document.id in judged for document in content.documents or ())


def to_json_line(record: dict[str, Any]) -> str:
    """Return a record as a line of JSON, without empty objects."""
    return json.dumps({key: value for key, value in record.items() if value != {}}, ensure_ascii=False) + "\n"


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with _open(path) as file:
        file.writelines(lines)


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def is_cell(name: str) -> bool:
    """Return whether an id fits into one cell of a tab-separated line."""
    return name == name.strip() and not {"\t", "\n", "\r"} & set(name) and not name.startswith("\ufeff")
