"""Requests and replies of the three protocols, as values: no server is needed to read JSON."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint, ResponseMapping
from evalspec.model import Message, Sample, ToolCall, Usage
from evalspec.targets.agents.mapping import check_mapping
from evalspec.targets.agents.request_template import check_template
from evalspec.targets.agents.wire import build_request, read_reply

TURNS = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "Where?"))
CONVERSATION = Sample("s2", TURNS)
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def endpoint(**settings: object) -> ChatEndpoint:
    return ChatEndpoint.model_validate(settings)


def custom(request: object = None, **response: str) -> ChatEndpoint:
    return endpoint(protocol="custom", request=request or {"q": "{{input}}"}, response={"answer": "$.a"} | response)


def failure(reply: object, settings: ChatEndpoint) -> str:
    with pytest.raises(ServiceError) as caught:
        read_reply(reply, settings)
    assert not caught.value.retryable
    return str(caught.value)


class TestAgentSpec:
    def test_request(self):
        assert build_request(Sample("s1", "Where?"), endpoint()) == {"message": "Where?"}
        assert build_request(CONVERSATION, endpoint()) == {
            "message": "Where?",
            "messages": [{"role": turn.role, "content": turn.content} for turn in TURNS],
        }

    @pytest.mark.parametrize(
        ("reply", "answer"),
        [
            ({"content": "c", "message": "m", "response": "r"}, "r"),
            ({"content": "c", "message": {"text": "m"}, "response": None}, "c"),
            ({"response": ""}, ""),
        ],
    )
    def test_the_first_string_is_the_answer(self, reply, answer):
        assert read_reply(reply, endpoint()).response == answer

    @pytest.mark.parametrize(
        ("reply", "says"),
        [
            ({"reply": "r", "took": 1}, "its keys are: reply, took; set chatEndpoint.response.answer"),
            ({"object": "response"}, "its keys are: object; set chatEndpoint.protocol: openai-responses"),
            ({"choices": [], "id": "x"}, "its keys are: choices, id; set chatEndpoint.protocol: openai-compatible"),
            ("Paris", "expected a JSON object"),
            ([], "but it is a list"),
        ],
    )
    def test_no_string_is_an_error_that_names_the_keys(self, reply, says):
        assert says in failure(reply, endpoint())


class TestOpenAi:
    settings = endpoint(protocol="openai-compatible")

    def test_request(self):
        messages = [{"role": turn.role, "content": turn.content} for turn in TURNS]
        assert build_request(CONVERSATION, self.settings) == {"model": "agent", "messages": messages}
        chosen = endpoint(protocol="openai-compatible", model="m1", streaming=True)
        assert build_request(Sample("s1", "Where?"), chosen) == {
            "model": "m1",
            "messages": [{"role": "user", "content": "Where?"}],
            "stream": True,
        }

    @pytest.mark.parametrize(
        ("message", "answer", "calls"),
        [
            ({"content": "Paris"}, "Paris", None),
            (
                {"content": [{"type": "text", "text": "Pa"}, {"type": "image"}, {"type": "text", "text": "ris"}]},
                "Paris",
                None,
            ),
            ({"content": None, "tool_calls": [CALL]}, "", (ToolCall("find", {"q": "x"}, "c1"),)),
            ({"content": None, "refusal": "I will not."}, "I will not.", None),
            ({"content": ""}, "", None),
        ],
    )
    def test_reply(self, message, answer, calls):
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        reply = read_reply({"choices": [{"message": message}], "usage": usage}, self.settings)
        assert (reply.response, reply.tool_calls, reply.usage) == (answer, calls, Usage(7, 2))

    @pytest.mark.parametrize(
        ("reply", "says"),
        [
            ({"choices": [{"message": {"content": None}}]}, "neither text content nor tool_calls"),
            ({"choices": [{"message": {"content": None, "tool_calls": []}}]}, "neither text content nor tool_calls"),
            ({"choices": []}, "there is none; its keys are: choices"),
            ({"choices": ["Paris"]}, "there is none"),
            ({"error": {"message": "no such model"}}, "no such model"),
            ({"response": "Paris"}, "its keys are: response"),
            (None, "it is null"),
        ],
    )
    def test_another_shape_is_an_error(self, reply, says):
        assert says in failure(reply, self.settings)

    def test_a_mapping_reads_the_reply_in_place_of_the_protocol(self):
        mapped = endpoint(protocol="openai-compatible", response={"answer": "$.out"})
        assert read_reply({"out": "Paris"}, mapped).response == "Paris"


class TestTemplate:
    def test_a_lone_placeholder_is_the_value_and_inside_text_it_is_text(self):
        sample = Sample("s1", "Where?", metadata={"tenant": {"n": 1}, "top": 5})
        template = {"q": "{{ input }}", "all": ["{{messages}}", "{{metadata.tenant}}"], "n": "{{metadata.top}}", "x": 1}
        template["note"] = "{{id}}: {{input}} of {{metadata.tenant}}"
        assert build_request(sample, custom(template)) == {
            "q": "Where?",
            "all": [[{"role": "user", "content": "Where?"}], {"n": 1}],
            "n": 5,
            "x": 1,
            "note": 's1: Where? of {"n": 1}',
        }

    @given(
        st.text() | st.sampled_from(["{{messages}}", '", "admin": true, "x": "', "{{input}}{{id}}", "{{{{input}}}}"])
    )
    def test_any_input_goes_through_unharmed_and_inert(self, text):
        sample = Sample("s1", text, metadata={"k": "{{input}}"})
        built = build_request(sample, custom({"q": "{{input}}", "p": "<{{metadata.k}}|{{input}}>"}))
        assert json.loads(json.dumps(built)) == {"q": text, "p": f"<{{{{input}}}}|{text}>"}

    def test_metadata_that_a_sample_lacks_is_an_error(self):
        with pytest.raises(ServiceError, match="sample s1 has no metadata 'tenant'"):
            build_request(Sample("s1", "Where?"), custom({"q": "{{input}}", "t": "{{metadata.tenant}}"}))

    @pytest.mark.parametrize(
        ("template", "says"),
        [
            ({"q": "{{imput}}"}, ["unknown placeholder {{imput}}; did you mean 'input'?"]),
            ({"q": ["{{input}} {{metadata.}}"]}, ["unknown placeholder {{metadata.}}"]),
            ({"q": "What?"}, ["add {{input}} or {{messages}}"]),
            ({"{{input}}": "{{input}}"}, ["the key '{{input}}' contains a placeholder"]),
            ({1: "{{input}}"}, ["the key 1 is not text"]),
            (["{{input}}", float("nan"), b"x"], ["nan is not a JSON number", "a bytes is not a JSON value"]),
        ],
    )
    def test_problems_are_found_before_the_run(self, template, says):
        problems = check_template(template)
        assert len(problems) == len(says)
        assert all(part in problem for part, problem in zip(says, problems, strict=True))

    def test_a_good_template_has_none(self):
        assert check_template({"m": ["{{messages}}", "{{id}} {{metadata.a.b}}", 1, None, True]}) == []


def completion(content: str | None = None, finish: object = None, **more: object) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}, "finish_reason": finish}], **more}


NO_ERRORS = [None, "", "  ", {}, [], False, 0, {"code": 0, "message": ""}, [None]]


MARKS = [
    *({"status": word} for word in ("error", "fail", "failed", "FAILURE", 500, "503")),
    *({"type": word} for word in ("error", "exception")),
    *({"code": number} for number in (400, 500, 599, "429")),
    {"statusCode": 429},
    {"success": False},
    {"ok": False},
    {"isError": True},
    {"errors": [{"message": "gone"}]},
    {"exception": "KeyError"},
    {"fault": {"faultstring": "gone"}},
]


class TestErrors:
    """A reply with status 200 may still say that it failed."""

    @pytest.mark.parametrize("error", ["rate limited", {"message": "rate limited"}, ["rate limited"], True, 5])
    @pytest.mark.parametrize(
        ("reply", "settings"),
        [
            ({"message": "Sorry"}, endpoint()),
            ({"response": ""}, endpoint()),
            ({}, endpoint()),
            (completion("Sorry"), TestOpenAi.settings),
            (completion(), TestOpenAi.settings),
            ({}, TestOpenAi.settings),
            ({"a": ""}, custom()),
            ({"a": " \n"}, custom()),
            ({"a": None}, custom()),
            ({}, custom()),
        ],
    )
    def test_an_error_without_a_mapped_answer_is_no_reply(self, reply, settings, error):
        says = failure(reply | {"error": error}, settings)
        assert says.startswith("the reply has an error: ")
        assert json.dumps(error).strip('"') in says

    @pytest.mark.parametrize("error", NO_ERRORS)
    @pytest.mark.parametrize(
        ("reply", "settings"),
        [({"message": "Paris"}, endpoint()), (completion("Paris"), TestOpenAi.settings), ({"a": "Paris"}, custom())],
    )
    def test_an_error_that_says_nothing_is_none(self, reply, settings, error):
        assert read_reply(reply | {"error": error}, settings).response == "Paris"

    @pytest.mark.parametrize("error", NO_ERRORS)
    def test_an_empty_answer_without_an_error_stays_an_answer(self, error):
        assert read_reply({"a": "", "error": error}, custom()).response == ""

    def test_a_mapped_answer_beside_an_error_stays_an_answer(self):
        assert read_reply({"a": "Paris", "error": "the search was slow"}, custom()).response == "Paris"
        spoken = custom(answer="$.error.message")
        assert read_reply({"error": {"message": "no such city"}}, spoken).response == "no such city"

    @pytest.mark.parametrize(
        ("error", "retryable", "throttled"),
        [
            ({"code": 429, "message": "slow down"}, True, True),
            ({"code": "503"}, True, True),
            ({"status": 500}, True, False),
            ({"status": "RESOURCE_EXHAUSTED", "code": 429}, True, True),
            ({"statusCode": 400}, False, False),
            ({"code": "rate_limit_exceeded"}, False, False),
            ({"code": 70_000}, False, False),
            ("overloaded", False, False),
        ],
    )
    def test_an_error_with_a_status_is_retried_like_a_response_with_it(self, error, retryable, throttled):
        with pytest.raises(ServiceError) as caught:
            read_reply({"error": error}, endpoint())
        assert (caught.value.retryable, caught.value.throttled) == (retryable, throttled)

    @pytest.mark.parametrize("depth", [400, 900])
    def test_an_error_may_be_nested_deeply(self, depth):
        nested, empty = (json.loads("[" * depth + inner + "]" * depth) for inner in ("1", ""))
        assert "has an error" in failure({"error": nested, "message": "Sorry"}, endpoint())
        assert read_reply({"error": empty, "message": "Paris"}, endpoint()).response == "Paris"

    @pytest.mark.parametrize("mark", MARKS)
    def test_text_that_is_marked_as_an_error_is_no_answer(self, mark):
        with pytest.raises(ServiceError, match="its text is 'no database'"):
            read_reply(mark | {"message": "no database"}, endpoint())
        assert read_reply(mark | {"a": "Paris"}, custom()).response == "Paris"

    @pytest.mark.parametrize(
        ("reply", "settings"),
        [({"a": ""}, custom()), ({"a": " \n"}, custom()), (completion(""), TestOpenAi.settings)],
    )
    @pytest.mark.parametrize("mark", MARKS)
    def test_an_empty_answer_beside_a_mark_of_an_error_is_no_answer(self, mark, reply, settings):
        (key,) = mark
        with pytest.raises(ServiceError, match=f"the reply is marked as an error and has no answer: .*{key}"):
            read_reply(reply | mark, settings)

    def test_calls_of_tools_beside_a_mark_of_an_error_are_an_answer(self):
        reply = completion("") | {"errors": ["x"]}
        reply["choices"][0]["message"]["tool_calls"] = [CALL]
        assert read_reply(reply, TestOpenAi.settings).tool_calls[0].name == "find"

    @pytest.mark.parametrize(
        "mark",
        [
            {"code": 1000},
            *({"status": word} for word in ("ok", 200, None, "", "9" * 5000)),
            *({"code": value} for value in (0, 399, "fr", None, [500])),
            {"type": "message"},
            {"success": True, "ok": True, "isError": False},
            {"errors": [], "exception": None, "fault": {}},
        ],
    )
    def test_text_beside_any_other_mark_is_an_answer(self, mark):
        assert read_reply(mark | {"message": "Paris"}, endpoint()).response == "Paris"
        assert read_reply(mark | {"a": ""}, custom()).response == ""
        assert read_reply(mark | completion(""), TestOpenAi.settings).response == ""

    @pytest.mark.parametrize(("reply", "settings"), [({"message": "Sorry"}, endpoint()), ({"a": ""}, custom())])
    @pytest.mark.parametrize(
        ("mark", "retryable", "throttled"),
        [({"code": 500}, True, False), ({"statusCode": 429}, True, True), ({"status": 400}, False, False)],
    )
    def test_a_mark_with_a_status_is_retried_like_a_response_with_it(self, reply, settings, mark, retryable, throttled):
        with pytest.raises(ServiceError) as caught:
            read_reply(mark | reply, settings)
        assert (caught.value.retryable, caught.value.throttled) == (retryable, throttled)

    def test_the_error_of_a_choice(self):
        reply = completion("Par", "error")
        reply["choices"][0]["error"] = {"code": 502, "message": "provider is gone"}
        with pytest.raises(ServiceError, match="provider is gone") as caught:
            read_reply(reply, TestOpenAi.settings)
        assert caught.value.retryable


class TestFinishReason:
    mapped = custom(finishReason="$.done_reason")
    by_default = endpoint(protocol="openai-compatible", response={"answer": "$.choices[0].message.content"})

    @pytest.mark.parametrize("settings", [TestOpenAi.settings, by_default])
    @pytest.mark.parametrize(
        ("given", "kept"), [("length", "length"), (" stop ", "stop"), ("", None), (None, None), (1, None)]
    )
    def test_of_a_completion(self, settings, given, kept):
        assert read_reply(completion("Paris", given), settings).finish_reason == kept

    @pytest.mark.parametrize(
        ("reply", "kept"),
        [({"done_reason": "MAX_TOKENS"}, "MAX_TOKENS"), ({"done_reason": None}, None), ({}, None)],
    )
    def test_where_the_mapping_says(self, reply, kept):
        assert read_reply({"a": "Paris"} | completion("x", "length") | reply, self.mapped).finish_reason == kept

    def test_without_a_mapping_other_replies_give_none(self):
        assert read_reply({"response": "Paris", "finish_reason": "length"}, endpoint()).finish_reason is None

    def test_a_filtered_reply_without_text_is_no_answer(self):
        says = failure(completion(None, "content_filter"), TestOpenAi.settings)
        assert says.endswith("neither text content nor tool_calls (finish_reason 'content_filter')")


REPLY = {
    "a": "Paris",
    "docs": [{"id": 7, "text": "one"}, {"id": "d8", "text": "two"}],
    "calls": [{"name": "search"}],
    "tokens": {"inputTokens": 3, "outputTokens": 4},
}
FULL = {"contexts": "$.docs[*].text", "contextIds": "$.docs[*].id", "toolCalls": "$.calls", "usage": "$.tokens"}


PARTS = [{"text": "Hm.", "thought": True}, {"text": "Pa"}, {"functionCall": {}}, {"text": "ris"}]
GEMINI = {"candidates": [{"content": {"parts": PARTS}}]}
RESPONSE = {
    "output": [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Pa"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "ris"}]},
    ]
}


class TestMapping:
    def test_all_parts(self):
        reply = read_reply(REPLY, custom(**FULL))
        assert reply.response == "Paris"
        assert reply.retrieved_contexts == ("one", "two")
        assert reply.retrieved_context_ids == ("7", "d8")
        assert reply.tool_calls == (ToolCall("search"),)
        assert reply.usage == Usage(3, 4)

    @pytest.mark.parametrize(
        ("part", "field"), [("toolCalls", "tool_calls"), ("usage", "usage"), ("finishReason", "finish_reason")]
    )
    def test_a_missing_part_that_says_nothing_of_retrieval_is_unknown(self, part, field):
        assert getattr(read_reply({"a": "Paris"}, custom(**{part: "$.gone"})), field) is None

    def test_parts_that_are_not_mapped_are_unknown(self):
        reply = read_reply(REPLY, custom())
        assert (reply.retrieved_contexts, reply.retrieved_context_ids, reply.tool_calls, reply.usage) == (None,) * 4

    @pytest.mark.parametrize("query", ["$.docs[*].text", "$.docs", "$.docs[?@.score > 1].text", "$..text"])
    def test_an_empty_list_means_that_nothing_was_retrieved(self, query):
        assert read_reply({"a": "Paris", "docs": []}, custom(contexts=query)).retrieved_contexts == ()

    @pytest.mark.parametrize("query", ["$.docs", "$.docs[*]", "$.docs[0,1]", "$..docs[*]"])
    def test_one_list_and_several_values_are_the_same(self, query):
        assert read_reply({"a": "x", "docs": ["one", "two"]}, custom(contexts=query)).retrieved_contexts == (
            "one",
            "two",
        )

    @pytest.mark.parametrize(
        ("reply", "query", "says"),
        [
            ({"passages": []}, "$.docs[*].text", "no value at $.docs (response.contexts); its keys are: passages, a"),
            ({"docs": {}}, "$.docs.found[*].text", "no value at $.docs.found"),
            ({"docs": None}, "$.docs[*].text", "the value at $.docs (response.contexts) is null, not a list"),
            ({"docs": None}, "$.docs", "include null"),
            ({"docs": ["one", 2]}, "$.docs", "include a number"),
            ({"docs": [{"text": "one"}, {"id": 2}]}, "$.docs[*].text", "1 of the 2 values at $.docs[*]"),
            ({"docs": [{"body": "one"}]}, "$.docs[*].text", "1 of the 1 values at $.docs[*]"),
        ],
    )
    def test_a_missing_or_odd_context_is_an_error(self, reply, query, says):
        assert says in failure(reply | {"a": "Paris"}, custom(contexts=query))

    @pytest.mark.parametrize("odd", [1.5, True, None, {"id": 1}])
    def test_ids_are_text_or_whole_numbers(self, odd):
        assert "must be strings" in failure({"a": "x", "ids": ["d1", odd]}, custom(contextIds="$.ids"))

    def test_contexts_and_ids_must_pair_up(self):
        reply = {"a": "x", "texts": ["one", "two"], "ids": ["d1"]}
        says = failure(reply, custom(contexts="$.texts", contextIds="$.ids"))
        assert says == "$.texts gives 2 contexts and $.ids gives 1 ids; the numbers must be equal"

    @pytest.mark.parametrize(
        ("reply", "query", "says"),
        [
            ({"b": "x"}, "$.a", "no value at $.a (response.answer); its keys are: b"),
            ({"a": 42}, "$.a", "is a number, not a string"),
            ({"a": None}, "$.a", "is null, not a string"),
            ({"a": {"text": "x"}}, "$.a", "is an object, not a string"),
            ({"a": ["x", 2]}, "$.a[*]", "one of the 2 values at $.a[*] (response.answer) is a number, not a string"),
            ({"a": ["x", None]}, "$.a[*]", "is null, not a string"),
            ({"a": ["x"]}, "$.a", "is a list, not a string"),
            ([], "$.a", "it is a list"),
            (
                {"candidates": [{"text": "Paris"}, {"text": "Rome"}]},
                "$.candidates[*].text",
                "the texts at $.candidates[*].text (response.answer) are of 2 answers, but evalspec reads one",
            ),
        ],
    )
    def test_the_answer_is_text(self, reply, query, says):
        assert says in failure(reply, custom(answer=query))

    @pytest.mark.parametrize(
        ("query", "parts"),
        [
            ("$.candidates[0].content.parts[?@.thought != true].text", GEMINI),
            ("$.candidates[*].content.parts[?@.thought != true].text", GEMINI),
            ("$.output[*].content[*].text", {"output": RESPONSE["output"][1:]}),
            ("$.output[?@.type == 'message'].content[*].text", RESPONSE),
        ],
    )
    def test_texts_in_several_parts_are_joined_in_their_order(self, query, parts):
        assert read_reply(parts, custom(answer=query)).response == "Paris"

    @pytest.mark.parametrize(
        ("usage", "unread"),
        [
            (None, None),
            ({}, None),
            ({"input_tokens": 1}, "its keys are: input_tokens"),
            ({"input_tokens": "1", "output_tokens": 2}, "its keys are: input_tokens, output_tokens"),
            ({"input_tokens": -1, "output_tokens": 2}, "its keys are: input_tokens, output_tokens"),
            ([1, 2], "it is a list"),
        ],
    )
    def test_usage_of_another_shape_is_unknown(self, usage, unread):
        reply = read_reply({"a": "x", "usage": usage}, custom(usage="$.usage"))
        assert (reply.usage, reply.unread_usage) == (None, unread)
        completion = {"choices": [{"message": {"content": "x"}}], "usage": usage}
        assert read_reply(completion, TestOpenAi.settings).unread_usage == unread

    def test_tool_calls_none_made_is_not_unknown(self):
        settings = custom(toolCalls="$.calls[*]")
        assert read_reply({"a": "x", "calls": []}, settings).tool_calls == ()
        assert read_reply({"a": "x"}, settings).tool_calls is None
        assert read_reply({"a": "x", "calls": None}, settings).tool_calls is None

    @given(ANY_JSON)
    @example({"a\n\x1b[31m": 1})
    def test_any_reply_is_read_or_refused_with_an_agent_error(self, value):
        own = (TestOpenAi.settings, endpoint(protocol="openai-responses"))
        for settings in (endpoint(), *own, custom(**FULL), custom(answer="$..a", contexts="$..*")):
            try:
                reply = read_reply(value, settings)
            except ServiceError as error:
                assert str(error).isprintable()
            else:
                assert isinstance(reply.response, str)

    def test_queries_that_are_no_jsonpath_are_found_before_the_run(self):
        mapping = ResponseMapping(
            answer="answer", contexts="$.a[", context_ids="$.ids[*]", usage="$.u[?nope(@)]", finish_reason="x"
        )
        problems = dict(check_mapping(mapping))
        assert list(problems) == ["answer", "contexts", "usage", "finishReason"]
        assert "'answer' is not a JSONPath query (expected '$', found 'a'); write one like" in problems["answer"]
        assert "function 'nope' is not defined" in problems["usage"]
