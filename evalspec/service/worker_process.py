"""The process of one worker. `evalspec serve` starts it, and its standard input ends with the server."""

import signal
import sys
import threading
from logging import ERROR

from evalspec.base.errors import EvalspecError
from evalspec.service.child_process import wait_for_end_of_input
from evalspec.service.database import open_database
from evalspec.service.kept_json import decode_line
from evalspec.service.logs import configure_logs, log_event
from evalspec.service.settings import ServiceSettings
from evalspec.service.workers import work


def run_worker(settings: ServiceSettings, stop: threading.Event) -> None:
    """Execute jobs until `stop` is set or the process is asked to end.

    Raises:
        InvalidInput: No project can be served, and the folder of one is not the store of its namespace.
        StoreError: The database does not answer.
    """
    configure_logs()
    engine = open_database(settings.database)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    work(engine, settings, stop)


def main() -> int:
    """Execute jobs with the settings on standard input, until it ends."""
    settings, stop = decode_line(sys.stdin.buffer.readline(), ServiceSettings), threading.Event()

    def wait_for_end() -> None:
        wait_for_end_of_input()
        stop.set()

    threading.Thread(target=wait_for_end, name="input", daemon=True).start()
    try:
        run_worker(settings, stop)
    except EvalspecError as error:
        log_event("worker ended", level=ERROR, error=str(error))
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
