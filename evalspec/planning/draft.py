"""The state of a manifest check, and the checked datasets."""

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
    """How a dataset queries a retriever.

    `target`: from the manifest; its references are resolved when a run is planned. `documents`: to ingest, None if
    there are none. `opened`: the retriever, None if the manifest is only checked or replies are available. `ingest`:
    the deletions and ingestion before the first query.
    """

    target: RetrieverTarget
    query_settings: QuerySettings
    url: str | None = None
    documents: tuple[Document, ...] | None = None
    opened: Retriever | None = None
    ingest: IngestPlan | None = None

    @property
    def settings(self) -> RetrieverSettings:
        """Return the query settings."""
        return self.query_settings.settings

    @property
    def needs_embeddings(self) -> bool:
        """Return whether the retriever may need embeddings."""
        return not isinstance(self.target, HttpTarget | PythonTarget | Bm25Options)


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """A dataset of a run. `available`: the number of samples in its file. `samples`: the selected ones.

    `slices`: metadata keys (or `tags`) to slice results by; None for all keys with few values. `cluster`: the metadata
    key that groups dependent samples. `retriever`: queried instead of the agent. `files`: additional files that are
    read.
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
        """Return whether queries go to the agent's URL: to the agent, or to a service without its own URL."""
        target = self.retriever and self.retriever.target
        return target is None or (isinstance(target, HttpTarget) and target.http.url is None)


@dataclass(slots=True)
class Draft:
    """The state of a manifest check. `collect`: turns the samples that are read into a collection."""

    loaded: LoadedManifest
    options: RunOptions
    services: JudgeServices
    problems: list[Problem]
    warnings: list[Problem]
    collect: Collect = spool

    def add(self, place: Place, message: str, fix: str = "") -> None:
        """Add a problem at a field of the manifest."""
        self.problems.append(self.loaded.problem(place, message, fix))

    def warn(self, place: Place, message: str, fix: str = "") -> None:
        """Add a warning at a field of the manifest."""
        self.warnings.append(self.loaded.problem(place, message, fix))

    def wants(self, dataset: str) -> bool:
        """Return whether the run includes a dataset.

        It includes the datasets selected by name. Otherwise, if a retriever is selected and some datasets use one, it
        includes only these. Otherwise, it includes all.
        """
        if self.options.datasets:
            return dataset in self.options.datasets
        for_retrievers = [d.name for d in self.loaded.manifest.spec.evaluation.datasets if d.retriever]
        return self.options.retriever is None or not for_retrievers or dataset in for_retrievers

    def raise_problems(self) -> None:
        """Raise all problems found so far.

        Raises:
            InvalidInput: there is a problem.
        """
        if self.problems:
            raise InvalidInput(self.problems)


def start_draft(loaded: LoadedManifest, options: RunOptions, collect: Collect = spool) -> Draft:
    """Return an empty draft. Its judge and embeddings are as declared, not resolved."""
    evaluation = loaded.manifest.spec.evaluation
    return Draft(
        loaded, options, JudgeServices(resolve_judge(evaluation.judge), evaluation.embeddings), [], [], collect
    )


def needs_of(datasets: Sequence[PlannedDataset]) -> set[Need]:
    """Return all needs of the metrics and retrievers of these datasets in this run."""
    needs = {need for dataset in datasets for m in dataset.metrics if not m.skip_reason for need in m.needs}
    return needs | {Need.EMBEDDINGS for d in datasets if d.retriever is not None and d.retriever.needs_embeddings}
