"""Processes that end with the process that started them, even if that is killed: their standard input ends with it.

    python -m evalspec.service.child_process MODULE [ARGUMENT]...

executes a module as `python -m MODULE` does, until its standard input ends.
"""

import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path


def run_child(
    module: str,
    *arguments: str,
    cwd: Path | None = None,
    stderr: int = subprocess.DEVNULL,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Execute a module in another process, and wait for its end. `stderr`, `timeout` in seconds: as subprocess.run.

    The working directory is not searched for modules: those of a project must not replace any.

    Raises:
        subprocess.TimeoutExpired: It takes longer than `timeout`.
    """
    command, no = [sys.executable, "-P", "-m", __name__, module, *arguments], subprocess.DEVNULL
    reading, writing = os.pipe()
    try:
        return subprocess.run(command, check=False, cwd=cwd, stdin=reading, stdout=no, stderr=stderr, timeout=timeout)
    finally:
        os.close(reading)
        os.close(writing)


def wait_for_end_of_input() -> None:
    """Wait until the other end of standard input is closed. Unlike sys.stdin, the descriptor needs no lock at exit."""
    while os.read(0, 1024):
        pass


def _end_with_input() -> None:
    wait_for_end_of_input()
    os._exit(1)


def main() -> None:
    """Execute the module in the first argument with the other arguments."""
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
