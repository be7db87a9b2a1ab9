"""The store of each namespace: server and workers must see the same files, which an id in the folder shows."""

import os
import secrets
from collections.abc import Iterable, Set
from pathlib import Path

from sqlalchemy import Engine, Select, select

from evalspec.base.errors import InvalidInput, Problem, StoreError
from evalspec.runs.store.files import PRIVATE_FILE, store_errors
from evalspec.runs.store.run_store import is_run_name, prepare_root
from evalspec.service.database import read_revision, reading, writing
from evalspec.service.settings import Project
from evalspec.service.tables import PROJECTS

STORE_ID_NAME = "store-id"

_ID_LENGTH = 32


def read_store_id(project: Project) -> str | None:
    """Return the id of a project's store. None: the folder has none yet.

    Raises:
        StoreError: The file cannot be read, or is not an id.
    """
    path = project.root / STORE_ID_NAME
    with store_errors(path):
        if not path.exists():
            return None
        found = path.read_text(encoding="ascii", errors="replace").strip()
    if len(found) != _ID_LENGTH or not found.isalnum():
        raise StoreError(f"{path}: not the id of a store. restore the file")
    return found


def require_store(project: Project) -> None:
    """Check that a project's folder is there: a volume that is not mounted looks like a project without runs.

    Raises:
        StoreError: It is gone.
    """
    path = project.root / STORE_ID_NAME
    if not path.is_file():
        raise StoreError(f"{path}: gone. restore the project's folder, or start the server again")
    runs = project.store.runs
    if runs.is_symlink() and not runs.is_dir():
        raise StoreError(f"{runs}: the link leads nowhere. restore the folder that it names")


def list_run_names(project: Project) -> Set[str]:
    """Return the names of the runs of a project.

    Raises:
        StoreError: The project's folder is gone, or cannot be read.
    """
    require_store(project)
    runs = project.store.runs
    if not runs.is_dir():
        return set()
    with store_errors(runs):
        return {one.name for one in os.scandir(runs) if one.is_dir(follow_symlinks=False) and is_run_name(one.name)}


def read_file_clock(folder: Path) -> float:
    """Return the time of the file system of a folder, whose own time becomes it. Times of files are relative to it."""
    os.utime(folder)
    return folder.stat().st_mtime


def create_store_id(project: Project) -> str:
    """Return the id of a project's store, which is created if necessary.

    Raises:
        StoreError: The folder cannot be written.
    """
    prepare_root(project.root)
    path = project.root / STORE_ID_NAME
    with store_errors(path):
        written = path.with_name(f".{STORE_ID_NAME}.{os.getpid()}")
        written.write_text(f"{secrets.token_hex(_ID_LENGTH // 2)}\n", encoding="ascii")
        written.chmod(PRIVATE_FILE)
        try:
            os.link(written, path)  # a process that starts at the same time has to use the same id
        except FileExistsError:
            pass
        finally:
            written.unlink()
    return read_store_id(project) or ""


def register_stores(engine: Engine, projects: Iterable[Project], *, adopt: bool = False) -> None:
    """Store the id of each project's store in the database, or check it against the known one.

    `adopt`: replace a known id. For a server whose folder has moved or whose database was restored.

    Raises:
        InvalidInput: The database knows another store for a namespace.
        StoreError: A folder cannot be written, or the store of a known namespace is gone.
    """
    for project in projects:
        if not adopt and find_known_id(engine, project) is not None:
            require_store(project)  # an id in the folder that a volume is mounted on would look like a store
        own = create_store_id(project)
        with writing(engine) as connection:
            known = connection.execute(_select_id(project)).scalar_one_or_none()
            if known is None:
                connection.execute(PROJECTS.insert().values(namespace=project.namespace, store_id=own))
            elif known != own and adopt:
                changed = PROJECTS.update().where(PROJECTS.c.namespace == project.namespace)
                connection.execute(changed.values(store_id=own))
            elif known != own:
                raise _mismatch(project, "use the folder that the server uses, or adopt this one: serve --reindex")


def check_store(engine: Engine, project: Project) -> None:
    """Check that a worker has the same store of a project as the server.

    Raises:
        InvalidInput: The folder is another store than the server's, or the server does not know the namespace.
        StoreError: The store is gone, or cannot be read.
    """
    known = find_known_id(engine, project)
    if known is None:
        message = f"no server has registered namespace {project.namespace} in this database"
        raise InvalidInput(Problem(message, "start `evalspec serve` with it first", field="--project"))
    require_store(project)
    if known != read_store_id(project):
        raise _mismatch(project, "mount the folder that the server uses")


def find_known_id(engine: Engine, project: Project) -> str | None:
    """Return the id of a project's store in the database, None if no server has registered it."""
    with reading(engine) as connection:
        if read_revision(connection) is None:
            return None
        return connection.execute(_select_id(project)).scalar_one_or_none()


def list_namespaces(engine: Engine) -> list[str]:
    """Return the namespaces that servers have registered."""
    with reading(engine) as connection:
        return list(connection.execute(select(PROJECTS.c.namespace).order_by(PROJECTS.c.namespace)).scalars())


def _select_id(project: Project) -> Select[str]:
    return select(PROJECTS.c.store_id).where(PROJECTS.c.namespace == project.namespace)


def _mismatch(project: Project, fix: str) -> InvalidInput:
    message = f"{project.folder} is not the store of namespace {project.namespace} in this database"
    return InvalidInput(Problem(message, fix, field="--project"))
