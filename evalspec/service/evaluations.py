"""Evaluations of retrievers: a retriever of the project's manifest over a posted dataset, as a job.

The request of an evaluation is also a file, `.evalspec/evaluations/ID.json`, so that a new database can list it. Its
results are those of its run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from evalspec.api.evaluation import Evaluation, prepare
from evalspec.api.public import redacting
from evalspec.base.errors import InvalidInput, Unmeasurable
from evalspec.inputs.datasets.base import DATASETS, find_system
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.loader import LoadedManifest, load_manifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.inputs.manifest.yaml_source import YamlSource
from evalspec.model import DatasetResult, Run, SampleStatus
from evalspec.model.base import built
from evalspec.model.fingerprints import RetrieverMode
from evalspec.runs.planning.checks import validate_manifest
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.store.stored_run import StoredRun
from evalspec.service.job_process import Work
from evalspec.service.posted_datasets import DATASET_FORMAT, dataset_path
from evalspec.service.run_jobs import Checked, resolve_manifest
from evalspec.service.settings import MANIFEST, Project

CUT: Mapping[str, str] = {"precision": "Precision", "recall": "Recall", "f1": "F1", "f2": "F2", "ndcg": "nDCG"}
"""Metrics at every k, by the name in the API: evalspec's names."""
UNCUT: Mapping[str, str] = {"map": "AP", "mrr": "RR"}
"""Metrics of the whole ranking."""
MetricName = Literal["precision", "recall", "f1", "f2", "ndcg", "map", "mrr"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
DEFAULT_K = (1, 5, 10, 20)
HIGHEST_K = 1000

_UNCUT_DEPTH = 100
"""How many documents a ranking has at least if a metric is not cut, so that its value does not depend on the ks."""
_PARTS_OF_F = ("Precision", "Recall")
_DATASETS_PLACE = ("spec", "evaluation", "datasets")


class EvaluationRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to evaluate. `k_values`: ascending. `mode`: as of a dataset of the manifest. `compat`: whose formulas."""

    retriever_id: str
    dataset_name: str
    dataset_version: int
    k_values: tuple[int, ...] = DEFAULT_K
    metrics: tuple[str, ...] = METRICS
    mode: RetrieverMode | None = None
    compat: str | None = None

    @property
    def depth(self) -> int:
        """The number of documents that the retriever is asked for, unless the manifest sets its topK."""
        deepest = max(self.k_values)
        return max(deepest, _UNCUT_DEPTH) if any(metric in UNCUT for metric in self.metrics) else deepest


class EvaluationResult(Struct, frozen=True):
    """The results of a completed evaluation. A metric without a value is null, with its cause in `unknown_metrics`.

    `overall_metrics`: by `metric_at_k`, or `map` and `mrr`. `ranking_depth`: how many documents a full ranking has.
    """

    run_id: str
    query_count: int
    failed_query_count: int
    overall_metrics: Mapping[str, float | None]
    metrics_by_k: Mapping[str, Mapping[str, float | None]]
    ranking_depth: int
    unknown_metrics: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()


def list_compat() -> list[str]:
    """Return the systems whose formulas an evaluation may use."""
    return [known.name for known in DATASETS if known.of_means]


def load_evaluation(project: Project, request: EvaluationRequest, *, here: bool = False) -> LoadedManifest:
    """Return the project's manifest with the posted dataset in place of its datasets, thresholds and gate.

    `here`: the working directory is the project's folder.

    Raises:
        InvalidInput: There is no manifest, or it is invalid.
    """
    name = resolve_manifest(project.folder, MANIFEST)
    loaded = load_manifest(name if here else project.folder / name)
    config = DatasetConfig(
        name=request.dataset_name,
        path=f"$file:{dataset_path(project, request.dataset_name, request.dataset_version)}",
        format=DATASET_FORMAT,
        metrics=[MetricEntry(name=name) for name in list_measures(request)],
        retriever=request.retriever_id,
        top_k=request.depth,
        slices=[],
        **({} if request.mode is None else {"mode": request.mode}),
    )
    return _with_dataset(loaded, config)


def _with_dataset(loaded: LoadedManifest, config: DatasetConfig) -> LoadedManifest:
    """Return a manifest with one other dataset, whose problems are not located at those in the file."""
    spec, source = loaded.manifest.spec, loaded.source
    changed: Mapping[str, Any] = {
        "datasets": [config],
        "metrics": None,
        "thresholds": {},
        "ci_gate": CiGate.model_construct(enabled=False),
    }
    evaluation: EvaluationConfig = spec.evaluation.model_copy(update=changed)
    manifest = loaded.manifest.model_copy(update={"spec": spec.model_copy(update={"evaluation": evaluation})})
    others = {place: line for place, line in source.lines.items() if place[:3] != _DATASETS_PLACE}
    return replace(loaded, manifest=manifest, source=YamlSource(source.file, source.data, others))


def list_measures(request: EvaluationRequest) -> list[str]:
    """Return evalspec's names of the metrics, with those that others are computed from."""
    cut = [CUT[metric] for metric in request.metrics if metric in CUT]
    if any(measure in find_of_means(request) for measure in cut):
        cut = list(dict.fromkeys([*cut, *_PARTS_OF_F]))
    return [f"{measure}@{k}" for measure in cut for k in request.k_values] + [
        UNCUT[metric] for metric in request.metrics if metric in UNCUT
    ]


def find_of_means(request: EvaluationRequest) -> Mapping[str, Any]:
    """Return the formulas over mean precision and mean recall that the request wants, by evalspec's name."""
    system = find_system(request.compat) if request.compat else None
    return system.of_means if system is not None else {}


def check_evaluation(project: Project, request: Mapping[str, Any], *, here: bool) -> Checked:
    """Return what is wrong with the manifest and with the queries of the dataset. The request: an EvaluationRequest."""
    loaded = load_evaluation(project, msgspec.convert(request, built(EvaluationRequest)), here=here)
    try:
        validate_manifest(loaded, RunOptions(depth=0))
    except InvalidInput as error:
        return Checked(tuple(error.problems))
    return Checked()


def run_evaluation(work: Work) -> dict[str, Any]:
    """Execute a job of kind `evaluation`, and return its results.

    Raises:
        Unmeasurable: Every query failed.
    """
    request = msgspec.convert(work.job.request, built(EvaluationRequest))
    loaded = load_evaluation(work.project, request, here=True)

    def begin(stored: StoredRun | None) -> Evaluation:
        evaluation = prepare(loaded, RunOptions(depth=0), work.project.store, resumed=stored)
        return replace(evaluation, short_id=work.job.short_id)

    with redacting(loaded):
        return encode_result(conclude(work.complete(begin), request))


def conclude(run: Run, request: EvaluationRequest) -> EvaluationResult:
    """Return the results of the run of an evaluation.

    Raises:
        Unmeasurable: Every query failed.
    """
    dataset = run.datasets[0]
    if not dataset.answered:
        failed = next((sample for sample in dataset.samples if sample.error), None)
        first = f"; the first, {failed.id}: {failed.error}" if failed else ""
        raise Unmeasurable(f"every query failed ({dataset.selected}){first}")
    values, unknown = {}, {}
    for key, measure, k in _list_values(request):
        values[key], cause = _find_value(dataset, request, measure, k)
        if cause:
            unknown[key] = cause
    cut = [metric for metric in request.metrics if metric in CUT]
    depth = dataset.retriever.top_k if dataset.retriever else request.depth
    return EvaluationResult(
        run_id=run.id,
        query_count=dataset.selected,
        failed_query_count=dataset.selected - dataset.answered,
        overall_metrics=values,
        metrics_by_k={str(k): {metric: values[f"{metric}_at_{k}"] for metric in cut} for k in request.k_values},
        ranking_depth=depth,
        unknown_metrics=unknown,
        warnings=tuple(_list_warnings(dataset, request, depth)),
    )


def _list_values(request: EvaluationRequest) -> Iterator[tuple[str, str, int | None]]:
    """Yield each value: its key in the results, evalspec's measure, and k."""
    for metric in request.metrics:
        if metric in UNCUT:
            yield metric, UNCUT[metric], None
    for k in request.k_values:
        for metric in request.metrics:
            if metric in CUT:
                yield f"{metric}_at_{k}", CUT[metric], k


def _find_value(
    dataset: DatasetResult, request: EvaluationRequest, measure: str, k: int | None
) -> tuple[float | None, str]:
    """Return a value of the results. None: unknown, with the cause."""
    formula = find_of_means(request).get(measure)
    if formula is None:
        return _find_mean(dataset, measure if k is None else f"{measure}@{k}")
    (precision, cause), (recall, _) = (_find_mean(dataset, f"{part}@{k}") for part in _PARTS_OF_F)
    return (None, cause) if precision is None or recall is None else (formula(precision, recall), "")


def _find_mean(dataset: DatasetResult, metric: str) -> tuple[float | None, str]:
    summary = dataset.metrics[metric]
    if summary.value is not None:
        return summary.value, ""
    return None, f"none of the {dataset.selected} queries has a value"


def _list_warnings(dataset: DatasetResult, request: EvaluationRequest, depth: int) -> Iterator[str]:
    failed = [sample for sample in dataset.samples if sample.status is SampleStatus.FAILED]
    if failed:
        of = f"{len(failed)} of {dataset.selected} queries failed, so the values are means over the others"
        yield f"{of}; the first, {failed[0].id}: {failed[0].error}"
    deepest = max(request.k_values)
    if deepest > depth:
        yield f"values at {deepest} see only {depth} documents: the retriever's topK in the manifest is {depth}"


def encode_result(result: EvaluationResult) -> dict[str, Any]:
    """Return results as JSON values."""
    encoded: dict[str, Any] = msgspec.to_builtins(result)
    return encoded
