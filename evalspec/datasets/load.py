"""A dataset from disk: its format found, read by it, checked, hashed."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source
from evalspec.datasets.corpus import read_documents_beside
from evalspec.errors import Problem
from evalspec.records import Sample
from evalspec.trust import Refused, require_file

_HEAD_BYTES = 65_536
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """The content of one dataset, the SHA-256 of its files, and what was found wrong on the way.

    `files`: what was read beside its own path.
    """

    shown_as: str
    content: DatasetContent
    sha256: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    format: str = ""
    files: tuple[Path, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples in the order of the file."""
        return tuple(self.content.samples)


def load_dataset(source: Source, format_name: str | None = None) -> LoadedDataset:
    """Read a dataset whole. What is wrong with it is in the result, so that several datasets report together.

    `format_name` None: the format is told by the content.
    """
    notes = ReadingNotes()
    try:
        return _load(source, format_name, notes)
    except Refused as error:
        problems = (*notes.problems, *(replace(problem, file=source.shown_as) for problem in error.problems))
        return LoadedDataset(source.shown_as, DatasetContent(()), "", problems, tuple(notes.warnings))


def _load(source: Source, format_name: str | None, notes: ReadingNotes) -> LoadedDataset:
    digest = hashlib.sha256()
    dataset_format = find_format(source, format_name, notes)
    with ThreadPoolExecutor(1) as beside:
        hashing = beside.submit(_add, digest, source.path)
        samples = tuple(dataset_format.read(source, notes)) if dataset_format else ()
        if dataset_format and not dataset_format.has_corpus:
            read_documents_beside(source, samples, notes)
    return LoadedDataset(
        shown_as=source.shown_as,
        content=DatasetContent(samples, notes.documents, notes.defaults),
        sha256=_finish(digest, hashing, notes.files),
        problems=tuple(notes.problems),
        warnings=tuple(notes.warnings),
        format=dataset_format.name if dataset_format else "",
        files=tuple(notes.files),
    )


def find_format(source: Source, format_name: str | None, notes: ReadingNotes) -> DatasetFormat | None:
    """The named format, else the first that recognises the file, else the native one, whose reader says what is wrong.

    An unknown name is a problem in the notes, and so is a file that no reader can make anything of.
    """
    path = source.path
    require_file(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        message = "this is no file but a pipe, and it has to be read twice"
        notes.problems.append(Problem(message, "write it to a file first", source.shown_as))
        return None
    if format_name is None:
        head = _read_head(path)
        native = DATASETS.find("jsonl")
        found = next((other for other in DATASETS if other is not native and other.recognises(path, head)), None)
        if found is None and head.startswith(_GZIP_MAGIC):
            message = "of gz files only judgements of TREC and BEIR are read"
            notes.problems.append(Problem(message, "unpack it with gunzip", source.shown_as))
            return None
        return found or native
    dataset_format = DATASETS.find(format_name)
    if dataset_format is None:
        message = f"unknown dataset format '{format_name}'"
        notes.problems.append(Problem(message, DATASETS.hint(format_name), source.shown_as, field="format"))
    return dataset_format


def _read_head(path: Path) -> bytes:
    """The first bytes of a file; none where it cannot be read, which its reader will report."""
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def _add(digest: "hashlib._Hash", path: Path) -> None:
    require_file(path)
    digest.update(path.read_bytes() if path.is_file() else _listing(path))


def _finish(digest: "hashlib._Hash", hashing: Future[None], more: Sequence[Path]) -> str:
    """SHA-256 over the dataset's files; empty where one cannot be read, which the reader has reported."""
    try:
        hashing.result()
        for path in more:
            _add(digest, path)
    except OSError:
        return ""
    return digest.hexdigest()


def _listing(folder: Path) -> bytes:
    """The files of a folder format, names and content."""
    files = sorted(folder.rglob("*"))
    for path in files:
        require_file(path)
    return b"".join(path.name.encode() + path.read_bytes() for path in files if path.is_file())
