"""A run that is ended before its time, and gone on with."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from evalspec.model.log import LOG_RECORD, ReplyRecord
from evalspec.runs.store.log_records import read_log
from servers.faulty_agent import FaultyAgent, status
from servers.scripted_judge import ScriptedJudge
from servers.service import wait_for
from stored_log import edit_description, keep_records, seal_line

METRICS = ("string_match", "latency_p95", "error_rate")


@pytest.fixture
def counted(project, agent):
    """Twelve samples, each with a question of its own, so that the agent's calls can be counted by sample."""
    project.api = {"url": agent.url}
    project.dataset("qa", [{"id": f"s{n}", "input": f"q{n}"} for n in range(12)], metrics=list(METRICS))
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    return project


def calls(agent):
    """How often each question arrived; one that a kill cut off in mid request has no body."""
    return Counter(request.body["message"] for request in agent.requests if request.body)


def every_third_is_wrong(body):
    return {"response": "Lyon" if body and int(body["message"][1:]) % 3 == 0 else "Paris"}


def stored_replies(folder):
    log = folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    if not log.exists():
        (log,) = folder.glob(".evalspec/runs/*-*/samples.jsonl")
    return Counter(record.id for _, record in read_log(log, LOG_RECORD) if isinstance(record, ReplyRecord))


@pytest.mark.parametrize(("reference", "code"), [("$env:TENANT:public", 2), ("$env:TENANT", 0)])
def test_a_public_header_belongs_to_the_run(counted, monkeypatch, reference, code):
    """A token may be another each day; another tenant would give other answers."""
    counted.api["chatEndpoint"] = {"headers": {"X-Tenant": reference}}
    monkeypatch.setenv("TENANT", "northwind")
    counted.evaluate()
    monkeypatch.setenv("TENANT", "southwind")
    resumed = counted.evaluate("--resume")
    assert resumed.code == code, resumed.err
    assert ("a file or variable that spec.api.chatEndpoint refers to changed" in resumed.err) == (code == 2)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "--json", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finished(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 1), err.decode()
    return json.loads(out)


def scores_of(document):
    return {
        sample["id"]: sample["scores"]["string_match"]
        for dataset in document["datasets"]
        for sample in dataset["samples"]
    }


def test_thirty_kills_lose_nothing_and_repeat_no_more_than_was_in_flight(project, agent):
    """kill -9 of the process group, at random moments from start-up to the last score."""
    concurrency, kills, samples = 4, 30, 360
    agent.reply = every_third_is_wrong
    agent.delay = 0.01
    agent.mode = "hang"  # so that no run ends before its kill
    project.api = {"url": agent.url}
    project.dataset("qa", [{"id": f"s{n}", "input": f"q{n}"} for n in range(samples)], metrics=list(METRICS))
    project.write()
    chance = random.Random(7)
    arguments = ["-j", str(concurrency)]
    for kill in range(kills):
        seen, wanted = len(agent.requests), chance.randint(0, 6)
        agent.script = ["ok"] * (wanted + concurrency)
        process = start(project.folder, *arguments)
        deadline = time.monotonic() + 90
        while len(agent.requests) < seen + wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.03)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, f"run {kill} ended on its own"
        if list(project.folder.glob(".evalspec/runs/*-*/inputs.jsonl")):
            arguments = ["-j", str(concurrency), "--resume"]
    asked_before_the_end = sum(calls(agent).values())
    assert asked_before_the_end < samples, "the last kill found something left to do"
    agent.mode = "ok"
    document = finished(start(project.folder, *arguments))
    assert stored_replies(project.folder) == dict.fromkeys((f"s{n}" for n in range(samples)), 1)
    assert len(agent.requests) <= samples + kills * concurrency
    assert max(calls(agent).values()) <= 1 + kills
    undisturbed = finished(start(project.folder, "-j", str(concurrency)))
    assert scores_of(document) == scores_of(undisturbed)


def test_ctrl_c_says_how_to_go_on_and_nothing_is_asked_twice(counted, agent):
    agent.script, agent.mode = ["ok"] * 4, "hang"
    counted.write()
    process = start(counted.folder, "-j", "2")
    wait_for(lambda: len(agent.requests) == 6)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (way_on,) = [line for line in err.decode().splitlines() if "to resume: " in line]
    before = sum(stored_replies(counted.folder).values())
    agent.mode = "ok"
    outcome = counted(*way_on.partition("evalspec evaluate ")[2].join(["evaluate ", ""]).split(), "--json")
    assert outcome.code == 0
    assert outcome.document["datasets"][0]["answered"] == 12
    repeated = {question: count for question, count in calls(agent).items() if count > 1}
    cut_off = sum(request.body is None for request in agent.requests)
    assert len(repeated) + cut_off <= 2, "only what was in flight"
    assert sum(stored_replies(counted.folder).values()) == 12
    assert len(agent.requests) == 12 + len(repeated) + cut_off
    assert before < 12


TWICE = """
import asyncio
import signal

async def answer(sample):
    signal.raise_signal(signal.SIGINT)
    try:
        await asyncio.sleep(60)
    finally:
        signal.raise_signal(signal.SIGINT)
"""


def test_a_second_ctrl_c_at_once_says_nothing_more(counted):
    """Wrappers pass Ctrl-C on to a process that the terminal has told already."""
    (counted.folder / "twice.py").write_text(TWICE)
    counted.api = {"python": "twice:answer"}
    counted.write()
    process = start(counted.folder)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "to resume: " in err.decode()
    assert "Traceback" not in err.decode()


def test_a_finished_run_has_nothing_left_to_ask(counted, agent):
    first = counted.evaluate("--json")
    again = counted.evaluate("--resume", "--json")
    assert len(agent.requests) == 12
    assert again.document == first.document


def test_a_torn_last_line_is_asked_again(counted, agent):
    counted.evaluate()
    log = counted.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if json.loads(line)["kind"] == "reply")
    torn = json.loads(lines[last])["id"]
    log.write_bytes(b"".join(lines[:last]) + lines[last][:40])
    assert counted.evaluate("--resume", "--json").document["datasets"][0]["answered"] == 12
    assert stored_replies(counted.folder) == dict.fromkeys((f"s{n}" for n in range(12)), 1)
    assert calls(agent)["q" + torn[1:]] == 2


def test_the_selection_of_the_run_counts_without_saying_it_again(counted, agent):
    counted.evaluate("--sample-size", "4", "--seed", "3", "--repeat", "2")
    first = stored_replies(counted.folder)
    outcome = counted.evaluate("--resume", "--json")
    assert outcome.code == 0
    assert (len(first), set(first.values())) == (4, {2})
    assert len(agent.requests) == 8


def change_threshold(project):
    project.evaluation["thresholds"] = {"string_match": 0.5}


def change_dataset(project):
    with (project.folder / "qa.jsonl").open("a") as lines:
        lines.write('{"input": "new", "expected": "Paris"}\n')


def change_judge(project):
    project.evaluation["judge"] = {"model": "other"}


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (change_threshold, [], r"manifest: spec\.evaluation\.thresholds\.string_match\[0\]\.bound changed"),
        (change_dataset, [], r"dataset qa: qa\.jsonl changed"),
        (change_judge, [], r"manifest: spec\.evaluation\.judge\.model was added"),
        (lambda project: None, ["--sample-size", "3"], "selection: the samples of dataset qa changed"),
        (lambda project: None, ["--repeat", "2"], "--repeat was 1 and is now 2"),
        (
            lambda project: None,
            ["--url", "http://127.0.0.1:9"],
            "agent: the url was http://.* and is now http://127.0.0.1:9",
        ),
        (lambda project: None, ["--no-judge"], "the run began without --no-judge"),
        (lambda project: None, ["--no-content"], "the run began without --no-content"),
    ],
)
def test_a_run_that_is_not_what_it_was_is_refused(change, arguments, said, counted, agent):
    counted.evaluate()
    change(counted)
    outcome = counted.evaluate("--resume", *arguments)
    assert outcome.code == 2
    assert [line for line in outcome.err.splitlines() if "cannot be resumed" in line]
    assert outcome.err.count("undo the change, start a new run") == 1, "one fix for all changes"
    assert re.search(said, outcome.err)
    assert len(agent.requests) == 12


def test_without_an_id_it_says_which_run_is_resumed(counted, agent):
    counted.api["chatEndpoint"] = {"maxRetries": 0}
    agent.script = [status(500)] * 3
    run = counted.evaluate("-j", "1", "--json").document["runId"]
    for arguments, done in (("--resume",), 12), (("--retry-errors",), 12), (("--resume", run), None):
        said = f"resuming the newest run, {run}: {done} of 12 attempts are stored"
        assert (said in counted.evaluate(*arguments).err) == (done is not None)


@pytest.mark.parametrize("is_removed", [False, True])
def test_no_older_run_stands_in_for_one_that_left_nothing(counted, agent, is_removed):
    older = counted.evaluate("--json").document["runId"]
    newest = counted.evaluate("--json").document["runId"]
    folder = counted.folder / ".evalspec" / "runs" / newest
    if is_removed:
        shutil.rmtree(folder)
    else:
        (folder / "run.json").unlink()
    outcome = counted.evaluate("--resume")
    assert outcome.code == 2
    assert f"--resume: the newest run, {newest}, left nothing to resume" in outcome.err
    assert f"--resume {older}" in outcome.err
    assert counted.evaluate("--resume", older).code == 0
    assert len(agent.requests) == 24


def test_a_scorer_that_was_rewritten_is_refused(counted):
    counted.evaluation["datasets"][0]["metrics"] = [{"name": "own", "scorer": "own:score"}]
    counted.evaluation["thresholds"] = {"own": 0.5}
    (counted.folder / "own.py").write_text("def score(exchange): return 1\n")
    counted.evaluate()
    (counted.folder / "own.py").write_text("def score(exchange): return 0\n")
    outcome = counted.evaluate("--resume")
    assert outcome.code == 2
    assert "metric own of dataset qa: its code or a package that computes it changed" in outcome.err


def test_retry_errors_does_again_what_failed_and_only_that(counted, agent):
    counted.api["chatEndpoint"] = {"maxRetries": 0}
    agent.script = [status(500)] * 3
    outcome = counted.evaluate("-j", "1", "--json")
    assert outcome.document["datasets"][0]["answered"] == 9
    assert "--retry-errors" in outcome.err
    assert counted.evaluate("--resume", "--json").document["datasets"][0]["answered"] == 9, "failed is finished"
    assert len(agent.requests) == 12
    again = counted.evaluate("--retry-errors", "--json")
    assert (again.code, again.document["datasets"][0]["answered"]) == (0, 12)
    assert sorted(calls(agent).values()) == [1] * 9 + [2] * 3


def test_retry_errors_judges_again_what_the_judge_failed_at(project, agent):
    with ScriptedJudge() as judge:
        project.api = {"url": agent.url}
        rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
        project.samples(6, metrics=("string_match", rubric))
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "maxRetries": 0}
        judge.script = ["refusal"] * 4 + ["ok"] * 2 + ["refusal"] * 2  # two of the four fail in the second pass too
        first = project.evaluate("--json").document["datasets"][0]["metrics"]["tone"]
        asked = len(judge.chats)
        again = project.evaluate("--retry-errors", "--json").document
    assert 0 < first["failed"] < 6
    assert again["datasets"][0]["metrics"]["tone"]["scored"] == 6
    assert len(judge.chats) - asked == first["failed"]
    assert len(agent.requests) == 6
    assert again["judgeUsage"]["tone"]["calls"] == len(judge.chats), "what was paid before counts too"


def test_an_agent_that_went_away_is_asked_the_rest_when_it_is_back(counted, agent):
    counted.api["chatEndpoint"] = {"maxRetries": 0}
    agent.die_after = 5
    down = counted.evaluate("-j", "1", "--json")
    assert (down.code, down.document["datasets"][0]["answered"]) == (3, 5)
    port = int(counted.api["url"].rpartition(":")[2])
    with FaultyAgent(port) as back:
        outcome = counted.evaluate("--resume", "--json")
    assert (outcome.code, outcome.document["datasets"][0]["answered"]) == (0, 12)
    assert len(back.requests) == 7, "who was not there was not asked, and that is no answer to keep"


def test_what_is_scored_is_kept_and_only_the_rest_is_scored(counted, agent):
    """A metric of one's own that counts its calls: a run killed between its scores goes on with the missing ones."""
    counted.evaluation["datasets"][0]["metrics"] = ["string_match", {"name": "counted", "scorer": "own:score"}]
    counter = counted.folder / "calls"
    (counted.folder / "own.py").write_text(
        "from pathlib import Path\n"
        "def score(exchange):\n"
        f"    with Path({str(counter)!r}).open('a') as calls: calls.write(exchange.sample.id + '\\n')\n"
        "    return 1\n"
    )
    counted.evaluate()
    log = counted.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    keep_records(log, lambda record: "counted" not in record.get("scores", {}) or record["id"] == "s3")
    outcome = counted.evaluate("--resume", "--json")
    assert outcome.document["datasets"][0]["metrics"]["counted"]["scored"] == 12
    assert len(agent.requests) == 12
    assert sorted(Counter(counter.read_text().split()).values()) == [1] + [2] * 11


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: rewrite_line(run / "samples.jsonl", 3, "{torn"), r"samples\.jsonl:3: damaged"),
        (
            lambda run: rewrite_line(run / "samples.jsonl", 1, seal_line('{"kind":"diary"}', 1)),
            r"samples\.jsonl:1: not a record",
        ),
        (lambda run: rewrite_line(run / "inputs.jsonl", 2, "[]"), r"inputs\.jsonl:2: damaged"),
        (lambda run: (run / "run.json").write_text("{"), r"run\.json: not the description of a run"),
        (lambda run: (run / "run.json").write_text("[]"), r"run\.json: not the description of a run"),
        (
            lambda run: edit_description(run, storeVersion=99),
            r"run\.json: written by a later version .*update evalspec",
        ),
        (lambda run: edit_description(run, outline={}), r"run\.json: outline\.policy: is missing"),
    ],
    ids=["torn", "foreign", "inputs", "half", "array", "future", "outline"],
)
def test_a_spoilt_run_is_one_clear_line(spoil, said, counted):
    counted.evaluate()
    (run,) = counted.folder.glob(".evalspec/runs/*-*")
    spoil(run)
    outcome = counted("report")
    (line,) = outcome.err.splitlines()
    assert outcome.code == 3
    assert re.search(said, line), line
    resumed = counted("evaluate", "agent.yaml", "--resume")
    assert resumed.code == (0 if "damaged" in said else 3), resumed.err
    if resumed.code == 0:
        assert counted("report").code == 0, "what was lost was asked again"


def rewrite_line(path, number, text):
    lines = path.read_text().splitlines()
    lines[number - 1] = text
    path.write_text("".join(f"{line}\n" for line in lines))


def test_two_processes_on_one_run_are_one_too_many(counted, agent):
    is_over = threading.Event()
    agent.reply = lambda body: {"response": "Paris"} if is_over.wait(60) else {}
    counted.write()
    first = start(counted.folder, "-j", "1")
    wait_for(lambda: agent.requests)
    second = start(counted.folder, "--resume")
    _, err = second.communicate(timeout=60)
    is_over.set()
    assert second.returncode == 3
    assert b"another evalspec process is writing this run" in err
    assert finished(first)["datasets"][0]["answered"] == 12
    assert len(agent.requests) == 12


def test_a_disk_that_fills_up_stops_the_run_and_what_was_kept_is_gone_on_with(counted, agent):
    """A limit on file sizes fails like a full disk does."""
    agent.reply = {"response": "Paris " * 200}
    counted.write()
    program = (
        "import resource, sys; sys.dont_write_bytecode = True; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "sys.argv = ['evalspec', 'evaluate', 'agent.yaml', '-j', '1'];"
        "from evalspec.__main__ import main; sys.exit(main())"
    )
    full = subprocess.run([sys.executable, "-c", program], cwd=counted.folder, capture_output=True, timeout=60)
    assert full.returncode == 3, full.stderr
    assert b"raise the limit on file sizes" in full.stderr
    assert b"to resume: evalspec evaluate agent.yaml --resume" in full.stderr
    kept = sum(stored_replies(counted.folder).values())
    assert 0 < kept < 12
    before = len(agent.requests)
    outcome = counted.evaluate("--resume", "--json")
    assert outcome.document["datasets"][0]["answered"] == 12
    assert len(agent.requests) == before + 12 - kept
