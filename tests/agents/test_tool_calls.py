"""Tool calls in every spelling that agents use."""

import json

import pytest

from evalspec.inputs.tool_calls import (
    MOST_CHARACTERS,
    count_model_calls,
    leave_out_earlier,
    read_expected_calls,
    read_tool_calls,
)
from evalspec.model import ExpectedCall, ToolCall

FIND = ToolCall("find", {"q": "x"})
SPELLINGS = {
    "plain": {"name": "find", "arguments": {"q": "x"}},
    "chat completions": {"type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}},
    "anthropic": {"type": "tool_use", "name": "find", "input": {"q": "x"}},
    "responses": {"type": "function_call", "name": "find", "arguments": '{"q": "x"}'},
    "gemini": {"functionCall": {"name": "find", "args": {"q": "x"}}},
    "langchain": {"name": "find", "args": {"q": "x"}, "type": "tool_call"},
    "vercel": {"type": "tool-call", "toolName": "find", "args": {"q": "x"}},
    "deepeval": {"name": "find", "input_parameters": {"q": "x"}},
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_the_same_call(spelling):
    assert read_tool_calls([spelling]) == (FIND,)
    assert read_expected_calls([spelling]) == (ExpectedCall("find", {"q": "x"}),)


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ('{"q": "x"', "the arguments are no JSON: "),
        ('{"q": 1, "q": 2}', "the arguments are no JSON: "),
        ('{"q": NaN}', "the arguments are no JSON: "),
        ("[1]", "the arguments are no JSON object"),
        (3, "the arguments are no JSON object"),
        ("[" * 5_000, "the arguments are no JSON: "),
        ("x" * (MOST_CHARACTERS + 1), "the arguments have 1,000,001 characters and are cut"),
        ({"q": "x" * MOST_CHARACTERS}, "the arguments are too long and cut"),
    ],
)
def test_arguments_that_are_no_object_are_a_call_that_matches_nothing(arguments, problem):
    (call,) = read_tool_calls([{"name": "find", "arguments": arguments}])
    assert call.name == "find" and call.problem.startswith(problem)
    assert len(json.dumps(call.arguments)) < MOST_CHARACTERS + 100


def test_what_is_no_call_is_one_without_a_name():
    assert [call.name for call in read_tool_calls([3, {}, {"arguments": {}}])] == ["", "", ""]
    assert all(call.problem for call in read_tool_calls([3, {}, {"arguments": {}}]))
    assert read_tool_calls([{"name": "now"}, {"name": "now", "arguments": ""}]) == (
        ToolCall("now"),
        ToolCall("now", step=1),
    )


def test_messages_give_steps_results_and_model_calls():
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "c", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "full"}]},
        {"role": "assistant", "content": "Done."},
    ]
    assert read_tool_calls(messages) == (
        ToolCall("a", {}, "a", "one"),
        ToolCall("b", {}, "b", "two"),
        ToolCall("c", {}, "c", error="full", step=1),
    )
    assert count_model_calls(messages) == 3
    items = [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}]
    items.append({"type": "function_call_output", "call_id": "x", "output": "9"})
    assert read_tool_calls(items) == (ToolCall("f", {}, "x", "9"),)
    assert count_model_calls(items) is None


def test_calls_whose_times_overlap_are_parallel():
    def call(name, start, end):
        return {"name": name, "start": start, "end": end}

    made = read_tool_calls([call("late", 5, 6), call("a", 0, 2), call("b", 1, 3), call("c", 3, 4)])
    assert [(one.name, one.step) for one in made] == [("a", 0), ("b", 0), ("c", 1), ("late", 2)]
    times = [("2026-01-01T10:00:00Z", "2026-01-01T10:00:05Z"), ("2026-01-01T10:00:04Z", "2026-01-01T10:00:06Z")]
    assert {one.step for one in read_tool_calls([call("x", *time) for time in times])} == {0}
    assert [one.step for one in read_tool_calls([call("x", 0, 1), {"name": "y"}])] == [0, 1]


@pytest.mark.parametrize(
    "item, error",
    [
        ({"error": "full"}, "full"),
        ({"error": {"code": 3}}, '{"code": 3}'),
        ({"error": True, "result": "full"}, "full"),
        ({"isError": True, "content": "full"}, "full"),
        ({"status": "error"}, "not stated"),
        ({"error": None, "result": None}, None),
    ],
)
def test_a_failed_call_has_an_error(item, error):
    (call,) = read_tool_calls([{"name": "book"} | item])
    assert (call.error, call.is_answered) == (error, True)


def test_ids_that_begin_anew_in_each_message_move_no_result():
    call = {"id": "call_0", "function": {"name": "find", "arguments": "{}"}}
    asked, result = {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_0"}
    failed = result | {"content": "down", "is_error": True}
    first, second = read_tool_calls([asked, failed, asked, result | {"content": "found"}])
    assert (first.error, second.result, second.error) == ("down", "found", None)


@pytest.mark.parametrize("start", [10**400, "0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_an_impossible_time_is_none(start):
    calls = read_tool_calls([{"name": name, "start": start, "end": start} for name in "ab"])
    assert [call.name for call in calls] == ["a", "b"]


def test_calls_before_the_question_are_of_earlier_turns():
    book = {"role": "assistant", "tool_calls": [{"name": "book"}]}
    said = {"role": "user", "content": "yes"}
    assert leave_out_earlier([said, book, {"role": "human", "parts": [{"text": " yes\n"}]}, {"x": 1}], "yes") == [
        {"x": 1}
    ]
    result = {"role": "user", "content": [{"type": "tool_result", "content": "yes"}]}
    for thread in ([said, book], [book, said], [said, book, result], [book, result, said], [book], []):
        assert leave_out_earlier(thread, "yes") == thread, "nothing was asked before"
    assert leave_out_earlier([said, book], "no") == [said, book], "the question is not among them"
