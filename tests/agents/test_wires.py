"""The wires of Anthropic and Ollama, and mapped streams: requests, whole replies and streams, over HTTP."""

import json
import re

import pytest

from agents.asking import TURNS, ask, endpoint, events, failure, lines
from evalspec.base.errors import ServiceError
from evalspec.model import FIRST_TOKEN, Sample, ToolCall, Usage
from evalspec.targets.agents.wire import build_request, read_reply
from servers.faulty_agent import sse

ANTHROPIC = {"protocol": "anthropic", "model": "claude", "streaming": True}
OLLAMA = {"protocol": "ollama", "model": "llama", "streaming": True}


START = {
    "type": "message_start",
    "message": {"usage": {"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1}},
}
STOP = {"type": "message_stop"}


def text(index, *parts):
    yield {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    for part in parts:
        yield {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": part}}
    yield {"type": "content_block_stop", "index": index}


def end(reason="end_turn"):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}


class TestAnthropic:
    def test_request(self):
        settings = ANTHROPIC | {"parameters": {"max_tokens": 99, "temperature": 0}}
        assert build_request(Sample("s", TURNS), endpoint(settings)) == {
            "model": "claude",
            "max_tokens": 99,
            "system": "Be brief.",
            "messages": [{"role": m.role, "content": m.content} for m in TURNS[1:]],
            "stream": True,
            "temperature": 0,
        }

    def test_whole_reply(self):
        call = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "x"}}
        content = [
            {"type": "thinking", "thinking": "…"},
            {"type": "text", "text": "In "},
            call,
            {"type": "text", "text": "Paris"},
        ]
        reply = read_reply(
            {
                "type": "message",
                "content": content,
                "stop_reason": "max_tokens",
                "usage": {"input_tokens": 3, "output_tokens": 4},
            },
            endpoint(ANTHROPIC),
        )
        assert (reply.response, reply.tool_calls) == ("In Paris", (ToolCall("find", {"q": "x"}, "t1"),))
        assert (reply.usage, reply.finish_reason) == (Usage(3, 4), "max_tokens")

    def test_stream(self, agent):
        ping = {"type": "ping"}
        reply = ask(agent, ANTHROPIC, events(START, ping, *text(0, "In ", "Paris"), *text(1, "."), end(), STOP))
        assert (reply.response, reply.usage, reply.finish_reason) == ("In Paris.", Usage(12, 7, 3), "end_turn")
        assert 0 < reply.trace.timings_ms[FIRST_TOKEN] <= reply.latency_ms

    def test_tool_calls_of_a_stream(self, agent):
        deltas = [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t1", "name": "find"},
            },
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": part}}
                for part in ('{"q":', ' "x"}')
            ),
        ]
        reply = ask(agent, ANTHROPIC, events(START, *deltas, end("tool_use"), STOP))
        assert (reply.response, reply.trace) == ("", None)
        assert reply.tool_calls == (ToolCall("find", {"q": "x"}, "t1"),)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([START, *text(0, "In")], "the stream ended before message_stop"),
            (
                [
                    START,
                    *text(0, "In"),
                    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
                ],
                "an error event: .*Overloaded",
            ),
            ([START, end("refusal"), STOP], r"neither text nor tool_use \(stop_reason 'refusal'\)"),
        ],
    )
    def test_streams_without_an_answer(self, agent, given, said):
        assert re.search(said, str(failure(agent, ANTHROPIC, events(*given))))

    @pytest.mark.parametrize(("headers", "version"), [({}, "2023-06-01"), ({"Anthropic-Version": "2030"}, "2030")])
    def test_path_and_version(self, project, agent, headers, version):
        project.samples(1)
        project.api = {"url": agent.url, "chatEndpoint": {"protocol": "anthropic", "headers": headers}}
        agent.reply = {"content": [{"type": "text", "text": "Paris"}]}
        assert project.evaluate().code == 0
        (request,) = agent.requests
        assert (request.path, request.headers["anthropic-version"]) == ("/v1/messages", version)


LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 2}


class TestOllama:
    def test_requests(self):
        settings = endpoint(OLLAMA | {"path": "/api/generate", "parameters": {"options": {"seed": 1}}})
        wanted = {"model": "llama", "stream": True, "prompt": "?", "options": {"seed": 1}}
        assert build_request(Sample("s", "?"), settings) == wanted
        chat = build_request(Sample("s", TURNS), endpoint({"protocol": "ollama", "path": "/api/chat"}))
        assert (chat["stream"], chat["messages"][0]) == (False, {"role": "system", "content": "Be brief."})
        with pytest.raises(ServiceError, match="conversation, which /api/generate does not take"):
            build_request(Sample("s", TURNS), settings)

    @pytest.mark.parametrize("key", ["message", "response"])
    def test_stream(self, agent, key):
        parts = [{"content": "Pa"}, {"content": "ris"}] if key == "message" else ["Pa", "ris"]
        reply = ask(agent, OLLAMA, lines(*({key: part, "done": False} for part in parts), LAST))
        assert (reply.response, reply.usage, reply.finish_reason) == ("Paris", Usage(11, 2), "stop")
        assert reply.trace.timings_ms[FIRST_TOKEN] > 0

    def test_whole_reply(self, agent):
        reply = ask(
            agent,
            OLLAMA,
            lines({"message": {"role": "assistant", "content": "Paris"}} | LAST, content_type="application/json"),
        )
        assert (reply.response, reply.usage, reply.trace) == ("Paris", Usage(11, 2), None)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([{"message": {"content": "Pa"}, "done": False}], "the stream ended before done: true"),
            (
                [{"message": {"content": "Pa"}}, {"error": "model runner has stopped"}],
                "the reply has an error: 'model runner has stopped'",
            ),
            ([{"message": {"content": "Pa"}}, '{"mess'], "an event of the stream is not valid JSON"),
            ([LAST], "expected text at message.content or response"),
        ],
    )
    def test_streams_without_an_answer(self, agent, given, said):
        assert said in str(failure(agent, OLLAMA, lines(*given)))


MAPPED = {
    "protocol": "custom",
    "request": {"q": "{{input}}"},
    "response": {"answer": "$.text", "done": {"path": "$.end"}, "error": "$.problem.text", "finishReason": "$.why"},
}


class TestMapped:
    @pytest.mark.parametrize("form", [lines, lambda *values: sse(*map(json.dumps, values))], ids=["lines", "sse"])
    def test_the_marker_ends_the_stream(self, agent, form):
        reply = ask(agent, MAPPED, form({"text": "Pa", "end": False}, {"text": "ris"}, {"end": True, "why": "length"}))
        assert (reply.response, reply.finish_reason) == ("Paris", "length")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([{"text": "Pa"}, {"end": False}], r"the stream ended before a value at $.end (response.done)"),
            ([{"text": "Pa"}, {"problem": {"text": "no funds"}}, {"end": 1}], "the reply has an error: 'no funds'"),
        ],
    )
    def test_failed_streams(self, agent, given, said):
        error = failure(agent, MAPPED, lines(*given))
        assert error.retryable
        assert said in str(error)

    def test_a_mapped_error_of_a_whole_reply(self):
        with pytest.raises(ServiceError, match="the reply has an error: 'no funds'"):
            read_reply({"text": "Paris", "problem": {"text": "no funds"}}, endpoint(MAPPED))
        assert read_reply({"text": "Paris", "problem": {"text": ""}}, endpoint(MAPPED)).response == "Paris"


def test_time_to_first_token_has_thresholds_and_a_table(project, agent):
    project.samples(2)
    project.api = {"url": agent.url, "chatEndpoint": OLLAMA | {"path": "/api/chat"}}
    project.evaluation |= {"thresholds": {"first_token.latency_p95": {"max": 60_000}}, "ciGate": True}
    agent.mode = lines({"message": {"content": "Paris"}}, LAST)
    done = project.evaluate("--json")
    assert done.code == 0, done.out
    dataset = done.document["datasets"][0]
    assert dataset["metrics"]["first_token.latency_p95"]["scored"] == 2
    assert [stage["stage"] for stage in dataset["stages"]] == ["first_token", "total"]
    assert dataset["samples"][0]["timingsMs"]["first_token"] > 0
    assert "first_token" in project("report", "latest").out
    agent.mode = lines({"message": {"content": "Paris"}} | LAST, content_type="application/json")
    assert project.evaluate().code == 3  # unknown is not 0


def test_a_usage_that_cannot_be_read_is_the_reason_of_an_undecided_threshold(project, agent):
    agent.reply = {"text": "Paris", "usage": {"words_in": 3, "words_out": 4}}
    project.dataset("qa", [{"id": "s", "input": "?", "expected": "Paris"}], metrics=["string_match"])
    response = {"answer": "$.text", "usage": "$.usage"}
    project.api = {"url": agent.url, "chatEndpoint": {"response": response}}
    project.evaluation |= {"thresholds": {"tokens_mean": 100}, "ciGate": True}
    says = "the usage of the reply has no token counts that evalspec can read; its keys are: words_in, words_out"
    outcome = project.evaluate("--json")
    assert outcome.code == 3
    score = outcome.document["datasets"][0]["samples"][0]["scores"]["tokens_mean"]
    assert (score["status"], score["cause"], score["reason"]) == ("not_applicable", "reply", says)
    assert says in " ".join(project("report").out.split())
    hidden = project.evaluate("--json", "--no-content")
    assert hidden.code == 3
    written = [path for path in project.folder.rglob(".evalspec/**/*.json*") if hidden.document["runId"] in str(path)]
    assert written
    assert not any("words_in" in path.read_text() for path in written)


def test_an_unknown_protocol(project):
    project.samples(1)
    project.api = {"url": "http://127.0.0.1:1", "chatEndpoint": {"protocol": "antropic"}}
    assert (
        "spec.api.chatEndpoint.protocol: unknown protocol 'antropic'. did you mean 'anthropic'?"
        in project.validate().out
    )
