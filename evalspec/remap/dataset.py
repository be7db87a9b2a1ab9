"""A dataset and its two corpora from disk: read as one, so that all that is wrong is told at once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from evalspec.datasets.base import DatasetContent, ReadingNotes, Source
from evalspec.datasets.load import LoadedDataset, find_format, load_dataset
from evalspec.errors import InvalidInput, Problem
from evalspec.remap.carrying import Remapping, check_corpus, remap_samples
from evalspec.remap.corpus import Corpus, load_corpus


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
