"""Spans of an agent: received, joined with its replies, scored, stored and shown."""

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pyarrow.parquet
import pytest

from cli.test_conversations import wait_until
from evalspec.reports.json_report import iterate_json
from evalspec.runs.runner.reread import conclude_stored
from evalspec.runs.store.erasing import Wanted, erase_samples
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import open_run
from evalspec.targets.trace_receiver import TraceReceiver
from servers.ports import find_free_port
from servers.traced_agent import (
    TracedAgent,
    model,
    reranking,
    retrieval,
    standard_retrieval,
    tool,
)

CAPITALS = ("Capital of France?", "Capital of France? 1", "Capital of France? 2")


@pytest.fixture
def traced() -> Iterator[TracedAgent]:
    with TracedAgent(find_free_port()) as agent:
        agent.steps = [retrieval("d1", "d2", texts=("Paris is the capital.", "Lyon is a city."))]
        yield agent


@pytest.fixture
def watched(project, traced):
    """A project whose agent exports spans. A trace is complete after 0.1 s, and given up after a second."""
    port = int(traced.endpoint.split(":")[2].split("/")[0])
    project.api = {"url": traced.url, "traces": {"receive": port, "quiet": "100ms", "grace": "1s"}}
    ask(project)
    return project


def ask(project, metrics=("string_match", "Recall@2"), count=1, **fields):
    project.evaluation["datasets"] = []
    samples = [{"id": f"s{n}", "relevant": ["d1"], **fields} for n in range(count)]
    project.dataset("qa", samples, metrics=list(metrics))


def measure(project, *arguments):
    outcome = project.evaluate("--json", *arguments)
    assert outcome.code in (0, 3), outcome.err
    return outcome.document


def scores(document):
    return [sample["scores"] for sample in document["datasets"][0]["samples"]]


def values(document, metric):
    return [one[metric]["value"] for one in scores(document)]


def reasons(document, metric):
    found = [(one[metric]["status"], one[metric]["cause"], one[metric]["reason"]) for one in scores(document)]
    assert all(status == "failed" and cause == "traces" for status, cause, _ in found), found
    return [reason for _, _, reason in found]


def test_retrieval_tools_tokens_and_times_are_read_from_spans(watched, traced):
    traced.steps += [tool("search", {"q": "France"}), model(10, 3), model(20, 5)]
    metrics = ["Recall@2", "nDCG@2", "tool_calls_exact", "steps", "tokens_mean", "retrieve.latency_p95"]
    ask(watched, metrics, expected_tools=[{"name": "search", "arguments": {"q": "France"}}])
    document = measure(watched)
    assert {metric: values(document, metric) for metric in metrics} == {
        "Recall@2": [1.0],
        "nDCG@2": [1.0],
        "tool_calls_exact": [1.0],
        "steps": [2.0],
        "tokens_mean": [38.0],
        "retrieve.latency_p95": [1.0],
    }
    (headers,) = traced.asked
    assert headers["baggage"].startswith("evalspec.attempt=")
    watched.api["traces"]["baggage"] = False
    measure(watched)
    assert "baggage" not in traced.asked[-1] and "traceparent" in traced.asked[-1]


def test_traced_and_untraced_runs_have_the_same_scores_of_replies(watched, traced):
    ask(watched, ["string_match", "rouge"], count=3)
    with_spans = measure(watched)
    del watched.api["traces"]
    assert scores(measure(watched)) == scores(with_spans)


def test_the_reply_frees_its_worker_before_its_trace_is_complete(watched, traced):
    def read_log() -> str:
        return (next(watched.folder.glob(".evalspec/runs/2*")) / "samples.jsonl").read_text()

    def export(body: bytes) -> None:
        wait_until(lambda: read_log().count('{"kind":"reply"') == 3)
        TracedAgent.export(traced, body)

    traced.wait, traced.export = 0.01, export
    watched.api["traces"]["grace"] = "60s"
    ask(watched, count=3)
    assert values(measure(watched, "-j", "1"), "Recall@2") == [1.0, 1.0, 1.0]
    kinds = [json.loads(line)["kind"] for line in read_log().splitlines()]
    assert kinds[:3] == ["reply"] * 3, "each reply is stored at once"


def test_no_retrieval_is_an_empty_list_if_others_of_the_run_have_one(watched, traced):
    traced.traces[CAPITALS[1]] = [model(1, 1)]
    ask(watched, count=3)
    assert values(measure(watched, "-j", "1"), "Recall@2") == [1.0, 0.0, 1.0]
    traced.traces = {question: [model(1, 1)] for question in CAPITALS}
    (reason, *_) = reasons(measure(watched), "Recall@2")
    assert reason == "no trace of the run has a span of a retrieval: is the retriever instrumented?"


@pytest.mark.parametrize(
    ("steps", "settings", "said"),
    [
        (None, {}, "no span of its trace arrived within 1 s of the reply: the agent has to be instrumented"),
        ([retrieval("d1")], {"has_root": False}, "its trace is not complete: 1 span arrived within 1 s"),
        ([retrieval("d1")], {"foreign": True}, "no span of its trace arrived within 1 s"),
        (
            [retrieval("d1", name="a"), retrieval("d2", name="b")],
            {},
            "2 retrievals: a, b; set spec.api.traces.retrieval",
        ),
        ([{"name": "r", "attributes": {"openinference.span.kind": "RETRIEVER"}}], {}, "lists no documents"),
    ],
)
def test_what_a_trace_does_not_say_fails_with_its_cause(watched, traced, steps, settings, said):
    traced.traces[CAPITALS[0]] = steps
    for name, value in settings.items():
        setattr(traced, name, value)
    document = measure(watched)
    assert said in reasons(document, "Recall@2")[0]
    assert values(document, "string_match") == [1.0], "what the reply says is scored"
    if settings.get("foreign"):
        assert "2 spans belong to no request of this run" in str(document["notes"])


@pytest.mark.parametrize(
    ("choice", "expected"), [("last", ["d2"]), ("union", ["d1", "d2"]), ("a", ["d1"]), ("b", ["d2"])]
)
def test_which_of_several_retrievals_counts(watched, traced, choice, expected):
    traced.steps = [retrieval("d1", name="a"), retrieval("d2", name="b")]
    watched.api["traces"]["retrieval"] = choice
    ask(watched, ["Recall@2", "Success@1"], relevant=expected)
    assert values(measure(watched), "Recall@2") == [1.0]


def test_a_reranker_is_the_last_word_and_shows_its_gain(watched, traced):
    traced.steps = [retrieval("d2", "d1", name="a"), retrieval("d3", "d1", name="b"), reranking("d1", "d3")]
    ask(watched, ["RR", "retrieved.RR", "gain.RR"])
    document = measure(watched)
    assert [values(document, name) for name in ("RR", "retrieved.RR", "gain.RR")] == [[1.0], [0.5], [0.5]]


def test_ids_without_texts_give_rankings_only(watched, traced):
    traced.steps = [standard_retrieval("d1", "d2")]
    ask(watched, ["Recall@2", "grounding_overlap"])
    document = measure(watched)
    assert values(document, "Recall@2") == [1.0]
    assert "ids and no texts, so only rankings are measured" in reasons(document, "grounding_overlap")[0]


def test_texts_come_from_the_corpus_by_id(watched, traced):
    traced.steps = [standard_retrieval("d1", "d2")]
    ask(watched, ["grounding_overlap"])
    (watched.folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in (("d1", "Paris it is."), ("d2", "No.")))
    )
    watched.evaluation["datasets"][0]["corpus"] = "corpus.jsonl"
    assert values(measure(watched), "grounding_overlap") == [1.0]


def test_an_answer_rests_on_what_was_in_the_prompt(watched, traced):
    kept, dropped = "Paris is the capital of France and its largest city by far.", "Nobody asked for Lyon at all."
    traced.reply = {"response": "Lyon was asked for."}
    traced.steps = [
        retrieval("d1", "d2", texts=(kept, dropped)),
        model(9, 1, prompt=f"Use this:\n{kept.replace(' ', '  ')}", answer="Lyon was asked for."),
    ]
    ask(watched, ["grounding_overlap", "Recall@2"])
    document = measure(watched)
    assert values(document, "Recall@2") == [1.0] and values(document, "grounding_overlap") == [0.0]
    shown = watched("show", "s0")
    assert "span" in shown.out and "search" in shown.out


def test_the_reply_wins_and_a_contradiction_is_told(watched, traced):
    traced.reply |= {"ids": ["d9"]}
    watched.api["chatEndpoint"] = {"response": {"answer": "$.response", "contextIds": "$.ids"}}
    document = measure(watched)
    assert values(document, "Recall@2") == [0.0]
    assert "the reply and the trace of 1 sample (s0) differ in retrieved_context_ids" in str(document["notes"])


def test_only_the_answered_try_counts_and_all_are_paid_for(watched, traced):
    traced.steps = [retrieval("d1"), model(10, 1)]
    traced.statuses = [503]
    ask(watched, ["Recall@2", "steps", "tokens_mean"])
    document = measure(watched)
    assert len({headers["traceparent"].split("-")[1] for headers in traced.asked}) == 1
    assert len({headers["traceparent"] for headers in traced.asked}) == 2
    assert [values(document, name) for name in ("steps", "tokens_mean")] == [[1.0], [22.0]]


def test_a_conversation_is_the_traces_of_its_turns(watched, traced):
    traced.steps = [tool("search", {"q": "x"}), model(10, 1)]
    watched.api["chatEndpoint"] = {
        "protocol": "custom",
        "request": {"message": "{{input}}", "messages": "{{messages}}"},
        "response": {"answer": "$.response"},
    }
    calls = [{"name": "search", "arguments": {"q": "x"}}]
    turns = [{"user": "one", "expected_tools": calls}, {"user": "two", "expected_tools": []}]
    watched.evaluation["datasets"] = []
    (watched.folder / "talk.jsonl").write_text(json.dumps({"id": "s0", "turns": turns}) + "\n")
    watched.evaluation["datasets"] = [
        {"name": "talk", "path": "talk.jsonl", "metrics": ["tool_calls_exact", "steps", "tokens_mean"]}
    ]
    document = measure(watched)
    assert [values(document, name) for name in ("tool_calls_exact", "steps", "tokens_mean")] == [[0.5], [2.0], [11.0]]
    assert len({headers["traceparent"].split("-")[1] for headers in traced.asked}) == 2


def test_stored_traces_are_scored_again_and_reported_without_the_agent(watched, traced):
    first = measure(watched)
    ask(watched, ["string_match", "Recall@2", "Success@1"])
    watched.write()
    again = watched("rescore", first["runId"], "agent.yaml", "--json").document
    assert values(again, "Success@1") == [1.0] and len(traced.asked) == 1
    shown = watched("show", again["runId"], "s0").out
    assert "span        search" in shown and "1: d1 ✓" in shown


def test_stored_spans_are_read_by_new_rules_without_the_agent(watched, traced):
    traced.steps = [retrieval("d1", name="a"), retrieval("d2", name="b")]
    first = measure(watched)
    assert "2 retrievals" in reasons(first, "Recall@2")[0]
    watched.api["traces"]["retrieval"] = "union"
    watched.write()
    again = watched("rescore", first["runId"], "agent.yaml", "--json").document
    assert values(again, "Recall@2") == [1.0], scores(again)
    assert len(traced.asked) == 1


def test_a_run_without_texts_stores_no_span(watched, traced):
    document = measure(watched, "--no-content")
    assert values(document, "Recall@2") == [1.0]
    log = (watched.folder / ".evalspec/runs" / document["runId"] / "samples.jsonl").read_text()
    assert '"spans"' not in log and "Lyon" not in log


def test_spans_are_rows_of_parquet(watched, traced):
    traced.steps.append(model(10, 3))
    traced.statuses = [503]
    assert watched.evaluate("-o", "run.spans.parquet").code == 0
    rows = pyarrow.parquet.read_table("run.spans.parquet").to_pylist()
    assert sorted(row["kind"] for row in rows) == ["model", "model", "other", "other", "retrieval", "retrieval"]
    assert {row["input_tokens"] for row in rows} == {10, None}
    found = [json.loads(row["documents"]) for row in rows if row["kind"] == "retrieval"]
    assert [[one["id"] for one in documents] for documents in found] == [["d1", "d2"]] * 2
    assert {row["sample_id"] for row in rows} == {"s0"} and len({row["parent_id"] for row in rows}) == 4


def test_erasing_a_sample_erases_its_spans(watched, traced):
    ask(watched, count=2)
    traced.traces[CAPITALS[0]] = [retrieval("d1", texts=("a text of one customer",))]
    run = RunStore(Path(".evalspec")).find(measure(watched)["runId"])
    stored = open_run(run)
    wanted = Wanted(lambda one: one.sample.id == "s0", lambda _: False, lambda line: b"one customer" in line, ())
    assert erase_samples(stored, wanted, lambda erased: iterate_json(conclude_stored(erased))) == {("qa", "s0")}
    left = (run / "samples.jsonl").read_text()
    assert "one customer" not in left and "Lyon is a city" in left
    shown = watched("show", "s0")
    assert "the texts of this sample are not stored" in shown.out and "Recall@2      1.000" in shown.out


def test_a_secret_in_a_span_never_reaches_the_disk(watched, traced, monkeypatch):
    monkeypatch.setenv("AGENT_TOKEN", "s3cr3t-token-value")
    watched.api["chatEndpoint"] = {"headers": {"authorization": "Bearer ${env:AGENT_TOKEN}"}}
    traced.steps = [
        {"name": "s3cr3t-token-value", "attributes": {"header": "Bearer s3cr3t-token-value"}},
        *traced.steps,
    ]
    assert values(measure(watched), "Recall@2") == [1.0]
    stored = b"".join(path.read_bytes() for path in watched.folder.rglob("*") if path.is_file())
    assert b"s3cr3t-token-value" not in stored


GZIPPED = gzip.compress(b"{}", mtime=0)

OWN_AGENT = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("agent")


def answer(question):
    with tracer.start_as_current_span("search") as span:
        documents = json.dumps([{"id": "d1", "score": 0.5}])
        span.set_attributes({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents})
    return "Paris"


async def answer_async(question):
    return answer(question)
"""


@pytest.mark.parametrize("function", ["answer", "answer_async"])
def test_an_agent_in_python_needs_no_exporter(project, function):
    (project.folder / "own.py").write_text(OWN_AGENT)
    project.api = {"python": f"own:{function}", "traces": {"receive": "auto", "quiet": "50ms", "grace": "1s"}}
    ask(project, count=3)
    assert values(measure(project, "--repeat", "2"), "Recall@2") == [1.0, 1.0, 1.0]


EXPORTING_AGENT = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        tracer = trace.get_tracer("agent")
        with tracer.start_as_current_span("POST", context=propagate.extract(self.headers)):
            with tracer.start_as_current_span("search") as span:
                documents = json.dumps([{"id": "d1", "score": 0.5}])
                span.set_attributes({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents})
        self.answer(b'{"response": "Paris"}')

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_command_learns_where_its_exporter_sends(project, monkeypatch, compression):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    (project.folder / "agent.py").write_text(EXPORTING_AGENT)
    port = find_free_port()
    project.api = {
        "url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, "agent.py", str(port)],
        "chatEndpoint": {"path": "/chat"},
    }
    ask(project, count=3)
    assert values(measure(project, "--traces"), "Recall@2") == [1.0, 1.0, 1.0]


def test_killed_while_spans_arrive_no_reply_is_lost_and_nothing_is_asked_again(watched, traced):
    def export_ten(body: bytes) -> None:
        if len(traced.export_statuses) < 10:  # the run waits for the spans of the others until it is killed
            TracedAgent.export(traced, body)

    traced.wait, traced.export = 0.2, export_ten
    watched.api["traces"]["grace"] = "60s"
    ask(watched, count=60)
    command = [sys.executable, "-m", "evalspec", "evaluate", watched.write().name, "-j", "2"]
    process = subprocess.Popen(command, cwd=watched.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: traced.export_statuses.count(200) >= 10)
    process.kill()
    process.wait()
    traced.export = partial(TracedAgent.export, traced)
    log = next(watched.folder.glob(".evalspec/runs/2*")) / "samples.jsonl"
    kinds = [(one["kind"], one["id"]) for one in map(json.loads, log.read_text().splitlines())]
    replied, closed = ({name for kind, name in kinds if kind == wanted} for wanted in ("reply", "trace"))
    assert replied > closed, "a kill between a reply and its trace"
    asked = len(traced.asked)
    document = measure(watched, "--resume")
    assert len(traced.asked) == asked + 60 - len(replied)
    assert asked - len(replied) <= 2, "only what was in flight"
    lost = {one["id"] for one in document["datasets"][0]["samples"] if one["scores"]["Recall@2"]["cause"] == "traces"}
    assert lost == replied - closed
    assert values(document, "string_match") == [1.0] * 60
    again = measure(watched, "--resume", "--retry-errors")
    assert values(again, "Recall@2") == [1.0] * 60


def test_the_file_of_a_collector_is_read_while_it_grows(watched, traced):
    watched.api["traces"] = {"file": "spans.jsonl", "quiet": "100ms", "grace": "60s"}
    path = watched.folder / "spans.jsonl"
    path.write_text("an earlier run\n")

    def append(body: bytes, **_: str) -> None:
        with path.open("ab") as file:
            file.write(body + b"\n")

    traced.export = append
    assert values(measure(watched), "Recall@2") == [1.0]


def test_an_agent_that_evalspec_does_not_start_cannot_know_a_free_port(watched):
    watched.api["traces"] = {"receive": "auto"}
    refused = watched.validate()
    assert refused.code == 2
    assert "an agent that evalspec does not start cannot know where spans are received" in refused.out


def test_a_port_that_is_taken_is_one_clear_line(watched, traced):
    watched.api["traces"]["receive"] = int(traced.url.rsplit(":", 1)[1])
    refused = watched.evaluate()
    assert refused.code == 2 and "for traces: " in refused.err and not traced.asked


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [  # the id of the last one is base64
        (b"{", {}, 400),
        (b"not gzip", {"content-encoding": "gzip"}, 400),
        (GZIPPED * 2, {"content-encoding": "gzip"}, 400),
        (GZIPPED[:-4], {"content-encoding": "gzip"}, 400),
        (b"{}", {"content-encoding": "br"}, 415),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "AAECAwQFBgcICQoLDA0ODw=="}]}]}]}', {}, 400),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_and_told(watched, traced, body, headers, status):
    answer = traced.answer

    def answer_badly(question: str, sent: dict[str, str]) -> int:
        traced.export(body, **headers)
        return answer(question, sent)

    traced.answer = answer_badly
    document = measure(watched)
    assert traced.export_statuses[0] == status
    assert values(document, "Recall@2") == [1.0]
    assert "spans could not be read, 1 time: " in str(document["notes"])


def test_arguments_that_are_not_recorded_are_unknown_not_wrong(watched, traced):
    hidden = tool("book", {})
    hidden["attributes"]["input.value"] = "__REDACTED__"
    traced.steps = [hidden, hidden, tool("find", {})]
    names = ["tool_calls_any_order", "tool_call_f1", "redundant_tool_calls", "tool_name_f1", "tool_error_rate"]
    ask(watched, names, expected_tools=[{"name": "book", "arguments": {"seats": 2}}])
    document = measure(watched)
    for metric in names[:3]:
        assert "does not record the arguments of book ×2" in reasons(document, metric)[0]
    assert [values(document, metric) for metric in names[3:]] == [[0.5], [0.0]]
    ask(watched, ["tool_call_f1"], expected_tools=[{"name": "pay"}])
    assert values(measure(watched), "tool_call_f1") == [0.0]


def test_calls_that_traces_show_need_no_mapping(watched):
    ask(watched, ["tool_call_f1"], expected_tools=[])
    checked = watched.validate()
    assert checked.code == 0 and "toolCalls" not in checked.out + checked.err


def test_an_exporter_that_keeps_its_connection_leaves_no_traceback(caplog):
    async def receive() -> int:
        receiver = TraceReceiver(lambda _: None, 0)
        await receiver.start()
        connection = HTTPConnection(receiver.endpoint.split("/")[2])
        await asyncio.to_thread(connection.request, "POST", "/nowhere", b"{}")
        response = await asyncio.to_thread(connection.getresponse)
        await asyncio.to_thread(response.read)
        await receiver.aclose()
        connection.close()
        return response.status

    assert asyncio.run(receive()) == 404
    assert not caplog.records


def test_check_shows_what_arrives_and_what_is_missing(watched, traced):
    traced.steps = [standard_retrieval("d1", "d2"), model(10, 3)]
    ask(watched, ["Recall@2", "tool_call_f1"], expected_tools=[{"name": "search"}])
    watched.write()
    checked = watched("traces", "check", "agent.yaml")
    assert checked.code == 3
    assert "ok: metric Recall@2: reads ids of retrieved documents" in checked.out
    assert "failed: metric tool_call_f1: no trace of the run has a span of a tool" in checked.out
    traced.foreign = True
    checked = watched("traces", "check", "agent.yaml", "--json")
    assert [one["name"] for one in checked.document["findings"]] == ["spans", "other traces"]
