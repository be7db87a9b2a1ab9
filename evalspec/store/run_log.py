"""One run on disk: its fingerprint, its log of replies and scores, its report. One process writes it at a time."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from evalspec.errors import StoreError
from evalspec.output_files import sync_folder
from evalspec.store.files import (
    cut_torn_line,
    replace_symlink,
    store_error,
    store_errors,
    write_atomically,
)
from evalspec.store.group_sync import GroupSync
from evalspec.store.inputs import INPUTS_NAME, bare_record, encode_inputs
from evalspec.store.log_records import encode_record, without_texts

STORE_VERSION = 1
DESCRIPTION_NAME = "run.json"
LOG_NAME = "samples.jsonl"
REPORT_NAME = "report.json"
BASELINE_NAME = "baseline.json"
LATEST_NAME = "latest"

Redactor = Callable[[Any], Any]
"""Takes a JSON value, gives it back without secrets (References.redact_data)."""

_OWN_WORDS = frozenset(
    {"kind", "dataset", "id", "status", "usage", "judgeUsage", "tags", "line", "qrels", "groups", "digest"}
)
"""What identifies a record, or is counted by us. It is never redacted: an environment variable that happens to hold
an ordinary word would make the log unreadable, and these come from the user's own files, not from the environment."""


class RunLog:
    """The open log of one run, to be closed after use (it is a context manager).

    Opening takes the lock of the folder and cuts off a line that a killed process left half written. For one thread.
    Without `texts` only what was measured is written.

    Raises:
        StoreError: the folder cannot be written, or another process is writing this run.
    """

    def __init__(self, folder: Path, *, redact: Redactor, texts: bool = True) -> None:
        self.folder = folder
        self._redact = redact
        self._texts = texts
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

    def write_description(self, fingerprint: Mapping[str, Any], outline: Any) -> None:
        """Write `run.json`: what is run, what it is held to, and the version of this layout.

        Raises:
            StoreError: it cannot be written.
        """
        described = {key: self._redact(value) for key, value in fingerprint.items()}
        document = {"storeVersion": STORE_VERSION, "fingerprint": described, "outline": outline}
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        write_atomically(self.folder / DESCRIPTION_NAME, text.encode())

    def write_inputs(self, records: Iterable[Mapping[str, Any]], metadata_kept: Collection[str]) -> None:
        """Write `inputs.jsonl`; `metadata_kept`: the keys that stay where texts are not kept.

        Raises:
            StoreError: it cannot be written.
        """
        kept = records if self._texts else (bare_record(record, metadata_kept) for record in records)
        write_atomically(self.folder / INPUTS_NAME, encode_inputs(self._redacted(record) for record in kept))

    def write_baseline(self, content: bytes) -> None:
        """Write `baseline.json`: what the run is held against, as it is now. It is in git and holds no secrets.

        Raises:
            StoreError: it cannot be written.
        """
        write_atomically(self.folder / BASELINE_NAME, content)

    def append(self, record: Mapping[str, Any]) -> None:
        """Give one record to the operating system; it survives a kill at once, a loss of power about a second later.

        Raises:
            StoreError: it cannot be written. What stands in the log is whole, and the log takes nothing more.
        """
        if self._sync.failure and not self._failure:
            self._failure = str(store_error(self._path, self._sync.failure))
        if self._failure:
            raise StoreError(self._failure)
        line = encode_record(self._redacted(record if self._texts else without_texts(record)))
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
        write_atomically(self.folder / REPORT_NAME, text.encode())
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

    def _redacted(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._redact_field(key, value) for key, value in record.items()}

    def _redact_field(self, key: str, value: Any) -> Any:
        if key in _OWN_WORDS:
            return value
        if key == "scores":
            return {metric: self._redacted(score) for metric, score in value.items()}
        return self._redact(value)

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
