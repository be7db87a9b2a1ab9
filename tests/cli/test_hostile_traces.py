"""Traces that would make a run lie, crash or wait for ever."""

import asyncio
import json
import sys
import threading
import time
from contextlib import suppress

import pytest

from cli.test_traces import CAPITALS, OWN_AGENT, ask, measure, reasons, scores, traced, values, watched  # noqa: F401
from evalspec.inputs.traces.otlp import read_traces
from evalspec.targets.trace_receiver import TraceReceiver
from servers.ports import find_free_port
from servers.traced_agent import model, reranking, retrieval, tool


def under(step, **placed):
    return {**step, **placed}


def test_a_span_whose_parent_is_lost_still_belongs_to_the_one_try(watched, traced):  # noqa: F811
    """Without it, an agent that retrieved would be scored as one that retrieved nothing."""
    traced.traces[CAPITALS[1]] = [under(retrieval("d1"), inside=None)]
    ask(watched, count=2)
    assert values(measure(watched, "-j", "1"), "Recall@2") == [1.0, 1.0]


def test_after_a_retry_a_span_without_its_parent_may_be_of_either_try(watched, traced):  # noqa: F811
    traced.traces[CAPITALS[1]] = [under(retrieval("d1"), inside=None), model(3, 1)]
    traced.steps += [model(3, 1)]
    traced.statuses = [200, 503]
    ask(watched, ["Recall@2", "tokens_mean", "steps"], count=2)
    document = measure(watched, "-j", "1")
    first, second = scores(document)
    assert first["Recall@2"]["value"] == 1.0
    assert second["Recall@2"]["cause"] == "traces" and "parent" in second["Recall@2"]["reason"]
    assert second["steps"]["value"] == 1.0 and second["tokens_mean"]["value"] == 8.0


def test_what_an_inner_agent_does_is_no_copy_of_the_outer_step(watched, traced):  # noqa: F811
    """An agent as a tool, and a model whose span encloses the tools that it calls."""
    agent = {"name": "sub", "attributes": {"openinference.span.kind": "AGENT"}}
    traced.steps = [
        model(100, 10),
        under(tool("ask_helper", {}), inside=0),
        under(agent, inside=1),
        under(model(10, 1), inside=2),
        under(tool("delete_account", {}), inside=2),
    ]
    ask(watched, ["tokens_mean", "steps", "forbidden_tool_calls"], forbidden_tools=["delete_account"])
    document = measure(watched)
    assert [values(document, name) for name in ("tokens_mean", "steps")] == [[121.0], [2.0]]
    assert values(document, "forbidden_tool_calls") == [1.0]


def test_two_instrumentations_side_by_side_count_once(watched, traced):  # noqa: F811
    """An instrumentation that does not make its span current leaves that of the next one beside it."""
    traced.steps = [
        under(model(10, 3), took=9, scope="traceloop"),
        under(model(10, 3), at=1, took=5, scope="openinference"),
        under(model(10, 3), at=20, scope="traceloop"),
        under(model(10, 3), at=20, scope="traceloop"),
    ]
    ask(watched, ["tokens_mean", "steps"])
    document = measure(watched)
    assert [values(document, name) for name in ("tokens_mean", "steps")] == [[39.0], [3.0]]


def test_a_retriever_that_encloses_its_reranker_is_not_what_was_reranked(watched, traced):  # noqa: F811
    traced.steps = [
        under(retrieval("d1", "d3", name="compressing"), took=9),
        under(retrieval("d2", "d1", name="base"), inside=0, at=1),
        under(reranking("d1", "d3"), inside=0, at=3),
    ]
    ask(watched, ["RR", "retrieved.RR"])
    document = measure(watched)
    assert [values(document, name) for name in ("RR", "retrieved.RR")] == [[1.0], [0.5]]


def test_spans_soon_after_the_reply_count_although_others_came_long_before(watched, traced, monkeypatch):  # noqa: F811
    """Each has evalspec's span as its parent: an agent that continues the trace, but has no span of the request."""

    passed = [0]
    monkeypatch.setattr("evalspec.runs.runner.tracing.monotonic", lambda: time.monotonic() + sum(passed))
    watched.api["traces"] |= {"quiet": "6s", "grace": "60s"}

    def answer(question, headers):
        _, trace, parent, _ = headers["traceparent"].split("-")
        traced.has_root = True
        traced.export(traced._describe(trace, parent, [retrieval("d1")]))
        passed.append(1000)
        traced.wait = 0.05
        traced.exports.append(later(traced, traced._describe(trace, parent, [model(10, 1)])))
        return 200

    traced.answer = answer
    ask(watched, ["Recall@2", "tokens_mean"])
    document = measure(watched)
    assert values(document, "Recall@2") == [1.0] and values(document, "tokens_mean") == [11.0]


def later(agent, body):
    thread = threading.Thread(target=agent._export_later, args=(body,))
    thread.start()
    return thread


def test_a_trace_that_never_ends_is_given_up(watched, traced):  # noqa: F811
    stop = threading.Event()

    def flood(trace, parent):
        while not stop.is_set():
            traced._export_later(traced._describe(trace, parent, [retrieval("d1")]))

    def answer(question, headers):
        _, trace, parent, _ = headers["traceparent"].split("-")
        traced.exports.append(threading.Thread(target=flood, args=(trace, parent)))
        traced.exports[-1].start()
        return 200

    traced.answer = answer
    watched.api["traces"] |= {"quiet": "3s", "grace": "3s"}
    try:
        document = measure(watched)
    finally:
        stop.set()
    assert "still arrived" in reasons(document, "Recall@2")[0]
    again = watched("rescore", document["runId"], "agent.yaml", "--json").document
    assert scores(again)[0]["Recall@2"]["status"] == "failed", "a rescored trace is no more complete than before"


def test_a_trace_of_too_many_spans_stays_failed_when_it_is_scored_again(watched, traced, monkeypatch):  # noqa: F811
    monkeypatch.setattr("evalspec.runs.runner.tracing.MOST_SPANS", 5)
    traced.steps = [retrieval("d1", name=f"n{n}") for n in range(9)]
    watched.api["traces"]["retrieval"] = "last"
    whole = traced._describe

    def describe(*given):
        document = json.loads(whole(*given))
        document["resourceSpans"][0]["scopeSpans"][0]["spans"].reverse()
        return json.dumps(document).encode()

    traced._describe = describe
    document = measure(watched)
    assert "more than 5 spans" in reasons(document, "Recall@2")[0]
    again = watched("rescore", document["runId"], "agent.yaml", "--json").document
    assert scores(again)[0]["Recall@2"]["status"] == "failed"


def test_baggage_of_the_manifest_goes_along(watched, traced):  # noqa: F811
    watched.api["chatEndpoint"] = {"headers": {"Baggage": "tenant=north", "TraceParent": "00-1-2-01"}}
    assert values(measure(watched), "Recall@2") == [1.0]
    (headers,) = traced.asked
    assert headers["baggage"].startswith("tenant=north,evalspec.attempt=")


BROKEN_AGENT = OWN_AGENT.replace(
    '    return "Paris"',
    """\
        span.set_attribute("large", 2**70)
        span.set_attribute("lone", "\\ud800")
        span.set_attribute("long", "x" * 1_000_001)
    return "Paris\"""",
)


def test_attributes_that_are_no_json_cost_no_reply(project):
    (project.folder / "own.py").write_text(BROKEN_AGENT)
    project.api = {"python": "own:answer", "traces": {"receive": "auto", "quiet": "50ms", "grace": "1s"}}
    ask(project, ["string_match", "Recall@2"])
    document = measure(project)
    assert values(document, "string_match") == [1.0] and values(document, "Recall@2") == [1.0]


def test_a_file_that_cannot_be_read_is_told(watched, traced):  # noqa: F811
    (watched.folder / "spans.jsonl").mkdir()
    traced.steps = []
    watched.api["traces"] = {"file": "spans.jsonl", "quiet": "100ms", "grace": "1s"}
    refused = watched.evaluate()
    assert refused.code == 2 and "spans.jsonl" in refused.err and "Traceback" not in refused.err


def test_a_check_of_the_answer_is_not_the_call_that_made_it(watched, traced):  # noqa: F811
    kept, answer = "Paris is the capital of France and its largest city by far.", "Paris is the capital of France"
    traced.reply = {"response": f"{answer} [1]"}
    traced.steps = [
        retrieval("d1", texts=(kept,)),
        model(9, 1, prompt=f"Use this: {kept}", answer=answer),
        under(model(9, 1, prompt="Is this safe? Paris", answer="safe"), at=5),
    ]
    ask(watched, ["grounding_overlap"])
    assert values(measure(watched), "grounding_overlap") == [0.75], "0 if the check's prompt were the one that counts"


@pytest.mark.parametrize("where", ["key", "event", "nested", "json", "status", "log"])
def test_a_secret_anywhere_in_a_span_never_reaches_the_disk(watched, traced, monkeypatch, where):  # noqa: F811
    secret = 's3cr3t-"token"-value'
    monkeypatch.setenv("AGENT_TOKEN", secret)
    watched.api["chatEndpoint"] = {"headers": {"authorization": "Bearer ${env:AGENT_TOKEN}"}}

    def export(body, **kinds):
        document = json.loads(body)
        span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        text = {"stringValue": f"Bearer {secret}"}
        if where == "key":
            span["attributes"].append({"key": secret, "value": text})
        elif where == "event":
            values = [{"key": "exception.message", "value": text}]
            span["events"] = [{"name": "exception", "attributes": values, "timeUnixNano": "1"}]
        elif where == "nested":
            inner = {"kvlistValue": {"values": [{"key": secret, "value": {"arrayValue": {"values": [text]}}}]}}
            span["attributes"].append({"key": "x", "value": inner})
        elif where == "json":
            span["attributes"].append({"key": "x", "value": {"stringValue": json.dumps({"h": secret})}})
        elif where == "status":
            span["status"] = {"code": 2, "message": f"401 for {secret}"}
        else:
            ids = {"traceId": span["traceId"], "spanId": span["spanId"]}
            document["resourceLogs"] = [{"scopeLogs": [{"logRecords": [{**ids, "eventName": "x", "body": text}]}]}]
        type(traced).export(traced, json.dumps(document).encode(), **kinds)
        if where == "log":
            traced.endpoint = traced.endpoint.replace("traces", "logs")
            type(traced).export(traced, json.dumps(document).encode(), **kinds)

    traced.export = export
    assert values(measure(watched), "Recall@2") == [1.0]
    for path in watched.folder.rglob("*"):
        if path.is_file():
            content = path.read_text(errors="replace")
            assert "s3cr3t" not in content, content[max(0, content.find("s3cr3t") - 300) :][:600]


def test_broken_requests_to_the_receiver_print_nothing(capfd):
    """Also those that are under way when the run ends, as the connections that exporters keep."""

    async def attack():
        receiver = TraceReceiver(lambda _: None)
        await receiver.start()
        port, path = receiver._port, receiver.endpoint.split("/", 3)[3]
        answers, writers = [], []
        for method, kind in (("HEAD", "x"), ("CONNECT", "x"), ("POST", "Application/JSON"), *[("POST", "x")] * 30):
            target = f"/{path}/v1/traces" if method != "POST" or kind != "x" else f"/{len(answers)}"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: 2\r\n\r\n"
            writers.append(writer)
            writer.write(head.encode() + b"{}")
            answers.append(int((await reader.readline()).split()[1]))
        await receiver.aclose()
        for writer in writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return answers, receiver.refusals

    answers, refusals = asyncio.run(attack())
    assert answers == [405, 405, 200, *[404] * 30]
    assert len(refusals) <= 21 and refusals.total() == 32
    assert capfd.readouterr() == ("", "")


def test_a_body_of_empty_objects_is_refused_before_it_takes_memory():
    body = b'{"resourceSpans": [' + b"{}," * 2_000_000 + b"{}]}"
    with pytest.raises(ValueError, match="more than 2,000,000 objects"):
        read_traces(body, is_json=True)


def test_a_check_shows_no_secret(watched, traced, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AGENT_TOKEN", "s3cr3t-token-value")
    watched.api["chatEndpoint"] = {"headers": {"authorization": "Bearer ${env:AGENT_TOKEN}"}}
    traced.steps = [{"name": "s3cr3t-token-value", "attributes": {"s3cr3t-token-value": "x"}}]
    watched.write()
    for options in ([], ["--json"]):
        shown = watched("traces", "check", "agent.yaml", *options)
        assert "s3cr3t" not in shown.out + shown.err and "1 span" not in shown.out


ECHOING_AGENT = """
import json, os, sys, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

endpoint = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        _, trace, parent, _ = self.headers["traceparent"].split("-")
        span = {"traceId": trace, "spanId": "ab" * 8, "parentSpanId": parent, "name": "POST " + endpoint}
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
        for path in ("/v1/traces", "/v2" + endpoint[endpoint.rindex("/"):]):
            try:
                sent = urllib.request.Request(endpoint + path, body, {"content-type": "application/json"})
                urllib.request.urlopen(sent).close()
            except urllib.error.HTTPError as error:
                error.close()
        open("token", "w").write(endpoint[endpoint.rindex("/") + 1:])
        self.answer(b'{"response": "Paris"}')

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_the_path_of_the_receiver_is_a_secret(project):
    (project.folder / "agent.py").write_text(ECHOING_AGENT)
    port = find_free_port()
    command = [sys.executable, "agent.py", str(port)]
    project.api = {"url": f"http://127.0.0.1:{port}", "command": command, "chatEndpoint": {"path": "/chat"}}
    ask(project)
    document = measure(project, "--traces")
    token = (project.folder / "token").read_text()
    assert len(token) > 20 and "nothing is received at" in str(document["notes"])
    stored = {path.name for path in project.folder.rglob("*") if path.is_file() and token in path.read_text("latin-1")}
    assert stored == {"token"} and token not in json.dumps(document)
    assert measure(project, "--traces", "--resume")["runId"] == document["runId"]
