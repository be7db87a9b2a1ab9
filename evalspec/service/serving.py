"""Start the server and its workers."""

import signal
import subprocess
import sys
import threading
from contextlib import suppress

import uvicorn
from sqlalchemy import Engine

from evalspec.service.app import create_app
from evalspec.service.database import migrate, open_database
from evalspec.service.evaluation_files import restore_evaluations
from evalspec.service.logs import configure_logs
from evalspec.service.settings import ServiceSettings
from evalspec.service.stores import register_stores
from evalspec.service.worker_process import encode_settings

_RESTART_SECONDS = 1.0
_STOP_SECONDS = 25.0


def prepare_database(settings: ServiceSettings, *, adopt: bool = False) -> Engine:
    """Return the migrated database of a server, which knows the stores of its projects.

    `adopt`: see register_stores; evaluations that the database does not know are added from their files.

    Raises:
        InvalidInput: The database is a later version's, or knows another store for a namespace.
        StoreError: The database does not answer, or a folder cannot be written.
    """
    engine = open_database(settings.database)
    migrate(engine)
    register_stores(engine, settings.projects.values(), adopt=adopt)
    for project in settings.projects.values() if adopt else ():
        restore_evaluations(engine, project)
    return engine


def serve(settings: ServiceSettings, engine: Engine) -> None:
    """Serve until the process is asked to end. Workers end with it, and their jobs return to the queue."""
    configure_logs()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn handles them, and raises them once more when it has stopped
    stop = threading.Event()
    keepers = [threading.Thread(target=_keep_worker, args=(settings, stop)) for _ in range(settings.workers)]
    for keeper in keepers:
        keeper.start()
    try:
        config = uvicorn.Config(
            create_app(settings, engine),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(_STOP_SECONDS),
        )
        uvicorn.Server(config).run()
    finally:
        stop.set()
        for keeper in keepers:
            keeper.join()


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
