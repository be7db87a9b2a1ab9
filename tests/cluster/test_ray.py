"""A run on the nodes of Ray: the numbers, the secrets and the failures of a run in one process, and no other."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

from cli.test_shards import comparable
from servers.ray_nodes import TOKEN, RayNodes
from servers.scripted_judge import throttled

AGENT = """
import os, time
from pathlib import Path

def answer(question):
    with Path(os.environ["ASKED"]).open("a") as asked:
        asked.write(question + "\\n")
    number = int(question.rpartition(" ")[2])
    with Path(os.environ["ASKED"] + ".at_once").open("a") as at_once:
        at_once.write("+")
    while "MAY_ANSWER" in os.environ and not Path(os.environ["MAY_ANSWER"]).exists():
        time.sleep(0.05)
    time.sleep(float(os.environ.get("SECONDS", "0.02")))
    with Path(os.environ["ASKED"] + ".at_once").open("a") as at_once:
        at_once.write("-")
    if os.environ.get("FATAL") == str(number):
        os._exit(9)
    if number % 10 == 3:
        raise RuntimeError("no answer")
    return f"{'Paris' if number % 4 else 'Lyon'} {os.environ.get('NODE_TOKEN', '')}"
"""
UNTIL_FOUR = """
def wait_for_four():
    while Path(os.environ["ASKED"] + ".at_once").read_text().count("+") < 4:
        time.sleep(0.05)
"""
SCORER = "def length(exchange):\n    return min(1.0, len(exchange.reply.answer) / 100)\n"
FAILING = ["s13", "s23", "s3", "s33"]
ON_NODES = "sk-of-the-nodes-4711"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Two raylets. They have a value that the driver lacks."""
    variables = {"NODE_TOKEN": ON_NODES, "ASKED": str(tmp_path_factory.mktemp("asked") / "asked")}
    found = RayNodes([variables, variables])
    yield found
    found.close()


@pytest.fixture
def on_nodes(nodes, monkeypatch):
    """The options for a run there."""
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    return "--on", nodes.address


@pytest.fixture
def bot(project, monkeypatch, tmp_path):
    """A project with an agent and a scorer in Python, and a conversation."""
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    (project.folder / "bot.py").write_text(AGENT)
    (project.folder / "scorers.py").write_text(SCORER)
    (project.folder / ".env").write_text("SECRET=sk-beside-the-manifest-1\n")
    endpoint = {"headers": {"Authorization": "Bearer ${env:NODE_TOKEN}"}, "timeoutSeconds": 120}
    project.api = {"python": "bot:answer", "chatEndpoint": endpoint}
    own = {"name": "own", "scorer": "scorers:length", "range": [0, 1]}
    samples = [{"id": f"s{n}", "input": f"Capital of France? {n}"} for n in range(40)]
    project.dataset("qa", samples, metrics=["string_match", "rouge", own, "latency_p95"])
    project.evaluation["thresholds"] = {"string_match": 0.4}
    project.evaluation["ciGate"] = {"maxErrorRate": 0.5, "minCoverage": 0.5}
    return project


def test_two_raylets_find_what_one_process_finds_and_no_secret_travels(bot, nodes, on_nodes, monkeypatch):
    """The smoke test. The agent echoes a value that only the nodes have."""
    monkeypatch.setenv("NODE_TOKEN", ON_NODES)
    plain = bot.evaluate("--json", "--repeat", "2")
    shutil.rmtree(".evalspec")
    monkeypatch.delenv("NODE_TOKEN")
    spread = bot.evaluate("--json", "--repeat", "2", "-j", "3", *on_nodes)
    assert spread.code == plain.code == 0, spread.err
    assert "2 nodes on 1 machine of Ray" in spread.err
    assert comparable(spread.document) == comparable(plain.document)
    at_once = accumulate(1 if one == "+" else -1 for one in Path(nodes.variables["ASKED"] + ".at_once").read_text())
    assert max(at_once) == 3, "the concurrency is that of all nodes together"
    stored = "".join(path.read_text(errors="replace") for path in Path(".evalspec").rglob("*") if path.is_file())
    assert "[redacted:" in stored
    for secret in (ON_NODES, "sk-beside-the-manifest-1"):
        assert secret not in stored
        written = [path for path in nodes.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert written == []


def test_recorded_replies_need_no_agent_on_nodes(bot, on_nodes):
    bot.api = {}
    bot.evaluation["datasets"][0]["metrics"].remove("latency_p95")
    Path("replies.jsonl").write_text("".join(f'{{"id": "s{n}", "response": "Paris"}}\n' for n in range(40)))
    plain = bot.evaluate("--json", "--responses", "replies.jsonl")
    spread = bot.evaluate("--json", "--responses", "replies.jsonl", *on_nodes)
    assert spread.code == plain.code == 0, spread.err
    assert comparable(spread.document) == comparable(plain.document)


def list_failed(document):
    return sorted(one["id"] for one in document["datasets"][0]["samples"] if one["status"] == "failed")


def asked(bot):
    """How often each question was asked, of a run whose nodes write beside the project."""
    return Counter((bot.folder / "asked").read_text().split("\n")[:-1])


@pytest.fixture
def own_nodes(bot, monkeypatch):
    """Two raylets that a test may kill, and the options for a run there. The agent waits for `let_answer`."""
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    variables = {"ASKED": str(bot.folder / "asked"), "SECONDS": "0.3", "MAY_ANSWER": str(bot.folder / "may_answer")}
    found = RayNodes([variables, variables])
    yield found
    found.close()


def start(bot, *arguments):
    """A run in a process of its own, once it has asked something."""
    bot.write()
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-j", "4", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (bot.folder / "asked").exists() and process.poll() is None:
        time.sleep(0.05)
    return process


def let_answer(bot):
    """Let the agent on nodes answer, so that no run has ended before what a test does to it."""
    (bot.folder / "may_answer").touch()


def test_a_lost_machine_accuses_nobody(bot, own_nodes):
    process = start(bot, "--on", own_nodes.address, "--json")
    own_nodes.kill(1)
    let_answer(bot)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "a node has ended" in err
    assert list_failed(json.loads(out)) == FAILING
    assert max(asked(bot).values()) <= 2


def test_a_lost_ray_costs_what_is_in_flight_and_the_run_goes_on_here(bot, own_nodes):
    process = start(bot, "--on", own_nodes.address)
    own_nodes.close()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, ""), err
    resume = next(line for line in err.splitlines() if "to resume" in line).partition("evaluate ")[2].split()
    assert "Ray has ended" in err
    resumed = bot("evaluate", *resume, "--json")
    assert resumed.code == 0, resumed.err
    assert len(asked(bot)) == 40
    again = sum(asked(bot).values()) - 40
    assert again <= 2 * 4, "only what was in flight, or had just been answered, is asked again"


def test_a_question_that_ends_processes_is_asked_twice_and_has_failed(bot, own_nodes):
    """The agent ends the process, and a scorer the thread or the task that its node scores in."""
    (bot.folder / "bot.py").write_text(AGENT.replace('os.environ.get("FATAL")', "'7'"))
    raising = """    if exchange.sample.id == "s9":
        raise KeyboardInterrupt
    if exchange.sample.id == "s11":
        raise InvalidInput("no")
"""
    scorer = SCORER.replace("    return", f"{raising}    return")
    (bot.folder / "scorers.py").write_text("from evalspec.base.errors import InvalidInput\n" + scorer)
    let_answer(bot)
    found = bot.evaluate("--on", own_nodes.address, "--json")
    assert "two processes ended while they worked on it" in found.out
    assert asked(bot)["Capital of France? 7"] == 2
    own = {one["id"]: one["scores"]["own"]["status"] for one in found.document["datasets"][0]["samples"]}
    assert (own["s8"], own["s9"], own["s11"]) == ("scored", "failed", "failed")
    assert {*list_failed(found.document)} - {"s9", "s11"} == {*FAILING, "s7"}


def test_a_terminated_run_ends_with_its_nodes(bot, own_nodes):
    process = start(bot, "--on", own_nodes.address)
    process.send_signal(signal.SIGTERM)
    let_answer(bot)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "to resume" in err
    before = sum(asked(bot).values())
    time.sleep(2)
    assert sum(asked(bot).values()) <= before + 4


def test_a_value_that_differs_between_machines_is_an_error_before_the_first_request(bot, nodes, on_nodes, monkeypatch):
    monkeypatch.setenv("NODE_TOKEN", "another-value-here")
    found = bot.evaluate(*on_nodes)
    assert (found.code, found.out) == (2, "")
    assert "env:NODE_TOKEN has another value on" in found.err


@pytest.mark.parametrize(
    ("setting", "options", "message"),
    [
        ({}, ("--shard", "1/2"), "--shard does not go with ray: a shard is worked on in one process"),
        ({"judge": {"apiKey": "sk-written-down-1234567890"}}, (), "a literal credential does not go with ray"),
        ({"run": {"on": "rays"}}, (), "spec.evaluation.run.on"),
    ],
)
def test_what_cannot_be_spread_is_refused(bot, setting, options, message):
    bot.evaluation |= {"run": {"on": "ray"}} | setting
    found = bot.evaluate(*options)
    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_the_option_takes_the_place_of_the_manifest(bot):
    bot.evaluation["run"] = {"on": "ray:127.0.0.1:1", "nodes": 2}
    assert bot.evaluate("--on", "here").code == 0


def test_the_plan_lists_what_nodes_get(bot):
    bot.evaluation["run"] = {"on": "ray"}
    bot.write()
    assert "nodes of ray get agent.yaml, bot.py, scorers.py, and samples" in bot("plan", "agent.yaml").out


def test_a_place_that_is_none_is_an_error(bot):
    found = bot.evaluate("--on", "slurm")
    assert (found.code, found.out) == (2, "")
    assert "--on: there is no place 'slurm'. write here, ray or ray:HOST:PORT" in found.err


def test_the_manifest_as_people_write_it_names_a_place(bot):
    """YAML reads a bare `on` as true."""
    bot.write()
    manifest = Path("agent.yaml")
    manifest.write_text(
        manifest.read_text().replace("  evaluation:\n", "  evaluation:\n    run: {on: ray, nodes: 2}\n")
    )
    assert "nodes of ray get agent.yaml" in bot("plan", "agent.yaml").out


def test_files_that_are_too_large_for_nodes_are_refused_before_there_is_a_run(bot):
    (bot.folder / "scorers.py").write_text(SCORER + "#" * (51 << 20))
    found = bot.evaluate("--on", "ray")
    assert (found.code, found.out, Path(".evalspec").exists()) == (2, "", False)
    assert "--on: nodes need files of 51 MiB, and get 50 at most. the largest is scorers.py" in found.err


def test_a_ray_that_nobody_reaches_is_said_at_once(bot):
    found = bot.evaluate("--on", "ray:127.0.0.1:1")
    assert found.code == 3
    assert "no Ray can be reached at 127.0.0.1:1" in found.err


@pytest.fixture
def judged(bot, judge):
    """The project with a judged metric."""
    rubric = {"name": "tone", "rubric": "Is it kind? {response}", "labels": {"kind": 1, "rude": 0}}
    bot.evaluation["datasets"][0]["metrics"] = ["string_match", rubric]
    bot.evaluation["judge"] = {"model": "m", "baseUrl": judge.base_url, "apiKey": "x", "maxRetries": 1}
    bot.evaluation["thresholds"] = {"string_match": 1.0, "tone": 0.5}
    return bot


def test_all_of_a_limit_is_used_over_sessions_and_nothing_is_asked_once_the_verdict_is_certain(judged, judge, on_nodes):
    """Two nodes could not share seven calls equally."""
    for limit, most in (("7", 7), ("7", 7), ("9", 9)):
        resume = ("--resume",) if judge.chats else ()
        assert judged.evaluate(*on_nodes, "--max-judge-calls", limit, *resume).code in (1, 3)
        assert len(judge.chats) == most
    assert judged.evaluate(*on_nodes, "--fail-fast").code == 1
    assert len(judge.chats) == 9


def test_nodes_share_the_cache_of_the_driver_and_one_that_is_refused_stops_all(judged, judge, on_nodes, monkeypatch):
    monkeypatch.setenv("NODE_TOKEN", ON_NODES)
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    judge.script = ["ok"] * 5 + [throttled(9)]
    judged.evaluate(*on_nodes)
    assert len(judge.chats) == 36 + 1
    refused = judge.chats[5].arrived
    assert [one for one in judge.chats if refused + 7 < one.arrived < refused + 8.9] == []
    judged.evaluate("--on", "here")
    judged.evaluate(*on_nodes)
    assert len(judge.chats) == 36 + 1, "a run in one process and one on nodes find the same answers"
    stored = b"".join(path.read_bytes() for path in Path(".evalspec/cache").rglob("*") if path.is_file())
    assert b'"metric":"tone"' in stored
    assert ON_NODES.encode() not in stored


def test_a_busy_node_uses_the_slots_of_an_idle_one(bot, nodes, on_nodes, monkeypatch):
    """However few attempts it is that one of the two nodes has."""
    sleeping = 'time.sleep(float(os.environ.get("SECONDS", "0.02")))'
    assert sleeping in AGENT
    (bot.folder / "bot.py").write_text(AGENT.replace(sleeping, "wait_for_four()") + UNTIL_FOUR)
    log = Path(nodes.variables["ASKED"] + ".at_once")
    log.write_text("")
    found = bot.evaluate(*on_nodes, "-j", "4", "--sample-size", "4")
    assert log.read_text(), found.err
    assert max(accumulate(1 if one == "+" else -1 for one in log.read_text())) == 4


def test_an_agent_that_is_down_is_noticed_by_the_driver(bot, on_nodes):
    bot.api = {"url": "http://127.0.0.1:9", "chatEndpoint": {"maxRetries": 0}}
    found = bot.evaluate(*on_nodes)
    assert found.code == 3
    assert f"{found.out}{found.err}".count("the agent is down") == 1


NEEDS_NAMES = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a raylet a hostname")
SERVED = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer('{"message": "Paris of %d"}' % os.getpid())
    def answer(self, text):
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent).serve_forever()
"""


@NEEDS_NAMES
def test_hosts_are_real(bot, monkeypatch):
    """One of the two raylets is on another host."""
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    (bot.folder / "serve.py").write_text(SERVED)
    bot.api = {"url": "http://127.0.0.1:4747/", "command": [sys.executable, "serve.py", "{{port}}"]}
    variables = {"ASKED": str(bot.folder / "asked")}
    nodes = RayNodes([variables, variables], ["", "elsewhere"])
    try:
        refused = bot.evaluate("--on", nodes.address)
        assert (refused.code, refused.out) == (2, "")
        assert "127.0.0.1:4747/v1/chat is this machine's, and elsewhere would ask its own" in refused.err
        bot.evaluation["run"] = {"on": nodes.address, "agent": "per-node"}
        found = bot.evaluate("--json")
        assert found.code == 0, found.err + found.out
        stored = "".join(path.read_text(errors="replace") for path in Path(".evalspec/runs").rglob("*.jsonl"))
        assert len(set(re.findall(r"Paris of \d+", stored))) == 2
        bot.api["command"] = ["serve"]
        assert "per-node needs a command with {{port}}" in bot.evaluate().err
    finally:
        nodes.close()


def test_a_machine_that_joins_is_used_and_one_that_drains_gets_no_more(bot, monkeypatch):
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    variables = {"ASKED": str(bot.folder / "asked"), "SECONDS": "1", "MAY_ANSWER": str(bot.folder / "may_answer")}
    nodes = RayNodes([variables])
    try:
        process = start(bot, "--on", nodes.address, "--json", "-j", "2")
        nodes.add(variables)
        nodes.drain(0)
        let_answer(bot)
        out, err = process.communicate(timeout=200)
    finally:
        nodes.close()
    assert process.returncode == 0, err
    assert "Ray has room for more: 2 nodes now" in err
    assert err.count("a machine of Ray is draining") == 1
    assert "a node has ended" not in err
    assert list_failed(json.loads(out)) == FAILING
    assert max(asked(bot).values()) == 1
