"""The database: SQLite or PostgreSQL through SQLAlchemy Core, and its migrations."""

import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Column, Connection, Engine, Select, Table, create_engine, event, inspect, tuple_
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from evalspec.base.errors import InvalidInput, MissingPackage, Problem, StoreError
from evalspec.runs.store.files import PRIVATE_FILE, store_errors
from evalspec.runs.store.run_store import prepare_root

SQLITE = "sqlite"
POSTGRESQL = "postgresql"

_BUSY_SECONDS = 30
_SQLSTATE_FULL = "53100"
_LITTLE_SPACE = 65_536
_MIGRATIONS = Path(str(files("evalspec.service"))) / "migrations"
_MIGRATION_LOCK = 0x65766C73
"""Key of PostgreSQL's advisory lock, under which one process migrates while others wait."""


def open_database(url: str) -> Engine:
    """Return the engine of a database. Nothing is created: see `migrate`.

    Raises:
        InvalidInput: The URL cannot be read, or names an unsupported database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise _refuse("the URL cannot be read") from None
    name = parsed.get_backend_name()
    if name == SQLITE:
        return _open_sqlite(parsed.database)
    if name == POSTGRESQL:
        return _open_postgresql(parsed)
    raise _refuse(f"'{name}' is not supported")


def _refuse(message: str) -> InvalidInput:
    fix = "write sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME"
    return InvalidInput(Problem(message, fix, field="--database"))


def _open_postgresql(url: URL) -> Engine:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo

        options: Mapping[str, Any] = url.query
        make_conninfo("", **options)
        driven = url.set(drivername="postgresql+psycopg")
        return create_engine(driven, pool_pre_ping=True, pool_size=10, hide_parameters=True)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingPackage("PostgreSQL", "psycopg", "service") from None
    except ProgrammingError as error:
        raise _refuse(str(error).strip()) from None


def _open_sqlite(path: str | None) -> Engine:
    if not path or path == ":memory:":
        raise _refuse("a database in memory cannot be shared with workers")
    place = Path(path)
    if not place.parent.exists():
        prepare_root(place.parent)
    with store_errors(place):
        place.touch(PRIVATE_FILE)
    options = {"timeout": _BUSY_SECONDS}
    engine = create_engine(f"sqlite:///{place}", poolclass=NullPool, connect_args=options, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not when the driver thinks they should
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        is_writing = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    return engine


class DatabaseDown(StoreError):
    """The database does not answer, or cannot be written. It may work again the next time.

    The message may name hosts and users, which is for operators only. `is_full`: its disk is full.
    """

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that only reads.

    Raises:
        DatabaseDown: The database does not answer.
    """
    with _explained(engine), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in a transaction, which on SQLite is the only one that writes.

    Raises:
        DatabaseDown: The database does not answer, or cannot be written.
    """
    with _explained(engine), engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except sqlalchemy.exc.TimeoutError as error:
        raise DatabaseDown("the database does not answer: all connections are in use") from error
    except sqlalchemy.exc.DataError as error:  # such as NUL, which PostgreSQL stores in no text
        raise InvalidInput(f"the database cannot store this: {str(error.orig).strip().splitlines()[0]}") from error
    except sqlalchemy.exc.DBAPIError as error:
        # a file that is damaged, or not a database, has no class of its own
        is_down = isinstance(error, sqlalchemy.exc.OperationalError) or type(error) is sqlalchemy.exc.DatabaseError
        if not is_down and not error.connection_invalidated:
            raise
        said, is_full = str(error.orig).strip().splitlines()[0], _is_full(engine, error.orig)
        what = "the disk of the database is full" if is_full else "the database does not answer"
        raise DatabaseDown(f"{what}: {said}", is_full=is_full) from error


def _is_full(engine: Engine, error: BaseException | None) -> bool:
    """Return whether an error means that there is no space left.

    SQLite calls it an I/O error if it concerns one of the files beside the database.
    """
    if getattr(error, "sqlstate", None) == _SQLSTATE_FULL:
        return True
    code, path = getattr(error, "sqlite_errorcode", None), engine.url.database
    if code is None or path is None:
        return False
    if code & 0xFF == sqlite3.SQLITE_FULL:
        return True
    try:
        return shutil.disk_usage(Path(path).parent).free < _LITTLE_SPACE
    except OSError:
        return False


DAY_SECONDS = 86_400.0


def read_clock(connection: Connection) -> float:
    """Return the time in seconds since 1970. All workers share the clock of a PostgreSQL server."""
    if connection.dialect.name == POSTGRESQL:
        return float(connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one())
    return time.time()


def list_newest_first(
    found: Select[Any], moment: Column[float], id: Column[str], before: tuple[float, str] | None, limit: int
) -> Select[Any]:
    """Return a query for at most so many rows, newest first. `before`: only rows older than this (moment, id)."""
    if before is not None:
        found = found.where(tuple_(moment, id) < before)
    return found.order_by(moment.desc(), id.desc()).limit(limit)


def wait_in_line(connection: Connection, key: int) -> None:
    """Let other servers with the same key wait for the end of the transaction. SQLite has only one writer anyway."""
    if connection.dialect.name == POSTGRESQL:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({key})")


def update_statistics(engine: Engine, tables: Sequence[Table]) -> None:
    """Tell the database how many rows there are: it plans queries of a table that was just filled for an empty one."""
    with writing(engine) as connection:
        for table in tables:
            connection.exec_driver_sql(f"ANALYZE {table.name}")


def migrate(engine: Engine) -> None:
    """Create the tables, or bring them up to date. Processes that start together wait for each other.

    Raises:
        InvalidInput: Another version of evalspec wrote the database.
        StoreError: The database does not answer.
    """
    with writing(engine) as connection:
        wait_in_line(connection, _MIGRATION_LOCK)
        refuse_unknown(connection)
        if read_revision(connection) != newest_revision():
            _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic import command  # a sixth of a second that most starts do not need
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def refuse_unknown(connection: Connection) -> None:
    """Raise InvalidInput if the tables are of a later version of evalspec, or from before the first release."""
    current = read_revision(connection)
    if current is not None and current not in _list_revisions():
        message = f"the database was written by another version of evalspec (revision {current})"
        fix = "update evalspec, or name a new database and list the runs again with `evalspec serve --reindex`"
        raise InvalidInput(Problem(message, fix, field="--database"))


def read_revision(connection: Connection) -> str | None:
    """Return the revision of the tables. None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()


def newest_revision() -> str:
    """Return the revision that this version of evalspec needs."""
    return _list_revisions()[-1]


def _list_revisions() -> Sequence[str]:
    """Return all revisions, oldest first. The names of their modules begin with them."""
    names = (entry.name for entry in (_MIGRATIONS / "versions").iterdir())
    return sorted(name.partition("_")[0] for name in names if name[0].isdecimal())
