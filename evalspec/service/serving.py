"""Start the server and its workers."""

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from types import FrameType

import uvicorn
from sqlalchemy import Engine

from evalspec.service.app import create_app
from evalspec.service.database import migrate, open_database
from evalspec.service.logs import configure_logs
from evalspec.service.run_index import RunIndex
from evalspec.service.settings import ServiceSettings
from evalspec.service.stores import register_stores
from evalspec.service.worker_process import encode_settings

_RESTART_SECONDS = 1.0
_STOP_SECONDS = 25.0


def prepare_database(settings: ServiceSettings, *, reindex: bool = False) -> Engine:
    """Return the migrated database of a server, which knows the stores of its projects.

    `reindex`: adopt folders that have moved (see register_stores), and rebuild the index of the runs.

    Raises:
        InvalidInput: The database is a later version's, or knows another store for a namespace.
        StoreError: The database does not answer, or a folder cannot be written.
    """
    engine = open_database(settings.database)
    migrate(engine)
    register_stores(engine, settings.projects.values(), adopt=reindex)
    if reindex:
        for project in settings.projects.values():
            RunIndex(engine, project).rebuild()
    return engine


def serve(settings: ServiceSettings, engine: Engine) -> None:
    """Serve until the process is asked to end. Workers end with it, and their jobs return to the queue."""
    configure_logs()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn handles them, and raises them again when it has stopped
    app, stop = create_app(settings, engine), threading.Event()
    keepers = [threading.Thread(target=_keep_worker, args=(settings, stop)) for _ in range(settings.workers)]
    for keeper in keepers:
        keeper.start()
    try:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(_STOP_SECONDS),
        )
        _Server(config, app.state.service.stopping).run()
    finally:
        stop.set()
        for keeper in keepers:
            keeper.join()


class _Server(uvicorn.Server):
    """A server that ends streams of events first: it waits for all other answers."""

    def __init__(self, config: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._stopping.set()
        super().handle_exit(sig, frame)


def _keep_worker(settings: ServiceSettings, stop: threading.Event) -> None:
    """Keep one worker process running."""
    while not stop.is_set():
        with subprocess.Popen(
            [sys.executable, "-m", "evalspec.service.worker_process"], stdin=subprocess.PIPE, start_new_session=True
        ) as process:
            with suppress(BrokenPipeError):  # it has ended already
                if process.stdin is not None:
                    process.stdin.write(encode_settings(settings))
                    process.stdin.flush()
            while process.poll() is None and not stop.wait(0.2):
                pass
            if stop.is_set() and process.poll() is None:
                _end(process)
        stop.wait(_RESTART_SECONDS)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
