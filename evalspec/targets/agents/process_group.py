"""A process with everything that it starts: ended and killed together.

POSIX has process groups for this. Windows has none that a signal reaches, so a stop is Ctrl-Break to the console group,
and a kill is taskkill for the process and its descendants.
"""

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

if sys.platform == "win32":
    NEW_GROUP: Mapping[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    NEW_GROUP: Mapping[str, Any] = {"start_new_session": True}
"""Arguments of Popen that make the process the first of a group, which Ctrl-C in the terminal does not reach."""


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Ask a group to end. A process that ignores this continues."""
    if sys.platform == "win32":
        with suppress(OSError):  # it has ended, or there is no console
            process.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        _signal_group(process.pid, signal.SIGTERM)


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a group."""
    if sys.platform == "win32":
        quiet = subprocess.DEVNULL
        with suppress(OSError):  # a system without taskkill: the children stay
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], check=False, stdout=quiet, stderr=quiet)
        process.kill()
    else:
        _signal_group(process.pid, signal.SIGKILL)


def is_group_alive(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether the rest of a group is alive after its first process has ended. Unknown on Windows: False."""
    return sys.platform != "win32" and _signal_group(process.pid, 0)


if sys.platform != "win32":
    import os

    def _signal_group(group: int, number: int) -> bool:
        """Send a signal to a process group (0 only tests it), and return False if the group is gone."""
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
            return False
        return True
