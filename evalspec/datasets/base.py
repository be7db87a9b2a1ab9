"""What a dataset is once it is read, and the registry of formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from evalspec.errors import Problem
from evalspec.model import Document, Sample, StoredExchange, Summary
from evalspec.ranking.run_files import GroundTruth
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


def list_relevant(sample: Sample) -> list[str]:
    """The ids of the documents that are judged relevant, whatever their grade."""
    return [document for document, grade in (sample.qrels or {}).items() if grade >= 1]


class Written(NamedTuple):
    """How many samples and documents a file holds, as its reader would count them."""

    samples: int
    documents: int = 0


@dataclass(frozen=True, slots=True)
class CorpusForm:
    """Documents in a file of their own.

    `names`: what the file may be called in a folder. `suffixes`: how its name ends. `read` returns the documents
    (None where the file has another form) and writes what is wrong into the notes; its arguments are the path and the
    path in messages. `find_lines` returns the line of each document, given the path and the number of documents.
    """

    names: tuple[str, ...]
    suffixes: tuple[str, ...]
    read: Callable[[Path, str, ReadingNotes], Sequence[Document] | None]
    find_lines: Callable[[Path, int], list[int]]


@dataclass(frozen=True, slots=True)
class CompatFormulas:
    """A system's own formulas of retrieval measures, for users who need its numbers to the last digit.

    `formulas`: by our name of the measure, a function of the ranking as returned, the sample and the cut-off. It
    returns None where the system gives a query no value; `undefined` says why. `unbounded`: measures that can exceed 1.
    """

    formulas: Mapping[str, Callable[[Sequence[str], Sample, int | None], float | None]]
    undefined: str = "the system gives this query no value"
    unbounded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SearchPreset:
    """The wire of a retrieval service. `parts`: what it brings, as it would be in the manifest under `search`.

    `needed_path`: what the manifest has to add where `parts` have no path.
    """

    parts: Mapping[str, Any]
    needed_path: str = ""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """What the report of another tool says.

    `exchanges`: its samples, with scores under our names of metrics. `summaries`: the values of a report that has
    no samples, by metric. `fingerprint`: run metadata. `notes`: what a reader has to know about the scores.
    """

    dataset: str
    exchanges: Sequence[StoredExchange] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """A report of another tool as JSON. `title`: what messages call it.

    `recognises` detects it from its content. `schema` says which keys are read, and of what type. `build` gets a value
    of that type; it raises `Malformed` where it holds something that cannot be.
    """

    title: str
    recognises: Callable[[Mapping[str, Any]], bool]
    schema: type[Struct]
    build: Callable[[Any], ForeignRun]


class Malformed(ValueError):
    """A report of another tool holds something that cannot be; `field` leads to it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """One file format, and everything else that evalspec knows of the system behind it."""

    name: str
    summary: str
    """One line for help and lists."""
    read: Callable[[Source, ReadingNotes], Iterator[Sample]]
    """Yield the samples of a source; add to the notes what is wrong and what else the files hold."""
    recognises: Callable[[Path, bytes], bool]
    """Whether a file has this format, from its path and its first 64 KiB (unpacked if it is gzipped)."""
    list_losses: Callable[[DatasetContent], list[str]]
    """Return a line for each thing in a content that the format cannot hold."""
    write: Callable[[DatasetContent, Path], Written]
    """Write the rest to a path (a file, or a folder if the format has several files) and count what was written."""
    has_corpus: bool = False
    """Whether `read` handles the corpus that a source names."""
    corpus: CorpusForm | None = None
    """Documents in a file of their own, as `evalspec remap` reads them."""
    read_judgements: Callable[[Source, ReadingNotes], GroundTruth] | None = None
    """Read only the ground truth of a folder, if that is cheaper than `read`."""
    refresh_metadata: Callable[[Sample, dict[str, Any], Mapping[str, Document], bool], bool] | None = None
    """Change what the metadata of a sample says about its passages, so that it fits a new corpus.

    Takes the sample with its new passages, a copy of its metadata to change, the new documents by id, and whether the
    passages of this sample changed. Returns whether something had to be removed.
    """
    settings_key: str = ""
    """The metadata key of what a sample or document says for itself.

    A sample may have `topK`, `rerankTopK` and `scopePrefix` there, a document `loaderRef` and `assets`.
    """
    compat: CompatFormulas | None = None
    """Formulas that a dataset chooses by `compat: NAME`."""
    preset: SearchPreset | None = None
    """The wire that a retriever chooses by `search: {preset: NAME}`."""
    report: ForeignReport | None = None
    """A report that `evalspec compare` reads."""

    def register(self, registry: "Registry[DatasetFormat]") -> None:
        """Make it known under its name.

        Raises:
            ValueError: the name is taken.
        """
        registry.add(self.name, self)


DATASETS: Registry[DatasetFormat] = Registry("dataset format", "evalspec.datasets", "evalspec.formats", DatasetFormat)


def find_system(name: str) -> DatasetFormat | None:
    """Return the format of exactly this name, None if there is none.

    `compat` and `preset` have one spelling, because stored runs are compared by it; `format` has no such need.
    """
    known = DATASETS.find(name)
    return known if known is not None and known.name == name else None


def settings_finder() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a function from the metadata of a sample or document to its own settings, `{}` if it has none."""
    keys = [known.settings_key for known in DATASETS if known.settings_key]
    return lambda metadata: next((own for key in keys if isinstance(own := metadata.get(key), Mapping)), {})
