"""The retrievers of a run opened and their documents loaded: what is wrong is found before anything is deleted."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.retriever_schema import HttpTarget
from evalspec.manifest.schema import DatasetConfig
from evalspec.plan.agent import explain_bad_url
from evalspec.plan.draft import Draft, PlannedDataset, PlannedRetriever
from evalspec.plan.retriever_targets import RETRIEVERS_PLACE, name_variants
from evalspec.plan.services import resolve_config
from evalspec.records import Document
from evalspec.retrievers.asking import RERANK
from evalspec.retrievers.base import Reranks, Retriever
from evalspec.retrievers.http_target_checks import tells_scope
from evalspec.retrievers.ingest_plan import DEFAULT_BATCH_SIZE, Cleanup, IngestPlan, plan_ingest
from evalspec.retrievers.loaders import count_assets, load_documents, open_loader
from evalspec.retrievers.opening import find_store, open_retriever
from evalspec.retrievers.vectors import KnownVectors, TextVectors


def open_retrievers(
    draft: Draft, datasets: Sequence[PlannedDataset], url: str | None, known: KnownVectors
) -> tuple[PlannedDataset, ...]:
    """The datasets, those that are asked of a retriever with it opened. `url`: the agent's. `known`: vectors of texts
    that were embedded already, to be added to. What is wrong is among the draft's problems.
    """
    return tuple(
        replace(dataset, retriever=_open(draft, dataset, dataset.retriever, url, known))
        if dataset.retriever is not None
        else dataset
        for dataset in datasets
    )


def _open(
    draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever, url: str | None, known: KnownVectors
) -> PlannedRetriever:
    from evalspec.json_http.connection import create_ssl_context

    loaded, name = draft.loaded, planned.settings.name
    place = (*RETRIEVERS_PLACE, name_variants(loaded.manifest.spec.evaluation)[name][0])
    found = len(draft.problems)
    target = resolve_config(planned.target, place, loaded, draft.problems)
    if isinstance(target, HttpTarget) and target.http.url is not None:
        bad = explain_bad_url(target.http.url)
        if bad is not None:
            draft.add((*place, "http", "url"), *bad)
    documents = _load(draft, dataset, planned)
    if len(draft.problems) > found:
        return planned
    planned = replace(planned, target=target, url=url, documents=documents)
    vectors = TextVectors(draft.services.embedder(), known)
    try:
        retriever = open_retriever(target, url, loaded.path.parent, vectors, create_ssl_context())
        _check_mode(dataset, planned, retriever)
        ingest = _plan_ingest(draft, dataset, planned, retriever)
    except InvalidInput as error:
        draft.problems.extend(replace(problem, file=loaded.source.file) for problem in error.problems)
        return planned
    return replace(planned, opened=retriever, ingest=ingest)


def _load(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> tuple[Document, ...] | None:
    """The documents with the texts that they refer to."""
    if planned.documents is None:
        return None
    config = _config_of(draft.loaded, dataset.name)
    folder = draft.loaded.references.path(config.path).parent
    loader = open_loader(folder, config.loader, draft.loaded.path.parent)
    assets = count_assets(planned.documents)
    if assets:
        message = f"{assets} documents of dataset '{dataset.name}' have assets, which are not ingested: texts only are"
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
    store = find_store(planned.target, planned.url)
    if planned.documents is None:
        if store is None:
            why = "--no-ingest leaves it empty" if options.no_ingest else f"dataset '{dataset.name}' brings none"
            fix = "ask it with documents" if options.no_ingest else "name the dataset's corpus, or another retriever"
            raise InvalidInput(f"the retriever '{settings.name}' searches documents in memory, and {why}", fix)
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
