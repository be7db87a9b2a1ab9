"""Check what a server needs, start it and its workers, and delete what has expired.

What expires: runs, jobs, idle pushes, tokens, audit entries.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from logging import ERROR, WARNING
from pathlib import Path

import uvicorn
from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy.engine import make_url

from evalspec.base.errors import EvalspecError, InvalidInput, Problem, StoreError
from evalspec.base.plural import counted
from evalspec.curation.labels.files import list_labelled_runs
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.store.run_store import read_timestamp
from evalspec.service import alerts, audit, jobs, worker_process
from evalspec.service.app import create_app
from evalspec.service.baselines_api import list_promoted
from evalspec.service.connections import ServiceConnection, listen
from evalspec.service.database import (
    DAY_SECONDS,
    SQLITE,
    DatabaseDown,
    migrate,
    newest_revision,
    open_database,
    read_clock,
    read_revision,
    reading,
    refuse_unknown,
    writing,
)
from evalspec.service.evaluation_files import evaluation_path, restore_evaluations
from evalspec.service.isolation import refuse_links
from evalspec.service.kept_json import encode_line
from evalspec.service.logs import configure_logs, log_event, log_exception
from evalspec.service.oidc import Issuer
from evalspec.service.pushes import IDLE_SECONDS, remove_idle_pushes
from evalspec.service.run_index import RunIndex
from evalspec.service.settings import OidcSettings, Project, ServiceSettings
from evalspec.service.stores import find_known_id, read_store_id, register_stores, require_store
from evalspec.service.tables import BASELINES, JOBS
from evalspec.service.tokens import purge_tokens
from evalspec.service.uploaded_datasets import delete_expired
from evalspec.service.workers import end, send_line


def list_findings(settings: ServiceSettings) -> list[str]:
    """Return what a server would find: a line for the database, the port and each project.

    Raises:
        InvalidInput: The server could not start, or a manifest is invalid. It has every problem.
    """
    findings: list[str] = []
    problems: list[Problem] = []
    checks: list[Callable[[], str]] = [partial(_check_database, settings), partial(_check_port, settings)]
    if settings.oidc is not None:
        checks.append(partial(_check_issuer, settings.oidc))
    checks += [
        partial(_check_project, project, settings.limits.retention_days) for project in settings.projects.values()
    ]
    for check in checks:
        try:
            findings.append(check())
        except InvalidInput as error:
            problems += error.problems
        except EvalspecError as error:
            problems.append(Problem(str(error)))
    if problems:
        raise InvalidInput(problems)
    return findings


def _check_database(settings: ServiceSettings) -> str:
    if not _exists(settings.database):
        return "database: will be created"
    engine = open_database(settings.database)
    try:
        with reading(engine) as connection:
            refuse_unknown(connection)
            revision = read_revision(connection)
        if revision is not None:
            _check_stores(engine, settings)
    finally:
        engine.dispose()
    if revision == newest_revision():
        return f"database: reachable, revision {revision}"
    return f"database: reachable, will be migrated from {revision or 'empty'} to {newest_revision()}"


def _exists(url: str) -> bool:
    """Return whether there is a database to check. SQLite would create the file."""
    try:
        parsed = make_url(url)
    except Exception:  # open_database explains it
        return True
    return parsed.get_backend_name() != SQLITE or not parsed.database or Path(parsed.database).exists()


def _check_stores(engine: Engine, settings: ServiceSettings) -> None:
    problems = []
    for project in settings.projects.values():
        known, own = find_known_id(engine, project), read_store_id(project)
        if known is not None and own is None:
            message = f"{project.folder}: the store of namespace {project.namespace} is gone"
            problems.append(Problem(message, "restore or mount the project's folder; serve --reindex starts a new one"))
        elif known not in (None, own):
            message = f"{project.folder} is not the store of namespace {project.namespace} in this database"
            problems.append(Problem(message, "use the folder of before, or adopt it: serve --reindex"))
    if problems:
        raise InvalidInput(problems)


def _check_port(settings: ServiceSettings) -> str:
    for one in listen(settings):
        one.close()
    return f"port: {settings.host}:{settings.port} is free"


def _check_issuer(oidc: OidcSettings) -> str:
    failure = Issuer(oidc).find_failure()
    if failure is not None:
        raise InvalidInput(Problem(failure, f"check {oidc.issuer}", field="--oidc-issuer"))
    return f"identity provider: {oidc.issuer} answers"


def _check_project(project: Project, days: int | None) -> str:
    if days is not None:
        old = _list_older(project, datetime.now(UTC) - timedelta(days=days))
        would = f"--retention {days} would delete {counted(len(old), 'run')}, except those of open jobs"
        return f"{_check_manifest(project)}; {would}"
    return _check_manifest(project)


def _check_manifest(project: Project) -> str:
    if not project.manifest.exists():
        return f"project {project.namespace}: has no {project.manifest.name}; name a manifest with each run"
    load_manifest(project.manifest)
    return f"project {project.namespace}: {project.manifest.name} is valid"


_RESTART_SECONDS = 1.0
_LONGEST_PAUSE = 60.0
_HEALTHY_SECONDS = 30.0
_STOP_SECONDS = 25.0
TOKEN_DAYS = 30
"""How long expired and revoked tokens are listed."""
_PERIOD_SECONDS = 3600.0


def prepare_database(settings: ServiceSettings, *, reindex: bool = False) -> Engine:
    """Return the migrated database of a server, which knows the stores of its projects.

    `reindex`: adopt folders that have moved (see register_stores), rebuild the index of the runs, and add evaluations
    that the database does not know from their files.

    Raises:
        InvalidInput: The database is another version's, or knows another store for a namespace.
        StoreError: The database does not answer, or a folder cannot be written.
    """
    engine = open_database(settings.database)
    migrate(engine)
    register_stores(engine, settings.projects.values(), adopt=reindex)
    for project in settings.projects.values() if reindex else ():
        RunIndex(engine, project).rebuild()
        restore_evaluations(engine, project)
    return engine


def serve(settings: ServiceSettings, engine: Engine, sockets: list[socket.socket]) -> None:
    """Serve on listening sockets until the process is asked to end.

    Workers end with it, and their jobs return to the queue.
    """
    configure_logs()
    if settings.is_confined:
        refuse_links(settings.projects.values())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn handles them, and raises them again when it has stopped
    stop = threading.Event()
    threads = [threading.Thread(target=keep_worker, args=(settings, stop)) for _ in range(settings.workers)]
    threads.append(threading.Thread(target=enforce_retention, args=(engine, settings, stop), name="retention"))
    for thread in threads:
        thread.start()
    try:
        build_server(settings, engine).run(sockets)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def build_server(settings: ServiceSettings, engine: Engine) -> uvicorn.Server:
    """Return the server of the application, without workers. It ends when its `should_exit` is set."""
    app = create_app(settings, engine)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application believes them, from the configured proxies only
        ws="none",
        http=ServiceConnection,
        timeout_graceful_shutdown=int(_STOP_SECONDS),
    )
    return _Server(config, app.state.service.stopping)


class _Server(uvicorn.Server):
    """A server that ends streams of events when it stops. They would keep it waiting otherwise."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting requests, and wait for those that are being answered."""
        self._stopping.set()
        await super().shutdown(sockets)


def keep_worker(settings: ServiceSettings, stop: threading.Event) -> None:
    """Keep one worker process running until `stop` is set. One that ends at once is restarted ever more slowly."""
    failures = 0
    while not stop.is_set():
        started = time.monotonic()
        code = _run_worker(settings, stop)
        if stop.is_set():
            return
        failures = 0 if time.monotonic() - started > _HEALTHY_SECONDS else failures + 1
        pause = min(_RESTART_SECONDS * 2 ** max(failures - 1, 0), _LONGEST_PAUSE)
        log_event("a worker ended", level=WARNING, exit_code=code, failures=failures, restart_seconds=pause)
        stop.wait(pause)


def _run_worker(settings: ServiceSettings, stop: threading.Event) -> int:
    """Run one worker process to its end, and return its exit code."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", worker_process.__name__], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        send_line(process, encode_line(settings))
        while process.poll() is None and not stop.wait(0.2):
            pass
        return end(process, _STOP_SECONDS)


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
    alerts.purge_alerts(engine, settings.limits.audit_days)
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
        needed = _list_needed(connection, project)
    for folder in _list_older(project, oldest):
        if folder.name not in needed:
            _delete_run(engine, project, folder)


def _list_needed(connection: Connection, project: Project) -> Set[str]:
    """Return the runs that open jobs, promotions and labels need."""
    of_jobs = select(JOBS.c.run_id).where(JOBS.c.namespace == project.namespace, JOBS.c.status.in_(jobs.OPEN))
    promoted = select(BASELINES.c.run_id).where(BASELINES.c.namespace == project.namespace)
    return {*connection.execute(of_jobs.union(promoted)).scalars(), *_list_labelled(project)}


def _list_older(project: Project, oldest: datetime) -> list[Path]:
    """Return the project's runs that began before `oldest`, without promoted ones and those with labels of any kind.

    Raises:
        InvalidInput: A baseline cannot be read, so nobody knows which run it needs.
    """
    store = project.store
    found = [run for run in store.list_all() if (moment := read_timestamp(run)) is not None and moment < oldest]
    if not found:
        return []
    kept = {*_list_labelled(project), *list_promoted(project)}
    return [run for run in found if run.name not in kept]


def _list_labelled(project: Project) -> Set[str]:
    """Return the runs with labels of any kind."""
    return {*(run.name for run in project.store.labels().values()), *list_labelled_runs(project.root)}


def _delete_run(engine: Engine, project: Project, folder: Path) -> None:
    try:
        project.store.remove(folder, _unless_needed(engine, project, folder.name))
    except DatabaseDown:
        raise
    except EvalspecError as error:
        log_event("a run was not deleted", level=ERROR, namespace=project.namespace, run=folder.name, error=str(error))
        return
    RunIndex(engine, project).drop(folder.name)
    audit.record(engine, "retention", namespace=project.namespace, target=folder.name)


@contextmanager
def _unless_needed(engine: Engine, project: Project, run_id: str) -> Iterator[None]:
    """Let jobs and promotions wait. Raise InvalidInput if something needs the run since a moment ago."""
    with writing(engine) as connection:
        jobs.lock_namespace(connection, project.namespace)
        if run_id in _list_needed(connection, project):
            raise InvalidInput("a job, a promotion or a label needs it since a moment ago")
        yield


def _delete_jobs(engine: Engine, project: Project, days: int) -> None:
    """Delete ended jobs that are older than so many days, with their files, unless their run is still there."""
    present = {folder.name for folder in project.store.list()}
    with writing(engine) as connection:
        oldest = read_clock(connection) - days * DAY_SECONDS
        is_old = (JOBS.c.namespace == project.namespace) & (JOBS.c.finished_at < oldest)
        ended = select(JOBS.c.id, JOBS.c.run_id).where(is_old, JOBS.c.status.not_in(jobs.OPEN))
        gone = [id for id, run in connection.execute(ended) if run not in present]
        for start in range(0, len(gone), 500):
            connection.execute(delete(JOBS).where(JOBS.c.id.in_(gone[start : start + 500])))
    for id in gone:
        project.find_log(id).unlink(missing_ok=True)
        evaluation_path(project, id).unlink(missing_ok=True)  # --reindex would restore it
