"""HotpotQA: questions that need several paragraphs, with supporting facts, as JSON or as Hugging Face's rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.record_files import FileRow, probe, read_rows
from evalspec.inputs.datasets.record_form import RecordForm
from evalspec.inputs.datasets.record_values import BadValue
from evalspec.model import Document, Sample

_COLUMNS = frozenset({"question", "context", "supporting_facts"})


def _list_paragraphs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return title and text of each paragraph.

    Raises:
        BadValue: the context has another form.
    """
    given = record.get("context")
    try:
        if isinstance(given, dict):
            pairs = list(zip(given["title"], given["sentences"], strict=True))
        else:
            pairs = [(title, sentences) for title, sentences in given or ()]
        return [(str(title), "".join(sentences)) for title, sentences in pairs]
    except (KeyError, TypeError, ValueError):
        raise BadValue("context is not a list of [title, sentences]", "write it as HotpotQA does") from None


def _list_titles(record: dict[str, Any]) -> list[str]:
    facts = record.get("supporting_facts")
    try:
        titles = facts["title"] if isinstance(facts, dict) else [title for title, _ in facts or ()]
    except (KeyError, TypeError, ValueError):
        raise BadValue("supporting_facts is not a list of [title, sentence]", "write it as HotpotQA does") from None
    return list(dict.fromkeys(map(str, titles)))


def _adapt(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its supporting paragraphs as the truth. The other paragraphs are judged not relevant."""
    paragraphs, titles = _list_paragraphs(record), _list_titles(record)
    rest = {key: value for key, value in record.items() if key != "context"}
    return rest | {
        "relevant": {title: int(title in titles) for title in [*titles, *(title for title, _ in paragraphs)]},
        "reference_contexts": [text for title, text in paragraphs if title in titles],
    }


_FORM = RecordForm(
    columns={
        "id": ("_id", "id"),
        "input": ("question",),
        "expected": ("answer",),
        "relevant": ("relevant",),
        "reference_contexts": ("reference_contexts",),
    },
    metadata=frozenset({"type", "level", "supporting_facts"}),
    adapt=_adapt,
)


def _read(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield a sample per question. The paragraphs of all questions are the corpus, by title."""
    texts: dict[str, str] = {}

    def collect(rows: Iterator[FileRow]) -> Iterator[FileRow]:
        for row in rows:
            for title, text in _list_quietly(row.value):
                texts.setdefault(title, text)
            yield row

    rows = read_rows(source.path, source.shown_as, notes.problems, notes.warnings)
    yield from _FORM.read_from(collect(rows), source, notes)
    notes.documents = [Document(title, text, title) for title, text in texts.items()]


def _list_quietly(value: Any) -> list[tuple[str, str]]:
    """Return the paragraphs of a record; none of a bad one, which its parser reports."""
    try:
        return _list_paragraphs(value) if isinstance(value, dict) else []
    except BadValue:
        return []


def _recognises(path: Path, head: bytes) -> bool:
    return probe(path, head).columns >= _COLUMNS


HOTPOTQA = DatasetFormat(
    name="hotpotqa",
    summary="HotpotQA: questions with supporting facts and distracting paragraphs",
    read=_read,
    recognises=_recognises,
)
