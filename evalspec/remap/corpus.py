"""A corpus from disk as chunks that know where they come from: file, page and span of characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.datasets.autorag_checks import CORPUS_COLUMNS, find_corpus_problems, find_empty_documents
from evalspec.datasets.autorag_writing import CORPUS_FILE, NEEDED_BY
from evalspec.datasets.base import Source
from evalspec.datasets.json_document import read_json_document
from evalspec.datasets.load import load_dataset
from evalspec.datasets.parquet_table import read_table
from evalspec.datasets.trec_layout import CORPUS_NAME
from evalspec.datasets.trec_texts import read_corpus as read_text_corpus
from evalspec.errors import Problem
from evalspec.jsonl import open_unpacked
from evalspec.records import Document

SPAN, PATH, PAGE = "start_end_idx", "path", "page"
_WHOLE_FILE = -1
"""AutoRAG's page where a file was not split into pages."""
_NOT_FOUND = (0, 0)
"""AutoRAG's span where the parser did not find the chunk in its file."""
_CORPUS_FILES = (CORPUS_FILE, CORPUS_NAME, f"{CORPUS_NAME}.gz")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage of a corpus. `span`: its first character and the one after its last, counted within its page, or
    within its file where that has no pages. None: not known.
    """

    id: str
    text: str
    path: str | None = None
    page: int | str | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Corpus:
    """The chunks of a file in its order, and the documents that they were made of, for a format that writes them."""

    file: Path
    shown_as: str
    chunks: Sequence[Chunk]
    documents: Sequence[Document]


def load_corpus(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Corpus:
    """Read AutoRAG's corpus.parquet, JSONL (BEIR's too, also gz), TSV, Unrag's documents, or the folder of one of them.

    Raises:
        MissingPackage: it is a Parquet file, and pyarrow is not installed.
    """
    file, shown_as = _locate(path, shown_as)
    if file.exists() and not file.is_file():
        what = f"there is no {' or '.join(_CORPUS_FILES)} in it" if file.is_dir() else "this is no file but a pipe"
        problems.append(Problem(what, "name the file of the corpus", shown_as))
        return Corpus(file, shown_as, (), ())
    before = len(problems)
    documents = _read_documents(file, shown_as, problems, warnings)
    if len(problems) == before:
        if not documents:
            problems.append(Problem("there are no documents", "name the file that holds them", shown_as))
        problems.extend(_find_place_problems(documents, file, shown_as))
    chunks = () if len(problems) > before else tuple(map(_to_chunk, documents))
    return Corpus(file, shown_as, chunks, documents)


def _locate(path: Path, shown_as: str) -> tuple[Path, str]:
    inside = next((name for name in _CORPUS_FILES if (path / name).is_file()), None)
    return (path / inside, f"{shown_as.rstrip('/')}/{inside}") if inside else (path, shown_as)


def _read_documents(file: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Sequence[Document]:
    if file.suffix == ".parquet":
        return _read_parquet(file, shown_as, problems, warnings)
    if file.suffix == ".json":
        data = load_dataset(Source(file, shown_as), "unrag")
        problems.extend(data.problems)
        return data.content.documents or ()
    return list(read_text_corpus(file, shown_as, problems).values())


def _read_parquet(file: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> list[Document]:
    rows = read_table(file, shown_as, CORPUS_COLUMNS, NEEDED_BY, problems) or []
    problems.extend(find_corpus_problems(rows, shown_as))
    columns = {column.name for column in CORPUS_COLUMNS}
    documents = [
        Document(
            id=row["doc_id"] or "",
            text=row["contents"] or "",
            metadata={key: value for key, value in row.items() if key not in columns},
        )
        for row in rows
    ]
    warnings.extend(find_empty_documents(documents, shown_as))
    return documents


def _find_place_problems(documents: Sequence[Document], file: Path, shown_as: str) -> Iterator[Problem]:
    """Places that are not what they must be, each with the line of its document (of Parquet, the row)."""
    found = [(number, *wrong) for number, document in enumerate(documents) for wrong in _check_place(document)]
    lines = _lines_of_documents(file, len(documents)) if found else []
    for number, field, message, fix in found:
        yield Problem(message, fix, shown_as, lines[number], field)


def _check_place(document: Document) -> Iterator[tuple[str, str, str]]:
    """(field, what is wrong, fix) of one document."""
    path, page, span = (_said(document, key) for key in (PATH, PAGE, SPAN))
    if not isinstance(path, str | None):
        yield PATH, f"{path!r} is not text", "write the path of the file as text"
    if isinstance(page, bool) or not isinstance(page, int | str | None):
        yield PAGE, f"{page!r} is no page", "write a whole number or a text"
    if span is None:
        return
    if not isinstance(span, list) or [type(bound) for bound in span] != [int, int]:
        yield SPAN, f"{span!r} is not two whole numbers", "write [first, last], or leave it out"
    elif not 0 <= span[0] <= span[1]:
        yield SPAN, f"{span} does not run forward from 0", "write [first, last] character, counted from 0"


def _lines_of_documents(file: Path, count: int) -> list[int]:
    if file.suffix == ".parquet":
        return list(range(1, count + 1))
    if file.suffix == ".json":
        document = read_json_document(file, "", [])
        return [document.line(("documents", index)) if document else 1 for index in range(count)]
    with open_unpacked(file) as stream:
        return [number for number, line in enumerate(stream, 1) if line.strip()]


def _to_chunk(document: Document) -> Chunk:
    span, page = _said(document, SPAN), _said(document, PAGE)
    return Chunk(
        id=document.id,
        text=document.text,
        path=_said(document, PATH),
        page=None if page == _WHOLE_FILE else page,
        span=None if span is None or tuple(span) == _NOT_FOUND else (span[0], span[1] + 1),
    )


def _said(document: Document, key: str) -> Any:
    """What a document says of its place, in a column of its own or, as AutoRAG does of pages, in its metadata."""
    inner = document.metadata.get("metadata")
    own = document.metadata.get(key)
    return inner.get(key) if own is None and isinstance(inner, dict) else own
