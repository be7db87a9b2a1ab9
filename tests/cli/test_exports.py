"""`--export`: what another system gets, what it never gets, and what a failure costs."""

import json

import pytest

from servers.faulty_agent import FaultyAgent, status
from servers.ports import find_free_port
from servers.traced_agent import TracedAgent, retrieval

SCORER = """
def near(exchange):
    if exchange.sample.id == "s1":
        raise ValueError("no map")
    return None if exchange.sample.id == "s2" else 0.5
"""


@pytest.fixture
def collector():
    """A collector of OpenTelemetry, which accepts everything."""
    with FaultyAgent() as server:
        server.reply = {}
        yield server


@pytest.fixture
def exporting(project, agent, collector, monkeypatch):
    """Three samples, of which s1 gets a wrong answer. `near` fails for s1, and is not applicable to s2."""
    agent.reply = lambda body: {"response": "Rome" if body["message"].endswith(" 1") else "Paris"}
    (project.folder / "mine.py").write_text(SCORER)
    monkeypatch.setenv("OTEL_KEY", "hunter2-hunter2")
    project.api = {"url": agent.url}
    project.evaluation = {
        "thresholds": {"string_match": 0.5},
        "ciGate": {"minSamples": 1},
        "exports": {"otel": {"url": f"{collector.url}/", "headers": {"authorization": "Bearer ${env:OTEL_KEY}"}}},
    }
    project.samples(3, metrics=("string_match", {"name": "near", "scorer": "mine:near"}))
    return project


def read(value):
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [read(item) for item in content["values"]]
    return int(content) if kind == "intValue" else content


def plain(attributes):
    return {one["key"]: read(one["value"]) for one in attributes}


def received(collector):
    """The log records, each with its attributes as plain values."""
    assert {request.path for request in collector.requests} == {"/v1/logs"}
    logs = [log for one in collector.requests for sent in one.body["resourceLogs"] for log in sent["scopeLogs"]]
    return [record | {"attributes": plain(record["attributes"])} for log in logs for record in log["logRecords"]]


def scores(collector):
    """The attributes of the results, by metric and sample."""
    results = [one["attributes"] for one in received(collector) if one["eventName"] == "gen_ai.evaluation.result"]
    return {(one["gen_ai.evaluation.name"], one["evalspec.sample"]): one for one in results}


def run_record(collector):
    (found,) = (one["attributes"] for one in received(collector) if one["eventName"] == "evalspec.run")
    return found


def test_each_score_is_a_log_record_and_what_is_unknown_has_no_value(exporting, collector):
    done = exporting.evaluate("--export", "otel")
    assert done.code == 0, done.err
    assert f"exported to otel: 5 results (1 failed), 1 not applicable not sent to {collector.url}" in done.err
    found = scores(collector)
    assert set(found) == {("string_match", "s0"), ("string_match", "s1"), ("string_match", "s2")} | {
        ("near", "s0"),
        ("near", "s1"),
    }
    right, wrong, failed = found["string_match", "s0"], found["string_match", "s1"], found["near", "s1"]
    value, label = "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"
    assert (right[value], right[label], right["test.case.result.status"]) == (1, "pass", "pass")
    assert (wrong[value], wrong[label], wrong["test.case.result.status"]) == (0, "fail", "fail")
    assert {value, label}.isdisjoint(failed)
    assert failed["error.type"] == "other"
    assert "no map" in failed["gen_ai.evaluation.explanation"]
    assert "error.type" not in right
    assert (right["test.suite.name"], right["test.case.name"], right["evalspec.attempt"]) == ("bot", "qa/s0", 1)
    assert collector.requests[0].headers["authorization"] == "Bearer hunter2-hunter2"
    assert "hunter2" not in done.out + done.err + json.dumps(received(collector))


def test_the_record_of_a_traced_attempt_belongs_to_the_first_span_of_what_was_answered(project, collector):
    port = find_free_port()
    with TracedAgent(port) as traced:
        traced.traces["Capital of France? 1"] = None
        traced.steps, traced.statuses = [retrieval("d1")], [503]
        project.api = {"url": traced.url, "traces": {"receive": port, "quiet": "50ms", "grace": "200ms"}}
        project.evaluation = {"exports": {"otel": {"url": collector.url}}}
        project.samples(2)
        assert project.evaluate("--export", "otel", "-j", "1").code == 0
    _tried, answered = (json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"] for body in traced.exported)
    (span,) = (one for one in answered if one["name"] == "POST /v1/chat")
    found = {
        one["attributes"].get("evalspec.sample"): (one.get("traceId"), one.get("spanId")) for one in received(collector)
    }
    assert found == {"s0": (span["traceId"], span["spanId"]), "s1": (None, None), None: (None, None)}


@pytest.mark.parametrize(
    ("metric", "limit", "verdict", "state"),
    [
        ("string_match", 0.5, "PASS", "success"),
        ("string_match", 0.9, "FAIL", "failure"),
        ("near", 0.4, "INCOMPLETE", "aborted"),
    ],
)
def test_only_a_pass_is_a_success(exporting, collector, metric, limit, verdict, state):
    exporting.evaluation["thresholds"] = {metric: limit}
    exporting.evaluate("--export", "otel")
    found = run_record(collector)
    assert (found["evalspec.verdict"], found["test.suite.run.status"]) == (verdict, state)


def test_a_run_without_a_gate_has_no_status(exporting, collector):
    exporting.evaluation["ciGate"] = False
    exporting.evaluate("--export", "otel")
    assert "test.suite.run.status" not in run_record(collector)


def test_metrics_over_all_attempts_are_sent_once(exporting, collector):
    exporting.evaluation["thresholds"]["pass^2"] = {"min": 0.1, "of": "string_match"}
    assert exporting.evaluate("--repeat", "2", "--export", "otel").code == 0
    sent = [one["attributes"] for one in received(collector) if "evalspec.sample" in one["attributes"]]
    asked = [
        (one["gen_ai.evaluation.name"], one.get("evalspec.attempt")) for one in sent if one["evalspec.sample"] == "s0"
    ]
    assert [one for one in asked if one[0] != "near"] == [
        ("string_match", 1),
        ("string_match", 2),
        ("pass^2 of string_match", None),
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(401), "answered 401 Unauthorized, expected 200; check spec.evaluation.exports.otel.headers"),
        (
            status(200, body='{"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "hunter2-hunter2?"}}'),
            "the collector rejected 2 records: '[redacted]?'",
        ),
        (status(200, body="<html>"), "is not OTLP/JSON, so it is unknown what it accepted"),
    ],
)
def test_a_failed_export_loses_neither_the_verdict_nor_the_run(exporting, collector, answer, said):
    collector.script = [answer]
    done = exporting.evaluate("--export", "otel", "--json")
    run = done.document["runId"]
    assert (done.code, done.document["verdict"]) == (3, "PASS")
    assert said in done.err
    assert f"to export it again: evalspec report {run} --export otel" in done.err
    assert "hunter2" not in done.err + done.out
    again = exporting("report", run, "--export", "otel")
    assert again.code == 0, again.err
    assert len(scores(collector)) == 5


def test_an_overloaded_collector_is_asked_again(exporting, collector):
    collector.script = [status(503), status(429)]
    assert exporting.evaluate("--export", "otel").code == 0
    assert len(collector.requests) == 3


def test_a_fail_stays_a_fail(exporting, collector):
    collector.script = [status(400)] * 9
    exporting.evaluation["thresholds"] = {"string_match": 0.9}
    assert exporting.evaluate("--export", "otel").code == 1


@pytest.mark.parametrize(
    ("name", "exports", "said"),
    [
        ("otl", {}, "--export: unknown exporter 'otl'. did you mean 'otel'?"),
        (
            "otel",
            {},
            "agent.yaml:8: spec.evaluation: it does not say where --export otel sends to. add exports: {otel:",
        ),
        ("otel", {"otel": {"url": "$env:NOBODY"}}, "spec.evaluation.exports.otel.url: environment variable NOBODY"),
        ("otel", {"otel": {"url": "host:1"}}, "spec.evaluation.exports.otel.url: 'host:1' does not start with http"),
        (
            "phoenix",
            {},
            "--export phoenix needs phoenix.client, which is not installed. pip install 'arize-phoenix-client>=2'",
        ),
    ],
)
def test_mistakes_are_found_before_the_agent_is_asked(exporting, agent, name, exports, said):
    exporting.evaluation["exports"] = exports
    done = exporting.evaluate("--export", name)
    assert (done.code, agent.requests) == (2, [])
    assert said in done.err


def test_nothing_is_sent_without_the_option(exporting, collector):
    assert exporting.evaluate().code == 0
    assert collector.requests == []


def test_untrusted_projects_send_only_where_the_command_line_permits(exporting, agent, collector):
    exporting.evaluation["datasets"][0]["metrics"] = ["string_match"]
    own, host = ("--untrusted", "--url", agent.url), collector.url.removeprefix("http://")
    key = "spec.evaluation.exports.otel.headers.authorization: --untrusted does not read the variable OTEL_KEY"
    assert key in exporting.evaluate(*own, "--export", "otel").err
    del exporting.evaluation["exports"]["otel"]["headers"]
    refused = exporting.evaluate(*own, "--export", "otel")
    assert f"exports.otel.url: --untrusted does not connect to {host}. pass --allow-host {host}" in refused.err
    assert (refused.code, collector.requests) == (2, [])
    assert exporting.evaluate(*own, "--export", "otel", "--allow-host", host).code == 0
    assert exporting("report", "--untrusted", "--export", "otel").code == 2
    assert exporting("report", "--untrusted", "--export", "otel", "--allow-host", host).code == 0
    assert len(collector.requests) == 2
