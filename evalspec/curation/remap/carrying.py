"""Move the ground truth of a dataset from old chunks to the new chunks that replace them.

The dataset and both corpora are read before errors are raised, so that all errors are reported together.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.remap.corpus import Corpus, load_corpus
from evalspec.curation.remap.matching import Match, compute_matches
from evalspec.curation.remap.shared_text import Overlap
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.load import LoadedDataset, find_format, load_dataset
from evalspec.model import Document, Sample
from evalspec.model.conventions import FlatIds

Groups = tuple[tuple[str, ...], ...]


class Lost(Struct, frozen=True):
    """A judgement without a new chunk. `best`: the nearest new chunk, if any has some of the old one's text."""

    sample: str
    line: int | None
    old: str
    grade: int
    why: str
    best: Overlap | None


class Remapping(Struct, frozen=True):
    """Samples with judgements of the new corpus, in order, and what was lost.

    `matches`: the match of every judged chunk. `graded`: samples with grades and split passages, whose parts count
    separately. `outdated`: number of samples that lost metadata about the old passages.
    """

    samples: tuple[Sample, ...]
    matches: Mapping[str, Match]
    lost: tuple[Lost, ...]
    graded: tuple[str, ...]
    outdated: int


class Remapped(Struct, frozen=True):
    """A dataset for the new corpus: its input, the remapping, and the content to write."""

    data: LoadedDataset
    old: Corpus
    new: Corpus
    min_overlap: float
    remapping: Remapping
    warnings: tuple[Problem, ...]

    @property
    def content(self) -> DatasetContent:
        """The remapped samples, with the new corpus if the dataset contains its documents."""
        documents = None if self.data.content.documents is None else self.new.documents
        return replace(self.data.content, samples=self.remapping.samples, documents=documents)


def load_and_remap(
    old: Path, new: Path, dataset: Path, min_overlap: float, retrieval_gt_1d: FlatIds | None = None
) -> Remapped:
    """Read a dataset and both corpora, and return the dataset with the ground truth carried over.

    Raises:
        InvalidInput: with every problem of the three inputs.
        MissingPackage: an input is a Parquet file, and pyarrow is not installed.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    old_corpus = load_corpus(old, str(old), problems, warnings)
    new_corpus = load_corpus(new, str(new), problems, warnings)
    data = load_dataset(_source(dataset, old_corpus, retrieval_gt_1d))
    problems.extend(data.problems)
    mismatch = None if problems else check_corpus(data.samples, old_corpus, str(dataset))
    if mismatch is not None:
        problems.append(mismatch)
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    return Remapped(
        data,
        old_corpus,
        new_corpus,
        min_overlap,
        remap_samples(data.samples, old_corpus, new_corpus, min_overlap),
        tuple(dict.fromkeys([*warnings, *data.warnings])),
    )


def _source(dataset: Path, old: Corpus, retrieval_gt_1d: FlatIds | None) -> Source:
    """Return the dataset with the old corpus as its documents, even if a newer one is already beside it."""
    source = Source(dataset, str(dataset), retrieval_gt_1d=retrieval_gt_1d)
    dataset_format = find_format(source, None, ReadingNotes())
    form = dataset_format.corpus if dataset_format and dataset_format.has_corpus else None
    if form is None or old.file.suffix not in form.suffixes:
        return source
    return replace(source, corpus=old.file, corpus_shown_as=old.shown_as)


def check_corpus(samples: Sequence[Sample], old: Corpus, shown_as: str) -> Problem | None:
    """Return a problem if no judged document is in the old corpus, which is then another dataset's."""
    judged = dict.fromkeys(document for sample in samples for document in sample.qrels or ())
    known = {chunk.id for chunk in old.chunks}
    if not judged:
        return Problem("no sample has relevant documents", "there is nothing to carry over", shown_as)
    if any(document in known for document in judged):
        return None
    example = f"the dataset has '{next(iter(judged))}', the corpus '{old.chunks[0].id}'"
    message = f"no relevant id occurs in {old.shown_as}: {example}"
    return Problem(message, "name the corpus that the dataset was made for", shown_as, field="relevant")


def remap_samples(samples: Sequence[Sample], old: Corpus, new: Corpus, min_overlap: float) -> Remapping:
    """Return samples with their judgements carried over to the new corpus.

    A new chunk has the highest grade of the old ones that it replaces. It has 0 only if at least `min_overlap` of it
    was judged 0. If all grades are 1, an old chunk that was split becomes a group with one required chunk, and AND/OR
    groups keep their meaning. A sample that loses all its relevant chunks becomes unjudged.
    """
    judged = {document for sample in samples for document in sample.qrels or ()}
    matches = {document: Match(document, why=f"it is not in {old.shown_as}") for document in judged}
    matches |= compute_matches(old.chunks, new.chunks, min_overlap, judged)
    carried = [_carry(sample, matches, min_overlap) for sample in samples]
    documents = {document.id: document for document in new.documents}
    formats = list(DATASETS)
    refreshed = [
        _refresh_metadata(sample, formats, documents, is_moved=sample is not before)
        for before, sample in zip(samples, carried, strict=True)
    ]
    return Remapping(
        samples=tuple(sample for sample, _ in refreshed),
        matches=matches,
        lost=tuple(lost for sample in samples for lost in _find_lost(sample, matches)),
        graded=tuple(sample.id for sample in samples if _is_graded(sample) and _is_split(sample, matches)),
        outdated=sum(outdated for _, outdated in refreshed),
    )


def _carry(sample: Sample, matches: Mapping[str, Match], min_overlap: float) -> Sample:
    """Return a sample with its judgements carried over, or the same object if they do not change."""
    given = sample.qrels or {}
    if all(matches[old].is_same for old in given):
        return sample
    qrels: dict[str, int] = {}
    for old, grade in given.items():
        for overlap in matches[old].overlaps:
            if grade > 0 or overlap.of_new >= min_overlap:
                qrels[overlap.chunk] = max(grade, qrels.get(overlap.chunk, 0))
    if _has_relevant(given) and not _has_relevant(qrels):
        return structs.replace(sample, qrels=None, groups=None)
    return structs.replace(sample, qrels=qrels, groups=_carry_groups(sample, matches))


def _carry_groups(sample: Sample, matches: Mapping[str, Match]) -> Groups | None:
    """Return AND/OR groups: AND between groups, OR within. None if every chunk is required, or there are grades."""
    if sample.groups is None and _is_graded(sample):
        return None
    given = sample.groups if sample.groups is not None else tuple((old,) for old in sample.qrels or ())
    moved = (tuple(dict.fromkeys(new for old in group for new in matches[old].chunks)) for group in given)
    groups = tuple(dict.fromkeys(group for group in moved if group))
    return groups if sample.groups is not None or any(len(group) > 1 for group in groups) else None


def _is_graded(sample: Sample) -> bool:
    return sample.groups is None and any(grade != 1 for grade in (sample.qrels or {}).values())


def _is_split(sample: Sample, matches: Mapping[str, Match]) -> bool:
    return any(len(matches[old].overlaps) > 1 for old, grade in (sample.qrels or {}).items() if grade > 0)


def _has_relevant(qrels: Mapping[str, int]) -> bool:
    return any(grade > 0 for grade in qrels.values())


def _find_lost(sample: Sample, matches: Mapping[str, Match]) -> Iterator[Lost]:
    for old, grade in (sample.qrels or {}).items():
        match = matches[old]
        if not match.overlaps:
            yield Lost(sample.id, sample.line, old, grade, match.why, match.best)


def _refresh_metadata(
    sample: Sample, formats: Sequence[DatasetFormat], documents: Mapping[str, Document], *, is_moved: bool
) -> tuple[Sample, bool]:
    """Return the sample with its passages' metadata from the new corpus, and whether some metadata was removed.

    `is_moved`: the passages differ from those that the metadata describes.
    """
    metadata: dict[str, Any] = dict(sample.metadata)
    removed = False
    for known in formats:
        if known.refresh_metadata is not None:
            with DATASETS.attribute_errors(known.name):
                removed |= known.refresh_metadata(sample, metadata, documents, is_moved)
    if is_moved:
        metadata = {key: value for key, value in metadata.items() if value or not sample.metadata.get(key)}
    return structs.replace(sample, metadata=metadata), removed
