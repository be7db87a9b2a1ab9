"""Mistakes in manifests and datasets of agents that act: each is reported with its place, before the first request."""

import json

import pytest

WORLD = "def state(session):\n    return {}\n"


@pytest.fixture
def acting(project):
    """An agent in Python that calls no tool."""
    (project.folder / "bot.py").write_text("def answer(question):\n    return {'response': 'ok', 'tool_calls': []}\n")
    project.api = {"python": "bot:answer"}
    return project


def expect(project, *metrics, **keys):
    """Write a dataset of one sample. Without metrics, evalspec chooses them."""
    line = {"id": "a", "input": "Book it.", "expected": "ok"} | keys
    (project.folder / "d.jsonl").write_text(json.dumps(line) + "\n")
    named = {"metrics": list(metrics)} if metrics else {}
    project.evaluation["datasets"] = [{"name": "d", "path": "d.jsonl"} | named]


def validate(project, code):
    found = project.validate()
    assert found.code == code, found.out + found.err
    return found.out + found.err


@pytest.mark.parametrize(
    ("metric", "keys", "better"),
    [
        ("string_match", {"expected_tools": [{"name": "book"}]}, "tool_calls_exact"),
        ("string_match", {"expected_tools": []}, "tool_calls_exact"),
        ("string_match", {"forbidden_tools": ["pay"]}, "forbidden_tool_calls"),
        ("string_match", {"max_steps": 2}, "steps_within_limit"),
        ("string_match", {"expected_state": {"nothing_else": True}}, "end_state"),
    ],
)
def test_expectations_that_no_metric_reads_are_listed(acting, metric, keys, better):
    (acting.folder / "world.py").write_text(WORLD)
    acting.evaluation["environment"] = {"state": {"python": "world:state"}}
    (key,) = keys
    expect(acting, metric, **keys)
    assert f"d.jsonl:1: {key}: 1 of 1 sample has {key}, which no metric reads. add " in validate(acting, 0)
    expect(acting, metric, better, **keys)
    assert "no metric reads" not in validate(acting, 0)


def test_checks_and_the_users_own_metrics_read_expectations(acting):
    expect(acting, "checks", expected_tools=[{"name": "book"}], checks=[{"name": "tool_calls_exact"}])
    assert "no metric reads" not in validate(acting, 0)
    (acting.folder / "own.py").write_text("def own(exchange):\n    return 1\n")
    expect(acting, {"name": "own", "scorer": "own:own"}, expected_tools=[{"name": "book"}])
    assert "no metric reads" not in validate(acting, 0)


def test_expected_and_forbidden_tools_are_declared_ones(acting):
    acting.evaluation["tools"] = [{"name": "book"}, {"name": "cancel"}]
    names = {"expected_tools": [{"name": "book"}], "forbidden_tools": ["cancle"]}
    expect(acting, "tool_calls_exact", "forbidden_tool_calls", **names)
    said = validate(acting, 0)
    assert "d.jsonl:1: forbidden_tools: spec.evaluation.tools does not declare 'cancle'. did you mean 'cancel'?" in said
    assert "'book'" not in said


def test_calls_that_no_reply_shows_are_mapped(acting):
    expect(acting, "tool_calls_exact", "forbidden_tool_calls", expected_tools=[], forbidden_tools=["pay"])
    assert "toolCalls" not in validate(acting, 0)
    response = {"answer": "$.a"}
    acting.api = {"url": "http://127.0.0.1:9", "chatEndpoint": {"response": response}}
    said = "tool_calls_exact, forbidden_tool_calls of dataset 'd' need the calls of tools, which no reply shows. map"
    assert said in validate(acting, 0)
    response["toolCalls"] = "$.calls"
    assert said not in validate(acting, 0)


def test_functions_of_the_environment_exist(acting):
    expect(acting, "end_state", expected_state={"nothing_else": True})
    acting.evaluation["environment"] = {"state": {"python": "world:state"}, "reset": {"python": "world:begin"}}
    assert "spec.evaluation.environment.state.python: " in validate(acting, 2)
    (acting.folder / "world.py").write_text(WORLD)
    said = validate(acting, 2)
    assert "spec.evaluation.environment.reset.python: " in said and "state.python" not in said


def test_an_agent_in_python_gets_no_session(acting):
    expect(acting, "end_state", expected_state={"nothing_else": True})
    (acting.folder / "world.py").write_text(WORLD)
    acting.evaluation["environment"] = {"state": {"python": "world:state"}, "isolated": True}
    acting.api["chatEndpoint"] = {"sessionMode": "stateful"}
    assert "an agent in Python gets none. remove isolated" in validate(acting, 2)
    del acting.evaluation["environment"]["isolated"]
    assert "chatEndpoint.sessionMode: it has no effect: an agent in Python gets the whole" in validate(acting, 0)


def test_messages_name_the_key_and_the_form(acting):
    expect(acting, "end_state", max_steps="3", expected_state={"$.a": 1})
    acting.evaluation["environment"] = {"state": "http://127.0.0.1:9", "within": "5 sec"}
    said = validate(acting, 2)
    assert "environment.within: within is a time, and '5 sec' is none. write 5s, 500ms or a number of seconds" in said
    del acting.evaluation["environment"]["within"]
    acting.evaluation["tools"] = [{"nme": "book"}]
    said = validate(acting, 2)
    assert "spec.evaluation.tools[0].name: this key is required" in said
    assert "d.jsonl:1: max_steps: '3' is text. remove the quotes" in said


def test_a_refused_metric_is_not_reported_again_at_its_threshold(acting):
    expect(acting, "end_state", "cost", {"name": "string_match", "turns": "min"}, expected_state={"$.a": 1})
    acting.evaluation["thresholds"] = {"end_state": 1, "cost": 1, "string_match": 1}
    said = validate(acting, 2)
    assert "metrics[0]: end_state needs spec.evaluation.environment" in said
    assert "metrics[1]: cost needs the price" in said and "metrics[2].turns: 'min' is no value" in said
    assert "thresholds" not in said


def test_samples_that_have_only_checks_need_no_right_answer(acting):
    lines = [
        {"id": "a", "input": "1?", "expected": "ok", "checks": [{"name": "contains", "value": "ok"}]},
        {"id": "b", "input": "2?", "expected": "", "checks": [{"name": "contains", "value": "no"}]},
    ]
    expect(acting)
    (acting.folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    acting.evaluation["thresholds"] = {"checks_all": 0.5}
    assert "evalspec computes checks, checks_all" in validate(acting, 0)
    assert list(acting.evaluate("--json").document["datasets"][0]["metrics"]) == ["checks", "checks_all"]


def test_a_caution_names_the_metric_that_few_samples_have(acting):
    lines: list[dict[str, object]] = [{"id": str(n), "input": f"{n}?", "expected": "ok"} for n in range(3)]
    lines[0] |= {"expected_tools": []}
    expect(acting, "string_match", "tool_calls_exact")
    (acting.folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = "d: 1 independent sample of tool_calls_exact says little: see the intervals"
    assert said in acting.evaluate("--json").document["notes"]
