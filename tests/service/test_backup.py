"""A backup that is made while jobs run, as docs/reference/service.md describes it, is restored in another place."""

import shutil
import subprocess
import sys

import evalspec
from servers.postgres import find_binaries
from servers.service import Server, wait_for, write_project

SQLITE_COPY = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', sys.argv[2:3])"


def back_up(database, place):
    if database.startswith("sqlite"):
        path = database.removeprefix("sqlite:///")
        subprocess.run([sys.executable, "-c", SQLITE_COPY, path, place], check=True)
    else:
        subprocess.run([find_binaries() / "pg_dump", "--format=custom", f"--file={place}", database], check=True)


def restore(database, place, request, tmp_path):
    """The URL of the restored database."""
    if database.startswith("sqlite"):
        shutil.copy(place, tmp_path / "restored.db")
        return f"sqlite:///{tmp_path / 'restored.db'}"
    url = request.getfixturevalue("cluster").create_database()
    subprocess.run([find_binaries() / "pg_restore", "--no-owner", f"--dbname={url}", place], check=True)
    return url


def test_a_restored_server_continues(server, database, projects, agent, tmp_path, request):
    write_project(projects["shop"], agent.url, samples=12)
    started = server("--lease", "2")
    token = started.token("admin")
    headers = {"Authorization": f"Bearer {token}"}
    with started.client("admin") as client:
        first = client.post("/v1/runs", json={}).headers["Location"]
        finished = wait_for(lambda: (found := client.get(first).json())["status"] == "completed" and found)
        already = len(agent.requests)
        agent.answer_only(already + 4)
        second = client.post("/v1/runs", json={"concurrency": 2}).headers["Location"]
        wait_for(lambda: len(agent.requests) >= already + 4)
        back_up(database, tmp_path / "backup")
        copied = {name: tmp_path / "restored" / name for name in projects}
        for name, folder in projects.items():
            copied[name].parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", folder, copied[name]], check=True)
    started.process.kill()
    started.process.wait()
    agent.answer_only(None)
    projects["shop"].rename(tmp_path / "lost")
    again = Server(copied, restore(database, tmp_path / "backup", request, tmp_path), tmp_path / "again.log",
                   "--reindex", "--lease", "2")  # fmt: skip
    try:
        again.start()
        with again.client("admin") as client:
            client.headers.update(headers)
            assert client.get(first).json() == finished
            job = wait_for(lambda: (found := client.get(second).json())["finished_at"] and found)
            assert job["status"] == "completed", job
            assert client.get("/v1/audit").json()["entries"][-1]["action"] == "POST /v1/runs"
        for one in (finished, job):
            run = evalspec.load_run(one["run_id"], store=copied["shop"] / ".evalspec")
            assert run.datasets[0].metrics["exact_match"].scored == 12
    finally:
        again.stop()
