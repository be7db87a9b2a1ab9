"""What was said and done in a conversation, through every door: what is shown of calls, and that none of it acts."""

import json
import re
from xml.etree import ElementTree

import pytest

from evalspec.api.runs import name_stored
from evalspec.base.foreign_text import visible
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import open_run
from hostile_texts import HOSTILE, commands, steering
from reporters.test_html import Page, elements, texts_of

SCRIPT = {
    "id": "trip",
    "input": [{"role": "system", "content": "Be brief."}],
    "turns": [
        {"user": "To Paris", "expected": "When?"},
        {
            "user": "In May",
            "expected": "Booked for 3 nights",
            "expected_tools": [
                {"name": "find", "arguments": {"city": "Paris"}},
                {"name": "book", "arguments": {"month": 5, "guests": [{"name": "Ada"}]}},
                {"name": "pay"},
            ],
        },
    ],
}
WHOLE = {
    "id": "whole",
    "input": [{"role": "system", "content": "Be brief."}],
    "turns": [{"user": "Paris"}, {"user": "May"}],
    "expected_tools": [{"name": "find"}, {"name": "pay"}],
}
MADE = [
    {"name": "find", "arguments": {"city": "Paris"}, "result": ["Ritz"]},
    {"name": "book", "arguments": {"month": "5", "guests": [{"name": "Eva"}], "late": True}, "error": "it is full"},
    {"name": "smile"},
]
METRICS = ["string_match", "tool_calls_exact"]


def answer(body):
    if "May" not in body["text"]:
        return {"answer": "When?", "usage": {"input_tokens": 81, "output_tokens": 9}}
    return {"answer": "Booked for 2 nights", "calls": MADE, "usage": {"input_tokens": 812, "output_tokens": 19}}


@pytest.fixture
def asked(project, agent):
    agent.reply = answer
    response = {"answer": "$.answer", "toolCalls": "$.calls", "usage": "$.usage"}
    project.api = {
        "url": agent.url,
        "chatEndpoint": {
            "protocol": "custom",
            "request": {"text": "{{input}}", "m": "{{messages}}"},
            "response": response,
        },
    }
    return project


def read_page():
    """The report of the latest run as a page, with its texts."""
    stored = open_run(RunStore(STORE).find(LATEST_NAME))
    return Page(name_stored(stored, stored.id).run, stored.read_exchanges)


def test_a_conversation_is_shown_as_turns_with_each_call_beside_the_expected_one(asked):
    asked.dataset("trips", [SCRIPT, WHOLE], metrics=METRICS, thresholds={"tool_calls_exact": 1})
    assert asked.evaluate().code == 0
    shown = re.sub(r"latency: [\d.,]+ ms", "latency: ? ms", asked("show", "trip").out)
    assert [line.strip() for line in shown.splitlines()[3:25]] == [
        "system  Be brief.",
        "Turn 1  latency: ? ms  tokens: 81 in, 9 out",
        "user      To Paris",
        "expected  When?",
        "got       When?",
        "score     string_match 1.000",
        "",
        "Turn 2  latency: ? ms  tokens: 812 in, 19 out",
        "user      In May",
        'call      find(city: "Paris")  ✓ as expected',
        'result    ["Ritz"]',
        'call      book(month: "5", guests: [{"name": "Eva"}], late: true)  ✗ other arguments',
        'differs   month: expected 5, made "5"',
        'differs   guests[0].name: expected "Ada", made "Eva"',
        "differs   late: expected nothing, made true",
        "error     it is full",
        "call      smile()  ✗ not expected",
        "call      pay(…)  ✗ not called",
        "expected  Booked for *3* nights",
        "got       Booked for *2* nights",
        "score     string_match 0.000: does not contain 'Booked for 3 nights'",
        "score     tool_calls_exact 0.000: other arguments: book (month, guests, late); not called: pay; "
        "not expected: smile",
    ]
    trip, whole = read_page().opened_samples()
    assert elements(trip, "div", "said") == ["userTo Paris", "userIn May"]
    calls = [re.sub(r"\s+", " ", text) for text in elements(trip, "span", "score")]
    assert calls == [
        'find(city: "Paris")✓as expectedstep 1',
        'book(month: "5", guests: [{"name": "Eva"}], late: true)✗other arguments!errorstep 2',
        "smile()✗not expectedstep 3",
        "pay(…)✗not called",
    ]
    assert elements(trip, "table", "tight") == ['argumentexpectedmademonth5"5"guests[0].name"Ada""Eva"latenonetrue']
    assert elements(whole, "span", "score")[-1] == "pay(…)✗not called"


def test_a_line_of_the_report_has_the_turns(asked):
    asked.dataset("trips", [SCRIPT], metrics=METRICS)
    assert asked.evaluate().code == 0
    (attempt,) = asked("show", "trip", "--json").document["attempts"]
    assert [turn["user"] for turn in attempt["turns"]] == ["To Paris", "In May"]
    assert attempt["turns"][1]["tool_calls"][1]["error"] == "it is full"
    assert attempt["turns"][1]["usage"]["input_tokens"] == 812


def test_a_comparison_has_the_calls_of_both_runs(asked, agent):
    asked.dataset("trips", [{"id": "s", "input": "In May", "expected": "3 nights"}], metrics=["string_match"])
    first = asked.evaluate("--json").document["runId"]
    agent.reply = lambda _: {"answer": "3 nights"}
    assert asked.evaluate().code == 0
    lines = [line.strip() for line in asked("compare", first, "latest").out.splitlines()]
    made = 'find(city: "Paris"), book(month: "5", guests: [{"name": "Eva"}], late: true) failed,'
    place = lines.index(f"calls of the baseline: {made}")
    assert lines[place + 1 : place + 3] == ["smile()", "calls of the candidate: none"]


def test_the_differences_of_a_world_are_lines(asked, project):
    (project.folder / "world.py").write_text("def state(session):\n    return {'a': 1, 'b': {'c': 2}}\n")
    project.evaluation["environment"] = {"state": {"python": "world:state"}}
    expected = {"$.a": 2, "$.b": {"c": 3}}
    project.dataset("w", [{"id": "s", "expected": "When?", "expected_state": expected}], metrics=["end_state"])
    assert project.evaluate().code == 0
    shown = project("show", "s").out
    assert "world     $.a: expected 2, found 1\n" in shown and "world     $.b.c: expected 3, found 2\n" in shown
    (sample,) = read_page().opened_samples()
    assert elements(sample, "ol", "verdicts") == ["$.a: expected 2, found 1$.b.c: expected 3, found 2"]


DEEP = json.loads("[" * 90 + "]" * 90)
TOO_DEEP = json.loads("[" * 500 + "]" * 500)
FORMS = ("r.html", "r.md", "r.junit.xml", "r.csv", "r.jsonl", "r.sarif", "r.json")


@pytest.mark.parametrize("place", ["terminal", "actions"])
def test_nothing_that_a_tool_returns_acts_in_any_form(place, project, monkeypatch):
    if place == "actions":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    texts = [*HOSTILE.values(), "x" * 1_000_000]
    texts.remove(HOSTILE["surrogates"])
    calls = [
        {"name": text[:3000], "arguments": {text[:3000]: text, "n": number}, "result": text, "error": text}
        for number, text in enumerate(texts)
    ]
    calls.append({"name": "deep", "arguments": {"a": DEEP}, "result": DEEP})
    calls.append({"name": "half", "arguments": "{\ud800", "result": "\ud800"})
    expected = [{"name": call["name"], "arguments": {"n": -1}} for call in calls]
    project.dataset("qa", [{"id": "s", "expected": "x", "expected_tools": expected[:-1]}], metrics=METRICS)
    reply = {"id": "s", "response": "x", "tool_calls": calls}
    (project.folder / "replies.jsonl").write_text(f"{json.dumps(reply)}\n")
    outputs = [part for form in FORMS for part in ("-o", form)]
    outcome = project.evaluate("--responses", "replies.jsonl", *outputs)
    assert outcome.code == 0, outcome.err
    printed = [outcome.out, outcome.err]
    printed += [project("show", "s", *more).out for more in ([], ["-v"], ["--json"])]
    printed.append(project("compare", "latest", "latest").out)
    written = [(project.folder / form).read_bytes().decode() for form in FORMS]
    for text in (*printed, *(text.replace("\r\n", "\n") for text in written)):
        assert not steering(text)
    for text in printed if place == "actions" else ():
        assert not commands(text)
    (page,) = read_page().opened_samples()
    lines = elements(page, "span", "score")
    assert len(lines) == len(calls)
    assert all(len(line) < 7000 for line in lines), "the line of a call is short"
    assert visible(HOSTILE["script"]) in texts_of(page)
    ElementTree.fromstring(written[2])


@pytest.mark.parametrize("key", ["arguments", "result", "error"])
def test_what_is_nested_too_deeply_to_be_stored_does_not_end_a_run(key, asked, agent):
    asked.dataset("qa", [{"id": "s", "expected_tools": [{"name": "f", "arguments": {}}]}], metrics=METRICS)
    agent.reply = lambda _: {"answer": "Paris", "calls": [{"name": "f", key: {"a": TOO_DEEP}}]}
    assert asked.evaluate("-o", "r.html").code == 0
    assert "[[[[[[[[[[" in asked("show", "s").out
