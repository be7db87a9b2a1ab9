"""A score belongs to what was asked: stored and recorded replies to another question are not scored."""

import json

import pytest

QUESTIONS = ("Capital of France?", "Capital of Italy?", "Capital of Spain?")


@pytest.fixture
def asked(project, agent):
    project.api = {"url": agent.url, "chatEndpoint": {"headers": {"X-Tenant": "a"}}}
    write_questions(project, QUESTIONS)
    project.evaluation["datasets"] = [{"name": "qa", "path": "$file:qa.jsonl", "metrics": ["string_match", "rouge"]}]
    project.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": {"minSamples": 1}}
    return project


def write_questions(project, questions, **more):
    lines = [{"id": f"s{n}", "input": text, "expected": "Paris"} | more for n, text in enumerate(questions)]
    (project.folder / "qa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit_last(project):
    write_questions(project, (*QUESTIONS[:2], "Capital of Portugal?"))


def record(project, *lines):
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def replies(**more):
    return [{"id": f"s{n}", "response": "Paris"} | {key: value[n] for key, value in more.items()} for n in range(3)]


def test_rescore_leaves_out_the_reply_to_an_edited_question(asked):
    asked.evaluation["thresholds"] = {"string_match": 0.9}
    asked.evaluate()
    edit_last(asked)
    outcome = asked("rescore", "latest", "agent.yaml", "--json")
    assert (outcome.code, outcome.document["verdict"], outcome.document["partial"]) == (3, "INCOMPLETE", True)
    (dataset,) = outcome.document["datasets"]
    assert [one["scores"]["string_match"]["value"] for one in dataset["samples"]] == [1, 1, None]
    assert dataset["samples"][2]["error"] == "not asked: the question has changed since the stored reply"
    again = asked("rescore", "latest", "agent.yaml", "--json").document
    assert again["datasets"][0]["samples"] == dataset["samples"], "nor is it scored by a later rescore"


def test_a_left_out_failure_does_not_turn_into_a_pass(asked, agent):
    agent.reply = lambda body: {"response": "Paris" if body["message"] == QUESTIONS[0] else "Lyon"}
    assert asked.evaluate().code == 1
    edit_last(asked)
    outcome = asked("rescore", "latest", "agent.yaml", "--json").document
    assert (outcome["verdict"], outcome["partial"]) == ("INCOMPLETE", True)


@pytest.mark.parametrize("header", ["a", "b"])
def test_a_new_header_unscores_nothing_and_a_new_request_is_a_note(asked, header):
    asked.evaluate()
    asked.api["chatEndpoint"]["headers"] = {"X-Tenant": header}
    asked.write()
    outcome = asked("rescore", "latest", "agent.yaml", "--json")
    assert (outcome.code, "request to the agent" in str(outcome.document["notes"])) == (0, False)
    asked.api["chatEndpoint"]["path"] = "/other"
    asked.write()
    outcome = asked("rescore", "latest", "agent.yaml", "--json")
    assert outcome.code == 0
    assert "the request to the agent has changed since 3 of the replies were stored" in outcome.document["notes"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (replies(input=[*QUESTIONS[:2], "Capital of Portugal?"]), "replies.jsonl:3: input: the reply to 's2' answers"),
        (replies(question_digest=["0" * 16] * 3), "replies.jsonl:1: question_digest: the reply to 's0' answers"),
        (replies(input=[5] * 3), "replies.jsonl:1: input: '5' is not accepted here"),
    ],
)
def test_a_recording_that_contradicts_the_question_is_refused(asked, lines, said):
    record(asked, *lines)
    outcome = asked.evaluate("--responses", "replies.jsonl")
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.parametrize("form", [str, lambda text: [{"role": "user", "content": text}]])
def test_a_recording_with_its_questions_is_checked(asked, form):
    record(asked, *replies(input=[form(text) for text in QUESTIONS]))
    outcome = asked.evaluate("--responses", "replies.jsonl", "--json")
    assert outcome.code == 0
    assert "was asked" not in str(outcome.document["notes"])
    assert all(one["questionDigest"] for one in outcome.document["datasets"][0]["samples"])


def test_a_recording_without_questions_says_so(asked):
    record(asked, *replies())
    outcome = asked.evaluate("--responses", "replies.jsonl", "--json")
    said = "3 recorded replies do not say what was asked: they are not checked against the question"
    assert (outcome.code, said in outcome.document["notes"]) == (0, True)
    edit_last(asked)
    again = asked("rescore", "latest", "agent.yaml", "--json")
    assert said in again.document["notes"], "still unknown"


def test_a_report_is_a_recording(asked, agent):
    agent.reply = lambda body: {"response": f"Paris, {body['message']}"}
    first = asked.evaluate("--json", "-o", "r.jsonl").document
    second = asked.evaluate("--json", "--responses", "r.jsonl").document
    assert [one["scores"] for one in second["datasets"][0]["samples"]] == [
        one["scores"] for one in first["datasets"][0]["samples"]
    ]
    assert "was asked" not in str(second["notes"])
    assert "r.jsonl:3: question_digest" in (edit_last(asked), asked.evaluate("--responses", "r.jsonl"))[1].err


def test_a_report_of_two_datasets_that_share_ids_is_a_recording(asked, agent):
    agent.reply = lambda body: {"response": body["message"]}
    (asked.folder / "other.jsonl").write_text('{"id": "s0", "input": "Capital of Peru?", "expected": "Peru"}\n')
    asked.evaluation["datasets"].append({"name": "other", "path": "$file:other.jsonl", "metrics": ["string_match"]})
    first = asked.evaluate("--json", "-o", "r.jsonl").document
    second = asked.evaluate("--json", "--responses", "r.jsonl").document
    values = [
        [[s["scores"]["string_match"]["value"] for s in d["samples"]] for d in run["datasets"]]
        for run in (first, second)
    ]
    assert values == [[[0, 0, 0], [1]]] * 2


def test_failed_replies_of_a_report_stay_failed(asked, agent):
    asked.api["chatEndpoint"] |= {"maxRetries": 0}
    agent.script = ["empty"]
    first = asked.evaluate("--json", "-j", "1", "-o", "r.jsonl").document
    second = asked.evaluate("--json", "--responses", "r.jsonl").document
    assert [one["error"] for one in second["datasets"][0]["samples"]] == [
        one["error"] for one in first["datasets"][0]["samples"]
    ]


TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Capital of France?"}]


@pytest.fixture
def talking(project, agent):
    endpoint = {"protocol": "custom", "request": {"q": "{{input}}"}, "response": {"answer": "$.response"}}
    project.api = {"url": agent.url, "chatEndpoint": endpoint}
    project.dataset("qa", [{}, {"input": TALK, "tags": ["talk"]}], metrics=["string_match"])
    return project


def test_a_request_that_drops_messages_is_refused(talking, agent):
    said = "qa.jsonl:2: input: spec.api.chatEndpoint.request sends only the last message"
    assert said in talking.validate().out
    for selected, code in ((), 2), (("--tag", "talk"), 2), (("--exclude-tag", "talk"), 0):
        outcome = talking.evaluate(*selected)
        assert (outcome.code, said in outcome.err) == (code, code == 2)
    assert {request.body["q"] for request in agent.requests} <= {"Capital of France?"}


def test_an_agent_that_knows_the_conversation_gets_the_last_message(talking, agent):
    endpoint = talking.api["chatEndpoint"]
    endpoint["sessionMode"] = "stateful"
    assert talking.evaluate().code == 2, "nobody knows an id that is made for one request"
    endpoint["headers"] = {"X-Thread-Id": "{{id}}"}
    assert talking.evaluate().code == 0
    assert len({request.headers["x-thread-id"] for request in agent.requests}) == 2
    endpoint["headers"] = {}
    endpoint["request"] = {"q": "{{input}}", "session": "{{id}}"}
    assert talking.validate().code == 0


def test_metadata_that_no_sample_has_is_an_error_before_the_first_request(talking, agent):
    talking.evaluation["datasets"] = []
    talking.dataset("of_tenants", [{"metadata": {"tenant": "acme"}}], metrics=["string_match"])
    talking.api["chatEndpoint"]["request"] = {"q": "{{input}}", "tenant": "{{metadata.tenat}}"}
    said = "has {{metadata.tenat}}, but no sample has metadata 'tenat'. did you mean 'tenant'?"
    assert said in talking.validate().out
    assert said in talking.evaluate().err
    assert agent.requests == []


def test_each_attempt_has_a_session_of_its_own(asked, agent):
    asked.api["chatEndpoint"] = {"threadIdHeader": "X-Session"}
    asked.evaluate("--repeat", "2")
    assert len({request.headers["x-session"] for request in agent.requests}) == 6
    asked.api["chatEndpoint"]["sessionMode"] = "stateless"
    assert "threadIdHeader: no session id is sent" in asked.validate().err
    asked.evaluate()
    assert "x-session" not in agent.requests[-1].headers


def test_headers_have_values_of_the_sample(asked, agent):
    asked.api["chatEndpoint"]["headers"] |= {"X-Id": "{{id}}", "X-User": "user {{metadata.user}}"}
    write_questions(asked, QUESTIONS, metadata={"user": 7})
    assert asked.evaluate().code == 0
    assert {request.headers["x-id"] for request in agent.requests} == {"s0", "s1", "s2"}
    assert {request.headers["x-user"] for request in agent.requests} == {"user 7"}
    write_questions(asked, QUESTIONS, metadata={"user": "7\r\nX-Admin: yes"})
    outcome = asked.evaluate("--json")
    assert outcome.code == 3
    assert "header" in outcome.document["datasets"][0]["samples"][0]["error"]
    assert len(agent.requests) == 3


def test_an_unknown_placeholder_of_a_header_is_an_error(asked):
    asked.api["chatEndpoint"]["headers"] = {"X-Id": "{{inputs}}", "X-Name": "{{ id }}"}
    said = "spec.api.chatEndpoint.headers.X-Id: unknown placeholder {{inputs}}; did you mean 'input'?"
    outcome = asked.validate()
    assert (outcome.code, said in outcome.out, "X-Name" in outcome.out) == (2, True, False)
