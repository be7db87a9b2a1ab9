"""Agents that are started: real processes, in real process groups."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evalspec.base.errors import AgentDown
from evalspec.targets import process as process_module
from evalspec.targets.process import AgentProcess, ready_url
from servers.faulty_agent import FaultyAgent
from servers.ports import find_free_port

SERVER = """
    import http.server, signal, subprocess, sys
    port, status, stubborn = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "stubborn"
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", sleeper if stubborn else "import time; time.sleep(60)"])
    open("child.pid", "w").write(str(child.pid))
    print("python is", sys.executable, flush=True)
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            print("traceparent", self.headers["traceparent"], flush=True)
            self.send_response(status if self.path == "/health" else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()
        def log_message(self, *arguments):
            pass
    http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
Start = Callable[..., AgentProcess]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little time for what outlives its command; zombies count until the init process collects them."""
    monkeypatch.setattr(process_module, "_REST_OF_GROUP_SECONDS", 0.2)


@pytest.fixture
def url() -> str:
    """Where nothing listens."""
    return f"http://127.0.0.1:{find_free_port()}"


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Start]:
    """Makes an AgentProcess in a folder that holds the server above; all are stopped at the end."""
    (tmp_path / "server.py").write_text(textwrap.dedent(SERVER))
    made = []

    def make(*command: str, status: int = 200, stubborn: bool = False, timeout: float = 60.0) -> AgentProcess:
        port = url.rsplit(":", 1)[1]
        full = [*command] or ["python", "server.py", port, str(status), "stubborn" if stubborn else "mild"]
        made.append(AgentProcess(full, tmp_path, ready_url(url, "/health"), timeout, tmp_path / "logs" / "agent.log"))
        return made[-1]

    yield make
    for agent in made:
        agent.stop()


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and only not yet collected by its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()[:1] not in ("", "Z")


def died(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def grandchild(folder: Path) -> int:
    return int((folder / "child.pid").read_text())


def failure(agent: AgentProcess) -> str:
    with pytest.raises(AgentDown) as caught:
        asyncio.run(agent.start_if_needed())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("status", [200, 404])
def test_started_and_stopped_with_all_that_it_started(start, tmp_path, status):
    agent = start(status=status)
    assert asyncio.run(agent.start_if_needed()) is True
    child = grandchild(tmp_path)
    assert is_alive(child)
    agent.stop()
    assert died(child)
    agent.stop()
    logged = (tmp_path / "logs" / "agent.log").read_text()
    assert f"python is {sys.executable}" in logged
    assert re.search("traceparent 00-[0-9a-f]{32}-[0-9a-f]{16}-00\n", logged)


def test_what_ignores_sigterm_is_killed(start, tmp_path, monkeypatch):
    monkeypatch.setattr(process_module, "STOP_SECONDS", 0.3)
    agent = start(stubborn=True)
    asyncio.run(agent.start_if_needed())
    child = grandchild(tmp_path)
    started = time.monotonic()
    agent.stop()
    assert time.monotonic() - started < 30
    assert died(child)


def test_a_grandchild_that_outlives_the_command_is_killed(start, tmp_path):
    agent = start(stubborn=True)
    asyncio.run(agent.start_if_needed())
    os.kill(agent._process.pid, signal.SIGKILL)
    agent.stop()
    assert died(grandchild(tmp_path))


def test_nothing_is_started_where_something_answers(tmp_path):
    with FaultyAgent() as running:
        agent = AgentProcess(["touch", "started"], tmp_path, ready_url(running.url, None), 5.0, None)
        assert asyncio.run(agent.start_if_needed()) is False
        agent.stop()
        assert asyncio.run(agent.start_if_needed()) is False
    assert not (tmp_path / "started").exists()


def test_a_command_that_exits(start, tmp_path):
    said = failure(start("python", "-c", "import sys; print('one\\n\\ntwo'); sys.exit('no \\x1b[31mmodel')"))
    assert "exited with code 1 before it was ready; its output: 'one | two | no [31mmodel'" in said
    assert said.startswith("the agent's command `python -c ")
    assert f"(log: {tmp_path / 'logs' / 'agent.log'})" in said


def test_a_command_that_is_killed_and_one_that_says_nothing(start):
    said = failure(start("python", "-c", "import os; os.kill(os.getpid(), 9)"))
    assert "was killed by SIGKILL before it was ready; it had no output" in said


def test_a_command_that_is_never_ready_is_stopped(start, url, tmp_path, monkeypatch):
    agent = start(status=503, timeout=1.5)  # which are over as soon as it has answered
    monkeypatch.setattr(process_module, "monotonic", lambda: time.monotonic() + (1000 if agent._status else 0))
    said = failure(agent)
    assert f"was not ready at {url}/health after 1.5 s: GET {url}/health answered 503; evalspec waits" in said
    assert "set readyPath to one that has it; its output: '" in said and "traceparent 00-" in said
    assert died(grandchild(tmp_path))


def test_a_command_that_will_never_be_ready_is_not_waited_for(start, url):
    said = failure(start(status=501, timeout=600.0))
    assert f"will never be ready: GET {url}/health answered 501; evalspec waits for a status below 500; set" in said


@pytest.mark.parametrize("unusable", ["localhost:4000", "http://localhost:port"])
def test_a_url_that_cannot_be_used_starts_nothing(tmp_path, unusable):
    said = failure(AgentProcess(["touch", "started"], tmp_path, unusable, 60.0, None))
    assert said.startswith("the agent's url is not usable: ")
    assert not (tmp_path / "started").exists()


def test_a_command_that_does_not_exist(start, tmp_path):
    assert "cannot be started: no-such-program --x: No such file" in failure(start("no-such-program", "--x")).replace(
        "`", ""
    )


def test_python_exiting_stops_the_agent(start, tmp_path, url):
    start()
    script = f"""
        import asyncio, pathlib
        from evalspec.targets.process import AgentProcess
        command = ["python", "server.py", "{url.rsplit(":", 1)[1]}", "200", "mild"]
        agent = AgentProcess(command, pathlib.Path("."), "{url}/health", 60.0, None)
        asyncio.run(agent.start_if_needed())
        raise SystemExit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=False)
    assert done.returncode == 7
    assert died(grandchild(tmp_path))


@pytest.mark.parametrize(
    ("base", "path", "url_"),
    [
        ("http://h:1", "/health", "http://h:1/health"),
        ("http://h:1/", "health", "http://h:1/health"),
        ("http://h:1/api", "/health", "http://h:1/api/health"),
        ("http://h:1", None, "http://h:1/"),
    ],
)
def test_ready_url(base, path, url_):
    assert ready_url(base, path) == url_
