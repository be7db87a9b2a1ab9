"""What a dataset is once it is read, and the registry of formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evalspec.errors import Problem
from evalspec.ranking.run_files import GroundTruth
from evalspec.records import Document, Sample, Summary, Transcript
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
    undefined: str = ""
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

    `transcripts`: its samples, with scores under our names of metrics. `summaries`: the values of a report that has
    no samples. `fingerprint`: run metadata. `notes`: what a reader has to know of the scores.
    """

    dataset: str
    transcripts: Sequence[Transcript] = ()
    summaries: Sequence[Summary] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """A report of another tool as JSON. `title`: what messages call it.

    `recognises` detects it from its content. `parse` raises `Malformed` (reporters/checked_json.py) where a value is
    not what it should be.
    """

    title: str
    recognises: Callable[[Mapping[str, Any]], bool]
    parse: Callable[[Mapping[str, Any]], ForeignRun]


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """One file format, and what else comes with the system that it belongs to.

    `read` yields the samples of a source and writes what is wrong into the notes. `recognises` detects the format from
    the path and the first 64 KiB of the file, which are unpacked where it is gz.
    `find_losses` returns a line for each thing in a content that the format cannot hold;
    `write` writes all the rest to a path (a file, or a folder where the format has several files) and counts it.
    `has_corpus`: `read` handles a corpus that the source names, if it is of the form `corpus`.

    The rest is optional. `corpus`: its form of documents in a file of their own. `read_judgements` returns only the
    ground truth of a folder, where that is cheaper than `read`. `refresh_metadata` makes what the metadata of a sample
    says of its passages fit another corpus, given the sample as it is now, a copy of its metadata to change, the new
    documents by id, and whether its passages changed; it returns whether it had to remove something. `settings_key`:
    the metadata key under which a sample may keep `topK`, `rerankTopK` and `scopePrefix` of its own, and a document
    `loaderRef` and `assets`. `compat`, `preset` and `report`: what the manifest names as `compat` and as a search
    `preset`, and what `evalspec compare` reads.
    """

    name: str
    summary: str
    read: Callable[[Source, ReadingNotes], Iterator[Sample]]
    recognises: Callable[[Path, bytes], bool]
    find_losses: Callable[[DatasetContent], list[str]]
    write: Callable[[DatasetContent, Path], Written]
    has_corpus: bool = False
    corpus: CorpusForm | None = None
    read_judgements: Callable[[Source, ReadingNotes], GroundTruth] | None = None
    refresh_metadata: Callable[[Sample, dict[str, Any], Mapping[str, Document], bool], bool] | None = None
    settings_key: str = ""
    compat: CompatFormulas | None = None
    preset: SearchPreset | None = None
    report: ForeignReport | None = None


DATASETS: Registry[DatasetFormat] = Registry("dataset format", "evalspec.datasets", "evalspec.formats:register_formats")


def settings_finder() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a function from the metadata of a sample or document to its own settings, `{}` where it has none."""
    keys = [known.settings_key for known in DATASETS if known.settings_key]
    return lambda metadata: next((own for key in keys if isinstance(own := metadata.get(key), Mapping)), {})
