"""The state of a manifest check, and the checked datasets."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DatasetContent
from evalspec.inputs.datasets.load import Collect, LoadedDataset
from evalspec.inputs.datasets.selection import add_digest
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import Limit
from evalspec.inputs.manifest.tool_schema import Tools, declare_tools
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Document, LimitStatus, Need, RetrieverSettings, Sample, StatedLimit, Threshold
from evalspec.model.conventions import EmptyQrels
from evalspec.model.fingerprints import PartDigest, RetrieverMode
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.passes import PlannedPasses
from evalspec.runs.planning.services import resolve_judge
from evalspec.runs.planning.survey import Survey
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.metrics.base import Metric, RelevanceRules
from evalspec.scoring.metrics.retrieval import compat_formulas
from evalspec.targets.agents.replay import RecordedReply
from evalspec.targets.retrievers.agent import QuerySettings

if TYPE_CHECKING:
    from evalspec.inputs.manifest.retriever_schema import RetrieverTarget
    from evalspec.targets.retrievers.base import Retriever
    from evalspec.targets.retrievers.ingest_plan import IngestPlan


class PlannedRetriever(Struct, frozen=True):
    """The retriever that a dataset queries, and how.

    `target`: from the manifest; its references are resolved when a run is planned. `place`: of the target in the
    manifest. `query_settings`: only name and mode until the metrics of the dataset are known. `documents`: to ingest,
    None if there are none. `opened`: the retriever, None if the manifest is only checked or replies are available.
    `ingest`: the deletions and ingestion before the first query.
    """

    target: "RetrieverTarget"
    place: Place
    query_settings: QuerySettings
    url: str | None = None
    documents: tuple[Document, ...] | None = None
    opened: "Retriever | None" = None
    ingest: "IngestPlan | None" = None

    @property
    def settings(self) -> RetrieverSettings:
        """Return the query settings."""
        return self.query_settings.settings

    @property
    def name(self) -> str:
        """Return its name, with the label of its variant if it is part of a grid."""
        return self.settings.name

    @property
    def reranks(self) -> bool:
        """Return whether its hits are reranked."""
        return self.settings.mode == RetrieverMode.RERANK

    @property
    def given(self) -> frozenset[Need]:
        """Return the needs that its replies satisfy."""
        always = frozenset({Need.CONTEXT, Need.RETRIEVED_IDS})
        return always | {Need.CANDIDATE_IDS} if self.reranks else always

    @property
    def needs_embeddings(self) -> bool:
        """Return whether the retriever may need embeddings."""
        from evalspec.inputs.manifest.retriever_schema import Bm25Options, HttpTarget, PythonTarget

        return not isinstance(self.target, HttpTarget | PythonTarget | Bm25Options)

    @property
    def is_at_agent(self) -> bool:
        """Return whether the retriever is a service without its own URL."""
        from evalspec.inputs.manifest.retriever_schema import HttpTarget

        return isinstance(self.target, HttpTarget) and self.target.http.url is None


Identity = tuple[str, str, str | None]
"""What a limit is about: printed name of the metric, statistic, slice. A limit overrides those of the same identity."""

NOT_READ = LoadedDataset("", DatasetContent(()), "", (), ())
"""Placeholder for a dataset that is not read."""


class Decision(Struct):
    """What a dataset, or the evaluation, says on an identity. `is_used`: it overrides or lifts a limit."""

    status: LimitStatus
    place: str
    problem: Problem
    is_used: bool = False


class WholeSelection(Struct, frozen=True):
    """The samples of a whole run. `own`: the positions of those of this shard.

    `is_first`: no lower shard has samples of the dataset, so this one tests the judge, once for all shards.
    """

    samples: Sequence[Sample]
    own: tuple[int, ...]
    is_first: bool


class PlannedDataset(Struct):
    """A dataset from the check of its manifest to its last score. The check completes it; then it stays as it is.

    `place`: its section of the manifest. `data`: what its files contain, with the selected samples.
    `retriever`: queried instead of the agent. `metrics`: by printed name, the `listed` ones and those that a threshold
    adds. `passes`: the metrics over attempts that a threshold limits, by name. `limits`: each one stated for it.
    `decided`: what overrides or lifts limits. `files`: additional files that are read. `part`: the slice or held-out
    share of a gold set that the run uses, None for the whole dataset. `removed`: samples of the gate's baseline that
    are gone from the file. `passages`: texts of its corpus by id, if spans of the agent are received. `whole`: what a
    shard is a part of; None: the run is no shard.
    """

    config: DatasetConfig
    place: Place = ()
    data: LoadedDataset = NOT_READ
    survey: Survey = field(default_factory=Survey)
    retriever: PlannedRetriever | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    passes: dict[str, PlannedPasses] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()
    thresholds: list[Threshold] = field(default_factory=list)
    limits: list[StatedLimit] = field(default_factory=list)
    decided: dict[Identity, Decision] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    part: PartDigest | None = None
    removed: tuple[str, ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict)
    whole: WholeSelection | None = None

    @property
    def name(self) -> str:
        """The name in the manifest."""
        return self.config.name

    @property
    def file(self) -> str:
        """The path of its file, as messages show it."""
        return self.data.shown_as

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples of the run: all of the file until some are selected."""
        return self.data.samples

    @property
    def selected(self) -> Sequence[Sample]:
        """The samples of the run, of all its shards."""
        return self.data.samples if self.whole is None else self.whole.samples

    @property
    def tests_judge(self) -> bool:
        """Whether this run tests the judge of the dataset. Of several shards, one does."""
        return self.whole is None or self.whole.is_first

    @property
    def available(self) -> int:
        """The number of samples in its file. 0 if the file is not read, because the dataset is not selected."""
        return self.survey.count

    @property
    def rules(self) -> RelevanceRules:
        """The rules of its retrieval metrics."""
        compat = self.config.compat if compat_formulas(self.config.compat) else None
        return RelevanceRules(self.config.min_grade, compat, self.config.empty_qrels == EmptyQrels.ZERO)

    @property
    def computed(self) -> list[Metric]:
        """The metrics that the run does not skip."""
        return [metric for metric in self.metrics.values() if not metric.skip_reason]

    @property
    def is_at_agent(self) -> bool:
        """Return whether queries go to the agent's URL: to the agent, or to a service without its own URL."""
        return self.retriever is None or self.retriever.is_at_agent

    def find_setting(self, key: str) -> str | None:
        """Return a text that the file says about the whole dataset, None if it has none."""
        value = self.data.content.defaults.settings.get(key)
        return value if isinstance(value, str) else None

    def identify(self, name: str, limit: Limit) -> Identity:
        """Return what a limit is about: metric, statistic and slice."""
        return name, limit.stat or self.find_metric(name).definition.statistic, limit.slice

    def find_metric(self, name: str) -> Metric:
        """Return the metric of a threshold: one of replies, or one over attempts."""
        return self.metrics.get(name) or self.passes[name].metric

    def record(self, identity: Identity, limit: Threshold, place: str) -> StatedLimit:
        """Add a limit to those stated, and to the thresholds if it is enforced."""
        name, stat, slice = identity
        stated = StatedLimit(
            metric=name, stat=stat, slice=slice, min=limit.min, max=limit.max, place=place, status=LimitStatus.ENFORCED
        )
        if (decision := self.decided.get(identity)) is not None:
            decision.is_used = True
            stated = replace(stated, status=decision.status, by=decision.place)
        elif self.survey.has_slice(slice):
            self.thresholds.append(limit)
        elif self.available:
            stated = replace(stated, status=LimitStatus.DEAD)
        self.limits.append(stated)
        return stated


def keep_samples(samples: Iterable[Sample]) -> Sequence[Sample]:
    """Return the samples as a sequence, each with its digest, on disk if there are many."""
    return spool(map(add_digest, samples))


class Draft(Struct):
    """The state of a manifest check. `collect`: turns the samples that are read into a collection.

    `replies`: the replies in the files of the datasets, if the run scores them. `tools`: those that the agent has.
    `remarks`: what only `evalspec validate` says.
    """

    loaded: LoadedManifest
    options: RunOptions
    services: JudgeServices
    problems: list[Problem]
    warnings: list[Problem]
    collect: Collect = keep_samples
    replies: dict[tuple[str, str], RecordedReply] = field(default_factory=dict)
    tools: Tools | None = None
    remarks: list[Problem] = field(default_factory=list)

    @property
    def own_agent(self) -> str | None:
        """The agent in the user's code, as module:object; None if the run calls another agent, or none."""
        options = self.options
        return self.loaded.manifest.spec.api.python if options.needs_url and options.url is None else None

    @property
    def needs_url(self) -> bool:
        """Whether the agent is called over HTTP."""
        return self.options.needs_url and self.own_agent is None

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
            raise InvalidInput(dict.fromkeys(self.problems))


def start_draft(loaded: LoadedManifest, options: RunOptions, collect: Collect = keep_samples) -> Draft:
    """Return an empty draft. Its judge and embeddings are as declared, not resolved."""
    evaluation = loaded.manifest.spec.evaluation
    services = JudgeServices(resolve_judge(evaluation.judge), evaluation.embeddings)
    draft = Draft(loaded, options, services, [], [], collect)
    draft.tools = declare_tools(loaded, draft.problems)
    return draft


def needs_of(datasets: Sequence[PlannedDataset], *, with_judged: bool = True) -> set[Need]:
    """Return all needs of the metrics, or of those without a judge, and retrievers of these datasets in this run."""
    metrics = [metric for dataset in datasets for metric in dataset.computed]
    needs = {need for metric in metrics if with_judged or Need.JUDGE not in metric.needs for need in metric.needs}
    return needs | {Need.EMBEDDINGS for d in datasets if d.retriever is not None and d.retriever.needs_embeddings}
