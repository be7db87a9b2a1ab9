"""Workers: each claims one job at a time and executes it in a process of its own."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from logging import WARNING
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.service import jobs
from evalspec.service.database import DatabaseDown
from evalspec.service.isolation import adopt_orphans, close_folder, open_confined
from evalspec.service.job_calls import LONGEST_CALL, Call, CallHandler, JobCalls, JobEnd, answer
from evalspec.service.job_process import EXIT_LOST, EXIT_STOPPED, Assignment, explain_folder
from evalspec.service.jobs import Job, JobStatus, LeaseLost
from evalspec.service.kept_json import encode_line
from evalspec.service.lease_watch import LeaseWatch
from evalspec.service.logs import log_event
from evalspec.service.settings import Isolation, Project, ServiceSettings
from evalspec.service.stores import check_store

_AGAIN_SECONDS = 5.0


class ServedNamespaces:
    """The namespaces of a worker. Some may have to wait for their folders. `again`: seconds between looks."""

    def __init__(self, engine: Engine, settings: ServiceSettings, again: float = _AGAIN_SECONDS) -> None:
        self._engine = engine
        self._isolation = settings.isolation
        self._waiting = dict(settings.projects)
        self._served: list[str] = []
        self._reported: dict[str, str] = {}
        self._again = again
        self._next_look = 0.0

    def refresh(self) -> Collection[str]:
        """Return the namespaces to serve now. Each new reason why one is not served is logged once.

        Raises:
            InvalidInput: None is served, and a folder is not the store of its namespace.
            DatabaseDown: The database does not answer.
        """
        if self._waiting and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._again
            faults = [self._look(project) for project in list(self._waiting.values())]
            wrong = [fault for fault in faults if isinstance(fault, InvalidInput)]
            if wrong and not self._served:
                raise wrong[0]
        return self._served

    def _look(self, project: Project) -> InvalidInput | StoreError | None:
        """Serve a namespace, or return why it cannot be served."""
        try:
            check_store(self._engine, project)
            close_folder(self._isolation, project)  # before the code of others runs
        except DatabaseDown:
            raise
        except (InvalidInput, StoreError) as error:
            self._report(project.namespace, error)
            return error
        del self._waiting[project.namespace]
        self._served.append(project.namespace)
        if project.namespace in self._reported:
            log_event("a namespace is served again", namespace=project.namespace)
        return None

    def _report(self, namespace: str, error: InvalidInput | StoreError) -> None:
        if self._reported.get(namespace) != str(error):
            self._reported[namespace] = str(error)
            log_event("a namespace is not served", level=WARNING, namespace=namespace, error=str(error))


_PROCESS = "evalspec.service.job_process"
_CHECKS = threading.Semaphore(2)
"""How many checks are made at the same time."""
_CHECK_SECONDS = 60.0
_POLL_SECONDS = 0.5
_STOP_SECONDS = 20.0
_LEAST_SECONDS = 0.01
"""Time between two calls of a job, so that no job keeps the database busy."""


def work(engine: Engine, settings: ServiceSettings, stop: threading.Event) -> None:
    """Execute jobs until `stop` is set. A job that is running then is stopped and returns to the queue.

    Raises:
        InvalidInput: No project can be served, and the folder of one is not the store of its namespace.
        StoreError: The database does not answer at the start.
    """
    name = f"{socket.gethostname()}:{os.getpid()}"
    served = ServedNamespaces(engine, settings)
    served.refresh()
    if settings.isolation is Isolation.UID:
        adopt_orphans()
    watch = LeaseWatch(settings.lease_seconds)
    log_event("worker started", worker=name)
    failure = None
    while not stop.is_set():
        try:
            most_running = dict.fromkeys(served.refresh(), settings.limits.concurrent_runs)
            job = jobs.claim(engine, name, most_running, settings.lease_seconds, watch)
            failure = None
        except StoreError as error:
            if failure is None:  # once, until it works again
                log_event("claim failed", level=WARNING, error=str(error))
            job, failure = None, error
        if job is None:
            stop.wait(_POLL_SECONDS)
        else:
            _execute(engine, settings, job, stop)


def _execute(engine: Engine, settings: ServiceSettings, job: Job, stop: threading.Event) -> None:
    project = settings.projects[job.namespace]
    asked = _assign(settings, job)
    try:
        with open_confined(settings.isolation, project, _PROCESS, is_only=True) as process:
            desk = JobCalls(engine, job, settings.lease_seconds)
            attendant = threading.Thread(target=_attend, args=(process, desk, job), name="job", daemon=True)
            attendant.start()
            send_line(process, encode_line(asked))
            code = _wait(process, desk, stop)
        attendant.join(_STOP_SECONDS)
    except (OSError, StoreError) as error:  # the folder is gone, read-only or full: a worker has other projects too
        log_event("a job was not started", level=WARNING, job=job.id, error=str(error))
        cause = error if isinstance(error, OSError) else error.__cause__
        with suppress(StoreError, LeaseLost):  # the lease ends by itself
            jobs.finish(engine, job, JobStatus.FAILED, error=explain_folder(cause))
        return
    if code == EXIT_STOPPED:
        with suppress(StoreError):
            jobs.release(engine, job, stalled=False)
    elif code not in (0, EXIT_LOST):
        log_event("a job lost its process", level=WARNING, job=job.id, exit_code=code)
        with suppress(StoreError):  # the lease ends by itself
            jobs.release(engine, job, stalled=True)


def _assign(settings: ServiceSettings, job: Job) -> Assignment:
    project = settings.projects[job.namespace]
    own = replace(project, variables={}, is_limited=False)  # the environment of the process has no others
    return Assignment(job, own, settings.lease_seconds, project.limit(settings.trust), settings.is_confined)


def check_apart(settings: ServiceSettings, project: Project, kind: str, request: Mapping[str, Any]) -> Any:
    """Return the result of a check of a namespace, which is made as its jobs are: with its rights and restrictions.

    Raises:
        InvalidInput: The check has failed.
    """
    asked = {"kind": kind, "request": request}
    job = Job(jobs.create_id("check"), project.namespace, "check", asked, "", JobStatus.RUNNING, 0.0)
    outcome: JobEnd | None = None

    def note(call: Call) -> bool:
        nonlocal outcome
        outcome = call if isinstance(call, JobEnd) else outcome
        return False

    with _CHECKS, open_confined(settings.isolation, project, _PROCESS, is_only=False) as process:
        timer = threading.Timer(_CHECK_SECONDS, process.kill)
        timer.start()
        send_line(process, encode_line(_assign(settings, job)))
        _attend(process, note, job)
        timer.cancel()
    if outcome is None or outcome.error is not None:
        raise InvalidInput((outcome and outcome.error) or "the check of the manifest did not end")
    return outcome.result


def _attend(process: "subprocess.Popen[bytes]", desk: CallHandler, job: Job) -> None:
    """Answer the calls of a job's process. One that sends something else is killed."""
    if process.stdout is None:
        return
    try:
        with os.fdopen(os.dup(process.stdout.fileno()), "rb") as calls:
            while line := calls.readline(LONGEST_CALL):
                send_line(process, answer(desk, line))
                time.sleep(_LEAST_SECONDS)
    except Exception as error:  # whatever it sends must not end the worker
        log_event("a job sent what is no call", level=WARNING, job=job.id, error=type(error).__name__)
        process.kill()


def _wait(process: "subprocess.Popen[bytes]", desk: JobCalls, stop: threading.Event) -> int:
    """Return the exit code. When the worker stops, the job gets a moment to end in order.

    A process that neither renews its lease nor ends is killed: it hangs, or has lost or cancelled its job.
    """
    while process.poll() is None:
        if stop.is_set():
            return end(process, _STOP_SECONDS)
        if time.monotonic() > desk.deadline + _STOP_SECONDS:
            return end(process, 0)
        desk.cover_start()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    return process.returncode


def send_line(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    """Write a line to a worker or a job. Its input stays open: its end means that whoever started it is gone."""
    with suppress(OSError, ValueError):  # it has ended already, and its exit code shows why, or its input is closed
        if process.stdin is not None:
            process.stdin.write(line)
            process.stdin.flush()


def end(process: "subprocess.Popen[bytes]", seconds: float) -> int:
    """Ask a worker or a job to end in order, and kill it after some time. Return its exit code.

    Its input is closed for that: a signal would kill it on Windows.
    """
    with suppress(BrokenPipeError):  # it has ended
        if process.stdin is not None:
            process.stdin.close()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
