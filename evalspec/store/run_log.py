"""One run on disk: its fingerprint, its log of replies and scores, its report. One process writes it at a time."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from evalspec.errors import StoreError
from evalspec.store.files import (
    cut_torn_line,
    replace_symlink,
    store_error,
    store_errors,
    sync_folder,
    write_atomically,
)
from evalspec.store.group_sync import GroupSync
from evalspec.store.log_records import encode_record

STORE_VERSION = 1
LOG_NAME = "samples.jsonl"
LATEST_NAME = "latest"

Redactor = Callable[[Any], Any]
"""Takes a JSON value, gives it back without secrets (References.redact_data)."""

_OWN_WORDS = frozenset({"kind", "dataset", "id", "metric", "status", "usage"})
"""What identifies a record, or is counted by us. It is never redacted: an environment variable that happens to hold
an ordinary word would make the log unreadable, and these come from the user's own files, not from the environment."""


class RunLog:
    """The open log of one run, to be closed after use (it is a context manager).

    Opening takes the lock of the folder and cuts off a line that a killed process left half written. For one thread.

    Raises:
        StoreError: the folder cannot be written, or another process is writing this run.
    """

    def __init__(self, folder: Path, *, redact: Redactor) -> None:
        self.folder = folder
        self._redact = redact
        self._path = folder / LOG_NAME
        self._failure: str | None = None
        self._lock = _take_lock(folder)
        try:
            with store_errors(self._path):
                self._file = self._path.open("ab+", buffering=0)
                cut_torn_line(self._file)
                sync_folder(folder)
        except StoreError:
            self._lock.release()
            raise
        self._sync = GroupSync(self._file.fileno())

    @property
    def id(self) -> str:
        """The run's name: UTC time and short id."""
        return self.folder.name

    def write_fingerprint(self, data: Mapping[str, Any]) -> None:
        """Write `run.json`: what was run, with the version of this layout.

        Raises:
            StoreError: it cannot be written.
        """
        document = {"storeVersion": STORE_VERSION} | {key: self._redact(value) for key, value in data.items()}
        write_atomically(self.folder / "run.json", json.dumps(document, indent=2, allow_nan=False) + "\n")

    def append(self, record: Mapping[str, Any]) -> None:
        """Give one record to the operating system; it survives a kill at once, a loss of power about a second later.

        Raises:
            StoreError: it cannot be written. What stands in the log is whole, and the log takes nothing more.
        """
        if self._sync.failure and not self._failure:
            self._failure = str(store_error(self._path, self._sync.failure))
        if self._failure:
            raise StoreError(self._failure)
        line = encode_record(
            {key: value if key in _OWN_WORDS else self._redact(value) for key, value in record.items()}
        )
        try:
            self._write(line)
        except OSError as error:
            failure = store_error(self._path, error)
            self._failure = str(failure)
            raise failure from error
        self._sync.written()

    def write_report(self, text: str) -> None:
        """Write `report.json` and point `latest`, a relative symbolic link beside the runs, at this run.

        The text is stored as it is: it is rendered from a Run without secrets (reporters.redaction).

        Raises:
            StoreError: it cannot be written.
        """
        write_atomically(self.folder / "report.json", text)
        replace_symlink(self.folder.parent / LATEST_NAME, self.id)

    def close(self) -> None:
        """Sync the log to disk and let others write this run. A second call does nothing.

        Raises:
            StoreError: not all of the log is known to have reached the disk.
        """
        if self._file.closed:
            return
        try:
            with store_errors(self._path):
                self._sync.close()
        finally:
            self._file.close()
            self._lock.release()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):  # a torn last line may stay: nothing follows it, and readers pass over it
                cut_torn_line(self._file)
            raise


def _take_lock(folder: Path) -> FileLock:
    path = folder / ".lock"
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"{folder}: another evalspec process is writing this run. wait for it or stop it") from error
    except OSError as error:
        raise store_error(path, error) from error
    return lock
