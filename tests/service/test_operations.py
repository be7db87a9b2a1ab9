"""Health, metrics, the check before a start, stops, and dead workers."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.responses import StreamingResponse
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from evalspec.service import connections, guard, jobs, reports_api, sample_builds, serving
from evalspec.service.app import create_app
from evalspec.service.child_process import run_child
from evalspec.service.database import open_database, writing
from evalspec.service.settings import ServiceLimits, ServiceSettings, parse_projects
from evalspec.service.tokens import Scope, create_token
from servers.ports import find_free_port
from servers.service import processes_of, wait_for, write_project


def test_ready_is_a_server_whose_database_and_folders_answer(client, engine, settings):
    assert client.get("/readyz").json() == {"status": "ready", "database": "ok", "projects": "ok"}
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    stale = client.get("/readyz")
    assert (stale.status_code, stale.json()["database"]) == (503, "its tables are of another version of evalspec")
    shutil.rmtree(settings.projects["docs"].folder)
    lost = client.get("/readyz").json()
    assert lost["projects"] == "a project is gone, or cannot be read"
    assert "docs" not in str(lost)
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_database_that_is_gone(client, settings, engine):
    wait_for(
        lambda: not [one for one in threading.enumerate() if one.name == "index"]
    )  # a connection that is in use stays open
    if engine.dialect.name == "sqlite":
        path = settings.database.removeprefix("sqlite:///")
        shutil.move(path, f"{path}.away")
        (settings.projects["shop"].folder.parent / "service.db").mkdir()
    else:
        engine.dispose()
        engine.pool._creator = lambda *_: (_ for _ in ()).throw(__import__("psycopg").OperationalError("refused"))
    assert client.get("/readyz").json()["database"] == "no answer"
    answer = client.get("/v1/jobs/x")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["detail"] == "the database does not answer; try again soon"
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_server_lives_while_another_process_locks_its_database(serve, engine):
    server = serve()
    sent = {"Authorization": f"Bearer {server.token('admin')}"}
    with ThreadPoolExecutor(60) as threads:
        with writing(engine):
            post = partial(httpx.post, f"{server.url}/v1/runs", headers=sent, json={}, timeout=90)
            asked = [threads.submit(post) for _ in range(60)]
            wait_for(lambda: sum("AnyIO" in one.name for one in threading.enumerate()) >= 40)
            assert httpx.get(f"{server.url}/healthz", timeout=60).json() == {"status": "ok"}
        assert {one.result().status_code for one in asked} == {202}


def test_metrics_count_requests_and_jobs(client, engine):
    for _ in range(3):
        client.get("/v1/jobs/run_1")
    client.request("BREW", "/v1/jobs/run_1")
    for namespace in ("shop", "docs", "docs"):
        jobs.enqueue(engine, namespace, "run", {}, "a", id=jobs.create_id("run"), calls=1, limits=ServiceLimits())
    jobs.claim(engine, "w", {"shop": 1}, 60)
    token = create_token(engine, "prometheus", [Scope.READ], None, 60)
    text = client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["evalspec_requests_total", "GET", "/v1/jobs/{job_id}", "404"] == 3
    assert found["evalspec_request_seconds_count", "GET", "/v1/jobs/{job_id}"] == 3
    assert found["evalspec_requests_total", "other", "/v1/jobs/{job_id}", "405"] == 1
    assert found["evalspec_jobs", "shop", "running"] == 1
    assert found["evalspec_jobs", "docs", "pending"] == 2
    assert found["evalspec_workers_busy",] == 1
    assert found["evalspec_queue_seconds",] >= 0


def check(*arguments):
    command = [sys.executable, "-m", "evalspec", "serve", "--check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_a_check_before_the_start_changes_nothing(projects, database, tmp_path, settings):
    given = [part for name, folder in projects.items() for part in ("--project", f"{name}={folder}")]
    port = str(find_free_port())
    code, out, _ = check("--database", database, "--port", port, *given)
    assert code == 0
    assert out[1:] == [f"port: 127.0.0.1:{port} is free", *(f"project {n}: agent.yaml is valid" for n in projects)]
    assert not (tmp_path / "service.db").exists()
    assert not (projects["shop"] / ".evalspec").exists()
    (projects["shop"] / "agent.yaml").write_text("kind: [")
    engine = open_database(database)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('9999')")
    engine.dispose()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, out, error = check("--database", database, "--port", port, *given)
    assert (code, out) == (2, [])
    assert "revision 9999" in error[0]
    assert f"cannot listen on 127.0.0.1:{port}" in error[1]
    assert "agent.yaml" in error[2]
    assert len(error) == 3


def test_an_unreachable_database_and_a_bad_proxy_are_one_line_each(tmp_path):
    code, _, error = check("--database", "postgresql://u:secret@127.0.0.1:9/x", "--project", f"a={tmp_path}")
    assert (code, len(error)) == (2, 1)
    assert "the database does not answer" in error[0]
    assert "secret" not in error[0]
    code, _, error = check("--trusted-proxy", "proxy.internal", "--project", f"a={tmp_path}")
    assert (code, len(error)) == (2, 1)
    assert "--trusted-proxy: 'proxy.internal' is not an address. write an address or a network" in error[0]


@pytest.mark.parametrize(
    ("url", "said"),
    [("postgresql://u:secret@127.0.0.1:port/x", "the URL cannot be read"),
     ("postgresql://u:secret@127.0.0.1/x?nonsense=1", 'invalid connection option "nonsense"'),
     ("sqlite:///{folder}/agent.yaml", "the database does not answer: file is not a database")],
)  # fmt: skip
def test_what_is_not_a_database_is_one_line(tmp_path, url, said):
    (tmp_path / "agent.yaml").write_text("kind: AgentSpec\n" * 200)
    code, _, error = check("--database", url.format(folder=tmp_path), "--project", f"a={tmp_path / '..'}")
    assert (code, len(error)) == (2, 1)
    assert said in error[0]
    assert "secret" not in error[0]


def test_the_end_of_an_answer_does_not_wait_for_the_client_to_confirm_its_beginning(settings):
    (listening,) = connections.listen(replace(settings, host="127.0.0.1", port=0))
    with listening, socket.create_connection(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_ends_the_start_before_a_link_is_shown_or_a_job_runs(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "evalspec", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert f"--port: cannot listen on 127.0.0.1:{port}: Address already in use. choose another" in done.stderr
    assert "login" not in done.stderr


def test_a_project_whose_folder_is_gone_is_not_empty_and_stops_no_other_project(server, projects):
    started = server()
    shop, docs = started.client(namespaces=("shop",)), started.client(namespaces=("docs",))
    wait_for(lambda: "worker started" in started.log.read_text())  # a worker checks the folders when it starts
    projects["shop"].rename(projects["shop"].with_name("away"))
    try:
        engine = open_database(started.database)
        lost = jobs.enqueue(engine, "shop", "run", {}, "a", id=jobs.create_id("run"), calls=1, limits=ServiceLimits())
        engine.dispose()
        ended = wait_for(lambda: (job := shop.get(f"/v1/jobs/{lost.id}").json())["finished_at"] and job)
        assert ended["status"] == "failed"
        assert ended["error"].startswith("the worker cannot use the project's folder: No such file or directory")
        listed = wait_for(lambda: (answer := shop.get("/v1/runs")).status_code != 200 and answer)
        assert (listed.status_code, listed.json()["detail"]) == (
            503, ".evalspec/store-id: gone. restore the project's folder, or start the server again"
        )  # fmt: skip
        other = docs.post("/v1/runs", json={}).json()["job_id"]
        assert wait_for(lambda: docs.get(f"/v1/jobs/{other}").json()["finished_at"])
        assert "a worker ended" not in started.log.read_text()
    finally:
        shop.close()
        docs.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_serves_the_others_while_a_project_is_away_and_serves_it_when_it_is_back(server, projects):
    started = server()
    shop, docs = started.client(namespaces=("shop",)), started.client(namespaces=("docs",))
    wait_for(lambda: "worker started" in started.log.read_text())
    store, away = projects["shop"] / ".evalspec", projects["shop"].with_name("away")
    store.rename(away)  # as if the volume was not mounted: the folder is there, and empty
    for pid in processes_of(started, "worker_process"):
        os.kill(pid, signal.SIGKILL)
    try:
        engine = open_database(started.database)
        waiting = jobs.enqueue(engine, "shop", "run", {"manifest": "agent.yaml", "options": {}}, "a",
                               id=jobs.create_id("run"), calls=1, limits=ServiceLimits()).id  # fmt: skip
        engine.dispose()
        other = docs.post("/v1/runs", json={}).json()["job_id"]
        assert wait_for(lambda: docs.get(f"/v1/jobs/{other}").json()["finished_at"])
        assert shop.get(f"/v1/jobs/{waiting}").json()["status"] == "pending"
        ready = httpx.get(f"{started.url}/readyz", timeout=60).json()
        assert ready["projects"] == "a project is gone, or cannot be read"
        code, _, error = check_projects(started, projects)
        assert (code, [line for line in error if "the store of namespace shop is gone" in line] != []) == (2, True)
        refused = [json.loads(line) for line in started.log.read_text().splitlines() if "is not served" in line]
        assert [(one["namespace"], "store-id: gone" in one["error"]) for one in refused] == [("shop", True)]
        store.mkdir()
        (store / "store-id").write_text("0" * 32)
        wait_for(lambda: "is not the store of namespace shop" in started.log.read_text())
        assert shop.get(f"/v1/jobs/{waiting}").json()["status"] == "pending", "it is another store"
        shutil.rmtree(store)
    finally:
        away.rename(store)
    ended = wait_for(lambda: (job := shop.get(f"/v1/jobs/{waiting}").json())["finished_at"] and job)
    assert ended["status"] == "completed", ended
    assert "a namespace is served again" in started.log.read_text()
    shop.close()
    docs.close()


def check_projects(started, projects):
    given = [part for name, folder in projects.items() for part in ("--project", f"{name}={folder}")]
    return check("--database", started.database, "--port", "1", *given)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_without_any_project_of_its_server_says_so_and_ends(database, settings, engine, tmp_path):
    other = tmp_path / "other"
    (other / ".evalspec").mkdir(parents=True)
    empty = f"sqlite:///{tmp_path / 'empty.db'}"
    unknown = "no server has registered"
    cases = [(database, "shop", "store-id: gone"), (database, "new", unknown), (empty, "shop", unknown)]
    for used, namespace, said in cases:
        project = f"{namespace}={other}"
        command = [sys.executable, "-m", "evalspec", "worker", "--database", used, "--project", project]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
            lines = iter(worker.stderr.readline, "")
            assert any(said in line for line in lines)
            if "gone" in said:
                worker.terminate()  # the others end by themselves
        assert worker.returncode == (0 if "gone" in said else 2)


@pytest.fixture
def running(settings, engine, caplog):
    """A server in a thread, whose application has a slow route and an endless stream of events."""
    app = create_app(settings, engine)
    began = threading.Event()

    @app.get("/slow")
    def slow():
        began.set()
        time.sleep(1)
        return "finished"

    @app.get("/events")
    def events():
        async def repeat():
            while True:
                yield "data: x\n\n"
                await asyncio.sleep(0.05)

        return StreamingResponse(repeat(), media_type="text/event-stream")

    config = uvicorn.Config(
        app,
        port=0,
        log_config=None,
        timeout_graceful_shutdown=30,
        ws="none",
        http=connections.ServiceConnection,
    )
    server: Any = serving._Server(config, app.state.service.stopping)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started)
    server.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.thread, server.began, server.folder = thread, began, settings.projects["shop"].folder
    caplog.set_level("INFO", "evalspec.service")
    server.logged = lambda route: any(getattr(one, "fields", {}).get("route") == route for one in caplog.records)
    yield server
    server.should_exit = True
    thread.join(60)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_stop_ends_streams_and_waits_for_requests(running):
    answers = []
    asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{running.url}/slow", timeout=30).json()))
    with httpx.stream("GET", f"{running.url}/events", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "data: x"
        asking.start()
        running.began.wait(30)
        running.should_exit = True
        assert set(lines) <= {"data: x", ""}, "it ends without an error"
    asking.join(30)
    assert answers == ["finished"]
    running.thread.join(20)
    assert not running.thread.is_alive()


BEGINNINGS = {
    "nothing": b"",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: loc",
    "headers of a second request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
    "half a body": b"POST /v1/compare HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_clients_that_send_a_byte_now_and_then_are_disconnected(running, monkeypatch, beginning):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(guard, "BODY_SECONDS", 1.0)
    address = httpx.URL(running.url)
    slow = [socket.create_connection((address.host, address.port)) for _ in range(50)]
    try:
        for one in slow:
            one.sendall(beginning)
        assert httpx.get(f"{running.url}/healthz", timeout=30).status_code == 200, "others are served meanwhile"
        ended, limit = set(), time.monotonic() + 60
        while len(ended) < len(slow):
            assert time.monotonic() < limit, f"{len(slow) - len(ended)} connections stay open"
            for one in set(slow) - ended:
                one.settimeout(0.01)
                try:
                    if beginning:
                        one.sendall(b"x")
                    if not one.recv(10_000):
                        ended.add(one)
                except TimeoutError:
                    pass
                except ConnectionError:
                    ended.add(one)
    finally:
        for one in slow:
            one.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("leaves", ["while it is made", "while it is sent", "at the end"])
def test_a_client_that_leaves_during_a_large_report_leaves_no_file(running, add_run, engine, monkeypatch, leaves):
    monkeypatch.setattr(reports_api, "SMALL", 0)
    is_being_made = threading.Event()

    def run_and_tell(*arguments, **options):
        is_being_made.set()
        return run_child(*arguments, **options)

    monkeypatch.setattr(reports_api, "run_child", run_and_tell)
    run = add_run("Paris " * (1_000_000 if leaves == "while it is sent" else 1))
    token = create_token(engine, "ana", [Scope.READ], ["shop"], 60)
    index = running.folder / ".evalspec" / "index" / run.id
    index.mkdir(parents=True)
    (index / "report_0123456789ab.html").write_text("of a server that was killed")
    address = httpx.URL(running.url)
    with socket.create_connection((address.host, address.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = f"GET /v1/runs/{run.id}/report?form=jsonl HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        raw.sendall(f"{asked}Authorization: Bearer {token}\r\n\r\n".encode())
        if leaves == "while it is made":
            assert is_being_made.wait(90)
        else:
            got = raw.recv(1000)
            assert got.startswith(b"HTTP/1.1 200 ")
            assert b"content-length: " in got.lower()
        if leaves == "at the end":
            got += b"".join(iter(lambda: raw.recv(65_536), b""))
            assert len(got.partition(b"\r\n\r\n")[2].splitlines()) == 6
    wait_for(lambda: running.logged("/v1/runs/{run_id}/report"))
    assert [path.name for path in index.iterdir() if "report" in path.name or "tmp" in path.name] == []


def test_a_stopped_server_leaves_its_jobs_in_the_queue_and_exits_with_0(server, agent, engine, tmp_path):
    agent.answer_only(0)
    started = server()
    log = started.log
    with started.client("run") as client:
        place = client.post("/v1/runs", json={}).headers["Location"]
        wait_for(lambda: client.get(place).json()["status"] == "running" and len(agent.requests) > 0)
    assert started.stop() == 0
    (job,) = jobs.list_jobs(engine, "shop", ["run"])
    assert (job.status, job.worker) == ("pending", None)
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {"worker started", "request"} <= {event["event"] for event in events}
    assert "question" not in log.read_text()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_that_is_gone_is_replaced(server):
    started = server()
    (first,) = wait_for(lambda: processes_of(started, "worker_process"))
    wait_for(lambda: "worker started" in started.log.read_text())
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: set(processes_of(started, "worker_process")) - {first})
    (ended,) = [json.loads(line) for line in started.log.read_text().splitlines() if "a worker ended" in line]
    assert (ended["exit_code"], ended["level"], ended["failures"]) == (-9, "warning", 1)


_PAUSE = """
import sys, time
def pause(event, arguments):
    if event == "open" and str(arguments[0]).endswith("samples.jsonl"):
        time.sleep(600)
if {"report", "evalspec.service.push_check", "evalspec.service.sample_index"} & {*sys.orig_argv}:
    sys.addaudithook(pause)
"""


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_killed_server_leaves_no_process_that_checks_or_indexes_or_reports(
    server, projects, add_run, tmp_path, monkeypatch
):
    """Each of these processes pauses at the log of its run."""
    (tmp_path / "sitecustomize.py").write_text(_PAUSE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write_project(projects["shop"], samples=sample_builds.SMALL + 1)
    run, pushed = add_run(), add_run(namespace="docs")
    started = server()
    push = [sys.executable, "-m", "evalspec", "runs", "push", pushed.id, "--to", started.url]
    environment = os.environ | {"EVALSPEC_TOKEN": started.token("push")}
    asked = f"GET /v1/runs/{run.id}/report?form=html HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
    left = []
    with socket.create_connection(("127.0.0.1", started.port)) as raw, started.client("read") as client:
        raw.sendall(f"{asked}{started.token('read')}\r\n\r\n".encode())
        assert client.get(f"/v1/runs/{run.id}/samples").status_code == 503
        with subprocess.Popen(push, cwd=projects["docs"], env=environment, stderr=subprocess.DEVNULL) as pushing:
            try:
                for name in ("push_check", "sample_index", "evalspec report"):
                    left += wait_for(partial(processes_of, started, name))
                started.stop(signal.SIGKILL)
                wait_for(lambda: not list_alive(left))
            finally:
                for pid in (pushing.pid, *list_alive(left)):
                    os.kill(pid, signal.SIGKILL)


def list_alive(pids):
    """Which of these processes run: one that ended and was not collected by its parent does not."""
    shown = subprocess.run(["ps", "-eo", "pid=,stat="], capture_output=True, text=True).stdout
    states = dict(line.split() for line in shown.splitlines())
    return [pid for pid in pids if states.get(str(pid), "Z")[0] != "Z"]


def test_workers_that_end_at_once_are_restarted_ever_more_slowly(monkeypatch, tmp_path):
    pauses = []

    class Pauses(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)
            if len(pauses) == 9:
                self.set()
            return self.is_set()

    monkeypatch.setattr(serving, "_run_worker", lambda *_: 3)
    projects = parse_projects([f"shop={tmp_path}"])
    serving.keep_worker(ServiceSettings(projects, "sqlite:///x"), Pauses())
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
