"""A scripted judge: an OpenAI-compatible server that answers ragas' prompts by simple rules on words. It is no model.

    with ScriptedJudge() as judge:                  # or ScriptedJudge(corpus=…, api_key=…)
        judge.url                                   # http://127.0.0.1:PORT/v1
        judge.mode = "prose"                        # from now on
        judge.script = ["malformed", throttled(1)]  # the next chat requests, one each, before `mode` holds again
        judge.chats[0].body                         # JSON; also .kind (which prompt it was), .headers, .arrived
        judge.embeddings                            # requests to /embeddings
        judge.gathers = 3                           # chats but the first wait until three at a time have come
        ScriptedJudge(wire=ANTHROPIC).base_url      # what a provider refuses: see judge_wires.py

As a program, in the folder tests: python -m servers.scripted_judge --port 4100 --corpus ../evals/corpus.jsonl

Rules. A statement is a sentence, except one that says that nothing is known. A text bears a statement out when it has
70 % of the statement's content words and all of its numbers; a context is useful when it has half of the answer's. The
question that an answer answers is the title of the passage of the corpus that has most of its words, else its first
sentence. A claim that the response does not bear out is contradicted if the response has half of its words and other
numbers, else missing. Toxicity and bias are lists of words. A rubric gets its first label, or the one that the prompt
names as [grade: label]; with `in_turn` its labels one after the other, whatever the answer.
`reads` chooses the part of a rubric's prompt that it reads. `plays` makes it a simulated user: it maps what the user
knows to what the user says.

Modes: ok · prose · fenced · empty · misplaced (in reasoning_content) · refusal · malformed · wrong_schema ·
no_statements (an empty list of them) · hasty (only the first of the statements) · wrong_count (one verdict less) ·
extra (the first verdict again) · out_of_range (verdicts of 2) · negative (of -1) · reversed (verdicts, last first) ·
restyled (their statements numbered, quoted, in capitals) · foreign (all on one statement that nobody sent) · repeated
(the first verdict in place of the last) · parrot (the answer of the prompt's first example) · reasoned (a draft with
other verdicts in <think>) · unfinished (the same, never closed) · parts (the content as a list) · no_choices ·
truncated (finish_reason length) · truncated_once (below twice the first limit) · filtered (finish_reason
content_filter) · hang (no answer until the server stops) · drop (hangs up) · html · huge ·
stream · not_an_object, or
`status(code, headers, message)`, of which `unauthorized(key)` and `throttled(seconds)` are short forms.
`several`, what it makes of `n`: honoured, ignored or refused.
`desk` has its batches (batch_desk.py).
`embedding_fault` is None, "short" (one vector less), "reversed" (last index first), "ragged", "text", a status.
"""

import argparse
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from servers.batch_desk import BatchDesk
from servers.hanging_up import HangingUpServer

if TYPE_CHECKING:
    from servers.judge_wires import Wire

_STOP_WORDS = """
a an and are as at be been by can do does for from has have how i if in is it its my no not of on or so that the their
them then there they this to was we what when where which who will with you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
UNSURE = re.compile(
    r"\b(?:do not|don't|did not|could not|couldn't|cannot|can't) (?:know|find|say|tell)\b|\bnot sure\b", re.I
)
TOXIC = {"idiot": "severe", "stupid": "severe", "kill": "severe", "hate": "severe", "dumb": "mild", "silly": "mild"}
BIASED = {"women": "mild", "men": "mild", "foreigners": "severe", "immigrants": "severe", "elderly": "mild"}
_DIMENSIONS = 256
_LONGEST_GATHERING_SECONDS = 30


def sentences(text: str) -> list[str]:
    """The statements of a text."""
    found = [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text)]
    return [part for part in found if words(part) and not UNSURE.search(part)]


def words(text: str) -> list[str]:
    """Content words and numbers, in order."""
    return [word for word in re.findall(r"[^\W_]+", text.lower()) if word not in STOP_WORDS]


def covered(text: str, by: str) -> float:
    """Share of the words of `text` that `by` has."""
    wanted, there = set(words(text)), set(words(by))
    return len(wanted & there) / len(wanted) if wanted else 0.0


def bears_out(text: str, statement: str) -> bool:
    """Whether the text supports the statement, by the rule above."""
    numbers = {word for word in words(statement) if word.isdigit()}
    return covered(statement, text) >= 0.7 and numbers <= set(words(text))


def _why(holds: bool) -> str:
    return "its words are in the text" if holds else "its words or numbers are not in the text"


def _verdicts(flag: str, statements: Iterable[str], text: str) -> list[dict[str, Any]]:
    judged = [(statement, bears_out(text, statement)) for statement in statements]
    return [{"statement": statement, "reason": _why(holds), flag: int(holds)} for statement, holds in judged]


def _classify(given: Mapping[str, Any]) -> dict[str, Any]:
    answer, truth = given["answer"], given["ground_truth"]
    right = [bears_out(" ".join(truth), statement) for statement in answer]
    missed = [statement for statement in truth if not bears_out(" ".join(answer), statement)]
    return {
        "TP": [{"statement": s, "reason": _why(True)} for s, holds in zip(answer, right, strict=True) if holds],
        "FP": [{"statement": s, "reason": _why(False)} for s, holds in zip(answer, right, strict=True) if not holds],
        "FN": [{"statement": s, "reason": "the answer does not say so"} for s in missed],
    }


def _useful(given: Mapping[str, Any]) -> dict[str, Any]:
    holds = covered(given["answer"], given["context"]) >= 0.5
    return {"reason": _why(holds), "verdict": int(holds)}


def _entail(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"claims": [_judge_claim(claim, given["response"]) for claim in given["claims"]]}


def _judge_claim(claim: str, response: str) -> dict[str, Any]:
    numbers, said = ({word for word in words(text) if word.isdigit()} for text in (claim, response))
    holds = bears_out(response, claim)
    differs = covered(claim, response) >= 0.5 and bool(numbers) and bool(said) and not numbers <= said
    verdict = "entailed" if holds else "contradicted" if differs else "missing"
    return {"statement": claim, "reason": _why(holds), "verdict": verdict}


def _said_by(speaker: str, talk: str) -> list[str]:
    return [line.removeprefix(f"{speaker}: ") for line in talk.splitlines() if line.startswith(f"{speaker}: ")]


def _see_outcome(talk: str) -> dict[str, Any]:
    return {"user_goal": _said_by("Human", talk)[0], "end_state": _said_by("AI", talk)[-1]}


def _is_refused(talk: str, topic: str) -> bool:
    """Whether the line after the topic is unsure."""
    return bool(UNSURE.search(talk.partition(f"Human: {topic}\n")[2].partition("\n")[0]))


RULES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "statements": (
        "Given a question and an answer, analyze the complexity",
        lambda given: {"statements": sentences(given["answer"])},
    ),
    "claims": ("Decompose and break down each", lambda given: {"claims": sentences(given["response"])}),
    "support": (
        "Your task is to judge the faithfulness",
        lambda given: {"statements": _verdicts("verdict", given["statements"], given["context"])},
    ),
    "attribution": (
        "Given a context and an answer, analyze each statement",
        lambda given: {"classifications": _verdicts("attributed", _all_sentences(given["answer"]), given["context"])},
    ),
    "usefulness": ("Given question, answer and context verify", _useful),
    "entailment": ("Compare the response of an assistant with each claim", _entail),
    "outcome": ("Given an agentic workflow", lambda given: _see_outcome(given["workflow"])),
    "comparison": (
        "Given user goal, desired outcome",
        lambda given: {
            "reason": "by words",
            "verdict": str(int(bears_out(given["arrived_outcome"], given["desired_outcome"]))),
        },
    ),
    "topics": ("Given an interaction between", lambda given: {"topics": _said_by("Human", given["user_input"])}),
    "refusal": (
        "Given a topic, classify if",
        lambda given: {"refused_to_answer": _is_refused(given["user_input"], given["topic"])},
    ),
    "classes": (
        "Given a set of topics",
        lambda given: {
            "classifications": [
                any(covered(one, topic) for one in given["reference_topics"]) for topic in given["topics"]
            ]
        },
    ),
    "correctness": ("Given a ground truth and an answer statements", _classify),
}
"""The kinds of ragas' prompts, by how each begins."""
QUESTION_PROMPT = "Generate a question for the given answer"


def _all_sentences(text: str) -> list[str]:
    return sentences(text) or [text]


_BODIES = {
    "html": b"<html>Sign in</html>",
    "huge": b'"' + b"x" * 11_000_000 + b'"',
    "not_an_object": b'"good"',
    "stream": b'data: {"choices": [{"delta": {"content": "{"}}]}\n\ndata: [DONE]\n\n',
}


@dataclass
class Request:
    """One request as it arrived; `kind` names the prompt."""

    headers: Mapping[str, str]
    body: Any
    arrived: float
    kind: str = ""
    is_over: bool = False

    @property
    def prompt(self) -> str:
        """The user's message that asks for the verdict."""
        return _split_messages(self.body["messages"])[1]


@dataclass(frozen=True)
class Status:
    """An answer without a verdict."""

    code: int
    headers: tuple[tuple[str, str], ...] = ()
    message: str = "no"


def status(code: int, headers: Mapping[str, str] | None = None, message: str = "no") -> Status:
    """An OpenAI-style error."""
    return Status(code, tuple((headers or {}).items()), message)


def unauthorized(key: str = "") -> Status:
    """401, quoting the key as OpenAI does."""
    return status(401, message=f"Incorrect API key provided: {key}")


def throttled(seconds: float | str, code: int = 429) -> Status:
    """429 with Retry-After."""
    return status(code, {"Retry-After": str(seconds)}, "Rate limit reached")


class Quota:
    """So many requests and tokens a window, by the server's clock. `headers`: say what is left, as OpenAI does."""

    def __init__(self, requests: int, tokens: int, seconds: float, *, headers: bool = True, waits: bool = True) -> None:
        self._most = {"requests": requests, "tokens": tokens}
        self._seconds = seconds
        self._window = -1.0
        self._left: dict[str, int] = {}
        self._has_headers = headers
        self._waits = waits
        self._lock = threading.Lock()
        self.refused = 0

    def take(self, tokens: int) -> tuple[bool, dict[str, str]]:
        """Whether a request is within the quota, and the headers of the answer."""
        with self._lock:
            now = time.monotonic()
            if now >= self._window + self._seconds:
                self._window, self._left = now, dict(self._most)
            cost = {"requests": 1, "tokens": tokens}
            permits = all(self._left[kind] >= cost[kind] for kind in cost)
            if permits:
                self._left = {kind: left - cost[kind] for kind, left in self._left.items()}
            self.refused += not permits
            reset = f"{max(0.0, self._window + self._seconds - now):.3f}"
            stated = {f"x-ratelimit-remaining-{kind}": str(left) for kind, left in self._left.items()}
            stated |= {f"x-ratelimit-reset-{kind}": f"{reset}s" for kind in self._left}
            wait = {} if permits or not self._waits else {"Retry-After": reset}
            return permits, {**(stated if self._has_headers else {}), **wait}


class ScriptedJudge:
    """See the module. The attributes may be changed at any time."""

    handler: type[BaseHTTPRequestHandler] | None = None
    """Answers requests; None: that of chat completions."""

    def __init__(
        self,
        corpus: Path | str | Iterable[Mapping[str, str]] = (),
        api_key: str | None = None,
        port: int = 0,
        delay: float = 0.0,
        wire: "Wire | None" = None,
    ) -> None:
        self.corpus = _read_corpus(corpus)
        self.api_key = api_key
        self.delay = delay
        self.wire = wire
        self.refusals: list[Any] = []
        self.mode: str | Status = "ok"
        self.script: Sequence[str | Status] = []
        self.in_turn = False
        self.reads: Callable[[str], str] = lambda prompt: prompt
        self.plays: Callable[[Mapping[str, Any]], dict[str, Any]] = _play
        self.several = "honoured"
        self.states: Mapping[str, str] = {}
        self.embedding_fault: str | Status | None = None
        self.chats: list[Request] = []
        self.embeddings: list[Request] = []
        self.peak_concurrency = 0
        self.gathers = 0
        self.quota: Quota | None = None
        self.stopping = threading.Event()
        self._in_work = 0
        self._lock = threading.Lock()
        self._gathering = threading.Condition(self._lock)
        self._server = _Server(self, port)
        self.desk = BatchDesk(f"{self.url}/chat/completions")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def base_url(self) -> str:
        """The base url at the provider whose wire it has."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.wire.path if self.wire else '/v1'}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Hang up and stop listening."""
        self.stopping.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    @property
    def kinds(self) -> list[str]:
        """Which prompts came, in order."""
        return [request.kind for request in self.chats]

    def begin(self, request: Request) -> str | Status:
        """Record a chat request and say how it is to be answered."""
        with self._lock:
            self.chats.append(request)
            self._in_work += 1
            self.peak_concurrency = max(self.peak_concurrency, self._in_work)
            self._gathering.notify_all()
            mode, self.script = (self.script[0], self.script[1:]) if self.script else (self.mode, [])
        return mode

    def gather(self, request: Request) -> None:
        """Wait until as many chat requests were in work at one moment as `gathers` says, or for half a minute.

        The first one of a run comes alone.
        """
        with self._gathering:
            if request is not self.chats[0]:
                self._gathering.wait_for(lambda: self.peak_concurrency >= self.gathers, _LONGEST_GATHERING_SECONDS)

    def end(self, request: Request) -> None:
        """Note that a chat request is answered: before its answer leaves, so that none that follows is counted too."""
        with self._lock:
            self._in_work -= not request.is_over
            request.is_over = True

    def judge(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, dict[str, Any]]:
        """Which kind of prompt it is, and the answer by rule."""
        system, prompt = _split_messages(messages)
        for kind, (beginning, rule) in RULES.items():
            if prompt.startswith(beginning):
                return kind, rule(_input_of(prompt))
        if system.startswith("You play a person"):
            return "user", self.plays(json.loads(prompt))
        if prompt.startswith(QUESTION_PROMPT):
            return "question", self._ask_back(_input_of(prompt)["response"])
        schema = json.loads(system.partition("JSON Schema:\n")[2])
        if self.in_turn:
            labels = schema["properties"]["value"]["enum"]
            return "rubric", {"reason": "its turn", "value": labels[len(self.chats) % len(labels)]}
        return _label(self.reads(prompt), schema)

    def _ask_back(self, response: str) -> dict[str, Any]:
        best = max(self.corpus, key=lambda passage: covered(response, passage["text"]), default=None)
        known = best if best and covered(response, best["text"]) >= 0.5 else None
        first = (sentences(response) or [response])[0].rstrip(".!")
        return {"question": known["title"] if known else f"{first}?", "noncommittal": int(not sentences(response))}


def _play(given: Mapping[str, Any]) -> dict[str, Any]:
    """Say the goal, then end the conversation."""
    return {"message": "", "is_done": True} if given["said"] else {"message": given["goal"], "is_done": False}


def _split_messages(messages: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """The system's text and the prompt, which may be in one message."""
    if messages[0]["role"] == "system":
        return messages[0]["content"], messages[1]["content"]
    system, _, prompt = messages[0]["content"].partition("\n\n")
    return system, prompt


def _label(prompt: str, schema: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    labels = schema["properties"]["value"]["enum"]
    response = re.search(r"^response: (.*)$", prompt, re.MULTILINE)
    found = words(json.loads(response[1]) if response else prompt)
    for kind, adjective, listed in (("toxicity", "toxic", TOXIC), ("bias", "biased", BIASED)):
        if f" is {adjective}" in prompt and "severe" in labels:
            grades = [listed[word] for word in found if word in listed]
            value = "severe" if "severe" in grades else "mild" if grades else "none"
            return kind, {"reason": f"{len(grades)} listed words", "value": value}
    named = re.search(r"\[grade: ([^\]]+)\]", prompt)
    value = named[1] if named and named[1] in labels else labels[0]
    return "rubric", {"reason": "by the script", "value": value}


def _input_of(prompt: str) -> Any:
    return json.loads(prompt.rpartition("\ninput: ")[2].rpartition("\nOutput:")[0])


def _read_corpus(corpus: Path | str | Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    if isinstance(corpus, Path | str):
        return [json.loads(line) for line in Path(corpus).read_text(encoding="utf-8").splitlines() if line.strip()]
    return list(corpus)


def embed(text: str) -> list[float]:
    """A bag of hashed words; a text without words gets a direction of its own."""
    vector = [0.0] * _DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[zlib.crc32(word.encode()) % _DIMENSIONS] += 1.0
    return vector


def _spoil(mode: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with one verdict less, or with verdicts of 2."""
    if mode == "wrong_count":
        return {key: value[:-1] if _is_verdicts(value) else value for key, value in answer.items()}
    flags = ("verdict", "attributed", "noncommittal")
    text = re.sub(rf'"({"|".join(flags)})": (?:[01]|"\w+")', r'"\1": 2', json.dumps(answer))
    spoilt: dict[str, Any] = json.loads(text)
    return spoilt | ({"value": "unheard of"} if "value" in spoilt else {})


FOREIGN = "Albert Einstein was born in Ulm."
RELISTED: Mapping[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "reversed": lambda items: items[::-1],
    "restyled": lambda items: [
        item | {"statement": f"{n}. \u201c{item['statement'].upper().rstrip('.')}\u201d"}
        for n, item in enumerate(items, 1)
    ],
    "foreign": lambda items: [item | {"statement": FOREIGN} for item in items],
    "repeated": lambda items: items[:-1] + items[:1],
    "extra": lambda items: items + items[:1],
    "negative": lambda items: [item | {"verdict": -1} for item in items],
}
"""What a mode makes of a list of verdicts."""


def _relist(mode: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {key: RELISTED[mode](value) if _is_verdicts(value) else value for key, value in answer.items()}


def parrot(prompt: str) -> Any:
    """The answer that a prompt of ragas gives as its first example."""
    return json.JSONDecoder().raw_decode(prompt, prompt.index("Output: {") + len("Output: "))[0]


def _draft(answer: dict[str, Any]) -> str:
    """Another answer: every verdict turned around."""
    return re.sub(
        r'("(?:verdict|attributed)": )([01])', lambda found: found[1] + str(1 - int(found[2])), json.dumps(answer)
    )


def _is_verdicts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def answer_about_batches(handler: Any, body: bytes) -> bool:
    """Answer a request about batches; return whether it was one."""
    headers = {key.lower(): text for key, text in handler.headers.items()}
    answered = handler.server.judge.desk.handle(handler.command, handler.path, headers, body)
    if answered is None:
        return False
    status_code, content = answered
    if status_code is None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True
    handler.send_response(status_code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
    return True


class _Server(HangingUpServer):
    def __init__(self, judge: ScriptedJudge, port: int) -> None:
        self.judge = judge
        super().__init__(port, judge.handler or _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    _stated: Mapping[str, str] = {}
    _chat_request: Request | None = None

    def do_GET(self) -> None:
        answer_about_batches(self, b"")

    def do_POST(self) -> None:
        judge = self.server.judge
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if answer_about_batches(self, raw):
            return None
        body = json.loads(raw)
        request = Request({key.lower(): text for key, text in self.headers.items()}, body, time.perf_counter())
        refused = judge.wire and judge.wire.refuse(self.path, request.headers, body)
        if refused:
            judge.refusals.append(body)
            return self._send(json.dumps(refused[1]).encode(), refused[0])
        if judge.api_key is not None and request.headers.get("authorization") != f"Bearer {judge.api_key}":
            return self._send_status(unauthorized(request.headers.get("authorization", "").removeprefix("Bearer ")))
        path = self.path.partition("?")[0]
        if path.endswith("/embeddings"):
            return self._embed(request)
        if not path.endswith("/chat/completions"):
            return self._send_status(status(404, message="no such path"))
        mode = judge.begin(request)
        self._chat_request = request
        if judge.quota:
            permits, self._stated = judge.quota.take(len(request.prompt) // 4)
            mode = mode if permits else status(429, message="Rate limit reached")
        try:
            return self._chat(request, mode)
        finally:
            judge.end(request)
            self._chat_request = None

    def _chat(self, request: Request, mode: str | Status) -> None:
        judge = self.server.judge
        judge.gather(request)
        if judge.delay:
            time.sleep(judge.delay)
        request.kind, answer = judge.judge(request.body["messages"])
        if "n" in request.body and judge.several == "refused":
            mode = status(400, message="Unknown parameter: 'n'.")
        if isinstance(mode, Status):
            return self._send_status(mode)
        if mode == "hang":
            judge.stopping.wait()
            return None
        if mode == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        if mode in _BODIES:
            return self._send(_BODIES[mode])
        return self._send_completion(request, mode, answer)

    def _send_completion(self, request: Request, mode: str, answer: dict[str, Any]) -> None:
        if mode in ("wrong_count", "out_of_range"):
            answer = _spoil(mode, answer)
        if mode in RELISTED:
            answer = _relist(mode, answer)
        if mode == "parrot":
            answer = parrot(request.prompt)
        if mode == "no_statements" and request.kind == "statements":
            answer = {"statements": []}
        if mode == "hasty" and request.kind in ("statements", "claims"):
            answer = {name: found[:1] for name, found in answer.items()}
        text = json.dumps(answer)
        limits = [
            sent.body.get("max_tokens") or sent.body.get("max_completion_tokens")
            for sent in (request, self.server.judge.chats[0])
        ]
        small = None not in limits and limits[0] < 2 * limits[1]
        cut = mode == "truncated" or (mode == "truncated_once" and small)
        content: Any = {
            "reasoned": f"<think>First {_draft(answer)}? No.</think>\n{text}",
            "unfinished": f"<think>First {_draft(answer)}? Or",
            "parts": [{"type": "thinking", "thinking": _draft(answer)}, {"type": "text", "text": text}],
            "prose": "I think that the answer is rather good.",
            "fenced": f"Here it is:\n```json\n{text}\n```\nAnything else?",
            "malformed": text[:-1],
            "wrong_schema": '{"score": 0.9}',
            "empty": "",
            "misplaced": None,
            "refusal": None,
        }.get(mode, text)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": content[: len(content) // 2] if cut and content else content},
            "finish_reason": "length" if cut else "content_filter" if mode == "filtered" else "stop",
        }
        if mode == "misplaced":
            choice["message"]["reasoning_content"] = text
        if mode == "refusal":
            choice["message"]["refusal"] = "I cannot help with that."
        judge = self.server.judge
        usage = {"prompt_tokens": len(request.prompt) // 4, "completion_tokens": len(text) // 4}
        asked = request.body.get("n", 1) if judge.several == "honoured" else 1
        choices = [] if mode == "no_choices" else [{**choice, "index": place} for place in range(asked)]
        usage["completion_tokens"] *= asked
        self._send(
            json.dumps({"object": "chat.completion", "choices": choices, "usage": usage, **judge.states}).encode()
        )

    def _embed(self, request: Request) -> None:
        judge = self.server.judge
        judge.embeddings.append(request)
        fault = judge.embedding_fault
        if isinstance(fault, Status):
            return self._send_status(fault)
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        data: list[dict[str, Any]] = [{"index": n, "embedding": embed(text)} for n, text in enumerate(texts)]
        if fault == "short":
            data = data[:-1]
        if fault == "reversed":
            data.reverse()
        if fault == "ragged":
            data[-1]["embedding"] = data[-1]["embedding"][:-1]
        if fault == "text":
            data[-1]["embedding"] = "AAAA"
        return self._send(json.dumps({"object": "list", "data": data}).encode())

    def _send_status(self, answer: Status) -> None:
        body = json.dumps({"error": {"message": answer.message, "type": "error"}}).encode()
        self._send(body, answer.code, dict(answer.headers))

    def _send(self, body: bytes, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        if self._chat_request:
            self.server.judge.end(self._chat_request)
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **self._stated, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


def main() -> None:
    """Serve until interrupted; the base url is the first line of output."""
    options = argparse.ArgumentParser(description="A judge that follows simple rules on words. It is no model.")
    options.add_argument("--port", type=int, default=4100, help="0 takes a free one")
    options.add_argument("--corpus", type=Path, help="JSONL with id, title and text")
    arguments = options.parse_args()
    with ScriptedJudge(arguments.corpus or (), port=arguments.port) as judge:
        print(judge.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
