"""Jobs that compute what a page shows, where a request would take too long."""

from collections.abc import Mapping
from typing import Any

from evalspec.service import jobs
from evalspec.service.jobs import Job
from evalspec.service.pages.visits import Visit

_JOBS_LOOKED_AT = 50


def find_page_job(visit: Visit, kind: str, asked: Mapping[str, Any]) -> Job | None:
    """Return the latest job with this request, None if there is none among the latest ones."""
    known = jobs.list_jobs(visit.access.engine, visit.namespace, [kind], limit=_JOBS_LOOKED_AT)
    return next((job for job in known if dict(job.request) == asked), None)


def start_page_job(visit: Visit, kind: str, asked: Mapping[str, Any], prefix: str) -> None:
    """Let a worker compute the page. `prefix`: of the job's id.

    Raises:
        ApiProblem: 429: The namespace has too many open jobs.
    """
    access, id = visit.access, jobs.create_id(prefix)
    limits = access.service.settings.limits
    jobs.enqueue(access.engine, visit.namespace, kind, asked, access.caller.user, id=id, calls=0, limits=limits)
