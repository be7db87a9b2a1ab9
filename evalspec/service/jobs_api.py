"""Routes of jobs: the state of any background work, its progress as server-sent events, and its cancellation."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from evalspec.service import jobs
from evalspec.service.access import Access, Reading, Running, permits
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.database import DatabaseDown
from evalspec.service.documents import show_example
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.jobs import Job, JobStatus
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.timestamps import ShownTime
from evalspec.service.tokens import Scope

ROUTER = APIRouter(prefix="/v1/jobs", tags=["jobs"])


_EXAMPLE: dict[str, Any] = {
    "job_id": "run_0123456789ab",
    "kind": "run",
    "status": "running",
    "created_at": MOMENT,
    "started_at": MOMENT,
    "finished_at": None,
    "progress": {"total": 100, "queried": 40, "scored": 38, "failed": 0},
    "run_id": RUN_ID,
    "result": None,
    "error": None,
}
EVENT_TYPE = "text/event-stream"
_LastEvent = Annotated[str | None, Header(max_length=200)]
_POLL_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_EVENT_EXAMPLE = 'id: 7f2d124248ff37b8\nevent: job\ndata: {"job_id": "run_0123456789ab", "kind": "run", …}\n\n'
"""Of one event. `data` has the fields of JobState."""
_EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class JobState(BaseModel):
    """The state of a job."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_EXAMPLE]})
    job_id: str = Field(validation_alias="id")
    kind: str = Field(description="What the job does: `run`, `evaluation` or `comparison`.")
    status: JobStatus
    created_at: ShownTime
    started_at: ShownTime | None = None
    finished_at: ShownTime | None = None
    progress: dict[str, Any] | None = Field(None, description="Attempts: total, queried, scored, failed.")
    run_id: str | None = Field(None, description="The run that the job writes.")
    result: dict[str, Any] | None = None
    error: str | None = Field(None, description="Why the job failed.")


def describe_job(job: Job) -> JobState:
    """Return the state of a job as the API shows it."""
    return JobState.model_validate(job)


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    model_config = show_example({"jobs": [_EXAMPLE], "next_cursor": None})
    jobs: list[JobState]
    next_cursor: NextCursor


@ROUTER.get("", summary="List jobs")
def list_jobs(
    access: Reading,
    status: Annotated[list[JobStatus] | None, Query(description="Repeatable.")] = None,
    kind: Annotated[list[str] | None, Query(description="Repeatable.", max_length=20)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JobPage:
    """Return jobs of the namespace, newest first."""
    before: Any = decode_cursor(cursor, float, str)
    statuses = [str(one) for one in status or ()]
    known = jobs.list_jobs(
        access.engine, access.namespace, kind or (), statuses=statuses, before=before, limit=limit + 1
    )
    found, following = cut_page(known, limit, lambda job: (job.created_at, job.id))
    return JobPage(jobs=[describe_job(job) for job in found], next_cursor=following)


@ROUTER.get("/{job_id}", summary="Show a job")
def get_job(job_id: str, access: Reading) -> JobState:
    """Return the state of a job."""
    job = jobs.find_job(access.engine, access.namespace, job_id)
    if job is None:
        raise not_found(f"there is no job {job_id}")
    return describe_job(job)


@ROUTER.post("/{job_id}/cancel", summary="Cancel a job")
def cancel_job(job_id: str, access: Running) -> JobState:
    """Cancel a job. A running one stops as soon as its worker notices; its results so far are kept."""
    job = jobs.cancel(access.engine, access.namespace, job_id)
    if job is None:
        raise not_found(f"there is no job {job_id}")
    return describe_job(job)


@ROUTER.get(
    "/{job_id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={200: {"content": {EVENT_TYPE: {"example": _EVENT_EXAMPLE}}}},
)
async def follow_job(
    job_id: str, access: Reading, request: Request, last_event_id: _LastEvent = None
) -> StreamingResponse:
    """Send an event `job` with the state of a job whenever it changes. The stream ends with the job, or with the token.

    A client that reconnects with `Last-Event-ID` does not get the same state again.
    """
    if await run_in_threadpool(jobs.find_job, access.engine, access.namespace, job_id) is None:
        raise not_found(f"there is no job {job_id[:100]}")
    events = _follow(access, request, job_id, last_event_id)
    return StreamingResponse(events, media_type=EVENT_TYPE, headers=_EVENT_HEADERS)


async def _follow(access: Access, request: Request, job_id: str, sent: str | None) -> AsyncIterator[str]:
    spoken_at = time.monotonic()
    while not access.service.stopping.is_set():
        with suppress(DatabaseDown):  # the stream continues when it answers again
            job = await run_in_threadpool(jobs.find_job, access.engine, access.namespace, job_id)
            if job is None:  # deleted meanwhile
                return
            state = describe_job(job).model_dump_json()
            number = hashlib.sha256(state.encode()).hexdigest()[:16]
            if number != sent:
                try:
                    await run_in_threadpool(permits(Scope.READ), request, access.namespace)
                except ApiProblem:  # the token is revoked, or no longer valid for this
                    return
                yield f"id: {number}\nevent: job\ndata: {state}\n\n"
                sent, spoken_at = number, time.monotonic()
            if not job.is_open:
                return
        if time.monotonic() - spoken_at >= _HEARTBEAT_SECONDS:
            yield ": still here\n\n"
            spoken_at = time.monotonic()
        await _wait(access)


async def _wait(access: Access) -> None:
    """Wait until the next look at the job, or until the server stops."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_POLL_SECONDS):
            await access.service.stopping.wait()
