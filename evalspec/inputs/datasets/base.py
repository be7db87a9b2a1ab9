"""The content of a dataset, and the registry of formats."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import Problem
from evalspec.base.registry import Registry
from evalspec.inputs.datasets.query_input import QueryInput, QueryInputForm, describe_question
from evalspec.inputs.ranking_files import GroundTruth
from evalspec.model import AgentReply, Curation, Direction, Document, Sample, StoredExchange, Summary
from evalspec.model.conventions import FlatIds
from evalspec.model.exchanges import QUERY_INPUT
from evalspec.model.fingerprints import Fingerprint, PartDigest


class Source(Struct, frozen=True):
    """The files of a dataset and how to read them. `shown_as`: the path in messages.

    `corpus`: the file of the documents, if they are in a separate file. `retrieval_gt_1d`: whether a flat list of ids
    requires all of them (and) or any (or); None if the manifest does not say. `fields`: the column of each field, for
    formats of records. `with_replies`: whether to return the replies that the file also has.
    `with_pending`: whether to return triples that nobody has reviewed. `takes_files`: whether inputs of queries may
    refer to files beside the dataset.
    """

    path: Path
    shown_as: str
    corpus: Path | None = None
    corpus_shown_as: str = ""
    retrieval_gt_1d: FlatIds | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    with_replies: bool = False
    with_pending: bool = False
    takes_files: bool = True

    @property
    def folder(self) -> Path:
        """The folder of the dataset."""
        return self.path if self.path.is_dir() else self.path.parent


class DatasetDefaults(Struct, frozen=True):
    """The evaluation settings of a dataset file, which the manifest overrides.

    `k`: cutoffs. `thresholds`: printed metric name to its (min, max). `settings`: other settings of the whole dataset
    (id, description, scopePrefix, mode …), under the file's own names.
    """

    k: tuple[int, ...] = ()
    thresholds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class ReadingNotes(Struct):
    """What a reader found besides the samples. `problems` reject the dataset; `warnings` do not.

    `remarks`: what only `evalspec validate` says. `documents`: the corpus, None if the files have none.
    `files`: files that were read besides the source's path.
    `curation`: computes agreement and quality of a gold set; None for other datasets. `replies`: the recorded replies
    by sample id, if the source wants them.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)
    documents: list[Document] | None = None
    defaults: DatasetDefaults = field(default_factory=DatasetDefaults)
    files: list[Path] = field(default_factory=list)
    curation: Callable[[], Curation] | None = None
    replies: dict[str, AgentReply] = field(default_factory=dict)


class DatasetContent(Struct, frozen=True):
    """A whole dataset in memory, independent of its format. `replies`: recorded ones by sample id, to be written."""

    samples: Sequence[Sample]
    documents: Sequence[Document] | None = None
    defaults: DatasetDefaults = field(default_factory=DatasetDefaults)
    replies: Mapping[str, AgentReply] = field(default_factory=dict)


def list_relevant(sample: Sample) -> list[str]:
    """Return the ids of the documents judged relevant, with any grade."""
    return [document for document, grade in (sample.qrels or {}).items() if grade >= 1]


class Written(NamedTuple):
    """The number of samples and documents in a file, as its reader would count them."""

    samples: int
    documents: int = 0


class CorpusForm(Struct, frozen=True):
    """Documents in a separate file.

    `names`: possible names of the file in a folder. `suffixes`: the suffixes of its name. `read` takes the path and the
    path in messages, returns the documents (None if the file has another format), and adds problems to the notes.
    `find_lines` takes the path and the number of documents, and returns the line of each document.
    """

    names: tuple[str, ...]
    suffixes: tuple[str, ...]
    read: Callable[[Path, str, ReadingNotes], Sequence[Document] | None]
    find_lines: Callable[[Path, int], list[int]]


class CompatFormulas(Struct, frozen=True):
    """A system's own formulas of retrieval measures, for users who need to reproduce its numbers exactly.

    `formulas`: by evalspec's name of the measure, a function of the returned ranking, the sample and the cutoff. It
    returns None if the system gives a query no value; `undefined` says why. `unbounded`: measures that can exceed 1.
    `flat_ids`: what a flat list of relevant ids means to the system, if its form does not say.
    """

    formulas: Mapping[str, Callable[[Sequence[str], Sample, int | None], float | None]]
    undefined: str = "the system gives this query no value"
    unbounded: frozenset[str] = frozenset()
    flat_ids: FlatIds | None = None


class SearchPreset(Struct, frozen=True):
    """The wire format of a retrieval service. `parts`: its settings, as in the manifest under `search`.

    `needed_path`: what the manifest must add if `parts` have no path.
    """

    parts: Mapping[str, Any]
    needed_path: str = ""


class ForeignMetric(Struct, frozen=True):
    """A metric of another tool. `bounds`: lowest and highest possible value; None: unknown. `judged`: by a model."""

    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    direction: Direction = Direction.HIGHER
    judged: bool = False


class ForeignRun(Struct, frozen=True):
    """The content of another tool's report or log.

    `exchanges`: each attempt at its samples, with scores. `metrics`: those whose form is not the default. `summaries`:
    the values of a report without samples, by metric. `fingerprint`: run metadata. `notes`: what a reader must know
    about the scores. `unfinished`: what is missing of a run that was ended.
    """

    dataset: str
    exchanges: Sequence[StoredExchange] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    fingerprint: Fingerprint = Fingerprint()
    notes: Sequence[str] = ()
    metrics: Mapping[str, ForeignMetric] = field(default_factory=dict)
    unfinished: str | None = None


class ForeignReport(Struct, frozen=True):
    """A report of another tool as JSON. `title`: its name in messages.

    `recognises` detects it from its content. `schema`: the keys to read and their types. `build` gets a value of that
    type and raises `Malformed` if its content is impossible.
    """

    title: str
    recognises: Callable[[Mapping[str, Any]], bool]
    schema: type[Struct]
    build: Callable[[Any], ForeignRun]


class Malformed(ValueError):
    """A report of another tool has impossible content. `field`: its place."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class Part(Struct, frozen=True):
    """A part of a gold set. `holds`: whether it contains a sample, by id. `details`: for the fingerprint.

    `left_out`: the samples of the part that are no longer in the set, as a phrase.
    """

    holds: Callable[[str], bool]
    details: PartDigest = PartDigest()
    left_out: str | None = None
    note: str | None = None


class DatasetParts(Struct, frozen=True):
    """The parts of a gold set: `open` returns a slice by its name, or for None the held-out share.

    `recognises`: whether a folder has parts. `log_use`: log that a run, by its id, used the held-out share.
    """

    recognises: Callable[[Path], bool]
    open: Callable[[Path, str | None], Part]
    log_use: Callable[[Path, str], Any]


class SampleReader(Protocol):
    """Reads the samples of a dataset."""

    def __call__(self, source: Source, notes: ReadingNotes, /) -> Iterator[Sample]:
        """Yield the samples of a source, each with its line; add to the notes what is wrong and what else there is.

        Wrong content is a problem in the notes, never an exception, so that all problems are reported at once.
        """
        ...


class SampleWriter(Protocol):
    """Writes a dataset."""

    def __call__(self, content: DatasetContent, path: Path, /) -> Written:
        """Write a content to a path (a file, or a folder if the format has several files) and count what was written.

        What the format cannot hold is left out; `list_losses` says so before.
        """
        ...


class DatasetFormat(Struct, frozen=True):
    """A file format, with everything else that evalspec knows about its system."""

    name: str
    summary: str
    """One line for help and lists."""
    read: SampleReader
    recognises: Callable[[Path, bytes], bool]
    """Whether a file has this format, from its path and its first 64 KiB (unpacked if it is gzipped)."""
    list_losses: Callable[[DatasetContent], list[str]] = lambda _: []
    """Return a line for each thing in a content that the format cannot hold."""
    write: SampleWriter | None = None
    """None if evalspec only reads the format."""
    aliases: Collection[str] = ()
    takes_replies: bool = False
    """Whether it writes recorded replies, or what they retrieved."""
    is_generic: bool = False
    """Whether files of other systems may look the same, so that the other formats are tried first."""
    columns: Collection[str] = ()
    """The names that its records have, for hints about files of an unknown form."""
    takes_fields: bool = False
    """Whether its files are records whose columns `fields` can name."""
    has_corpus: bool = False
    """Whether `read` handles the corpus of a source."""
    corpus: CorpusForm | None = None
    """Documents in a separate file, as `evalspec remap` reads them."""
    unrelated: Collection[str] = ()
    """Subfolders of a dataset's folder that no sample depends on. The hash of the dataset leaves them out."""
    read_judgements: Callable[[Source, ReadingNotes], GroundTruth] | None = None
    """Read only the ground truth of a folder, if that is cheaper than `read`."""
    refresh_metadata: Callable[[Sample, dict[str, Any], Mapping[str, Document], bool], bool] | None = None
    """Change what the metadata of a sample says about its passages to match a new corpus.

    Takes the sample with its new passages, a copy of its metadata to change, the new documents by id, and whether the
    passages of this sample changed. Returns whether it removed anything.
    """
    settings_key: str = ""
    """The metadata key of the settings of a single sample or document.

    A sample may have `topK`, `rerankTopK` and `scopePrefix` there, a document `loaderRef` and `assets`.
    """
    query_input: QueryInputForm | None = None
    """How its queries are objects with more than the question, for retrievers that take more."""
    compat: CompatFormulas | None = None
    """Formulas that a dataset chooses by `compat: NAME`."""
    of_means: Mapping[str, Callable[[float, float], float]] = field(default_factory=dict)
    """Measures that the system computes from the mean precision and the mean recall, by evalspec's name.

    They have no value per query, so only evaluations by the service offer them, by `compat: NAME`.
    """
    preset: SearchPreset | None = None
    """The wire format that a retriever chooses by `search: {preset: NAME}`."""
    parts: DatasetParts | None = None
    report: ForeignReport | None = None
    """A report that `evalspec compare` reads."""

    def register(self, registry: "Registry[DatasetFormat]") -> None:
        """Register the format under its name.

        Raises:
            ValueError: the name is taken.
        """
        registry.add(self.name, self, self.aliases)


def when_used(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when it is first called.

    Every run asks every format whether it recognises the dataset, so what reads and writes one need not be imported.
    """
    return lambda *given: getattr(import_module(module), name)(*given)


_FORMATS = ("evalspec.inputs.formats", "evalspec.curation.formats")
DATASETS: Registry[DatasetFormat] = Registry("dataset format", "evalspec.datasets", _FORMATS, DatasetFormat)


def find_system(name: str) -> DatasetFormat | None:
    """Return the format of exactly this name, None if there is none.

    `compat` and `preset` have one spelling, because stored runs are compared by it. `format` does not need that.
    """
    known = DATASETS.find(name)
    return known if known is not None and known.name == name else None


def settings_finder() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a function from the metadata of a sample or document to its own settings, `{}` if it has none."""
    keys = [known.settings_key for known in DATASETS if known.settings_key]
    return lambda metadata: next((own for key in keys if isinstance(own := metadata.get(key), Mapping)), {})


def list_input_keys() -> frozenset[str]:
    """Return the metadata keys under which samples keep inputs. A sample without any is only a question."""
    return frozenset(one.query_input.metadata_key for one in DATASETS if one.query_input is not None)


def input_finder(format_name: str) -> Callable[[Sample], QueryInput]:
    """Return a function from a sample of a dataset in this format to its query's input.

    Every format's inputs are found, because a sample keeps its input when its dataset is converted.
    """
    forms: dict[str, QueryInputForm] = {one.name: one.query_input for one in DATASETS if one.query_input is not None}
    own = forms.get(format_name)
    key = own.question_keys[0] if own else "query"

    def find_input(sample: Sample) -> QueryInput:
        for form in forms.values():
            if form.metadata_key in sample.metadata and (kept := form.find_kept(sample)) is not None:
                return replace(kept, place=QUERY_INPUT) if form is own else kept
        given = describe_question(sample, key)
        return replace(given, place=QUERY_INPUT, is_text=False) if own else given

    return find_input
