"""The ground truth of a dataset, moved from old chunks to the new ones that stand for them.

The dataset and its two corpora are read as one, so that all that is wrong is told at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from evalspec.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source
from evalspec.datasets.load import LoadedDataset, find_format, load_dataset
from evalspec.errors import InvalidInput, Problem
from evalspec.model import Document, Sample
from evalspec.remap.corpus import Corpus, load_corpus
from evalspec.remap.matching import Match, compute_matches
from evalspec.remap.shared_text import Overlap

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """A judgement that no new chunk takes over. `best`: the new chunk nearest to it, if any has something of it."""

    sample: str
    line: int | None
    old: str
    grade: int
    why: str
    best: Overlap | None


@dataclass(frozen=True, slots=True)
class Remapping:
    """Samples over the new corpus, in their order, and all that was lost on the way.

    `matches`: what became of every judged chunk. `graded`: samples whose passages were split and which have grades, so
    that the parts count one by one. `outdated`: of how many samples the metadata no longer holds what it said of the
    old passages.
    """

    samples: tuple[Sample, ...]
    matches: Mapping[str, Match]
    lost: tuple[Lost, ...]
    graded: tuple[str, ...]
    outdated: int


@dataclass(frozen=True, slots=True)
class Remapped:
    """A dataset over the new corpus: what was read, what came of it, and the content to write."""

    data: LoadedDataset
    old: Corpus
    new: Corpus
    min_overlap: float
    remapping: Remapping
    warnings: tuple[Problem, ...]

    @property
    def content(self) -> DatasetContent:
        """The samples as they are now; with the new corpus where the dataset brought its documents along."""
        documents = None if self.data.content.documents is None else self.new.documents
        return replace(self.data.content, samples=self.remapping.samples, documents=documents)


def load_and_remap(
    old: Path, new: Path, dataset: Path, min_overlap: float, retrieval_gt_1d: Literal["and", "or"] | None = None
) -> Remapped:
    """Read a dataset and both corpora, and carry the ground truth over.

    Raises:
        InvalidInput: all that is wrong with the three of them.
        MissingPackage: one of them is a Parquet file, and pyarrow is not installed.
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


def _source(dataset: Path, old: Corpus, retrieval_gt_1d: Literal["and", "or"] | None) -> Source:
    """The dataset with the old corpus as its documents, also where a newer one lies beside it already."""
    source = Source(dataset, str(dataset), retrieval_gt_1d=retrieval_gt_1d)
    dataset_format = find_format(source, None, ReadingNotes())
    form = dataset_format.corpus if dataset_format and dataset_format.has_corpus else None
    if form is None or old.file.suffix not in form.suffixes:
        return source
    return replace(source, corpus=old.file, corpus_shown_as=old.shown_as)


def check_corpus(samples: Sequence[Sample], old: Corpus, shown_as: str) -> Problem | None:
    """What is wrong where no judged document is in the old corpus: it is another dataset's."""
    judged = dict.fromkeys(document for sample in samples for document in sample.qrels or ())
    known = {chunk.id for chunk in old.chunks}
    if not judged:
        return Problem("no sample says which documents are relevant", "there is nothing to carry over", shown_as)
    if any(document in known for document in judged):
        return None
    message = f"no relevant id occurs in {old.shown_as}: '{next(iter(judged))}' against '{old.chunks[0].id}'"
    return Problem(message, "name the corpus that the dataset was made for", shown_as, field="relevant")


def remap_samples(samples: Sequence[Sample], old: Corpus, new: Corpus, min_overlap: float) -> Remapping:
    """Carry the judgements of samples over to the new corpus.

    A new chunk has the highest grade of the old ones that it stands for; 0 only if at least `min_overlap` of it was
    judged so. Where no judgement has a grade but 1, an old chunk that was split becomes a group of which any chunk
    will do, and AND/OR groups keep their meaning. A sample that loses all its relevant chunks is left unjudged.
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
    """The same sample object where nothing about its judgements changed."""
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
    """AND over the groups and OR within them; None where each chunk is needed, and where there are grades."""
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
    """The sample with metadata about its passages as the new corpus has them, and whether something was removed.

    `is_moved`: the passages are not the ones that the metadata was made for.
    """
    metadata: dict[str, Any] = dict(sample.metadata)
    removed = False
    for known in formats:
        if known.refresh_metadata is not None:
            with DATASETS.blaming(known.name):
                removed |= known.refresh_metadata(sample, metadata, documents, is_moved)
    if is_moved:
        metadata = {key: value for key, value in metadata.items() if value or not sample.metadata.get(key)}
    return structs.replace(sample, metadata=metadata), removed
