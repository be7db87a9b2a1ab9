"""Who writes the indexes of samples: the request itself for small runs, another process for large ones."""

import json
import subprocess
import threading
from collections import deque
from contextlib import suppress
from logging import WARNING
from pathlib import Path

from evalspec.base.errors import StoreError
from evalspec.runs.store.derived import sign_run
from evalspec.runs.store.files import DiskFull
from evalspec.runs.store.locks import is_being_written
from evalspec.service.child_process import run_child
from evalspec.service.logs import log_event
from evalspec.service.problems import busy, conflict
from evalspec.service.sample_index import EXIT_FULL, FAILED, is_current, write_sample_index

SMALL = 2000
"""Number of samples up to which a run is indexed, compared and reported within a request."""


class SampleBuilds:
    """The indexes that are being written, one at a time. Safe to use from several threads."""

    def __init__(self) -> None:
        self._small = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: deque[Path] = deque()
        self._failed: dict[Path, tuple[str, str]] = {}
        self._full: dict[Path, str] = {}
        self._is_working = False

    def require(self, run: Path, samples: int) -> None:
        """Return if the index of a run is current. `samples`: how many the run has.

        Raises:
            ApiProblem: 409: The run is in progress or damaged. 503: Its index is being written.
            DiskFull: There is no space for its index.
        """
        if is_current(run):
            return
        if is_being_written(run):
            raise conflict("the run is in progress; its samples are available when it ends")
        if samples <= SMALL:
            self._write_now(run)
            return
        self._refuse_failed(run)
        self.request(run)
        full = self._full.pop(run, None)
        if full is not None:  # said once: meanwhile it is tried again
            raise DiskFull(full)
        raise busy("the index of the samples is being written; try again soon")

    def request(self, run: Path) -> None:
        """Write the index of a run soon, in another process."""
        with self._guard:
            if run not in self._waiting:
                self._waiting.append(run)
            if not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="sample indexes", daemon=True).start()

    def _write_now(self, run: Path) -> None:
        with self._small:
            try:
                if not is_current(run):
                    write_sample_index(run)
            except DiskFull:
                raise
            except StoreError as error:
                raise conflict(str(error)) from error

    def _work(self) -> None:
        while (run := self._next()) is not None:
            with suppress(StoreError):
                if not is_current(run):
                    self._build(run)
            with self._guard:
                self._waiting.remove(run)

    def _next(self) -> Path | None:
        """Return the run to index, which stays in the queue until its index is written. None ends the thread."""
        with self._guard:
            self._is_working = bool(self._waiting)
            return self._waiting[0] if self._waiting else None

    def _build(self, run: Path) -> None:
        signature = sign_run(run)
        done = run_child("evalspec.service.sample_index", str(run), stderr=subprocess.PIPE)
        if done.returncode != 0:
            log_event(FAILED, level=WARNING, run=run.name, exit_code=done.returncode)
            cause = _find_cause(done.stderr) or f"the index ended with {done.returncode}"
            if done.returncode == EXIT_FULL:
                self._full[run] = cause
            else:
                self._failed[run] = signature, cause

    def _refuse_failed(self, run: Path) -> None:
        signature, cause = self._failed.get(run, (None, ""))
        if signature == sign_run(run):
            raise conflict(cause)


def _find_cause(log: bytes) -> str | None:
    """Return the error in the log of a process that could not write an index."""
    for line in reversed(log.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "error" in found:
                return str(found["error"])
    return None
