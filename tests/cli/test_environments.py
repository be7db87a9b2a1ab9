"""Agents that act: the world is reset, asked, and never acted on twice by a retry."""

import json
import subprocess
import sys

import pytest
import yaml

from cli.test_conversations import wait_until
from servers.booking_desk import BookingDesk
from servers.ports import find_free_port

BOOKED = {"$.bookings[1]": {"city": {"contains": "Paris"}, "status": "confirmed"}}


@pytest.fixture
def desk():
    with BookingDesk() as made:
        yield made


@pytest.fixture
def acting(project, desk):
    project.api = {
        "url": desk.url,
        "chatEndpoint": {
            "path": "/chat",
            "protocol": "custom",
            "request": {"text": "{{input}}"},
            "response": {"answer": "$.response"},
            "timeoutSeconds": 60,
        },
    }
    project.evaluation["environment"] = {"state": f"{desk.url}/state", "reset": f"{desk.url}/reset"}
    expect(project, BOOKED)
    return project


def expect(project, state, count=1):
    lines = [{"id": f"s{n}", "input": f"Paris {n}", "expected": "", "expected_state": state} for n in range(count)]
    (project.folder / "trips.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    project.evaluation["datasets"] = [{"name": "trips", "path": "trips.jsonl", "metrics": ["end_state", "error_rate"]}]


def measure(project, *arguments):
    outcome = project.evaluate("--json", *arguments)
    assert outcome.code in (0, 3), outcome.err
    return outcome.document["datasets"][0]["samples"]


def values(samples):
    return [sample["scores"]["end_state"]["value"] for sample in samples]


def test_the_world_is_reset_and_asked_one_attempt_at_a_time(acting, desk):
    expect(acting, BOOKED, 4)
    desk.script, desk.delay = ["slow"], 0.02
    assert values(measure(acting, "-j", "4", "--repeat", "2")) == [1, 1, 1, 1]
    assert desk.most_at_once == 1
    assert [kind for kind, _ in desk.events] == ["reset", "state", "chat", "state"] * 8


def test_isolated_attempts_run_at_once_each_in_its_own_world(acting, desk):
    expect(acting, BOOKED, 4)
    acting.api["chatEndpoint"]["path"] = "/chat?session={{session}}"
    world = {"state": f"{desk.url}/state?session={{{{session}}}}", "reset": f"{desk.url}/reset?session={{{{session}}}}"}
    acting.evaluation["environment"] = world | {"isolated": True}
    desk.delay = 0.2
    assert values(measure(acting, "-j", "4")) == [1, 1, 1, 1]
    assert desk.most_at_once > 1
    assert len({session for _, session in desk.events}) == 4
    acting.evaluation["environment"]["reset"] = f"{desk.url}/reset"
    refused = acting.validate()
    assert refused.code == 2 and "isolated needs {{session}} in reset" in refused.out
    acting.evaluation["environment"]["reset"] = world["reset"]
    acting.api["chatEndpoint"]["path"] = "/chat"
    refused = acting.validate()
    assert refused.code == 2 and "isolated needs {{session}} in the agent's requests" in refused.out


@pytest.mark.parametrize("mode", ["act_then_hang", "act_then_drop", "act_then_500"])
def test_a_request_that_may_have_acted_is_not_sent_again_in_the_same_world(acting, desk, mode):
    desk.script = [mode]
    (sample,) = measure(acting, *(("--timeout", "6") if mode == "act_then_hang" else ()))
    assert values([sample]) == [1], "booked once in the world that is looked at"
    assert [kind for kind, _ in desk.events] == ["reset", "state", "chat", "reset", "state", "chat", "state"]
    assert sample["retries"] == 1


def test_two_workers_a_slow_reset_and_a_timeout_wipe_no_world_and_book_nothing_twice(acting, desk):
    expect(acting, BOOKED | {"$.bookings[2]": {"absent": True}}, 3)
    desk.reset_delay, desk.script = 0.2, ["act_then_hang", "ok", "act_then_hang"]
    samples = measure(acting, "-j", "2", "--timeout", "6")
    assert values(samples) == [1, 1, 1]
    assert desk.count("chat") == 5 and desk.count("reset") == 5


def test_a_killed_attempt_in_an_environment_begins_again_with_a_reset(acting, desk):
    turns = [{"user": "Paris 1"}, {"user": "Paris 2"}]
    state = {"$.bookings[2]": {"any": True}, "$.bookings[3]": {"absent": True}}
    line = {"id": "s", "turns": turns, "expected_state": state}
    (acting.folder / "trips.jsonl").write_text(json.dumps(line) + "\n")
    desk.script = ["ok", "act_then_hang"]
    acting.api["chatEndpoint"]["request"]["messages"] = "{{messages}}"
    process = subprocess.Popen([sys.executable, "-m", "evalspec", "evaluate", acting.write().name], cwd=acting.folder)
    wait_until(lambda: desk.count("chat") == 2)
    process.kill()
    process.wait()
    (sample,) = measure(acting, "--resume")
    assert values([sample]) == [1]
    assert [kind for kind, _ in desk.events] == [
        "reset", "state", "chat", "chat", "reset", "state", "chat", "chat", "state",
    ]  # fmt: skip


def test_a_refusal_is_repeated_in_place(acting, desk):
    desk.script = ["refuse"]
    (sample,) = measure(acting)
    assert values([sample]) == [1] and desk.count("reset") == 1 and desk.count("chat") == 2
    assert sample["retries"] == 1


def test_without_a_reset_what_may_have_acted_is_not_repeated(acting, desk):
    del acting.evaluation["environment"]["reset"]
    desk.script = ["act_then_500"]
    (sample,) = measure(acting)
    assert values([sample]) == [None] and desk.count("chat") == 1


def test_a_failed_reset_is_no_failure_of_the_agent(acting, desk):
    desk.reset_fails = True
    (sample,) = measure(acting)
    scores = sample["scores"]
    assert {(one["status"], one["cause"]) for one in scores.values()} == {("failed", "environment")}
    assert "environment.reset" in scores["end_state"]["reason"] and desk.count("chat") == 0


def test_what_nobody_named_must_not_change(acting, desk):
    only = BOOKED | {"nothing_else": True}
    expect(acting, only | {"ignore": ["$.updatedAt"]})
    assert values(measure(acting)) == [1]
    expect(acting, only)
    (sample,) = measure(acting)
    assert sample["scores"]["end_state"]["reason"].startswith("$.updatedAt changed: it was 0 and is ")
    acting.evaluation["environment"] |= {"nothingElse": True, "ignore": ["$.updatedAt"]}
    expect(acting, {"$.bookings[?@.city == 'Paris 0']": {"any": True}})
    assert values(measure(acting)) == [1]
    desk.script = ["steal"]
    (sample,) = measure(acting)
    assert values([sample]) == [0] and "changed: it was" in sample["scores"]["end_state"]["reason"]


def test_a_slow_world_has_time(acting, desk):
    expect(acting, {"$.bookings[2]": {"any": True}, "within": "30s"})
    acting.evaluation["environment"] = {"python": None}
    (acting.folder / "world.py").write_text(
        "looks = []\ndef state(session):\n    looks.append(session)\n    return {'bookings': [1] * len(looks)}\n"
    )
    acting.evaluation["environment"] = {"state": {"python": "world:state"}}
    assert values(measure(acting)) == [1]


def test_a_tool_that_destroys_needs_an_environment(acting, desk):
    acting.evaluation["tools"] = [{"name": "cancel", "annotations": {"destructiveHint": True}}]
    assert measure(acting)
    del acting.evaluation["environment"]["reset"]
    assert "the tool cancel can destroy, and the environment has no reset" in acting.evaluate().err
    del acting.evaluation["environment"]
    acting.evaluation["datasets"][0]["metrics"] = ["error_rate"]
    before = len(desk.events)
    refused = acting.evaluate()
    assert refused.code == 2 and "the tool cancel can destroy, and no environment is declared" in refused.err
    assert len(desk.events) == before
    assert acting.evaluate("--allow-actions").code == 0


@pytest.mark.parametrize("declared", [None, [{"name": "cancel"}], [{"name": "other"}]])
def test_a_hint_in_the_tools_of_agentspec_counts_too(acting, desk, declared):
    del acting.evaluation["environment"]
    acting.evaluation["datasets"][0]["metrics"] = ["error_rate"]
    acting.evaluation |= {"tools": declared} if declared else {}
    path = acting.write()
    manifest = yaml.safe_load(path.read_text())
    manifest["spec"]["tools"] = ["x", {"name": 7}, {"name": "cancel", "annotations": {"destructiveHint": True}}]
    path.write_text(yaml.safe_dump(manifest))
    refused = acting("evaluate", "agent.yaml")
    assert refused.code == 2 and "the tool cancel can destroy, and no environment is declared" in refused.err
    assert not desk.events
    manifest["spec"]["tools"] = "$file:tools.yaml"
    path.write_text(yaml.safe_dump(manifest))
    assert acting("evaluate", "agent.yaml").code == 0


def test_a_conversation_is_compared_with_the_world_after_its_last_turn(acting, desk):
    line = {"id": "s", "turns": [{"user": "Paris 1"}, {"user": "Paris 2"}]}
    expect(acting, {})
    acting.api["chatEndpoint"]["request"]["history"] = "{{history}}"
    (acting.folder / "trips.jsonl").write_text(json.dumps(line | {"expected_state": {"$.bookings[2].city": "Paris 2"}}))
    assert values(measure(acting)) == [1]
    assert [kind for kind, _ in desk.events] == ["reset", "state", "chat", "chat", "state"]


def test_metrics_of_the_world_and_of_tools_need_their_declaration(acting, desk):
    del acting.evaluation["environment"]
    acting.evaluation["datasets"][0]["metrics"] = ["end_state", "tool_schema_valid", "tool_hallucination"]
    for refused in (acting.validate(), acting.evaluate()):
        assert refused.code == 2
        said = refused.err + refused.out
        assert "datasets[0].metrics[0]: end_state needs spec.evaluation.environment" in said
        assert "metrics[1]: tool_schema_valid needs spec.evaluation.tools" in said
        assert "metrics[2]: tool_hallucination needs spec.evaluation.tools" in said
    assert not desk.events


def test_an_untrusted_manifest_names_no_world(acting, desk):
    host = desk.url.removeprefix("http://")
    allowed = acting.evaluate("--untrusted", "--url", desk.url)
    assert allowed.code == 0, "the world is at the host that the user named"
    acting.evaluation["environment"]["reset"] = "http://127.0.0.1:9/reset"
    refused = acting.evaluate("--untrusted", "--url", desk.url)
    assert refused.code == 2 and "spec.evaluation.environment.reset" in refused.err, host
    acting.evaluation["environment"]["reset"] = {"python": "world:reset"}
    refused = acting.evaluate("--untrusted", "--url", desk.url)
    assert refused.code == 2 and "spec.evaluation.environment.reset.python" in refused.err


@pytest.mark.parametrize(
    "state, message",
    [
        ({}, "it names no value"),
        ({"bookings": 1}, "'bookings' is no JSONPath query"),
        ({"$.a[": 1}, "$.a["),
        ({"$.a": {"near": 1}}, "near needs a tolerance"),
        ({"$.a": 1, "within": "soon"}, "within is a time, and 'soon' is none"),
        ({"$.a": 1, "nothing_else": "yes"}, "nothing_else is true or false"),
        ({"$.a": 1, "nothing_els": True}, "did you mean 'nothing_else'?"),
        ({"$.a": 1, "ignore": "$.b"}, "ignore is a list"),
    ],
)
def test_a_bad_state_has_file_line_and_field(acting, state, message):
    expect(acting, state)
    found = acting.validate()
    assert found.code == 2 and "trips.jsonl:1: expected_state: " in found.out and message in found.out


@pytest.mark.parametrize(
    "expected, state, reason",
    [
        ({"$.x": {"near": 3, "tolerance": 1}}, "{'x': 10**400}", "expected"),
        ({"$.x": {"matches": "^(a|aa)+$"}}, "{'x': 'a' * 60 + 'b'}", "takes longer than 1 s"),
        ({"$.x[?search(@, '^(a|aa)+$')]": 1}, "{'x': ['a' * 60 + 'b']}", "takes longer than 1 s"),
        ({"$.x": 1}, "nest({}, 100_000)", "no JSON"),
    ],
)
def test_a_world_that_cannot_be_compared_fails_its_sample_alone(acting, desk, expected, state, reason):
    code = "def nest(value, depth):\n    for _ in range(depth):\n        value = [value]\n    return value\n"
    (acting.folder / "hostile.py").write_text(f"{code}def state(session):\n    return {state}\n")
    acting.evaluation["environment"] = {"state": {"python": "hostile:state"}}
    expect(acting, expected)
    (sample,) = measure(acting)
    assert reason in sample["scores"]["end_state"]["reason"]


def test_what_changes_only_for_a_moment_has_time_too(acting, desk):
    code = "looks = []\ndef state(session):\n    looks.append(1)\n    return {'x': 1, 'busy': len(looks) in (2, 3)}\n"
    (acting.folder / "moment.py").write_text(code)
    acting.evaluation["environment"] = {"state": {"python": "moment:state"}, "nothingElse": True, "within": "30s"}
    expect(acting, {"$.x": 1})
    assert values(measure(acting)) == [1]


def test_a_reset_that_ends_too_late_wipes_no_world_of_another_attempt(acting, desk):
    """The function of the first reset is still running when it has timed out."""
    code = "import time\nresets, seen = [], []\ndef reset(session):\n    resets.append(1)\n"
    code += "    time.sleep(6.2 if len(resets) == 1 else 0)\n    seen.clear()\n"
    code += "def state(session):\n    seen.append(1)\n    time.sleep(0.4)\n    return {'looks': len(seen)}\n"
    (acting.folder / "wiped.py").write_text(code)
    reset = {"python": "wiped:reset", "timeoutSeconds": 6}
    acting.evaluation["environment"] = {"state": {"python": "wiped:state"}, "reset": reset}
    expect(acting, {"$.looks": 2}, 2)
    assert values(measure(acting, "-j", "1")) == [None, 1]


def test_a_world_that_is_down_is_no_agent_that_is_down(acting, desk):
    acting.evaluation["environment"] = {"state": f"http://127.0.0.1:{find_free_port()}/state"}
    lines: list[dict[str, object]] = [{"id": f"s{n}", "input": "Paris", "expected": ""} for n in range(3)]
    lines[0]["expected_state"] = BOOKED
    (acting.folder / "trips.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = acting.evaluate("--json", "-j", "1")
    assert not any("is down" in note for note in outcome.document["notes"])
    errors = [one["error"] for one in outcome.document["datasets"][0]["samples"]]
    assert errors[0].startswith("environment.state: cannot connect") and errors[1:] == [None, None]
