"""`evalspec serve` as a process of its own, and projects for it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from sqlalchemy import Engine, select

from evalspec.service.database import open_database, reading
from evalspec.service.settings import ServiceSettings
from evalspec.service.tables import JOBS, PROJECTS
from evalspec.service.tokens import Scope, create_token
from servers.ports import find_free_port

GENEROUS_SECONDS = 300


def write_project(folder: Path, agent_url: str = "http://127.0.0.1:9", samples: int = 6, **evaluation: Any) -> Path:
    """A project with a dataset of questions whose answer is Paris."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": f"s{i}", "input": f"question {i}", "expected": "Paris"}) for i in range(samples)]
    (folder / "qa.jsonl").write_text("".join(f"{line}\n" for line in lines))
    dataset = {"name": "qa", "path": "$file:qa.jsonl", "metrics": ["exact_match", "latency_p95", "error_rate"]}
    api = {"url": agent_url, "chatEndpoint": {"maxRetries": 0}}
    manifest = {
        "apiVersion": "agentspec.io/v1",
        "kind": "AgentSpec",
        "metadata": {"name": "bot"},
        "spec": {"api": api, "evaluation": {"datasets": [dataset], **evaluation}},
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))
    return folder


def wait_for(condition: Callable[[], Any], seconds: float = GENEROUS_SECONDS) -> Any:
    """What a condition returns as soon as it is true."""
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.05)
    return found


def wait_for_alerts(engine: Engine, namespace: str = "shop") -> None:
    """Return when a server has stored the states of branches. What changes later is an alert.

    Each look opens a new transaction: one of SQLite does not see what is stored after it began.
    """

    def has_looked() -> bool:
        with reading(engine) as connection:
            found = connection.execute(select(PROJECTS.c.alerts).where(PROJECTS.c.namespace == namespace))
            return found.scalar_one_or_none() is not None

    wait_for(has_looked)


class Served:
    """A server at `url` with its clients. `database` is that of the server."""

    url: str
    database: str

    def token(self, *scopes: str, user: str = "ana@example.com", namespaces: Sequence[str] = ("shop",)) -> str:
        engine = open_database(self.database)
        try:
            return create_token(engine, user, [Scope(scope) for scope in scopes], list(namespaces), 3600)
        finally:
            engine.dispose()

    def client(self, *scopes: str, **who: Any) -> httpx.Client:
        token = self.token(*(scopes or ("admin",)), **who)
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


class Server(Served):
    """`evalspec serve` as a process of its own, with clients of it."""

    process: subprocess.Popen[bytes]

    def __init__(self, projects: Mapping[str, Path], database: str, log: Path, *arguments: str, **process: Any) -> None:
        self.port, self.process_options = find_free_port(), process
        self.python = str(process.pop("python", sys.executable))
        self.url = f"http://127.0.0.1:{self.port}"
        self.projects, self.database, self.log, self.arguments = projects, database, log, arguments

    def start(self, **variables: str) -> "Server":
        given = [part for name, folder in self.projects.items() for part in ("--project", f"{name}={folder}")]
        command = [self.python, "-m", "evalspec", "serve", "--port", str(self.port), *given, *self.arguments]
        environment = {"EVALSPEC_ISOLATION": "off", **os.environ, "EVALSPEC_DATABASE": self.database}
        environment |= {"EVALSPEC_REQUESTS_A_MINUTE": "100000", **variables}
        with self.log.open("ab") as log:
            self._begun = log.tell()
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment, **self.process_options)
        wait_for(self.answers)
        return self

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        if b"serving " not in self.log.read_bytes()[self._begun :]:  # until then another server could answer there
            return False
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(GENEROUS_SECONDS)


class LocalServer(Served):
    """The server of `evalspec serve` in a thread of this process, which starts at once. It has no workers."""

    def __init__(self, settings: ServiceSettings, engine: Engine) -> None:
        self.database = settings.database
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        from evalspec.service.serving import build_server  # the application is slow to import, and few tests need it

        self._server = build_server(settings, engine)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> "LocalServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(GENEROUS_SECONDS)
        assert not self._thread.is_alive(), "the server does not end"


def processes_of(server: Server, name: str) -> list[int]:
    """The server's own processes with this in their command line: itself, workers, jobs."""
    shown = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in shown.splitlines()[1:]]
    family = {server.process.pid}
    for _ in range(3):
        family |= {int(pid) for pid, parent, _ in rows if int(parent) in family}
    return [int(pid) for pid, _, args in rows if int(pid) in family and name in args]


def count_takeovers(server: Server) -> int:
    """How often a job of the server was claimed after another worker had it."""
    engine = open_database(server.database)
    with reading(engine) as connection:
        fences = connection.execute(select(JOBS.c.fence)).scalars().all()
    engine.dispose()
    return sum(fence - 1 for fence in fences)
