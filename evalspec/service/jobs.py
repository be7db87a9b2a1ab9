"""The queue of jobs. A worker claims a job by lease; a fencing number stops a worker that has lost its lease.

A job is pending, running, completed, failed or cancelled. Each claim increments `fence`, and each later write of a
worker names the fence of its claim. A worker that was stopped and continued after another took the job over changes
nothing.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, Engine, Row, Select, Update, and_, func, or_, select, update

from evalspec.base.errors import EvalspecError
from evalspec.service.database import DAY_SECONDS, POSTGRESQL, list_newest_first, read_clock, reading, writing
from evalspec.service.lease_watch import HeldLease, LeaseWatch
from evalspec.service.problems import ApiProblem, conflict
from evalspec.service.settings import ServiceLimits
from evalspec.service.tables import JOBS, PROJECTS


class JobStatus(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (JobStatus.PENDING, JobStatus.RUNNING)

MOST_STALLS = 10
"""A job that loses so many workers in a row without progress is failed: it probably kills them."""


class Job(Struct, frozen=True):
    """One job, as in the table `jobs`. Times are seconds since 1970."""

    id: str
    namespace: str
    kind: str
    request: Mapping[str, Any]
    user: str
    status: JobStatus
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    worker: str | None = None
    lease_until: float | None = None
    fence: int = 0
    stalls: int = 0
    is_cancelled: bool = False
    calls: int = 0
    progress: Mapping[str, Any] | None = None
    run_id: str | None = None
    result: Mapping[str, Any] | None = None
    error: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the job is pending or running."""
        return self.status in OPEN

    @property
    def short_id(self) -> str:
        """The last part of the id. The name of the job's run ends with it, so that a takeover finds the run."""
        return self.id.rpartition("_")[2]


class LeaseLost(EvalspecError):
    """Another worker has taken over the job, or the job no longer exists. Nothing may be written for it."""


def create_id(prefix: str) -> str:
    """Return a new id: a prefix and twelve random hexadecimal digits."""
    return f"{prefix}_{secrets.token_hex(6)}"


def enqueue(
    engine: Engine,
    namespace: str,
    kind: str,
    request: Mapping[str, Any],
    user: str,
    *,
    id: str,
    calls: int,
    limits: ServiceLimits,
    run_id: str | None = None,
) -> Job:
    """Add a job. `calls`: how many calls of the target it plans. `run_id`: the run that it resumes.

    Raises:
        ApiProblem: The namespace has too many open jobs, or its calls of the last 24 hours reach the limit. 409: an
            open job writes the run.
    """
    with writing(engine) as connection:
        lock_namespace(connection, namespace)
        if run_id is not None:
            _refuse_written(connection, namespace, run_id)
        now = read_clock(connection)
        _check_limits(connection, namespace, calls, limits, now)
        job = Job(id, namespace, kind, dict(request), user, JobStatus.PENDING, now, calls=calls, run_id=run_id)
        connection.execute(JOBS.insert().values(asdict(job)))
    return job


def _refuse_written(connection: Connection, namespace: str, run_id: str) -> None:
    """Refuse a second job for a run: it would take the run from the first, or fail."""
    writes = and_(JOBS.c.namespace == namespace, JOBS.c.run_id == run_id, JOBS.c.status.in_(OPEN))
    if connection.execute(select(JOBS.c.id).where(writes).limit(1)).first() is not None:
        raise conflict("the run is in progress")


def _check_limits(connection: Connection, namespace: str, calls: int, limits: ServiceLimits, now: float) -> None:
    own = JOBS.c.namespace == namespace
    waiting = connection.execute(select(func.count()).where(own, JOBS.c.status == JobStatus.PENDING)).scalar_one()
    if waiting >= limits.queued_jobs:
        detail = f"{waiting} jobs of namespace {namespace} are waiting, which is the limit; try again later"
        raise ApiProblem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": "60"})
    if limits.calls_a_day is None:
        return
    recent = select(func.coalesce(func.sum(JOBS.c.calls), 0)).where(own, JOBS.c.created_at > now - DAY_SECONDS)
    used = int(connection.execute(recent).scalar_one())
    if used + calls > limits.calls_a_day:
        detail = (
            f"namespace {namespace} may make {limits.calls_a_day} calls in 24 hours; {used} are used or planned, "
            f"and this job needs {calls}"
        )
        raise ApiProblem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": "3600"})


def lock_namespace(connection: Connection, namespace: str) -> None:
    """Let others wait who claim or add jobs of this namespace. SQLite has only one writer anyway."""
    if connection.dialect.name == POSTGRESQL:
        connection.execute(select(PROJECTS.c.namespace).where(PROJECTS.c.namespace == namespace).with_for_update())


def claim(
    engine: Engine,
    worker: str,
    most_running: Mapping[str, int],
    lease_seconds: float,
    watch: LeaseWatch | None = None,
) -> Job | None:
    """Claim the oldest job that is pending or whose worker has lost its lease. None: there is none.

    `most_running`: how many jobs of each namespace may run at the same time. Other namespaces are left alone. `watch`:
    finds leases that a clock that was set back would keep.
    """
    closed: set[str] = set()
    while True:
        with writing(engine) as connection:
            now = read_clock(connection)
            dead = [] if watch is None else watch.find_dead(_list_distant(connection, now + lease_seconds))
            row = connection.execute(_select_claimable(set(most_running) - closed, now, dead)).first()
            if row is None:
                return None
            job = _to_job(row)
            lock_namespace(connection, job.namespace)
            if _count_running(connection, job, now, dead) >= most_running[job.namespace]:
                closed.add(job.namespace)
                continue
            claimed = _claim(connection, job, worker, now, lease_seconds)
            if claimed is not None:
                return claimed


def _list_distant(connection: Connection, latest: float) -> list[HeldLease]:
    """Return the leases that end after a time."""
    held = select(JOBS.c.id, JOBS.c.fence, JOBS.c.lease_until).where(JOBS.c.status == JobStatus.RUNNING)
    return [HeldLease(*row) for row in connection.execute(held.where(JOBS.c.lease_until > latest))]


def _select_claimable(namespaces: Collection[str], now: float, dead: Collection[str]) -> Select[Any]:
    is_orphan = and_(JOBS.c.status == JobStatus.RUNNING, or_(JOBS.c.lease_until < now, JOBS.c.id.in_(dead)))
    return (
        select(JOBS)
        .where(JOBS.c.namespace.in_(sorted(namespaces)), or_(JOBS.c.status == JobStatus.PENDING, is_orphan))
        .order_by(JOBS.c.created_at, JOBS.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


def _count_running(connection: Connection, job: Job, now: float, dead: Collection[str]) -> int:
    is_held = and_(JOBS.c.status == JobStatus.RUNNING, JOBS.c.lease_until >= now, JOBS.c.id.not_in([job.id, *dead]))
    counted = select(func.count()).where(JOBS.c.namespace == job.namespace, is_held)
    return int(connection.execute(counted).scalar_one())


def _claim(connection: Connection, job: Job, worker: str, now: float, lease_seconds: float) -> Job | None:
    """Claim the job, or end it if it is cancelled or has stalled too often. None: look for another one."""
    if job.is_cancelled or job.stalls >= MOST_STALLS:
        error = None if job.is_cancelled else f"{MOST_STALLS} workers in a row were lost before any progress"
        status = JobStatus.CANCELLED if job.is_cancelled else JobStatus.FAILED
        ended = {"status": status, "finished_at": now, "error": error, "lease_until": None, "fence": job.fence + 1}
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(ended))
        return None
    values = {
        "status": JobStatus.RUNNING,
        "worker": worker,
        "lease_until": now + lease_seconds,
        "fence": job.fence + 1,
        "stalls": job.stalls + 1 if job.status == JobStatus.RUNNING else job.stalls,
        "started_at": job.started_at if job.started_at is not None else now,
    }
    changed = update(JOBS).where(JOBS.c.id == job.id).values(values).returning(JOBS)
    return _to_job(connection.execute(changed).one())


def _to_job(row: Row[Any]) -> Job:
    return Job(**(row._asdict() | {"status": JobStatus(row.status)}))


def _update_own(job: Job) -> Update:
    """Return an update of a claimed job, which changes nothing if another worker has taken the job over."""
    return update(JOBS).where(JOBS.c.id == job.id, JOBS.c.fence == job.fence, JOBS.c.status == JobStatus.RUNNING)


def renew(engine: Engine, job: Job, lease_seconds: float, progress: Mapping[str, Any] | None = None) -> bool:
    """Extend the lease, and store the progress. Return whether the job is to be cancelled.

    Raises:
        LeaseLost: Another worker has taken over the job.
    """
    with writing(engine) as connection:
        values: dict[str, Any] = {"lease_until": read_clock(connection) + lease_seconds}
        if progress is not None:
            values |= {"progress": dict(progress), "stalls": 0}
        changed = _update_own(job).values(values).returning(JOBS.c.is_cancelled)
        row = connection.execute(changed).first()
    if row is None:
        raise _lost(job)
    return bool(row[0])


def finish(
    engine: Engine,
    job: Job,
    status: JobStatus,
    *,
    result: Mapping[str, Any] | None = None,
    error: str | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """End a claimed job. `progress`: at its end; None: as it was stored last.

    Raises:
        LeaseLost: Another worker has taken over the job.
    """
    with writing(engine) as connection:
        now = read_clock(connection)
        values = {"status": status, "finished_at": now, "lease_until": None, "result": result, "error": error}
        values |= {} if progress is None else {"progress": dict(progress)}
        if connection.execute(_update_own(job).values(values)).rowcount == 0:
            raise _lost(job)


def note_run(engine: Engine, job: Job, run_id: str) -> None:
    """Store which run a claimed job writes.

    Raises:
        LeaseLost: Another worker has taken over the job.
    """
    with writing(engine) as connection:
        if connection.execute(_update_own(job).values(run_id=run_id)).rowcount == 0:
            raise _lost(job)


def release(engine: Engine, job: Job, *, stalled: bool) -> None:
    """Return a claimed job to the queue, unless its lease is lost. `stalled`: its process ended unexpectedly."""
    values: dict[str, Any] = {"status": JobStatus.PENDING, "lease_until": None, "worker": None}
    if stalled:
        values["stalls"] = JOBS.c.stalls + 1
    with writing(engine) as connection:
        connection.execute(_update_own(job).values(values))


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(f"job {job.id} was taken over by another worker")


def cancel(engine: Engine, namespace: str, id: str) -> Job | None:
    """Cancel a job: a pending one immediately, a running one when its worker notices. None: there is no such job."""
    with writing(engine) as connection:
        own = and_(JOBS.c.namespace == namespace, JOBS.c.id == id)
        now = read_clock(connection)
        pending = {"status": JobStatus.CANCELLED, "is_cancelled": True, "finished_at": now}
        connection.execute(update(JOBS).where(own, JOBS.c.status == JobStatus.PENDING).values(pending))
        connection.execute(update(JOBS).where(own, JOBS.c.status == JobStatus.RUNNING).values(is_cancelled=True))
        row = connection.execute(select(JOBS).where(own)).first()
    return None if row is None else _to_job(row)


def find_job(engine: Engine, namespace: str, id: str) -> Job | None:
    """Return a job of a namespace. None: there is none with this id."""
    with reading(engine) as connection:
        row = connection.execute(select(JOBS).where(JOBS.c.namespace == namespace, JOBS.c.id == id)).first()
    return None if row is None else _to_job(row)


def find_job_of_run(engine: Engine, namespace: str, run_id: str) -> Job | None:
    """Return the newest job that writes a run. None: there is none, for example because the run is not by a job."""
    own = and_(JOBS.c.namespace == namespace, JOBS.c.run_id == run_id)
    with reading(engine) as connection:
        row = connection.execute(select(JOBS).where(own).order_by(JOBS.c.created_at.desc()).limit(1)).first()
    return None if row is None else _to_job(row)


def list_jobs(
    engine: Engine,
    namespace: str,
    kinds: Sequence[str],
    *,
    statuses: Sequence[str] = (),
    wanted: Mapping[str, str] | None = None,
    before: tuple[float, str] | None = None,
    limit: int = 50,
) -> list[Job]:
    """Return jobs of a namespace, newest first.

    `kinds`, `statuses`: empty for all. `wanted`: only jobs whose request has these texts. `before`: only those older
    than this (created_at, id).
    """
    found = select(JOBS).where(JOBS.c.namespace == namespace)
    if kinds:
        found = found.where(JOBS.c.kind.in_(kinds))
    for key, text in (wanted or {}).items():
        found = found.where(JOBS.c.request[key].as_string() == text)
    if statuses:
        found = found.where(JOBS.c.status.in_(statuses))
    ordered = list_newest_first(found, JOBS.c.created_at, JOBS.c.id, before, limit)
    with reading(engine) as connection:
        return [_to_job(row) for row in connection.execute(ordered)]
