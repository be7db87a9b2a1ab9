"""Retention, the audit log, and the erasure of personal data."""

import json
import time
from typing import Any

import pytest
from sqlalchemy import select

import evalspec
from evalspec.service import jobs, serving
from evalspec.service.audit import list_entries, record
from evalspec.service.database import reading, writing
from evalspec.service.jobs import JobStatus
from evalspec.service.run_index import RunIndex
from evalspec.service.serving import list_findings, purge_expired
from evalspec.service.settings import ServiceLimits, ServiceSettings
from evalspec.service.tables import AUDIT, BASELINES, JOBS, RUN_DATASETS, RUNS
from evalspec.service.tokens import Scope, create_token
from evalspec.verdict.comparison.baseline import Baseline, render_baseline
from servers.ports import find_free_port

DAY = 86_400


@pytest.fixture
def evaluate(projects):
    """Make a run of namespace shop that is some days old, and promote it if a path is given. `anchor`: of that."""
    runs = {}

    def run(days=0, baseline=None, anchor=None):
        folder = projects["shop"]
        made = evalspec.evaluate(folder / "agent.yaml", store=folder / ".evalspec")
        if not days:
            return made.id
        day = time.strftime("%Y%m%d", time.gmtime(time.time() - days * DAY))
        old = f"{day}{made.id[8:]}"
        place = folder / ".evalspec/runs" / made.id
        place.rename(place.with_name(old))
        runs[old] = made
        if baseline:
            baseline.parent.mkdir(parents=True)
            text = render_baseline(Baseline(made, runs.get(anchor))).replace(made.id, old)
            baseline.write_text(text if anchor is None else text.replace(runs[anchor].id, anchor))
        return old

    return run


def list_runs(projects):
    return {
        path.name for path in (projects["shop"] / ".evalspec/runs").iterdir() if path.is_dir() and not path.is_symlink()
    }


def test_retention_deletes_old_runs_except_those_that_are_needed(projects, settings, engine, evaluate):
    old, labelled, used, recent = (evaluate(days) for days in (40, 41, 43, 5))
    promoted = evaluate(42, projects["shop"] / "evals/baselines/main.json")
    anchor, rated = evaluate(44), evaluate(45)
    on_server = evaluate(46, projects["shop"] / ".evalspec/baselines/main/0.json", anchor)
    (projects["shop"] / ".evalspec/verdicts" / rated).mkdir(parents=True)
    wanted = {labelled, promoted, used, recent, anchor, rated, on_server}
    store = settings.projects["shop"].store
    store.label(store.runs / labelled, "before-rerank")
    open_job = jobs.enqueue(engine, "shop", "run", {}, "a", id=jobs.create_id("run"), calls=1, limits=ServiceLimits(),
                            run_id=used)  # fmt: skip
    ended = jobs.enqueue(engine, "shop", "run", {}, "a", id=jobs.create_id("run"), calls=1, limits=ServiceLimits(),
                         run_id=old)  # fmt: skip
    kept = jobs.enqueue(engine, "shop", "run", {}, "a", id=jobs.create_id("run"), calls=1, limits=ServiceLimits(),
                        run_id=labelled)  # fmt: skip
    log = projects["shop"] / ".evalspec/jobs" / f"{ended.id}.log"
    log.parent.mkdir()
    log.write_text("printed by the agent")
    with writing(engine) as connection:
        done = {"status": "completed", "finished_at": time.time() - 40 * DAY}
        connection.execute(JOBS.update().where(JOBS.c.id.in_([ended.id, kept.id])).values(done))
    RunIndex(engine, settings.projects["shop"]).rebuild()
    limits = ServiceLimits(retention_days=30)
    purge_expired(engine, ServiceSettings(settings.projects, settings.database))
    assert len(list_runs(projects)) == 8, "without a retention all are kept"
    found = list_findings(ServiceSettings(settings.projects, settings.database, port=find_free_port(), limits=limits))
    (said,) = (line for line in found if line.startswith("project shop"))
    assert said.endswith("; --retention 30 would delete 2 runs, except those of open jobs")
    assert len(list_runs(projects)) == 8, "a check deletes nothing"
    purge_expired(engine, ServiceSettings(settings.projects, settings.database, limits=limits))
    assert list_runs(projects) == wanted
    with reading(engine) as connection:
        for column in (RUNS.c.id, RUN_DATASETS.c.run_id):
            assert set(connection.execute(select(column)).scalars()) == wanted
        assert {row.id for row in connection.execute(JOBS.select())} == {open_job.id, kept.id}
    assert not log.exists()
    assert [(entry.action, entry.target) for entry in list_entries(engine, "shop")] == [("retention", old)]


def test_a_run_that_is_promoted_or_labelled_meanwhile_is_kept(projects, settings, engine, evaluate, monkeypatch):
    """By another server, after this one has listed the runs to delete."""
    old, promoted, labelled = evaluate(40), evaluate(41), evaluate(42)
    list_older = serving._list_older
    store = settings.projects["shop"].store

    def promote_meanwhile(project, oldest):
        found = list_older(project, oldest)
        row = {"namespace": "shop", "name": "main", "number": 1, "user": "ana", "at": 0.0, "file": "0.json"}
        if project.namespace == "shop":
            with writing(engine) as connection:
                connection.execute(BASELINES.insert().values(row | {"run_id": promoted}))
            store.label(store.runs / labelled, "before-rerank")
        return found

    monkeypatch.setattr(serving, "_list_older", promote_meanwhile)
    limits = ServiceLimits(retention_days=30)
    purge_expired(engine, ServiceSettings(settings.projects, settings.database, limits=limits))
    assert list_runs(projects) == {promoted, labelled}
    assert [(entry.action, entry.target) for entry in list_entries(engine, "shop")] == [("retention", old)]


def test_a_baseline_that_cannot_be_read_keeps_the_runs_of_its_namespace(projects, settings, engine, evaluate, caplog):
    old = evaluate(40)
    broken = projects["shop"] / "evals/baselines/main.json"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"kind": "evalspec baseline", ')
    other = projects["docs"] / ".evalspec/runs" / old
    other.mkdir(parents=True)
    for name in ("lock", "samples.jsonl", "run.json"):
        (other / name).write_text("")
    purge_expired(
        engine, ServiceSettings(settings.projects, settings.database, limits=ServiceLimits(retention_days=30))
    )
    assert list_runs(projects) == {old}
    assert not other.exists()
    (record,) = [one for one in caplog.records if one.getMessage() == "retention failed"]
    assert "main.json" in record.fields["error"]


def test_the_audit_log_has_changes_and_refusals_by_pages(client, engine):
    reader = create_token(engine, "ben", [Scope.READ], ["shop"], 60)
    client.post("/v1/jobs/run_1/cancel")
    client.get("/v1/jobs/run_2")
    created = client.post(
        "/v1/runs", json={"exclude_tags": ["the text of a tag"]}, headers={"Origin": "http://localhost"}
    )
    client.post("/v1/runs", json={}, headers={"Authorization": f"Bearer {reader}"})
    client.get("/v1/audit", headers={"Authorization": f"Bearer {reader}"})
    page = client.get("/v1/audit", params={"limit": 2}).json()
    more = client.get("/v1/audit", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    entries = page["entries"] + more["entries"]
    job = created.headers["Location"]
    assert [(e["action"], e["user"], e["target"], e["status"]) for e in entries] == [
        ("GET /v1/audit", "ben", None, 403),
        ("POST /v1/runs", "ben", None, 403),
        ("POST /v1/runs", "ana@example.com", None if created.status_code != 202 else job, created.status_code),
        ("POST /v1/jobs/{job_id}/cancel", "ana@example.com", "job_id=run_1", 404),
    ]
    assert more["next_cursor"] is None
    assert {e["token_id"] for e in entries if e["user"] == "ben"} == {reader.split("_")[1]}
    assert "the text of a tag" not in str(list_entries(engine, None))
    assert len(client.get("/v1/audit", params={"user": "ben", "status": 403}).json()["entries"]) == 2
    for cursor in ("x", "~", "1e999~", "nan~a", "1~'; DROP TABLE audit"):
        assert client.get("/v1/audit", params={"cursor": cursor}).status_code == 400


def test_old_audit_entries_are_deleted(engine, settings):
    record(engine, "recent", namespace="shop", target="\0 \ud800" + "x" * 1000)
    record(engine, "old", namespace="shop")
    with writing(engine) as connection:
        connection.execute(AUDIT.update().where(AUDIT.c.action == "old").values(at=time.time() - 366 * DAY))
    purge_expired(engine, settings)
    (entry,) = list_entries(engine, None)
    assert entry.action == "recent"
    assert len(entry.target) == 300


def test_erasure_leaves_scores_and_lists_what_it_cannot_reach(client, projects, agent, evaluate):
    folder = projects["shop"]
    person = "Mr Fitzwilliam  Darcy"
    lines = [{"id": f"s{n}", "input": f"question {n}", "expected": "Paris"} for n in range(4)]
    lines[1]["input"] = "Where does mr fitzwilliam darcy live?"
    (folder / "qa.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run = evaluate()
    before = evalspec.load_run(run, store=folder / ".evalspec")
    log = folder / ".evalspec/jobs/run_0.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("asked: Where does Mr Fitzwilliam Darcy live?")
    index = folder / ".evalspec/index" / run / "comparison-0.json"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text(json.dumps(person))
    request = {"texts": [person], "samples": [{"dataset": "qa", "id": "s2"}]}
    planned = client.post("/v1/erasure", json=request | {"dry_run": True}).json()
    assert (planned["dry_run"], planned["runs"], planned["removed"]) == (True, {run: 2}, [".evalspec/jobs/run_0.log"])
    assert log.exists()
    assert [path for path in planned["unreachable"] if path.startswith(".evalspec")] == []
    done = client.post("/v1/erasure", json=request).json()
    assert (done["runs"], done["failed"]) == ({run: 2}, [])
    assert done["unreachable"][0] == "qa.jsonl still quotes a text"
    assert not log.exists()
    stored = b"".join(path.read_bytes() for path in (folder / ".evalspec/runs" / run).iterdir())
    assert b"darcy" not in stored.lower()
    assert b"question 2" not in stored
    assert b"question 3" in stored
    after = evalspec.load_run(run, store=folder / ".evalspec")
    assert after.datasets[0].metrics["exact_match"] == before.datasets[0].metrics["exact_match"]
    again = client.post("/v1/erasure", json=request).json()
    assert (again["runs"], again["failed"]) == ({}, [])
    audit = client.get("/v1/audit").text
    assert "POST /v1/erasure" in audit
    assert "darcy" not in audit.lower()


def test_erasure_refuses_what_would_erase_by_accident(client):
    for request in ({}, {"texts": ["abc"]}, {"texts": ["  a  "]}, {"texts": [None]}, {"text": ["Mr Darcy"]}):
        assert client.post("/v1/erasure", json=request).status_code == 422, request


def test_erasure_reaches_results_and_errors_of_jobs(client, engine):
    compared = {"candidates": [{"datasets": [{"name": "qa", "samples": [{"id": "s2", "question": "x"}]}]}]}
    scores = {"overall_metrics": {"map": 0.5}, "warnings": ["1 of 2 queries failed; the first, q1: HTTP 500: Mr Darcy"]}
    kinds: dict[str, tuple[str, Any, str]] = {"quoting": ("comparison", {"candidates": [], "note": "Mr  Darcy"}, None),
             "failed": ("run", None, "Mr Darcy"), "sample": ("comparison", compared, None),
             "scored": ("evaluation", scores, None),
             "other": ("run", {"runId": "a"}, None)}  # fmt: skip
    for id, (kind, result, error) in kinds.items():
        for namespace in ("shop", "docs"):
            name = f"{namespace}_{id}"
            jobs.enqueue(engine, namespace, kind, {}, "a", id=name, calls=1, limits=ServiceLimits())
            job = jobs.claim(engine, "w", {namespace: 9}, 60)
            jobs.finish(engine, job, JobStatus.FAILED if error else JobStatus.COMPLETED, result=result, error=error)
    request = {"texts": ["Mr Darcy"], "samples": [{"dataset": "qa", "id": "s2"}]}
    expected = ["shop_failed", "shop_quoting", "shop_sample", "shop_scored"]
    assert client.post("/v1/erasure", json=request | {"dry_run": True}).json()["jobs"] == expected
    assert "Darcy" in client.get("/v1/jobs/shop_failed").text
    assert client.post("/v1/erasure", json=request).json()["jobs"] == expected
    assert "Darcy" not in client.get("/v1/jobs").text
    assert client.get("/v1/jobs/shop_sample").json()["result"] is None
    assert client.get("/v1/jobs/shop_scored").json()["result"]["overall_metrics"] == {"map": 0.5}
    assert client.get("/v1/jobs/shop_other").json()["result"] == {"runId": "a"}
    assert jobs.find_job(engine, "docs", "docs_failed").error == "Mr Darcy"
    assert client.post("/v1/erasure", json=request).json()["jobs"] == []
