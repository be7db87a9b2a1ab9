"""Runs that other machines push: complete and once, whatever interrupts; read-only; and whatever they contain."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from filelock import FileLock

import evalspec
from conftest import Project
from evalspec.api.pushing import push_run
from evalspec.api.server import PushServer, choose_server
from evalspec.base.errors import InvalidInput
from evalspec.runs.store.log_records import renumber
from evalspec.runs.store.pushed_runs import PUSHED_NAMES, REQUIRED_NAMES, list_pushed_files
from evalspec.runs.store.run_log import RunLog, compute_checksum
from evalspec.service import pushes
from evalspec.service.push_check import list_faults
from evalspec.service.serving import purge_expired
from evalspec.service.tokens import Scope, create_token
from servers.faulty_agent import Answer, FaultyAgent, status
from servers.service import write_project
from service.pages.shops import building

BUILD = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REF": "refs/pull/7/merge",
    "GITHUB_HEAD_REF": "<b>fix</b>",
    "GITHUB_SHA": "2f0c1c5e9a7b",
    "GITHUB_SERVER_URL": "https://user:hunter2@github.example",
    "GITHUB_REPOSITORY": "shop/bot",
    "GITHUB_RUN_ID": "12",
}
CHUNK = 100_000
OTHER_RUN = "20261121T103706.257Z-57f26458"


@pytest.fixture
def database(request, tmp_path):
    """One kind is enough: pushes are files. Where a server's clock is wrong, PostgreSQL has another."""
    if hasattr(request, "param"):
        return request.getfixturevalue("cluster").create_database()
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def ci(tmp_path, agent):
    """A project on another machine, whose agent is right."""
    return write_project(tmp_path / "ci", agent.url, thresholds={"exact_match": 0.5}, ciGate=True)


@pytest.fixture
def evalspec_of(capsys, monkeypatch):
    """The command line in a folder, in this process."""

    def run_there(folder, *arguments, token="", **environment):
        with monkeypatch.context() as there:
            there.chdir(folder)
            for name, value in {"EVALSPEC_TOKEN": token, **environment}.items():
                there.setenv(name, value)
            return Project(folder, capsys)(*map(str, arguments))

    return run_there


def evaluate(folder, answer="Paris", **options):
    """A stored run, and its folder."""
    run = evalspec.evaluate(folder / "agent.yaml", agent=lambda _: answer, store=folder / ".evalspec", **options)
    return folder / ".evalspec" / "runs" / run.id


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name in PUSHED_NAMES}


def test_ci_evaluates_and_pushes_and_everybody_sees_the_branch(evalspec_of, serve, ci, projects, monkeypatch):
    served = serve()
    token = served.token("push")
    done = evalspec_of(ci, "evaluate", "agent.yaml", "--push", "--to", f"{served.url}/v1/", token=token, **BUILD)
    assert (done.code, token in done.err + done.out) == (0, False), done.err
    (local,) = (ci / ".evalspec" / "runs").glob("2*")
    assert f"pushed: {served.url}/runs/{local.name}" in done.err
    stored = projects["shop"] / ".evalspec" / "runs" / local.name
    assert contents(stored) == contents(local)
    assert not list((projects["shop"] / ".evalspec" / "pushes").iterdir())
    with served.client("push") as client:
        for branch in ("main", "main", ""):
            monkeypatch.setenv("BUILDKITE", "true")
            monkeypatch.setenv("BUILDKITE_BRANCH", branch)
            assert push(client, evaluate(ci)).status_code == 201

    with served.client("read") as client:
        listed = client.get("/v1/runs", params={"branch": ":7"}).json()["runs"]
        assert [run["runId"] for run in listed] == [local.name]
        assert listed[0]["origin"]["pushedBy"] == "ana@example.com"
        assert listed[0]["origin"]["ci"] == {
            "service": "GitHub Actions",
            "branch": "<b>fix</b>",
            "commit": "2f0c1c5e9a7b",
            "pullRequest": "7",
            "url": "https://github.example/shop/bot/actions/runs/12",
        }
        trend = {"dataset": "qa", "metric": "exact_match"}
        branches = [client.get("/v1/trends", params={**trend, **one}).json()["points"] for one in (
            {}, {"branch": "main"}, {"branch": ""}, {"branch": "none"}
        )]  # fmt: skip
        assert [len(points) for points in branches] == [4, 2, 1, 0]
        assert {point["branch"] for point in branches[1]} == {"main"}
        page = client.get("/runs", headers={"Accept": "text/html"}).text
        assert "branch <bdi>main</bdi>" in page
        assert "2 finished runs" in page
        assert "<b>fix</b>" not in page
        filtered = client.get("/runs?branch=:none", headers={"Accept": "text/html"}).text
        assert len(re.findall("data-row", filtered)) == 1
        page = client.get(f"/runs/{local.name}", headers={"Accept": "text/html"}).text
        assert 'href="https://github.example/shop/bot/actions/runs/12" rel="noreferrer nofollow"' in page
        assert "pushed by <bdi>ana@example.com</bdi>, read-only" in page
        assert "hunter2" not in page
        report = client.get(f"/v1/runs/{local.name}/report?form=html")
        assert report.headers["Content-Disposition"].startswith("attachment")
        assert report.headers["Content-Security-Policy"] == "sandbox"


def test_builds_of_a_pull_request_are_of_no_branch_of_the_project(serve, ci):
    """A fork names its branch as it likes, so `main` of a pull request is another line than `main`."""
    served = serve()
    with served.client("push") as client:
        for pull_request in ("false", "7", "7", "false", "7"):
            with building("main", pull_request):
                assert push(client, evaluate(ci)).status_code == 201
    with served.client("read") as client:
        for branch, wanted in {"main": [None] * 2, ":7": ["7"] * 3, "": []}.items():
            asked = {"branch": branch}
            listed = client.get("/v1/runs", params=asked).json()["runs"]
            assert [run["origin"]["ci"].get("pullRequest") for run in listed] == wanted
            trend = client.get("/v1/trends", params={"dataset": "qa", "metric": "exact_match", **asked}).json()
            assert [point["pullRequest"] for point in trend["points"]] == wanted
        page = client.get("/runs", headers={"Accept": "text/html"}).text
        assert "branch <bdi>main</bdi></span><span>2 finished runs<" in " ".join(page.split()), "not that of most runs"
        assert re.findall('<option value="([^"]*)"[^>]*>(main|#7)<', page) == [(":7", "#7"), ("main", "main")]
        page = client.get("/runs?branch=:7", headers={"Accept": "text/html"}).text
        assert "pull request <bdi>#7</bdi>" in page and len(re.findall("data-row", page)) == 3


@pytest.fixture
def half_a_log(monkeypatch):
    """What tells when the half of a log has arrived. The server keeps the rest waiting until the other is set."""
    has_arrived, may_go_on, append = threading.Event(), threading.Event(), pushes._append

    def append_slowly(path, content, offset):
        if path.name == "samples.jsonl" and offset:
            has_arrived.set()
            may_go_on.wait(90)
        append(path, content, offset)

    monkeypatch.setattr(pushes, "_append", append_slowly)
    yield has_arrived, may_go_on
    may_go_on.set()


def test_a_push_that_is_killed_continues_and_a_run_is_pushed_once(evalspec_of, serve, ci, projects, caplog, half_a_log):
    caplog.set_level("INFO", "evalspec.service")
    served = serve(body_bytes=CHUNK)
    (ci / "qa.jsonl").write_text(
        "".join(json.dumps({"id": f"s{n}", "input": f"q{n}", "expected": "Paris"}) + "\n" for n in range(30))
    )
    local = evaluate(ci, "Paris " * 10_000)
    token, (has_arrived, may_go_on) = served.token("push"), half_a_log
    command = [sys.executable, "-m", "evalspec", "runs", "push", "--to", served.url]
    environment = {**os.environ, "EVALSPEC_TOKEN": token}
    with subprocess.Popen(command, cwd=ci, env=environment, stderr=subprocess.PIPE) as process:
        assert has_arrived.wait(90)
        process.kill()
    may_go_on.set()
    assert process.returncode == -9
    with served.client("read") as client:
        assert client.get("/v1/runs").json()["runs"] == []
    done = evalspec_of(ci, "runs", "push", "--to", served.url, token=token)
    assert done.code == 0, done.err
    assert contents(projects["shop"] / ".evalspec" / "runs" / local.name) == contents(local)
    size = sum(file.size for file in list_pushed_files(local))

    def count_chunks():
        return sum(getattr(record, "fields", {}).get("method") == "PUT" for record in caplog.records)

    sent = count_chunks()
    assert sent <= size // CHUNK + len(PUSHED_NAMES) + 1, "chunks were sent again"

    again = evalspec_of(ci, "runs", "push", "latest", "--to", served.url, "--json", token=token)
    assert again.document["pushed"] == {
        "id": local.name, "url": f"{served.url}/runs/{local.name}", "isNew": False
    }  # fmt: skip
    assert count_chunks() == sent > size // CHUNK


def push(client, folder, *, chunk=10**7, **changes):
    """Push a run by HTTP. Return the last answer: of the first request that is refused, or of the commit.

    Begins again, as `evalspec runs push` does, when another push of the run is in the way or was faster.
    """
    for _ in range(10):
        answer = push_once(client, folder, chunk, changes)
        if answer.status_code not in (404, 503):
            break
    return answer


def push_once(client, folder, chunk, changes):
    files = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in list_pushed_files(folder)]
    answer = client.post("/v1/pushes", json={"run_id": folder.name, "files": files, **changes})
    if answer.status_code != 201:
        return answer
    state = answer.json()
    for file in state["files"]:
        content, received = (folder / file["name"]).read_bytes(), file["received"]
        while received < file["size"]:
            place = f"/v1/pushes/{state['push_id']}/files/{file['name']}?offset={received}"
            answer = client.put(place, content=content[received : received + chunk])
            if answer.status_code != 200:
                return answer
            received = next(one["received"] for one in answer.json()["files"] if one["name"] == file["name"])
    return client.post(f"/v1/pushes/{state['push_id']}/commit")


def list_stored(projects, namespace="shop"):
    return sorted(path.name for path in (projects[namespace] / ".evalspec" / "runs").glob("2*"))


def test_a_request_that_waits_for_a_push_which_ends_leaves_nothing_behind(client, ci, projects, monkeypatch):
    local = evaluate(ci)
    files = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in list_pushed_files(local)]
    opened = client.post("/v1/pushes", json={"run_id": local.name, "files": files}).json()
    lock = pushes._locked

    def lock_what_has_ended(folder):
        shutil.rmtree(folder)
        return lock(folder)

    monkeypatch.setattr(pushes, "_locked", lock_what_has_ended)
    place = f"/v1/pushes/{opened['push_id']}"
    assert client.put(f"{place}/files/run.json?offset=0", content=b"{").status_code == 404
    assert list((projects["shop"] / ".evalspec" / "pushes").iterdir()) == []


def test_pushes_of_one_run_at_the_same_time_make_one_run(client, ci, projects):
    local = evaluate(ci)
    with ThreadPoolExecutor(4) as pool:
        codes = sorted(one.status_code for one in pool.map(lambda _: push(client, local, chunk=1000), range(4)))
    assert codes == [200, 200, 200, 201]
    assert push(client, local).status_code == 200
    assert contents(projects["shop"] / ".evalspec" / "runs" / local.name) == contents(local)


def test_different_content_under_the_same_id_is_refused(client, ci, projects):
    local = evaluate(ci)
    assert push(client, local).status_code == 201
    before = contents(projects["shop"] / ".evalspec" / "runs" / local.name)
    other = evaluate(ci, "Rome")
    files = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in list_pushed_files(other)]
    answer = client.post("/v1/pushes", json={"run_id": local.name, "files": files})
    assert (answer.status_code, "different content" in answer.json()["detail"]) == (409, True)
    assert contents(projects["shop"] / ".evalspec" / "runs" / local.name) == before


def test_a_pushed_run_is_read_only(evalspec_of, client, ci, projects, settings):
    local = evaluate(ci, datasets=["qa"])
    assert push(client, local).status_code == 201
    folder = projects["shop"]
    with pytest.raises(InvalidInput, match="it was pushed, so it is read-only"):
        evalspec.rescore(local.name, folder / "agent.yaml", store=folder / ".evalspec")
    for body in ({}, {"retry_errors": True}):
        answer = client.post(f"/v1/runs/{local.name}/resume", json=body)
        assert (answer.status_code, "read-only" in answer.json()["detail"]) == (409, True)
    assert settings.projects["shop"].find_run_of(f"run_{local.name.rpartition('-')[2]}") is None
    for arguments in (("runs", "promote", "latest", "--as", "main"), ("evaluate", "agent.yaml", "--retry-errors")):
        refused = evalspec_of(folder, *arguments)
        assert (refused.code, "it was pushed, so it is read-only" in refused.err) == (2, True)
    assert client.delete(f"/v1/runs/{local.name}").status_code == 204


def test_without_content_no_text_leaves_the_machine(evalspec_of, serve, ci, projects):
    served = serve()
    assert evalspec_of(ci, "evaluate", "agent.yaml", "--no-content").code == 0
    (local,) = (ci / ".evalspec" / "runs").glob("2*")
    (local / "agent.log").write_text("question 1")
    done = evalspec_of(ci, "runs", "push", "--to", served.url, token=served.token("run"))
    assert done.code == 0, done.err
    stored = projects["shop"] / ".evalspec" / "runs" / local.name
    assert {path.name for path in stored.iterdir()} == {*contents(local), ".lock", "pushed.json"}
    assert not [path.name for path in stored.iterdir() if b"question 1" in path.read_bytes()]


def test_who_may_push_and_where_to(client, engine, ci, projects):
    local = evaluate(ci)

    def push_as(scope, namespaces):
        token = create_token(engine, "ci", [scope], namespaces, 3600)
        client.headers["Authorization"] = f"Bearer {token}"
        return push(client, local)

    assert push_as(Scope.READ, ["shop"]).status_code == 403
    assert push_as(Scope.REVIEW, ["shop"]).status_code == 403
    assert "X-Namespace" in push_as(Scope.PUSH, ["shop", "docs"]).json()["detail"]
    assert push_as(Scope.PUSH, ["docs"]).status_code == 201
    assert (list_stored(projects), list_stored(projects, "docs")) == ([], [local.name])
    assert client.get("/v1/runs").status_code == 403, "a token that pushes reads nothing"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://evals.example.com", "not encrypted"),
        ("ftp://evals.example.com", "not the url of a server"),
        ("https://ana:pw@evals.example.com", "not the url of a server"),
        ("https://:pw@evals.example.com", "not the url of a server"),
        ("https://evals.example.com\n", "not the url of a server"),
        ("http://localhost\\@evals.example.com", "not the url of a server"),
        ("", "there is no server. name one, like https://evals.example.com, or set EVALSPEC_TO"),
    ],
)
def test_a_bad_address_is_reported_before_anything_is_asked(evalspec_of, ci, agent, url, words):
    done = evalspec_of(ci, "evaluate", "agent.yaml", "--push", "--to", url, token="t0ken")
    assert (done.code, agent.requests) == (2, []), done.err
    assert words in done.err
    assert "--to" in done.err


def test_a_token_is_needed_and_nothing_untrusted_is_near_it(evalspec_of, ci, agent):
    done = evalspec_of(ci, "evaluate", "agent.yaml", "--push", "--to", "http://localhost:9")
    assert (done.code, "EVALSPEC_TOKEN: not set" in done.err) == (2, True)
    assert "`evalspec token create --user EMAIL --scope push --namespace NS` prints on the server" in done.err
    arguments = ("evaluate", "agent.yaml", "--push", "--to", "http://localhost:9", "--untrusted", "--url", agent.url)
    done = evalspec_of(ci, *arguments, token="t0ken")
    assert (done.code, "untrusted" in done.err) == (2, True)
    assert agent.requests == []


@pytest.mark.parametrize(("limit", "code"), [(0.5, 3), (1.0, 1)])
def test_a_push_that_fails_is_said_and_never_hides_a_verdict(evalspec_of, tmp_path, agent, limit, code):
    agent.reply = lambda asked: {"response": "Rome" if "question 0" in json.dumps(asked) else "Paris"}
    ci = write_project(tmp_path / "ci", agent.url, thresholds={"exact_match": limit}, ciGate=True)
    with FaultyAgent() as broken:
        kind = "application/problem+json"
        busy = Answer(503, {"Retry-After": "0"}, b'{"detail": "starting"}', kind)
        broken.script = [busy, busy, Answer(403, {}, b'{"detail": "the token t0ken has read"}', kind)]
        done = evalspec_of(ci, "evaluate", "agent.yaml", "--push", "--to", broken.url, "--json", token="t0ken")
        assert len(broken.requests) == 3
    assert done.code == code, done.err
    document = done.document
    assert document["verdict"] == ("PASS" if code == 3 else "FAIL")
    (error,) = document["errors"]
    assert "was not pushed: the token [redacted] has read" in error["message"]
    assert f"--to {broken.url}" in error["fix"]
    assert done.err.count("starting; trying again") == 2
    with FaultyAgent() as denying:
        denying.script = [Answer(401, {}, b'{"detail": "send a token"}', kind)]
        done = evalspec_of(ci, "runs", "push", "--to", denying.url, token="t0ken")
    assert f"the token in EVALSPEC_TOKEN is not valid on {denying.url}" in done.err


@pytest.mark.parametrize("mode", ["html", "ok", "empty", status(404, body="gone"), status(302, {"Location": "/"})])
def test_another_server_is_recognized(evalspec_of, ci, mode):
    evaluate(ci)
    with FaultyAgent() as other:
        other.mode = mode
        done = evalspec_of(ci, "runs", "push", "--to", other.url, token="t0ken")
        assert len(other.requests) == 1
    assert done.code == 3
    assert "server of evalspec" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("wanted", ["agent.log", "../../../secret.txt", "{ci}/secret.txt", "report.json"])
def test_a_server_gets_no_other_file_than_those_announced(evalspec_of, ci, wanted):
    local = evaluate(ci)
    for secret in (local / "agent.log", ci / "secret.txt"):
        secret.write_text("hunter2")
    file = {"name": wanted.format(ci=ci), "size": 10**6, "received": 0}
    state = {"push_id": "x", "is_stored": False, "files": [file], "chunk_bytes": -1}
    with FaultyAgent() as other:
        other.reply = state
        done = evalspec_of(ci, "runs", "push", "--to", other.url, token="t0ken")
        assert len(other.requests) == 1
    assert (done.code, "other files" in done.err) == (3, True), done.err


def test_a_run_that_the_server_did_not_store_is_not_pushed(evalspec_of, ci):
    local = evaluate(ci)
    files = [{"name": one.name, "size": one.size, "received": one.size} for one in list_pushed_files(local)]
    with FaultyAgent() as other:
        other.reply = {"push_id": "x", "is_stored": False, "files": files, "chunk_bytes": 10}
        done = evalspec_of(ci, "runs", "push", "--to", other.url, token="t0ken")
    assert (done.code, "did not store it" in done.err) == (3, True), done.err


@pytest.mark.parametrize("token", ["t0ken\nX-Admin: yes", "t0ken\x7f", "tökenß\u202e"])
def test_a_token_of_other_characters_is_not_shown(evalspec_of, ci, token):
    evaluate(ci)
    done = evalspec_of(ci, "runs", "push", "--to", "http://localhost:9", token=token)
    assert (done.code, "EVALSPEC_TOKEN: " in done.err) == (2, True), done.err
    assert not [part for part in ("t0ken", "tök", "X-Admin", "\u202e") if part in done.err]


def test_a_push_that_another_one_finished_is_asked_about_again(evalspec_of, ci):
    local = evaluate(ci)
    files = [{"name": one.name, "size": one.size, "received": one.size} for one in list_pushed_files(local)]
    gone = Answer(404, {}, b'{"detail": "there is no such push"}', "application/problem+json")
    state = {"push_id": "x", "is_stored": False, "files": files, "chunk_bytes": 10}
    stored = {**state, "is_stored": True}
    with FaultyAgent() as other:
        other.reply = lambda _: stored if len(other.requests) > 2 else state
        other.script = ["ok", gone]
        done = evalspec_of(ci, "runs", "push", "--to", other.url, "--json", token="t0ken")
        assert len(other.requests) == 3, done.err
        assert (done.code, done.document["pushed"]["isNew"]) == (0, False), done.err
        other.reply, other.script = state, ["ok", gone] * 9
        done = evalspec_of(ci, "runs", "push", "--to", other.url, token="t0ken")
        assert (done.code, "there is no such push" in done.err) == (3, True), done.err
        assert len(other.requests) == 3 + 6


def test_two_machines_that_push_one_run_both_succeed(serve, ci):
    served = serve(body_bytes=2000)
    local, server = evaluate(ci), PushServer(served.url, served.token("push"))
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: asyncio.run(push_run(local, server, print)), range(3)))
    assert [one.run_id for one in done] == [local.name] * 3


def test_only_finished_and_intact_runs_are_pushed(evalspec_of, ci):
    local = evaluate(ci)
    report, log = local / "report.json", local / "samples.jsonl"
    kept = log.read_bytes()
    with RunLog(local, redact=lambda value: value):
        done = evalspec_of(ci, "runs", "push", "--to", "http://localhost:9", token="t0ken")
    assert (done.code, "is being written" in done.err) == (2, True)
    for break_it, words in (
        (lambda: log.write_bytes(kept.replace(b"Paris", b"Rome!", 1)), "the checksum does not match"),
        (lambda: (log.write_bytes(kept), report.unlink()), "is not finished"),
    ):
        break_it()
        done = evalspec_of(ci, "runs", "push", "--to", "http://localhost:9", token="t0ken")
        assert words in done.err
        assert done.code in (2, 3)


def name_of(moment):
    return f"{moment:%Y%m%dT%H%M%S}.000Z-0a1b2c3d"


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "../20261121T103706.257Z-57f26458"},
        {"run_id": "20261399T103706.257Z-57f26458"},
        {"run_id": "20261121T103706.257Z-" + "a" * 70},
        pytest.param({"run_id": name_of(datetime.now(UTC) + timedelta(days=1))}, id="of the future"),
        {"files": []},
        {"files": [{"name": "../run.json", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": ".lock", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "pushed.json", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "run.json", "size": -1, "sha256": "0" * 64}]},
        {"ci": {"service": "x", "more": "y"}},
    ],
    ids=str,
)
def test_what_no_run_announces_is_refused(client, ci, projects, changes):
    local = evaluate(ci)
    files = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in list_pushed_files(local)]
    answer = client.post("/v1/pushes", json={"run_id": local.name, "files": files, **changes})
    assert answer.status_code == 422, answer.text
    assert not list((projects["shop"] / ".evalspec").glob("pushes/*"))


def test_sizes_are_limited(client, ci, projects, settings, monkeypatch):
    local = evaluate(ci)
    large = [{"name": one.name, "size": 10**8, "sha256": one.sha256} for one in list_pushed_files(local)]
    answer = push(client, local, files=large)
    assert (answer.status_code, "--max-push" in answer.json()["detail"]) == (413, True)
    files = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in list_pushed_files(local)]
    state = client.post("/v1/pushes", json={"run_id": local.name, "files": files}).json()
    place = f"/v1/pushes/{state['push_id']}/files/run.json"
    assert client.put(place, content=b"x" * 10**6).status_code == 413
    assert client.put(place, content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status_code == 415
    assert client.put(f"{place}?offset=7", content=b"x").json()["files"][0]["received"] == 0
    assert client.put(f"/v1/pushes/{state['push_id']}/files/.lock", content=b"x").status_code == 404
    assert client.put("/v1/pushes/..%2f..%2fx/files/run.json", content=b"x").status_code == 404
    assert client.post(f"/v1/pushes/{state['push_id']}/commit").status_code == 409
    monkeypatch.setattr(pushes, "_MOST_OPEN", 1)
    assert push(client, evaluate(ci)).status_code == 429
    (staged,) = (projects["shop"] / ".evalspec" / "pushes").iterdir()
    erased = client.post("/v1/erasure", json={"texts": ["question 1"], "dry_run": True}).json()["removed"]
    assert erased == [f".evalspec/pushes/{staged.name}"]
    long_ago = time.time() - 2 * pushes.IDLE_SECONDS
    os.utime(staged, (long_ago, long_ago))
    purge_expired(client.app.state.service.engine, settings)
    assert not staged.exists()


def announce(client, number):
    files = [{"name": name, "size": 3, "sha256": f"{number:064x}"} for name in REQUIRED_NAMES]
    return client.post("/v1/pushes", json={"run_id": f"20260101T00000{number}.000Z-0000000{number}", "files": files})


def test_a_push_that_died_makes_room_for_the_next(client, projects, monkeypatch):
    monkeypatch.setattr(pushes, "_MOST_OPEN", 2)
    first, second = (announce(client, number).json()["push_id"] for number in (1, 2))
    refused = announce(client, 3)
    assert (refused.status_code, 0 < int(refused.headers["Retry-After"]) <= 60) == (429, True)
    assert "2 pushes to this namespace are in progress" in refused.json()["detail"]
    folder = projects["shop"] / ".evalspec" / "pushes"
    rested = time.time() - 300
    os.utime(folder / first, (rested, rested))
    assert announce(client, 1).json()["push_id"] == first, "a push that continues does not rest"
    with FileLock(folder / second / ".lock"):
        os.utime(folder / second, (rested, rested))
        assert announce(client, 3).status_code == 429, "the second one is being checked"
    os.utime(folder / second, (rested, rested))
    third = announce(client, 3).json()["push_id"]
    assert sorted(one.name for one in folder.iterdir()) == [first, third]
    assert client.put(f"/v1/pushes/{second}/files/run.json", content=b"x").status_code == 404


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_server_with_a_wrong_clock_judges_runs_and_pushes_by_other_clocks(client, projects, settings, monkeypatch):
    now = time.time()
    files = [{"name": name, "size": 3, "sha256": "0" * 64} for name in REQUIRED_NAMES]
    monkeypatch.setattr(time, "time", lambda: now - 1200)
    begun = client.post("/v1/pushes", json={"run_id": name_of(datetime.now(UTC)), "files": files})
    assert begun.status_code == 201, begun.text
    monkeypatch.setattr(time, "time", lambda: now + 90_000)
    tomorrow = client.post(
        "/v1/pushes", json={"run_id": name_of(datetime.now(UTC) + timedelta(days=1)), "files": files}
    )
    assert (tomorrow.status_code, "of the future" in tomorrow.json()["detail"]) == (422, True)
    assert announce(client, 2).status_code == 201
    monkeypatch.setattr(pushes, "_MOST_OPEN", 2)
    assert announce(client, 3).status_code == 429
    purge_expired(client.app.state.service.engine, settings)
    assert len(list((projects["shop"] / ".evalspec" / "pushes").iterdir())) == 2


def test_a_push_that_a_request_holds_is_not_idle(client, projects, settings):
    held, left = (announce(client, number).json()["push_id"] for number in (1, 2))
    folder, engine = projects["shop"] / ".evalspec" / "pushes", client.app.state.service.engine
    long_ago = time.time() - 2 * pushes.IDLE_SECONDS
    with FileLock(folder / held / ".lock"):
        for name in (held, left):
            os.utime(folder / name, (long_ago, long_ago))
        purge_expired(engine, settings)
        assert [one.name for one in folder.iterdir()] == [held]
        erased = client.post("/v1/erasure", json={"texts": ["question 1"]}).json()
        assert erased["removed"] == [] and [held in line for line in erased["failed"]] == [True]
    erased = client.post("/v1/erasure", json={"texts": ["question 1"]}).json()
    assert (erased["removed"], erased["failed"]) == ([f".evalspec/pushes/{held}"], [])


def rewrite_log(folder, change):
    """Change the records of a log, with right checksums."""
    lines = (folder / "samples.jsonl").read_text().splitlines()
    records = [
        {key: value for key, value in json.loads(line).items() if key not in ("number", "crc")} for line in lines
    ]
    changed = [json.dumps(record).encode() + b"\n" for record in change(records)]
    (folder / "samples.jsonl").write_bytes(b"".join(renumber(line, n) for n, line in enumerate(changed, 1)))


def rewrite_description(folder, change):
    document = json.loads((folder / "run.json").read_text())
    change(document)
    document["sha256"] = compute_checksum(document)
    (folder / "run.json").write_text(json.dumps(document))


def rewrite_report(folder, change):
    document = json.loads((folder / "report.json").read_text())
    change(document)
    (folder / "report.json").write_text(json.dumps(document))
    digest = sha256((folder / "report.json").read_bytes()).hexdigest()
    rewrite_log(folder, lambda all: [*all[:-1], {**all[-1], "sha256": digest}])


def fold_texts(records):
    """A log of a megabyte whose one reply has retrieved three gigabytes."""
    text = {"kind": "text", "digest": "0" * 32, "text": "x" * 10**6}
    first = {**records[0], "retrievedTexts": ["0" * 32] * 3000}
    return [text, first, *records[1:]]


FORGED = {
    "another run's log": lambda run: rewrite_log(run, lambda all: [*all[:-1], {**all[-1], "run": "x"}]),
    "a bomb": lambda run: rewrite_log(run, fold_texts),
    "not finished": lambda run: rewrite_log(run, lambda all: all[:-1]),
    "a score out of range": lambda run: rewrite_log(
        run, lambda all: [{**one, "scores": {"exact_match": {**one["scores"]["exact_match"], "value": 7}}}
                          if one["kind"] == "scores" and "exact_match" in one["scores"] else one for one in all]
    ),
    "fewer samples than it says": lambda run: rewrite_description(
        run, lambda all: all["fingerprint"]["datasets"][0].update(selected=10**9)
    ),
    "a negative number of samples": lambda run: rewrite_description(
        run, lambda all: all["fingerprint"]["datasets"][0].update(selected=-5)
    ),
    "no description": lambda run: (run / "run.json").write_text("[" * 100_000),
    "a baseline that it never had": lambda run: (run / "baseline.json").write_text("{}"),
    "another report": lambda run: (run / "report.json").write_text('{"verdict": "PASS"}'),
    "a report of another verdict": lambda run: rewrite_report(run, lambda all: all.update(verdict="FAIL")),
    "a report that is partial": lambda run: rewrite_report(run, lambda all: all.update(partial=True)),
    "a report of another run": lambda run: rewrite_report(run, lambda all: all.update(runId=OTHER_RUN)),
    "a report of another value": lambda run: rewrite_report(
        run, lambda all: all["datasets"][0]["metrics"]["exact_match"].update(value=0.25)
    ),
}  # fmt: skip


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_run_that_is_not_sound_has_faults(ci, forge):
    local = evaluate(ci)
    assert list_faults(local) == []
    forge(local)
    assert list_faults(local)


def test_a_run_with_faults_is_refused_and_forgotten(client, ci, projects):
    local = evaluate(ci)
    FORGED["a report of another value"](local)
    answer = push(client, local)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"]
    assert str(projects["shop"]) not in answer.text
    assert list_stored(projects) == []
    assert not list((projects["shop"] / ".evalspec" / "pushes").iterdir())


def test_what_is_sent_has_to_be_what_was_announced(client, ci, projects):
    local = evaluate(ci)
    files = [{"name": one.name, "size": one.size, "sha256": "0" * 64} for one in list_pushed_files(local)]
    answer = push(client, local, files=files)
    assert (answer.status_code, "checksum does not match" in answer.json()["detail"]) == (422, True)
    assert push(client, local).status_code == 201


def test_hostile_names_of_a_build_are_text(client, ci, projects):
    hostile = {"service": "x\u202e", "branch": "a" * 500, "commit": "\x1b[2J", "url": "javascript:alert(1)"}
    local = evaluate(ci)
    assert push(client, local, ci=hostile).status_code == 201
    assert client.get(f"/v1/runs/{local.name}").json()["origin"]["ci"] is None
    mark = json.loads((projects["shop"] / ".evalspec" / "runs" / local.name / "pushed.json").read_text())
    assert (mark["user"], mark["ci"]) == ("ana@example.com", None)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://evals.example.com/v1/", "https://evals.example.com"),
        ("https://v1", "https://v1"),
        ("https://evals.example.com/team/v1", "https://evals.example.com/team"),
    ],
)
def test_the_address_of_a_server_may_be_that_of_its_api(given, address):
    assert choose_server(given, {"EVALSPEC_TOKEN": "evs_ab_secret"}).url == address
