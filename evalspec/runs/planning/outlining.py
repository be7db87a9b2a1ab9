"""Build the outline of a plan, which the run store keeps."""

import hashlib
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins
from msgspec.structs import asdict, replace

import evalspec
from evalspec.base.json_text import compute_digest
from evalspec.base.text import strip_userinfo
from evalspec.inputs.datasets.filters import TAGS
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.judge_schema import ModelConfig
from evalspec.inputs.user_code.modules import list_module_files
from evalspec.model import Curation, Direction, Need, Threshold
from evalspec.model.fingerprints import JudgeDigest, RetrieverDigest
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset, PlannedRetriever
from evalspec.runs.planning.passes import PlannedPasses, find_roots, find_rule, list_limits, list_passes
from evalspec.runs.store.files import digest_file
from evalspec.scoring.judge.parameters import compute_effective_parameters
from evalspec.scoring.metrics.base import Metric, RelevanceRules
from evalspec.verdict.outline import DatasetOutline, MetricOutline, RunOutline
from evalspec.verdict.summary import in_slice

LEFT_OUT = "the run leaves out all samples of this slice"

_KEY_LENGTH = 16
_MARK_LENGTH = 12

_OTHER_PARTS = ("rubric", "scorer")
"""Keys of a metric's entry that are no options, or are identified separately."""


def outline_plan(plan: Plan) -> RunOutline:
    """Return the metrics and thresholds of a plan."""
    options = plan.options
    return RunOutline(
        policy=plan.policy,
        datasets=tuple(_outline_dataset(plan, dataset) for dataset in plan.datasets),
        partial=plan.partial,
        repeats=options.repeat,
        judge_repeats=options.judge_repeat,
        has_texts=not options.no_content,
    )


def _outline_dataset(plan: Plan, dataset: PlannedDataset) -> DatasetOutline:
    return DatasetOutline(
        name=dataset.name,
        file=dataset.file,
        metrics=(
            *(_outline_metric(plan, metric) for metric in dataset.metrics.values()),
            *(_outline_passes(dataset, passes) for passes in list_passes(dataset)),
        ),
        thresholds=_leave_out_slices(plan, dataset),
        limits=tuple(dataset.limits),
        slices=_choose_slices(dataset.config, plan.options.no_content),
        cluster=dataset.config.cluster,
        retriever=dataset.retriever.settings if dataset.retriever else None,
        gold=_describe_curation(dataset.data.curation, plan.options.no_content) if dataset.data.curation else None,
        source_id=dataset.find_setting("id"),
        description=None if plan.options.no_content else dataset.find_setting("description"),
        removed=dataset.removed,
    )


def _choose_slices(config: DatasetConfig, no_content: bool) -> tuple[str, ...] | None:
    """Return the keys to slice results by; None for all with few values. Values are content, so tags replace them."""
    if config.slices is None:
        return (TAGS,) if no_content else None
    return tuple(config.slices)


def _leave_out_slices(plan: Plan, dataset: PlannedDataset) -> tuple[Threshold, ...]:
    """Return the thresholds. Those on slices that the run leaves out on purpose have a reason, and are not gated."""
    selection = plan.options.parse_selection()
    sought = {limit.slice for limit in dataset.thresholds if limit.slice is not None}
    if not sought or not (selection.tags or selection.exclude_tags or selection.where):
        return tuple(dataset.thresholds)
    found = {name for sample in dataset.selected for name in sought if in_slice(sample, name)}
    return tuple(
        limit if limit.slice is None or limit.slice in found else replace(limit, reason=LEFT_OUT)
        for limit in dataset.thresholds
    )


def _describe_curation(compute: Callable[[], Curation], no_content: bool) -> Curation:
    """Return agreement and quality without notes, which may quote the set, and without values if texts are omitted."""
    found = compute()
    bare = (replace(one, flags=tuple(replace(flag, note=None) for flag in one.flags)) for one in found.dropped)
    coverage = replace(found.coverage, sparse=None) if no_content else found.coverage
    return replace(found, dropped=tuple(bare), coverage=coverage)


def _outline_metric(plan: Plan, metric: Metric) -> MetricOutline:
    return MetricOutline(
        name=metric.name,
        statistic=metric.definition.statistic,
        direction=metric.definition.direction,
        bounds=metric.bounds,
        key=_compute_key(plan, metric),
        judged=Need.JUDGE in metric.needs,
        skip_reason=metric.skip_reason,
        rubric=metric.settings.get("entry", {}).get("rubric"),
        grades=metric.settings.get("entry", {}).get("labels", {}),
    )


def _outline_passes(dataset: PlannedDataset, passes: PlannedPasses) -> MetricOutline:
    rule = find_rule(dataset, passes)
    skips = [root.skip_reason for root in find_roots(dataset, passes)]
    return MetricOutline(
        name=passes.metric.name,
        statistic="mean",
        direction=Direction.HIGHER,
        bounds=passes.metric.bounds,
        skip_reason=None if None in skips else next(iter(skips), None),
        passes=rule,
    )


def identify_passes(plan: Plan, dataset: PlannedDataset, passes: PlannedPasses) -> dict[str, str]:
    """Return the identity of a metric over attempts: that of the metrics that decide a success, and their limits."""
    roots = [identify_metric(plan, root) for root in find_roots(dataset, passes)]
    merged = {part: value for root in roots for part, value in root.items()}
    limits = [asdict(limit) for limit in list_limits(dataset, passes.spec)]
    return merged | {"settings": _mark([limits, roots])}


def _compute_key(plan: Plan, metric: Metric) -> str:
    """Return a hash of everything that a score depends on besides sample and reply: the identity and more."""
    times = plan.options.judge_repeat if Need.JUDGE in metric.needs else 1
    return compute_digest([identify_metric(plan, metric), evalspec.__version__, times])[:_KEY_LENGTH]


def identify_metric(plan: Plan, metric: Metric) -> dict[str, str]:
    """Return the identity of a metric across runs, by parts. Each part is a label, `#` and a digest, or one of the two.

    A part that both runs have is compared by its digest, or as a whole without one. The identity excludes the number of
    judge calls and the version of evalspec: if the scores of a definition change, its own version changes.
    """
    parts = identify_measure(plan.loaded.path.parent, metric)
    if Need.JUDGE in metric.needs and plan.judge is not None:
        parts["judge"] = f"{plan.judge.model} {_mark(to_builtins(describe_judge(plan)))}"
    if Need.EMBEDDINGS in metric.needs:
        described = describe_embeddings(plan)
        computed_by = _installed("wordllama") if described.get("provider") == "local" else None
        parts["embeddings"] = f"{described.get('model') or described.get('provider')} {_mark([described, computed_by])}"
    return parts


def identify_measure(folder: Path, metric: Metric) -> dict[str, str]:
    """Return the parts of a metric's identity that say what it measures, whoever judges. `folder`: of the manifest."""
    entry, rules, root = metric.settings.get("entry", {}), metric.settings.get("rules", {}), metric.root
    files = {name: digest_file(folder / path) for name, path in metric.files.items()}
    settings = _keep_settings(entry, _OTHER_PARTS) | metric.settings.get("parameters", {}) | files
    settings |= {
        key: metric.settings[key] for key in ("tools", "environment", "price") if metric.settings.get(key) is not None
    }
    scorer, rubric = entry.get("scorer"), entry.get("rubric")
    package, _, prompt = metric.definition.engine.partition(", ")
    installed = None if package == evalspec.__name__ else _installed(package)
    parts = {
        "settings": _mark(settings | _keep_settings(rules, (), asdict(RelevanceRules()))),
        "version": ".".join(str(one.definition.version) for one in (root, metric) if one is not None),
        "engine": " ".join(filter(None, [package, installed])),
    }
    if scorer:
        parts["scorer"] = f"{scorer} {_mark(hash_module(folder, scorer))}"
    if prompt or rubric:
        parts["prompt"] = _mark(rubric) if rubric else prompt
    return parts


def _keep_settings(
    given: Mapping[str, Any], apart: Collection[str], usual: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return non-default settings that are not in `apart`. A setting added by a later version then changes nothing."""
    return {key: value for key, value in given.items() if key not in apart and value != (usual or {}).get(key)}


def _mark(value: Any) -> str:
    """Return `#` and a short digest of a value."""
    return f"#{compute_digest(value)[:_MARK_LENGTH]}"


def describe_judge(plan: Plan) -> JudgeDigest | None:
    """Return the judge settings that affect verdicts: model, address and parameters, but no key."""
    if plan.judge is None:
        return None
    first, *others = map(describe_model, plan.judge.members)
    if not others:
        return first
    return replace(first, panel=tuple(others), combine=plan.judge.combine, missing=plan.judge.missing)


def describe_model(config: ModelConfig) -> JudgeDigest:
    """Return the settings of a model that affect its answers: name, address and parameters, but no key."""
    parameters = compute_effective_parameters(config)
    return JudgeDigest(config.model, strip_userinfo(config.base_url), parameters, config.wire)


def describe_embeddings(plan: Plan) -> dict[str, Any]:
    """Return the embedding settings that affect similarities."""
    embeddings = plan.services.embeddings
    base_url = strip_userinfo(embeddings.base_url)
    return {"provider": embeddings.provider, "model": embeddings.model, "baseUrl": base_url}


_SECRET_PARTS: Any = {
    "api_key": True,
    "input_schema": True,
    "http": {"headers": True, "auth": True}
    | {call: {"headers", "poll"} for call in ("search", "rerank", "ingest", "delete")},
}
"""Settings of a retriever that do not affect rankings. Some may hold secrets or change daily."""


def describe_retrievers(plan: Plan) -> dict[str, RetrieverDigest]:
    """Return the retriever settings that affect rankings, by dataset."""
    asked = {dataset.name: dataset.retriever for dataset in plan.datasets if dataset.retriever is not None}
    return {name: _describe_retriever(plan, retriever) for name, retriever in asked.items()}


def _describe_retriever(plan: Plan, planned: PlannedRetriever) -> RetrieverDigest:
    from evalspec.inputs.manifest.retriever_schema import PythonTarget

    documents = [[d.id, d.title, d.text, dict(d.metadata)] for d in planned.documents or ()]
    settings = {
        **structs.asdict(planned.settings),
        "target": _without_userinfo(planned.target.model_dump(mode="json", by_alias=True, exclude=_SECRET_PARTS)),
        "url": strip_userinfo(planned.url) if planned.url else planned.url,
        "filters": dict(planned.query_settings.filters),
        "code": hash_module(plan.loaded.path.parent, planned.target.python)
        if isinstance(planned.target, PythonTarget)
        else None,
        "documents": len(documents),
        "documentsSha256": compute_digest(documents) if documents else None,
    }
    return RetrieverDigest(settings.pop("name"), settings)


def _without_userinfo(value: Any, key: str = "") -> Any:
    """Return the settings of a retriever without the userinfo in urls. `key`: of the value."""
    if isinstance(value, dict):
        return {name: _without_userinfo(item, name) for name, item in value.items()}
    return strip_userinfo(value) if key == "url" and value else value


@cache
def _installed(package: str) -> str | None:
    """Return the version of a distribution, or of the one that provides a loaded top-level package of that name."""
    try:
        return version(package)
    except PackageNotFoundError:
        found = packages_distributions().get(package) if package in sys.modules else None
        return version(found[0]) if found else None


def hash_module(folder: Path, target: str) -> str | None:
    """Return a hash of a `module:object` target and its imports from the manifest's folder; None without a file."""
    folder = folder.resolve()
    files = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in list_module_files(folder, target.partition(":")[0])
        if file.is_file()
    }
    return compute_digest(files) if files else None
