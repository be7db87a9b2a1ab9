"""A week of a team of five: 20 pushes, three promotions, two reviewers, an upgrade with data, and an outage."""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from threading import Event

import pytest
from sqlalchemy import update

import evalspec
from conftest import Project
from evalspec.service.database import migrate, open_database, writing
from evalspec.service.tables import ALERTS
from evalspec.service.tokens import Scope, create_token
from servers.ports import find_free_port
from servers.service import Server, wait_for, wait_for_alerts, write_project
from service.freeze_schema import SCHEMAS
from service.pages.shops import building
from service.test_alerts import SECRET, Receiver
from service.test_migrations import restore
from service.test_pushes import contents

TEAM = {"ana": Scope.ADMIN, "ben": Scope.REVIEW, "cleo": Scope.REVIEW, "ci": Scope.PUSH, "dan": Scope.READ}
GATE = {"baseline": "server:last-green/main", "anchor": "main", "alpha": None, "newFailures": None}
MONDAY = [("main", "Paris"), ("main", "Paris"), ("main", "Paris"), ("fix", "Rome")]
TUESDAY = [("main", "Rome"), ("main", "Paris"), ("fix", "Paris"), ("main", "Paris")]
THURSDAY = [("main", "Paris")] * 4 + [("fix", "Paris")]
FRIDAY = [("main", "Rome"), ("main", "Paris"), ("fix", "Paris"), ("main", "Paris")]
CHUNK = 100_000
SLOW_PUSH = """
import os, sys, time
from evalspec.__main__ import main
from evalspec.api.pushing import _Pushing

async def send(pushing, push_id, file, chunk):
    while file.name == "samples.jsonl" and not os.path.exists(os.environ["MAY_GO_ON"]):
        time.sleep(0.05)
    return await send_now(pushing, push_id, file, chunk)

send_now, _Pushing._send_chunk = _Pushing._send_chunk, send
sys.exit(main())
"""


class HeldAnswers(list[int]):
    """The script of a receiver that keeps everybody waiting until `release`, and accepts only what is sent then."""

    def __init__(self) -> None:
        super().__init__([200])
        self.has_arrived, self.release = Event(), Event()

    def pop(self, _index: int = -1) -> int:  # type: ignore[override]
        if self.release.is_set():
            return 200
        self.has_arrived.set()
        self.release.wait()
        return 503


def write_older_database(path, scratch):
    """The database of a server of an older version: the tokens of the team, and an audit log. Return the tokens."""
    engine = open_database(f"sqlite:///{scratch}")
    migrate(engine)
    tokens = {
        name: create_token(engine, f"{name}@example.com", [scope], ["shop"], 10**6) for name, scope in TEAM.items()
    }
    engine.dispose()
    restore(f"sqlite:///{path}", SCHEMAS / "0002")
    with sqlite3.connect(path) as older:
        older.execute("ATTACH ? AS newer", (str(scratch),))
        names = ", ".join(column[1] for column in older.execute("PRAGMA main.table_info(tokens)"))
        older.execute(f"INSERT INTO tokens ({names}) SELECT {names} FROM newer.tokens")
        older.execute("UPDATE audit SET namespace = 'shop', at = ?", (time.time() - 7 * 86_400,))
    older.close()
    return tokens


def gated(gate):
    return {"thresholds": {"exact_match": 0.5}, "ciGate": gate}


class Team:
    """A server with the project shop, and the machine that pushes to it."""

    def __init__(self, folder, capsys, monkeypatch, port):
        self.shop, self.ci = write_project(folder / "shop"), write_project(folder / "ci", **gated(True))
        database = folder / "service.db"
        self.tokens = write_older_database(database, folder / "scratch.db")
        self.engine = open_database(f"sqlite:///{database}")
        options = ("--workers", "0", "--max-body", str(CHUNK), "--alert", "shop:HOOK=SECRET", "--alert-private")
        self.server = Server({"shop": self.shop}, f"sqlite:///{database}", folder / "server.log", *options)
        self.hook = {"HOOK": f"http://127.0.0.1:{port}/hook", "SECRET": SECRET}
        self.capsys, self.monkeypatch, self.runs = capsys, monkeypatch, []

    def start(self):
        self.server.start(**self.hook)

    def command(self, user, *arguments, folder=None):
        with self.monkeypatch.context() as there:
            there.chdir(folder or self.ci)
            there.setenv("EVALSPEC_TO", self.server.url)
            there.setenv("EVALSPEC_TOKEN", self.tokens[user])
            done = Project(self.ci, self.capsys)(*arguments)
        assert done.code == 0, done.err
        return done

    def client(self, user):
        client = self.server.client("read")
        client.headers["Authorization"] = f"Bearer {self.tokens[user]}"
        return client

    def evaluate(self, branch, answer, contexts=0):
        """A run of CI, gated by the newest green run of main. `contexts`: characters of retrieved text a sample."""

        def agent(question):
            return {"response": answer, "retrieved_contexts": [question * (contexts // len(question))]}

        with building(branch), self.monkeypatch.context() as there:
            there.setenv("EVALSPEC_TO", self.server.url)
            there.setenv("EVALSPEC_TOKEN", self.tokens["ci"])
            run = evalspec.evaluate(self.ci / "agent.yaml", agent=agent, store=self.ci / ".evalspec")
        assert run.verdict == ("PASS" if answer == "Paris" else "FAIL"), run.reasons
        self.runs.append((branch, run))
        return run

    def live(self, day):
        for branch, answer in day:
            self.command("ci", "runs", "push", self.evaluate(branch, answer).id)
        return self.runs[-1][1]

    def promote(self, user, run, *more):
        self.command(user, "runs", "promote", run.id, *more)

    def label(self, user, run, verdict):
        with self.client(user) as client:
            given = client.post(f"/v1/runs/{run.id}/labels", json={"sample": "s1", "verdict": verdict})
            assert given.status_code == 201, given.text

    def list_alerts(self):
        with self.client("dan") as client:
            return client.get("/v1/alerts").json()["alerts"]

    def let_time_pass(self):
        """End pauses between attempts, and the claims of senders that died."""
        with writing(self.engine) as connection:
            connection.execute(update(ALERTS).values(next_at=0))

    def list_changes(self):
        """The runs whose verdict is another than that of the run of the branch before."""
        newest, changed = {}, []
        for branch, run in self.runs:
            if newest.setdefault(branch, run.verdict) != run.verdict:
                changed.append(run.id)
            newest[branch] = run.verdict
        return changed


@pytest.fixture
def receiver():
    receiver = Receiver(find_free_port())  # the test ends it, and starts another there
    yield receiver
    receiver.stop()


@pytest.fixture
def team(tmp_path, capsys, monkeypatch, receiver):
    team = Team(tmp_path, capsys, monkeypatch, int(receiver.url.split(":")[2].split("/")[0]))
    yield team
    if team.server.process.poll() is None:
        team.server.stop()
    team.engine.dispose()


def break_down(team, receiver):
    """Kill the server while it gets a run and sends an alert. Return what the receiver got meanwhile."""
    receiver.stop()
    team.live([("main", "Rome"), ("fix", "Rome")])
    wait_for(lambda: any(one["error"] for one in team.list_alerts()))
    back = Receiver(int(team.hook["HOOK"].split(":")[2].split("/")[0]))
    held = back.script = HeldAnswers()
    team.let_time_pass()
    assert held.has_arrived.wait(90)
    large = team.evaluate("main", "Paris", contexts=6 * CHUNK)
    may_go_on = team.shop.parent / "may_go_on"
    environment = {**os.environ, "EVALSPEC_TOKEN": team.tokens["ci"], "EVALSPEC_TO": team.server.url}
    environment["MAY_GO_ON"] = str(may_go_on)
    command = [sys.executable, "-c", SLOW_PUSH, "runs", "push", large.id]
    with subprocess.Popen(command, cwd=team.ci, env=environment, stderr=subprocess.DEVNULL):
        staged = team.shop / ".evalspec" / "pushes"
        wait_for(lambda: [path for path in staged.glob("*/*/inputs.jsonl") if path.stat().st_size])
        team.server.process.kill()
        team.server.process.wait()
        held.release.set()
        may_go_on.touch()
        assert not (team.shop / ".evalspec" / "runs" / large.id).exists()
        team.start()
    team.command("ci", "runs", "push", large.id)  # changes nothing if the interrupted one has continued
    team.let_time_pass()
    return back


@pytest.mark.timeout(1800)
def test_a_week_loses_nothing_and_sends_each_alert_once(team, receiver, tmp_path):
    team.start()
    wait_for_alerts(team.engine)
    first = team.live(MONDAY[:1])
    team.promote("ben", first, "--as", "server:main")
    write_project(team.ci, **gated(GATE))
    team.live(MONDAY[1:])

    good = team.live(TUESDAY)
    for user, verdict in (("ben", "good"), ("cleo", "bad")):
        team.label(user, good, verdict)
    team.promote("cleo", good, "--as", "server:main", "--anchor", "the new corpus is harder")
    wait_for(lambda: len(receiver.bodies) == 3)

    back = break_down(team, receiver)

    team.live(THURSDAY)
    last = team.live(FRIDAY)
    for user, verdict in (("ben", "good"), ("cleo", "good")):
        team.label(user, last, verdict)
    team.promote("ben", last, "--as", "server:release")

    changes = team.list_changes()
    wait_for(lambda: [one["status"] for one in team.list_alerts()] == ["delivered"] * len(changes))
    back.stop()
    accepted = [(body["id"], body["run_id"]) for body in receiver.bodies + back.bodies]
    assert Counter(run for _, run in accepted) == Counter(changes), "each change is one alert, accepted once"
    assert sorted(id for id, _ in accepted) == sorted(one["id"] for one in team.list_alerts())

    ids = [run.id for _, run in team.runs]
    assert len(ids) == 20
    with team.client("ana") as client:
        listed = wait_for(lambda: len(found := client.get("/v1/runs?limit=100").json()["runs"]) == 20 and found)
        assert sorted(run["runId"] for run in listed) == sorted(ids)
        history = [(one["name"], one["run_id"]) for one in client.get("/v1/baselines").json()["promotions"]]
        assert sorted(history) == sorted([("main", first.id), ("main", good.id), ("release", last.id)])
        older = client.get("/v1/audit", params={"action": "a action"}).json()["entries"]
        assert len(older) == 1, "the audit log of the older version is there"
    with team.client("ben") as client:  # people see the labels of others after their own
        for run, verdict in ((good, "bad"), (last, "good")):
            labels = client.get(f"/v1/runs/{run.id}/labels").json()["labels"]
            found = {(one["labeller"], one["verdict"]) for one in labels}
            assert found == {("ben@example.com", "good"), ("cleo@example.com", verdict)}
    (tmp_path / "pulled").mkdir()
    team.command("dan", "runs", "pull", "--all", folder=tmp_path / "pulled")
    for store in (team.shop, tmp_path / "pulled"):
        runs = store / ".evalspec" / "runs"
        assert sorted(path.name for path in runs.glob("2*")) == sorted(ids)
        assert all(contents(runs / id) == contents(team.ci / ".evalspec" / "runs" / id) for id in ids)
