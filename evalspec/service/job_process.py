"""The process of one job: it executes the job and keeps its lease. `workers` starts it in the folder of the project.

Each job has a process of its own, so that namespaces share no imported modules and no working directory. It has no
access to the database: see `job_calls`.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from evalspec.api.evaluation import Evaluation, Progress, ProgressCallback, complete
from evalspec.api.loops import run_here
from evalspec.base.collector import growing
from evalspec.base.errors import EvalspecError, InvalidInput, StoreError
from evalspec.base.trust import Trust, limiting
from evalspec.model import Run
from evalspec.runs.runner.session import InputsChanged
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER
from evalspec.runs.store.run_log import seize
from evalspec.runs.store.run_store import refuse_linked_store
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.service.database import DatabaseDown
from evalspec.service.isolation import forbid_privileges
from evalspec.service.job_calls import CallHandler, Counts, JobEnd, RemoteCalls, Renewal, RunNote, WorkerGone
from evalspec.service.jobs import Job, JobStatus, LeaseLost
from evalspec.service.kept_json import decode_line
from evalspec.service.logs import configure_logs, log_exception
from evalspec.service.places import hide_folder
from evalspec.service.settings import Project

KINDS = {
    "evaluation": "evalspec.service.evaluations:run_evaluation",
    "run": "evalspec.service.run_jobs:run_manifest",
    "comparison": "evalspec.service.comparing:run_comparison",
    "dataset_check": "evalspec.service.dataset_checks:run_dataset_check",
    "comparison_page": "evalspec.service.comparing:run_comparison_page",
    "check": "evalspec.service.run_jobs:run_check",
}
"""The function that executes each kind of job. It takes the Work and returns the job's result."""

EXIT_LOST = 4
"""The lease was lost, or ends because the database does not answer: another worker continues the job."""
EXIT_STOPPED = 5
"""The worker is stopping: the job returns to the queue."""

_RENEWALS_PER_LEASE = 3
_LONGEST_PAUSE = 1.0
"""Seconds between renewals, at most: they store the progress, and notice that the job is cancelled."""

_Result = TypeVar("_Result")


_FIXES_OF_CHANGES = {
    "run": "undo the change and resume the run (POST /v1/runs/RUN/resume), or start a new run (POST /v1/runs)",
    "evaluation": "start the evaluation again",
}
"""What to do over the API if the inputs of a run have changed before another worker continued it, by kind of job."""


class Stopped(EvalspecError):
    """The job has to end. `reason`: CANCELLED, or that the worker stops or has lost its lease."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


STOPPING = "the worker stops"
LOST = "the lease is lost"


class Lease:
    """Renews the lease of a job from a thread, and stops the job when it is cancelled or the lease is lost.

    Raises:
        LeaseLost: Another worker has taken over the job.
    """

    def __init__(self, desk: CallHandler, seconds: float) -> None:
        self.desk = desk
        self._seconds = seconds
        self._progress: Counts | None = None
        self._stop: Callable[[], object] | None = None
        self._is_over = threading.Event()
        self._guard = threading.Lock()
        self._valid_until = 0.0
        self.reason: str | None = None
        self._renew()  # the start of the process has used up some of the lease
        threading.Thread(target=self._keep, name="lease", daemon=True).start()

    @property
    def progress(self) -> Counts | None:
        """The progress that was reported last, which may not be stored yet."""
        return self._progress

    def report(self, progress: Progress) -> None:
        """Store the progress with the next renewal. A process that was stopped for too long ends here."""
        self._progress = Counts(progress.total, progress.asked, progress.scored, progress.failed)
        if time.monotonic() > self._valid_until:
            self.end(LOST)

    def end(self, reason: str) -> None:
        """Stop the job for a reason. The first reason counts."""
        with self._guard:
            self.reason = self.reason or reason
            if self._stop is not None:
                self._stop()

    def refuse_ended(self) -> None:
        """Raise Stopped if the job has to end."""
        if self.reason is not None:
            raise Stopped(self.reason)

    def stop_with(self, stop: Callable[[], object] | None) -> None:
        """Set what stops the job from another thread."""
        with self._guard:
            self._stop = stop
            if stop is not None and self.reason is not None:
                stop()

    def close(self) -> None:
        """Renew no longer."""
        self._is_over.set()

    def _keep(self) -> None:
        while not self._is_over.wait(min(self._seconds / _RENEWALS_PER_LEASE, _LONGEST_PAUSE)):
            try:
                self._renew()
            except WorkerGone:
                return
            except LeaseLost:
                self.end(LOST)
                return
            except StoreError:  # the database may answer again before the lease ends
                if time.monotonic() > self._valid_until:
                    self.end(LOST)
                    return

    def _renew(self) -> None:
        started = time.monotonic()
        if self.desk(Renewal(self._progress)):
            self.end(JobStatus.CANCELLED)
        self._valid_until = started + self._seconds


class Work(Struct, frozen=True):
    """What the function of a job gets."""

    job: Job
    project: Project
    lease: Lease

    def find_run(self) -> StoredRun | None:
        """Return the run that this job has started or resumes. None: it has none yet."""
        if self.job.run_id is not None:
            return open_run(self.project.store.runs / self.job.run_id)
        folder = self.project.find_run_of(self.job.id)
        return None if folder is None else open_run(folder)

    def complete(self, prepare: Callable[[StoredRun | None], Evaluation]) -> Run:
        """Start the job's run, or take it over, and complete it. `prepare` gets the run to resume, or None.

        Raises:
            Stopped: The job has to end. The run can be resumed.
            EvalspecError: The run cannot be started or continued.
        """
        stored = self.find_run()
        if stored is not None and self.job.fence > 1:
            seize(stored.folder)  # an earlier worker of this job may be stopped, with the run open
        evaluation = prepare(stored)
        self.lease.refuse_ended()
        try:
            session = evaluation.begin()
        except InputsChanged as changed:
            fix = _FIXES_OF_CHANGES[self.job.kind]
            problems = [replace(problem, fix=problem.fix and fix) for problem in changed.problems]
            raise InvalidInput(problems) from changed
        try:
            self.lease.desk(RunNote(session.log.id))
            listener = ProgressCallback(evaluation.plan.total, self.lease.report)
            return run_here(lambda: self._stoppable(complete(session, listener)))
        finally:
            session.log.close()

    def compute(self, function: Callable[[], _Result]) -> _Result:
        """Return what a function computes that writes nothing. If the job has to end, the process ends at once.

        Raises:
            Stopped: The job has to end already.
        """
        self.lease.refuse_ended()
        self.lease.stop_with(self._leave)
        try:
            with growing():  # the process ends with this job
                return function()
        finally:
            self.lease.stop_with(None)

    def _leave(self) -> NoReturn:
        os._exit(_end(self, Stopped(self.lease.reason or LOST)))

    async def _stoppable(self, running: Any) -> Run:
        loop, task = asyncio.get_running_loop(), asyncio.create_task(running)

        def stop() -> None:
            with suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(task.cancel)

        self.lease.stop_with(stop)
        try:
            run: Run = await task
        except asyncio.CancelledError:
            self.lease.refuse_ended()
            raise
        finally:
            self.lease.stop_with(None)
        return run


def run_job(work: Work) -> int:
    """Execute a job, store its outcome, and return the exit code of the process."""
    module, _, name = KINDS[work.job.kind].partition(":")
    try:
        work.lease.refuse_ended()
        refuse_linked_store()
        result = getattr(import_module(module), name)(work)
        work.lease.desk(JobEnd(JobStatus.COMPLETED, result, progress=work.lease.progress))
    except (Stopped, LeaseLost) as ended:
        return _end(work, ended)
    except WorkerGone:
        return EXIT_STOPPED
    except DatabaseDown:  # not the fault of the job: another worker continues it when the lease has ended
        return EXIT_LOST
    except EvalspecError as error:
        return _fail(work, str(error))
    except Exception as error:  # a fault of evalspec or of the project's own code: trying again would not help
        log_exception("the job failed", job=work.job.id)
        return _fail(work, f"internal error: {type(error).__name__}; the log of the job has the details")
    return 0


def _end(work: Work, ended: Stopped | LeaseLost) -> int:
    if isinstance(ended, LeaseLost) or ended.reason == LOST:
        return EXIT_LOST
    if ended.reason == STOPPING:
        return EXIT_STOPPED
    with suppress(LeaseLost, DatabaseDown, WorkerGone):
        work.lease.desk(JobEnd(JobStatus.CANCELLED, progress=work.lease.progress))
    return 0


def _fail(work: Work, error: str) -> int:
    try:
        shown = hide_folder(error, work.project.folder)
        work.lease.desk(JobEnd(JobStatus.FAILED, error=shown, progress=work.lease.progress))
    except (LeaseLost, DatabaseDown):
        return EXIT_LOST
    except WorkerGone:
        return EXIT_STOPPED
    return 0


class Assignment(Struct, frozen=True):
    """What a process has to do. `trust`: what the project may do. `is_confined`: its code is kept from other code."""

    job: Job
    project: Project
    lease_seconds: float
    trust: Trust
    is_confined: bool


def main() -> NoReturn:
    """Execute the job that the first line of standard input describes. Its end means that the worker has ended."""
    configure_logs()
    desk = RemoteCalls()
    asked = decode_line(desk.read_line(), Assignment)
    is_ending = threading.Event()
    desk.listen(is_ending.set)
    try:
        lease = Lease(desk, asked.lease_seconds)
    except (LeaseLost, DatabaseDown):
        os._exit(EXIT_LOST)
    except WorkerGone:
        os._exit(EXIT_STOPPED)

    def end_when_asked() -> None:
        is_ending.wait()
        lease.end(STOPPING)

    threading.Thread(target=end_when_asked, name="end", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_ending.set())
    code = _run_assigned(Work(asked.job, asked.project, lease), asked)
    lease.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of user code must not keep the process alive


def _run_assigned(work: Work, asked: Assignment) -> int:
    """Execute the job under its restrictions. What it prints is in the project's log of the job."""
    log = work.project.find_log(work.job.id)
    if asked.is_confined:
        forbid_privileges()
    try:
        log.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    except OSError as error:  # the folder is gone, read-only or full
        return _fail(work, explain_folder(error))
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    with limiting(asked.trust):
        code = run_job(work)
    if os.fstat(descriptor).st_size == 0:
        log.unlink(missing_ok=True)
    return code


def explain_folder(error: BaseException | None) -> str:
    """Return why a job was not started, and what to do."""
    cause = getattr(error, "strerror", None) or "it cannot be written"
    return f"the worker cannot use the project's folder: {cause}. start the job again when it can"


if __name__ == "__main__":
    main()
