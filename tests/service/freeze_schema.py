"""Write the first migration from tables.py, and frozen copies of its schema with a row in each table.

    PYTHONPATH=.:tests python tests/service/freeze_schema.py

Only until the first release. Later a change of tables.py is a new migration, and a release adds its frozen copies.
"""

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations.ops import UpgradeOps
from sqlalchemy import JSON, Boolean, Column, Float, Integer, create_engine

from evalspec.service import database, tables
from servers.postgres import find_binaries, open_cluster

SCHEMAS = Path(__file__).parent / "schemas"
REVISION = "0002"
MIGRATION = Path(database.__file__).parent / "migrations" / "versions" / "0002_first.py"
HEAD = '''"""The tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
'''


def write_migration() -> None:
    with create_engine("sqlite://").connect() as connection:
        made = produce_migrations(MigrationContext.configure(connection), tables.METADATA)
    body = render_python_code(made.upgrade_ops or UpgradeOps())
    lines = [line for line in body.splitlines() if "### commands" not in line]
    MIGRATION.write_text(HEAD + "\n".join(lines) + "\n")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", MIGRATION], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", "--fix", MIGRATION], check=True)


def value_for(column: Column[Any]) -> Any:
    """A value of the column's type, which shows its name."""
    for kind, value in ((Boolean, False), (JSON, {"of": column.name}), (Integer, 1), (Float, 1.5)):
        if isinstance(column.type, kind):
            return value
    return f"a {column.name}"


def fill(url: str) -> None:
    engine = database.open_database(url)
    database.migrate(engine)
    with database.writing(engine) as connection:
        for table in tables.METADATA.sorted_tables:
            connection.execute(table.insert().values({column.name: value_for(column) for column in table.columns}))
    engine.dispose()


def freeze() -> None:
    SCHEMAS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/service.db"
        fill(f"sqlite:///{path}")
        connection = sqlite3.connect(path)
        (SCHEMAS / f"{REVISION}.sqlite.sql").write_text("\n".join(connection.iterdump()) + "\n")
        connection.close()
    with open_cluster() as cluster:
        url = cluster.create_database()
        fill(url)
        command = [f"{find_binaries()}/pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept = [line for line in text.splitlines() if line and not line.startswith(("--", "\\", "SET ", "SELECT pg_"))]
        (SCHEMAS / f"{REVISION}.postgresql.sql").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    write_migration()
    freeze()
