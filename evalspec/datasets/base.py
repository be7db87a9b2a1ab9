"""What a dataset is once it is read, and the registry of formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evalspec.errors import Problem
from evalspec.records import Document, Sample
from evalspec.registry import Registry


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one dataset and what the manifest says of reading them. `shown_as`: the path in messages.

    `corpus`: the documents' own file, where the format keeps them apart. `retrieval_gt_1d`: whether a flat list of ids
    means that all of them are needed (and) or any (or); None where the manifest does not say.
    """

    path: Path
    shown_as: str
    corpus: Path | None = None
    corpus_shown_as: str = ""
    retrieval_gt_1d: Literal["and", "or"] | None = None


@dataclass(frozen=True, slots=True)
class DatasetDefaults:
    """What a dataset file says of its own evaluation; the manifest wins over it.

    `k`: cut-offs. `thresholds`: printed metric name to its (min, max). `settings`: all else that the file says of the
    whole dataset (id, description, scopePrefix, mode …), under the file's own names, for whoever can use it.
    """

    k: tuple[int, ...] = ()
    thresholds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReadingNotes:
    """What a reader found beside the samples: `problems` refuse the dataset, `warnings` are told and accepted.

    `documents`: the corpus, None where the files bring none. `files`: what was read beside the source's own path.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    documents: list[Document] | None = None
    defaults: DatasetDefaults = field(default_factory=DatasetDefaults)
    files: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DatasetContent:
    """A whole dataset in memory: what one format reads and another writes."""

    samples: Sequence[Sample]
    documents: Sequence[Document] | None = None
    defaults: DatasetDefaults = field(default_factory=DatasetDefaults)


class Written(NamedTuple):
    """How many samples and documents a file holds, as its reader would count them."""

    samples: int
    documents: int = 0


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """One file format.

    `read` yields the samples of a source and writes what is wrong into the notes. `recognises` tells the format by the
    path and the first 64 KiB of the file, which are unpacked where it is gz.
    `find_losses` says, one line each, what of a content the format cannot hold;
    `write` writes all the rest to a path (a file, or a folder where the format has several files) and counts it.
    `has_corpus`: `read` sees to a corpus that the source names.
    """

    name: str
    summary: str
    read: Callable[[Source, ReadingNotes], Iterator[Sample]]
    recognises: Callable[[Path, bytes], bool]
    find_losses: Callable[[DatasetContent], list[str]]
    write: Callable[[DatasetContent, Path], Written]
    has_corpus: bool = False


DATASETS: Registry[DatasetFormat] = Registry("dataset format", "evalspec.datasets")
