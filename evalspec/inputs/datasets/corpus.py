"""Read files with one text per line: TSV (`id<TAB>text`) or JSONL (`_id`, `text` and similar keys), also gzipped.

They contain the documents of a dataset whose format has a separate file for them, or no place for them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.base.jsonl import open_unpacked, parse_shallow_json, read_lines
from evalspec.inputs.datasets.base import CorpusForm, ReadingNotes, Source
from evalspec.inputs.datasets.located import render_ids
from evalspec.model import Document

CORPUS_NAME = "corpus.jsonl"
_ID_KEYS = ("_id", "id", "query_id", "qid", "doc_id", "docid", "docno")
_TEXT_KEYS = ("text", "query", "contents")


class _Reading(Struct):
    """A file being read. `numbered`: lines whose id is a number, not text."""

    shown_as: str
    problems: list[Problem]
    numbered: list[int]

    def add(self, line: int, message: str, fix: str = "", field: str = "") -> None:
        self.problems.append(Problem(message, fix, self.shown_as, line, field))


def read_texts(path: Path, shown_as: str, problems: list[Problem]) -> dict[str, Document]:
    """Return the texts of a file by id, in file order, with other keys as metadata. A text may be empty."""
    reading = _Reading(shown_as, problems, [])
    as_json = ".jsonl" in path.suffixes
    texts: dict[str, Document] = {}
    first_lines: dict[str, int] = {}
    for number, raw in read_lines(path, shown_as, problems, "a line is an id, a tab and a text, or a JSON object"):
        try:
            line = raw.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            reading.add(number, "not UTF-8 text", "save the file as UTF-8")
            break
        text = (_parse_shallow_json_line if as_json else _parse_tsv_line)(number, line, reading)
        if text is None:
            continue
        if text.id in texts:
            reading.add(
                number, f"duplicate id '{text.id}', first at line {first_lines[text.id]}", "make the ids unique"
            )
            continue
        texts[text.id], first_lines[text.id] = text, number
    if reading.numbered:
        others = f" (and those of {len(reading.numbered) - 1} more lines)" if reading.numbered[1:] else ""
        fix = "put ids in quotes; the judgements have them as text"
        reading.add(reading.numbered[0], f"the id is a number{others}", fix)
    return texts


def _parse_tsv_line(number: int, line: str, reading: _Reading) -> Document | None:
    name, tab, text = line.partition("\t")
    if not tab or not name.strip():
        reading.add(number, "the line is not an id, a tab and a text", "separate id and text by one tab")
        return None
    return Document(name.strip(), text.strip())


def _parse_shallow_json_line(number: int, line: str, reading: _Reading) -> Document | None:
    try:
        record = parse_shallow_json(line)
    except (ValueError, RecursionError) as error:
        reading.add(number, f"not valid JSON: {error}")
        return None
    if not isinstance(record, dict):
        reading.add(number, "the line is not a JSON object", 'write a line like {"_id": "1", "text": "…"}')
        return None
    return _to_document(number, record, reading)


def _to_document(number: int, record: dict[str, Any], reading: _Reading) -> Document | None:
    """Return the document of a record. Unknown keys become metadata."""
    id_key = next((key for key in _ID_KEYS if key in record), None)
    text_key = next((key for key in _TEXT_KEYS if key in record), None)
    if id_key is None or text_key is None:
        missing = f"'{_ID_KEYS[0]}'" if id_key is None else f"'{_TEXT_KEYS[0]}'"
        reading.add(number, f"there is no {missing}", f"the line has {', '.join(record) or 'no keys'}")
        return None
    name, text, title = record.pop(id_key), record.pop(text_key), record.pop("title", None) or ""
    if isinstance(name, int | float):
        reading.numbered.append(number)
        return None
    for key, value in ((id_key, name), (text_key, text), ("title", title)):
        if not isinstance(value, str) or (key == id_key and not value.strip()):
            reading.add(number, "it should be text" if not isinstance(value, str) else "empty", field=key)
            return None
    metadata = record.pop("metadata", None) or {}
    return Document(name, text, title, record | (metadata if isinstance(metadata, dict) else {"metadata": metadata}))


def read_corpus(source: Source, notes: ReadingNotes) -> dict[str, Document] | None:
    """Return the documents of the source's corpus by id. None if it has none, or its problems are in the notes."""
    if source.corpus is None:
        return None
    known = len(notes.problems)
    documents = read_texts(source.corpus, source.corpus_shown_as, notes.problems)
    notes.files.append(source.corpus)
    notes.documents = list(documents.values())
    return documents if len(notes.problems) == known else None


def read_documents_beside(source: Source, judged: Iterable[str], notes: ReadingNotes) -> None:
    """Read the corpus from the manifest for a format without documents. `judged`: ids in the samples."""
    documents = read_corpus(source, notes)
    if documents is not None:
        check_judged(judged, documents, source.corpus_shown_as, notes)


def check_judged(judged: Iterable[str], documents: Mapping[str, Document], shown_as: str, notes: ReadingNotes) -> None:
    """Add a warning for judged documents that the corpus lacks, or a problem if it lacks all of them."""
    wanted = dict.fromkeys(judged)
    missing = [document for document in wanted if document not in documents]
    if missing and len(missing) == len(wanted):
        first = f"the judgements have '{missing[0]}', the corpus '{next(iter(documents), '')}'"
        message = f"no judged document occurs in the corpus: {first}"
        notes.problems.append(Problem(message, "use the same ids in both files", shown_as))
    elif missing:
        message = f"{len(missing)} of {len(wanted)} judged documents are not in the corpus: {render_ids(missing)}"
        notes.warnings.append(Problem(message, file=shown_as))


def _find_lines(path: Path, _count: int) -> list[int]:
    with open_unpacked(path) as stream:
        return [number for number, line in enumerate(stream, 1) if line.strip()]


TEXT_LINES = CorpusForm(
    names=(CORPUS_NAME, f"{CORPUS_NAME}.gz"),
    suffixes=(".jsonl", ".gz"),
    read=lambda path, shown_as, notes: [*read_texts(path, shown_as, notes.problems).values()],
    find_lines=_find_lines,
)
"""Documents in a file with one text per line."""
