"""The outline of a plan: what stays of it in the run store."""

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import evalspec
from evalspec.judge.parameters import compute_effective_parameters
from evalspec.manifest.retriever_schema import PythonTarget
from evalspec.metrics.base import Metric
from evalspec.outline import DatasetOutline, MetricOutline, RunOutline
from evalspec.plan.build import Plan
from evalspec.plan.draft import PlannedDataset, PlannedRetriever
from evalspec.records import Need
from evalspec.summary import TAGS
from evalspec.user_code.modules import find_module_file

_KEY_LENGTH = 16


def outline_plan(plan: Plan) -> RunOutline:
    """What the plan measures and what it is held to."""
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
        metrics=tuple(_outline_metric(plan, metric) for metric in dataset.metrics),
        thresholds=dataset.thresholds,
        slices=(TAGS,) if plan.options.no_content and dataset.slices is None else dataset.slices,
        cluster=dataset.cluster,
        retriever=dataset.retriever.settings if dataset.retriever else None,
    )


def _outline_metric(plan: Plan, metric: Metric) -> MetricOutline:
    return MetricOutline(
        name=metric.name,
        statistic=metric.definition.statistic,
        direction=metric.definition.direction,
        bounds=metric.bounds,
        key=_compute_key(plan, metric),
        judged=Need.JUDGE in metric.needs,
        skip_reason=metric.skip_reason,
    )


def _compute_key(plan: Plan, metric: Metric) -> str:
    """A hash of all that the metric's scores depend on besides sample and reply."""
    parts: dict[str, Any] = {
        "settings": metric.settings,
        "engine": metric.definition.engine,
        "package": _installed(metric.definition.engine),
        "scorer": _hash_scorer(plan, metric),
    }
    if Need.JUDGE in metric.needs:
        parts |= {"judge": describe_judge(plan), "ragas": _installed("ragas"), "times": plan.options.judge_repeat}
    if Need.EMBEDDINGS in metric.needs:
        parts["embeddings"] = describe_embeddings(plan)
    return compute_digest(parts)[:_KEY_LENGTH]


def describe_judge(plan: Plan) -> dict[str, Any] | None:
    """The judge as far as its verdicts depend on it: model, address and parameters, no key."""
    if plan.judge is None:
        return None
    return {"model": plan.judge.model, "baseUrl": plan.judge.base_url, **compute_effective_parameters(plan.judge)}


def describe_embeddings(plan: Plan) -> dict[str, Any]:
    """The embeddings as far as similarities depend on them."""
    embeddings = plan.loaded.manifest.spec.evaluation.embeddings
    return embeddings.model_dump(by_alias=True, include={"provider", "model", "base_url"})


_SECRET_PARTS: Any = {
    "api_key": True,
    "http": {"headers": True} | {call: {"headers"} for call in ("search", "rerank", "ingest", "delete")},
}
"""Of a retriever: what may hold a secret, or be another each day, and changes no ranking."""


def describe_retrievers(plan: Plan) -> dict[str, Any]:
    """By dataset the retriever that it is asked of, as far as its rankings depend on it."""
    asked = {dataset.name: dataset.retriever for dataset in plan.datasets if dataset.retriever is not None}
    return {name: _describe_retriever(plan, retriever) for name, retriever in asked.items()}


def _describe_retriever(plan: Plan, planned: PlannedRetriever) -> dict[str, Any]:
    documents = [[d.id, d.title, d.text, dict(d.metadata)] for d in planned.documents or ()]
    return {
        **asdict(planned.settings),
        "target": planned.target.model_dump(mode="json", by_alias=True, exclude=_SECRET_PARTS),
        "url": planned.url,
        "filters": dict(planned.questioning.filters),
        "code": _hash_module(plan, planned.target.python) if isinstance(planned.target, PythonTarget) else None,
        "documents": len(documents),
        "documentsSha256": compute_digest(documents) if documents else None,
    }


def compute_digest(value: Any) -> str:
    """A hash of a JSON value that does not depend on the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _installed(package: str) -> str | None:
    if package == evalspec.__name__:
        return evalspec.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _hash_scorer(plan: Plan, metric: Metric) -> str | None:
    scorer = metric.settings.get("entry", {}).get("scorer")
    return _hash_module(plan, scorer) if scorer else None


def _hash_module(plan: Plan, target: str) -> str | None:
    """Of the user's `module:object`, where it is a file beside the manifest."""
    file = find_module_file(plan.loaded.path.parent, target.partition(":")[0])
    return hashlib.sha256(file.read_bytes()).hexdigest() if file is not None and file.is_file() else None
