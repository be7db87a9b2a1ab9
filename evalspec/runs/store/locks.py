"""The lock of a run: one process writes it at a time."""

from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.runs.store.files import store_errors

if TYPE_CHECKING:
    from filelock import FileLock

LOCK_NAME = ".lock"

_LOOK_SECONDS = 0.2
"""How long to wait for a lock: `is_being_written` of another process has it for a moment."""


def is_being_written(folder: Path) -> bool:
    """Return whether another process is writing a run. One that only looks, too, has the lock for a moment.

    Raises:
        StoreError: The lock file cannot be opened.
    """
    lock = acquire_lock(folder)
    if lock is not None:
        lock.release()
    return lock is None


def acquire_lock(folder: Path) -> "FileLock | None":
    """Return the lock of a run, which the caller releases; None: another process has it.

    Raises:
        StoreError: The lock file cannot be opened.
    """
    from filelock import FileLock, Timeout

    path = folder / LOCK_NAME
    lock = FileLock(path, thread_local=False)
    with store_errors(path):
        try:
            lock.acquire(timeout=_LOOK_SECONDS, poll_interval=_LOOK_SECONDS / 10)
        except Timeout:
            return None
    return lock
