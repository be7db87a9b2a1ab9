"""Read a corpus into chunks with their source: file, page and span of characters."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import DATASETS, CorpusForm, ReadingNotes
from evalspec.inputs.datasets.corpus import TEXT_LINES
from evalspec.model import Document

SPAN, PATH, PAGE = "start_end_idx", "path", "page"
_WHOLE_FILE = -1
"""The page number of a file without pages."""
_NOT_FOUND = (0, 0)
"""The span of a chunk that the parser did not find in its file."""


class Chunk(Struct, frozen=True):
    """One passage of a corpus.

    `span`: its first character and the one after its last, counted within its page, or within a file without pages.
    None: unknown.
    """

    id: str
    text: str
    path: str | None = None
    page: int | str | None = None
    span: tuple[int, int] | None = None


class Corpus(Struct, frozen=True):
    """The chunks of a file, in order, and the documents that they come from, for formats that write them."""

    file: Path
    shown_as: str
    chunks: Sequence[Chunk]
    documents: Sequence[Document]


def load_corpus(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Corpus:
    """Return the corpus in a file of documents in any format, by default one text per line, or in a folder with one.

    Raises:
        MissingPackage: the file needs a package that is not installed.
    """
    file, shown_as = _locate(path, shown_as)
    if file.exists() and not file.is_file():
        what = (
            f"there is no {' or '.join(_list_names())} in this folder"
            if file.is_dir()
            else "this is not a regular file"
        )
        problems.append(Problem(what, "name the file of the corpus", shown_as))
        return Corpus(file, shown_as, (), ())
    before = len(problems)
    name, form = next((known for known in _list_forms() if file.suffix in known[1].suffixes), ("", TEXT_LINES))
    with DATASETS.attribute_errors(name):
        documents = form.read(file, shown_as, ReadingNotes(problems, warnings)) or ()
        if len(problems) == before:
            if not documents:
                problems.append(Problem("there are no documents", "name the file with the documents", shown_as))
            problems.extend(_find_place_problems(documents, form, file, shown_as))
    chunks = () if len(problems) > before else tuple(map(_to_chunk, documents))
    return Corpus(file, shown_as, chunks, documents)


def _list_forms() -> list[tuple[str, CorpusForm]]:
    """Return the corpus forms, each with the name of its format."""
    return [(known.name, known.corpus) for known in DATASETS if known.corpus is not None]


def _list_names() -> list[str]:
    return [*dict.fromkeys(name for _, form in _list_forms() for name in form.names)]


def _locate(path: Path, shown_as: str) -> tuple[Path, str]:
    inside = next((name for name in _list_names() if (path / name).is_file()), None)
    return (path / inside, f"{shown_as.rstrip('/')}/{inside}") if inside else (path, shown_as)


def _find_place_problems(
    documents: Sequence[Document], form: CorpusForm, file: Path, shown_as: str
) -> Iterator[Problem]:
    """Yield problems of path, page and span, each with the line of its document."""
    found = [(number, *wrong) for number, document in enumerate(documents) for wrong in _check_place(document)]
    lines = form.find_lines(file, len(documents)) if found else []
    for number, field, message, fix in found:
        yield Problem(message, fix, shown_as, lines[number], field)


def _check_place(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield (field, problem, fix) for one document."""
    path, page, span = (_said(document, key) for key in (PATH, PAGE, SPAN))
    if not isinstance(path, str | None):
        yield PATH, f"{path!r} is not text", "write the path of the file as text"
    if isinstance(page, bool) or not isinstance(page, int | str | None):
        yield PAGE, f"{page!r} is not a page", "write an integer or text"
    if span is None:
        return
    if not isinstance(span, list) or [type(bound) for bound in span] != [int, int]:
        yield SPAN, f"{span!r} is not a pair of integers", "write [first, last], or remove it"
    elif not 0 <= span[0] <= span[1]:
        yield SPAN, f"{span} is not a valid range", "write the first and the last character, counted from 0"


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
    """Return a value from a document's own column, or from inside its column `metadata`."""
    inner = document.metadata.get("metadata")
    own = document.metadata.get(key)
    return inner.get(key) if own is None and isinstance(inner, dict) else own
