"""OTLP as real exporters and collectors write it, and what its spans say in each vocabulary."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from msgspec import UNSET
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspec.base.errors import MissingPackage
from evalspec.inputs.traces import otlp
from evalspec.inputs.traces.otlp import add_events, read_files, read_logs, read_traces
from evalspec.inputs.traces.steps import read_steps
from evalspec.model import Usage
from evalspec.model.spans import Span, SpanEvent, StepKind, TracedDocument
from traces.agents import story

KINDS = ("opentelemetry", "openinference", "traceloop")
RECORDED = Path(__file__).parent / "recorded"
"""What `agents/shop.py` exported, without the folders of files in its stack traces."""


def recorded(kind):
    return gzip.decompress((RECORDED / f"{kind}.pb.gz").read_bytes())


def check_story(kind, body):
    """Compare all steps of an exported trace with what the agent did, and with what the vocabulary does not say."""
    steps = read_steps(read_traces(body, is_json=False))
    root, *others = steps
    assert root.parent_id is None and {step.parent_id for step in others} == {root.span_id}
    assert [step.kind for step in others] == [StepKind.RETRIEVAL, *[StepKind.TOOL] * 3, StepKind.MODEL]
    found, *calls, model = others
    wanted = [TracedDocument(**one) for one in story.DOCUMENTS]
    if kind == "opentelemetry":
        wanted = [TracedDocument(one.id, one.score) for one in wanted]
    if kind == "traceloop":
        wanted = [TracedDocument(None, one.score, one.text) for one in wanted]
    assert found.documents == tuple(wanted)
    for step, did in zip(calls, story.CALLS, strict=True):
        call = step.call
        assert (call.name, call.arguments, call.problem) == (did["name"], did["arguments"], None)
        assert (call.result, call.error) == (did.get("result", UNSET), did.get("error"))
        assert step.error == did.get("error")
    assert [step.call.step for step in calls] == [0, 0, 1], "the first two were made at once"
    assert model.prompt == (story.INSTRUCTIONS, story.QUESTION) and model.answer == story.ANSWER
    assert model.usage == Usage(story.TOKENS["input_tokens"], story.TOKENS["output_tokens"], story.TOKENS["cached"])
    assert [step.hidden for step in steps] == [None] * len(steps)
    assert all(step.start_ms >= 0 and step.duration_ms <= root.duration_ms for step in others)


@pytest.mark.parametrize("kind", KINDS)
def test_what_instrumentations_exported_is_what_the_agent_did(kind):
    check_story(kind, recorded(kind))


def to_json(message):
    """Return a message of protobuf as OTLP/JSON: like protobuf's own JSON, but with ids in hex and enums as numbers."""

    def convert(value):
        if isinstance(value, list):
            return [convert(one) for one in value]
        if not isinstance(value, dict):
            return value
        ids = {"traceId", "spanId", "parentSpanId"}
        return {key: base64.b64decode(one).hex() if key in ids else convert(one) for key, one in value.items()}

    return json.dumps(convert(MessageToDict(message, use_integers_for_enums=True))).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_json_says_the_same_as_protobuf(kind):
    body = recorded(kind)
    assert read_traces(to_json(ExportTraceServiceRequest.FromString(body)), is_json=True) == read_traces(body, False)


def test_values_of_any_kind():
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\xab" * 16, span_id=b"\x01" * 8)
    values = {
        "whole": {"int_value": -(2**62) - 1},
        "part": {"double_value": 0.5},
        "unknown": {"double_value": float("nan")},
        "flag": {"bool_value": False},
        "bytes": {"bytes_value": b"\x00\xff"},
        "list": {"array_value": {"values": [{"string_value": "a"}, {"int_value": 1}]}},
        "map": {"kvlist_value": {"values": [{"key": "k", "value": {"array_value": {}}}]}},
        "none": {},
    }
    for key, value in values.items():
        span.attributes.add(key=key, value=value)
    (read,) = read_traces(request.SerializeToString(), is_json=False)
    assert read.attributes == {
        "whole": -(2**62) - 1,
        "part": 0.5,
        "unknown": "NaN",
        "flag": False,
        "bytes": "AP8=",
        "list": ["a", 1],
        "map": {"k": []},
        "none": None,
    }
    assert read_traces(to_json(request), is_json=True) == [read]
    assert (read.trace_id, read.span_id, read.parent_id) == ("ab" * 16, "01" * 8, None)


SPAN = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "x", "startTimeUnixNano": "5", "endTimeUnixNano": "9"}


def in_json(**changed):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN | changed]}]}]}).encode()


@pytest.mark.parametrize(
    ("body", "is_json", "says"),
    [
        (b"{", True, "no JSON: Input data was truncated"),
        (b"\xff\xfe", True, "no JSON: "),
        (b"{}x", True, "no JSON: "),
        (b'{"spans": []}', True, "neither `resourceSpans` nor `resourceLogs`"),
        (b'{"resourceSpans": [{"scopeSpans": 3}]}', True, "got `int` - at `$.resourceSpans[0].scopeSpans`"),
        (in_json(traceId=base64.b64encode(b"\xab" * 16).decode()), True, "32 hex digits"),
        (in_json(spanId=""), True, "16 hex digits"),
        (in_json(startTimeUnixNano="noon"), True, "'noon' is not a time in nanoseconds"),
        (in_json(attributes=[{"key": "k", "value": {"intValue": "9" * 30}}]), True, "is not a whole number"),
        (b"\x0a\xff", False, "no OTLP in protobuf"),
        (in_json(), False, "no OTLP in protobuf; JSON needs the Content-Type application/json"),
    ],
)
def test_malformed_bodies_have_one_clear_line(body, is_json, says):
    with pytest.raises(ValueError) as caught:
        read_traces(body, is_json)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_protobuf_needs_its_package_and_json_does_not(monkeypatch):
    otlp._load_protobuf.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    with pytest.raises(MissingPackage, match=r"needs opentelemetry-proto.*pip install 'opentelemetry-proto>="):
        read_traces(b"", is_json=False)
    otlp._load_protobuf.cache_clear()
    assert read_traces(in_json(), is_json=True)[0].name == "x"


def test_a_text_that_is_too_long_is_cut_and_that_is_said():
    text = "x" * (otlp.LONGEST_TEXT + 1)
    (span,) = read_traces(in_json(attributes=[{"key": "long", "value": {"stringValue": text}}]), is_json=True)
    assert span.attributes["long"] == text[:-1] and span.cut == "long after 1,000,000 of 1,000,001 characters"


def test_files_of_a_collector_are_read_with_file_and_line(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(in_json(name="first") + b"\n"))
    (folder / "b.json").write_bytes(in_json(name="second") + b"\n\n{}x\n" + in_json(name="third") + b"\n")
    problems = []
    batches = list(read_files(folder, "traces", problems))
    assert [span.name for batch in batches for span in batch.spans] == ["first", "second", "third"]
    (problem,) = problems
    assert problem.render().startswith("traces/b.json:3: no JSON: ")
    problems.clear()
    assert list(read_files(tmp_path / "none.json", "none.json", problems)) == []
    assert problems[0].render() == "none.json: no such file. check the path"


def test_log_records_join_their_span():
    """Up to v1.36 a message is a log record, and content may be on an event of its own today."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records

    def add(name, body, **attributes):
        record = records.add(trace_id=b"\xab" * 16, span_id=b"\xcd" * 8, event_name=name, time_unix_nano=len(records))
        for key, value in body.items():
            record.body.kvlist_value.values.add(key=key, value=value)
        for key, value in attributes.items():
            record.attributes.add(key=key, value={"string_value": value})

    add("gen_ai.system.message", {"content": {"string_value": "Be kind."}})
    add("gen_ai.user.message", {"content": {"string_value": "Why?"}})
    said = {"kvlist_value": {"values": [{"key": "content", "value": {"string_value": "Because."}}]}}
    add("gen_ai.choice", {"index": {"int_value": 0}, "message": said})
    records.add(body={"string_value": "of no span"})
    body = request.SerializeToString()
    assert read_logs(to_json(request), is_json=True) == read_logs(body, is_json=False)
    old = Span("ab" * 16, "cd" * 8, "chat", 0, 9, attributes={"gen_ai.system": "x", "gen_ai.operation.name": "chat"})
    (step,) = read_steps(add_events([old], read_logs(body, is_json=False)))
    assert (step.prompt, step.answer, step.hidden) == (("Be kind.", "Why?"), "Because.", None)


def read(attributes, events=(), **changed):
    (step,) = read_steps([Span("t", "s", "name", 0, 10, attributes=attributes, events=events, **changed)])
    return step


CHAT = {"gen_ai.operation.name": "chat"}
OI = "openinference.span.kind"
HIDDEN = [
    (CHAT | {"gen_ai.provider.name": "x"}, "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"),
    (CHAT | {"gen_ai.system": "x"}, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"),
    (CHAT | {"traceloop.workflow.name": "x"}, "TRACELOOP_TRACE_CONTENT=true"),
    ({"traceloop.span.kind": "tool"}, "TRACELOOP_TRACE_CONTENT=true"),
    ({"gen_ai.operation.name": "retrieval"}, "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"),
    ({OI: "RETRIEVER", "output.value": "__REDACTED__"}, "OPENINFERENCE_HIDE_OUTPUTS"),
    ({OI: "TOOL", "input.value": "__REDACTED__", "tool.name": "t"}, "OPENINFERENCE_HIDE_INPUTS"),
    ({OI: "LLM", "llm.input_messages.0.message.content": "__REDACTED__"}, "OPENINFERENCE_HIDE_INPUTS"),
]


@pytest.mark.parametrize(("attributes", "switch"), HIDDEN)
def test_content_that_is_not_recorded_is_unknown_and_names_its_switch(attributes, switch):
    step = read(attributes)
    assert switch in step.hidden and step.answer is None and step.documents is None
    assert step.prompt in (None, ("",))
    assert step.call is None or (step.call.problem and step.call.result is UNSET)


SAID = json.dumps(
    [
        {"role": "user", "parts": [{"type": "text", "content": "a"}, {"type": "blob", "content": "AA=="}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": {"found": 2}}]},
    ]
)
CALLED = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {}}]}]'


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        (
            CHAT | {"gen_ai.provider.name": "x", "gen_ai.input.messages": SAID, "gen_ai.output.messages": CALLED},
            {"prompt": ("a", '{"found": 2}'), "answer": "", "kind": "model", "hidden": None},
        ),
        (
            {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "a", "gen_ai.prompt.10.content": "c",
             "gen_ai.prompt.2.content": "b", "llm.request.type": "chat", "gen_ai.completion.0.content": "d",
             "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4, "llm.usage.total_tokens": 7},
            {"prompt": ("a", "b", "c"), "answer": "d", "usage": Usage(3, 4), "hidden": None},
        ),
        (
            {OI: "LLM", "llm.input_messages.0.message.contents.0.message_content.type": "text",
             "llm.input_messages.0.message.contents.0.message_content.text": "a", "llm.model_name": "m",
             "llm.output_messages.0.message.role": "assistant", "llm.token_count.prompt": 3},
            {"prompt": ("a",), "answer": "", "model": "m", "usage": None},
        ),
        (
            {OI: "RERANKER", "reranker.output_documents.1.document.id": 7,
             "reranker.output_documents.0.document.id": "b", "reranker.output_documents.0.document.score": 1.5},
            {"kind": "rerank", "documents": (TracedDocument("b", 1.5), TracedDocument("7"))},
        ),
        ({OI: "RETRIEVER", "output.value": '{"documents": []}'}, {"documents": (), "hidden": None}),
        (
            {OI: "RETRIEVER", "retrieval.documents.0.document.content": "t",
             "retrieval.documents.0.document.metadata": '{"document_id": "whole", "id": "part"}'},
            {"documents": (TracedDocument("whole", None, "t"),)},
        ),
        ({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": "[]"}, {"documents": (), "hidden": None}),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"}, {"kind": "embedding", "model": "e"}),
        ({"http.method": "GET", "error.type": "500"}, {"kind": "other", "error": "500", "hidden": None}),
    ],
)  # fmt: skip
def test_vocabularies(attributes, wanted):
    step = read(attributes)
    assert {name: getattr(step, name) for name in wanted} == wanted


def test_the_error_of_a_tool_is_its_exception():
    raised = SpanEvent("exception", 5, {"exception.type": "OSError", "exception.message": "disk"})
    step = read({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": "x"}, (raised,), error="long")
    assert step.error == step.call.error == "OSError: disk" and step.call.result is UNSET
    assert read({"gen_ai.operation.name": "execute_tool"}, error="not stated").call.error == "not stated"


def test_broken_parents_circles_and_clocks_are_read():
    def span(name, parent, start, end=20):
        return Span("t", name, name, start, end, parent)

    spans = [
        span("child", "root", 5),
        span("root", None, 5),
        span("a", "b", 3),
        span("b", "a", 3),
        span("self", "self", 4),
        span("orphan", "gone", 1, end=0),
        span("root", None, 5),
    ]
    steps = read_steps(spans)
    first, *circle, alone, root, child = [step.span_id for step in steps]
    assert (first, sorted(circle), alone, root, child) == ("orphan", ["a", "b"], "self", "root", "child")
    assert (steps[0].start_ms, steps[0].duration_ms) == (0, 0)
    assert read_steps([]) == ()
    deep = [span(str(number), str(number - 1), 0) for number in range(100_000)]
    assert [step.span_id for step in read_steps(reversed(deep))] == [str(number) for number in range(100_000)]
