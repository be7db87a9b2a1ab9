"""Decide how a dataset queries its retriever. Each setting has its origin."""

import re
from collections.abc import Iterable

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import settings_finder
from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.model import RetrieverSettings, Sample
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever, ResolvedRetriever
from evalspec.runs.planning.options import choose_first
from evalspec.targets.retrievers.agent import DEFAULT, RERANK_FACTOR, QueryOverrides, QuerySettings
from evalspec.targets.retrievers.ingest_plan import OWN_BEGINNING, check_outsiders
from evalspec.targets.retrievers.opening import is_in_memory
from evalspec.targets.retrievers.query_input import input_finder

_DEFAULT_TOP_K = 10
_UNFIT_FOR_A_SCOPE = re.compile(r"[^A-Za-z0-9_.-]+")


def plan_queries(draft: Draft, dataset: PlannedDataset, asked: ResolvedRetriever) -> PlannedRetriever:
    """Return how a dataset queries its retriever. The documents to ingest are not loaded yet."""
    config, data = dataset.config, dataset.data
    documents = data.content.documents
    is_left = draft.options.no_ingest and not is_in_memory(asked.target)
    ingested = tuple(documents) if documents and not is_left else None
    own_prefix = data.content.defaults.settings.get("scopePrefix", "")
    draft.problems.extend(check_outsiders(ingested or (), own_prefix, data.shown_as))
    scope = "" if ingested is None else _default_scope(config.name)
    query_settings = QuerySettings(
        settings=_settle(draft, dataset, asked, scope),
        filters=config.filters,
        overrides=read_overrides(data.samples),
        corpus=frozenset(document.id for document in documents) if documents else None,
        timeout_seconds=draft.options.timeout,
        find_input=input_finder(data.format),
    )
    return PlannedRetriever(asked.target, query_settings, documents=ingested)


def _settle(draft: Draft, dataset: PlannedDataset, asked: ResolvedRetriever, scope: str) -> RetrieverSettings:
    """Return the query settings, each from its first source: command line, retriever, dataset, dataset file.

    `scope`: the default scope prefix.
    """
    config, defaults = dataset.config, dataset.data.content.defaults
    options, said, target = draft.options, defaults.settings, asked.target
    of_file = max(defaults.k, default=0)
    cutoffs = {name: parse_metric_spec(name).cutoff or 0 for name in dataset.metrics}
    deepest = max(cutoffs, key=cutoffs.__getitem__, default="")
    looked_at = cutoffs.get(deepest, 0)
    top_k = choose_first(
        (options.top_k, "--top-k"),
        (target.top_k, "retriever"),
        (config.top_k, "dataset"),
        (of_file if of_file >= max(looked_at, 1) else None, "dataset file"),
        (looked_at or None, "metrics"),
        (_DEFAULT_TOP_K, DEFAULT),
    )
    if looked_at > top_k[0]:
        message = f"{deepest} needs {looked_at} ranks, but {asked.name} returns {top_k[0]} documents ({top_k[1]})"
        draft.warnings.append(Problem(f"dataset '{config.name}': {message}", "raise topK"))
    rerank_top_k = choose_first(
        (options.rerank_top_k, "--rerank-top-k"),
        (target.rerank_top_k, "retriever"),
        (config.rerank_top_k, "dataset"),
        (said.get("rerankTopK"), "dataset file"),
        (RERANK_FACTOR * top_k[0], DEFAULT),
    )
    scope_prefix = choose_first(
        (options.scope_prefix, "--scope-prefix"),
        (config.scope_prefix, "dataset"),
        (said.get("scopePrefix"), "dataset file"),
        (scope, DEFAULT),
    )
    decided = {"mode": asked.mode, "topK": top_k, "scopePrefix": scope_prefix}
    if asked.reranks:
        decided["rerankTopK"] = rerank_top_k
    return RetrieverSettings(
        name=asked.name,
        mode=asked.mode[0],
        top_k=top_k[0],
        rerank_top_k=max(top_k[0], rerank_top_k[0]) if asked.reranks else None,
        scope_prefix=scope_prefix[0],
        depth=options.depth,
        min_grade=config.min_grade,
        origins={setting: origin for setting, (_, origin) in decided.items()},
    )


def read_overrides(samples: Iterable[Sample]) -> dict[str, QueryOverrides]:
    """Return the settings that single queries override, by sample, if their format supports that."""
    find_settings = settings_finder()
    found = {}
    for sample in samples:
        own = find_settings(sample.metadata)
        overrides = QueryOverrides(own.get("topK"), own.get("rerankTopK"), own.get("scopePrefix"))
        if overrides != QueryOverrides():
            found[sample.id] = overrides
    return found


def _default_scope(dataset: str) -> str:
    return f"{OWN_BEGINNING}{_UNFIT_FOR_A_SCOPE.sub('-', dataset)}:"
