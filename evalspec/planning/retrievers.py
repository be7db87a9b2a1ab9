"""Resolve the retrievers of a manifest, and the retriever and settings of each dataset with their origins."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evalspec.datasets.base import settings_finder
from evalspec.datasets.load import LoadedDataset
from evalspec.errors import InvalidInput, Problem
from evalspec.http.template import list_placeholders
from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.manifest.retriever_schema import HttpTarget, PythonTarget, RetrieverTarget
from evalspec.manifest.schema import DatasetConfig, EvaluationConfig, MetricEntry
from evalspec.manifest.yaml_source import Place, render_path
from evalspec.metrics.base import Metric, RelevanceRules
from evalspec.model import Need, RetrieverSettings, Sample
from evalspec.planning.draft import Draft, PlannedRetriever
from evalspec.planning.metrics import MetricFinder, find_definition
from evalspec.registry import near_miss
from evalspec.retrievers.agent import DEFAULT, RERANK, RERANK_FACTOR, QueryOverrides, QuerySettings
from evalspec.retrievers.http_target_checks import apply_preset, check_http
from evalspec.retrievers.ingest_plan import OWN_BEGINNING, check_outsiders
from evalspec.retrievers.opening import RETRIEVERS, is_in_memory
from evalspec.user_code.calls import check_target

RETRIEVERS_PLACE: Place = ("spec", "evaluation", "retrievers")
_ALL = "all"
_BUILTINS = ("bm25", "dense", "hybrid", "qdrant")
"""Built-in retrievers. None of them reranks or supports filters."""
_DEFAULT_TOP_K = 10
_STAGED = ("retrieved", "gain")
_OWN_KEYS = ("mode", "top_k", "rerank_top_k", "scope_prefix", "filters", "loader")
_UNFIT_FOR_A_SCOPE = re.compile(r"[^A-Za-z0-9_.-]+")


def name_variants(evaluation: EvaluationConfig) -> dict[str, tuple[str, RetrieverTarget]]:
    """Return all targets of a manifest by the name of their variant, each with its key in the file."""
    return {
        f"{name}[{label}]" if label else name: (name, target)
        for name, variants in evaluation.retrievers.items()
        for label, target in variants.items()
    }


def choose_retrievers(evaluation: EvaluationConfig, names: Iterable[str], field: str = "--retriever") -> list[str]:
    """Return the variants of these names: single ones, grids or `all`, in order, without duplicates. `field`: their
    source, for messages.

    Raises:
        InvalidInput: the manifest has no retriever of that name.
    """
    known = name_variants(evaluation)
    chosen: dict[str, None] = {}
    for name in names:
        found = [variant for variant, (key, _) in known.items() if name in (variant, key, _ALL)]
        if not found:
            fix = near_miss(name, [*evaluation.retrievers, *known]) if known else "declare spec.evaluation.retrievers"
            raise InvalidInput(Problem(f"no retriever is named '{name}'", fix, field=field))
        chosen |= dict.fromkeys(found)
    return list(chosen)


def check_retrievers(draft: Draft) -> None:
    """Check every target of the manifest, used or not."""
    for name, variants in draft.loaded.manifest.spec.evaluation.retrievers.items():
        place = (*RETRIEVERS_PLACE, name)
        for keys, message in dict.fromkeys(found for target in variants.values() for found in _problems(draft, target)):
            draft.add((*place, *keys), *_split(message))


def _problems(draft: Draft, target: RetrieverTarget) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(target, HttpTarget):
        return [(("http", *keys), message) for keys, message in check_http(target.http)]
    if isinstance(target, PythonTarget):
        found = check_target(draft.loaded.path.parent, target.python)
        return [(("python",), message) for message in found]
    if RETRIEVERS.find(target.builtin) is None:
        hint = RETRIEVERS.hint(target.builtin)
        return [(("builtin",), f"unknown builtin retriever '{target.builtin}'; {hint}")]
    return []


def _split(message: str) -> tuple[str, str]:
    what, _, fix = message.partition("; ")
    return what, fix


def can_rerank(target: RetrieverTarget) -> bool:
    """Return whether a target may rerank. For user code and other packages, this is known only after opening."""
    if isinstance(target, HttpTarget):
        return target.http.rerank is not None
    return isinstance(target, PythonTarget) or target.builtin not in _BUILTINS


def takes_filters(target: RetrieverTarget) -> bool:
    """Return whether a target accepts filters. User code and other packages may do anything with them."""
    if isinstance(target, HttpTarget):
        search = apply_preset(target.http.search)
        return "filters" in list_placeholders([search.path, search.request])
    return isinstance(target, PythonTarget) or target.builtin not in _BUILTINS


@dataclass(frozen=True, slots=True)
class ResolvedRetriever:
    """The unresolved target that a dataset queries, and its mode with the origin of that setting.

    `name`: with the label of its variant, if it is part of a grid. `place`: of the target in the manifest.
    """

    name: str
    target: RetrieverTarget
    place: Place
    mode: tuple[str, str]

    @property
    def reranks(self) -> bool:
        """Return whether its hits are reranked."""
        return self.mode[0] == RERANK

    @property
    def given(self) -> frozenset[Need]:
        """Return the needs that its replies satisfy."""
        always = frozenset({Need.CONTEXT, Need.RETRIEVED_IDS})
        return always | {Need.CANDIDATE_IDS} if self.reranks else always


def resolve_retriever(
    draft: Draft, config: DatasetConfig, place: Place, data: LoadedDataset
) -> ResolvedRetriever | None:
    """Return the retriever that a dataset queries; None if it queries the agent, or if the name is unknown."""
    name = (draft.options.retriever if draft.wants(config.name) else None) or config.retriever
    if draft.options.responses is not None:
        return None
    if name is None:
        _refuse_idle_keys(draft, config, place)
        return None
    evaluation = draft.loaded.manifest.spec.evaluation
    variants = name_variants(evaluation)
    if name not in variants:
        _explain_unknown(draft, name, evaluation, place)
        return None
    key, target = variants[name]
    mode = _first(
        (draft.options.mode, "--mode"),
        (config.mode, "dataset"),
        (data.content.defaults.settings.get("mode"), "dataset file"),
        ("retrieve", DEFAULT),
    )
    asked = ResolvedRetriever(name, target, (*RETRIEVERS_PLACE, key), mode)
    if asked.reranks and not can_rerank(target):
        fix = (
            f"describe {render_path(asked.place)}.http.rerank"
            if isinstance(target, HttpTarget)
            else "use mode: retrieve"
        )
        draft.add((*place, "mode"), f"the retriever '{name}' cannot rerank", fix)
    if config.filters and not takes_filters(target):
        fix = "add {{filters}} to its search request" if isinstance(target, HttpTarget) else "remove them"
        draft.add((*place, "filters"), f"the retriever '{name}' does not support filters", fix)
    return asked


def _refuse_idle_keys(draft: Draft, config: DatasetConfig, place: Place) -> None:
    for field in _OWN_KEYS:
        if field in config.model_fields_set:
            key = type(config).model_fields[field].alias or field
            draft.add((*place, key), f"{key} applies only to datasets with a retriever", "add retriever: NAME")


def _explain_unknown(draft: Draft, name: str, evaluation: EvaluationConfig, place: Place) -> None:
    if name in evaluation.retrievers:
        message = f"'{name}' is a grid of {len(evaluation.retrievers[name])} variants"
        fix = f"choose with --retriever: {name} for all of them, or {name}[…] for one"
        draft.add((*place, "retriever"), message, fix)
    else:
        fix = near_miss(name, list(evaluation.retrievers)) if evaluation.retrievers else "declare it in retrievers"
        draft.add((*place, "retriever"), f"no retriever is named '{name}'", fix)


def choose_cutoffs(draft: Draft, config: DatasetConfig, data: LoadedDataset) -> tuple[int, ...]:
    """Return the cutoffs of metrics without one, for a dataset with a retriever."""
    return tuple(config.k or (draft.options.top_k and (draft.options.top_k,)) or data.content.defaults.k)


def add_stages(
    finder: MetricFinder, metrics: Mapping[str, Metric], place: Place, rules: RelevanceRules
) -> dict[str, Metric]:
    """Return the metrics, with the stage metrics of each ranking metric: before reranking, and the gain from it."""
    complete = dict(metrics)
    for metric in metrics.values():
        for stage in _STAGED if Need.RETRIEVED_IDS in metric.needs else ():
            name = f"{stage}.{metric.name}"
            if name not in complete and find_definition(parse_metric_spec(name).base) is not None:
                found = finder.find(MetricEntry(name=name), place, rules)
                complete |= {found.name: found} if found else {}
    return complete


def plan_asking(
    draft: Draft, asked: ResolvedRetriever | None, config: DatasetConfig, data: LoadedDataset, metrics: Iterable[str]
) -> PlannedRetriever | None:
    """Return how a dataset queries its retriever. The documents to ingest are not loaded yet."""
    if asked is None:
        return None
    documents = data.content.documents
    is_left = draft.options.no_ingest and not is_in_memory(asked.target)
    ingested = tuple(documents) if documents and not is_left else None
    own_prefix = data.content.defaults.settings.get("scopePrefix", "")
    draft.problems.extend(check_outsiders(ingested or (), own_prefix, data.shown_as))
    scope = "" if ingested is None else _default_scope(config.name)
    query_settings = QuerySettings(
        settings=_settle(draft, asked, config, data, metrics, scope),
        filters=config.filters,
        overrides=read_overrides(data.samples),
        corpus=frozenset(document.id for document in documents) if documents else None,
        timeout_seconds=draft.options.timeout,
    )
    return PlannedRetriever(asked.target, query_settings, documents=ingested)


def _settle(
    draft: Draft,
    asked: ResolvedRetriever,
    config: DatasetConfig,
    data: LoadedDataset,
    metrics: Iterable[str],
    scope: str,
) -> RetrieverSettings:
    """Return the query settings, each from its first source: command line, retriever, dataset, dataset file.

    `scope`: the default scope prefix.
    """
    options, said, target = draft.options, data.content.defaults.settings, asked.target
    of_file = max(data.content.defaults.k, default=0)
    cutoffs = {name: parse_metric_spec(name).cutoff or 0 for name in metrics}
    deepest = max(cutoffs, key=cutoffs.__getitem__, default="")
    looked_at = cutoffs.get(deepest, 0)
    top_k = _first(
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
    rerank_top_k = _first(
        (options.rerank_top_k, "--rerank-top-k"),
        (target.rerank_top_k, "retriever"),
        (config.rerank_top_k, "dataset"),
        (said.get("rerankTopK"), "dataset file"),
        (RERANK_FACTOR * top_k[0], DEFAULT),
    )
    scope_prefix = _first(
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


def _first(*candidates: tuple[Any, str]) -> tuple[Any, str]:
    """Return the first candidate that is set, with its origin."""
    return next(candidate for candidate in candidates if candidate[0] is not None)
