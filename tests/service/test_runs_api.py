"""Runs by HTTP: the index, filters, pages, reports, resuming, cancelling and deleting, on both databases."""

import json
import shutil
from datetime import datetime

import pytest
from sqlalchemy import update

from evalspec.reports.base import REPORTERS
from evalspec.runs.store.run_log import RunLog
from evalspec.service import run_index
from evalspec.service.database import reading, writing
from evalspec.service.run_heads import read_entry
from evalspec.service.serving import prepare_database
from evalspec.service.tables import RUNS
from servers.service import wait_for, write_project


@pytest.fixture(autouse=True)
def _each_list_looks_at_the_files(monkeypatch):
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)


def folder_of(projects, run, namespace="shop"):
    return projects[namespace] / ".evalspec" / "runs" / run.id


def interrupt(folder):
    """Leave a run as a kill between the last score and the report leaves it."""
    (folder / "report.json").unlink()
    log = folder / "samples.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [run["runId"] for run in answer.json()["runs"]]


def refuses(answer, status, words):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert words in answer.json()["detail"]


def test_runs_of_the_command_line_are_listed_newest_first_with_their_values(client, add_run):
    runs = [add_run(), add_run("Rome"), add_run(sample_size=3)]
    add_run(namespace="docs")
    assert ids(client.get("/v1/runs")) == [run.id for run in reversed(runs)]
    listed = client.get("/v1/runs").json()["runs"][1]
    assert (listed["status"], listed["verdict"], listed["manifest"]) == ("finished", "NOT_GATED", "agent.yaml")
    metric, summary = listed["datasets"][0]["metrics"]["exact_match"], runs[1].datasets[0].metrics["exact_match"]
    assert (metric["value"], tuple(metric["interval"]), metric["scored"]) == (0.0, summary.interval, 6)
    assert [one["partial"] for one in client.get("/v1/runs").json()["runs"]] == [True, False, False]
    assert client.get(f"/v1/runs/{runs[2].id}").json()["partial"] is True


def test_filters_and_pages(client, add_run, projects):
    write_project(projects["shop"], ciGate=True, thresholds={"exact_match": 0.5})
    runs = [add_run("Paris" if n % 2 else "Rome") for n in range(4)]
    (projects["shop"] / "other.yaml").write_text((projects["shop"] / "agent.yaml").read_text().replace("qa,", "faq,"))
    newest = [run.id for run in reversed(runs)]
    assert ids(client.get("/v1/runs?verdict=FAIL")) == [newest[1], newest[3]]
    assert ids(client.get("/v1/runs?dataset=qa&manifest=agent.yaml&status=finished")) == newest
    assert ids(client.get("/v1/runs?dataset=q")) == ids(client.get("/v1/runs?manifest=other.yaml")) == []
    middle = client.get("/v1/runs").json()["runs"][1]["startedAt"]
    since = ids(client.get("/v1/runs", params={"from": middle}))
    until = ids(client.get("/v1/runs", params={"to": middle}))
    assert since + until == newest
    assert newest[0] in since
    assert newest[3] in until
    found, cursor = [], None
    while True:
        page = client.get("/v1/runs", params={"limit": 3, **({"cursor": cursor} if cursor else {})})
        found += ids(page)
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break
    assert found == newest
    for wrong in ("x", "WzFd", "bnVsbA"):
        refuses(client.get(f"/v1/runs?cursor={wrong}"), 400, "not a cursor of this list")


def test_a_run_has_the_keys_of_its_report(client, add_run, projects):
    write_project(projects["shop"], ciGate=True, thresholds={"exact_match": 0.5})
    run = add_run("Rome")
    shown = client.get(f"/v1/runs/{run.id}").json()
    report = json.loads((folder_of(projects, run) / "report.json").read_text())
    del report["fingerprint"]
    for dataset in report["datasets"]:
        del dataset["samples"], dataset["diagnosis"]
    assert shown["result"] == report
    assert (shown["verdict"], shown["jobId"]) == ("FAIL", None)
    assert datetime.fromisoformat(shown["startedAt"]).tzinfo is not None


def test_a_damaged_run_is_listed_with_its_cause_and_without_the_place_of_the_project(client, add_run, projects):
    runs = [add_run(), add_run(), add_run()]
    report = folder_of(projects, runs[0]) / "report.json"
    report.write_bytes(report.read_bytes().replace(b"NOT_GATED", b"INCOMPLETE"))
    (folder_of(projects, runs[1]) / "run.json").write_text("{")
    (folder_of(projects, runs[2]) / "run.json").unlink()
    listed = client.get("/v1/runs?status=damaged").json()["runs"]
    assert [run["runId"] for run in listed] == [run.id for run in reversed(runs)]
    assert "there is no run.json" in listed[0]["error"]
    assert "not the description of a run" in listed[1]["error"]
    assert "checksum does not match" in listed[2]["error"]
    assert all(run["verdict"] is None and str(projects["shop"]) not in run["error"] for run in listed)
    for path in ("report", "report?form=html", "samples"):
        refuses(client.get(f"/v1/runs/{runs[0].id}/{path}"), 409, "checksum does not match")


def test_the_index_follows_the_files(client, add_run, projects, settings):
    run = add_run()
    assert ids(client.get("/v1/runs?status=finished")) == [run.id]
    interrupt(folder_of(projects, run))
    assert ids(client.get("/v1/runs?status=interrupted")) == [run.id]
    with RunLog(folder_of(projects, run), redact=lambda value: value):
        assert ids(client.get("/v1/runs?status=running")) == [run.id]
        assert client.get(f"/v1/runs/{run.id}").json()["status"] == "running"
        for method, path, words in (
            ("GET", "/samples", "in progress"),
            ("DELETE", "", "in progress"),
            ("POST", "/resume", "in progress"),
            ("POST", "/cancel", "the command line started the run"),
        ):
            refuses(client.request(method, f"/v1/runs/{run.id}{path}"), 409, words)
    assert ids(client.get("/v1/runs?status=running")) == []
    refuses(client.post(f"/v1/runs/{run.id}/cancel"), 409, "not in progress")


def test_finished_runs_of_a_large_store_are_looked_at_in_turn(client, add_run, projects, monkeypatch):
    monkeypatch.setattr(run_index, "_FINISHED_AT_ONCE", 2)
    runs = [add_run() for _ in range(5)]
    assert len(ids(client.get("/v1/runs"))) == 5
    for run in runs:
        interrupt(folder_of(projects, run))
    new = add_run()

    def states():
        return {run["runId"]: run["status"] for run in client.get("/v1/runs").json()["runs"]}

    first, second, third = (list(states().values()) for _ in range(3))
    assert [found.count("interrupted") for found in (first, second, third)] == [2, 4, 5]
    assert [found.count("finished") for found in (first, second, third)] == [4, 2, 1], "the new run is listed at once"
    folder_of(projects, runs[0]).rename(projects["shop"] / "gone")
    assert runs[0].id not in states() and states()[new.id] == "finished", "so is a run that is gone"


def test_reindex_rebuilds_what_the_database_has_wrong(client, add_run, settings, engine):
    run = add_run()
    assert ids(client.get("/v1/runs?verdict=NOT_GATED")) == [run.id]
    with writing(engine) as connection:
        connection.execute(update(RUNS).values(verdict="PASS"))
    prepare_database(settings, reindex=True).dispose()
    with reading(engine) as connection:
        assert [row.verdict for row in connection.execute(RUNS.select())] == ["NOT_GATED"]


def test_a_list_during_a_reindex_has_every_run_that_exists(client, add_run, settings, projects, monkeypatch):
    """Another server on the same database may start with --reindex at any time. Gates use the lists too."""
    gone, *runs = (add_run() for _ in range(4))
    assert client.post("/v1/baselines/main", json={"run_id": runs[0].id}).status_code == 201
    assert len(ids(client.get("/v1/runs"))) == 4
    shutil.move(folder_of(projects, gone), projects["shop"] / "gone")
    monkeypatch.setattr(run_index, "_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 3600.0)
    read, seen = read_entry, []

    def look_and_read(project, folder):
        found = read(project, folder)
        if project.namespace == "shop":
            monkeypatch.setattr(run_index, "read_entry", read)
            seen.append([*ids(client.get("/v1/runs")), client.get("/v1/baselines/main?branch=").json()["run_id"]])
            monkeypatch.setattr(run_index, "read_entry", look_and_read)
        return found

    monkeypatch.setattr(run_index, "read_entry", look_and_read)
    prepare_database(settings, reindex=True).dispose()
    newest_first = [run.id for run in runs[::-1]]
    assert [[one for one in found if one != gone.id] for found in seen] == [[*newest_first, newest_first[0]]] * 3
    assert ids(client.get("/v1/runs")) == newest_first


def test_deleting(client, add_run, projects):
    run, other = add_run(), add_run(namespace="docs")
    client.get(f"/v1/runs/{run.id}/samples")
    derived = projects["shop"] / ".evalspec" / "index" / run.id
    assert derived.is_dir()
    assert client.delete(f"/v1/runs/{run.id}").status_code == 204
    assert ids(client.get("/v1/runs")) == []
    assert not derived.exists()
    assert not folder_of(projects, run).exists()
    for missing in (run.id, other.id, "latest", "..", "20261121T061500.000Z-x", "%2e%2e%2fruns", "x" * 300):
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/report"), ("GET", "/samples"), ("POST", "/resume")):
            answer = client.request(method, f"/v1/runs/{missing}{path}")
            assert answer.status_code in (404, 405, 422), answer.text
            assert str(projects["docs"]) not in answer.text
    assert folder_of(projects, other, "docs").is_dir()


def test_reports_are_files_to_download(client, add_run, projects, monkeypatch):
    run = add_run()
    path = f"/v1/runs/{run.id}/report"
    report = client.get(path)
    assert report.content == (folder_of(projects, run) / "report.json").read_bytes()
    assert report.headers["Content-Disposition"] == f'attachment; filename="{run.id}.json"'
    for reporter in REPORTERS:
        answer = client.get(path, params={"form": reporter.name})
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert (answer.headers["X-Content-Type-Options"], answer.headers["Content-Security-Policy"]) == (
            "nosniff",
            "sandbox",
        )
    assert client.get(f"{path}?form=html").text.startswith("<!doctype html>")
    refuses(client.get(f"{path}?form=htm"), 404, "did you mean 'html'?")
    small = client.get(f"{path}?form=csv")
    monkeypatch.setattr("evalspec.service.reports_api.SMALL", 0)
    (projects["shop"] / "json.py").write_text("raise SystemExit('a module of the project was imported')")
    large = client.get(f"{path}?form=csv")
    assert (large.status_code, large.content) == (200, small.content), large.text
    assert list((projects["shop"] / ".evalspec" / "index" / run.id).iterdir()) == []


def test_resuming_is_refused_when_there_is_nothing_to_do(client, add_run, projects):
    run = add_run()
    refuses(client.post(f"/v1/runs/{run.id}/resume"), 409, "finished; `retry_errors` repeats")
    interrupt(folder_of(projects, run))
    job = client.post(f"/v1/runs/{run.id}/resume", json={"concurrency": 3})
    assert (job.status_code, job.json()["run_id"], job.json()["status"]) == (202, run.id, "pending")
    assert job.headers["Location"] == f"/v1/jobs/{job.json()['job_id']}"
    refuses(client.post(f"/v1/runs/{run.id}/resume"), 409, "in progress")
    refuses(client.delete(f"/v1/runs/{run.id}"), 409, "in progress")
    assert client.get(f"/v1/runs/{run.id}").json()["jobId"] == job.json()["job_id"]
    assert client.post(f"/v1/runs/{run.id}/cancel").json()["status"] == "cancelled"


def test_jobs_are_listed_with_filters_and_pages(client):
    made = [client.post("/v1/runs", json={"sample_size": 1}).json()["job_id"] for _ in range(3)]
    client.post(f"/v1/jobs/{made[1]}/cancel")
    page = client.get("/v1/jobs?limit=2").json()
    rest = client.get("/v1/jobs", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [job["job_id"] for job in page["jobs"] + rest["jobs"]] == made[::-1]
    assert rest["next_cursor"] is None
    open_jobs = client.get("/v1/jobs?status=pending&status=running&kind=run").json()["jobs"]
    assert [job["job_id"] for job in open_jobs] == [made[2], made[0]]
    assert client.get("/v1/jobs?kind=comparison").json()["jobs"] == []


def test_an_interrupted_run_is_completed_by_a_worker_with_the_same_numbers(server, projects, add_run):
    run = add_run(None)
    before = json.loads((folder_of(projects, run) / "report.json").read_text())
    interrupt(folder_of(projects, run))
    started = server()
    with started.client("run") as client:
        place = client.post(f"/v1/runs/{run.id}/resume").headers["Location"]
        events = follow(client, f"{place}/events")
        assert [event["status"] for event in events][-1] == "completed", events
        wait_for(lambda: ids(client.get("/v1/runs?status=finished")) == [run.id])
        reading_again = follow(client, f"{place}/events")
        assert reading_again == events[-1:]
    after = json.loads((folder_of(projects, run) / "report.json").read_text())
    assert [d["metrics"]["exact_match"] for d in after["datasets"]] == [
        d["metrics"]["exact_match"] for d in before["datasets"]
    ]
    assert started.stop() == 0


def follow(client, place, **headers):
    """The states that a stream of events sends until it ends."""
    with client.stream("GET", place, headers=headers, timeout=90) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: ")]
