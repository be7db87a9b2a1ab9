"""`evalspec connect`: a manifest from one question to an agent of unknown shape, proved by a second one."""

import json
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from evalspec.inputs.manifest.loader import load_manifest
from gold.terminal import Terminal
from servers.hanging_up import Served
from servers.ports import find_free_port

ANSWERS = {"How long is the trial?": "The trial lasts 21 days.", "Who pays?": "The owner pays."}
QUESTIONS = "question,ground_truth\nHow long is the trial?,21 days\nWho pays?,the owner\n"
MOST = 12
PAGE = (Path(__file__).parents[2] / "docs/how-to/own-agent.md").read_text()
CONNECT = re.search(r"^evalspec (connect .+)$", PAGE, re.M)[1].split()
EVALUATE = re.search(r"`evalspec (evaluate .+?)`", PAGE)[1].split()
"""The commands of the page."""


class Bot(Served):
    """An agent on loopback. `answer` gets path, headers and JSON of a request, and returns status, body and type.

    `find` gets the path of each GET but that of the document.
    """

    def __init__(self, answer, document=None, find=lambda _path: (404, {"detail": "Not Found"})):
        bot, self.requests = self, []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                bot.requests.append(("GET", self.path, None, dict(self.headers)))
                known = document is not None and self.path == "/openapi.json"
                self.send(*((200, document) if known else find(self.path)))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                bot.requests.append(("POST", self.path, body, dict(self.headers)))
                self.send(*answer(self.path, self.headers, body))

            def send(self, status, body, kind="application/json", location=None, allow=None):
                raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(raw)))
                for name, text in (("Location", location), ("Allow", allow)):
                    if text is not None:
                        self.send_header(name, text)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        super().__init__(Handler)


NOT_FOUND = (404, {"detail": "Not Found"})
WRONG = (422, "no")


def lines(*values, kind="application/x-ndjson"):
    return 200, "".join(f"{json.dumps(value)}\n" for value in values), kind


def sse(*values):
    return 200, "".join(f"data: {json.dumps(value)}\n\n" for value in values), "text/event-stream"


def completions(path, _headers, body):
    if path != "/v1/chat/completions":
        return NOT_FOUND
    if "model" not in body or "messages" not in body:
        return 400, {"error": {"message": "you must provide a model parameter"}}
    message = {"role": "assistant", "content": ANSWERS[body["messages"][-1]["content"]]}
    return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def responses(path, _headers, body):
    if path != "/v1/responses":
        return NOT_FOUND
    text = ANSWERS[body["input"] if isinstance(body["input"], str) else body["input"][-1]["content"]]
    content = [{"type": "output_text", "text": text}]
    return 200, {"object": "response", "status": "completed",
                 "output": [{"type": "message", "role": "assistant", "content": content}]}  # fmt: skip


def anthropic(path, headers, body):
    if path != "/v1/messages" or "anthropic-version" not in headers:
        return NOT_FOUND
    text = ANSWERS[body["messages"][-1]["content"]]
    return 200, {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}


def ollama(path, _headers, body):
    if path != "/api/chat":
        return 404, "404 page not found", "text/plain"
    text = ANSWERS[body["messages"][-1]["content"]]
    return lines(*({"message": {"role": "assistant", "content": part}, "done": False} for part in (text[:5], text[5:])),
                 {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})  # fmt: skip


def langserve(path, _headers, body):
    if path != "/invoke":
        return NOT_FOUND
    if "input" not in body:
        return 422, {"detail": [{"type": "missing", "loc": ["body", "input"], "msg": "Field required", "input": body}]}
    return 200, {
        "output": {"content": ANSWERS[body["input"]], "type": "ai", "id": "run-1"},
        "metadata": {"run_id": "7"},
    }


def message(path, _headers, body):
    if path != "/v1/chat":
        return NOT_FOUND
    return 200, {"reply": ANSWERS[body["message"]], "session_id": "abc", "lang": "en", "sources": []}


FIND = {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}}}}
LOOKUP = {
    "openapi": "3.1.0",
    "paths": {
        "/documents": {"post": {"requestBody": {"content": {"application/json": {"schema": {
            "type": "object", "properties": {"text": {"type": "string"}}}}}}}},
        "/kb/v2/find": FIND,
    },
    "components": {"schemas": {
        "Ask": {"type": "object", "required": ["question", "session_id", "mode"], "properties": {
            "question": {"type": "string"}, "session_id": {"type": "string"},
            "mode": {"$ref": "#/components/schemas/Mode"}, "k": {"type": "integer"}}},
        "Mode": {"type": "string", "enum": ["short", "long"]},
    }},
}  # fmt: skip


def lookup(path, _headers, body):
    if path != "/kb/v2/find":
        return NOT_FOUND
    if set(body) != {"question", "session_id", "mode"} or body["mode"] != "short" or not body["session_id"]:
        return WRONG
    passages = [{"id": "terms-17", "text": "The trial: 21 days. The owner pays.", "score": 0.9}]
    return 200, {"answer": {"text": ANSWERS[body["question"]], "confidence": 0.9}, "sources": passages, "took": 3}


def crashing(path, _headers, body):
    """Any path; its error is the name of a key that nobody guesses."""
    if "utterance" not in body:
        return 500, "Traceback …\nKeyError: 'utterance'", "text/plain"
    return 200, {"status": "ok", "data": {"said": ANSWERS[body["utterance"]], "lang": "en"}}


def events(path, _headers, body):
    if path != "/ask":
        return NOT_FOUND
    if "question" not in body:
        return 400, {"error": "question is required"}
    text = ANSWERS[body["question"]]
    parts = ({"type": "token", "delta": part} for part in (text[:6], text[6:]))
    return sse({"type": "status", "stage": "search"}, *parts,
               {"type": "sources", "sources": ["The trial: 21 days."]}, {"type": "end"})  # fmt: skip


def read(body, *place):
    """The value at a place. Fails as FastAPI does, at the first step that is missing or in no object."""
    value = body
    for depth, key in enumerate(place):
        if not isinstance(value, dict):
            said = {"type": "model_attributes_type", "loc": ["body", *place[:depth]], "msg": "a valid dictionary"}
        elif key not in value:
            said = {"type": "missing", "loc": ["body", *place[: depth + 1]], "msg": "Field required"}
        else:
            value = value[key]
            continue
        raise LookupError(json.dumps({"detail": [said | {"input": body}]}))
    return value


def layered(path, _headers, body):
    """Its errors name one step more of the place at a time."""
    if path != "/assist":
        return NOT_FOUND
    try:
        question = read(body, "data", "query", "utterance")
    except LookupError as error:
        return 422, str(error)
    return 200, {"data": {"reply": {"text": ANSWERS[question], "confidence": 0.8}}}


def dotted(path, _headers, body):
    if path != "/api/v2/assist":
        return NOT_FOUND
    try:
        question = body["data"]["query"]["text"]
    except (KeyError, TypeError):
        return 400, {"errors": [{"field": "data.query.text", "message": "is required"}]}
    return 200, {"data": {"reply": {"text": ANSWERS[question]}}}


def wrapped(path, _headers, body):
    if path != "/converse":
        return NOT_FOUND
    try:
        messages, _ = read(body, "conversation", "messages"), read(body, "thread_id")
    except LookupError:
        places = (["body", "thread_id"], ["body", "conversation", "messages"])
        return 422, {"detail": [{"loc": place, "type": "missing"} for place in places]}
    reply = {"role": "assistant", "content": ANSWERS[messages[-1]["content"]]}
    return 200, {"conversation": {"messages": [*messages, reply]}}


def zod(path, _headers, body):
    if path != "/ask":
        return 404, f"Cannot POST {path}: no messages here", "text/plain"
    try:
        question = body["message"]["text"]
    except (KeyError, TypeError):
        return 400, {"issues": [{"code": "invalid_type", "path": ["message", "text"], "message": "Required"}]}
    return 200, {"answerText": ANSWERS[question], "sourceDocuments": [{"docId": "terms", "text": "The terms."}]}


def workflow(path, _headers, body):
    if "chatInput" not in body:
        return 500, {"message": "Error in workflow: No chatInput"}
    return 200, [{"output": ANSWERS[body["chatInput"]]}]


def swagger(path, _headers, body):
    return (200, {"answer": ANSWERS[body["said"]]}) if (path, [*body]) == ("/api/v1/talk", ["said"]) else NOT_FOUND


OF_SWAGGER = {
    "swagger": "2.0", "basePath": "/api/v1", "definitions": {
        "Asked": {"type": "object", "required": ["said"], "properties": {"said": {"type": "string"}}}},
    "paths": {"/talk": {"post": {"parameters": [{"in": "body", "schema": {"$ref": "#/definitions/Asked"}}]}}},
}  # fmt: skip


def gemini(path, _headers, body):
    text = ANSWERS[body["contents"][0]["parts"][0]["text"]] if [*body] == ["contents"] else None
    return (200, {"candidates": [{"content": {"parts": [{"text": text}]}}]}) if text else WRONG


def rasa(path, _headers, body):
    if set(body) != {"sender", "message"}:
        return 400, {"status": "failure", "reason": "sender and message required"}
    return 200, [{"recipient_id": body["sender"], "text": ANSWERS[body["message"]]}]


SHAPES = {
    "zod": (zod, "/ask", None, {
        "path": "/ask", "protocol": "custom", "request": {"message": {"text": "{{input}}"}},
        "response": {"answer": "$.answerText", "contexts": "$.sourceDocuments[*].text",
                     "contextIds": "$.sourceDocuments[*].docId"}}),
    "workflow": (workflow, "/hook", None, {
        "path": "/hook", "protocol": "custom", "request": {"chatInput": "{{input}}"},
        "response": {"answer": "$[0].output"}}),
    "swagger": (swagger, "/openapi.json", OF_SWAGGER, {
        "path": "/api/v1/talk", "protocol": "custom", "request": {"said": "{{input}}"},
        "response": {"answer": "$.answer"}}),
    "gemini": (gemini, "/v1beta/models/g:generateContent", None, {
        "path": "/v1beta/models/g:generateContent", "protocol": "custom",
        "request": {"contents": [{"role": "user", "parts": [{"text": "{{input}}"}]}]},
        "response": {"answer": "$.candidates[0].content.parts[0].text"}}),
    "rasa": (rasa, "/webhooks/rest/webhook", None, {
        "path": "/webhooks/rest/webhook", "protocol": "custom",
        "request": {"sender": "{{session}}", "message": "{{input}}"}, "response": {"answer": "$[0].text"}}),
    "layered": (layered, "/assist", None, {
        "path": "/assist", "protocol": "custom", "request": {"data": {"query": {"utterance": "{{input}}"}}},
        "response": {"answer": "$.data.reply.text"}}),
    "dotted": (dotted, "/api/v2/assist", None, {
        "path": "/api/v2/assist", "protocol": "custom", "request": {"data": {"query": {"text": "{{input}}"}}},
        "response": {"answer": "$.data.reply.text"}}),
    "wrapped": (wrapped, "/converse", None, {
        "path": "/converse", "protocol": "custom",
        "request": {"conversation": {"messages": "{{messages}}"}, "thread_id": "{{session}}"},
        "response": {"answer": "$.conversation.messages[-1].content"}}),
    "completions": (completions, "", None, {"path": "/v1/chat/completions", "protocol": "openai-compatible"}),
    "responses": (responses, "", None, {"path": "/v1/responses", "protocol": "openai-responses"}),
    "anthropic": (anthropic, "", None, {"path": "/v1/messages", "protocol": "anthropic"}),
    "ollama": (ollama, "", None, {"path": "/api/chat", "protocol": "ollama"}),
    "langserve": (langserve, "", None, {"path": "/invoke", "protocol": "custom", "request": {"input": "{{input}}"},
                                        "response": {"answer": "$.output.content"}}),
    "message": (message, "", None, {"path": "/v1/chat", "response": {"answer": "$.reply"}}),
    "lookup": (lookup, "", LOOKUP, {
        "path": "/kb/v2/find", "protocol": "custom",
        "request": {"question": "{{input}}", "session_id": "{{session}}", "mode": "short"},
        "response": {"answer": "$.answer.text", "contexts": "$.sources[*].text", "contextIds": "$.sources[*].id"}}),
    "crashing": (crashing, "/talk/", None, {"path": "/talk/", "protocol": "custom",
                                            "request": {"utterance": "{{input}}"},
                                           "response": {"answer": "$.data.said"}}),
    "events": (events, "", None, {"path": "/ask", "protocol": "custom", "request": {"question": "{{input}}"},
                                  "response": {"answer": "$.delta", "contexts": "$.sources[*]"}}),
    "base": (completions, "/v1", None, {"path": "/v1/chat/completions", "protocol": "openai-compatible"}),
}  # fmt: skip
"""Agents, what of their url the user knows, their OpenAPI documents, and `chatEndpoint` as it should be found."""


@pytest.fixture
def shop(project):
    (project.folder / "questions.csv").write_text(QUESTIONS)
    return project


def read_api():
    return yaml.safe_load(Path("agent.yaml").read_text())["spec"]["api"]


@pytest.mark.parametrize("name", SHAPES)
def test_two_commands_gate_an_agent_whose_shape_nobody_wrote_down(shop, name):
    answer, path, document, endpoint = SHAPES[name]
    with Bot(answer, document) as bot:
        done = shop(*(bot.url + path if word.startswith("http") else word for word in CONNECT))
        assert done.code == 0, done
        assert read_api() == {"url": bot.url, "chatEndpoint": endpoint}
        assert "proved: another question got another answer, 'The owner pays.'" in done.out.splitlines()
        said = [line for line in done.err.splitlines() if line.startswith(("GET ", "POST "))]
        assert len(said) == len(bot.requests) <= MOST, done.err
        texts = [json.dumps(body) for *_, body, _ in bot.requests if body]
        assert all(sum(question in text for question in ANSWERS) == 1 for text in texts)
        assert shop(*EVALUATE).code == 0


SEARCH = {
    "paths": {
        "/kb/search": {"get": {"parameters": [
            {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}},
            {"name": "mode", "in": "query", "required": True, "schema": {"enum": ["all", "one"]}}]}},
        "/users": {"get": {"parameters": [{"name": "id", "in": "query", "schema": {"type": "string"}}]}},
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "document", "request_", "sent"),
    [
        ("", SEARCH, {"text": "{{input}}", "mode": "all"}, 3),
        ("/kb/search", None, {"text": "{{input}}"}, 7),
    ],
)
def test_an_agent_that_is_asked_by_get(shop, path, document, request_, sent):
    def find(address):
        parts = urlsplit(address)
        asked = dict(parse_qsl(parts.query))
        if parts.path != "/kb/search" or set(asked) != set(request_):
            return 404, {"detail": "Not Found"}
        return 200, {"answer": ANSWERS[asked["text"]]}

    with Bot(lambda *_: (405, {}, "application/json", None, "GET, HEAD"), document, find) as bot:
        done = shop("connect", bot.url + path, "--data", "questions.csv", "--yes")
        assert (done.code, len(bot.requests), "proved: another" in done.out) == (0, sent, True), done
        found = {"path": "/kb/search", "protocol": "custom", "request": request_, "method": "GET"}
        assert read_api()["chatEndpoint"] == found | {"response": {"answer": "$.answer"}}
        assert shop(*EVALUATE).code == 0
        assert {method for method, *_ in bot.requests[-2:]} == {"GET"}
    shop.api["chatEndpoint"] = {"method": "GET", "protocol": "ollama"}
    shop.dataset("qa", [{}], metrics=["string_match"])
    shop.write()
    assert "keys of a request template become query parameters" in shop("validate", "agent.yaml").out


TOKEN = "s3cr3t-t0ken-of-a-test"
HEADER = ("--header", "Authorization: Bearer ${env:BOT_TOKEN}")


def guarded(path, headers, body):
    if headers.get("Authorization") != f"Bearer {TOKEN}":
        return 401, {"error": f"not a token: {headers.get('Authorization')}"}
    return message(path, headers, body)


def test_a_token_is_sent_and_neither_written_nor_shown(shop, monkeypatch):
    monkeypatch.setenv("BOT_TOKEN", TOKEN)

    def quoting(path, headers, body):
        status, *reply = guarded(path, headers, body)
        return (status, *reply) if status == 401 else (200, {"reply": f"{ANSWERS[body['message']]} {TOKEN}"})

    with Bot(quoting) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes", *HEADER)
        assert (done.code, "proved: another" in done.out) == (0, True), done
        assert read_api()["chatEndpoint"]["headers"] == {"Authorization": "Bearer ${env:BOT_TOKEN}"}
        files = "".join(path.read_text() for path in shop.folder.rglob("*") if path.is_file())
        assert TOKEN not in done.out + done.err + files
        monkeypatch.setenv("BOT_TOKEN", "expired-t0ken-1")
        Path("agent.yaml").unlink()
        denied = shop("connect", bot.url, "--data", "questions.csv", "--yes", *HEADER)
    assert (denied.code, "expired" in denied.err + denied.out) == (3, False)
    assert "or correct that variable" in denied.err.splitlines()[-1]


def test_a_secret_that_comes_back_as_a_key_is_not_written(shop, monkeypatch):
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    with Bot(lambda _path, _headers, body: (200, {TOKEN: ANSWERS[body["message"]]})) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes", *HEADER)
    assert (done.code, "repeats a secret" in done.err, TOKEN in done.err + done.out) == (2, True, False), done
    assert not Path("agent.yaml").exists()


@pytest.mark.parametrize(("status", "advice"), [(401, "--header 'Auth"), (403, "--header 'Auth"), (429, "again later")])
def test_a_refusal_stops_at_once(shop, status, advice):
    with Bot(lambda *_: (status, {"error": "no"})) as bot:
        done = shop("connect", bot.url + "/ask", "--data", "questions.csv", "--yes")
        assert [method for method, *_ in bot.requests] == ["POST"]
    assert (done.code, advice in done.err.splitlines()[-1]) == (3, True), done.err
    assert not Path("agent.yaml").exists()


@pytest.mark.parametrize("body", [{"job_id": "8f3c"}, {"detail": "queued"}, {"message": "accepted"}])
def test_an_agent_that_answers_later_is_asked_once(shop, body):
    with Bot(lambda *_: (202, body)) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes")
    assert (done.code, len([one for one in bot.requests if one[0] == "POST"])) == (3, 1)
    assert done.err.strip().endswith(
        "the agent answers later, which `chatEndpoint.poll` describes: docs/how-to/agents.md"
    )
    assert not Path("agent.yaml").exists()


def test_an_id_is_no_answer(shop):
    reply = {"requestId": "r 1", "trace": "0b6f2c1e-6c3f-4a55-9d0e-2f5c5a1b7c9d", "ids": "a, b", "said": "Yes."}

    def answer(_path, _headers, body):
        return (200, {**reply, "said": ANSWERS[body["message"]]}) if "message" in body else WRONG

    with Bot(answer) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes")
    assert done.code == 0, done.err
    assert read_api()["chatEndpoint"]["response"]["answer"] == "$.said"


def test_a_redirect_is_not_followed(shop, monkeypatch):
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    with Bot(message) as other, Bot(lambda *_: (307, "", "text/plain", other.url)) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes", *HEADER)
        assert (done.code, other.requests) == (3, [])
        assert f"if {other.url} is the agent, use that url" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--question", "Who pays?"), "not proved: there is only one question"),
        (("--question", "Who pays?", "--question", "Who pays?"), "not proved: there is only one question"),
        (("--data", "questions.csv"), "not proved: two questions got the same answer"),
    ],
)
def test_what_is_not_proved_is_said(shop, arguments, said):
    with Bot(lambda *_: (200, {"answer": "Ask me something."})) as bot:
        done = shop("connect", bot.url, "--yes", *arguments)
        assert (done.code, said in done.out) == (0, True), done
        assert len(bot.requests) == (3 if "--data" in arguments else 2)


def test_a_second_question_that_fails_proves_nothing(shop):
    with Bot(lambda _path, _headers, body: (200, {"answer": "Yes."}) if "trial" in body["message"] else WRONG) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes")
    assert (done.code, "not proved: the second question got no answer" in done.out) == (0, True)


@pytest.mark.parametrize(("path", "most", "documents"), [("", MOST - 1, 1), ("/ask", MOST - 1, 5)])
def test_an_agent_that_only_fails_costs_eleven_requests_and_nothing_is_written(shop, path, most, documents):
    with Bot(lambda *_: (500, "model \x1b[2J::error::is down\n", "text/plain")) as bot:
        done = shop("connect", bot.url + path, "--data", "questions.csv", "--yes")
        assert (done.code, len(bot.requests)) == (3, most)
        assert all(one == "/ask" for method, one, *_ in bot.requests if path and method == "POST")
    assert not Path("agent.yaml").exists()
    assert "\x1b" not in done.err and done.err.count("500: 'model") == most - documents, done.err
    assert "does not prove that a path is wrong" in done.err.splitlines()[-1]


HOSTILE = {
    "paths": {
        "/ask/${env:BOT_TOKEN}": FIND,
        "/chat": {"post": {"requestBody": {"content": {"application/json": {"schema": {
            "type": "object", "required": ["message", "${env:BOT_TOKEN}", "mode"], "properties": {
                "message": {"$ref": "#/components/schemas/Loop"}, "${env:BOT_TOKEN}": {"default": 1},
                "mode": {"default": "$env:BOT_TOKEN"}}}}}}}},
        "/query": {"post": {"requestBody": 7, "parameters": {}}}, "/x": [],
    },
    "components": {"schemas": {"Loop": {"anyOf": [{"$ref": "#/components/schemas/Loop"}] * 50}}},
    "servers": 5,
}  # fmt: skip


def test_a_hostile_service_gets_no_variable_and_writes_no_yaml(shop, monkeypatch):
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    reply = {"answer: x\n  python: os": {"content": "no\x1b[31m"}, "${env:BOT_TOKEN}": "a longer text than the others",
             "data": {"a b": "Text\u2028::error::x"}}  # fmt: skip
    with Bot(lambda *_: (200, reply), HOSTILE) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes")
        assert TOKEN not in json.dumps([body for *_, body, _ in bot.requests])
    assert done.code == 0 and "\x1b" not in done.out and "\u2028" not in done.out
    assert read_api() == {"url": bot.url, "chatEndpoint": {"path": "/v1/chat", "response": {"answer": "$.data['a b']"}}}
    assert shop("validate", "agent.yaml").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("URL", "--yes"), "there is no question to send; pass --data FILE or --question TEXT"),
        (("URL", "--question", "Who?"), "--yes: nobody can confirm the result. pass --yes, or use a terminal"),
        (("bot", "--question", "Who?", "--yes"), "'bot' is not an HTTP URL"),
        (("URL", "--question", "Who?", "--yes", "--header", "Cookie: abcxyz"), "Cookie: not fit for a file"),
        (("URL", "--question", "Who?", "--yes", "--header", "X-Key: a $env:BOT_TOKEN"), "X-Key: not fit for a file"),
        (("URL", "--question", "Who?", "--yes", "--header", "Authorization: $env:NOT_SET"), "NOT_SET is not set"),
        (("http://ada:p4ssw0rd-1@127.0.0.1:9", "--question", "Who?", "--yes"), "url: not fit for a file"),
        (("http://127.0.0.1:9/?api_key=p4ssw0rd-1", "--question", "Who?", "--yes"), "url: not fit for a file"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_one_line(shop, arguments, said):
    with Bot(message) as bot:
        done = shop("connect", *(bot.url if one == "URL" else one for one in arguments))
        assert bot.requests == []
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert said in done.err and "abcxyz" not in done.err and "p4ssw0rd" not in done.err
    assert not Path("agent.yaml").exists()


def test_an_existing_manifest_is_never_overwritten_and_other_files_are_kept(shop):
    Path(".github/workflows").mkdir(parents=True)
    Path(".github/workflows/evalspec.yml").write_text("mine")
    with Bot(message) as bot:
        assert shop("connect", bot.url, "--data", "questions.csv", "--yes").code == 0
        sent = len(bot.requests)
        again = shop("connect", bot.url, "--data", "questions.csv", "--yes")
        assert (again.code, len(bot.requests)) == (2, sent)
    assert "agent.yaml: already exists. connect never overwrites it" in again.err
    assert Path(".github/workflows/evalspec.yml").read_text() == "mine"


def test_init_with_a_url_and_a_question_connects_too(shop):
    with Bot(message) as bot:
        done = shop("init", "sub", "--url", bot.url, "--data", "questions.csv", "--yes")
    assert (done.code, "proved: another" in done.out) == (0, True), done
    assert load_manifest(Path("sub/agent.yaml")).manifest.spec.api.chat_endpoint.response.answer == "$.reply"


@pytest.mark.parametrize(("answer", "is_written"), [("n", False), ("y", True)])
def test_on_a_terminal_the_questions_and_the_result_are_asked_for(shop, answer, is_written):
    with Bot(message) as bot, Terminal(shop.folder, "connect", bot.url) as terminal:
        terminal.expect("A question for the agent")
        terminal.press("Who pays?\n")
        terminal.expect("Another question")
        terminal.press("How long is the trial?\n")
        terminal.expect("$.reply = 'The owner pays.'")
        terminal.press(f"{answer}\n")
        code, _ = terminal.end()
    assert (code, Path("agent.yaml").exists()) == (0 if is_written else 2, is_written), terminal.output
    assert ("proved: another" if is_written else "nothing was written") in terminal.output


def test_nothing_answers(shop):
    done = shop("connect", f"http://127.0.0.1:{find_free_port()}", "--data", "questions.csv", "--yes")
    assert (done.code, "is the agent running there?" in done.err) == (3, True), done.err


@pytest.mark.parametrize("command", ["evaluate", "validate", "doctor"])
def test_a_dataset_in_place_of_a_manifest_points_to_connect(shop, command):
    done = shop(command, "questions.csv")
    said = (done.out + done.err).splitlines()
    assert done.code == 2
    assert (
        "questions.csv: is a dataset, not a manifest. write one: evalspec connect URL --data questions.csv" in said[0]
    )


def test_an_echo_proves_nothing(shop):
    with Bot(lambda _path, _headers, body: (200, {"response": body["message"]})) as bot:
        done = shop("connect", bot.url, "--data", "questions.csv", "--yes")
    assert "not proved: the reply repeats the question" in done.out, done.out
