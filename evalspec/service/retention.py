"""Delete what has expired: old runs and jobs, idle pushes, old tokens and audit entries."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from logging import ERROR
from pathlib import Path

from sqlalchemy import Engine, delete, select

from evalspec.api.baseline_files import find_baselines
from evalspec.base.errors import EvalspecError, InvalidInput, StoreError
from evalspec.model.typed_json import parse_document, read_bytes
from evalspec.runs.store.run_store import read_timestamp
from evalspec.service import audit, jobs
from evalspec.service.database import DatabaseDown, read_clock, reading, writing
from evalspec.service.evaluation_files import evaluation_path
from evalspec.service.logs import log_event, log_exception
from evalspec.service.pushes import IDLE_SECONDS, remove_idle_pushes
from evalspec.service.run_index import RunIndex
from evalspec.service.settings import Project, ServiceSettings
from evalspec.service.stores import require_store
from evalspec.service.tables import JOBS
from evalspec.service.tokens import purge_tokens
from evalspec.service.uploaded_datasets import delete_expired
from evalspec.service.workers import JOB_LOGS

TOKEN_DAYS = 30
"""How long expired and revoked tokens are listed."""

_PERIOD_SECONDS = 3600.0
_DAY_SECONDS = 86_400


def enforce_retention(engine: Engine, settings: ServiceSettings, stop: threading.Event) -> None:
    """Delete what has expired now and once an hour, until `stop` is set."""
    while not stop.is_set():
        try:
            purge_expired(engine, settings)
        except StoreError as error:  # the database may answer the next time
            log_event("the retention thread failed", level=ERROR, error=str(error))
        except Exception:  # a fault must not end the deletion of personal data for good
            log_exception("the retention thread failed")
        stop.wait(_PERIOD_SECONDS)


def purge_expired(engine: Engine, settings: ServiceSettings) -> None:
    """Delete what has expired. What cannot be deleted is logged and tried again the next time.

    Raises:
        StoreError: The database does not answer.
    """
    purge_tokens(engine, TOKEN_DAYS)
    audit.purge_entries(engine, settings.limits.audit_days)
    days = settings.limits.retention_days
    steps: dict[str, Callable[[Project], object]] = {
        "uploads were not deleted": delete_expired,
        "an idle push was not removed": _remove_idle_pushes,
    }
    if days is not None:
        steps["retention failed"] = lambda project: _delete_old(engine, project, days)
    for project in settings.projects.values():
        for fault, step in steps.items():
            try:
                step(project)
            except DatabaseDown:
                raise
            except (InvalidInput, StoreError, OSError) as error:
                log_event(fault, level=ERROR, namespace=project.namespace, error=str(error))


def _remove_idle_pushes(project: Project) -> None:
    for name in remove_idle_pushes(project, IDLE_SECONDS):
        log_event("an idle push was removed", namespace=project.namespace, push=name)


def _delete_old(engine: Engine, project: Project, days: int) -> None:
    require_store(project)
    _delete_runs(engine, project, days)
    _delete_jobs(engine, project, days)


def _delete_runs(engine: Engine, project: Project, days: int) -> None:
    """Delete the project's runs that are older than so many days, except kept ones."""
    with reading(engine) as connection:
        oldest = datetime.fromtimestamp(read_clock(connection), UTC) - timedelta(days=days)
        is_open = (JOBS.c.namespace == project.namespace) & JOBS.c.status.in_(jobs.OPEN)
        used = set(connection.execute(select(JOBS.c.run_id).where(is_open)).scalars())
    store = project.store
    expired = [
        folder
        for folder in store.list_all()
        if (moment := read_timestamp(folder)) is not None and moment < oldest and folder.name not in used
    ]
    if not expired:
        return
    kept = {folder.name for folder in store.labels().values()} | set(_list_promoted(project))
    for folder in expired:
        if folder.name not in kept:
            _delete_run(engine, project, folder)


def _delete_run(engine: Engine, project: Project, folder: Path) -> None:
    try:
        project.store.remove(folder)
    except EvalspecError as error:
        log_event("a run was not deleted", level=ERROR, namespace=project.namespace, run=folder.name, error=str(error))
        return
    RunIndex(engine, project).forget(folder.name)
    audit.record(engine, "retention", namespace=project.namespace, target=folder.name)


def _list_promoted(project: Project) -> Iterator[str]:
    """Yield the runs whose scores a baseline of the project has.

    Raises:
        InvalidInput: A baseline cannot be read, so nobody knows which run it needs.
    """
    for path in find_baselines(project.folder):
        name = parse_document(read_bytes(path), str(path)).get("runId")
        if not isinstance(name, str):
            raise InvalidInput(f"{path}: this baseline names no run", "promote a run again, or remove it")
        yield name


def _delete_jobs(engine: Engine, project: Project, days: int) -> None:
    """Delete ended jobs that are older than so many days, with their files, unless their run is still there."""
    present = {folder.name for folder in project.store.list()}
    with writing(engine) as connection:
        oldest = read_clock(connection) - days * _DAY_SECONDS
        is_old = (JOBS.c.namespace == project.namespace) & (JOBS.c.finished_at < oldest)
        ended = select(JOBS.c.id, JOBS.c.run_id).where(is_old, JOBS.c.status.not_in(jobs.OPEN))
        gone = [id for id, run in connection.execute(ended) if run not in present]
        for start in range(0, len(gone), 500):
            connection.execute(delete(JOBS).where(JOBS.c.id.in_(gone[start : start + 500])))
    for id in gone:
        (project.root / JOB_LOGS / f"{id}.log").unlink(missing_ok=True)
        evaluation_path(project, id).unlink(missing_ok=True)  # --reindex would restore it
