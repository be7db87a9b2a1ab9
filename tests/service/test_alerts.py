"""Alerts, sent by a server to a receiver on loopback that verifies the signatures by itself."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from sqlalchemy import update

from evalspec.cli.main import run as run_command
from evalspec.service import alerts, run_index, webhooks
from evalspec.service.database import DAY_SECONDS, reading, writing
from evalspec.service.tables import ALERTS
from evalspec.service.webhooks import Webhook, send_signed
from servers.ports import find_free_port
from servers.service import LocalServer, wait_for, wait_for_alerts
from service.pages.shops import building
from stored_log import edit_description

KEY = b"0123456789abcdef0123456789abcdef"
read_real_clock = time.time
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


class Receiver:
    """A webhook. It keeps the bodies that are signed rightly, and answers with the next status of `script`, or 200.

    `refused`: the id of a run, alerts about which are never accepted.
    """

    def __init__(self, port: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.script: list[int] = []
        self.refused: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                id, moment = self.headers["webhook-id"], self.headers["webhook-timestamp"]
                signed = hmac.new(KEY, b".".join([id.encode(), moment.encode(), content]), hashlib.sha256).digest()
                is_right = self.headers["webhook-signature"] == "v1," + base64.b64encode(signed).decode()
                is_recent = abs(read_real_clock() - int(moment)) < 300
                status = 401 if not (is_right and is_recent) else outer.script.pop(0) if outer.script else 200
                outer.ids.append(id)
                body = json.loads(content)
                if outer.refused is not None and body.get("run_id") == outer.refused:
                    status = 400
                if status == 200:
                    outer.bodies.append(body)
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks/T0/s3cr3t?a=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


@pytest.fixture
def database(request, tmp_path):
    if hasattr(request, "param"):
        return request.getfixturevalue("cluster").create_database()
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture(autouse=True)
def quickly(monkeypatch, projects):
    """Look and retry at once, and gate the project."""
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(alerts, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(alerts, "FIRST_RETRY_SECONDS", 0.02)
    gate(projects["shop"])


def gate(folder, **evaluation):
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    manifest["spec"]["evaluation"] |= {"thresholds": {"exact_match": 0.5}, "ciGate": True, **evaluation}
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))


@pytest.fixture
def alerting(settings, engine, monkeypatch) -> Iterator[Callable[..., LocalServer]]:
    """A function that starts a server with alerts of namespace shop. It has looked at the runs when it returns."""
    started = []

    def start(url: str, *, allows_private: bool = True) -> LocalServer:
        monkeypatch.setenv("HOOK", url)
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        hooks = {"shop": Webhook("HOOK", "HOOK_SECRET", allows_private)}
        given = replace(settings, alerts=hooks, public_url="https://evals.example.com")
        started.append(LocalServer(given, engine).__enter__())
        wait_for_alerts(engine)
        return started[-1]

    yield start
    for server in started:
        server.stop()


def states_of(server: LocalServer) -> list[dict[str, Any]]:
    with server.client("read") as client:
        found: list[dict[str, Any]] = client.get("/v1/alerts").json()["alerts"]
    return found


def test_a_change_of_a_branch_is_sent_once(alerting, receiver, add_run):
    with building("main"):
        add_run()
    server = alerting(receiver.url)
    with building("main"):
        add_run()
        failed = add_run("Rome")
        add_run("Rome")
    with building("other"):
        add_run("Rome")
    with building("main"):
        add_run()
    wait_for(lambda: len(receiver.bodies) == 2)
    down, up = receiver.bodies
    assert (down["verdict"], down["previous_verdict"], down["branch"]) == ("FAIL", "PASS", "main")
    assert (up["verdict"], up["previous_verdict"], up["branch"]) == ("PASS", "FAIL", "main")
    assert (down["event"], down["project"], down["run_id"]) == ("verdict_changed", "shop", failed.id)
    assert down["run_url"] == f"https://evals.example.com/runs/{failed.id}?namespace=shop"
    assert {"dataset": "qa", "metric": "exact_match", "value": 0.0, "passed": False} in down["metrics"]
    assert down["text"].splitlines() == [
        "*PASS → FAIL*: project `shop`, branch `main`, manifest `agent.yaml`",
        "`qa`: `exact_match` is 0 ✗",
        down["run_url"],
    ]
    assert "question" not in json.dumps(down) and "Rome" not in json.dumps(down), "no text of a sample"
    wait_for(lambda: {one["status"] for one in states_of(server)} == {"delivered"})
    assert [one["id"] for one in states_of(server)] == [up["id"], down["id"]]
    server.stop()
    alerting(receiver.url)
    time.sleep(0.2)
    assert receiver.ids == [down["id"], up["id"]], "neither the runs without a change nor a restart send another"


def test_the_changes_of_a_branch_are_sent_and_listed_in_the_order_of_its_runs(alerting, receiver, add_run):
    with building("main"):
        add_run()
        alerting(receiver.url).stop()
        runs = [add_run("Paris" if number % 2 else "Rome") for number in range(9)]
    server = alerting(receiver.url)
    wait_for(lambda: len(receiver.bodies) == 9)
    assert [body["run_id"] for body in receiver.bodies] == [run.id for run in runs]
    assert [one["body"]["run_id"] for one in states_of(server)] == [run.id for run in runs[::-1]]


def test_an_alert_that_is_not_accepted_holds_back_those_of_its_branch_for_a_day(alerting, receiver, add_run, engine):
    for branch in ("main", "other"):
        with building(branch):
            add_run()
    alerting(receiver.url).stop()
    with building("main"):
        failed, passed = add_run("Rome"), add_run()
    with building("other"):
        other = add_run("Rome")
    receiver.refused = failed.id
    server = alerting(receiver.url)
    states = wait_for(lambda: [one["attempts"] for one in states_of(server)][-1:] > [3] and states_of(server))
    (of_other, of_passed, of_failed) = [one["id"] for one in states]
    assert [body["run_id"] for body in receiver.bodies] == [other.id] and of_passed not in receiver.ids
    with writing(engine) as connection:
        old = update(ALERTS).where(ALERTS.c.id == of_failed)
        connection.execute(old.values(created_at=ALERTS.c.created_at - DAY_SECONDS))
    wait_for(lambda: len(receiver.bodies) == 2)
    wait_for(lambda: [one["status"] for one in states_of(server)] == ["delivered", "delivered", "failed"])
    assert receiver.bodies[-1]["run_id"] == passed.id and receiver.ids.count(of_other) == 1


def test_neither_a_fork_nor_a_wrong_clock_changes_a_branch(alerting, receiver, add_run, projects):
    alerting(receiver.url)
    with building("main"):
        ahead = projects["shop"] / ".evalspec/runs" / add_run().id
        ahead.rename(ahead.with_name(f"2099{ahead.name[4:]}"))
        add_run()
    with building("main", "7"):
        add_run("Rome")
        add_run()
    with building("main"):
        failed = add_run("Rome")
    both = wait_for(lambda: receiver.bodies[1:] and receiver.bodies)
    pull, own = sorted(both, key=lambda one: one["pull_request"] is None)
    assert (pull["branch"], pull["pull_request"], pull["verdict"]) == ("main", "7", "PASS")
    assert "branch `main`, pull request `7`, manifest" in pull["text"]
    assert (own["run_id"], own["pull_request"], own["previous_verdict"]) == (failed.id, None, "PASS")


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_server_whose_clock_is_late_sends_the_alerts_of_now(alerting, receiver, add_run, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: read_real_clock() - 1200)
    alerting(receiver.url)
    add_run()
    failed = add_run("Rome")
    (body,) = wait_for(lambda: receiver.bodies)
    assert (body["run_id"], len(receiver.ids)) == (failed.id, 1), "its signature is of now too"


def test_no_change_is_missed_among_many_runs(alerting, receiver, add_run, monkeypatch):
    for branch in ("main", "other"):
        with building(branch):
            add_run()
    alerting(receiver.url).stop()
    monkeypatch.setattr(alerts, "_RUNS_LOOKED_AT", 1)
    for branch in ("main", "other"):
        with building(branch):
            add_run("Rome")
    alerting(receiver.url)
    assert {one["branch"] for one in wait_for(lambda: receiver.bodies[1:] and receiver.bodies)} == {"main", "other"}


def test_a_report_without_a_value_stops_no_alert():
    """As another version of evalspec may write it. The server shows such a report as it is."""
    broken = {"dataset": "qa", "metric": "exact_match", "value": None, "passed": False}
    names = ("branch", "pull_request", "manifest", "previous_verdict")
    body: dict[str, object] = {**dict.fromkeys(names, "x"), "project": "shop", "verdict": "FAIL", "run_url": "u"}
    body |= {"event": "verdict_changed", "metrics": [broken]}
    assert "exact_match" not in alerts._render_text(body)


def test_names_cannot_write_markup_or_move_the_cursor(alerting, receiver, add_run, projects):
    manifest = projects["shop"] / "agent.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["spec"]["evaluation"]["datasets"][0]["name"] = "q\u202e<@U1>\x85" + "long" * 100
    manifest.write_text(yaml.safe_dump(content))
    alerting(receiver.url)
    with building("<!channel>&`x`*"):
        add_run()
        add_run("Rome")
    (body,) = wait_for(lambda: receiver.bodies)
    said, broken, _ = body["text"].splitlines()
    assert "branch `&lt;!channel&gt;&amp;'x'*`, manifest" in said and said.count("`") == 6
    assert broken.startswith("`q\\u202e&lt;@U1&gt;") and len(broken) < 300
    assert f"{said}{broken}".isprintable() and body["metrics"][0]["dataset"].isprintable()


def test_an_alert_is_retried_with_its_id_until_the_receiver_is_there(alerting, add_run, engine):
    port = find_free_port()
    server = alerting(f"http://127.0.0.1:{port}/s3cr3t")
    add_run()
    add_run("Rome")
    (waiting,) = wait_for(lambda: [one for one in states_of(server) if one["attempts"] > 1])
    assert (waiting["status"], waiting["error"]) == ("pending", "no answer: ConnectError")
    receiver = Receiver(port)
    receiver.script = [500, 302]
    (body,) = wait_for(lambda: receiver.bodies)
    wait_for(lambda: states_of(server)[0]["status"] == "delivered")
    assert receiver.ids == [waiting["id"]] * 3 == [body["id"]] * 3, "a redirect is not followed"
    assert body["branch"] is None
    with reading(engine) as connection:
        assert not any("s3cr3t" in str(value) for value in connection.execute(ALERTS.select()).one())
    receiver.stop()


def test_the_page_shows_states_and_the_receiver_without_its_secrets_and_sends_a_test(alerting, add_run):
    receiver = Receiver()
    receiver.script = [500]
    server = alerting(receiver.url)
    html = {"Accept": "text/html", "Origin": server.url}
    with server.client("read") as reader, server.client("admin", user="root@example.com") as admin:
        page = reader.get("/alerts", headers=html).text
        assert ("127.0.0.1" in page, "HOOK" in page, "s3cr3t" in page, "whsec" in page) == (True, True, False, False)
        assert "There are no alerts yet" in page and "Send a test" not in page
        assert reader.post("/alerts", headers=html).status_code == 403
        assert "Send a test" in admin.get("/alerts", headers=html).text
        assert admin.post("/alerts", headers=html).status_code == 303
        (body,) = wait_for(lambda: receiver.bodies)
        assert (body["event"], body["text"]) == ("test", "a test of the alerts of project `shop`")
        with building("<b>main"):
            add_run()
            failed = add_run("Rome")
        wait_for(lambda: [one["status"] for one in states_of(server)] == ["delivered"] * 2)
        page = reader.get("/alerts", headers=html).text
        assert ("verdict changed: PASS → FAIL" in page, "&lt;b&gt;main" in page) == (True, True)
        assert f'href="/runs/{failed.id}"' in page and ">2</td>" in page, "the test was sent twice"
    receiver.stop()


def test_an_alert_that_is_being_sent_is_not_sent_by_another(alerting, receiver, add_run, engine, settings):
    receiver.script = [500] * 50
    server = alerting(receiver.url)
    add_run()
    add_run("Rome")
    wait_for(lambda: receiver.ids)
    server.stop()
    with writing(engine) as connection:
        connection.execute(update(ALERTS).values(next_at=0))
    claimed = alerts._claim(engine, "shop")
    assert claimed is not None and alerts._claim(engine, "shop") is None
    with writing(engine) as connection:  # its sender died
        connection.execute(update(ALERTS).values(next_at=0))
    receiver.script = []
    alerting(receiver.url)
    wait_for(lambda: receiver.bodies)
    alerts._deliver(engine, Webhook("NONE", "NONE"), claimed)
    assert states_of(alerting(receiver.url))[0]["status"] == "delivered", "a late sender changes nothing"


def test_a_run_that_a_limit_ended_is_reported(alerting, receiver, projects, monkeypatch):
    folder = projects["shop"]
    (folder / "slow.py").write_text("import time\n\ndef answer(question):\n    time.sleep(1.1)\n    return 'Paris'\n")
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    manifest["spec"]["api"] = {"python": "slow:answer"}
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))
    alerting(receiver.url)
    monkeypatch.chdir(folder)
    assert run_command(["evaluate", "-j", "1", "--max-time", "1", "--no-content"]) == 3
    (body,) = wait_for(lambda: receiver.bodies)
    assert (body["event"], body["verdict"], body["previous_verdict"]) == ("budget_spent", "INCOMPLETE", None)


def test_a_judge_that_has_drifted_is_reported_once(alerting, receiver, add_run, projects):
    alerting(receiver.url).stop()
    for state in ("unchanged", "drifted", "drifted"):
        folder = projects["shop"] / ".evalspec" / "runs" / add_run().id
        recorded = json.loads((folder / "run.json").read_text())["fingerprint"]
        drifts = {"qa": {"exact_match": {"calibration": "R", "state": state}}}
        edit_description(folder, fingerprint={**recorded, "judgeDrifts": drifts})
    server = alerting(receiver.url)
    (body,) = wait_for(lambda: receiver.bodies)
    assert (body["event"], body["verdict"], body["previous_verdict"]) == ("judge_drifted", "PASS", "PASS")
    assert len(states_of(server)) == 1


PRIVATE = ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "0.0.0.0", "2130706433", "224.0.0.1"]
PRIVATE_V6 = ["::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]


@pytest.mark.parametrize("host", [*PRIVATE, *(f"[{one}]" for one in PRIVATE_V6)])
def test_only_public_addresses_are_used(monkeypatch, host):
    monkeypatch.setenv("HOOK", f"https://{host}/hook")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    refused = send_signed(Webhook("HOOK", "HOOK_SECRET"), "a", b"{}", 0)
    assert refused == "its host has an address that is not public; serve --alert-private permits it"


def test_a_receiver_that_never_ends_its_answer_is_left(monkeypatch, agent):
    agent.delay = 1.5
    monkeypatch.setattr(webhooks, "SEND_SECONDS", 0.3)
    monkeypatch.setenv("HOOK", agent.url)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    assert send_signed(Webhook("HOOK", "HOOK_SECRET", allows_private=True), "a", b"{}", 0) == "no answer within 0 s"


@pytest.mark.parametrize(
    ("given", "values", "said"),
    [
        ("shop=HOOK", {}, "'shop=HOOK' is not a webhook of a namespace"),
        ("docks:HOOK=KEY", {}, "'docks:HOOK=KEY' is not a webhook of a namespace"),
        ("shop:HOOK=KEY", {"KEY": SECRET}, "the variable HOOK has no url of a webhook"),
        ("shop:HOOK=KEY", {"HOOK": "http://hooks.example/s3cr3t", "KEY": SECRET}, "--alert-private permits http"),
        ("shop:HOOK=KEY", {"HOOK": "https://a:s3cr3t@hooks.example", "KEY": SECRET}, "HOOK has no url of a webhook"),
        ("shop:HOOK=KEY", {"HOOK": "https://hooks.example", "KEY": "s3cr3t"}, "the variable KEY has no signing secret"),
    ],
)
def test_options_are_checked_without_showing_values(projects, database, monkeypatch, capsys, given, values, said):
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    command = ["serve", "--check", "--database", database, "--project", f"shop={projects['shop']}", "--alert", given]
    assert run_command(command) == 2
    shown = capsys.readouterr().err
    assert said in shown and "s3cr3t" not in shown and SECRET not in shown
