"""OpenAI's responses, by their wire and by mappings: requests, whole replies and streams, over HTTP."""

import json
import re

import pytest
from msgspec.structs import replace

from agents.asking import TURNS, ask, endpoint, events, failure
from evalspec.base.errors import ServiceError
from evalspec.model import FIRST_TOKEN, Sample, ToolCall, Usage
from evalspec.targets.agents.wire import build_request, read_reply
from servers.faulty_agent import Answer, sse

RESPONSES = {"protocol": "openai-responses", "model": "gpt", "streaming": True}
CALL = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "find", "arguments": '{"city":"Paris"}'}
RETURNED = {"type": "function_call_output", "id": "fco1", "call_id": "c1", "output": "Paris"}
CALLED = ToolCall("find", {"city": "Paris"}, "c1")
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "content": []}


def message(*parts, **more):
    return {"type": "message", "role": "assistant", "content": list(parts), **more}


def said(text):
    return {"type": "output_text", "text": text, "annotations": []}


def response(*output, status="completed", **more):
    usage = {"input_tokens": 9, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 3}}
    return {"object": "response", "status": status, "output": list(output), "usage": usage, "error": None, **more}


def last(*output, status="completed", **more):
    return {"type": f"response.{status}", "response": response(*output, status=status, **more)}


class TestWire:
    DELTAS = (
        {"type": "response.created", "response": {"status": "in_progress", "output": [], "error": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": THOUGHT},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.output_item.added", "output_index": 1, "item": CALL | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"city":'},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '"Paris"}'},
        {"type": "response.output_item.added", "output_index": 2, "item": message(status="in_progress")},
        {"type": "response.output_text.delta", "output_index": 2, "delta": "In "},
        {"type": "response.refusal.delta", "output_index": 2, "delta": "Paris."},
    )

    def test_request(self, agent):
        agent.reply = response(message(said("In Paris.")))
        settings = RESPONSES | {"streaming": False, "parameters": {"store": False}}
        assert ask(agent, settings, "ok").response == "In Paris."
        messages = [{"role": "user", "content": "Where?"}]
        assert agent.requests[0].body == {"model": "gpt", "input": messages, "store": False}
        assert build_request(Sample("s", TURNS), endpoint(RESPONSES))["stream"] is True

    def test_path(self, project, agent):
        agent.reply = response(message(said("Paris")))
        project.dataset("qa", [{"id": "s", "input": "?", "expected": "Paris"}], metrics=["string_match"])
        project.api = {"url": agent.url, "chatEndpoint": RESPONSES | {"streaming": False}}
        assert project.evaluate("--json").document["datasets"][0]["metrics"]["string_match"]["value"] == 1
        assert agent.requests[0].path == "/v1/responses"

    def test_whole_reply(self):
        refused = {"type": "refusal", "refusal": "No."}
        output = (THOUGHT, CALL, RETURNED, message(said("In "), refused), {"type": "mcp_list_tools", "tools": []})
        reply = read_reply(response(*output), endpoint(RESPONSES))
        assert (reply.response, reply.tool_calls) == ("In No.", (replace(CALLED, result="Paris"),))
        assert (reply.usage, reply.finish_reason) == (Usage(9, 7, 3), "completed")

    @pytest.mark.parametrize(
        ("item", "call"),
        [
            (
                {"type": "mcp_call", "name": "find", "arguments": '{"q": 1}', "output": None, "error": {"code": 404}},
                ToolCall("find", {"q": 1}, "x1", error='{"code": 404}'),
            ),
            (
                {"type": "mcp_call", "name": "find", "arguments": "{}", "output": "Paris", "error": None},
                ToolCall("find", {}, "x1", result="Paris"),
            ),
            (
                {"type": "file_search_call", "queries": ["city"], "results": [{"text": "Paris is…"}]},
                ToolCall("file_search", {"queries": ["city"]}, "x1", result=[{"text": "Paris is…"}]),
            ),
            (
                {"type": "file_search_call", "queries": ["city"], "results": None, "status": "completed"},
                ToolCall("file_search", {"queries": ["city"]}, "x1"),
            ),
            (
                {"type": "web_search_call", "status": "failed", "action": {"type": "search", "query": "city"}},
                ToolCall("web_search", {"action": {"type": "search", "query": "city"}}, "x1", error="not stated"),
            ),
            (
                {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
                ToolCall("code_interpreter", {"code": "1"}, "x1", result=[{"type": "logs", "logs": "1"}]),
            ),
            (
                {"type": "custom_tool_call", "name": "sql", "input": "SELECT 1"},
                ToolCall("sql", {"input": "SELECT 1"}, "x1"),
            ),
        ],
    )
    def test_tools_of_openai_show_what_they_were_given_and_returned(self, item, call):
        output = (item | {"id": "x1"}, message(said("Hi")), CALL)
        assert read_reply(response(*output), endpoint(RESPONSES)).tool_calls == (call, replace(CALLED, step=1))

    def test_functions_without_a_result_between_them_are_called_together(self):
        other = CALL | {"call_id": "c2", "id": "fc2"}
        returned = {"type": "function_call_output", "id": "fco2", "call_id": "c2", "output": "Lyon"}
        both = (CALLED, replace(CALLED, call_id="c2"))
        assert read_reply(response(CALL, other), endpoint(RESPONSES)).tool_calls == both
        answered = (replace(both[0], result="Paris"), replace(both[1], result="Lyon"))
        assert read_reply(response(CALL, other, returned, RETURNED), endpoint(RESPONSES)).tool_calls == answered
        later = (answered[0], replace(answered[1], step=1))
        assert read_reply(response(CALL, RETURNED, other, returned), endpoint(RESPONSES)).tool_calls == later

    def test_a_reply_may_have_only_calls_or_none(self):
        assert read_reply(response(THOUGHT, CALL), endpoint(RESPONSES)).tool_calls == (CALLED,)
        assert read_reply(response(message(said("Hi"))), endpoint(RESPONSES)).tool_calls == ()

    def test_commentary_is_no_part_of_the_final_answer(self):
        commented = message(said("I will look."), phase="commentary")
        final = message(said("Paris"), phase="final_answer")
        assert read_reply(response(commented, final), endpoint(RESPONSES)).response == "Paris"
        assert read_reply(response(commented, CALL), endpoint(RESPONSES)).response == "I will look."

    @pytest.mark.parametrize(
        ("details", "kept"), [({"reason": "content_filter"}, "content_filter"), (None, "incomplete")]
    )
    def test_an_incomplete_reply_has_its_reason(self, agent, details, kept):
        cut = {"status": "incomplete", "incomplete_details": details}
        assert read_reply(response(message(said("In")), **cut), endpoint(RESPONSES)).finish_reason == kept
        assert ask(agent, RESPONSES, events(last(message(said("In")), **cut))).finish_reason == kept

    @pytest.mark.parametrize(
        ("error", "retryable", "throttled"),
        [
            ({"code": "server_error", "message": "down"}, True, False),
            ({"code": "rate_limit_exceeded", "message": "down"}, True, True),
            ({"code": "invalid_prompt", "message": "down"}, False, False),
            (None, False, False),
        ],
    )
    def test_a_failed_response_is_retried_if_its_code_says_so(self, agent, error, retryable, throttled):
        failed = response(status="failed", error=error)
        whole = Answer(body=json.dumps(failed).encode())
        for answer in (whole, events({"type": "response.failed", "response": failed})):
            found = failure(agent, RESPONSES, answer)
            assert re.match(f"the response failed: {'.*down' if error else 'without a reason'}", str(found))
            assert (found.retryable, found.throttled) == (retryable, throttled)

    @pytest.mark.parametrize(
        ("reply", "says"),
        [
            (response(THOUGHT, status="incomplete"), "neither text nor calls of tools (finish reason 'incomplete')"),
            (response(status="queued"), "the response is not complete: its status is queued"),
            ({"choices": []}, "expected a response with a list of output in the reply, but its keys are: choices"),
            ([], "it is a list"),
        ],
    )
    def test_what_is_no_reply(self, reply, says):
        with pytest.raises(ServiceError) as caught:
            read_reply(reply, endpoint(RESPONSES))
        assert says in str(caught.value)

    def test_the_last_event_of_a_stream_has_the_reply(self, agent):
        reply = ask(agent, RESPONSES, events(*self.DELTAS, last(THOUGHT, CALL, message(said("In Rome.")))))
        assert (reply.response, reply.tool_calls) == ("In Rome.", (CALLED,))
        assert (reply.usage, reply.finish_reason) == (Usage(9, 7, 3), "completed")
        assert 0 < reply.trace.timings_ms[FIRST_TOKEN] <= reply.latency_ms

    @pytest.mark.parametrize("done", [(), ({"type": "response.output_item.done", "output_index": 1, "item": CALL},)])
    def test_without_output_in_the_last_event_the_others_are_read(self, agent, done):
        reply = ask(agent, RESPONSES, events(*self.DELTAS, *done, last()))
        assert (reply.response, reply.tool_calls, reply.usage) == ("In Paris.", (CALLED,), Usage(9, 7, 3))

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            (DELTAS, "the stream ended before response.completed"),
            ((*DELTAS, {"type": "error", "code": "server_error", "message": "down"}), "an error event: .*down"),
        ],
    )
    def test_streams_without_an_answer(self, agent, given, says):
        for answer in (events(*given), sse(*map(json.dumps, given))):
            error = failure(agent, RESPONSES, answer)
            assert re.search(says, str(error))
            assert error.retryable


class TestMapping:
    """Events and replies of OpenAI's responses, read by a mapping."""

    CALL = (
        {"type": "response.reasoning_summary_text.delta", "delta": "Which city?"},
        {"type": "response.function_call_arguments.delta", "delta": '{"city":'},
        {"type": "response.audio.transcript.delta", "delta": "uh"},
        {"type": "response.function_call_arguments.done", "arguments": '{"city":"Paris"}'},
    )

    @pytest.mark.parametrize(
        "settings", [{"response": {"answer": "$.delta"}}, {}], ids=["mapped", "without a protocol"]
    )
    def test_only_text_of_the_answer_is_the_answer(self, agent, settings):
        pieces = [{"type": "response.output_text.delta", "delta": piece} for piece in ("Hel", "lo")]
        whole = {"type": "response.output_text.done", "text": "Hello"}
        given = events(*self.CALL, *pieces, whole, last(message(said("Hello"))))
        assert ask(agent, settings, given).response == "Hello"

    def test_a_stream_with_no_other_text_has_no_answer(self, agent):
        says = str(failure(agent, {"response": {"answer": "$.delta"}}, events(*self.CALL)))
        assert says.endswith("; response.reasoning_summary_text.delta is not text of the answer")

    @pytest.mark.parametrize("protocol", [{}, {"protocol": "openai-responses"}])
    def test_a_failed_response_is_no_answer(self, agent, protocol):
        failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "down"}}}
        piece = {"type": "response.output_text.delta", "delta": "Hel"}
        error = failure(agent, {"response": {"answer": "$.delta"}} | protocol, events(piece, failed))
        assert "down" in str(error)
        assert error.retryable
