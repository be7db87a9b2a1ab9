"""Migrations make the tables of tables.py, from nothing and from the schema of each, with data in it."""

import sqlite3

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from fastapi.testclient import TestClient
from msgspec.structs import replace
from sqlalchemy import inspect, select
from sqlalchemy.engine import make_url

from evalspec.base.errors import InvalidInput
from evalspec.service.app import create_app
from evalspec.service.database import migrate, newest_revision, open_database, read_revision, reading, writing
from evalspec.service.tables import METADATA
from servers.service import wait_for
from service.freeze_schema import KINDS, MIGRATIONS, SCHEMAS, describe, read_tables, upgrade

FIX = "add a migration, and freeze it: PYTHONPATH=.:tests python tests/service/freeze_schema.py"
FIRST, *_, PREVIOUS, _NEWEST = MIGRATIONS


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


@pytest.mark.parametrize("kind", KINDS)
def test_each_migration_is_frozen_and_as_it_was_then(kind):
    """Databases have been upgraded with it: a change would reach new databases only."""
    files = {revision: SCHEMAS / f"{revision}.{kind}.sql" for revision in MIGRATIONS}
    missing = [file.name for file in files.values() if not file.exists()]
    assert not missing, FIX
    changed = [
        revision for revision, file in files.items() if file.read_text().partition("\n")[0] != describe(revision)
    ]
    assert not changed, "undo the change and add another migration; freeze again only what nobody has upgraded with"


@pytest.mark.parametrize("revision", MIGRATIONS)
def test_a_frozen_schema_is_migrated_with_its_data(database, revision):
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


def copy_rows(source, url, revision):
    """Fill a new database of an old schema with the rows of the tables and columns that it knows; count them."""
    old, counts = open_database(url), {}
    with writing(old) as target, reading(source) as rows:
        upgrade(target, revision)
        for table in read_tables(target).sorted_tables:
            found = rows.execute(select(*(METADATA.tables[table.name].c[column.name] for column in table.columns)))
            given = [dict(row) for row in found.mappings()]
            counts[table.name] = len(given)
            if given:
                target.execute(table.insert(), given)
    return old, counts


@pytest.mark.parametrize("revision", [FIRST, PREVIOUS], ids=["first", "previous"])
def test_a_server_shows_what_it_had_before_an_upgrade(
    client, add_run, work, engine, settings, revision, tmp_path, request
):
    """Real rows in an old schema: runs, labels, a job, tokens, the audit and what else that schema knows."""
    run = add_run().id
    place = client.post("/v1/runs", json={}).headers["Location"]
    work()
    wait_for(lambda: len(client.get("/v1/runs").json()["runs"]) == 2)  # they are in the index then
    assert client.post(f"/v1/runs/{run}/labels", json={"sample": "s0", "verdict": "good"}).status_code == 201
    assert client.post("/v1/baselines/main", json={"run_id": run}).status_code == 201
    pages = [place, "/v1/runs", f"/v1/runs/{run}", f"/v1/runs/{run}/labels", "/v1/jobs"]
    pages += ["/v1/baselines"] if revision != FIRST else []
    before, audited = [client.get(page).json() for page in pages], client.get("/v1/audit").json()["entries"]
    assert before[0]["status"] == "completed" and len(before[1]["runs"]) == 2 and len(audited) >= 3
    is_sqlite = settings.database.startswith("sqlite")
    url = f"sqlite:///{tmp_path / 'old.db'}" if is_sqlite else request.getfixturevalue("cluster").create_database()
    old, counts = copy_rows(engine, url, revision)
    assert min(counts[name] for name in ("runs", "run_datasets", "tokens", "jobs", "audit", "projects")) > 0
    migrate(old)
    with TestClient(create_app(replace(settings, database=url), old), base_url="http://localhost") as upgraded:
        upgraded.headers["Authorization"] = client.headers["Authorization"]
        assert [upgraded.get(page).json() for page in pages] == before
        again = upgraded.get("/v1/audit").json()["entries"]
        assert [one for one in again if one in audited] == audited
        assert upgraded.post("/v1/baselines/next", json={"run_id": run}).status_code == 201
    old.dispose()


@pytest.mark.parametrize("revision", ["0001", "9999"])
def test_a_database_of_another_version_is_refused(engine, revision):
    with writing(engine) as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    with pytest.raises(InvalidInput, match=rf"written by another version of evalspec \(revision {revision}\)"):
        migrate(engine)
