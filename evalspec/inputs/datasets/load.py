"""Load a dataset from disk: detect its format, read, check and hash it."""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import Problem, split_fix
from evalspec.base.jsonl import HEAD_BYTES, is_packed, read_head
from evalspec.base.registry import returned
from evalspec.base.trust import Refused, require_file
from evalspec.inputs.datasets.base import (
    DATASETS,
    DatasetContent,
    DatasetFormat,
    ReadingNotes,
    Source,
    input_finder,
    list_input_keys,
)
from evalspec.inputs.datasets.corpus import read_documents_beside
from evalspec.inputs.datasets.located import GZIP_FIX, GZIP_OF_LINES
from evalspec.inputs.datasets.query_input import FILE_SCHEME, QueryInput, read_input_file
from evalspec.inputs.datasets.record_files import find_splits
from evalspec.inputs.datasets.selection import Selection, select
from evalspec.inputs.manifest.yaml_source import find_texts, render_path
from evalspec.inputs.ranking_files import GroundTruth
from evalspec.model import AgentReply, Curation, Sample
from evalspec.model.exchanges import INPUT_FILES

_PART_BYTES = 1_048_576
_JSON_NAMES = frozenset({".jsonl", ".json", ".ndjson"})
"""Suffixes of files whose text is meant as JSON, so that each line has its own error."""
_NO_RECORDS = "the file has no records: it is neither JSON nor a table, nor a format that evalspec knows"
_NO_RECORDS_FIX = "write a CSV with the columns question and expected, or name the format if you know it"
_CONTENT = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
GENERIC = "records"
"""The format that reads any records."""


Collect = Callable[[Iterable[Sample]], Sequence[Sample]]
"""Collects samples while they are read, in memory or elsewhere."""

Watch = Callable[[Iterable[Sample], DatasetFormat], Iterable[Sample]]
"""Looks at the samples of a format while they are read, and yields them."""

_Gather = Callable[[Iterable[Sample], DatasetFormat], Sequence[Sample]]


def pass_on(samples: Iterable[Sample], _format: DatasetFormat) -> Iterable[Sample]:
    """Return the samples, without a look at them."""
    return samples


def discard(samples: Iterable[Sample]) -> Sequence[Sample]:
    """Consume the samples without keeping them, for datasets that are only checked."""
    deque(samples, maxlen=0)
    return ()


class LoadedDataset(Struct, frozen=True):
    """The content of a dataset, the SHA-256 of its files, and its problems.

    `remarks`: what only `evalspec validate` says. `files`: files that were read besides its own path.
    `curation`: computes agreement and quality of a gold set.
    `replies`: the recorded replies of the files by sample id, if the source wants them. `folder`: the dataset's.
    """

    shown_as: str
    content: DatasetContent
    sha256: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    remarks: tuple[Problem, ...] = ()
    format: str = ""
    files: tuple[Path, ...] = ()
    curation: Callable[[], Curation] | None = None
    replies: Mapping[str, AgentReply] = {}
    folder: Path = Path()

    @property
    def samples(self) -> Sequence[Sample]:
        """Return the samples in file order."""
        return self.content.samples

    def keep(self, samples: Sequence[Sample]) -> "LoadedDataset":
        """Return the dataset with these samples, and without its documents and replies."""
        return replace(self, content=replace(self.content, samples=samples, documents=None), replies={})


def load_dataset(
    source: Source, format_name: str | None = None, collect: Collect = tuple, watch: Watch = pass_on
) -> LoadedDataset:
    """Return a whole dataset. Its problems are in the result, so several datasets can be reported together.

    `format_name`: None detects the format from content. `collect`: collects the samples, by default in memory. `watch`:
    looks at them before.
    """
    notes = ReadingNotes()
    try:
        return _load(source, format_name, notes, lambda samples, found: collect(watch(samples, found)))
    except Refused as error:
        problems = (*notes.problems, *(replace(problem, file=source.shown_as) for problem in error.problems))
        return LoadedDataset(source.shown_as, DatasetContent(()), "", problems, tuple(notes.warnings))


def _load(source: Source, format_name: str | None, notes: ReadingNotes, gather: _Gather) -> LoadedDataset:
    dataset_format = find_format(source, format_name, notes)
    samples = _read(dataset_format, source, notes, gather) if dataset_format else ()
    return LoadedDataset(
        shown_as=source.shown_as,
        content=DatasetContent(samples, notes.documents, notes.defaults, notes.replies),
        sha256=_hash(source.path, dataset_format.unrelated if dataset_format else (), notes.files),
        problems=tuple(notes.problems),
        warnings=tuple(notes.warnings),
        remarks=tuple(notes.remarks),
        format=dataset_format.name if dataset_format else "",
        files=tuple(notes.files),
        curation=notes.curation,
        replies=notes.replies,
        folder=source.folder,
    )


def load_ground_truth(
    path: Path,
    shown_as: str,
    problems: list[Problem],
    warnings: list[Problem],
    selection: Selection | None = None,
) -> GroundTruth:
    """Return the relevant documents of a dataset in any format. Errors go to `problems`.

    `selection`: the samples to return, None for all. Without one, if the format has judgements in a separate file of
    its folder, only that file is read.

    Raises:
        MissingPackage: the format needs a package that is not installed.
        InvalidInput: no sample has a key of the selection, or none is selected.
    """
    source, notes = Source(path, shown_as), ReadingNotes(problems, warnings)
    found = find_format(source, None, notes) if path.is_dir() else None
    if selection is None and found is not None and found.read_judgements is not None:
        with DATASETS.attribute_errors(found.name):
            return found.read_judgements(source, notes)
    data = load_dataset(source)
    problems.extend(data.problems)
    warnings.extend(data.warnings)
    judged = [sample for sample in data.samples if sample.qrels is not None]
    left_out = len(data.samples) - len(judged)
    filtered = len(judged)
    if selection is not None and not problems:
        selection.check_keys(lambda: judged)
        judged = list(select(judged, selection))
        if not judged and filtered:
            problems.append(Problem("no sample is selected", "change --where", shown_as, field="--where"))
            return GroundTruth({}, shown_as)
    if data.samples and not judged:
        problems.append(Problem("no sample says which documents are relevant", "add `relevant`", shown_as))
    elif left_out:
        message = f"skipped samples without `relevant`: {left_out:,}"
        warnings.append(Problem(message, file=shown_as))
    return GroundTruth(
        qrels={sample.id: sample.qrels for sample in judged if sample.qrels is not None},
        shown_as=shown_as,
        groups={sample.id: sample.groups for sample in judged if sample.groups is not None},
        left_out=filtered - len(judged),
    )


def find_format(source: Source, format_name: str | None, notes: ReadingNotes) -> DatasetFormat | None:
    """Return the named format, otherwise the first that recognises the file, otherwise the native one.

    The reader of the native format then reports the errors. An unknown name or an unreadable file is a problem in the
    notes.
    """
    path = source.path
    require_file(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        message = "this is a pipe, and the file has to be read twice"
        notes.problems.append(Problem(message, "write it to a file first", source.shown_as))
        return None
    if format_name is None:
        head = read_head(path)
        native = DATASETS.find("jsonl")
        others = sorted((other for other in DATASETS if other is not native), key=lambda other: other.is_generic)
        found = next((other for other in others if _recognises(other, path, head)), None)
        if source.fields and (found is None or not found.takes_fields):
            found = _choose_for_fields(source, found, notes)
        if found is None and head and is_packed(path) and not (native and native.recognises(path, head)):
            notes.problems.append(Problem(GZIP_OF_LINES, GZIP_FIX, source.shown_as))
            return None
        if found is None and _JSON_NAMES.isdisjoint(path.suffixes) and _is_prose(head):
            notes.problems.append(Problem(_NO_RECORDS, _NO_RECORDS_FIX, source.shown_as, 1))
            return None
        return found or native
    dataset_format = DATASETS.find(format_name)
    if dataset_format is None:
        message = f"unknown dataset format '{format_name}'"
        notes.problems.append(Problem(message, DATASETS.hint(format_name), source.shown_as, field="format"))
    elif source.fields and not dataset_format.takes_fields:
        message = f"files of {dataset_format.name} have no columns to name"
        fix = f"remove `fields`, or read the file as {GENERIC}"
        notes.problems.append(Problem(message, fix, source.shown_as, field="fields"))
        return None
    return dataset_format


def _is_prose(head: bytes) -> bool:
    """Return whether the beginning of a file is text that is neither JSON nor the attempt at it."""
    try:
        first = head.decode("utf-8-sig", "strict" if len(head) < HEAD_BYTES else "ignore").strip().partition("\n")[0]
        json.loads(first)
    except UnicodeDecodeError:
        return False
    except (ValueError, RecursionError):
        return bool(first) and first[0] not in '{["' and first.isprintable()
    return False


def _choose_for_fields(source: Source, found: DatasetFormat | None, notes: ReadingNotes) -> DatasetFormat | None:
    """Return the format that reads any records by the names of `fields`. A collection has no records to name."""
    if source.path.is_dir() and not find_splits(source.path):
        message = f"`fields` names columns of records, and this is a folder{f' of {found.name}' if found else ''}"
        notes.problems.append(Problem(message, "remove it", source.shown_as, field="fields"))
        return found
    return DATASETS.find(GENERIC)


def _recognises(dataset_format: DatasetFormat, path: Path, head: bytes) -> bool:
    with DATASETS.attribute_errors(dataset_format.name):
        return dataset_format.recognises(path, head)


def _read(dataset_format: DatasetFormat, source: Source, notes: ReadingNotes, gather: _Gather) -> Sequence[Sample]:
    judged: dict[str, None] = {}
    has_other_corpus = source.corpus is not None and not dataset_format.has_corpus
    with DATASETS.attribute_errors(dataset_format.name):
        read = dataset_format.read(source, notes)
        if DATASETS.is_plugin(dataset_format.name):
            read = (returned(sample, Sample) for sample in read)
        read = _complete_inputs(read, dataset_format.name, source, notes)
        samples = gather(_note_judged(read, judged) if has_other_corpus else read, dataset_format)
    if has_other_corpus:
        read_documents_beside(source, judged, notes)
    return samples


def _complete_inputs(
    samples: Iterable[Sample], format_name: str, source: Source, notes: ReadingNotes
) -> Iterator[Sample]:
    """Yield the samples of a dataset. One with an input says whether it has words, and has the hashes of its files.

    References that cannot be followed are problems in the notes. Each file is read once.
    """
    find_input, keys, read = input_finder(format_name), list_input_keys(), cache(read_input_file)
    files: dict[Path, None] = {}

    def follow(reference: str) -> tuple[Path, dict[str, Any]]:
        if not reference.startswith(FILE_SCHEME):
            raise ValueError("the dataset has the content itself; write a URL, or file:PATH for a file beside it")
        if not source.takes_files:
            raise ValueError("the server has no such file; write an http or https URL")
        return read(source.folder, reference)

    def complete(sample: Sample, given: QueryInput) -> Sample:
        found = {}
        for place, text in find_texts(given.fields):
            if place == (given.question_key,) or not (text.startswith(FILE_SCHEME) or _CONTENT.match(text)):
                continue
            try:
                path, found[text] = follow(text)
                files[path] = None
            except ValueError as error:
                message, fix = split_fix(f"query '{sample.id}': {error}")
                field = render_path((given.place, *place))
                notes.problems.append(Problem(message, fix, source.shown_as, sample.line, field))
        own = {key: value for key, value in sample.metadata[given.kept_under].items() if key != INPUT_FILES}
        own |= {INPUT_FILES: found} if found else {}
        return replace(sample, metadata={**sample.metadata, given.kept_under: own}, has_words=given.has_words)

    for sample in samples:
        if not keys.isdisjoint(sample.metadata) and (given := find_input(sample)).kept_under:
            yield complete(sample, given)
        else:
            yield sample
    notes.files.extend(files)


def _note_judged(samples: Iterable[Sample], judged: dict[str, None]) -> Iterator[Sample]:
    for sample in samples:
        judged.update(dict.fromkeys(sample.qrels or ()))
        yield sample


def _add(digest: "hashlib._Hash", path: Path, unrelated: Collection[str] = ()) -> None:
    """Add a file, or all files of a folder except those in `unrelated` subfolders."""
    require_file(path)
    if path.is_file():
        _add_file(digest, path)
        return
    for file in sorted(path.rglob("*")):
        if file.relative_to(path).parts[0] in unrelated:
            continue
        require_file(file)
        if file.is_file():
            digest.update(file.name.encode())
            _add_file(digest, file)


def _add_file(digest: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as stream:
        while part := stream.read(_PART_BYTES):
            digest.update(part)


def _hash(path: Path, unrelated: Collection[str], more: Sequence[Path]) -> str:
    """Return the SHA-256 over the dataset's files; empty if one cannot be read, which the reader has reported.

    This is not done while the samples are read: two threads that wait for each other take more time than both alone.
    """
    digest = hashlib.sha256()
    try:
        _add(digest, path, unrelated)
        for file in more:
            _add(digest, file)
    except OSError:
        return ""
    return digest.hexdigest()
