"""The audit log: who did what, and what was refused. It has ids and outcomes, never content."""

import secrets
from logging import ERROR
from typing import Any

from sqlalchemy import Engine, Row, delete, select

from evalspec.base.errors import StoreError
from evalspec.service.database import DAY_SECONDS, list_newest_first, read_clock, reading, writing
from evalspec.service.logs import log_event
from evalspec.service.tables import AUDIT

_MOST_CHARACTERS = 300


def record(engine: Engine, action: str, **values: Any) -> None:
    """Add an entry, or log it if the database does not take it: what it is about has happened, and is answered so.

    `action`: method and route template, or the name of an internal action. `values`: of other columns of the table.
    """
    clean = {key: _shorten(value) if isinstance(value, str) else value for key, value in values.items()}
    try:
        with writing(engine) as connection:
            entry = {"id": secrets.token_hex(8), "at": read_clock(connection), "action": _shorten(action), **clean}
            connection.execute(AUDIT.insert().values(entry))
    except StoreError as error:
        log_event("audit entry lost", level=ERROR, action=_shorten(action), **clean, error=str(error))


def list_entries(
    engine: Engine,
    namespace: str | None,
    *,
    user: str | None = None,
    action: str | None = None,
    status: int | None = None,
    before: tuple[float, str] | None = None,
    limit: int = 50,
) -> list[Row[Any]]:
    """Return entries of a namespace, newest first: rows of the table. None: of all, and those that belong to none.

    `before`: only entries older than this (at, id).
    """
    wanted: dict[str, Any] = {"namespace": namespace, "user": user, "action": action, "status": status}
    conditions = [AUDIT.c[name] == value for name, value in wanted.items() if value is not None]
    found = list_newest_first(select(AUDIT).where(*conditions), AUDIT.c.at, AUDIT.c.id, before, limit)
    with reading(engine) as connection:
        return list(connection.execute(found))


def purge_entries(engine: Engine, days: int) -> int:
    """Delete entries that are older than so many days. Return their number."""
    with writing(engine) as connection:
        oldest = read_clock(connection) - days * DAY_SECONDS
        return connection.execute(delete(AUDIT).where(AUDIT.c.at < oldest)).rowcount


def _shorten(text: str) -> str:
    """Return a text as any database stores it."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\0")[:_MOST_CHARACTERS]
