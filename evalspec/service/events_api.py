"""Route of events: the progress of a job as server-sent events."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from evalspec.service import jobs
from evalspec.service.access import Access, Reading
from evalspec.service.database import DatabaseDown
from evalspec.service.jobs_api import describe_job
from evalspec.service.problems import not_found

ROUTER = APIRouter(prefix="/v1/jobs", tags=["jobs"])

EVENT_TYPE = "text/event-stream"
_POLL_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_EXAMPLE = 'id: 7f2d124248ff37b8\nevent: job\ndata: {"job_id": "run_0123456789ab", "kind": "run", …}\n\n'
"""Of one event. `data` has the fields of JobState."""
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@ROUTER.get(
    "/{job_id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={200: {"content": {EVENT_TYPE: {"example": _EXAMPLE}}}},
)
async def follow_job(
    job_id: str, access: Reading, last_event_id: Annotated[str | None, Header(max_length=200)] = None
) -> StreamingResponse:
    """Send an event `job` with the state of a job whenever it changes. The stream ends with the job.

    A client that reconnects with `Last-Event-ID` does not get the same state again.
    """
    if await run_in_threadpool(jobs.find_job, access.engine, access.namespace, job_id) is None:
        raise not_found(f"there is no job {job_id[:100]}")
    return StreamingResponse(_follow(access, job_id, last_event_id), media_type=EVENT_TYPE, headers=_HEADERS)


async def _follow(access: Access, job_id: str, sent: str | None) -> AsyncIterator[str]:
    spoken_at = time.monotonic()
    while not access.service.stopping.is_set():
        try:
            job = await run_in_threadpool(jobs.find_job, access.engine, access.namespace, job_id)
            if job is None:  # deleted meanwhile
                return
            state = describe_job(job).model_dump_json()
            number = hashlib.sha256(state.encode()).hexdigest()[:16]
            if number != sent:
                yield f"id: {number}\nevent: job\ndata: {state}\n\n"
                sent, spoken_at = number, time.monotonic()
            if not job.is_open:
                return
        except DatabaseDown:  # the stream continues when it answers again
            pass
        if time.monotonic() - spoken_at >= _HEARTBEAT_SECONDS:
            yield ": still here\n\n"
            spoken_at = time.monotonic()
        await _wait(access)


async def _wait(access: Access) -> None:
    """Wait until the next look at the job, or until the server stops."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_POLL_SECONDS):
            await access.service.stopping.wait()
