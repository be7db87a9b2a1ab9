"""Where the files of a test collection are: judgements, queries and documents, in TREC's and BEIR's layouts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evalspec.datasets.base import Source
from evalspec.errors import Problem

QRELS_NAMES = ("qrels", "qrels.txt", "qrels.trec", "qrels.tsv")
QUERIES_NAMES = ("queries.jsonl", "queries.tsv", "topics.jsonl", "topics.tsv", "topics.txt")
CORPUS_NAME = "corpus.jsonl"
QRELS_FOLDER = "qrels"
_BEIR_TEST = "test.tsv"


@dataclass(frozen=True, slots=True)
class CollectionFile:
    """One file and its name in messages."""

    path: Path
    shown_as: str


@dataclass(frozen=True, slots=True)
class Collection:
    """The files of one collection; `corpus` None where it is not given."""

    qrels: CollectionFile
    queries: CollectionFile
    corpus: CollectionFile | None


def locate_collection(source: Source, problems: list[Problem]) -> Collection | None:
    """Find the files of a source: its folder's, or those beside its file of judgements.

    The corpus is taken from a folder, or where the source names one: beside a single file it is left unread, so that
    judgements can be used without a large corpus.
    """
    root = CollectionFile(source.path, source.shown_as)
    if not source.path.exists():
        problems.append(Problem("no such file", "check the path", source.shown_as))
        return None
    qrels = find_judgements(root, problems) if source.path.is_dir() else root
    if qrels is None:
        return None
    folders = [root] if source.path.is_dir() else _folders_around(root)
    found = (_first_file(folder, QUERIES_NAMES) for folder in folders)
    queries = next((file for file in found if file is not None), None)
    if queries is None:
        looked_for = f"looked for {', '.join(QUERIES_NAMES)} (or with .gz) in {folders[-1].shown_as or '.'}"
        problems.append(Problem(f"no queries beside the judgements: {looked_for}", "put one there", qrels.shown_as))
        return None
    corpus = _first_file(root, (CORPUS_NAME,)) if source.path.is_dir() else None
    if source.corpus is not None:
        corpus = CollectionFile(source.corpus, source.corpus_shown_as)
    return Collection(qrels, queries, corpus)


def find_judgements(folder: CollectionFile, problems: list[Problem]) -> CollectionFile | None:
    """The judgements of a folder: one of the usual names, or BEIR's test split, or the only split."""
    found = _first_file(folder, QRELS_NAMES)
    splits = _inside(folder, QRELS_FOLDER)
    found = found or _first_file(splits, (_BEIR_TEST,))
    if found is not None:
        return found
    others = sorted(splits.path.glob("*.tsv*")) if splits.path.is_dir() else []
    if len(others) == 1:
        return _inside(splits, others[0].name)
    if others:
        message = f"{QRELS_FOLDER}/ has no {_BEIR_TEST} but {', '.join(path.name for path in others)}"
        problems.append(Problem(message, "name one of them as path", folder.shown_as))
    else:
        message = f"no judgements in the folder: looked for {', '.join(QRELS_NAMES)}, {QRELS_FOLDER}/{_BEIR_TEST}"
        problems.append(Problem(message, "name the file of judgements as path", folder.shown_as))
    return None


def _folders_around(qrels: CollectionFile) -> list[CollectionFile]:
    """The folder of a file of judgements, and the one above it in BEIR's layout."""
    shown = qrels.shown_as.removesuffix(qrels.path.name).rstrip("/")
    folders = [CollectionFile(qrels.path.parent, shown)]
    if qrels.path.parent.name == QRELS_FOLDER:
        folders.append(CollectionFile(qrels.path.parent.parent, shown.removesuffix(QRELS_FOLDER).rstrip("/")))
    return folders


def _first_file(folder: CollectionFile, names: Iterable[str]) -> CollectionFile | None:
    candidates = (_inside(folder, name + suffix) for name in names for suffix in ("", ".gz"))
    return next((file for file in candidates if file.path.is_file()), None)


def _inside(folder: CollectionFile, name: str) -> CollectionFile:
    return CollectionFile(folder.path / name, f"{folder.shown_as}/{name}" if folder.shown_as else name)


def is_trec_folder(path: Path) -> bool:
    """Whether a folder has judgements under one of TREC's usual names."""
    return _first_file(CollectionFile(path, ""), QRELS_NAMES) is not None


def is_beir_folder(path: Path) -> bool:
    """Whether a folder has judgements in BEIR's layout only."""
    return (path / QRELS_FOLDER).is_dir() and not is_trec_folder(path)
