"""What the process of a job may store about it: the process asks, and its worker, which has the database, answers.

Each call is one line of JSON on the process's standard output, and each answer one line on its standard input. The
code of the project can send whatever it likes, so a call concerns only the job that the worker claimed.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Engine

from evalspec.base.errors import EvalspecError
from evalspec.base.foreign_text import visible
from evalspec.model.base import built
from evalspec.runs.store.run_store import is_run_name
from evalspec.service import jobs
from evalspec.service.database import DatabaseDown
from evalspec.service.jobs import OPEN, Job, JobStatus, LeaseLost

LONGEST_CALL = 64 * 1024**2
"""Bytes of a line. The results of comparisons are the longest."""
_LONGEST_ERROR = 10_000
_START_SECONDS = 60.0


class Counts(Struct, frozen=True):
    """The progress of a job, in attempts."""

    total: int
    queried: int
    scored: int
    failed: int


class Renewal(Struct, frozen=True, tag=True):
    """Extend the lease, and store the progress. The answer says whether the job is cancelled."""

    progress: Counts | None = None


class RunNote(Struct, frozen=True, tag=True):
    """Store which run the job writes."""

    run_id: str


class JobEnd(Struct, frozen=True, tag=True):
    """End the job. `progress`: None: as it was stored last."""

    status: JobStatus
    result: dict[str, Any] | None = None
    error: str | None = None
    progress: Counts | None = None


Call = Renewal | RunNote | JobEnd
CallHandler = Callable[[Call], bool]
"""Stores what a call says, and returns whether the job is cancelled.

Raises LeaseLost if another worker has the job, and DatabaseDown.
"""


class _Answer(Struct, frozen=True):
    is_cancelled: bool = False
    failure: Literal["lost", "down"] | None = None


class WorkerGone(EvalspecError):
    """The worker has ended, or wants the job to end."""


class JobCalls:
    """Stores the calls of one claimed job, in the process with the database. `deadline`: the end of the lease here."""

    def __init__(self, engine: Engine, job: Job, lease_seconds: float) -> None:
        self._engine = engine
        self._job = job
        self._seconds = lease_seconds
        self._is_cancelled = False
        self._has_started = False
        self._started = time.monotonic()
        self.deadline = self._started + lease_seconds

    def cover_start(self) -> None:
        """Renew the lease for a process that may still be starting, before it has sent its first call."""
        now = time.monotonic()
        is_starting = not self._has_started and now < self._started + _START_SECONDS
        if is_starting and now > self.deadline - self._seconds * 2 / 3:
            with suppress(LeaseLost, DatabaseDown):
                self._renew(None)

    def __call__(self, call: Call) -> bool:
        """Store what a call says. See CallHandler."""
        self._has_started = True
        if isinstance(call, Renewal):
            self._renew(call.progress)
        elif isinstance(call, RunNote):
            self._note_run(call.run_id)
        else:
            self._finish(call)
        return self._is_cancelled

    def _renew(self, progress: Counts | None) -> None:
        started = time.monotonic()
        counts = None if progress is None else asdict(progress)
        self._is_cancelled = jobs.renew(self._engine, self._job, self._seconds, counts)
        if not self._is_cancelled:  # a job that does not end then is killed
            self.deadline = started + self._seconds

    def _note_run(self, run_id: str) -> None:
        """Store the run, which has to be one that this job may write: the server finds its files by this name."""
        is_own = is_run_name(run_id) and run_id.endswith(f"Z-{self._job.short_id}")
        if run_id != self._job.run_id and not is_own:
            raise ValueError("not the name of a run of this job")
        jobs.note_run(self._engine, self._job, run_id)

    def _finish(self, call: JobEnd) -> None:
        if call.status in OPEN:
            raise ValueError("not the end of a job")
        error = None if call.error is None else visible(call.error[:_LONGEST_ERROR])
        counts = None if call.progress is None else asdict(call.progress)
        jobs.finish(self._engine, self._job, call.status, result=call.result, error=error, progress=counts)


def answer(desk: CallHandler, line: bytes) -> bytes:
    """Return the answer to a line that a process has sent.

    Raises:
        ValueError: It is no call.
    """
    try:
        call: Call = msgspec.json.decode(line, type=built(Call))  # type: ignore[arg-type]
        given = _Answer(desk(call))
    except LeaseLost:
        given = _Answer(failure="lost")
    except DatabaseDown:  # its message is for operators
        given = _Answer(failure="down")
    return msgspec.json.encode(given) + b"\n"


class RemoteCalls:
    """Sends the calls of a job from its own process to the worker."""

    def __init__(self) -> None:
        """Take over standard input and output, before other code can use them."""
        self._input = os.fdopen(os.dup(0), "rb")  # unlike sys.stdin, it needs no lock at exit
        self._calls = os.fdopen(os.dup(1), "wb")
        self._answers = SimpleQueue[bytes]()
        self._guard = threading.Lock()

    def read_line(self) -> bytes:
        """Return the first line that the worker sends."""
        return self._input.readline()

    def listen(self, at_end: Callable[[], object]) -> None:
        """Receive answers from now on. `at_end` is called when the worker wants the job to end, or has ended."""

        def receive() -> None:
            for line in self._input:
                self._answers.put(line)
            self._answers.put(b"")
            at_end()

        threading.Thread(target=receive, name="worker", daemon=True).start()

    def __call__(self, call: Call) -> bool:
        """Send a call, and return whether the job is cancelled.

        Raises:
            LeaseLost: Another worker has taken over the job.
            DatabaseDown: The database does not answer.
            WorkerGone: There is no answer.
        """
        with self._guard:
            try:
                self._calls.write(msgspec.json.encode(call) + b"\n")
                self._calls.flush()
            except OSError:
                raise WorkerGone("the worker is gone") from None
            line = self._answers.get()
            if not line:
                self._answers.put(line)  # for the next call
                raise WorkerGone("the worker is gone")
        given = msgspec.json.decode(line, type=built(_Answer))
        if given.failure == "lost":
            raise LeaseLost("the job was taken over by another worker")
        if given.failure == "down":
            raise DatabaseDown("the database does not answer")
        return given.is_cancelled
