"""Start the server and its workers."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from logging import WARNING

import uvicorn
from sqlalchemy import Engine

from evalspec.service.app import create_app
from evalspec.service.connections import ServiceConnection
from evalspec.service.database import migrate, open_database
from evalspec.service.evaluation_files import restore_evaluations
from evalspec.service.logs import configure_logs, log_event
from evalspec.service.retention import enforce_retention
from evalspec.service.run_index import RunIndex
from evalspec.service.settings import ServiceSettings
from evalspec.service.stores import register_stores
from evalspec.service.worker_process import encode_settings
from evalspec.service.workers import end, send_line

_RESTART_SECONDS = 1.0
_LONGEST_PAUSE = 60.0
_HEALTHY_SECONDS = 30.0
_STOP_SECONDS = 25.0


def prepare_database(settings: ServiceSettings, *, reindex: bool = False) -> Engine:
    """Return the migrated database of a server, which knows the stores of its projects.

    `reindex`: adopt folders that have moved (see register_stores), rebuild the index of the runs, and add evaluations
    that the database does not know from their files.

    Raises:
        InvalidInput: The database is another version's, or knows another store for a namespace.
        StoreError: The database does not answer, or a folder cannot be written.
    """
    engine = open_database(settings.database)
    migrate(engine)
    register_stores(engine, settings.projects.values(), adopt=reindex)
    for project in settings.projects.values() if reindex else ():
        RunIndex(engine, project).rebuild()
        restore_evaluations(engine, project)
    return engine


def serve(settings: ServiceSettings, engine: Engine, sockets: list[socket.socket]) -> None:
    """Serve on listening sockets until the process is asked to end.

    Workers end with it, and their jobs return to the queue.
    """
    configure_logs()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn handles them, and raises them again when it has stopped
    stop = threading.Event()
    threads = [threading.Thread(target=keep_worker, args=(settings, stop)) for _ in range(settings.workers)]
    threads.append(threading.Thread(target=enforce_retention, args=(engine, settings, stop), name="retention"))
    for thread in threads:
        thread.start()
    try:
        build_server(settings, engine).run(sockets)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def build_server(settings: ServiceSettings, engine: Engine) -> uvicorn.Server:
    """Return the server of the application, without workers. It ends when its `should_exit` is set."""
    app = create_app(settings, engine)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application believes them, from the configured proxies only
        ws="none",
        http=ServiceConnection,
        timeout_graceful_shutdown=int(_STOP_SECONDS),
    )
    return _Server(config, app.state.service.stopping)


class _Server(uvicorn.Server):
    """A server that ends streams of events when it stops. They would keep it waiting otherwise."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting requests, and wait for those that are being answered."""
        self._stopping.set()
        await super().shutdown(sockets)


def keep_worker(settings: ServiceSettings, stop: threading.Event) -> None:
    """Keep one worker process running until `stop` is set. One that ends at once is restarted ever more slowly."""
    failures = 0
    while not stop.is_set():
        started = time.monotonic()
        code = _run_worker(settings, stop)
        if stop.is_set():
            return
        failures = 0 if time.monotonic() - started > _HEALTHY_SECONDS else failures + 1
        pause = min(_RESTART_SECONDS * 2 ** max(failures - 1, 0), _LONGEST_PAUSE)
        log_event("a worker ended", level=WARNING, exit_code=code, failures=failures, restart_seconds=pause)
        stop.wait(pause)


def _run_worker(settings: ServiceSettings, stop: threading.Event) -> int:
    """Run one worker process to its end, and return its exit code."""
    with subprocess.Popen(
        [sys.executable, "-m", "evalspec.service.worker_process"], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        send_line(process, encode_settings(settings))
        while process.poll() is None and not stop.wait(0.2):
            pass
        return end(process, _STOP_SECONDS)
