"""An agent that evalspec starts: the manifest's command, in its own process group, which ends and is killed together.

POSIX has process groups for this. Windows has none that a signal reaches, so a stop is Ctrl-Break to the console group,
and a kill is taskkill for the process and its descendants.
"""

import asyncio
import atexit
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

import httpx

from evalspec.base.errors import AgentDown, ServiceError
from evalspec.base.text import one_line
from evalspec.base.trust import Act, require
from evalspec.targets.http.client import OutgoingRequest, encode_headers, open_client, send
from evalspec.targets.http.failures import ServiceNames, shown_url
from evalspec.targets.http.routes import choose_route
from evalspec.targets.tracing import unsampled_headers

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


_AGENT = ServiceNames("the agent", "api", place_key="url")
STOP_SECONDS = 5.0
_REST_OF_GROUP_SECONDS = 0.5
_POLL_SECONDS = 0.1
_PROBE_SECONDS = 2.0
_LEAST_NOT_READY = 500
_NOT_IMPLEMENTED = 501
"""The service does not support GET. Waiting cannot change that, unlike the 502 or 503 of a service that is starting."""
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 3
_LOG_TAIL_LENGTH = 300


def ready_url(base_url: str, ready_path: str | None) -> str:
    """Return the url that shows readiness: `readyPath` under the agent's url, or that url itself."""
    return f"{base_url.rstrip('/')}/{(ready_path or '').lstrip('/')}"


class AgentProcess:
    """The manifest's `command`. It is stopped with all its children by `stop()`, and when Python exits.

    `cwd`: the command's working folder. `ready_timeout`: seconds until it must answer. `log_path`: the file for its
    output; without one, the output is dropped. `environment`: variables that it gets beside those of this process.
    """

    def __init__(
        self,
        command: list[str],
        cwd: Path,
        ready_url: str,
        ready_timeout: float,
        log_path: Path | None,
        environment: Mapping[str, str] = {},
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._ready_url = ready_url
        self._ready_timeout = ready_timeout
        self._log_path = log_path
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._status: int | None = None

    async def start_if_needed(self) -> bool:
        """Start the command unless an agent already answers, and wait until it is ready. Return whether it was started.

        An agent is ready once it answers with an HTTP status below 500.

        Raises:
            AgentDown: the command cannot be started, exited, or was not ready in time and has been stopped.
            InvalidInput: the environment has an unusable proxy or unusable certificates.
            Refused: the project's commands are not trusted.
        """
        require(Act.START, self._shown)
        async with open_client({}, choose_route(self._ready_url)) as client:
            if await self._answers(client):
                return False
            atexit.register(self.stop)
            with ExitStack() as undo:
                undo.callback(self.stop)
                self._process = self._start()
                await self._wait_until_ready(client, self._process)
                undo.pop_all()
        return True

    def stop(self) -> None:
        """Ask the whole group to end, and kill it after STOP_SECONDS. Can be called repeatedly."""
        process = self._process
        if process is not None:
            end_group(process)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                kill_group(process)
                process.wait()
            _await_end_of_group(process)
        self._process = None
        atexit.unregister(self.stop)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self._environment}
        folders = [str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
        environment["PATH"] = os.pathsep.join(folders)
        try:
            with self._open_log() as log:
                return subprocess.Popen(
                    [_find_program(self._command[0], environment["PATH"]), *self._command[1:]],
                    cwd=self._cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    **NEW_GROUP,
                )
        except (OSError, ValueError) as error:
            detail = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
            raise AgentDown(f"the agent's command cannot be started: {self._shown}: {detail}") from error

    def _open_log(self) -> IO[bytes]:
        if self._log_path is None:
            return Path(os.devnull).open("wb")
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._log_path.touch(0o600)  # an agent's output may be confidential
        return self._log_path.open("ab")  # a drop is confirmed with a second process

    async def _wait_until_ready(self, client: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> None:
        deadline = monotonic() + self._ready_timeout
        while True:
            code = process.poll()
            if code is not None:
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
                raise AgentDown(self._explain(f"{how} before it was ready"))
            if await self._answers(client):
                return
            if self._status == _NOT_IMPLEMENTED:
                raise AgentDown(self._explain(f"will never be ready: {self._say_status()}"))
            if monotonic() > deadline:
                what = f"was not ready at {shown_url(self._ready_url)} after {self._ready_timeout:g} s"
                raise AgentDown(self._explain(what if self._status is None else f"{what}: {self._say_status()}"))
            await asyncio.sleep(_POLL_SECONDS)

    async def _answers(self, client: httpx.AsyncClient) -> bool:
        headers = encode_headers(unsampled_headers())
        probe = OutgoingRequest(self._ready_url, _PROBE_SECONDS, method="GET", headers=headers)
        try:
            async with send(client, probe, _AGENT) as response:
                self._status = response.status_code
                return self._status < _LEAST_NOT_READY
        except ServiceError as error:
            if error.fatal:
                raise AgentDown(str(error)) from error
            return False

    def _say_status(self) -> str:
        answered = f"GET {shown_url(self._ready_url)} answered {self._status}"
        return f"{answered}; evalspec waits for a status below {_LEAST_NOT_READY}; set readyPath to one that has it"

    @property
    def _shown(self) -> str:
        return f"`{shlex.join(self._command)}`"

    def _explain(self, what: str) -> str:
        message = f"the agent's command {self._shown} {what}"
        if self._log_path is None:
            return f"{message}; its output is not kept here, so run it yourself to see why"
        tail = _read_tail(self._log_path)
        said = f"its output: '{tail}'" if tail else "it had no output"
        return f"{message}; {said} (log: {self._log_path})"


def _await_end_of_group(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the rest of the group after the command has ended, then kill it."""
    deadline = monotonic() + _REST_OF_GROUP_SECONDS
    while is_group_alive(process):
        if monotonic() > deadline:
            kill_group(process)
            return
        sleep(_POLL_SECONDS / 2)


def _find_program(name: str, path: str) -> str:
    """Return the program of a name. Windows would search the PATH of this process, not that of the new one."""
    return (shutil.which(name, path=path) or name) if sys.platform == "win32" else name


def _read_tail(path: Path) -> str:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
        text = log.read().decode(errors="replace")
    lines = [line for line in map(one_line, text.splitlines()) if line]
    return " | ".join(lines[-_LOG_TAIL_LINES:])[-_LOG_TAIL_LENGTH:]
