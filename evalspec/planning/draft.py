"""What is gathered while a manifest is checked, and what a checked dataset is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evalspec.datasets.load import Collect
from evalspec.datasets.spooling import spool
from evalspec.errors import InvalidInput, Problem
from evalspec.judge.services import JudgeServices
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.retriever_schema import Bm25Options, HttpTarget, PythonTarget, RetrieverTarget
from evalspec.manifest.yaml_source import Place
from evalspec.metrics.base import Metric
from evalspec.model import Document, Need, RetrieverSettings, Sample, Threshold
from evalspec.planning.options import RunOptions
from evalspec.planning.services import resolve_judge
from evalspec.retrievers.agent import QuerySettings
from evalspec.retrievers.base import Retriever
from evalspec.retrievers.ingest_plan import IngestPlan


@dataclass(frozen=True, slots=True)
class PlannedRetriever:
    """How a dataset is asked of a retriever.

    `target`: as the manifest has it, with its references resolved once a run is planned. `documents`: what is ingested,
    None where nothing is to be. `opened`: the retriever, None while a manifest is only checked and where replies are
    at hand. `ingest`: what is deleted and ingested before asking.
    """

    target: RetrieverTarget
    query_settings: QuerySettings
    url: str | None = None
    documents: tuple[Document, ...] | None = None
    opened: Retriever | None = None
    ingest: IngestPlan | None = None

    @property
    def settings(self) -> RetrieverSettings:
        """How the queries are put."""
        return self.query_settings.settings

    @property
    def needs_embeddings(self) -> bool:
        """Whether it may want vectors."""
        return not isinstance(self.target, HttpTarget | PythonTarget | Bm25Options)


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """One dataset of a run. `available`: how many samples its file has, of which `samples` are selected.

    `slices`: metadata keys (or `tags`) by whose values the results are shown as well, None for all that have few
    values. `cluster`: the metadata key of samples that are not independent of each other. `retriever`: what is asked
    instead of the agent. `files`: what is read beside its own file.
    """

    name: str
    file: str
    sha256: str
    available: int
    samples: Sequence[Sample]
    metrics: tuple[Metric, ...]
    thresholds: tuple[Threshold, ...]
    slices: tuple[str, ...] | None = None
    cluster: str | None = None
    retriever: PlannedRetriever | None = None
    files: tuple[Path, ...] = ()

    @property
    def is_at_agent(self) -> bool:
        """Whether it is asked at the agent's address: of the agent itself, or of a service that names no other."""
        target = self.retriever and self.retriever.target
        return target is None or (isinstance(target, HttpTarget) and target.http.url is None)


@dataclass(slots=True)
class Draft:
    """What is gathered while a manifest is checked. `collect`: where the samples go that are read."""

    loaded: LoadedManifest
    options: RunOptions
    services: JudgeServices
    problems: list[Problem]
    warnings: list[Problem]
    collect: Collect = spool

    def add(self, place: Place, message: str, fix: str = "") -> None:
        """Note a problem at a field of the manifest."""
        self.problems.append(self.loaded.problem(place, message, fix))

    def warn(self, place: Place, message: str, fix: str = "") -> None:
        """Note something that is accepted but should be known."""
        self.warnings.append(self.loaded.problem(place, message, fix))

    def wants(self, dataset: str) -> bool:
        """Whether the run is about this dataset: the named ones, else those that are for a retriever where one is
        chosen and there are such, else all."""
        if self.options.datasets:
            return dataset in self.options.datasets
        for_retrievers = [d.name for d in self.loaded.manifest.spec.evaluation.datasets if d.retriever]
        return self.options.retriever is None or not for_retrievers or dataset in for_retrievers

    def raise_problems(self) -> None:
        """Stop here with everything found so far.

        Raises:
            InvalidInput: if there is any problem.
        """
        if self.problems:
            raise InvalidInput(self.problems)


def start_draft(loaded: LoadedManifest, options: RunOptions, collect: Collect = spool) -> Draft:
    """A draft with nothing found yet; its judge and embeddings are as declared, not resolved."""
    evaluation = loaded.manifest.spec.evaluation
    return Draft(
        loaded, options, JudgeServices(resolve_judge(evaluation.judge), evaluation.embeddings), [], [], collect
    )


def needs_of(datasets: Sequence[PlannedDataset]) -> set[Need]:
    """All that the metrics and retrievers of these datasets need in this run."""
    needs = {need for dataset in datasets for m in dataset.metrics if not m.skip_reason for need in m.needs}
    return needs | {Need.EMBEDDINGS for d in datasets if d.retriever is not None and d.retriever.needs_embeddings}
