"""Reader of test collections in the layouts of TREC and BEIR: judgements (qrels), queries, and optionally a corpus.

TREC: `qrels.txt` (query, iteration, document, grade) beside the queries. BEIR: `queries.jsonl`, `corpus.jsonl` and
`qrels/test.tsv` with a header. Each layout may use the file names of the other.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.corpus import CORPUS_NAME, check_judged, read_texts
from evalspec.inputs.datasets.located import render_ids
from evalspec.inputs.ranking_files import GroundTruth, find_first_line, is_json_line, looks_like_qrels, read_qrels
from evalspec.model import Document, Sample

_QRELS_NAMES = ("qrels", "qrels.txt", "qrels.trec", "qrels.tsv", "qrels.jsonl")
_QUERIES_NAMES = ("queries.jsonl", "queries.tsv", "topics.jsonl", "topics.tsv", "topics.txt")
_QRELS_FOLDER = "qrels"
_BEIR_TESTS = ("test.tsv", "test.jsonl")
_BEIR_KEY = b"query-id"
_OTHERS = (".json", ".jsonl", ".yaml", ".yml", ".parquet")

Judgements = Mapping[str, Mapping[str, int]]


class _File(Struct, frozen=True):
    """One file and its name in messages."""

    path: Path
    shown_as: str


class _Collection(Struct, frozen=True):
    """The files of one collection. `corpus`: None without a corpus."""

    qrels: _File
    queries: _File
    corpus: _File | None


def is_trec_folder(path: Path) -> bool:
    """Return whether a folder has judgements under one of TREC's usual names."""
    return _first_file(_File(path, ""), _QRELS_NAMES) is not None


def is_beir_folder(path: Path) -> bool:
    """Return whether a folder has judgements in BEIR's layout only."""
    return (path / _QRELS_FOLDER).is_dir() and not is_trec_folder(path)


def holds_qrels(path: Path, head: bytes) -> bool:
    """Return whether a file begins like judgements of TREC or BEIR."""
    is_json = is_json_line(find_first_line(head))
    return (is_json or path.suffix not in _OTHERS) and looks_like_qrels(head)


def holds_beir(head: bytes) -> bool:
    """Return whether judgements have BEIR's header."""
    return _BEIR_KEY in find_first_line(head).lower()


def read_collection(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per judged query, in the order of the queries. Documents go to the notes.

    A query without judgements is skipped with a warning, because no metric can score it.
    """
    problems = notes.problems
    collection = _locate_collection(source, problems)
    if collection is None:
        return
    qrels = read_qrels(collection.qrels.path, collection.qrels.shown_as, problems, notes.warnings)
    beside = [collection.queries, *([collection.corpus] if collection.corpus else [])]
    notes.files.extend(file.path for file in beside)
    queries = _read_queries(collection.queries, problems)
    if collection.corpus is not None:
        documents = read_texts(collection.corpus.path, collection.corpus.shown_as, problems)
        notes.documents = list(documents.values())
        if not problems:
            judged = (document for judgements in qrels.values() for document in judgements)
            check_judged(judged, documents, collection.corpus.shown_as, notes)
    if problems:
        return
    problems.extend(_find_unknown_queries(qrels, queries, collection.qrels.shown_as, collection.queries.shown_as))
    unjudged = [query for query in queries if query not in qrels]
    if unjudged and len(unjudged) < len(queries):
        message = (
            f"{len(unjudged)} of {len(queries)} queries have no judgements and are skipped: {render_ids(unjudged)}"
        )
        notes.warnings.append(Problem(message, file=collection.queries.shown_as))
    for query in queries.values():
        if query.id in qrels:
            yield _to_sample(query, qrels[query.id])


def read_judgements(source: Source, notes: ReadingNotes) -> GroundTruth:
    """Return the judgements of a folder, without reading its corpus, which may be large."""
    file = _find_judgements(_File(source.path, source.shown_as), notes.problems)
    if file is None:
        return GroundTruth({}, source.shown_as)
    return GroundTruth(read_qrels(file.path, file.shown_as, notes.problems, notes.warnings), file.shown_as)


def _read_queries(file: _File, problems: list[Problem]) -> dict[str, Document]:
    queries = read_texts(file.path, file.shown_as, problems)
    for query in queries.values():
        if not query.text.strip():
            problems.append(Problem(f"the query '{query.id}' has no text", "write its text", file.shown_as))
    return queries


def _to_sample(query: Document, judgements: Mapping[str, int]) -> Sample:
    return Sample(
        id=query.id,
        user_input=query.text,
        qrels=judgements,
        metadata={**query.metadata, **({"title": query.title} if query.title else {})},
    )


def _find_unknown_queries(
    qrels: Judgements, queries: Mapping[str, Document], qrels_shown_as: str, queries_shown_as: str
) -> Iterator[Problem]:
    unknown = [query for query in qrels if query not in queries]
    if unknown and len(unknown) == len(qrels):
        first = f"the judgements have '{unknown[0]}', the queries '{next(iter(queries), '')}'"
        message = f"no judged query is in {queries_shown_as}: {first}"
        yield Problem(message, "use the same ids in both files", qrels_shown_as)
    elif unknown:
        message = f"{len(unknown)} of {len(qrels)} judged queries are not in {queries_shown_as}: {render_ids(unknown)}"
        yield Problem(message, "add their texts, or remove their judgements", qrels_shown_as)


def _locate_collection(source: Source, problems: list[Problem]) -> _Collection | None:
    """Find the files of a source, which is a folder or a file of judgements.

    The corpus is read if the source is a folder or specifies it. It is not read beside a file of judgements, so that
    judgements can be used without a large corpus.
    """
    root = _File(source.path, source.shown_as)
    if not source.path.exists():
        problems.append(Problem("no such file", "check the path", source.shown_as))
        return None
    qrels = _find_judgements(root, problems) if source.path.is_dir() else root
    if qrels is None:
        return None
    folders = [root] if source.path.is_dir() else _folders_around(root)
    found = (_first_file(folder, _QUERIES_NAMES) for folder in folders)
    queries = next((file for file in found if file is not None), None)
    if queries is None:
        looked_for = f"looked for {', '.join(_QUERIES_NAMES)} (or with .gz) in {folders[-1].shown_as or '.'}"
        problems.append(Problem(f"no queries beside the judgements: {looked_for}", "put one there", qrels.shown_as))
        return None
    corpus = _first_file(root, (CORPUS_NAME,)) if source.path.is_dir() else None
    if source.corpus is not None:
        corpus = _File(source.corpus, source.corpus_shown_as)
    return _Collection(qrels, queries, corpus)


def _find_judgements(folder: _File, problems: list[Problem]) -> _File | None:
    """Return the judgements of a folder: a file with a usual name, else BEIR's test split, else the only split."""
    found = _first_file(folder, _QRELS_NAMES)
    splits = _inside(folder, _QRELS_FOLDER)
    found = found or _first_file(splits, _BEIR_TESTS)
    if found is not None:
        return found
    others = (
        sorted(file for form in ("*.tsv*", "*.jsonl*") for file in splits.path.glob(form))
        if splits.path.is_dir()
        else []
    )
    if len(others) == 1:
        return _inside(splits, others[0].name)
    if others:
        message = f"{_QRELS_FOLDER}/ has no {_BEIR_TESTS[0]}, but {', '.join(path.name for path in others)}"
        problems.append(Problem(message, "set path to one of them", folder.shown_as))
    else:
        message = f"no judgements in the folder: looked for {', '.join(_QRELS_NAMES)}, {_QRELS_FOLDER}/{_BEIR_TESTS[0]}"
        problems.append(Problem(message, "set path to the file of judgements", folder.shown_as))
    return None


def _folders_around(qrels: _File) -> list[_File]:
    """Return the folder of a file of judgements, and in BEIR's layout also its parent folder."""
    shown = qrels.shown_as.removesuffix(qrels.path.name).rstrip("/")
    folders = [_File(qrels.path.parent, shown)]
    if qrels.path.parent.name == _QRELS_FOLDER:
        folders.append(_File(qrels.path.parent.parent, shown.removesuffix(_QRELS_FOLDER).rstrip("/")))
    return folders


def _first_file(folder: _File, names: Iterable[str]) -> _File | None:
    candidates = (_inside(folder, name + suffix) for name in names for suffix in ("", ".gz"))
    return next((file for file in candidates if file.path.is_file()), None)


def _inside(folder: _File, name: str) -> _File:
    return _File(folder.path / name, f"{folder.shown_as}/{name}" if folder.shown_as else name)
