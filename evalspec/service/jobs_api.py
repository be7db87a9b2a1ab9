"""Routes of jobs: the state of any background work, and its cancellation."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from evalspec.service import jobs
from evalspec.service.access import Access, permits
from evalspec.service.jobs import Job, render_time
from evalspec.service.problems import not_found
from evalspec.service.tokens import Scope

ROUTER = APIRouter(prefix="/v1/jobs", tags=["jobs"])


class JobState(BaseModel):
    """The state of a job."""

    job_id: str = Field(examples=["run_0123456789ab"])
    kind: str = Field(description="What the job does: `run` or `evaluation`.")
    status: str = Field(description="pending, running, completed, failed or cancelled.")
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    progress: dict[str, Any] | None = Field(None, description="Attempts: total, queried, scored, failed.")
    run_id: str | None = Field(None, description="The run that the job writes.")
    result: dict[str, Any] | None = None
    error: str | None = Field(None, description="Why the job failed.")


def describe_job(job: Job) -> JobState:
    """Return the state of a job as the API shows it."""
    return JobState(
        job_id=job.id,
        kind=job.kind,
        status=job.status,
        created_at=render_time(job.created_at) or "",
        started_at=render_time(job.started_at),
        finished_at=render_time(job.finished_at),
        progress=None if job.progress is None else dict(job.progress),
        run_id=job.run_id,
        result=None if job.result is None else dict(job.result),
        error=job.error,
    )


@ROUTER.get("/{job_id}")
def get_job(job_id: str, access: Annotated[Access, Depends(permits(Scope.READ))]) -> JobState:
    """Return the state of a job."""
    job = jobs.find_job(access.engine, access.namespace, job_id)
    if job is None:
        raise not_found(f"there is no job {job_id}")
    return describe_job(job)


@ROUTER.post("/{job_id}/cancel")
def cancel_job(job_id: str, access: Annotated[Access, Depends(permits(Scope.RUN))]) -> JobState:
    """Cancel a job. A running one stops as soon as its worker notices; its results so far are kept."""
    job = jobs.cancel(access.engine, access.namespace, job_id)
    if job is None:
        raise not_found(f"there is no job {job_id}")
    return describe_job(job)
