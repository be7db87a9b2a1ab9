"""Kills and stops of server, workers and jobs at random moments. `make chaos` does 200 during at least 20 runs."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random

import httpx
import pytest

import evalspec
from servers.service import count_takeovers, processes_of, wait_for, write_project

KILLS = 200 if os.environ.get("CHAOS") else 8
RUNS = 20 if os.environ.get("CHAOS") else 2
AT_ONCE = 2
LEASE_SECONDS = 3


def measure(run):
    return {name: (m.value, m.scored, m.failed) for name, m in run.datasets[0].metrics.items() if "latency" not in name}


def disturb(server, chance, pace):
    """Kill or stop one process of the server at random, and let it go on or start it again.

    `pace`: the seconds that a job needs to start here. A job that is killed much more often never makes progress.
    """
    kind = chance.choice(["evalspec serve", "worker_process", "job_process", "job_process"])
    found = processes_of(server, kind)
    number = chance.choice([signal.SIGKILL, signal.SIGSTOP])
    stopped = []
    for pid in found[:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            stopped = [pid] if number == signal.SIGSTOP else []
    time.sleep(chance.uniform(0, LEASE_SECONDS * 1.5 if stopped else 2 * pace))
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    if server.process.poll() is not None:
        server.start()


def start_run(client):
    return client.post("/v1/runs", json={"concurrency": AT_ONCE}).headers["Location"]


def is_over(client):
    with suppress(httpx.TransportError):
        return all(client.get(place).json()["status"] not in ("pending", "running") for place in client.places)


@pytest.mark.timeout(1800)
def test_no_run_is_lost_none_is_there_twice_and_all_are_like_undisturbed_ones(server, agent, projects):
    shop = write_project(projects["shop"], agent.url, samples=30)
    agent.reply = lambda body: {"response": "Lyon" if body and int(body["message"].split()[1]) % 3 == 0 else "Paris"}
    undisturbed = measure(evalspec.evaluate(shop / "agent.yaml", store=shop / ".undisturbed"))
    agent.requests.clear()
    agent.delay = 0.1
    started = server("--lease", str(LEASE_SECONDS), "--workers", "2")
    chance = Random(int(os.environ.get("CHAOS_FROM", "0")))
    with started.client("admin") as client:
        began = time.monotonic()
        client.places = [start_run(client) for _ in range(RUNS)]
        wait_for(lambda: agent.requests)
        pace = time.monotonic() - began
        for _ in range(KILLS):
            if is_over(client):
                client.places.append(start_run(client))
            disturb(started, chance, pace)
        wait_for(lambda: is_over(client), 900)
        jobs = [client.get(place).json() for place in client.places]
    assert [job["error"] for job in jobs if job["status"] != "completed"] == []
    runs = {folder.name for folder in (shop / ".evalspec" / "runs").glob("2*")}
    assert runs == {job["run_id"] for job in jobs}
    assert len(runs) == len(jobs)
    for name in runs:
        assert measure(evalspec.load_run(name, store=shop / ".evalspec")) == undisturbed
    verified = subprocess.run([sys.executable, "-m", "evalspec", "runs", "verify", "--all"], cwd=shop)
    assert verified.returncode == 0
    whole = [request.body for request in agent.requests if request.body]  # a kill may cut a request off
    asked = Counter(body["message"] for body in whole)
    repeated, takeovers = sum(asked.values()) - 30 * len(runs), count_takeovers(started)
    assert repeated <= AT_ONCE * takeovers, "each takeover repeats at most the calls in flight"
    print(f"{len(runs)} runs: {repeated} calls repeated by {takeovers} takeovers after {KILLS} kills and stops")
