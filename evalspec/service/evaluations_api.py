"""Routes of evaluations: start one, poll it, list and cancel them."""

from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from evalspec.base.errors import StoreError
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model.fingerprints import RetrieverMode
from evalspec.runs.planning.retrievers import name_variants
from evalspec.service import jobs
from evalspec.service.access import Access, Reading, Running
from evalspec.service.bounds import Version
from evalspec.service.cursors import Cursor, NextCursor, cut_page, decode_cursor
from evalspec.service.documents import body_config, show_example
from evalspec.service.evaluation_files import EVALUATION, EvaluationFile, write_evaluation
from evalspec.service.evaluations import (
    DEFAULT_K,
    HIGHEST_K,
    METRICS,
    EvaluationRequest,
    MetricName,
    list_compat,
)
from evalspec.service.examples import DATASET, EVALUATION_ID, MOMENT, RETRIEVER, RUN_ID
from evalspec.service.jobs import Job, JobStatus
from evalspec.service.jobs_api import describe_job
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.posted_datasets import find_summary
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.requested_jobs import start_job
from evalspec.service.run_jobs import check_request, resolve_manifest
from evalspec.service.settings import MANIFEST, Project

ROUTER = APIRouter(prefix="/v1/retrievers/{retriever_id}/evaluations", tags=["evaluations"], route_class=JsonRoute)
TASKS = APIRouter(prefix="/v1/tasks", tags=["evaluations"])

_MOST_K = 50
_MOST_LISTED = 200

RetrieverId = Annotated[str, Path(description="The name of a retriever in the project's manifest.")]
Values = dict[str, float | None]

_CONFIG: dict[str, Any] = {"k_values": [10], "metrics": ["ndcg", "mrr"]}
_EXAMPLE: dict[str, Any] = {
    "evaluation_id": EVALUATION_ID,
    "task_id": EVALUATION_ID,
    "status": "completed",
    "retriever_id": RETRIEVER,
    "dataset_name": DATASET,
    "dataset_version": 2,
    "evaluation_config": _CONFIG,
    "query_count": 60,
    "failed_query_count": 0,
    "overall_metrics": {"mrr": 0.4162, "ndcg_at_10": 0.4949},
    "metrics_by_k": {"10": {"ndcg": 0.4949}},
    "unknown_metrics": {},
    "ranking_depth": 100,
    "warnings": [],
    "run_id": RUN_ID,
    "created_at": MOMENT,
    "started_at": MOMENT,
    "finished_at": MOMENT,
}


class MeasureConfig(BaseModel):
    """What to compute."""

    model_config = body_config()
    k_values: Annotated[list[Annotated[int, Field(ge=1, le=HIGHEST_K)]], Field(min_length=1, max_length=_MOST_K)] = (
        list(DEFAULT_K)
    )
    metrics: Annotated[list[MetricName], Field(min_length=1)] = list(METRICS)
    mode: Literal["retrieve", "retrieve+rerank"] | None = Field(
        None, description="Whether the retriever also reranks its hits, if the manifest describes both."
    )
    compat: str | None = Field(None, description="`mixpeek`: F1 and F2 of the mean precision and the mean recall.")


class EvaluationStart(BaseModel):
    """An evaluation to start."""

    model_config = body_config({"dataset_name": DATASET, "evaluation_config": _CONFIG})
    dataset_name: str = Field(min_length=1)
    dataset_version: Version | None = Field(None, description="Default: the newest.")
    evaluation_config: MeasureConfig = MeasureConfig()


class EvaluationState(BaseModel):
    """The state of an evaluation. Metrics are null until it is completed."""

    model_config = show_example(_EXAMPLE)
    evaluation_id: str
    task_id: str = Field(description="Its job, as in /v1/tasks/{task_id} and /v1/jobs/{task_id}.")
    status: JobStatus
    retriever_id: str
    dataset_name: str
    dataset_version: int
    evaluation_config: dict[str, Any]
    query_count: int
    failed_query_count: int | None = None
    overall_metrics: Values | None = Field(None, description="`METRIC_at_K`, and `map` and `mrr` of whole rankings.")
    metrics_by_k: dict[str, Values] | None = None
    unknown_metrics: dict[str, str] | None = Field(None, description="Why a metric has no value, by its key.")
    ranking_depth: int | None = Field(None, description="How many documents a full ranking has.")
    warnings: list[str] | None = None
    error: str | None = Field(None, description="Why the evaluation failed.")
    run_id: str | None = None
    progress: dict[str, Any] | None = Field(None, description="Queries: total, queried, scored, failed.")
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None


class EvaluationList(BaseModel):
    """A page of evaluations, newest first."""

    model_config = show_example({"evaluations": [_EXAMPLE], "next_cursor": None})
    evaluations: list[EvaluationState]
    next_cursor: NextCursor


@ROUTER.post("", status_code=HTTPStatus.ACCEPTED, summary="Start an evaluation")
def start_evaluation(
    retriever_id: RetrieverId,
    asked: EvaluationStart,
    response: Response,
    access: Running,
) -> EvaluationState:
    """Start an evaluation. Every query is checked first; the retriever is queried by a worker."""
    project, config = access.project, asked.evaluation_config
    _check_retriever(project, retriever_id)
    dataset = find_summary(project, asked.dataset_name, asked.dataset_version)
    request = EvaluationRequest(
        retriever_id,
        dataset.dataset_name,
        dataset.version,
        tuple(sorted(set(config.k_values))),
        tuple(dict.fromkeys(config.metrics)),
        RetrieverMode(config.mode) if config.mode else None,
        _choose_compat(config.compat),
    )
    check_request(access.service.settings, project, EVALUATION, msgspec.to_builtins(request))
    job = start_job(access, EVALUATION, msgspec.to_builtins(request), "eval", dataset.query_count)
    try:
        write_evaluation(project, EvaluationFile(job.id, job.user, job.created_at, job.calls, request))
    except StoreError:
        jobs.cancel(access.engine, access.namespace, job.id)
        raise
    response.headers["Location"] = f"/v1/retrievers/{quote(retriever_id, safe='')}/evaluations/{job.id}"
    return describe_evaluation(job)


def _choose_compat(name: str | None) -> str | None:
    known = list_compat()
    if name is not None and name not in known:
        fault = {"field": "evaluation_config.compat", "message": f"'{name}' is unknown", "fix": near_miss(name, known)}
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, ": ".join(fault.values()), errors=[fault])
    return name


@ROUTER.get("", summary="List evaluations")
def list_evaluations(
    retriever_id: RetrieverId,
    access: Reading,
    status: Annotated[list[JobStatus] | None, Query(description="Repeatable.")] = None,
    dataset_name: Annotated[str | None, Query(description="Only evaluations with this dataset.")] = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 50,
) -> EvaluationList:
    """Return the evaluations of a retriever, newest first."""
    wanted = {"retriever_id": retriever_id} | ({} if dataset_name is None else {"dataset_name": dataset_name})
    before: Any = decode_cursor(cursor, float, str)
    engine, kinds, statuses = access.engine, [EVALUATION], status or ()
    known = jobs.list_jobs(
        engine, access.namespace, kinds, statuses=statuses, wanted=wanted, before=before, limit=limit + 1
    )
    if not known:
        _check_retriever(access.project, retriever_id)
    found, following = cut_page(known, limit, lambda job: (job.created_at, job.id))
    return EvaluationList(evaluations=[describe_evaluation(job) for job in found], next_cursor=following)


@ROUTER.get("/{evaluation_id}", summary="Show an evaluation")
def get_evaluation(retriever_id: RetrieverId, evaluation_id: str, access: Reading) -> EvaluationState:
    """Return the state of an evaluation, with its metrics once it is completed."""
    return describe_evaluation(_find_own(access, retriever_id, evaluation_id))


@TASKS.get("/{task_id}", summary="Show the evaluation of a task")
def get_task(task_id: str, access: Reading) -> EvaluationState:
    """Return the state of the evaluation that was started with this `task_id`, whichever its retriever is."""
    return describe_evaluation(find_evaluation(access, task_id))


@ROUTER.post("/{evaluation_id}/cancel", summary="Cancel an evaluation")
def cancel_evaluation(retriever_id: RetrieverId, evaluation_id: str, access: Running) -> EvaluationState:
    """Cancel an evaluation. A running one stops as soon as its worker notices. An ended one stays as it is."""
    job = _find_own(access, retriever_id, evaluation_id)
    return describe_evaluation(jobs.cancel(access.engine, access.namespace, job.id) or job)


def find_evaluation(access: Access, id: str) -> Job:
    """Return the job of an evaluation.

    Raises:
        ApiProblem: 404: the namespace has none with this id.
    """
    job = jobs.find_job(access.engine, access.namespace, id)
    if job is None or job.kind != EVALUATION:
        raise not_found(f"there is no evaluation {id}")
    return job


def _find_own(access: Access, retriever: str, id: str) -> Job:
    job = find_evaluation(access, id)
    if job.request["retriever_id"] != retriever:
        raise not_found(f"evaluation {id} is of another retriever", f"it is of {job.request['retriever_id']}")
    return job


def describe_evaluation(job: Job) -> EvaluationState:
    """Return the state of an evaluation as the API shows it."""
    config = {name: job.request[name] for name in MeasureConfig.model_fields}
    known = {**describe_job(job).model_dump(), "query_count": job.calls, **job.request, **(job.result or {})}
    return EvaluationState.model_validate(
        {**known, "evaluation_id": job.id, "task_id": job.id, "evaluation_config": config}
    )


def _check_retriever(project: Project, name: str) -> None:
    """Check that the manifest has a retriever of this name, which a posted dataset can be sent to.

    Raises:
        ApiProblem: 404: there is none. 422: it is a grid, or searches documents that a posted dataset does not have.
        InvalidInput: There is no manifest, or it is invalid.
    """
    from evalspec.targets.retrievers.stores import is_in_memory

    evaluation = load_manifest(project.folder / resolve_manifest(project.folder, MANIFEST)).manifest.spec.evaluation
    variants = name_variants(evaluation)
    if name in variants:
        if is_in_memory(variants[name][1]):
            detail = f"the retriever '{name}' searches documents in memory, but a posted dataset has no documents"
            fix = "evaluate a service, your own code or a database"
            raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}. {fix}")
    elif name in evaluation.retrievers:
        shown = ", ".join(variant for variant, (key, _) in variants.items() if key == name)
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"'{name}' is a grid of retrievers. choose one of {shown}")
    else:
        fix = near_miss(name, variants) if variants else f"declare spec.evaluation.retrievers in {MANIFEST}"
        raise not_found(f"no retriever is named '{name}'", fix)
