"""Freeze migrations: for each, its SHA-256 and a copy of the schema that it makes, with a row in each table.

    PYTHONPATH=.:tests python tests/service/freeze_schema.py [REVISION]...

Without revisions, it freezes those that are not frozen yet. A frozen migration does not change, because databases have
been upgraded with it. Only one that was never in a release may be frozen again.
"""

import hashlib
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import JSON, Boolean, Column, Connection, Float, Integer, MetaData

from evalspec.service import database
from servers.postgres import find_binaries, open_cluster

SCHEMAS = Path(__file__).parent / "schemas"
FOLDER = Path(database.__file__).parent / "migrations"
MIGRATIONS = {path.name.partition("_")[0]: path for path in sorted((FOLDER / "versions").glob("[0-9]*.py"))}
KINDS = ("sqlite", "postgresql")


def upgrade(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def read_tables(connection: Connection) -> MetaData:
    """The tables of evalspec that are there."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name != "alembic_version")
    return found


def describe(revision: str) -> str:
    """The first line of the files of a frozen migration."""
    migration = MIGRATIONS[revision]
    return f"-- {migration.name}, SHA-256 {hashlib.sha256(migration.read_bytes()).hexdigest()}"


def value_for(column: Column[Any]) -> Any:
    """A value of the column's type, which shows its name."""
    for kind, value in ((Boolean, False), (JSON, {"of": column.name}), (Integer, 1), (Float, 1.5)):
        if isinstance(column.type, kind):
            return value
    return f"a {column.name}"


def fill(url: str, revision: str) -> None:
    engine = database.open_database(url)
    with database.writing(engine) as connection:
        upgrade(connection, revision)
        for table in read_tables(connection).sorted_tables:
            connection.execute(table.insert().values({column.name: value_for(column) for column in table.columns}))
    engine.dispose()


def dump_sqlite(revision: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        fill(f"sqlite:///{folder}/service.db", revision)
        connection = sqlite3.connect(f"{folder}/service.db")
        lines = [*connection.iterdump()]
        connection.close()
    return lines


def dump_postgresql(url: str, revision: str) -> list[str]:
    fill(url, revision)
    dump = [f"{find_binaries()}/pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    lines = subprocess.run(dump, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if line and not line.startswith(("--", "\\", "SET ", "SELECT pg_"))]


def main(revisions: list[str]) -> None:
    with open_cluster() as cluster:
        for revision in revisions:
            found = dump_sqlite(revision), dump_postgresql(cluster.create_database(), revision)
            for kind, lines in zip(KINDS, found, strict=True):
                (SCHEMAS / f"{revision}.{kind}.sql").write_text("\n".join([describe(revision), *lines]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or [one for one in MIGRATIONS if not (SCHEMAS / f"{one}.sqlite.sql").exists()])
