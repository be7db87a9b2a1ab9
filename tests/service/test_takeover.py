"""Jobs survive: kills, stops and restarts of workers and servers, on both databases."""

import json
import os
import signal
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

import evalspec
from servers.service import count_takeovers, processes_of, wait_for, write_project


def start_run(client, samples=None, **options):
    answer = client.post("/v1/runs", json={"concurrency": 2, **options})
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


def finish(client, place):
    job = wait_for(lambda: (found := client.get(place).json())["status"] not in ("pending", "running") and found)
    assert job["status"] == "completed", job
    return job


def has_asked(agent, times):
    return len(agent.requests) >= times


def values_of(run):
    return {name: (m.value, m.scored) for name, m in run.datasets[0].metrics.items() if name != "latency_p95"}


def test_a_run_by_the_service_equals_one_by_the_command_line(server, agent, projects, project):
    started = server()
    with started.client("run") as client:
        job = finish(client, start_run(client))
    run = evalspec.load_run(job["run_id"], store=projects["shop"] / ".evalspec")
    own = evalspec.evaluate(projects["shop"] / "agent.yaml", store=projects["shop"] / ".other")
    assert (values_of(run), run.verdict) == (values_of(own), own.verdict)
    assert job["result"] == {"run_id": run.id, "verdict": "NOT_GATED", "partial": False, "exit_code": 0}
    assert started.stop() == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_manifest_that_changed_before_a_takeover_fails_the_job_with_what_to_do(server, agent, projects):
    write_project(projects["shop"], agent.url, samples=40)
    agent.answer_only(4)
    started = server("--lease", "1")
    manifest = projects["shop"] / "agent.yaml"
    before = manifest.read_text()
    with started.client("run") as client:
        place = start_run(client)
        wait_for(lambda: client.get(place).json()["run_id"] and len(agent.requests) >= 4)
        manifest.write_text(before.replace("exact_match", "string_match"))
        for pid in processes_of(started, "job_process"):
            os.kill(pid, signal.SIGKILL)
        job = wait_for(lambda: (found := client.get(place).json())["finished_at"] and found)
        assert job["status"] == "failed"
        assert "cannot be resumed" in job["error"]
        assert job["error"].endswith("(POST /v1/runs/RUN/resume), or start a new run (POST /v1/runs)"), job["error"]
        manifest.write_text(before)
        agent.answer_only(None)
        finish(client, client.post(f"/v1/runs/{job['run_id']}/resume").headers["Location"])


def test_killed_and_stopped_processes_lose_and_repeat_nothing(server, agent, projects, tmp_path):
    write_project(projects["shop"], agent.url, samples=40)
    agent.answer_only(0)
    started = server("--lease", "2", "--workers", "2")
    with started.client("run") as client:
        place, stopped = start_run(client), []
        for number, kind in ((signal.SIGKILL, "job_process"), (signal.SIGSTOP, "job_process"),
                             (signal.SIGKILL, "worker_process")):  # fmt: skip
            most = len(agent.requests) + 4
            agent.answer_only(most)
            wait_for(partial(has_asked, agent, most))
            for pid in processes_of(started, kind):
                os.kill(pid, number)
                stopped += [pid] if number == signal.SIGSTOP else []
        agent.answer_only(None)
        job = finish(client, place)
    for pid in stopped:
        with suppress(ProcessLookupError):  # its worker may have killed it
            os.kill(pid, signal.SIGCONT)
    folder = projects["shop"] / ".evalspec" / "runs" / job["run_id"]
    assert len(list(folder.parent.glob("2*"))) == 1
    run = evalspec.load_run(str(folder))
    assert {name: m.scored for name, m in run.datasets[0].metrics.items()}["exact_match"] == 40
    arrived = [request.body for request in agent.requests if request.body is not None]  # others were cut off by a kill
    asked = Counter(map(json.dumps, arrived))
    assert len(asked) == 40
    takeovers = count_takeovers(started)
    assert takeovers >= 3
    assert sum(asked.values()) - 40 <= takeovers * 2, "at most -j calls are repeated by each takeover"
