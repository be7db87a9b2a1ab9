"""Check what a server needs, without starting or changing anything."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.engine import make_url

from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.service.connections import listen
from evalspec.service.database import (
    SQLITE,
    newest_revision,
    open_database,
    read_revision,
    reading,
    refuse_unknown,
)
from evalspec.service.settings import Project, ServiceSettings
from evalspec.service.stores import read_store_id
from evalspec.service.tables import PROJECTS


def list_findings(settings: ServiceSettings) -> list[str]:
    """Return what a server would find: a line for the database, the port and each project.

    Raises:
        InvalidInput: The server could not start, or a manifest is invalid. It has every problem.
    """
    findings: list[str] = []
    problems: list[Problem] = []
    checks: list[Callable[[], str]] = [partial(_check_database, settings), partial(_check_port, settings)]
    checks += [partial(_check_project, project) for project in settings.projects.values()]
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
    with reading(engine) as connection:
        known = dict(connection.execute(select(PROJECTS.c.namespace, PROJECTS.c.store_id)).tuples().all())
    problems = []
    for project in settings.projects.values():
        own = read_store_id(project)
        if project.namespace in known and own is None:
            message = f"{project.folder}: the store of namespace {project.namespace} is gone"
            problems.append(Problem(message, "restore or mount the project's folder; serve --reindex starts a new one"))
        elif known.get(project.namespace, own) != own:
            message = f"{project.folder} is not the store of namespace {project.namespace} in this database"
            problems.append(Problem(message, "use the folder of before, or adopt it: serve --reindex"))
    if problems:
        raise InvalidInput(problems)


def _check_port(settings: ServiceSettings) -> str:
    for one in listen(settings):
        one.close()
    return f"port: {settings.host}:{settings.port} is free"


def _check_project(project: Project) -> str:
    if not project.manifest.exists():
        return f"project {project.namespace}: has no {project.manifest.name}; name a manifest with each run"
    load_manifest(project.manifest)
    return f"project {project.namespace}: {project.manifest.name} is valid"
