"""Streams of server-sent events, gathered into one reply."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
from httpx_sse import ServerSentEvent

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, ToolCall, Usage
from evalspec.targets.agents.http import read_stream
from evalspec.targets.agents.wire import open_stream
from servers.faulty_agent import chunk

PLAIN: dict[str, Any] = {}
OPENAI: dict[str, Any] = {"protocol": "openai-compatible"}
MAPPED = {
    "response": {"answer": "$.delta", "contexts": "$.docs[*].text", "contextIds": "$.docs[*].id", "usage": "$.usage"}
}


def gather(settings: Mapping[str, Any], *events: str | ServerSentEvent) -> AgentReply:
    closed = []

    async def stream() -> AsyncGenerator[ServerSentEvent, None]:
        try:
            for event in events:
                yield event if isinstance(event, ServerSentEvent) else ServerSentEvent(data=event)
        finally:
            closed.append(True)

    try:
        return asyncio.run(read_stream(stream(), open_stream(ChatEndpoint.model_validate(settings)), 0)).reply
    finally:
        assert closed


@pytest.mark.parametrize(
    ("settings", "events"),
    [
        (
            {"response": {"answer": "$.delta", "done": {"path": "$.end"}}},
            ('{"delta": "Paris"}', '{"end": 1}', '{"delta": "!"}'),
        ),
        (
            {"protocol": "ollama"},
            ('{"message": {"content": "Paris"}}', '{"done": true}', '{"message": {"content": "!"}}'),
        ),
    ],
)
def test_what_follows_the_end_is_no_part_of_the_answer(settings, events):
    assert gather(settings, *events).response == "Paris"


def failure(settings: Mapping[str, Any], *events: str | ServerSentEvent) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        gather(settings, *events)
    return caught.value


@pytest.mark.parametrize(
    "events",
    [
        ("Paris", ", ", "France"),
        ('{"response": "Paris"}', '{"delta": ", "}', '{"type": "ping"}', '{"text": "France"}', "[DONE]", "{"),
        (ServerSentEvent("metadata", '{"run": 1}'), "Paris, ", "France", ServerSentEvent("end", "")),
        ('{"message": "Paris"}', '{"content": ", France"}'),
    ],
)
def test_the_text_of_all_events_is_the_answer(events):
    assert gather(PLAIN, *events) == AgentReply("Paris, France")


def test_plain_text_may_look_like_json():
    events = ("As JSON: ", "{", '"city": "Paris"}', "5", '{"river": "Seine"}')
    assert gather(PLAIN, *events) == AgentReply("".join(events))


END = [
    ({"path": "$.type", "equals": "end"}, '{"type": "end"}', True),
    ({"path": "$.type", "equals": "end"}, '{"type": "text", "note": "end"}', False),
    ({"path": "$.last", "equals": True}, '{"last": 1}', False),
    ({"path": "$.left", "equals": 0}, '{"left": 0}', True),
    ({"path": "$.left", "equals": 0}, '{"left": "0"}', False),
    ({"path": "$.last"}, '{"last": {"at": 5}}', True),
    ({"path": "$.last"}, '{"last": 0}', False),
]


@pytest.mark.parametrize(("marker", "event", "ends"), END)
def test_the_end_of_a_stream_is_a_path_and_a_value(marker, event, ends):
    settings = {"response": {"answer": "$.delta", "done": marker}}
    if ends:
        assert gather(settings, '{"delta": "Paris"}', event).response == "Paris"
    else:
        assert "(response.done)" in str(failure(settings, '{"delta": "Paris"}', event))


def test_openai_chunks():
    calls = [
        [{"index": 0, "id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":'}}],
        [{"index": 1, "id": "c2", "type": "function", "function": {"name": "clock", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": ' "Paris"}'}}],
    ]
    deltas = [json.dumps({"choices": [{"delta": {"tool_calls": part}}]}) for part in calls]
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    reply = gather(
        OPENAI,
        '{"choices": []}',
        chunk(""),
        chunk("Pa"),
        chunk("ris"),
        *deltas,
        usage,
        chunk(finish="stop", usage=None),
        "[DONE]",
    )
    assert (reply.response, reply.usage, reply.finish_reason) == ("Paris", Usage(7, 2), "stop")
    assert reply.tool_calls == (
        ToolCall("search", {"q": "Paris"}, "c1"),
        ToolCall("clock", {}, "c2"),
    )


def test_an_openai_stream_is_whole_with_done_or_a_finish_reason():
    assert gather(OPENAI, chunk("Paris"), "[DONE]").response == "Paris"
    assert gather(OPENAI, chunk("Paris"), chunk(finish="stop")).response == "Paris"
    assert gather(OPENAI, chunk(""), "[DONE]").response == ""
    assert "ended before" in str(failure(OPENAI, chunk("Pa", finish="")))
    elsewhere = {"response": {"answer": "$.choices[0].delta.content", "finishReason": "$.why"}}
    assert gather(OPENAI | elsewhere, chunk("Paris", finish="stop")).finish_reason is None
    cut = failure(OPENAI, chunk("Pa"))
    assert "ended before finish_reason or [DONE]" in str(cut)
    assert cut.retryable
    assert failure(OPENAI | {"response": {"answer": "$.choices[0].delta.content"}}, chunk("Pa")).retryable


@pytest.mark.parametrize(
    ("settings", "events"),
    [
        (OPENAI, [chunk("Pa", finish="length"), chunk(finish=""), "[DONE]"]),
        (OPENAI | {"response": {"answer": "$.choices[0].delta.content"}}, [chunk("Pa", finish="length"), chunk("ris")]),
        (
            OPENAI | {"response": {"answer": "$.delta", "finishReason": "$.end.why"}},
            ['{"delta": "Pa", "end": {"why": "length"}}', '{"delta": "ris", "end": {"why": ""}}', '{"end": null}'],
        ),
    ],
)
def test_the_last_finish_reason_that_a_stream_gives_is_kept_and_ends_it(settings, events):
    assert gather(settings, *events).finish_reason == "length"


def test_mapped_events_join_answers_and_keep_the_last_of_the_rest():
    reply = gather(
        MAPPED,
        '{"docs": [{"id": 1, "text": "draft"}], "usage": {"input_tokens": 1, "output_tokens": 1}}',
        '{"delta": "Pa"}',
        '{"docs": [{"id": 2, "text": "final"}]}',
        '{"delta": "ris", "docs": null}',
        '{"usage": {"input_tokens": 3, "output_tokens": 4}}',
    )
    assert reply == AgentReply("Paris", ("final",), ("2",), None, Usage(3, 4))


def test_mapped_parts_of_one_event_are_joined():
    parts = [{"text": "Hm.", "thought": True}, {"text": "Pa"}, {"text": "ri"}]
    settings = {"response": {"answer": "$.candidates[0].content.parts[?@.thought != true].text"}}
    events = ({"candidates": [{"content": {"parts": some}}]} for some in (parts, parts[:1], [{"text": "s"}]))
    assert gather(settings, *map(json.dumps, events)).response == "Paris"


@pytest.mark.parametrize("settings", [PLAIN, {"response": {"answer": "$.delta"}}])
def test_an_error_in_an_event_that_says_nothing_is_none(settings):
    assert gather(settings, '{"delta": "Paris", "error": null}', '{"error": {}}').response == "Paris"


def test_a_mapped_answer_beside_an_error_in_one_event_stays_an_answer():
    mapped = {"response": {"answer": "$.delta"}}
    assert gather(mapped, '{"delta": "Paris", "error": "the search was slow"}').response == "Paris"


def test_mapped_events_that_say_that_nothing_was_retrieved():
    assert gather(MAPPED, '{"docs": []}', '{"delta": "?"}').retrieved_context_ids == ()


@pytest.mark.parametrize(
    ("settings", "events", "says", "retryable"),
    [
        (PLAIN, [], "ended without any data", True),
        (OPENAI, ["[DONE]"], "ended without any data", True),
        (PLAIN, ["Pa", ServerSentEvent("error", "model is gone")], "error event: 'model is gone'", True),
        (OPENAI, [chunk("Pa"), '{"error": {"message": "overloaded"}}'], "overloaded", True),
        (PLAIN, ['{"error": "overloaded"}'], "overloaded", True),
        (PLAIN, ['{"error": {"code": 400}, "text": "Pa"}'], "an error: '{\"code\": 400}'", False),
        (PLAIN, ['{"text": "Pa"}', '{"type": "error", "message": "overloaded"}'], "overloaded", True),
        (MAPPED, ['{"delta": ""}', '{"delta": "", "errors": ["overloaded"]}'], "overloaded", True),
        (MAPPED, ['{"delta": "", "code": 400}'], "marked as an error", False),
        (OPENAI, [chunk("", errors=["overloaded"])], "overloaded", True),
        (OPENAI, [chunk("Pa", error="overloaded")], "overloaded", True),
        (OPENAI, ['{"choices": [{"delta": {}, "error": "overloaded"}]}'], "overloaded", True),
        (MAPPED, ['{"delta": "Pa"}', '{"error": "overloaded"}'], "overloaded", True),
        (MAPPED, ['{"delta": " ", "error": {"code": 401}}'], "401", False),
        (PLAIN, ['{"answer": "Paris"}'], "no event of the stream has text at response, message, content, delta", False),
        (PLAIN, ['{"response": "Pa'], "an event of the stream is not valid JSON", False),
        (PLAIN, ['{"response": NaN}'], "NaN is not JSON", False),
        (PLAIN, ['{"response": "a"}', "notjson"], "an event of the stream is not valid JSON", False),
        (PLAIN, ["Pa", '{"error": "overloaded"}'], "overloaded", True),
        (OPENAI, ["Paris"], "an event of the stream is not valid JSON", False),
        (OPENAI, [chunk(finish="stop")], "no chunk of the stream has text at choices[0].delta.content", False),
        (OPENAI, ['"Paris"', "[]", "[DONE]"], "no chunk of the stream has text", False),
        (MAPPED, ['{"text": "Paris"}'], "no event of the stream has a value at $.delta (response.answer)", False),
        (MAPPED, ['{"delta": "Paris"}'], "no value at $.docs (response.contexts)", False),
        (MAPPED, ['{"delta": 5}'], "is a number, not a string", False),
    ],
)
def test_what_cannot_be_a_reply_is_an_error(settings, events, says, retryable):
    error = failure(settings, *events)
    assert says in str(error)
    assert error.retryable == retryable
