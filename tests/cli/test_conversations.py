"""Scripted conversations: each turn is asked with what the agent really said before, and scored."""

import json
import subprocess
import sys
import time

import pytest

from evalspec.model import AgentReply, Exchange, Sample, Turn
from evalspec.model.exchanges import AgentTurn
from evalspec.runs.runner.scoring import list_turns

SCRIPT = {
    "id": "trip",
    "turns": [
        {"user": "I want to go to Paris", "expected": "When?"},
        {"user": "In May", "expected": "Booked", "expected_tools": [{"name": "book", "arguments": {"month": 5}}]},
        {"user": "Thanks"},
    ],
}
TEMPLATE = {
    "protocol": "custom",
    "request": {"text": "{{input}}", "messages": "{{messages}}", "id": "{{session}}"},
    "response": {"answer": "$.answer", "toolCalls": "$.calls"},
}
METRICS = ["string_match", "tool_calls_exact", {"name": "exact_match", "turns": "worst"}]


def answer(body):
    """Ask for the month, then book it; the reply repeats how many messages there were."""
    if "May" in body["text"]:
        return {"answer": "Booked it", "calls": [{"name": "book", "arguments": {"month": 5}}]}
    return {"answer": "When?" if "Paris" in body["text"] else "Bye", "calls": []}


@pytest.fixture
def asked(project, agent):
    agent.reply = answer
    project.api = {"url": agent.url, "chatEndpoint": dict(TEMPLATE)}
    project.write_dataset = lambda *lines: project.dataset("trips", list(lines), metrics=METRICS)
    write(project, SCRIPT)
    return project


def write(project, *lines):
    project.evaluation["datasets"] = [{"name": "trips", "path": "trips.jsonl", "metrics": METRICS}]
    (project.folder / "trips.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def wait_until(holds, seconds=90):
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def scores_of(outcome):
    (sample,) = outcome.document["datasets"][0]["samples"]
    return {name: (score.get("value"), score["reason"]) for name, score in sample["scores"].items()}


def test_each_turn_is_asked_with_what_was_said_and_scored(asked, agent):
    outcome = asked.evaluate("--json")
    assert outcome.code == 0, outcome.err
    sent = [request.body for request in agent.requests]
    assert [one["text"] for one in sent] == ["I want to go to Paris", "In May", "Thanks"]
    assert [one["content"] for one in sent[2]["messages"]] == [
        "I want to go to Paris", "When?", "In May", "Booked it", "Thanks",
    ]  # fmt: skip
    assert len({one["id"] for one in sent}) == 1 and len(sent[0]["id"]) == 32
    assert (
        scores_of(outcome)
        == {
            "string_match": (1.0, None),
            "tool_calls_exact": (1.0, None),
            "exact_match(turns=worst)": (0.0, "turn 2: expected 'Booked', got 'Booked it'"),
        }
        or scores_of(outcome)["exact_match(turns=worst)"][0] == 0
    )


def test_a_stateful_agent_gets_only_what_is_new(asked, agent):
    asked.api["chatEndpoint"] |= {"sessionMode": "stateful", "threadIdHeader": "X-Thread"}
    assert asked.evaluate().code == 0
    assert [len(request.body["messages"]) for request in agent.requests] == [1, 1, 1]
    threads = {request.headers["x-thread"] for request in agent.requests}
    assert threads == {request.body["id"] for request in agent.requests} and len(threads) == 1
    assert asked.evaluate("--repeat", "2").code == 0
    assert len({request.headers["x-thread"] for request in agent.requests}) == 3, "a new one for each attempt"


def test_a_stateful_agent_needs_only_the_last_message_of_a_script(asked, agent):
    asked.api["chatEndpoint"] |= {"sessionMode": "stateful", "request": {"q": "{{input}}"}}
    agent.reply = lambda body: answer({"text": body["q"]})
    assert asked.evaluate().code == 0
    assert len({request.headers["x-thread-id"] for request in agent.requests}) == 1
    write(asked, SCRIPT | {"input": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})
    assert "sends only the last message" in asked.evaluate().err, "the agent does not know what opened it"


def test_a_mode_that_nobody_wrote_does_not_count(asked, agent):
    asked.api["chatEndpoint"] |= {"path": "/chat/{{session}}", "request": {"q": "{{input}}", "h": "{{history}}"}}
    agent.reply = lambda body: answer({"text": body["q"]})
    assert asked.evaluate().code == 0
    assert [len(request.body["h"]) for request in agent.requests] == [0, 2, 4]
    assert len({request.path for request in agent.requests}) == 1 and "{{" not in agent.requests[0].path
    write(asked, SCRIPT | {"input": [{"role": "system", "content": "Be brief."}]})
    asked.api["chatEndpoint"]["request"] |= {"s": "{{system}}"}
    assert asked.evaluate().code == 0
    assert agent.requests[-1].body["s"] == "Be brief." and len(agent.requests[-1].body["h"]) == 4


def test_a_turn_that_fails_fails_the_conversation(asked, agent):
    agent.script = ["ok", "html"]
    asked.api["chatEndpoint"]["maxRetries"] = 0
    outcome = asked.evaluate("--json")
    assert outcome.code == 3
    assert {score["status"] for score in outcome.document["datasets"][0]["samples"][0]["scores"].values()} == {"failed"}
    assert len(agent.requests) == 2


def test_a_turn_is_retried_without_the_turns_before_it(asked, agent):
    agent.script = ["ok", "drop"]
    assert asked.evaluate().code == 0
    assert [request.body["text"] for request in agent.requests] == [
        "I want to go to Paris", "In May", "In May", "Thanks",
    ]  # fmt: skip


def test_a_stateful_agent_gets_no_turn_twice_in_a_session(asked, agent):
    asked.api["chatEndpoint"] |= {"sessionMode": "stateful"}
    agent.script = ["ok", "drop"]
    outcome = asked.evaluate("--json")
    assert outcome.code == 0 and outcome.document["datasets"][0]["samples"][0]["retries"] == 1
    asked_in = [(request.headers["x-thread-id"], request.body["text"]) for request in agent.requests]
    first, second = dict.fromkeys(thread for thread, _ in asked_in)
    assert [text for thread, text in asked_in if thread == first] == ["I want to go to Paris", "In May"]
    assert [text for thread, text in asked_in if thread == second] == ["I want to go to Paris", "In May", "Thanks"]


def test_calls_that_the_whole_sample_expects_are_those_of_all_turns(asked):
    whole = {"id": "whole", "turns": [{"user": "Paris"}, {"user": "May"}], "expected": "Booked"}
    write(asked, whole | {"expected_tools": [{"name": "book"}, {"name": "pay"}]})
    found = scores_of(asked.evaluate("--json"))
    assert found["tool_calls_exact"][0] == 0
    assert found["string_match"][0] == 1, "the answer of the sample is that of the last turn"


def test_what_the_sample_says_of_all_calls_is_scored_over_all_turns(asked, agent):
    calls = [{"name": "book", "arguments": {}, "result": "ok"}, {"name": "pay", "arguments": {}, "error": "no"}]
    agent.reply = lambda body: {"answer": "Yes", "calls": calls[: 1 if "Paris" in body["text"] else 2], "steps": 2}
    asked.api["chatEndpoint"]["response"] |= {"steps": "$.steps"}
    asked.evaluation["tools"] = [{"name": "book", "parameters": {"required": ["id"]}}]
    names = [
        "forbidden_tool_calls", "redundant_tool_calls", "tool_error_rate", "steps", "steps_within_limit",
        "tool_schema_valid", "tool_hallucination",
    ]  # fmt: skip
    write(asked, SCRIPT | {"forbidden_tools": ["pay"], "max_steps": 5})
    asked.evaluation["datasets"][0]["metrics"] = names
    found = {name: value for name, (value, _) in scores_of(asked.evaluate("--json")).items()}
    assert found == dict(zip(names, [2, 2, 2 / 5, 6, 0, 0, 1], strict=True))
    asked.evaluation["datasets"][0]["metrics"] = [{"name": "steps", "turns": "worst"}]
    refused = asked.validate()
    assert refused.code == 2 and "datasets[0].metrics[0].turns" in refused.out


@pytest.mark.parametrize(
    "line, message",
    [
        ({"turns": []}, "turns: "),
        ({"turns": [{"expected": "x"}]}, "turns[0].user: this key is required"),
        ({"turns": [{"user": "x", "expect": "y"}]}, "turns[0].expect: unknown key 'expect'"),
        ({"turns": [{"user": "x"}], "input": "x"}, "input and turns both say what the user asks first"),
    ],
)
def test_a_bad_script_has_file_line_and_field(line, message, asked):
    write(asked, SCRIPT, line)
    found = asked.validate()
    assert found.code == 2 and f"trips.jsonl:2: {message}" in found.out


def kill_at(asked, agent, turns):
    """Start a run, and kill it while it waits for the reply to the turn after these."""
    agent.script = ["ok"] * turns + ["hang"]
    asked.write()
    process = subprocess.Popen(
        [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml"], cwd=asked.folder, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: len(agent.requests) == turns + 1)
    process.kill()
    process.wait()


@pytest.mark.parametrize("turns", [1, 2])
def test_a_killed_conversation_goes_on_at_its_turn(asked, agent, turns):
    whole = scores_of(asked.evaluate("--json"))
    del agent.requests[:]
    kill_at(asked, agent, turns)
    outcome = asked.evaluate("--resume", "--json")
    said = ["I want to go to Paris", "In May", "Thanks"]
    assert [request.body["text"] for request in agent.requests] == [*said[: turns + 1], *said[turns:]]
    assert len({request.body["id"] for request in agent.requests}) == 1
    assert scores_of(outcome) == whole
    assert not any("began again" in note for note in outcome.document["notes"])


@pytest.mark.parametrize("turns", [1, 2])
def test_a_killed_conversation_of_a_stateful_agent_begins_again(asked, agent, turns):
    asked.api["chatEndpoint"] |= {"sessionMode": "stateful"}
    kill_at(asked, agent, turns)
    outcome = asked.evaluate("--resume", "--json")
    assert [request.body["text"] for request in agent.requests][turns + 1 :] == [
        "I want to go to Paris",
        "In May",
        "Thanks",
    ]
    assert len({request.body["id"] for request in agent.requests}) == 2
    assert any(f"{turns} turn" in note and "began again" in note for note in outcome.document["notes"])
    assert scores_of(outcome)["string_match"][0] == 1
    log = next((asked.folder / ".evalspec" / "runs").glob("*/samples.jsonl")).read_text()
    assert log.count('"kind":"turn"') == turns + 1 + 3, "those before the kill, the mark, and those after"


def test_a_recorded_conversation_has_the_same_scores(asked, agent):
    measured = scores_of(asked.evaluate("-o", "report.jsonl", "--json"))
    del agent.requests[:]
    assert scores_of(asked.evaluate("--responses", "report.jsonl", "--json")) == measured
    assert not agent.requests
    assert scores_of(asked("rescore", "latest", "agent.yaml", "--json")) == measured
    lines = [{"id": "trip", "turns": [{"user": "x", "response": "When?"}, {"response": "y"}]}]
    (asked.folder / "bad.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused = asked.evaluate("--responses", "bad.jsonl")
    assert refused.code == 2 and "bad.jsonl:1: turns: " in refused.err


def test_checks_of_turns_are_about_their_answers(asked):
    turns = [{"user": "Paris", "checks": [{"name": "contains", "value": "When"}]}, *SCRIPT["turns"][1:]]
    write(asked, {"id": "trip", "turns": turns, "checks": [{"name": "contains", "value": "Hello"}]})
    assert scores_of(asked.evaluate("--json"))["checks"][0] == 0.5, "the first turn passes, the last one does not"
    bad = {"user": "Paris", "checks": [{"name": "contain", "value": "x"}]}
    write(asked, {"id": "trip", "turns": [bad]})
    refused = asked.validate()
    assert refused.code == 2 and "trips.jsonl:1: turns[0].checks[0]" in refused.out


def test_checks_are_about_the_last_answer(asked):
    checks = [{"name": "contains", "value": "Bye"}, {"name": "contains", "value": "When", "negate": True}]
    write(asked, SCRIPT | {"checks": checks})
    outcome = asked.evaluate("--json")
    assert outcome.code == 0, outcome.err
    assert scores_of(outcome)["checks"] == (1, None)


@pytest.mark.parametrize("is_stateful", [False, True])
def test_calls_of_earlier_turns_in_a_thread_stand_for_none_of_a_later_one(asked, agent, is_stateful):
    """The agent returns its whole thread, and books only once."""
    book = {"id": "1", "function": {"name": "book", "arguments": "{}"}}
    first = [{"role": "user", "content": "Book."}, {"role": "assistant", "tool_calls": [book]}]
    threads = [first, [*first, {"role": "user", "content": "Once more."}, {"role": "assistant", "content": "Done."}]]
    agent.reply = lambda _body: {"answer": "Done.", "calls": threads.pop(0)}
    asked.api["chatEndpoint"] |= {"sessionMode": "stateful"} if is_stateful else {}
    expected = [{"name": "book", "arguments": {}}]
    turns = [{"user": text, "expected": "Done", "expected_tools": expected} for text in ("Book.", "Once more.")]
    write(asked, {"id": "twice", "turns": turns})
    assert scores_of(asked.evaluate("--json"))["tool_calls_exact"][0] == 0.5


def test_an_answer_that_is_only_a_call_takes_the_conversation_out_of_the_mean_and_is_counted(asked, agent):
    """The mean over the turns that it answered would let an agent leave out those that it fails."""
    book = [{"name": "book", "arguments": {}}]
    replies = [{"answer": "Done"}, {"answer": "", "calls": book}]
    agent.reply = lambda _body: replies.pop(0)
    turns = [{"user": text, "expected": "Done", "expected_tools": []} for text in ("Book.", "Once more.")]
    write(asked, {"id": "twice", "turns": turns})
    reason = "turn 2: the reply ends in tool calls, so there is no answer"
    assert scores_of(asked.evaluate("--json"))["string_match"] == (None, reason)


def test_a_turn_that_shows_no_calls_made_none_if_another_shows_some(asked, agent):
    """As in the whole conversation. Otherwise the agent could leave out the turns that it fails."""
    book = [{"name": "book", "arguments": {}}]
    replies = [{"answer": "Done", "calls": book}, {"answer": "Done"}]
    agent.reply = lambda _body: replies.pop(0)
    turns = [{"user": text, "expected": "Done", "expected_tools": book} for text in ("Book.", "Once more.")]
    write(asked, {"id": "twice", "turns": turns})
    assert scores_of(asked.evaluate("--json"))["tool_calls_exact"] == (0.5, "turn 2: not called: book")


def test_a_turn_has_the_digest_of_its_own_answer():
    said = ["When?", "Booked it"]
    sample = Sample("trip", "Paris", turns=(Turn("Paris"), Turn("In May")))
    reply = AgentReply(said[-1], turns=tuple(AgentTurn("?", AgentReply(text)) for text in said))
    whole = Exchange(sample, reply).with_digest()
    digests = [turn.answer_digest for turn in list_turns(whole)]
    assert digests == [Exchange(sample, AgentReply(text)).answer_digest for text in said]
