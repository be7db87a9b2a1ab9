"""The route that compares evaluations, as JSON or Markdown."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import PlainTextResponse

from evalspec.model.base import built
from evalspec.model.comparisons import Comparison
from evalspec.reports.markdown import render_view_markdown
from evalspec.runs.store.derived import sign_run
from evalspec.service.access import Access, Reading
from evalspec.service.answers import render_answer
from evalspec.service.compare_api import CompareRequest
from evalspec.service.comparing import COMPARISON, compare_project_runs
from evalspec.service.documents import document_type, render_document
from evalspec.service.evaluation_comparison import (
    TABLE,
    CompletedEvaluation,
    EvaluationTable,
    build_evaluation_table,
    build_table_view,
    list_compared_measures,
)
from evalspec.service.evaluations import EvaluationRequest, EvaluationResult
from evalspec.service.evaluations_api import find_evaluation
from evalspec.service.jobs import Job, JobStatus
from evalspec.service.jobs_api import JobState, describe_job
from evalspec.service.openapi import describe_problem
from evalspec.service.problems import ApiProblem, conflict
from evalspec.service.requested_jobs import find_same_job, start_job
from evalspec.service.sample_builds import SMALL

ROUTER = APIRouter(prefix="/v1/retrievers/evaluations/compare", tags=["evaluations"])

_MOST_CANDIDATES = 10
_MARKDOWN = "text/markdown"
_RETRY_SECONDS = "2"


@ROUTER.get(
    "",
    response_model=document_type(EvaluationTable, TABLE),
    responses={
        HTTPStatus.OK: {"content": {_MARKDOWN: {}}, "description": "The table as JSON or Markdown."},
        HTTPStatus.ACCEPTED: {"model": JobState, "description": "A job compares large evaluations; ask again."},
        HTTPStatus.GONE: describe_problem("The run of an evaluation was deleted."),
    },
    summary="Compare evaluations",
)
def compare(
    access: Reading,
    baseline: Annotated[str, Query(description="The id of a completed evaluation.")],
    candidate: Annotated[list[str], Query(min_length=1, max_length=_MOST_CANDIDATES, description="Repeatable.")],
    format: Annotated[Literal["json", "markdown"] | None, Query(description="Default: by Accept.")] = None,
    accept: Annotated[str, Header()] = "",
) -> Response:
    """Compare completed evaluations with a baseline, query by query.

    For more than 2,000 queries together the first answer is a job. Repeat the request when the job has ended.
    """
    found = [_find_completed(access, id) for id in (baseline, *dict.fromkeys(candidate))]
    comparison = _compare(access, found)
    if isinstance(comparison, Job):
        headers = {"Location": f"/v1/jobs/{comparison.id}", "Retry-After": _RETRY_SECONDS}
        return render_answer(describe_job(comparison).model_dump(mode="json"), HTTPStatus.ACCEPTED, headers)
    table = build_evaluation_table(comparison, found)
    if format == "markdown" or (format is None and _MARKDOWN in accept):
        return PlainTextResponse(render_view_markdown(build_table_view(table)), media_type=_MARKDOWN)
    return render_document(table)


def _compare(access: Access, found: Sequence[CompletedEvaluation]) -> Comparison | Job:
    """Return the comparison of the runs, or the job that a worker has to end first: thousands of queries take seconds.

    Raises:
        ApiProblem: 409: The job failed. 429: The namespace has too many open jobs.
    """
    folders = [access.project.store.runs / one.result.run_id for one in found]
    request = CompareRequest.model_construct(
        baseline=folders[0].name,
        candidates=[folder.name for folder in folders[1:]],
        metrics=list_compared_measures(found),
        allow_mismatch=True,
        samples=0,
    )
    asked = request.model_dump() | {"files": [sign_run(folder) for folder in folders]}
    if sum(one.result.query_count for one in found) <= SMALL:
        return compare_project_runs(access.project, asked)
    job = find_same_job(access, COMPARISON, asked)
    if job is not None and job.status == JobStatus.FAILED:
        raise conflict(job.error or "the comparison failed")
    if job is not None and job.status == JobStatus.COMPLETED and job.result is not None:
        return msgspec.convert(job.result, built(Comparison))
    return job if job is not None and job.is_open else start_job(access, COMPARISON, asked, "compare")


def _find_completed(access: Access, id: str) -> CompletedEvaluation:
    job = find_evaluation(access, id)
    if job.status != JobStatus.COMPLETED or job.result is None:
        raise conflict(f"evaluation {id} is {job.status}; only completed ones can be compared")
    result = msgspec.convert(job.result, built(EvaluationResult))
    if not (access.project.store.runs / result.run_id).is_dir():
        raise ApiProblem(HTTPStatus.GONE, f"the run {result.run_id} of evaluation {id} was deleted. evaluate again")
    return CompletedEvaluation(id, msgspec.convert(job.request, built(EvaluationRequest)), result)
