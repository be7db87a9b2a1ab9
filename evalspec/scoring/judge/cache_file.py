"""The file of the judge's cache: a SQLite database in a private folder, beside the runs of a project.

Several processes may use it at once, and a killed one leaves it intact. The database has a random key: names of entries
are keyed hashes, so nobody can guess a text from them, and each entry is signed, so a damaged one is recognised.
"""

import errno
import hmac
import os
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.base.git import read_git
from evalspec.model.base import Record, built

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

CONTROL_ID = "(control cases)"
"""Takes the place of the id of a sample for replies that evalspec made from several samples of a dataset."""
MAX_AGE = timedelta(days=30)
"""Older entries are asked again: providers change models behind a name, and a verdict is to be of the present one."""
MAX_BYTES = 256 * 1024 * 1024
"""About 50,000 scores with their verdicts. Entries that were not used for the longest time are removed first."""

_FILE_NAME = "judge.sqlite3"
_WAIT_SECONDS = 5.0
"""Wait for another process that is writing. A write takes milliseconds."""
NOTHING_EARLIER, _NO_PART = "no earlier entry", "attempts"
"""The latter: no part differs, so it is another attempt or grading of the same reply."""
_LEAST_FREED = 0.1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, metric TEXT NOT NULL, dataset TEXT NOT NULL, sample TEXT NOT NULL,
    asked TEXT NOT NULL, used TEXT NOT NULL, size INTEGER NOT NULL, content BLOB NOT NULL, signature BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS entries_by_use ON entries (used, size);
CREATE INDEX IF NOT EXISTS entries_by_sample ON entries (dataset, sample);
CREATE TABLE IF NOT EXISTS uses (
    run TEXT NOT NULL, key BLOB NOT NULL, is_hit INTEGER NOT NULL, PRIMARY KEY (run, key)) WITHOUT ROWID;
"""


class CacheEntry(Record, frozen=True):
    """What the judge or the embeddings gave for one question.

    `sample`: the dataset and id that it belongs to; empty for what belongs to none. `asked`: time in UTC. `learned`:
    what the judge's replies said about the judge. `is_bare`: whether its texts are left out. `parts`: a keyed hash of
    each part of the question, by name.
    """

    kind: str
    metric: str
    sample: tuple[str, str]
    asked: str
    value: Any
    learned: Mapping[str, Mapping[str, str]] = {}
    is_bare: bool = False
    parts: Mapping[str, str] = {}


class CacheUse(Record, frozen=True):
    """The entries that one run has of a metric: how many were `cached` and `asked`, and when the oldest was asked.

    `why`: the number of asked ones by what differs from the nearest earlier entry of the same sample.
    """

    kind: str
    metric: str
    cached: int
    asked: int
    oldest: str
    why: Mapping[str, int] = {}


class CacheStats(Struct, frozen=True):
    """Size of a cache: entries by kind, bytes, and when the oldest and the newest entry were asked."""

    entries: Mapping[str, int]
    bytes: int
    oldest: str | None
    newest: str | None


class DamagedEntry(Exception):
    """An entry of the cache is not as it was written."""


class CacheFile:
    """The cache in a folder. Nothing is opened or created before it is needed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE_NAME
        self._connection: Connection | None = None
        self._secret = b""

    def exists(self) -> bool:
        """Return whether there is a cache."""
        return self.path.exists()

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def compute_key(self, digest: str) -> bytes:
        """Return the name of an entry: a keyed hash of the digest of all that its value depends on.

        Raises:
            StoreError: the file cannot be opened.
        """
        with self._opened():
            return hmac.digest(self._secret, digest.encode(), "sha256")

    def find(self, key: bytes, now: datetime) -> CacheEntry | None:
        """Return an entry that is not too old, or None.

        Raises:
            DamagedEntry: the entry is not as it was written. It is removed.
            StoreError: the file cannot be read.
        """
        with self._opened() as database:
            query = "SELECT content, signature FROM entries WHERE key = ? AND asked >= ?"
            row = database.execute(query, (key, render_time(now - MAX_AGE))).fetchone()
            if row is None:
                return None
            with suppress(DecodeError):
                if hmac.compare_digest(self._sign(key, row[0]), row[1]):
                    return decode(row[0], type=built(CacheEntry))
            database.execute("DELETE FROM entries WHERE key = ?", (key,))
        raise DamagedEntry

    def remove(self, key: bytes) -> None:
        """Remove an entry.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._opened() as database:
            database.execute("DELETE FROM entries WHERE key = ?", (key,))

    def keep(self, key: bytes, entry: CacheEntry, run: str) -> None:
        """Write an entry, in place of an older one of this key.

        Raises:
            StoreError: the file cannot be written.
        """
        content = encode(entry)
        row = (key, entry.kind, entry.metric, *entry.sample, entry.asked, entry.asked, len(content), content)
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            marks = ", ".join("?" * (len(row) + 1))
            database.execute(f"INSERT OR REPLACE INTO entries VALUES ({marks})", (*row, self._sign(key, content)))  # noqa: S608
            database.execute("INSERT OR REPLACE INTO uses VALUES (?, ?, 0)", (run, key))
            database.execute("COMMIT")

    def finish(self, run: str, hits: Collection[bytes], now: datetime) -> None:
        """Write which entries a run has used, and remove old entries and those beyond the size limit.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?, 1)", [(run, key) for key in hits])
            database.executemany("UPDATE entries SET used = ? WHERE key = ?", [(render_time(now), key) for key in hits])
            database.execute("DELETE FROM entries WHERE asked < ?", (render_time(now - MAX_AGE),))
            _limit_size(database, MAX_BYTES)
            database.execute("DELETE FROM uses WHERE key NOT IN (SELECT key FROM entries)")
            database.execute("COMMIT")

    def forget_run(self, run: str) -> None:
        """Remove the entries that only this run has used.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._erasing() as database:
            database.execute("DELETE FROM uses WHERE run = ?", (run,))
            database.execute("DELETE FROM entries WHERE key NOT IN (SELECT key FROM uses)")

    def forget_samples(self, samples: Collection[tuple[str, str]], quotes: Callable[[bytes], bool]) -> int:
        """Remove the entries of these samples, and those that quote a text. Return how many there were.

        Control cases, which may contain any sample of a dataset, are removed too.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._erasing() as database:
            rows = database.execute("SELECT key, dataset, sample, content FROM entries")
            wanted = {*samples, *((dataset, CONTROL_ID) for dataset, _ in samples)}
            found = [(key,) for key, dataset, sample, content in rows if (dataset, sample) in wanted or quotes(content)]
            database.executemany("DELETE FROM entries WHERE key = ?", found)
        return len(found)

    def clear(self) -> int:
        """Remove all entries, and return how many there were.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._erasing() as database:
            database.execute("DELETE FROM uses")
            return int(database.execute("DELETE FROM entries").rowcount)

    def describe(self) -> CacheStats:
        """Return the size of the cache.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._opened() as database:
            entries = dict(database.execute("SELECT kind, COUNT(*) FROM entries GROUP BY kind ORDER BY kind"))
            query = "SELECT COALESCE(SUM(size), 0), MIN(asked), MAX(asked) FROM entries"
            return CacheStats(entries, *database.execute(query).fetchone())

    def count_scores(self, dataset: str) -> dict[str, dict[str, int]]:
        """Return the number of scores of a dataset that are not too old, by metric and sample.

        Raises:
            StoreError: the file cannot be read.
        """
        query = """SELECT metric, sample, COUNT(*) FROM entries WHERE kind = 'score' AND dataset = ? AND asked >= ?
            GROUP BY metric, sample"""
        found: dict[str, dict[str, int]] = {}
        with self._opened() as database:
            for metric, sample, count in database.execute(query, (dataset, render_time(datetime.now(UTC) - MAX_AGE))):
                found.setdefault(metric, {})[sample] = count
        return found

    def list_uses(self, run: str) -> list[CacheUse]:
        """Return what a run has used, by kind and metric.

        Raises:
            StoreError: the file cannot be read.
        """
        query = """SELECT kind, metric, SUM(is_hit), SUM(1 - is_hit), MIN(asked) FROM uses JOIN entries USING (key)
            WHERE run = ? GROUP BY kind, metric ORDER BY metric, kind"""
        with self._opened() as database:
            uses = [CacheUse(*row) for row in database.execute(query, (run,))]
            return [
                replace(use, why=_count_differences(database, run, use.metric)) if use.kind == "score" else use
                for use in uses
            ]

    def _sign(self, key: bytes, content: bytes) -> bytes:
        return hmac.digest(self._secret, key + content, "sha256")

    @contextmanager
    def _erasing(self) -> "Iterator[Connection]":
        """Delete in one transaction, after which the file has no copy of what is gone. Without a cache do nothing."""
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("DELETE FROM uses WHERE key NOT IN (SELECT key FROM entries)")
            database.execute("COMMIT")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _opened(self) -> "Iterator[Connection]":
        import sqlite3

        try:
            if self._connection is None:
                self._connection, self._secret = _open(self.path)
            yield self._connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}; `evalspec cache clear` or deleting the file ends this") from error
        finally:
            if self._connection is not None and self._connection.in_transaction:
                with suppress(sqlite3.Error):  # of a full disk, after which nothing is in the file anyway
                    self._connection.execute("ROLLBACK")


def use_cache(folder: Path, use: Callable[[CacheFile], T], otherwise: T) -> T:
    """Return what `use` makes of the cache in a folder, and close it. Without a cache return `otherwise`.

    Raises:
        StoreError: the file cannot be read or written.
    """
    file = CacheFile(folder)
    if not file.exists():
        return otherwise
    try:
        return use(file)
    finally:
        file.close()


def refuse_tracked(folder: Path) -> None:
    """Check that git does not track the folder: whoever can change it, as in a pull request, could write verdicts.

    Raises:
        InvalidInput: git tracks a file in it, or the file is a link.
    """
    if not folder.is_dir():
        return
    if read_git(folder, "ls-files", "--", ".") or (folder / _FILE_NAME).is_symlink():
        message = f"{folder}: git tracks the judge's cache, so a pull request could write scores"
        raise InvalidInput(message, f"remove it: git rm -r --cached {folder}")


def _open(path: Path) -> "tuple[Connection, bytes]":
    import sqlite3

    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError), (path.parent / ".gitignore").open("x", encoding="utf-8") as ignore:
        ignore.write("*\n")
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link")
    # Never open a file that exists: closing it would release the locks of all connections of this process to it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA secure_delete = ON")
        database.executescript(_SCHEMA)
        database.execute("INSERT OR IGNORE INTO secrets VALUES ('key', ?)", (secrets.token_bytes(32),))
        ((secret,),) = database.execute("SELECT value FROM secrets WHERE name = 'key'")
    except BaseException:
        database.close()
        raise
    return database, secret


def _count_differences(database: "Connection", run: str, metric: str) -> Counter[str]:
    """Return how many scores a run has asked for, by what differs from the nearest earlier entry of the same sample."""
    asked = """SELECT dataset, sample, asked, content, key FROM uses JOIN entries USING (key)
        WHERE run = ? AND metric = ? AND kind = 'score' AND NOT is_hit"""
    earlier = """SELECT content FROM entries WHERE dataset = ? AND sample = ? AND asked <= ? AND key != ? AND metric = ?
        AND kind = 'score' AND key NOT IN (SELECT key FROM uses WHERE run = ? AND NOT is_hit)"""
    found: Counter[str] = Counter()
    for dataset, sample, moment, content, key in database.execute(asked, (run, metric)).fetchall():
        others = database.execute(earlier, (dataset, sample, moment, key, metric, run))
        differing = (_list_differing(content, other) for (other,) in others)
        nearest = min(differing, key=len, default=[NOTHING_EARLIER])
        found[" and ".join(nearest) or _NO_PART] += 1
    return found


def _list_differing(content: bytes, other: bytes) -> list[str]:
    """Return the names of the parts in which two entries differ."""
    new, old = (decode(one, type=built(CacheEntry)).parts for one in (content, other))
    return [name for name in new if new[name] != old.get(name)]


def _limit_size(database: "Connection", most: int) -> None:
    """Remove entries beyond a size, those that were not used for the longest time first, and a tenth more."""
    (total,) = database.execute("SELECT COALESCE(SUM(size), 0) FROM entries").fetchone()
    if total <= most:
        return
    excess, removed = total - (1 - _LEAST_FREED) * most, []
    for key, size in database.execute("SELECT key, size FROM entries ORDER BY used"):
        if excess <= 0:
            break
        removed.append((key,))
        excess -= size
    database.executemany("DELETE FROM entries WHERE key = ?", removed)


def render_time(moment: datetime) -> str:
    """Return a time in UTC to the second, as entries have it. Texts of later times are greater."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
