"""Write a dataset as a test collection in TREC's or BEIR's layout, and say what these cannot hold."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from evalspec.datasets.base import DatasetContent, Written
from evalspec.datasets.located import refuse_empty
from evalspec.datasets.losses import (
    ANSWERABLE,
    ANSWERS,
    BLANK_QUESTIONS,
    CONTEXTS,
    CONVERSATIONS,
    GROUPS,
    METADATA,
    REFERENCE_CONTEXTS,
    TAGS,
    Loss,
    find_default_losses,
    find_sample_losses,
)
from evalspec.datasets.trec_layout import CORPUS_NAME, QRELS_FOLDER
from evalspec.records import Sample

_QRELS_NAME, _TOPICS_NAME = "qrels.txt", "topics.tsv"
_QUERIES_NAME, _TEST_NAME = "queries.jsonl", "test.tsv"
_BEIR_HEADER = "query-id\tcorpus-id\tscore\n"

_LOSSES = (
    CONVERSATIONS,
    BLANK_QUESTIONS,
    ANSWERS,
    CONTEXTS,
    REFERENCE_CONTEXTS,
    ANSWERABLE,
    TAGS,
    GROUPS,
    Loss("samples without judged documents, which leave no trace in qrels", lambda sample: not sample.qrels),
)
_TREC_LOSSES = (
    METADATA,
    Loss("samples whose id has blanks", lambda sample: not _is_field(sample.id)),
    Loss("judged documents whose id has blanks", lambda sample: not all(map(_is_field, sample.qrels or ()))),
    Loss("line breaks and outer blanks of the question", lambda s: s.question != _in_one_line(s.question)),
)
_BEIR_LOSSES = (
    Loss("samples whose id has tabs or line breaks", lambda sample: not _is_cell(sample.id)),
    Loss("judged documents whose id has tabs or line breaks", lambda s: not all(map(_is_cell, s.qrels or ()))),
)


def find_trec_losses(content: DatasetContent) -> list[str]:
    """What qrels and topics have no place for."""
    return _find_losses(content, _TREC_LOSSES)


def find_beir_losses(content: DatasetContent) -> list[str]:
    """What BEIR's files have no place for."""
    return _find_losses(content, _BEIR_LOSSES)


def _find_losses(content: DatasetContent, own: tuple[Loss, ...]) -> list[str]:
    losses = find_sample_losses(content.samples, _LOSSES + own) + find_default_losses(content)
    if content.documents and not _is_corpus(content):
        losses.append(f"all {len(content.documents)} documents, because none of them is judged")
    return losses


def write_trec(content: DatasetContent, path: Path) -> Written:
    """Write the folder `path` with qrels.txt, topics.tsv and, where the content has documents, corpus.jsonl.

    Raises:
        InvalidInput: no sample can be written.
    """
    path.mkdir()
    with _open(path / _QRELS_NAME) as qrels:
        judged = _write_judgements(content, _is_field, qrels, "{} 0 {} {}\n")
    refuse_empty(judged, path)
    topics = (f"{sample.id}\t{_in_one_line(sample.question)}\n" for sample in _writable(content, _is_field))
    _write_lines(path / _TOPICS_NAME, topics)
    return Written(judged, _write_corpus(content, path))


def write_beir(content: DatasetContent, path: Path) -> Written:
    """Write the folder `path` with queries.jsonl, qrels/test.tsv and, where the content has documents, corpus.jsonl.

    Raises:
        InvalidInput: no sample can be written.
    """
    path.mkdir()
    (path / QRELS_FOLDER).mkdir()
    with _open(path / QRELS_FOLDER / _TEST_NAME) as qrels:
        qrels.write(_BEIR_HEADER)
        judged = _write_judgements(content, _is_cell, qrels, "{}\t{}\t{}\n")
    refuse_empty(judged, path)
    queries = ({"_id": s.id, "text": s.question, "metadata": s.metadata} for s in _writable(content, _is_cell))
    _write_lines(path / _QUERIES_NAME, map(_to_json_line, queries))
    return Written(judged, _write_corpus(content, path))


def _writable(content: DatasetContent, can_name: Callable[[str], bool]) -> Iterator[Sample]:
    return (sample for sample in content.samples if can_name(sample.id) and sample.question.strip())


def _write_judgements(content: DatasetContent, can_name: Callable[[str], bool], file: TextIO, form: str) -> int:
    """How many samples have a judgement: one without stands among the queries and is no sample to the reader."""
    judged = 0
    for sample in _writable(content, can_name):
        lines = [form.format(sample.id, name, grade) for name, grade in (sample.qrels or {}).items() if can_name(name)]
        file.writelines(lines)
        judged += bool(lines)
    return judged


def _write_corpus(content: DatasetContent, folder: Path) -> int:
    """How many documents were written: none where none has to do with the judgements."""
    documents = content.documents
    if not documents or not _is_corpus(content):
        return 0
    records = ({"_id": d.id, "title": d.title, "text": d.text, "metadata": d.metadata} for d in documents)
    _write_lines(folder / CORPUS_NAME, map(_to_json_line, records))
    return len(documents)


def _is_corpus(content: DatasetContent) -> bool:
    """Whether the documents have to do with the judgements; a corpus that has not is refused when it is read."""
    judged = {name for sample in content.samples for name in sample.qrels or ()}
    return not judged or any(document.id in judged for document in content.documents or ())


def _to_json_line(record: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in record.items() if value != {}}, ensure_ascii=False) + "\n"


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with _open(path) as file:
        file.writelines(lines)


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _is_field(name: str) -> bool:
    """Whether an id is one field of a line whose fields stand between blanks."""
    return _is_cell(name) and name.split() == [name]


def _is_cell(name: str) -> bool:
    """Whether an id is one cell of a line whose cells stand between tabs."""
    return name == name.strip() and not {"\t", "\n", "\r"} & set(name) and not name.startswith("\ufeff")


def _in_one_line(text: str) -> str:
    lines = text.splitlines()
    return text if lines == [text] and text == text.strip() else " ".join(text.split())
