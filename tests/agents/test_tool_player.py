"""A bare model whose calls evalspec answers until it has a final answer."""

import json
import re

import pytest

from evalspec.base.errors import ServiceError
from evalspec.targets.tracing import OpenRequest
from servers.faulty_agent import status, throttled

TOOLS = {
    "weather": {"parameters": {"type": "object", "required": ["city"]}, "result": {"sky": "clear"}},
    "add": {"description": "Adds.", "python": "desk:add"},
}
DESK = "def add(a, b):\n    if a < 0:\n        raise ValueError('negative')\n    return a + b\n"
EXPECTED = [{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "add", "arguments": {"a": 1, "b": 2}}]


def call(name, arguments, id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.fixture
def model(project, agent):
    """A project whose agent is a scripted model: `agent.says` are its next messages."""
    agent.says = []
    agent.reply = lambda _body: {
        "choices": [{"message": {"role": "assistant", **agent.says.pop(0)}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    }
    project.api = {"url": agent.url, "chatEndpoint": {"protocol": "openai-compatible", "model": "m"}}
    (project.folder / "desk.py").write_text(DESK)
    line = {"id": "s", "input": "Weather?", "expected": "clear", "expected_tools": EXPECTED}
    (project.folder / "q.jsonl").write_text(json.dumps(line) + "\n")
    metrics = ["tool_calls_exact", "tool_error_rate", "steps", "string_match", "tokens_mean", "tool_hallucination"]
    project.evaluation |= {"tools": TOOLS, "datasets": [{"name": "q", "path": "q.jsonl", "metrics": metrics}]}
    return project


def scores(model, *arguments):
    outcome = model.evaluate("--json", *arguments)
    assert outcome.code == 0, outcome.err
    return {name: one["value"] for name, one in outcome.document["datasets"][0]["samples"][0]["scores"].items()}


def test_calls_are_answered_until_the_model_has_an_answer(model, agent):
    agent.says = [
        {"content": None, "tool_calls": [call("weather", '{"city": "Paris"}'), call("add", '{"a": 1, "b": 2}', "c2")]},
        {"content": "It is clear, and 3."},
    ]
    assert scores(model) == {
        "tool_calls_exact": 1, "tool_error_rate": 0, "steps": 2, "string_match": 1, "tokens_mean": 24,
        "tool_hallucination": 0,
    }  # fmt: skip
    first, second = (request.body for request in agent.requests)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["weather", "add"]
    assert [(one["role"], one["content"]) for one in second["messages"]] == [
        ("user", "Weather?"),
        ("assistant", None),
        ("tool", '{"sky": "clear"}'),
        ("tool", "3"),
    ]
    assert [one["tool_call_id"] for one in second["messages"][2:]] == ["c1", "c2"]


def test_each_call_of_the_model_has_its_time_and_tokens(model, agent):
    agent.says = [{"content": None, "tool_calls": [call("weather", '{"city": "Paris"}')]}, {"content": "clear"}]
    scores(model)
    shown = model("show", "s").out
    assert re.search(r"calls of the model: 2 \([\d.,]+ ms, 10 in, 2 out; [\d.,]+ ms, 10 in, 2 out\)", shown), shown
    line = model("show", "s", "--json").document["attempts"][0]
    assert [one["usage"] for one in line["model_calls"]] == [{"inputTokens": 10, "outputTokens": 2}] * 2
    assert sum(one["latencyMs"] for one in line["model_calls"]) == pytest.approx(line["latency_ms"])


def test_errors_go_to_the_model(model, agent):
    agent.says = [
        {"content": None, "tool_calls": [call("weather", "{}"), call("nope", "{}"), call("add", '{"a": -1, "b": 2}')]},
        {"content": None, "tool_calls": [call("add", "not json")]},
        {"content": "I give up"},
    ]
    found = scores(model)
    assert (found["tool_error_rate"], found["steps"], found["tool_hallucination"]) == (1, 3, 1)
    told = [one["content"] for one in agent.requests[-1].body["messages"] if one["role"] == "tool"]
    assert told[0] == "Error: 'city' is a required property" and told[1] == "Error: there is no such tool"
    assert told[2].startswith("Error: ValueError: negative") and told[3].startswith("Error: the arguments are no JSON")


def test_a_model_that_never_stops_has_no_answer(model, agent):
    agent.says = [{"content": None, "tool_calls": [call("weather", '{"city": "Paris"}')]}] * 30
    found = scores(model)
    assert (found["steps"], found["string_match"]) == (25, None)
    assert len(agent.requests) == 25


def test_without_answers_the_calls_are_the_reply(model, agent):
    model.evaluation["tools"] = [{"name": "weather"}]
    agent.says = [{"content": None, "tool_calls": [call("weather", '{"city": "Paris"}')]}]
    found = scores(model)
    assert (found["tool_calls_exact"], found["string_match"], found["tool_error_rate"]) == (0, None, None)
    assert "tools" not in agent.requests[0].body


@pytest.mark.parametrize(
    "tools, protocol, message",
    [
        (TOOLS, None, "only calls of a bare model are answered, by anthropic, ollama"),
        ({"add": {"python": "desk:minus"}}, "openai-compatible", "spec.evaluation.tools: add: "),
        ({"add": {"python": "desk:add", "result": 1}}, "openai-compatible", "result and python answer the same calls"),
    ],
)
def test_a_desk_that_cannot_work_is_refused_before_the_first_request(model, agent, tools, protocol, message):
    model.evaluation["tools"] = tools
    model.api["chatEndpoint"] = {"protocol": protocol} if protocol else {}
    refused = model.evaluate()
    assert refused.code == 2 and message in refused.err
    assert not agent.requests


ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
OUTPUT = {"type": "output_text", "text": "3, clear"}
WIRES = {
    "anthropic": (
        {"type": "message", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}]},
        {"type": "message", "content": [{"type": "text", "text": "3, clear"}]},
        lambda body: body["messages"][-1]["content"][0],
        {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": False},
    ),
    "ollama": (
        {"message": {"content": "", "tool_calls": [{"function": ADD}]}, "done": True},
        {"message": {"content": "3, clear"}, "done": True},
        lambda body: body["messages"][-1],
        {"role": "tool", "tool_name": "add", "content": "3"},
    ),
    "openai-responses": (
        {"status": "completed", "output": [{"type": "function_call", "call_id": "c1"} | ADD]},
        {"status": "completed", "output": [{"type": "message", "content": [OUTPUT]}]},
        lambda body: body["input"][-1],
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("protocol", WIRES)
def test_every_wire_of_models_tells_the_results(model, agent, protocol):
    call, answer, find, result = WIRES[protocol]
    model.api["chatEndpoint"]["protocol"] = protocol
    replies = [call, answer]
    agent.reply = lambda _body: replies.pop(0)
    found = scores(model)
    assert (found["string_match"], found["steps"]) == (1, 2)
    assert {tool.get("name") or tool["function"]["name"] for tool in agent.requests[0].body["tools"]} == set(TOOLS)
    assert find(agent.requests[1].body) == result


@pytest.mark.parametrize("failure", [throttled(0.1), status(503), "drop"], ids=["429", "503", "dropped"])
def test_a_retry_repeats_the_request_to_the_model_and_no_call_of_a_tool(model, agent, failure):
    """A model that started over would book the same flight a second time."""
    acts = model.folder / "acts"
    code = f"with open({str(acts)!r}, 'a') as file:\n        file.write('x')"
    (model.folder / "desk.py").write_text(f"def add(a, b):\n    {code}\n    return a + b\n")
    agent.says = [{"content": None, "tool_calls": [call("add", '{"a": 1, "b": 2}')]}, {"content": "3"}]
    agent.script = ["ok", failure]
    model.evaluation["datasets"][0]["metrics"] = ["steps", "retry_rate"]
    found = scores(model)
    assert found == {"steps": 2, "retry_rate": 0.5}, found
    first, failed, repeated = agent.requests
    assert acts.read_text() == "x" and failed.body == repeated.body != first.body


def test_a_tool_that_changes_its_arguments_changes_no_record(model, agent):
    (model.folder / "desk.py").write_text("def add(a, b):\n    a.append(b)\n    return len(a)\n")
    line = {
        "id": "s",
        "input": "Add",
        "expected": "2",
        "expected_tools": [{"name": "add", "arguments": {"a": [1, 2], "b": 2}}],
    }
    (model.folder / "q.jsonl").write_text(json.dumps(line) + "\n")
    agent.says = [{"content": None, "tool_calls": [call("add", '{"a": [1], "b": 2}')]}, {"content": "2"}]
    assert scores(model)["tool_calls_exact"] == 0
    assert agent.requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"a": [1], "b": 2}'


def test_a_sample_whose_request_fails_again_and_again_has_no_reply(model, agent):
    agent.says = [{"content": None, "tool_calls": [call("add", '{"a": 1, "b": 2}')]}]
    agent.script = ["ok", *[throttled(0)] * 9]
    model.api["chatEndpoint"]["maxRetries"] = 1
    outcome = model.evaluate("--json")
    assert outcome.code == 3 and "429" in outcome.document["datasets"][0]["samples"][0]["error"]
    assert len(agent.requests) == 3


@pytest.mark.parametrize(
    "schema, argument, reason",
    [
        ({"pattern": "^(a|aa)+$"}, f'"{"a" * 60}b"', "takes longer than 1 s"),
        ({"multipleOf": 0.1}, f"1{'0' * 400}", "too large"),
    ],
)
def test_arguments_that_cannot_be_checked_fail_their_sample_alone(model, agent, schema, argument, reason):
    model.evaluation["tools"] = {"find": {"parameters": {"properties": {"q": schema}}, "result": 1}}
    agent.says = [{"content": None, "tool_calls": [call("find", f'{{"q": {argument}}}')]}]
    outcome = model.evaluate("--json")
    assert outcome.code == 3, outcome.err
    assert reason in outcome.document["datasets"][0]["samples"][0]["error"]


def test_a_mapping_without_calls_does_not_say_that_none_was_made(model, agent):
    """The model calls a tool beside its text, which a mapping of the text alone does not show."""
    line = {"id": "s", "input": "Weather?", "expected": "", "forbidden_tools": ["weather"]}
    (model.folder / "q.jsonl").write_text(json.dumps(line) + "\n")
    model.evaluation["datasets"][0]["metrics"] = ["forbidden_tool_calls"]
    said = {"content": "Sure.", "tool_calls": [call("weather", '{"city": "Paris"}')]}
    endpoint = model.api["chatEndpoint"]
    endpoint["response"] = {"answer": "$.choices[0].message.content"}
    assert "'weather' has an answer, but no mapped reply shows calls" in model.evaluate().err
    del model.evaluation["tools"]
    endpoint["parameters"] = {"tools": [{"type": "function", "function": {"name": "weather"}}]}
    for mapped, value in (({}, None), ({"toolCalls": "$.choices[0].message.tool_calls"}, 1)):
        endpoint["response"] |= mapped
        agent.says = [said]
        outcome = model.evaluate("--json")
        assert outcome.document["datasets"][0]["samples"][0]["scores"]["forbidden_tool_calls"]["value"] == value


@pytest.mark.parametrize("change", ["tools.json", "desk.py"])
def test_a_run_does_not_go_on_with_other_tools(model, agent, change):
    """The first samples would have been answered by another agent than the rest."""
    tools = [{"name": "weather", "result": 1}, {"name": "add", "python": "desk:add"}]
    (model.folder / "tools.json").write_text(json.dumps(tools))
    model.evaluation["tools"] = "$file:tools.json"
    agent.says = [{"content": None, "tool_calls": [call("weather", "{}")]}]
    assert model.evaluate().code == 3, "the second request has no answer"
    changed = model.folder / change
    changed.write_text(changed.read_text().replace("1", "7").replace("a + b", "a - b"))
    resumed = model.evaluate("--resume", "--retry-errors")
    assert resumed.code == 2 and "or a file or code of spec.evaluation.tools" in resumed.err


def test_what_a_model_says_beside_its_last_calls_is_no_answer(model, agent):
    agent.says = [{"content": "It may be clear.", "tool_calls": [call("weather", '{"city": "Paris"}')]}] * 30
    found = scores(model)
    assert (found["steps"], found["string_match"]) == (25, None)


def test_the_trace_of_a_retry_keeps_the_requests_that_were_answered():
    request = OpenRequest(None)
    with pytest.raises(ServiceError), request.trying():
        answered = request.name_parent()
        request.name_parent()
        raise ServiceError("429 in the middle of the calls")
    with request.trying():
        last = request.name_parent()
    assert request.close().answered == (answered, last)
