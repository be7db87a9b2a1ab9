"""Batched fsync of a growing file on a separate thread.

A slow disk must not stall the event loop: the stall would be measured as latency of the agent.
"""

import os
import threading


class GroupSync:
    """A thread that syncs a descriptor after `records` writes or `seconds` after a write, whichever comes first.

    The writer calls `written` after each write. A failed sync is stored in `failure` and ends the thread. After a
    failure the system no longer knows which pages reached the disk, so a later success would prove nothing.
    """

    def __init__(self, descriptor: int, *, records: int = 64, seconds: float = 1.0) -> None:
        self._descriptor = descriptor
        self._records = records
        self._seconds = seconds
        self._pending = 0
        self._wake = threading.Event()
        self._stopping = False
        self.failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="evalspec-log-sync", daemon=True)
        self._thread.start()

    def written(self) -> None:
        """Count a record that was passed to the operating system."""
        self._pending += 1
        if self._pending >= self._records:
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
            self._wake.wait(self._seconds)
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
