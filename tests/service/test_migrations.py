"""Migrations make the tables of tables.py, from nothing and from each released schema with data in it."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect
from sqlalchemy.engine import make_url

from evalspec.base.errors import InvalidInput
from evalspec.service.database import migrate, newest_revision, open_database, read_revision, reading, writing
from evalspec.service.tables import METADATA

SCHEMAS = Path(__file__).parent / "schemas"
FIX = "add a migration; until the first release: PYTHONPATH=.:tests python tests/service/freeze_schema.py"


def differences(engine):
    with reading(engine) as connection:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)


def restore(url, schema):
    """Execute a frozen schema on an empty database."""
    if url.startswith("sqlite"):
        with sqlite3.connect(make_url(url).database) as connection:
            connection.executescript(schema.with_suffix(".sqlite.sql").read_text())
        connection.close()
        return
    with psycopg.connect(url) as server:
        server.execute(schema.with_suffix(".postgresql.sql").read_text())


def test_an_empty_database_gets_the_tables(database):
    engine = open_database(database)
    migrate(engine)
    migrate(engine)
    assert differences(engine) == [], FIX
    with reading(engine) as connection:
        assert read_revision(connection) == newest_revision()
    engine.dispose()


@pytest.mark.parametrize("revision", sorted({path.name.partition(".")[0] for path in SCHEMAS.glob("*.sql")}))
def test_a_released_schema_is_migrated_with_its_data(database, revision):
    restore(database, SCHEMAS / revision)
    engine = open_database(database)
    known = inspect(engine).get_table_names()
    migrate(engine)
    assert differences(engine) == [], FIX
    with reading(engine) as connection:
        for table in (table for table in METADATA.sorted_tables if table.name in known):
            (row,) = connection.execute(table.select())
            texts = {name: value for name, value in row._asdict().items() if isinstance(value, str)}
            assert texts == {name: f"a {name}" for name in texts}, table.name
    engine.dispose()


@pytest.mark.parametrize("revision", ["0001", "9999"])
def test_a_database_of_another_version_is_refused(engine, revision):
    with writing(engine) as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    with pytest.raises(InvalidInput, match=rf"written by another version of evalspec \(revision {revision}\)"):
        migrate(engine)
