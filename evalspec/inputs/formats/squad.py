"""SQuAD 1.1 and 2.0: articles, paragraphs and questions, as the original JSON or as the rows of Hugging Face."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalspec.base.jsonl import read_head
from evalspec.inputs.datasets.base import DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.json_document import JsonDocument, keys_at, read_json_document
from evalspec.inputs.datasets.located import problem_at
from evalspec.inputs.datasets.record_files import FileRow, probe, read_rows
from evalspec.inputs.datasets.record_form import RecordForm
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Sample

_ROW_COLUMNS = frozenset({"question", "context", "answers"})


def _adapt(record: dict[str, Any]) -> dict[str, Any]:
    """Return a question with whether it can be answered. Without an answer, its plausible answers are wrong."""
    answers = record.get("answers")
    texts = answers.get("text") if isinstance(answers, dict) else answers
    impossible = record.get("is_impossible")
    is_answerable = not impossible if isinstance(impossible, bool) else bool(texts)
    return {**record, "answerable": is_answerable}


_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("question",),
        "expected": ("answers",),
        "reference_contexts": ("context",),
        "answerable": ("answerable",),
    },
    metadata=frozenset({"title", "is_impossible", "plausible_answers"}),
    adapt=_adapt,
)


def _is_articles(head: bytes) -> bool:
    return "paragraphs" in keys_at(head, ("data", 0)) or (b'"paragraphs"' in head and b'"qas"' in head)


def _recognises(path: Path, head: bytes) -> bool:
    columns = probe(path, head).columns
    return _is_articles(head) or (columns >= _ROW_COLUMNS and columns.isdisjoint({"contexts", "ground_truth"}))


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    is_articles = source.path.is_file() and _is_articles(read_head(source.path))
    rows = _read_articles(source, notes) if is_articles else read_rows(
        source.path, source.shown_as, notes.problems, notes.warnings
    )  # fmt: skip
    yield from _FORM.read_from(rows, source, notes)


def _read_articles(source: Source, notes: ReadingNotes) -> Iterator[FileRow]:
    document = read_json_document(source.path, source.shown_as, notes.problems)
    if document is None:
        return
    for article, at_article in _list_objects(document, (), "data", notes):
        for paragraph, at_paragraph in _list_objects(document, at_article, "paragraphs", notes, article):
            for question, at_question in _list_objects(document, at_paragraph, "qas", notes, paragraph):
                shared = {"context": paragraph.get("context"), "title": article.get("title")}
                yield FileRow(document.line(at_question), {**shared, **question})


def _list_objects(
    document: JsonDocument, place: Place, key: str, notes: ReadingNotes, parent: Any = None
) -> Iterator[tuple[dict[str, Any], Place]]:
    """Yield the objects of a list with their places. Anything else is a problem."""
    parent = document.data if parent is None else parent
    found = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(found, list):
        notes.problems.append(problem_at(document, (*place, key), "the list is missing", f"write {key} as a list"))
        return
    for index, value in enumerate(found):
        if isinstance(value, dict):
            yield value, (*place, key, index)
        else:
            notes.problems.append(problem_at(document, (*place, key, index), "it is not an object", "write an object"))


SQUAD = DatasetFormat(
    name="squad",
    summary="SQuAD 1.1 and 2.0: articles with paragraphs and questions",
    read=_read,
    recognises=_recognises,
)
