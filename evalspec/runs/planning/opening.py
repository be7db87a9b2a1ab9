"""Open retrievers, with their documents for a run, or for a check of their scopes.

Problems are found before anything is deleted.
"""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.query_input import describe_question
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.retriever_schema import HttpTarget, PythonTarget, QdrantOptions, RetrieverTarget
from evalspec.model import Document, Sample
from evalspec.model.fingerprints import RetrieverMode
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever, start_draft
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.retriever_targets import find_placeholders
from evalspec.runs.planning.retrievers import RETRIEVERS_PLACE, check_retrievers, choose_retrievers, name_variants
from evalspec.runs.planning.services import (
    EMBEDDINGS_PLACE,
    check_auth,
    explain_bad_url,
    locate_keys,
    resolve_config,
    resolve_embeddings,
    resolve_url,
)
from evalspec.runs.planning.trust_checks import check_trust
from evalspec.targets.retrievers.base import Deletes, Ingests, Reranks, Retriever
from evalspec.targets.retrievers.http_target_checks import reports_scope
from evalspec.targets.retrievers.ingest_plan import DEFAULT_BATCH_SIZE, IngestPlan, plan_ingest
from evalspec.targets.retrievers.loaders import count_assets, load_documents, open_loader
from evalspec.targets.retrievers.opening import open_retriever
from evalspec.targets.retrievers.query_input import list_unfilled
from evalspec.targets.retrievers.scope_check import Checkable
from evalspec.targets.retrievers.stores import store_address
from evalspec.targets.retrievers.vectors import KnownVectors, TextVectors

_UNOPENED = cast(Retriever, SimpleNamespace(**dict.fromkeys(("search", "aclose", "rerank", "ingest", "delete"), print)))
"""In a dry run in place of the user's own retriever. It has every method."""


def open_retrievers(
    draft: Draft, datasets: Sequence[PlannedDataset], url: str | None, known: KnownVectors
) -> tuple[PlannedDataset, ...]:
    """Return the datasets with their retrievers opened. Datasets that share a retriever share the opened object.

    `url`: the agent's. `known`: vectors of embedded texts; new ones are added. Problems go to the draft.
    """
    opening = _Opening(draft, url, known)
    return tuple(
        dataset if dataset.retriever is None else replace(dataset, retriever=opening.open(dataset, dataset.retriever))
        for dataset in datasets
    )


class _Opening(Struct):
    """The settings for opening the retrievers of a run, and the opened ones."""

    draft: Draft
    url: str | None
    known: KnownVectors
    opened: dict[str, Retriever] = field(default_factory=dict)

    def open(self, dataset: PlannedDataset, planned: PlannedRetriever) -> PlannedRetriever:
        """Return a dataset's retriever, opened if it has no problems."""
        draft, found = self.draft, len(self.draft.problems)
        target = resolve_target(draft, planned.name, planned.target)
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
        name = planned.name
        if self.draft.options.dry_run and isinstance(planned.target, PythonTarget):
            message = f"{planned.target.python} is not imported, so its methods are not checked"
            self.draft.warnings.append(Problem(f"the retriever '{name}': {message}"))
            return _UNOPENED
        if name not in self.opened:
            vectors = TextVectors(self.draft.services.embedder, self.known)
            keys = locate_keys(self.draft.loaded)
            self.opened[name] = open_retriever(planned.target, self.url, keys, vectors)
        return self.opened[name]


def resolve_target(draft: Draft, name: str, target: RetrieverTarget) -> RetrieverTarget:
    """Return a retriever's target with its references resolved and its path relative to the manifest's folder.

    `name`: of its variant. Problems go to the draft.
    """
    loaded = draft.loaded
    key, _ = name_variants(loaded.manifest.spec.evaluation)[name]
    place = (*RETRIEVERS_PLACE, key)
    target = resolve_config(target, place, loaded, draft.problems)
    if isinstance(target, HttpTarget) and target.http.url is not None:
        bad = explain_bad_url(target.http.url)
        if bad is not None:
            draft.add((*place, "http", "url"), *bad)
    if isinstance(target, HttpTarget) and not draft.problems:
        check_auth(target.http.auth, (*place, "http"), loaded, draft.problems)
    if isinstance(target, QdrantOptions) and target.path is not None:
        return target.model_copy(update={"path": str(loaded.path.parent / target.path)})
    return target


def _check_scopes(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> None:
    """Check scopes set by queries: a store that separates scopes by delimiters would refuse them during the run."""
    overrides = planned.query_settings.overrides if isinstance(planned.target, QdrantOptions) else {}
    for name, own in overrides.items():
        if own.scope_prefix is not None and own.scope_prefix[-1].isalnum():
            message = (
                f"query '{name}': scopePrefix '{own.scope_prefix}' does not end in a delimiter, as qdrant requires"
            )
            draft.problems.append(Problem(message, f"use '{own.scope_prefix}:'", dataset.file))


def _load(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> tuple[Document, ...] | None:
    """Return the documents with the texts that they refer to."""
    if planned.documents is None:
        return None
    config = _config_of(draft.loaded, dataset.name)
    if draft.options.dry_run and config.loader is not None:
        return planned.documents
    folder = draft.loaded.references.path(config.path).parent
    loader = open_loader(folder, config.loader, draft.loaded.path.parent)
    assets = count_assets(planned.documents)
    if assets:
        message = f"dataset '{dataset.name}': {assets} of its documents have assets, but only texts are ingested"
        draft.warnings.append(Problem(message, file=dataset.file))
    try:
        return asyncio.run(load_documents(planned.documents, loader))
    except InvalidInput as error:
        draft.problems.extend(replace(problem, file=dataset.file) for problem in error.problems)
        return None


def _config_of(loaded: LoadedManifest, dataset: str) -> DatasetConfig:
    return next(config for config in loaded.manifest.spec.evaluation.datasets if config.name == dataset)


def _check_mode(dataset: PlannedDataset, planned: PlannedRetriever, retriever: Retriever) -> None:
    if planned.settings.mode == RetrieverMode.RERANK and not isinstance(retriever, Reranks):
        message = f"dataset '{dataset.name}': the retriever '{planned.name}' cannot rerank"
        raise InvalidInput(message, "add a method rerank(query, hits, top_k), or use mode: retrieve")


def _plan_ingest(
    draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever, retriever: Retriever
) -> IngestPlan | None:
    """Return the deletions and ingestion; None if the existing index is queried."""
    options, settings = draft.options, planned.settings
    store = store_address(planned.target, planned.url)
    if planned.documents is None:
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
        cleanup=options.cleanup,
        allow_custom_prefix=options.allow_custom_prefix,
        ids_need_prefix=http is not None and not reports_scope(http),
    )


def open_checkable(loaded: LoadedManifest, name: str, url: str | None) -> Checkable:
    """Return a retriever of a manifest with its references resolved. Nothing is called yet. `url`: of `--url`.

    Raises:
        InvalidInput: the name is unknown or a grid, the retriever is invalid, or it cannot be checked.
    """
    draft = start_draft(loaded, RunOptions(url=url))
    evaluation = loaded.manifest.spec.evaluation
    chosen = choose_retrievers(evaluation, [name], "NAME")
    if len(chosen) > 1:
        message = f"'{name}' is a grid of {len(chosen)} retrievers, but only one can be checked at a time"
        raise InvalidInput(Problem(message, f"choose one, for example {chosen[0]}", field="NAME"))
    check_trust(draft)
    check_retrievers(draft)
    draft.raise_problems()
    declared = name_variants(evaluation)[chosen[0]][1]
    _refuse_fields(chosen[0], declared)
    target = resolve_target(draft, chosen[0], declared)
    needs_url = isinstance(target, HttpTarget) and target.http.url is None
    address = resolve_url(loaded, url, draft.problems) if needs_url else None
    embeddings = resolve_embeddings(evaluation.embeddings)
    if not isinstance(target, HttpTarget | PythonTarget):
        embeddings = resolve_config(embeddings, EMBEDDINGS_PLACE, loaded, draft.problems)
    draft.services.configure(None, embeddings, locate_keys(loaded))
    draft.raise_problems()
    vectors = TextVectors(draft.services.embedder, {})
    return _require_checkable(open_retriever(target, address, locate_keys(loaded), vectors), chosen[0])


def _refuse_fields(name: str, target: RetrieverTarget) -> None:
    """Refuse a retriever whose search needs more of a query than a check has."""
    missing = list_unfilled(find_placeholders(target) or (), describe_question(Sample("check", "?")), {})
    if missing:
        message = f"a check sends only a question, but the search request of '{name}' has {{{{{missing[0]}}}}}"
        fix = "check a copy of the retriever with a value instead of the placeholder"
        raise InvalidInput(Problem(message, fix, field="NAME"))


def _require_checkable(retriever: Retriever, name: str) -> Checkable:
    if isinstance(retriever, Checkable):
        return retriever
    abilities = {"ingest": isinstance(retriever, Ingests), "delete": isinstance(retriever, Deletes)}
    missing = " or ".join(ability for ability, present in abilities.items() if not present)
    message = f"the retriever '{name}' cannot {missing}, so it has no scopes to check"
    fix = "define ingest and delete, as calls under http or as methods of your class"
    raise InvalidInput(Problem(message, fix, field="NAME"))
