"""Comparisons, trends and events by HTTP, on both databases."""

import json
import threading

import msgspec
import pytest

import evalspec
from evalspec.service import compare_api, run_index
from evalspec.service.jobs import JobStatus
from evalspec.verdict.comparison.baseline import Baseline, render_baseline
from servers.service import processes_of, wait_for, write_project


@pytest.fixture(autouse=True)
def _each_list_looks_at_the_files(monkeypatch):
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)


@pytest.fixture
def pair(add_run, projects):
    """Two runs of 40 samples: all wrong, then all right."""
    write_project(projects["shop"], samples=40)
    return add_run("Rome"), add_run("Paris")


def test_a_comparison_is_that_of_the_library(client, pair, projects):
    worse, better = pair
    asked = {"baseline": worse.id, "candidates": ["latest"], "samples": 2, "metrics": ["exact_match"]}
    answer = client.post("/v1/compare", json=asked)
    assert answer.status_code == 200, answer.text
    dataset = answer.json()["candidates"][0]["datasets"][0]
    found = json.loads(msgspec.json.encode(evalspec.compare(worse, better, metrics=["exact_match"])))
    assert answer.json().keys() == found.keys()
    assert dataset["metrics"] == found["candidates"][0]["datasets"][0]["metrics"]
    assert dataset["metrics"]["exact_match"]["verdict"] == "improved"
    assert dataset["sampleCounts"]["improved"] == 40
    assert [(s["kind"], s["texts"]["baseline"]) for s in dataset["samples"]] == [("improved", "Rome")] * 2
    (projects["shop"] / "evals" / "baselines").mkdir(parents=True)
    (projects["shop"] / "evals" / "baselines" / "main.json").write_text(render_baseline(Baseline(worse)))
    promoted = client.post("/v1/compare", json={"baseline": "main", "candidates": [better.id]}).json()
    assert promoted["candidates"][0]["datasets"][0]["metrics"]["exact_match"]["verdict"] == "improved"


def test_several_candidates_have_their_pairs_and_the_best_run(client, pair, add_run):
    again = add_run("Paris")
    asked = {"baseline": pair[0].id, "candidates": [pair[1].id, again.id], "metrics": ["exact_match"]}
    answer = client.post("/v1/compare", json=asked).json()
    (rivals,), (best,) = answer["rivals"], answer["bestRuns"]
    assert (rivals["first"], rivals["second"], rivals["change"]["delta"]) == (pair[1].id, again.id, 0.0)
    assert (best["possible"], best["samples"]) == ([pair[1].id, again.id], 40)
    assert best["means"] == {pair[1].id: 1.0, again.id: 1.0, pair[0].id: 0.0}


def test_only_runs_of_the_namespace_are_compared(client, pair, add_run, projects):
    other = add_run(namespace="docs")
    for name in (other.id, str(projects["docs"]), "../docs/x.json", "main", "2026", "agent.yaml", "."):
        refused = client.post("/v1/compare", json={"baseline": pair[0].id, "candidates": [name]})
        assert (refused.status_code, refused.json()["detail"].split(".")[0][:16]) == (422, "there is no run "), name


def test_large_runs_are_compared_by_a_job(client, pair, monkeypatch, settings, engine):
    from evalspec.service import comparing, jobs
    from evalspec.service.job_calls import JobCalls
    from evalspec.service.job_process import KINDS, Lease, Work

    monkeypatch.setattr(compare_api, "SMALL", 79)
    asked = {"baseline": pair[0].id, "candidates": [pair[1].id]}
    answer = client.post("/v1/compare", json=asked)
    assert (answer.status_code, answer.json()["kind"]) == (202, "comparison")
    assert answer.headers["Location"] == f"/v1/jobs/{answer.json()['job_id']}"
    job = jobs.claim(engine, "w", {"shop": 1}, 60)
    assert KINDS[job.kind] == f"{comparing.__name__}:{comparing.run_comparison.__name__}"
    lease = Lease(JobCalls(engine, job, 60), 60)
    result = comparing.run_comparison(Work(job, settings.projects["shop"], lease))
    lease.close()
    jobs.finish(engine, job, JobStatus.COMPLETED, result=result)
    monkeypatch.setattr(compare_api, "SMALL", 80)
    assert client.get(answer.headers["Location"]).json()["result"] == client.post("/v1/compare", json=asked).json()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_running_comparison_is_cancelled_at_once(server, add_run, projects):
    write_project(projects["shop"], samples=1100)
    runs = [add_run(answer).id for answer in ("Paris", "Rome")]
    started = server()
    with started.client("run") as client:
        asked = {"baseline": runs[0], "candidates": runs * 3, "resamples": 100_000}
        place = client.post("/v1/compare", json=asked).headers["Location"]
        (process,) = wait_for(lambda: processes_of(started, "job_process"))
        wait_for(lambda: client.get(place).json()["status"] == "running")
        client.post(f"{place}/cancel")
        job = wait_for(lambda: (found := client.get(place).json())["finished_at"] and found)
        assert (job["status"], job["result"]) == ("cancelled", None)
        wait_for(lambda: process not in processes_of(started, "job_process"))


def test_a_trend_has_the_values_of_finished_runs_newest_last(client, pair, add_run):
    add_run(sample_size=5)
    trend = client.get("/v1/trends?dataset=qa&metric=exact_match").json()
    assert [point["metrics"]["exact_match"]["value"] for point in trend["points"]] == [0.0, 1.0, 1.0]
    assert [point["selected"] for point in trend["points"]] == [40, 40, 5]
    assert trend["points"][0]["runId"] == pair[0].id
    assert (
        tuple(trend["points"][0]["metrics"]["exact_match"]["interval"])
        == pair[0].datasets[0].metrics["exact_match"].interval
    )
    assert [point["partial"] for point in trend["points"]] == [False, False, True]
    newest = client.get("/v1/trends?dataset=qa&metric=exact_match&limit=1").json()["points"]
    assert newest == trend["points"][-1:]
    assert client.get("/v1/trends?dataset=qa&metric=other").json()["points"] == []
    assert client.get("/v1/trends?dataset=qa").status_code == 422


def test_a_run_of_the_future_is_listed_and_in_no_trend(client, add_run, projects):
    """A wrong clock gave it its time. It would be the last point of each trend until then."""
    ahead = projects["shop"] / ".evalspec" / "runs" / add_run().id
    ahead = ahead.rename(ahead.with_name(f"2099{ahead.name[4:]}"))
    run = add_run()
    assert [one["runId"] for one in client.get("/v1/runs").json()["runs"]] == [ahead.name, run.id]
    for asked in ("", "&to=2100-01-01"):
        points = client.get(f"/v1/trends?dataset=qa&metric=exact_match{asked}").json()["points"]
        assert [one["runId"] for one in points] == [run.id]


def test_a_value_says_which_others_are_comparable(client, pair, add_run, projects):
    """Neither those of another selection or version of the dataset, nor those of another formula."""
    add_run(sample_size=5)
    questions = projects["shop"] / "qa.jsonl"
    questions.write_text(questions.read_text().replace("question 0", "question zero"))
    add_run()
    manifest = projects["shop"] / "agent.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("- exact_match", "- exact_match\n      - {name: own, scorer: 'own:score'}"))
    for value in (0.5, 0.5, 0.25):
        (projects["shop"] / "own.py").write_text(f"def score(exchange):\n    return {value}\n")
        add_run()
    found = {}
    for metric in ("own", "exact_match"):
        points = client.get(f"/v1/trends?dataset=qa&metric={metric}").json()["points"]
        series = [point["metrics"][metric]["series"] for point in points]
        found[metric] = [series.index(one) for one in series]
    assert found == {"own": [0, 0, 2], "exact_match": [0, 0, 2, 3, 3, 3, 3]}
    listed = client.get("/v1/runs?limit=1").json()["runs"][0]["datasets"][0]["metrics"]["exact_match"]
    assert listed["series"] == points[-1]["metrics"]["exact_match"]["series"]


def test_events_continue_where_a_client_left_and_end_with_the_server(serve, caplog):
    started = serve()
    with started.client("run") as client:
        job = client.post("/v1/runs", json={}).json()["job_id"]
        with client.stream("GET", f"/v1/jobs/{job}/events") as stream:
            lines = stream.iter_lines()
            number, kind, data = (next(lines) for _ in range(3))
        assert (kind, json.loads(data.removeprefix("data: "))["status"]) == ("event: job", "pending")
        known = {"Last-Event-ID": number.removeprefix("id: ")}
        with client.stream("GET", f"/v1/jobs/{job}/events", headers=known) as stream:
            client.post(f"/v1/jobs/{job}/cancel")
            states = [json.loads(line[6:])["status"] for line in stream.iter_lines() if line.startswith("data: ")]
        assert states == ["cancelled"], "the state that the client knew is not sent again"
        assert client.get("/v1/jobs/run_000000000000/events").status_code == 404
        open_job = client.post("/v1/runs", json={}).json()["job_id"]
        ended, first = threading.Event(), threading.Event()

        def listen():
            with client.stream("GET", f"/v1/jobs/{open_job}/events") as stream:
                for _ in stream.iter_lines():
                    first.set()
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        wait_for(first.is_set)
        started.stop()
        wait_for(ended.is_set)
    assert "Cancel" not in caplog.text, "the stream has ended by itself"
