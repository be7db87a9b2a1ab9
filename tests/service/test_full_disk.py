"""A full disk: one line that says what to do, nothing half-written, and everything works again when there is space."""

import errno
import os
import sqlite3
import subprocess

import pytest
from sqlalchemy import event

import evalspec
from evalspec.curation.gold.gold_set import read_entry
from evalspec.curation.gold.protocol import add_triple
from evalspec.service.tokens import SESSION, Scope, create_token, list_tokens
from gold_sets import make_set, make_triple
from servers.service import Server, wait_for, write_project

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

SPACE = "No space left on device. free some disk space"
QUERIES = [{"query_id": "q1", "query_input": {"query": "boots"}, "relevant_documents": ["a1"]}]


@pytest.fixture
def full(monkeypatch):
    """A function after which no written file reaches the disk. Stands in for a full disk, which needs root."""

    def fail(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(os, "fsync", fail)


def test_what_cannot_be_written_leaves_nothing_and_says_what_to_do(client, projects, full, monkeypatch):
    root = projects["shop"] / "evals" / "gold" / "help"
    root.parent.mkdir(parents=True)
    make_set(root)
    add_triple(root, "refund", make_triple(), "ada")
    (root / "set.yaml").write_text((root / "set.yaml").read_text().replace("ben@example.com", "ana@example.com"))
    full()
    review = {"revision": 1, "verdict": "confirm"}
    page = client.get("/gold/help/review", headers={"Accept": "text/html"}).text
    shown = page.partition('name="shown" value="')[2].partition('"')[0]
    form = {"id": "refund", "shown": shown, "verdict": "overstated", "note": "It says 15."}
    answers = [
        client.post("/v1/gold/help/triples/refund/reviews", json=review),
        client.post("/gold/help/review", data=form, headers={"Accept": "text/html"}),
        client.post("/v1/retrievers/evaluations/datasets", json={"dataset_name": "shoes", "queries": QUERIES}),
    ]
    for answer in answers:
        assert (answer.status_code, SPACE in answer.text) == (503, True), answer.text
    assert "It says 15." in answers[1].text, "what a person wrote is not lost"
    with pytest.raises(evalspec.EvalspecError, match=SPACE):
        evalspec.evaluate(projects["shop"] / "agent.yaml", store=projects["shop"] / ".evalspec")
    assert client.get("/v1/runs").json()["runs"] == [], "a run that never began is no damaged run"
    assert len(read_entry(root, "refund").events) == 1
    assert not list((projects["shop"] / ".evalspec" / "datasets").glob("*/*"))
    monkeypatch.undo()
    assert client.post("/v1/gold/help/triples/refund/reviews", json=review).status_code == 201


def test_an_index_without_space_is_written_when_there_is_some(client, add_run, monkeypatch):
    run, connect = add_run().id, sqlite3.connect

    def connect_small(*given, **options):
        database = connect(*given, **options)
        database.execute("PRAGMA max_page_count = 2")
        return database

    monkeypatch.setattr(sqlite3, "connect", connect_small)
    refused = client.get(f"/v1/runs/{run}/samples")
    assert (refused.status_code, SPACE in refused.json()["detail"]) == (503, True)
    page = client.get(f"/runs/{run}", headers={"Accept": "text/html"})
    assert (page.status_code, SPACE in page.text) == (200, True)
    monkeypatch.undo()
    assert len(client.get(f"/v1/runs/{run}/samples").json()["samples"]) == 6


@pytest.fixture
def limits(engine):
    """Functions that limit every new connection. SQLAlchemy's own list must not change while other threads connect."""
    limits = []
    event.listen(engine, "connect", lambda connection, _record: [limit(connection) for limit in limits])
    return limits


def allow_no_page(connection):
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_database_without_space_is_not_called_silent(limits, client):
    limits.append(allow_no_page)
    answers = [client.post("/v1/runs", json={"concurrency": 2}) for _ in range(60)]
    refused = next(one for one in answers if one.status_code != 202)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert refused.json()["detail"] == "the disk of the database is full. free some space on it, then try again"
    limits.clear()
    assert client.post("/v1/runs", json={}).status_code == 202


def test_a_token_is_shown_if_there_is_space_for_it_but_not_for_its_audit_entry(limits, client, engine, caplog):
    del client.headers["Authorization"]
    cookie = {"Cookie": f"evalspec_session={create_token(engine, 'ana', [Scope.ADMIN], ['shop'], 600, SESSION)}"}
    sent = {"Accept": "text/html", "Origin": "http://localhost", **cookie}
    limits.append(allow_no_page)
    shown = 0
    while (answer := client.post("/tokens", headers=sent, data={"scope": "read"})).status_code == 200:
        shown += "evs_" in answer.text
    assert (answer.status_code, "the disk of the database is full" in answer.text) == (503, True)
    lost = {one.fields["action"] for one in caplog.records if one.message == "audit entry lost"}
    assert {"token create", "POST /tokens"} <= lost
    assert len(list_tokens(engine)) == shown + 1, "of what is refused, nothing is kept"


@pytest.fixture
def small_disk(tmp_path):
    """The folder of a file system of 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path):
    with path.open("ab", buffering=0) as file:
        for size in (65_536, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


def test_a_disk_that_fills_up_during_a_run_costs_no_reply(small_disk, agent, database, tmp_path):
    shop = write_project(small_disk / "shop", agent.url, samples=30)
    agent.answer_only(6)
    server = Server({"shop": shop}, database, tmp_path / "server.log").start()
    with server.client("admin") as client:
        place = client.post("/v1/runs", json={"concurrency": 2}).headers["Location"]
        wait_for(lambda: len(agent.requests) >= 6)
        fill(small_disk / "filler")
        agent.delay = 0.2
        agent.answer_only(None)
        job = wait_for(lambda: (found := client.get(place).json())["finished_at"] and found)
        assert (job["status"], SPACE in job["error"]) == ("failed", True)
        assert [run["status"] for run in client.get("/v1/runs").json()["runs"]] == ["interrupted"]
        answered = len(agent.requests)
        refused = client.get(client.post("/v1/runs", json={}).headers["Location"])
        wait_for(lambda: client.get(f"/v1/jobs/{refused.json()['job_id']}").json()["status"] == "failed")
        assert [run["status"] for run in client.get("/v1/runs").json()["runs"]] == ["interrupted"]
        (small_disk / "filler").unlink()
        agent.delay = 0
        resumed = client.post(f"/v1/runs/{job['run_id']}/resume").headers["Location"]
        done = wait_for(lambda: (found := client.get(resumed).json())["finished_at"] and found)
    assert server.stop() == 0
    assert (done["status"], done["run_id"]) == ("completed", job["run_id"])
    assert answered < 30
    assert len(agent.requests) <= 30 + 3, "only what was in flight is asked again"
