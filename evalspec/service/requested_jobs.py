"""Jobs that requests start. For an answer or a page that takes too long, the same request gets the same job."""

from collections.abc import Mapping
from typing import Any

from evalspec.service import jobs
from evalspec.service.access import Access
from evalspec.service.jobs import Job

_JOBS_LOOKED_AT = 50


def find_same_job(access: Access, kind: str, asked: Mapping[str, Any]) -> Job | None:
    """Return the latest job with this request, None if there is none among the latest ones."""
    known = jobs.list_jobs(access.engine, access.namespace, [kind], limit=_JOBS_LOOKED_AT)
    return next((job for job in known if dict(job.request) == asked), None)


def start_job(
    access: Access, kind: str, asked: Mapping[str, Any], prefix: str, calls: int = 0, run_id: str | None = None
) -> Job:
    """Let a worker do what the caller has asked for.

    `prefix`: of the job's id. `calls`: how many calls of the target it plans. `run_id`: the run that it resumes.

    Raises:
        ApiProblem: 409: An open job writes the run. 429: The namespace has too many open jobs, or too many calls in 24
            hours.
    """
    limits, id, user = access.service.settings.limits, jobs.create_id(prefix), access.caller.user
    return jobs.enqueue(
        access.engine, access.namespace, kind, asked, user, id=id, calls=calls, limits=limits, run_id=run_id
    )
