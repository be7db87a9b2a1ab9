"""Exports to real servers of MLflow and Phoenix, read back through their REST interfaces."""

import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from servers.ports import find_free_port
from servers.traced_agent import TracedAgent

ROOT = Path(__file__).parents[2]
SERVERS = ROOT / "build" / "export-servers"
IN_CI = bool(os.environ.get("CI"))
"""Read before a fixture takes it out of the environment of the tests."""
SECONDS = 180
FULL_DISK = """
import sys, mlflow

def fail(*_):
    raise mlflow.MlflowException("disk full")

mlflow.MlflowClient.log_text = fail
from evalspec.__main__ import main
sys.exit(main())
"""
SCORER = """
def near(exchange):
    if exchange.sample.id == "s1":
        raise ValueError("no map")
    return None if exchange.sample.id == "s2" else 0.5

def never(exchange):
    raise ValueError("no map")
"""


@contextmanager
def serve(folder, port, health, *command, **environment):
    """A server as a process of its own, at its url, once it answers."""
    if not (SERVERS / ".ready").exists():
        (pytest.fail if IN_CI else pytest.skip)("MLflow and Phoenix are not installed; run `make export-servers`")
    url, program = f"http://127.0.0.1:{port}", str(SERVERS / "bin" / command[0])
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *command[1:]], cwd=folder, env=os.environ | environment, stdout=log, stderr=log
        )
        try:
            for _ in range(2 * SECONDS):
                time.sleep(0.5)
                if process.poll() is None and answers(url + health):
                    break
            else:
                pytest.fail((folder / "server.log").read_text())
            yield url
        finally:
            process.terminate()
            process.wait(SECONDS)


def answers(url):
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture
def mlflow(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("mlflow"), find_free_port()
    places = ("--backend-store-uri", "sqlite:///mlflow.db", "--artifacts-destination", "./artifacts")
    command = ("mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *places)
    with (
        serve(folder, port, "/health", *command, MLFLOW_DISABLE_TELEMETRY="true") as url,
        httpx.Client(base_url=url, timeout=SECONDS) as api,
    ):
        yield api


@pytest.fixture
def phoenix(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("phoenix"), find_free_port()
    place = {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port)}
    quiet = {"PHOENIX_GRPC_PORT": str(find_free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}
    with (
        serve(folder, port, "/healthz", "phoenix", "serve", **place, **quiet) as url,
        httpx.Client(base_url=url, timeout=SECONDS) as api,
    ):
        yield api


@pytest.fixture
def agent():
    """It says Paris, and exports spans except for the last question."""
    with TracedAgent(find_free_port()) as server:
        server.traces["Capital of France? 3"] = None
        yield server


@pytest.fixture
def stored(project, judge, agent):
    """A run of four samples: `near` fails for s1 and is not applicable to s2, and `never` has no value at all."""
    (project.folder / "mine.py").write_text(SCORER)
    own = [{"name": name, "scorer": f"mine:{name}", "range": [0, 1]} for name in ("near", "never")]
    polite = {"name": "polite", "rubric": "Is it polite? {response}", "labels": {"polite": 1, "rude": 0}}
    samples = [{"id": f"s{number}", "expected": "Paris" if number else "Rome"} for number in range(4)]
    project.dataset("qa", samples, metrics=["string_match", polite, *own])
    port = int(agent.endpoint.split(":")[2].split("/")[0])
    project.api = {"url": agent.url, "traces": {"receive": port, "quiet": "100ms", "grace": "1s"}}
    project.evaluation["datasets"][0]["name"] = "q/a set"
    project.evaluation |= {
        "judge": {"model": "scripted", "baseUrl": judge.url, "apiKey": "k-1234567"},
        "thresholds": {"string_match": 0.9, "never": 0.5},
        "ciGate": {"minSamples": 1},
    }
    done = project.evaluate("--json", "-j", "1")
    assert done.code == 1, done.err
    return project


def export(project, name, api, *program):
    """Export the run with the packages of the servers' environment, and return what is said about it."""
    project.evaluation["exports"] = {name: {"url": str(api.base_url)}}
    project.write()
    command = [SERVERS / "bin" / "python", *(program or ("-m", "evalspec")), "report", "--export", name]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EVALSPEC_QUIET": "1"}
    return subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def test_mlflow_has_values_intervals_statuses_and_reports_and_no_half_of_a_run_looks_complete(stored, mlflow):
    document = stored("report", "--json").document
    done = export(stored, "mlflow", mlflow)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1), done.stdout + done.stderr
    assert f"exported to mlflow: 4 metrics to {mlflow.base_url}/#/experiments/1/runs/" in done.stderr
    experiment = mlflow.get("/api/2.0/mlflow/experiments/get-by-name", params={"experiment_name": "bot"}).json()
    body = {"experiment_ids": [experiment["experiment"]["experiment_id"]]}
    (run,) = mlflow.post("/api/2.0/mlflow/runs/search", json=body).json()["runs"]
    assert (run["info"]["run_name"], run["info"]["status"]) == (document["runId"], "FAILED")
    metrics = {one["key"]: one["value"] for one in run["data"]["metrics"]}
    tags, parameters = ({one["key"]: one["value"] for one in run["data"][part]} for part in ("tags", "params"))
    summaries = document["datasets"][0]["metrics"]
    assert [summary["scored"] for summary in summaries.values()] == [4, 4, 2, 0]
    for name, summary in summaries.items():
        place = f"q_2f_a set/{name}"
        low, high = summary["interval"] or (None, None)
        found = [metrics.get(f"{place}{end}") for end in ("", ".low", ".high", ".scored", ".failed", ".not_applicable")]
        counts = [summary["scored"], summary["failed"], summary["notApplicable"]]
        assert found == [summary["value"], low, high, *counts], name
        assert tags[f"{place}.status"] == ("failed" if summary["value"] is None else "scored")
    assert tags["q_2f_a set/string_match.limit"] == "FAIL: ≥ 0.90"
    assert tags["q_2f_a set/never.limit"] == "INCOMPLETE: ≥ 0.50"
    assert (tags["evalspec.verdict"], tags["evalspec.exit_code"]) == ("FAIL", "1")
    assert (parameters["agent"], parameters["judge"], parameters["repeats"]) == ("bot", "scripted", "1")
    read = {"run_uuid": run["info"]["run_id"]}
    assert mlflow.get("/get-artifact", params=read | {"path": "report.json"}).json() == document
    assert document["runId"] in mlflow.get("/get-artifact", params=read | {"path": "report.html"}).text
    done = export(stored, "mlflow", mlflow, "-c", FULL_DISK)
    assert done.returncode == 1
    assert "not exported to mlflow: MLflow did not take the run: disk full. to export it again: " in done.stderr
    found = mlflow.post("/api/2.0/mlflow/runs/search", json=body).json()["runs"]
    (broken,) = (one for one in found if one["info"]["run_id"] != run["info"]["run_id"])
    assert (len(found), broken["info"]["status"]) == (2, "KILLED")


def test_phoenix_has_annotations_on_the_spans_of_attempts(stored, agent, phoenix):
    done = export(stored, "phoenix", phoenix)
    assert done.returncode == 1
    assert "not exported to phoenix: no attempt of the run has a span in Phoenix" in done.stderr
    assert phoenix.post("/v1/projects", json={"name": "bot"}).is_success
    known = [
        {
            "name": span["name"],
            "context": {"trace_id": span["traceId"], "span_id": span["spanId"]},
            "span_kind": "CHAIN",
            "status_code": "OK",
            "start_time": "2026-11-28T00:00:00Z",
            "end_time": "2026-11-28T00:00:01Z",
        }
        for body in agent.exported[:2]
        for span in json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    assert phoenix.post("/v1/projects/bot/spans", json={"data": known}).is_success
    for _ in range(2):  # the second replaces the first
        done = export(stored, "phoenix", phoenix)
        sent = "exported to phoenix: 8 results (3 failed), 1 not applicable not sent, 4 without a span not sent, "
        assert sent + "3 whose span it does not have not sent" in done.stderr, done.stderr
    spans = [span["context"]["span_id"] for span in known]
    place = "/v1/projects/bot/span_annotations"
    read = [one for id in spans for one in phoenix.get(place, params={"span_ids": id}).json()["data"]]
    found = [
        {one["name"]: (one["annotator_kind"], one["result"]) for one in read if one["span_id"] == id} for id in spans
    ]
    assert [len(read), *map(len, found)] == [8, 4, 4]
    first, second = found
    wrong, good = first["string_match"], second["string_match"]
    assert wrong == ("CODE", {"label": "fail", "score": 0, "explanation": wrong[1]["explanation"]})
    assert good == ("CODE", {"label": "pass", "score": 1, "explanation": None})
    assert (first["polite"][0], first["near"][1]["score"]) == ("LLM", 0.5)
    _, failed = second["near"]
    assert (failed["label"], failed["score"]) == ("not measured", None)
    assert "no map" in failed["explanation"]
