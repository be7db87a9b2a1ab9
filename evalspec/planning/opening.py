"""The retrievers of a run opened and their documents loaded: what is wrong is found before anything is deleted."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.retriever_schema import HttpTarget, QdrantOptions, RetrieverTarget
from evalspec.manifest.schema import DatasetConfig
from evalspec.model import Document
from evalspec.planning.agent import explain_bad_url
from evalspec.planning.draft import Draft, PlannedDataset, PlannedRetriever
from evalspec.planning.retriever_targets import RETRIEVERS_PLACE, name_variants
from evalspec.planning.services import resolve_config
from evalspec.retrievers.agent import RERANK
from evalspec.retrievers.base import Reranks, Retriever
from evalspec.retrievers.http_target_checks import tells_scope
from evalspec.retrievers.ingest_plan import DEFAULT_BATCH_SIZE, Cleanup, IngestPlan, plan_ingest
from evalspec.retrievers.loaders import count_assets, load_documents, open_loader
from evalspec.retrievers.opening import open_retriever, store_address
from evalspec.retrievers.vectors import KnownVectors, TextVectors


def open_retrievers(
    draft: Draft, datasets: Sequence[PlannedDataset], url: str | None, known: KnownVectors
) -> tuple[PlannedDataset, ...]:
    """The datasets, those that are asked of a retriever with it opened, once for all of them. `url`: the agent's.
    `known`: vectors of texts that were embedded already, to be added to. What is wrong is among the draft's problems.
    """
    opening = _Opening(draft, url, known)
    return tuple(
        dataset if dataset.retriever is None else replace(dataset, retriever=opening.open(dataset, dataset.retriever))
        for dataset in datasets
    )


@dataclass(slots=True)
class _Opening:
    """What the retrievers of one run are opened with, and those that are."""

    draft: Draft
    url: str | None
    known: KnownVectors
    opened: dict[str, Retriever] = field(default_factory=dict)

    def open(self, dataset: PlannedDataset, planned: PlannedRetriever) -> PlannedRetriever:
        """One dataset's retriever, as far as nothing is wrong with it."""
        draft, found = self.draft, len(self.draft.problems)
        target = resolve_target(draft, planned.settings.name, planned.target)
        documents = _load(draft, dataset, planned)
        _check_scopes(draft, dataset, planned)
        if len(draft.problems) > found:
            return planned
        planned = replace(planned, target=target, url=self.url, documents=documents)
        try:
            retriever = self._open(planned)
            _check_mode(dataset, planned, retriever)
            ingest = _plan_ingest(draft, dataset, planned, retriever)
        except InvalidInput as error:
            file = draft.loaded.source.file
            draft.problems.extend(replace(problem, file=file) for problem in error.problems)
            return planned
        return replace(planned, opened=retriever, ingest=ingest)

    def _open(self, planned: PlannedRetriever) -> Retriever:
        name = planned.settings.name
        if name not in self.opened:
            vectors = TextVectors(self.draft.services.embedder, self.known)
            folder = self.draft.loaded.path.parent
            self.opened[name] = open_retriever(planned.target, self.url, folder, vectors)
        return self.opened[name]


def resolve_target(draft: Draft, name: str, target: RetrieverTarget) -> RetrieverTarget:
    """A retriever's target with its references resolved, and a path from the manifest's folder; what is wrong with it
    is among the draft's problems. `name`: of its variant."""
    loaded = draft.loaded
    key, _ = name_variants(loaded.manifest.spec.evaluation)[name]
    place = (*RETRIEVERS_PLACE, key)
    target = resolve_config(target, place, loaded, draft.problems)
    if isinstance(target, HttpTarget) and target.http.url is not None:
        bad = explain_bad_url(target.http.url)
        if bad is not None:
            draft.add((*place, "http", "url"), *bad)
    if isinstance(target, QdrantOptions) and target.path is not None:
        return target.model_copy(update={"path": str(loaded.path.parent / target.path)})
    return target


def _check_scopes(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> None:
    """Scopes that queries have of their own: a store that tells scopes by delimiters would refuse them while asked."""
    overrides = planned.query_settings.overrides if isinstance(planned.target, QdrantOptions) else {}
    for name, own in overrides.items():
        if own.scope_prefix is not None and own.scope_prefix[-1].isalnum():
            message = f"query '{name}': qdrant tells scopes by delimiters, and '{own.scope_prefix}' ends in none"
            draft.problems.append(Problem(message, f"write '{own.scope_prefix}:'", dataset.file))


def _load(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> tuple[Document, ...] | None:
    """The documents with the texts that they refer to."""
    if planned.documents is None:
        return None
    config = _config_of(draft.loaded, dataset.name)
    folder = draft.loaded.references.path(config.path).parent
    loader = open_loader(folder, config.loader, draft.loaded.path.parent)
    assets = count_assets(planned.documents)
    if assets:
        message = f"dataset '{dataset.name}': {assets} of its documents have assets, and only texts are ingested"
        draft.warnings.append(Problem(message, file=dataset.file))
    try:
        return asyncio.run(load_documents(planned.documents, loader))
    except InvalidInput as error:
        draft.problems.extend(replace(problem, file=dataset.file) for problem in error.problems)
        return None


def _config_of(loaded: LoadedManifest, dataset: str) -> DatasetConfig:
    return next(config for config in loaded.manifest.spec.evaluation.datasets if config.name == dataset)


def _check_mode(dataset: PlannedDataset, planned: PlannedRetriever, retriever: Retriever) -> None:
    if planned.settings.mode == RERANK and not isinstance(retriever, Reranks):
        message = f"dataset '{dataset.name}': the retriever '{planned.settings.name}' cannot rerank"
        raise InvalidInput(message, "give it a method rerank(query, hits, top_k), or use mode: retrieve")


def _plan_ingest(
    draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever, retriever: Retriever
) -> IngestPlan | None:
    """What is deleted and ingested; None where what is indexed already is asked."""
    options, settings = draft.options, planned.settings
    store = store_address(planned.target, planned.url)
    if planned.documents is None:
        if store is None:
            message = (
                f"the retriever '{settings.name}' searches in memory, and dataset '{dataset.name}' has no documents"
            )
            raise InvalidInput(message, "name the dataset's corpus, or another retriever")
        return None
    http = planned.target.http if isinstance(planned.target, HttpTarget) else None
    return plan_ingest(
        retriever,
        planned.documents,
        settings.scope_prefix,
        name=settings.name,
        store=store,
        queries=len(dataset.samples) * options.repeat,
        batch_size=http.ingest.batch_size if http and http.ingest else DEFAULT_BATCH_SIZE,
        cleanup=Cleanup(options.cleanup),
        allow_custom_prefix=options.allow_custom_prefix,
        ids_need_prefix=http is not None and not tells_scope(http),
    )
