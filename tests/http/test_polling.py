"""Services that answer with a job: its result is polled, and neither a retry nor a reply starts or moves it."""

import json
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest

from conftest import Project
from evalspec.targets.http import credentials, polling
from servers.job_desk import RESULT, JobDesk, Said, reply

BY_STATE = {"path": "/jobs/{{job}}", "job": "$.id", "status": "$.state", "done": ["completed"], "failed": ["failed"]}
QUICK = {"intervalSeconds": 0.01}


@pytest.fixture
def desk() -> Iterator[JobDesk]:
    with JobDesk() as server:
        server.started = reply(202, Location="/jobs/7")
        yield server


def run(project: Project, desk: JobDesk, poll: Any, *arguments: str, **endpoint: Any) -> tuple[Any, str]:
    """The outcome of a run with one sample, and its text on one line."""
    project.api = {"url": f"{desk.url}/api", "chatEndpoint": {"poll": {**QUICK, **poll}, "maxRetries": 2, **endpoint}}
    project.samples(1)
    project.evaluation |= {"thresholds": {"string_match": 1}, "ciGate": True}
    outcome = project.evaluate(*arguments)
    return outcome, " ".join((outcome.out + outcome.err).split())


def asked(desk: JobDesk) -> list[str]:
    return [f"{one.method} {one.path}" for one in desk.heard]


def test_the_location_of_a_job_is_polled_until_the_result_and_latency_is_that_of_both(project, desk):
    desk.jobs = [reply(202), reply(202, Retry_After="1"), reply(503, Retry_After="0")]
    passed, _ = run(project, desk, {}, "-o", "report.json", headers={"X-Key": "k"})
    assert passed.code == 0, passed
    assert asked(desk) == ["POST /api/v1/chat", *["GET /jobs/7"] * 4]
    assert {one.headers["x-key"] for one in desk.heard} == {"k"} and desk.heard[-1].body == b""
    [sample] = json.loads((project.folder / "report.json").read_text())["datasets"][0]["samples"]
    assert sample["latencyMs"] > 1000, "Retry-After is waited for"


def test_a_job_is_known_by_its_id_and_its_state(project, desk):
    desk.started = reply(200, {"id": "a/b", "state": "queued"})
    desk.jobs = [reply(200, {"id": "a/b", "state": "running"}), reply(202, {"id": "a/b", "state": "running"})]
    assert run(project, desk, BY_STATE)[0].code == 0
    assert asked(desk)[1:] == ["GET /api/jobs/a%2Fb"] * 3
    desk.heard.clear()
    desk.started = reply(200, RESULT)
    assert project.evaluate().code == 0 and len(desk.heard) == 1, "a job that is done at once"


@pytest.mark.parametrize(
    ("poll", "started", "jobs", "says"),
    [
        (BY_STATE, {"id": 7}, [reply(200, {"state": "failed", "error": "no tokens left"})],
         "the job has failed (failed); the reply says 'no tokens left'"),
        (BY_STATE, {"id": 7}, [reply(200, {"status": "running"})], "the reply has no value at $.state"),
        (BY_STATE, {"key": 7}, [], "the reply names no job: it has no id at $.id (chatEndpoint.poll.job)"),
        (BY_STATE, {"id": ""}, [], "the reply names no job: it has no id at $.id (chatEndpoint.poll.job)"),
        (BY_STATE, {"id": " "}, [], "the reply names no job: it has no id at $.id (chatEndpoint.poll.job)"),
        ({}, {}, [], "the reply names no job: it has no url in a Location header; set chatEndpoint.poll.job"),
        ({}, reply(202, Location=""), [], "the reply names no job: it has no url in a Location header"),
        ({}, reply(200, {"id": "7"}), [], "the reply names no job (chatEndpoint.poll.job) and is no result: "),
        ({}, reply(200), [], "and is no result: http://127.0.0.1"),
        (BY_STATE, {"state": "completed", "id": 7}, [], "no reply to 1 sample expected a JSON object"),
        ({}, reply(201, RESULT), [], "the reply names no job: it has no url in a Location header"),
        (BY_STATE, {"id": 7, "state": "new"}, [reply(200, {"state": "complete"}, Retry_After="99")],
         "no result within 60 s (chatEndpoint.timeoutSeconds); its last state is 'complete', which is neither in "
         "chatEndpoint.poll.done nor in failed"),
        (BY_STATE | {"intervalSeconds": 9.0}, {"id": 7, "state": "new"}, [],
         "within 60 s (chatEndpoint.timeoutSeconds); its last state is 'new'"),
        ({}, None, [reply(404)], "/jobs/7 answered 404 Not Found, expected 200; check chatEndpoint.poll"),
        ({}, None, [reply(503, Retry_After="0")] * 3, "answered 503 Service Unavailable"),
        ({"intervalSeconds": 9.0}, None, [], "the job has no result within 60 s (chatEndpoint.timeoutSeconds)"),
    ],
    ids=str,
)  # fmt: skip
def test_a_job_without_result_is_one_failure_and_is_not_started_again(
    project, desk, monkeypatch, poll, started, jobs, says
):
    if started is not None:
        desk.started = started if isinstance(started, Said) else reply(202, started)
    desk.jobs = list(jobs)
    left = 0.3 if "within 60 s" in says else 60  # of the time, once the job has started
    left = 6 if jobs and left < 60 else left
    monkeypatch.setattr(polling, "perf_counter", lambda: perf_counter() + 60 - left)
    failed, said = run(project, desk, poll, timeoutSeconds=60)
    assert failed.code == 3 and says in said, failed
    assert len([one for one in desk.heard if one.method == "POST"]) == 1


def test_a_service_that_answers_at_once_or_by_a_job_needs_no_more_keys(project, desk):
    desk.started = reply(200, RESULT)
    assert run(project, desk, {})[0].code == 0 and asked(desk) == ["POST /api/v1/chat"]
    desk.started = reply(202, Operation_Location="", Location="/jobs/7")
    assert project.evaluate().code == 0 and asked(desk)[1:] == ["POST /api/v1/chat", "GET /jobs/7"]
    desk.started = reply(201, RESULT, Location="/jobs/8")
    assert project.evaluate().code == 0 and asked(desk)[-1] == "GET /jobs/8", "what it says of a new job is no result"


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9/jobs", "https://{host}/jobs", "//token.example/jobs", "http://["]
)
def test_a_reply_does_not_choose_the_host_that_gets_the_credentials(project, desk, place):
    desk.started = reply(202, Location=place.format(host=desk.url.partition("//")[2]))
    failed, said = run(project, desk, {}, headers={"Authorization": "Bearer k"})
    assert failed.code == 3 and len(desk.heard) == 1, failed
    assert ("which is not the host of" in said and "set chatEndpoint.poll.path" in said) or "is no url" in said, said


def test_an_expired_token_is_renewed_without_another_job(project, desk):
    desk.accepts = {"fleeting-token-1"}
    desk.jobs = [reply(202), reply(202)]
    token = {"tokenUrl": f"{desk.url}/token", "clientId": "bot", "clientSecret": "s"}

    def expire() -> None:
        if len(desk.heard) == 3:
            desk.accepts = {"fleeting-token-2"}

    desk.on_request = expire
    assert run(project, desk, {}, auth={"oauth2": token})[0].code == 0
    assert [one.method for one in desk.heard] == ["POST", *["GET"] * 4]
    assert desk.tokens() == [f"fleeting-token-{n}" for n in (1, 1, 1, 2, 2)]


def test_a_token_is_renewed_while_a_job_is_polled(project, desk, monkeypatch):
    now = [1e9]
    monkeypatch.setattr(credentials, "time", lambda: now[0])
    desk.on_request = lambda: now.__setitem__(0, now[0] + 30)
    desk.grant["expires_in"] = 100  # renewed after 50 s, at half of its time
    desk.jobs = [reply(202), reply(202), reply(202)]
    token = {"tokenUrl": f"{desk.url}/token", "clientId": "bot", "clientSecret": "s"}
    assert run(project, desk, {}, auth={"oauth2": token})[0].code == 0
    assert [one.method for one in desk.heard] == ["POST", *["GET"] * 4]
    assert desk.tokens() == [f"fleeting-token-{n}" for n in (1, 1, 2, 2, 3)]


def test_a_retriever_searches_and_ingests_by_jobs(project, desk):
    desk.result = {"state": "completed", "hits": ["eval:r:d1"]}
    desk.started = reply(200, {"id": 7, "state": "queued"})
    call = {"poll": {**BY_STATE, **QUICK}}
    search = {**call, "path": "/find", "request": {"q": "{{query}}"}, "response": {"ids": "$.hits[*]"}}
    ingest = {**call, "path": "/add", "request": {"documents": "{{documents}}", "scope": "{{scopePrefix}}"}}
    delete = {**call, "path": "/remove", "request": {"scope": "{{scopePrefix}}"}}
    http = {"url": desk.url, "search": search, "ingest": ingest, "delete": delete}
    project.evaluation["retrievers"] = {"shop": {"http": http}}
    document = {"sourceId": "eval:r:d1", "content": "Paris"}
    dataset = {
        "version": "1",
        "defaults": {"scopePrefix": "eval:r:"},
        "id": "r",
        "documents": [document],
        "queries": [{"id": "a", "query": "Capital?", "relevant": {"sourceIds": ["eval:r:d1"]}}],
    }
    (project.folder / "r.json").write_text(json.dumps(dataset))
    project.evaluation["datasets"] = [
        {"name": "r", "path": "$file:r.json", "metrics": ["Recall@1"], "retriever": "shop"}
    ]
    passed = project.evaluate()
    assert passed.code == 0, passed
    assert (
        asked(desk)[:2] == ["POST /remove", "GET /jobs/7"]
        and "POST /add" in asked(desk)
        and "POST /find" in asked(desk)
    )
    assert asked(desk).count("GET /jobs/7") == len(desk.heard) / 2


@pytest.mark.parametrize(
    ("poll", "says"),
    [
        ({"path": "/jobs/{{job}}"}, "path needs the id of the job. add job, as in job: $.id"),
        ({"path": "/jobs/{{id}}", "job": "$.id"}, "{{job}} is the only placeholder of path"),
        ({"status": "$.state"}, "status and done belong together"),
        ({"job": "$.["}, "poll.job: '$.[' is not a JSONPath query"),
    ],
    ids=str,
)
def test_polling_without_sense_is_an_error(project, desk, poll, says):
    assert says in run(project, desk, poll)[1] and desk.heard == []
