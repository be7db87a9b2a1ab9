"""A dataset from disk: its format found, read by it, checked, hashed."""

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source
from evalspec.datasets.corpus import read_documents_beside
from evalspec.datasets.located import GZIP_FIX, GZIP_OF_LINES
from evalspec.errors import Problem
from evalspec.jsonl import GZIP_MAGIC
from evalspec.model import Sample
from evalspec.ranking.run_files import GroundTruth
from evalspec.trust import Refused, require_file

_HEAD_BYTES = 65_536
_PART_BYTES = 1_048_576


Collect = Callable[[Iterable[Sample]], Sequence[Sample]]
"""Takes the samples as they are read and keeps them, in memory or elsewhere."""


def discard(samples: Iterable[Sample]) -> Sequence[Sample]:
    """Collect nothing of what is read, where it is only checked."""
    deque(samples, maxlen=0)
    return ()


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
    def samples(self) -> Sequence[Sample]:
        """The samples in the order of the file."""
        return self.content.samples


def load_dataset(source: Source, format_name: str | None = None, collect: Collect = tuple) -> LoadedDataset:
    """Read a dataset whole. What is wrong with it is in the result, so that several datasets report together.

    `format_name` None: the format is told by the content. `collect`: where the samples go, into memory by default.
    """
    notes = ReadingNotes()
    try:
        return _load(source, format_name, notes, collect)
    except Refused as error:
        problems = (*notes.problems, *(replace(problem, file=source.shown_as) for problem in error.problems))
        return LoadedDataset(source.shown_as, DatasetContent(()), "", problems, tuple(notes.warnings))


def _load(source: Source, format_name: str | None, notes: ReadingNotes, collect: Collect) -> LoadedDataset:
    digest = hashlib.sha256()
    dataset_format = find_format(source, format_name, notes)
    with ThreadPoolExecutor(1) as beside:
        hashing = beside.submit(_add, digest, source.path)
        samples = _read(dataset_format, source, notes, collect) if dataset_format else ()
    return LoadedDataset(
        shown_as=source.shown_as,
        content=DatasetContent(samples, notes.documents, notes.defaults),
        sha256=_finish(digest, hashing, notes.files),
        problems=tuple(notes.problems),
        warnings=tuple(notes.warnings),
        format=dataset_format.name if dataset_format else "",
        files=tuple(notes.files),
    )


def load_ground_truth(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> GroundTruth:
    """Read which documents are relevant from a dataset of any format; what is wrong goes to `problems`.

    Of a folder whose format has judgements apart, only these are read.

    Raises:
        MissingPackage: the format needs one that is not installed.
    """
    source, notes = Source(path, shown_as), ReadingNotes(problems, warnings)
    found = find_format(source, None, notes) if path.is_dir() else None
    if found is not None and found.read_judgements is not None:
        with DATASETS.blaming(found.name):
            return found.read_judgements(source, notes)
    data = load_dataset(source)
    problems.extend(data.problems)
    warnings.extend(data.warnings)
    judged = [sample for sample in data.samples if sample.qrels is not None]
    left_out = len(data.samples) - len(judged)
    if data.samples and not judged:
        problems.append(Problem("no sample says which documents are relevant", "add `relevant`", shown_as))
    elif left_out:
        message = f"samples that do not say which documents are relevant, left out: {left_out:,}"
        warnings.append(Problem(message, file=shown_as))
    return GroundTruth(
        qrels={sample.id: sample.qrels for sample in judged if sample.qrels is not None},
        shown_as=shown_as,
        groups={sample.id: sample.groups for sample in judged if sample.groups is not None},
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
        packed = _read_head(path)
        head = _unpack(packed)
        native = DATASETS.find("jsonl")
        found = next((other for other in DATASETS if other is not native and _recognises(other, path, head)), None)
        if found is None and packed.startswith(GZIP_MAGIC) and not (native and native.recognises(path, head)):
            notes.problems.append(Problem(GZIP_OF_LINES, GZIP_FIX, source.shown_as))
            return None
        return found or native
    dataset_format = DATASETS.find(format_name)
    if dataset_format is None:
        message = f"unknown dataset format '{format_name}'"
        notes.problems.append(Problem(message, DATASETS.hint(format_name), source.shown_as, field="format"))
    return dataset_format


def _recognises(dataset_format: DatasetFormat, path: Path, head: bytes) -> bool:
    with DATASETS.blaming(dataset_format.name):
        return dataset_format.recognises(path, head)


def _read(dataset_format: DatasetFormat, source: Source, notes: ReadingNotes, collect: Collect) -> Sequence[Sample]:
    judged: dict[str, None] = {}
    has_other_corpus = source.corpus is not None and not dataset_format.has_corpus
    with DATASETS.blaming(dataset_format.name):
        read = dataset_format.read(source, notes)
        samples = collect(_note_judged(read, judged) if has_other_corpus else read)
    if has_other_corpus:
        read_documents_beside(source, judged, notes)
    return samples


def _note_judged(samples: Iterable[Sample], judged: dict[str, None]) -> Iterator[Sample]:
    for sample in samples:
        judged.update(dict.fromkeys(sample.qrels or ()))
        yield sample


def _read_head(path: Path) -> bytes:
    """The first bytes of a file; none where it cannot be read, which its reader will report."""
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def _unpack(head: bytes) -> bytes:
    """What can be read of the beginning of a file, gzipped or not, and no more of it."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def _add(digest: "hashlib._Hash", path: Path) -> None:
    require_file(path)
    if path.is_file():
        _add_file(digest, path)
        return
    for file in sorted(path.rglob("*")):
        require_file(file)
        if file.is_file():
            digest.update(file.name.encode())
            _add_file(digest, file)


def _add_file(digest: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as stream:
        while part := stream.read(_PART_BYTES):
            digest.update(part)


def _finish(digest: "hashlib._Hash", hashing: Future[None], more: Sequence[Path]) -> str:
    """SHA-256 over the dataset's files; empty where one cannot be read, which the reader has reported."""
    try:
        hashing.result()
        for path in more:
            _add(digest, path)
    except OSError:
        return ""
    return digest.hexdigest()
