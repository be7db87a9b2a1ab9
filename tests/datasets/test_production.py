"""Datasets from traces of production: files of a collector, and exports of Phoenix and Langfuse."""

import json
import sys
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.curation import production
from evalspec.curation.gold import scrubbing
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import AgentReply, Message, Usage

MINUTE = 60 * 10**9


def span(trace, name, start=0, parent="", events=(), **attributes):
    values = {
        str: lambda value: {"stringValue": value},
        int: lambda value: {"intValue": str(value)},
    }
    pairs = [{"key": key, "value": values[type(value)](value)} for key, value in attributes.items()]
    number = f"{zlib.crc32(f'{trace} {name}'.encode()):016x}"
    return {
        "traceId": f"{trace:032x}",
        "spanId": (parent and number) or f"{trace:016x}",
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(trace * MINUTE + start),
        "endTimeUnixNano": str(trace * MINUTE + start + 5_000_000),
        "attributes": pairs,
        "events": list(events),
    }


def talk(trace, question, answer="Yes.", ids=("d1", "d2"), **attributes):
    """A trace in OpenInference's words: a chain that retrieves and asks a model."""
    root = f"{trace:016x}"
    found = {f"retrieval.documents.{place}.document.id": name for place, name in enumerate(ids)}
    found |= {f"retrieval.documents.{place}.document.content": f"text of {name}" for place, name in enumerate(ids)}
    model = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"text of d1. {question}",
        "llm.output_messages.0.message.content": answer,
        "llm.token_count.prompt": 7,
        "llm.token_count.completion": 2,
    }
    whole = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
    return [
        span(trace, "shop", **whole, **attributes),
        span(trace, "search", 1, root, **{"openinference.span.kind": "RETRIEVER"}, **found),
        span(trace, "chat", 2, root, **model),
    ]


def otlp(*traces, service="shop"):
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return [
        json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}) for spans in traces
    ]


def write(project, *lines, name="traces/t.jsonl"):
    path = project.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_trace_becomes_a_sample_with_its_reply_and_without_an_expected_answer(project):
    write(project, *otlp(talk(1, "Can I return it?", tenant="north")))
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    assert (done.code, done.out, done.err) == (0, "wrote 1 sample to prod.jsonl\n", "")
    (line,) = read_lines(project.folder / "prod.jsonl")
    name = f"{1:032x}"
    assert line == {
        "id": name,
        "input": "Can I return it?",
        "metadata": {"service.name": "shop", "tenant": "north", "cluster": name},
        "response": "Yes.",
        "retrieved_contexts": ["text of d1", "text of d2"],
        "retrieved_context_ids": ["d1", "d2"],
        "latencyMs": 5.000002,
        "usage": {"input_tokens": 7, "output_tokens": 2, "cached_input_tokens": 0, "cache_write_input_tokens": 0},
        "steps": 1,
    }


def test_recorded_replies_are_scored_without_an_expected_answer(project):
    write(project, *otlp(talk(1, "Can I return it?"), talk(2, "How much is the fish?", "Two.")))
    assert project("convert", "traces", "prod.jsonl", "--to", "jsonl").code == 0
    data = load_dataset(Source(project.folder / "prod.jsonl", "prod.jsonl", with_replies=True))
    assert data.format == "records" and data.problems == ()
    assert data.replies[f"{2:032x}"] == AgentReply(
        "Two.", ("text of d1", "text of d2"), ("d1", "d2"), usage=Usage(7, 2), latency_ms=5.000002, steps=1
    )
    metrics = [{"name": "not_contains", "value": "Two"}, "latency", "tokens_mean"]
    dataset = {"name": "prod", "path": "$file:prod.jsonl", "cluster": "cluster", "metrics": metrics}
    project.api["url"] = "http://127.0.0.1:9"
    project.evaluation |= {"datasets": [dataset], "ciGate": False}
    done = project.evaluate("--responses", "same", "--json")
    assert done.code == 0, done.err
    found = done.document["datasets"][0]["metrics"]
    assert [summary["value"] for summary in found.values()] == [0.5, pytest.approx(5.000002), 9]
    dataset["metrics"] = ["string_match"]
    refused = project.validate()
    assert refused.code == 2 and "expected: missing or empty, needed by string_match" in refused.out + refused.err


def test_the_traces_of_a_session_are_one_conversation(project):
    first = talk(1, "Can I return it?", **{"session.id": "s"})
    second = talk(2, "Until when?", "May.", **{"session.id": "s"})
    write(project, *otlp(second, first))
    data = load_dataset(Source(project.folder / "traces", "traces"))
    (sample,) = data.samples
    said = (Message("user", "Can I return it?"), Message("assistant", "Yes."), Message("user", "Until when?"))
    assert sample.user_input == said and (sample.metadata["session_id"], sample.metadata["turns"]) == ("s", 2)
    assert data.replies[sample.id].response == "May."


def test_near_duplicates_share_a_cluster(project):
    questions = ["How do I return an order?", "how do i RETURN an order", "How do I return an order, please?", "Why?"]
    write(project, *otlp(*(talk(place, question) for place, question in enumerate(questions, 1))))
    data = load_dataset(Source(project.folder / "traces", "traces"))
    assert [int(sample.metadata["cluster"], 16) for sample in data.samples] == [1, 1, 1, 4]


def test_samples_are_drawn_by_seed_and_filtered_by_attribute(project):
    traces = [talk(number, f"Question {number} about {number**5}?", tier="ab"[number % 2]) for number in range(1, 21)]
    write(project, *otlp(*traces[:10], service="shop"), *otlp(*traces[10:], service="other"))
    options = ("--where", "tier=a", "--where", "service.name=shop", "--sample-size", "3", "--seed", "4")
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl", *options)
    assert done.out == "wrote 3 of 20 samples to prod.jsonl\n"
    lines = read_lines(project.folder / "prod.jsonl")
    assert {(line["metadata"]["tier"], line["metadata"]["service.name"]) for line in lines} == {("a", "shop")}


PRIVATE = "I am Ada, ada@example.org or +49 30 901820. Card 4111 1111 1111 1111, from 0049 30 90 18 20."


def test_personal_data_become_tokens_and_are_counted(project):
    again = "Is ADA@example.org known? &#97;da&#64;example.org"
    write(project, *otlp(talk(1, PRIVATE, f"Hi ada@example.org, {again}"), talk(2, again, user="ada@example.org")))
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    first, second = read_lines(project.folder / "prod.jsonl")
    assert first["input"] == "I am Ada, [email-1] or [phone-1]. Card [card-1], from [phone-1]."
    assert first["response"] == "Hi [email-1], Is [email-1] known? [email-1]"
    assert second["metadata"]["user"] == "[email-1]"
    told = "warning: traces: personal data replaced by tokens: {}, 1 different. names in free text stay\n"
    assert done.err == "".join(told.format(kind) for kind in ("email", "card", "phone"))


def test_personal_data_become_tokens_in_every_part_of_a_sample(project):
    """Also in passages, arguments, results, errors and what was said before; and as numbers."""
    private = ["ada@example.org", "4111111111111111", "+1 650 253 0000", "DE89370400440532013000"]
    said = f"{', '.join(private)}."
    asked = {"openinference.span.kind": "TOOL", "tool.name": "pay", "output.value": said}
    asked["input.value"] = json.dumps({"texts": [said], private[0]: said, "card": 4111111111111111})
    root = f"{1:016x}"
    found = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": said}
    first = [
        *talk(1, f"First: {said}", said, **{"session.id": "s", "card": 4111111111111111}),
        span(1, "pay", 1, root, **asked),
        span(1, "more", 3, root, **found),
    ]
    again = [*talk(2, f"Then: {said}", said, **{"session.id": "s"})]
    again += [dict(one, traceId=f"{2:032x}") for one in first[3:]]
    write(project, *otlp(first, again))
    assert project("convert", "traces", "out.jsonl", "--from", "otlp", "--to", "jsonl").code == 0
    written = (project.folder / "out.jsonl").read_text()
    assert [one for one in private if one in written] == [] and "[email-1]" in written
    assert all(name in written for name in ("retrieved_contexts", "tool_calls", "First: ", "[card-1]"))


def test_without_the_extra_nothing_is_written(project, monkeypatch):
    write(project, *otlp(talk(1, PRIVATE)))
    scrubbing._load_detectors.cache_clear()
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    scrubbing._load_detectors.cache_clear()
    assert done.code == 2 and not (project.folder / "prod.jsonl").exists()
    wanted = "finding personal data needs phonenumbers, which is not installed. pip install "
    assert done.err.startswith(f"evalspec: {wanted}") and done.err.count("\n") == 1


def test_a_gold_set_gets_pending_triples_to_review(project):
    write(project, *otlp(talk(1, "Can I return it?"), talk(2, "Why?", ids=())))
    refused = project("convert", "traces", "gold.yaml", "--to", "gold")
    assert refused.code == 2 and "(1 of 2 samples)" in refused.err
    assert project("convert", "traces", "gold.yaml", "--to", "gold", "--lossy").code == 0
    data = load_dataset(Source(project.folder / "gold.yaml", "gold.yaml"))
    assert data.samples == () and "1 triple is pending, so not evaluated" in data.warnings[0].render()
    people = ("--person", "ada", "--person", "ben", "--person", "cleo")
    assert project("gold", "init", "set", *people).code == 0
    done = project("gold", "import", "gold.yaml", "--set", "set", "--as", "ada", "--json")
    (triple,) = done.document["triples"]
    assert triple["state"] == "pending"


PHOENIX = {
    "context.trace_id": "t1",
    "context.span_id": "s1",
    "parent_id": None,
    "name": "chain",
    "span_kind": "CHAIN",
    "start_time": "2026-01-05T10:00:00+00:00",
    "end_time": "2026-01-05T10:00:01.500000+00:00",
    "status_code": "OK",
    "status_message": "",
    "attributes.openinference.span.kind": "CHAIN",
    "attributes.input.value": "Can I return it?",
    "attributes.output.value": "Yes.",
    "attributes.session.id": "s",
    "attributes.llm.input_messages": None,
    "attributes.retrieval.documents": None,
    "attributes.llm.token_count.prompt": None,
    "attributes.llm.token_count.completion": None,
}
RETRIEVED = PHOENIX | {
    "context.span_id": "s2",
    "parent_id": "s1",
    "span_kind": "RETRIEVER",
    "attributes.openinference.span.kind": "RETRIEVER",
    "attributes.retrieval.documents": [{"document.id": "d1", "document.content": "text", "document.score": 0.5}],
}
ASKED = PHOENIX | {
    "context.span_id": "s3",
    "parent_id": "s1",
    "span_kind": "LLM",
    "attributes.openinference.span.kind": "LLM",
    "attributes.llm.input_messages": [{"message.role": "user", "message.content": "Can I return it?"}],
    "attributes.llm.token_count.prompt": 7.0,
    "attributes.llm.token_count.completion": 2.0,
}


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_spans_of_phoenix(project, form):
    path = project.folder / f"spans.{form}"
    rows = [ASKED, RETRIEVED, PHOENIX]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_dataset(Source(path, path.name))
    assert (data.format, data.problems) == ("phoenix", ())
    (sample,) = data.samples
    assert (sample.id, sample.question, sample.metadata["session_id"]) == ("t1", "Can I return it?", "s")
    reply = data.replies["t1"]
    assert (reply.response, reply.retrieved_context_ids, reply.retrieved_contexts) == ("Yes.", ("d1",), ("text",))
    assert (reply.usage, reply.latency_ms) == (Usage(7, 2), 1500)


OBSERVATIONS: list[dict[str, Any]] = [
    {
        "id": "o1",
        "type": "RETRIEVER",
        "startTime": "2026-01-05T10:00:00.100Z",
        "endTime": "2026-01-05T10:00:00.200Z",
        "output": [{"id": "d1", "content": "text", "score": 0.5}],
    },
    {
        "id": "o2",
        "type": "TOOL",
        "name": "find_order",
        "startTime": "2026-01-05T10:00:00.300Z",
        "endTime": "2026-01-05T10:00:00.400Z",
        "input": {"order": 7},
        "level": "ERROR",
        "statusMessage": "no such order",
    },
    {
        "id": "o3",
        "type": "GENERATION",
        "model": "m",
        "startTime": "2026-01-05T10:00:00.500Z",
        "endTime": "2026-01-05T10:00:02.000Z",
        "input": [{"role": "user", "content": "Can I return it?"}],
        "output": {"role": "assistant", "content": "Yes."},
        "usageDetails": {"input": 7, "output": 2, "total": 9},
    },
]
LANGFUSE = {
    "id": "t1",
    "timestamp": "2026-01-05T10:00:00.000Z",
    "name": "shop",
    "input": {"question": "Can I return it?"},
    "output": "Yes.",
    "sessionId": "s",
    "environment": "live",
    "scores": [{"name": "thumbs", "value": 1, "dataType": "NUMERIC"}, {"name": "mood", "stringValue": "good"}],
    "observations": OBSERVATIONS,
}


def rename(row):
    names = {"traceId": "trace_id", "startTime": "start_time", "endTime": "end_time", "usageDetails": "usage_details"}
    names |= {"statusMessage": "status_message", "sessionId": "session_id"}
    return {names.get(key, key): value for key, value in row.items()}


@pytest.mark.parametrize("form", ["trace", "storage"])
def test_traces_of_langfuse(project, form):
    if form == "trace":
        text = json.dumps(LANGFUSE, indent=2)
    else:
        observations = [{"traceId": "t1", "sessionId": "s"} | one for one in OBSERVATIONS]
        root = {key: value for key, value in LANGFUSE.items() if key not in ("observations", "timestamp")}
        root |= {"id": "o0", "traceId": "t1", "type": "SPAN", "startTime": "2026-01-05T10:00:00.000Z"}
        text = "\n".join(json.dumps(rename(one)) for one in (*observations, root))
    (project.folder / "traces.jsonl").write_text(text)
    data = load_dataset(Source(project.folder / "traces.jsonl", "traces.jsonl"), "langfuse")
    assert data.problems == ()
    (sample,) = data.samples
    assert (sample.id, sample.question, sample.metadata["session_id"]) == ("t1", "Can I return it?", "s")
    assert sample.metadata["feedback"] == {"thumbs": 1, "mood": "good"}
    assert sample.metadata["environment"] == "live"
    reply = data.replies["t1"]
    assert (reply.response, reply.retrieved_context_ids, reply.retrieved_contexts) == ("Yes.", ("d1",), ("text",))
    assert (reply.usage, reply.latency_ms, reply.steps) == (Usage(7, 2), 2000, 1)
    (call,) = reply.tool_calls
    assert (call.name, call.arguments, call.error) == ("find_order", {"order": 7}, "no such order")


def test_feedback_on_spans_is_metadata(project):
    given = {"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.label": "up"}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]
    root, *others = talk(1, "Can I return it?")
    root["events"] = [{"name": "gen_ai.evaluation.result", "timeUnixNano": "1", "attributes": pairs}]
    write(project, *otlp([root, *others]))
    (sample,) = load_dataset(Source(project.folder / "traces", "traces")).samples
    assert sample.metadata["feedback"] == {"thumbs": "up"}


def test_bad_files_have_one_line_each(project):
    write(project, "{", *otlp(talk(1, "Can I return it?")), '{"spans": []}')
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl", "--from", "otlp")
    assert done.code == 2
    first, second = done.err.splitlines()
    assert first.startswith("evalspec: traces/t.jsonl:1: no JSON: ")
    assert "traces/t.jsonl:3: no OTLP/JSON: it has neither `resourceSpans` nor `resourceLogs`" in second
    (project.folder / "spans.jsonl").write_text(json.dumps(PHOENIX | {"start_time": "noon"}) + "\n")
    done = project("convert", "spans.jsonl", "prod.jsonl", "--to", "jsonl")
    assert "spans.jsonl:1: this is no exported span or trace: Invalid isoformat string: 'noon'" in done.err


def test_what_is_left_out_is_said(project, monkeypatch):
    hidden = [span(3, "chat", **{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "x"})]
    root, search, chat = talk(1, "Can I return it?")
    chat["parentSpanId"] = "ff" * 8
    chat["startTimeUnixNano"] = "0"
    many = [span(1, f"step {number}", 9, "ab" * 8) for number in range(20)]
    write(project, *otlp(hidden, [root, search, chat, *many]))
    monkeypatch.setattr(production, "MOST_SPANS", 5)
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    assert done.out == "wrote 1 sample to prod.jsonl\n"
    assert f"{1:032x}: 23 spans; only the first 5 are read" in done.err
    assert "1 trace has no question, so no sample. set OTEL_INSTRUMENTATION_GENAI_CAPTURE" in done.err
    (project.folder / "traces" / "t.jsonl").write_text(otlp(hidden)[0] + "\n")
    done = project("convert", "traces", "none.jsonl", "--to", "jsonl")
    assert done.code == 2 and "traces: no trace has a question" in done.err


@pytest.mark.parametrize("begin", [0, 1])
def test_a_prompt_with_documents_is_no_question_of_a_user(project, begin):
    write(project, *otlp(talk(1, "Can I return it?")[begin:]))
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    assert ("1 question is a prompt with retrieved documents in it" in done.err) == bool(begin)


def test_a_question_without_a_recorded_answer_is_told(project):
    root, search, chat = talk(1, "Can I return it?")
    for one in (root, search, chat):
        one["attributes"] = [pair for pair in one["attributes"] if not pair["key"].startswith(("output", "llm.output"))]
    write(project, *otlp([root, search, chat], talk(2, "Is it open?")))
    done = project("convert", "traces", "prod.jsonl", "--to", "jsonl")
    assert "1 trace has a question and no recorded answer, so its sample has no reply" in done.err
    assert ["response" in line for line in read_lines(project.folder / "prod.jsonl")] == [False, True]
