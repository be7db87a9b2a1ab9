"""Crash-safe writes of the files of a run, syncs of a growing one, and one-line messages for system errors."""

import errno
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from evalspec.base.errors import StoreError
from evalspec.base.output_files import replace_file

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_CHUNK = 65_536
_RECORDS_A_SYNC, _SECONDS_A_SYNC = 64, 1.0
_LONGEST_TARGET = 4096
"""Bytes of the target of a link."""
_ELSEWHERE = "make it writable for this user, or run in another folder"
_FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your disk quota",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
}
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that freed space ends."""


class DiskFull(StoreError):
    """There is no space left for a file. The same works again when there is."""


def store_error(path: Path, error: OSError) -> StoreError:
    """Return a one-line error: the file, the system's message, and a fix."""
    fix = _FIXES.get(error.errno or 0, "check the path")
    kind = DiskFull if error.errno in FULL else StoreError
    return kind(f"{path}: {error.strerror or error}. {fix}; everything stored so far is kept")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert every OSError in the block to a StoreError about `path`."""
    try:
        yield
    except OSError as error:
        raise store_error(path, error) from error


def write_atomically(path: Path, parts: Iterable[bytes]) -> None:
    """Replace a file of a run with the concatenated parts.

    The caller holds the run's lock, so no other process uses the temporary name.

    Raises:
        StoreError: The file cannot be written. The old file, if any, is unchanged.
    """
    with store_errors(path):
        replace_file(path, parts, temporary=path.with_name(f".{path.name}.tmp"), mode=PRIVATE_FILE)


def replace_link(link: Path, target: str) -> None:
    """Point `link` at `target`, relative to the link's folder. The link exists at every moment.

    It is a symbolic link, and on Windows, where those need a privilege and cannot be replaced in one step, a text file
    with the target.

    Raises:
        StoreError: The link cannot be created. An existing link is unchanged.
    """
    temporary = link.with_name(f".{link.name}-{Path(target).name}")
    with store_errors(link):
        temporary.unlink(missing_ok=True)
        if sys.platform == "win32":
            temporary.write_text(Path(target).as_posix(), encoding="utf-8")
        else:
            temporary.symlink_to(target)
        temporary.replace(link)


def read_link(link: Path) -> Path | None:
    """Return the target of a link that `replace_link` made, or None if the path is something else.

    Raises:
        OSError: The link cannot be read.
    """
    if link.is_symlink():
        return link.readlink()
    if sys.platform == "win32" and link.is_file() and link.stat().st_size <= _LONGEST_TARGET:
        return Path(link.read_text(encoding="utf-8", errors="replace"))
    return None


def read_last_line(file: BinaryIO) -> bytes:
    """Return the last line of a file that ends with a newline. Empty for an empty file."""
    end = start = file.seek(0, os.SEEK_END)
    tail = b""
    while start and tail.count(b"\n") < 2:
        start = max(0, start - _CHUNK)
        file.seek(start)
        tail = file.read(end - start)
    return tail.splitlines(keepends=True)[-1] if tail else b""


def cut_torn_line(file: BinaryIO) -> None:
    """Truncate a log after its last newline. A line is valid only with its newline."""
    end = whole = file.seek(0, os.SEEK_END)
    while whole:
        start = max(0, whole - _CHUNK)
        file.seek(start)
        newline = file.read(whole - start).rfind(b"\n")
        if newline >= 0:
            whole = start + newline + 1
            break
        whole = start
    if whole != end:
        file.truncate(whole)


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


class GroupSync:
    """A thread that syncs a growing file after 64 records or a second, whichever comes first.

    A slow disk must not stall the event loop: the stall would be measured as latency of the agent.

    The writer calls `written` after each write. A failed sync is stored in `failure` and ends the thread. After a
    failure the system no longer knows which pages reached the disk, so a later success would prove nothing.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._pending = descriptor, 0
        self._wake = threading.Event()
        self._stopping = False
        self.failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="evalspec-log-sync", daemon=True)
        self._thread.start()

    def written(self, records: int) -> None:
        """Count records that were passed to the operating system."""
        self._pending += records
        if self._pending >= _RECORDS_A_SYNC:
            self._wake.set()

    def close(self) -> None:
        """Stop the thread and sync the remaining writes.

        Raises:
            OSError: This sync or an earlier one failed.
        """
        self._stopping = True
        self._wake.set()
        self._thread.join()
        if self.failure:
            raise self.failure
        os.fsync(self._descriptor)

    def _run(self) -> None:
        while True:
            self._wake.wait(_SECONDS_A_SYNC)
            self._wake.clear()
            if self._stopping:
                return
            if not self._pending:
                continue
            # No lock: the count is reset before the sync, so a concurrent write is synced now or next time.
            self._pending = 0
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self.failure = error
                return
