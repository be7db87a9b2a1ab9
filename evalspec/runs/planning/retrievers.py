"""Find the retrievers of a manifest, and the retriever of each dataset.

What needs the models of retrievers is in other modules, which are imported only for a manifest that has retrievers.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Need, RetrieverSettings
from evalspec.model.fingerprints import RetrieverMode
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever
from evalspec.runs.planning.metrics import MetricFinder
from evalspec.runs.planning.options import choose_first
from evalspec.scoring.metrics.base import Metric
from evalspec.scoring.metrics.columns import find_definition
from evalspec.targets.retrievers.agent import DEFAULT, DEFAULT_TOP_K, QuerySettings

if TYPE_CHECKING:
    from evalspec.inputs.manifest.retriever_schema import RetrieverTarget

RETRIEVERS_PLACE: Place = ("spec", "evaluation", "retrievers")
_ALL = "all"
_STAGED = ("retrieved", "gain")
_OWN_KEYS = ("mode", "top_k", "rerank_top_k", "scope_prefix", "filters", "loader")


def name_variants(evaluation: EvaluationConfig) -> "dict[str, tuple[str, RetrieverTarget]]":
    """Return all targets of a manifest by the name of their variant, each with its key in the file."""
    return {
        f"{name}[{label}]" if label else name: (name, target)
        for name, variants in evaluation.retrievers.items()
        for label, target in variants.items()
    }


def recommend_checks(loaded: LoadedManifest) -> Iterator[Problem]:
    """Yield a note for each external retriever that can delete, as far as the manifest and modules show."""
    declared = loaded.manifest.spec.evaluation.retrievers
    if not declared:
        return
    from evalspec.runs.planning.retriever_targets import deletes

    for name, variants in declared.items():
        if any(deletes(target, loaded.path.parent) for target in variants.values()):
            fix = f"check that it isolates scopes: evalspec retrievers check {name} {loaded.path}"
            yield Problem(f"the retriever '{name}' deletes by scope prefix", fix)


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
            names_and_grids = list(dict.fromkeys((*evaluation.retrievers, *known)))
            fix = near_miss(name, names_and_grids) if known else "declare spec.evaluation.retrievers"
            raise InvalidInput(Problem(f"no retriever is named '{name}'", fix, field=field))
        chosen |= dict.fromkeys(found)
    return list(chosen)


def check_retrievers(draft: Draft) -> None:
    """Check every target of the manifest, used or not."""
    declared = draft.loaded.manifest.spec.evaluation.retrievers
    if not declared:
        return
    from evalspec.runs.planning.retriever_targets import find_problems

    for name, variants in declared.items():
        place = (*RETRIEVERS_PLACE, name)
        for keys, message in dict.fromkeys(
            found for target in variants.values() for found in find_problems(draft.loaded, target)
        ):
            draft.add((*place, *keys), *split_fix(message))


def resolve_retriever(draft: Draft, dataset: PlannedDataset) -> PlannedRetriever | None:
    """Return the retriever that a dataset queries, with name and mode. The other settings depend on the metrics.

    None if the dataset queries the agent, or if the name is unknown.
    """
    config, place = dataset.config, dataset.place
    if draft.options.responses is not None:
        return None
    name = _choose_name(draft, config)
    if name is None:
        _refuse_idle_keys(draft, config, place)
        return None
    found = find_target(draft, config)
    if found is None:
        _explain_unknown(draft, name, draft.loaded.manifest.spec.evaluation, place)
        return None
    name, key, target = found
    mode = choose_first(
        (draft.options.mode, "--mode"),
        (config.mode, "dataset"),
        (dataset.data.content.defaults.settings.get("mode"), "dataset file"),
        (RetrieverMode.RETRIEVE, DEFAULT),
    )
    settings = RetrieverSettings(name, mode[0], DEFAULT_TOP_K, origins={"mode": mode[1]})
    planned = PlannedRetriever(target, (*RETRIEVERS_PLACE, key), QuerySettings(settings))
    from evalspec.runs.planning.retriever_targets import check_use

    check_use(draft, planned, dataset)
    return planned


def find_target(draft: Draft, config: DatasetConfig) -> "tuple[str, str, RetrieverTarget] | None":
    """Return the name of the retriever that a dataset names, its key in the manifest, and its target.

    None if the dataset names no retriever of the manifest.
    """
    name = _choose_name(draft, config)
    known = name_variants(draft.loaded.manifest.spec.evaluation)
    return (name, *known[name]) if name is not None and name in known else None


def _choose_name(draft: Draft, config: DatasetConfig) -> str | None:
    return (draft.options.retriever if draft.wants(config.name) else None) or config.retriever


def _refuse_idle_keys(draft: Draft, config: DatasetConfig, place: Place) -> None:
    for field in _OWN_KEYS:
        if field in config.model_fields_set:
            key = type(config).model_fields[field].alias or field
            message = f"{key} applies only to datasets with a retriever"
            draft.add((*place, key), message, "remove it, or add retriever: NAME")


def _explain_unknown(draft: Draft, name: str, evaluation: EvaluationConfig, place: Place) -> None:
    if name in evaluation.retrievers:
        message = f"'{name}' is a grid of {len(evaluation.retrievers[name])} variants"
        fix = f"choose with --retriever: {name} for all of them, or {name}[…] for one"
        draft.add((*place, "retriever"), message, fix)
    else:
        fix = near_miss(name, list(evaluation.retrievers)) if evaluation.retrievers else "declare it in retrievers"
        draft.add((*place, "retriever"), f"no retriever is named '{name}'", fix)


def choose_cutoffs(draft: Draft, dataset: PlannedDataset) -> tuple[int, ...]:
    """Return the cutoffs of metrics without one. `--top-k` is one for a dataset with a retriever."""
    asked = draft.options.top_k if dataset.retriever else None
    return tuple(dataset.config.k or (asked and (asked,)) or dataset.data.content.defaults.k)


def add_stages(finder: MetricFinder, metrics: Mapping[str, Metric], dataset: PlannedDataset) -> dict[str, Metric]:
    """Return the metrics, with the stage metrics of each ranking metric: before reranking, and the gain from it."""
    complete = dict(metrics)
    for metric in metrics.values():
        for stage in _STAGED if Need.RETRIEVED_IDS in metric.needs else ():
            name = f"{stage}.{metric.name}"
            if name not in complete and find_definition(parse_metric_spec(name).base) is not None:
                found = finder.find(MetricEntry(name=name), dataset.place, dataset.rules)
                complete |= {found.name: found} if found else {}
    return complete


def plan_asking(draft: Draft, dataset: PlannedDataset) -> PlannedRetriever | None:
    """Return how a dataset queries its retriever. The documents to ingest are not loaded yet."""
    if dataset.retriever is None:
        return None
    from evalspec.runs.planning.queries import plan_queries

    return plan_queries(draft, dataset, dataset.retriever)
