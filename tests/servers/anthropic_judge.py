"""A scripted judge at Anthropic's messages: every request must comply with the published schema, answers follow rules.

    with AnthropicJudge() as judge:                       # KEY of judge_wires is the only accepted key
        judge.url                                         # http://127.0.0.1:PORT/v1
        judge.refused = {"temperature": "`temperature` is deprecated for this model."}
        judge.script = ["overloaded", throttled(1)]       # the next requests, before `mode` holds again
        judge.complaints                                  # what did not comply; it was answered with status 400

Modes: ok · text (the answer in a text block, after one of thinking, although a tool is forced) · prose · truncated ·
truncated_once (below twice the first limit) · refusal · paused · twice (two calls of the tool that differ) · same_twice
· overloaded (529) · not_a_message, or a status.
"""

import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from servers.batch_desk import BatchDesk
from servers.judge_wires import KEY
from servers.scripted_judge import Request, ScriptedJudge, Status, answer_about_batches

MODEL = "claude-sonnet-5"
_TYPES: Mapping[str, Any] = {
    "model": str, "messages": list, "max_tokens": int, "system": (str, list), "temperature": (int, float),
    "tools": list, "tool_choice": dict, "output_config": dict, "thinking": dict, "metadata": dict, "top_k": int,
    "top_p": (int, float), "stop_sequences": list, "stream": bool, "service_tier": str, "cache_control": dict,
}  # fmt: skip
"""The keys of a request, by the published reference."""
_TEXT_KEYS = {"type", "text", "cache_control", "citations"}
_MOST_MARKS = 4
_CACHED_TOKENS = 7


class AnthropicJudge(ScriptedJudge):
    """See the module."""

    def __init__(self) -> None:
        self.handler = _Messages
        self.refused: Mapping[str, str] = {}
        self.complaints: list[str] = []
        super().__init__()
        self.desk = BatchDesk(f"{self.url}/messages", is_anthropic=True)


def list_complaints(body: Mapping[str, Any]) -> list[str]:
    """What does not comply with the published schema."""
    found = [f"{name}: Extra inputs are not permitted" for name in body if name not in _TYPES]
    found += [f"{name}: Field required" for name in ("model", "messages", "max_tokens") if name not in body]
    for name, kind in _TYPES.items():
        if name in body and (not isinstance(body[name], kind) or (isinstance(body[name], bool) and kind is not bool)):
            found.append(f"{name}: Input should be a valid {kind}")
    if found:
        return found
    if body["max_tokens"] < 1 or not 0 <= body.get("temperature", 1) <= 1:
        found.append("max_tokens and temperature: out of range")
    for place, message in enumerate(body["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else [_as_block(message["content"])]
        if set(message) != {"role", "content"} or message["role"] not in ("user", "assistant"):
            found.append(f"messages.{place}: role and content, of the user or the assistant")
        found += [f"messages.{place}: {said}" for block in blocks for said in _complain_of_text(block)]
    if not body["messages"] or body["messages"][0]["role"] != "user":
        found.append("messages: first message must use the user role")
    system = body.get("system", [])
    found += [
        f"system: {said}" for block in (system if isinstance(system, list) else []) for said in _complain_of_text(block)
    ]
    if json.dumps(body).count('"cache_control": ') > _MOST_MARKS:
        found.append(f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided")
    return found + _complain_of_format(body)


def _as_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _complain_of_text(block: Mapping[str, Any]) -> list[str]:
    if block.get("type") != "text" or not set(block) <= _TEXT_KEYS:
        return [f"unexpected block {sorted(block)}"]
    blank = [] if block["text"].strip() else ["text content blocks must be non-empty"]
    mark = block.get("cache_control", {"type": "ephemeral"})
    return blank + ([] if mark == {"type": "ephemeral"} else ["cache_control: unexpected value"])


def _complain_of_format(body: Mapping[str, Any]) -> list[str]:
    tools, choice, config = body.get("tools", []), body.get("tool_choice"), body.get("output_config")
    found = [
        f"tools.{tool['name']}: unexpected keys or no schema of an object"
        for tool in tools
        if not set(tool) <= {"name", "description", "input_schema"} or tool["input_schema"].get("type") != "object"
    ]
    if choice is not None and choice not in [{"type": "tool", "name": tool["name"]} for tool in tools]:
        found.append("tool_choice: no such tool")
    if config is not None:
        wanted = config.get("format", {})
        if wanted.get("type") != "json_schema" or wanted["schema"].get("additionalProperties") is not False:
            found.append("output_config.format.schema: For 'object' type, 'additionalProperties' must be false")
    return found


def as_chat(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """The system's text and the turns of a request, as chat completions have them."""
    system = "".join(block["text"] for block in body.get("system", []))
    turns = [
        {
            "role": turn["role"],
            "content": turn["content"]
            if isinstance(turn["content"], str)
            else "".join(block["text"] for block in turn["content"]),
        }
        for turn in body["messages"]
    ]
    return [{"role": "system", "content": system}, *turns]


class _Messages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        answer_about_batches(self, b"")

    def do_POST(self) -> None:
        judge: AnthropicJudge = self.server.judge
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if answer_about_batches(self, raw):
            return None
        body = json.loads(raw)
        headers = {key.lower(): text for key, text in self.headers.items()}
        if self.path != "/v1/messages":
            return self._refuse(404, "not_found_error", "Not found")
        if headers.get("x-api-key") != KEY:
            return self._refuse(401, "authentication_error", f"invalid x-api-key {headers.get('x-api-key')}")
        if headers.get("anthropic-version") != "2023-06-01":
            return self._refuse(400, "invalid_request_error", "anthropic-version: header is required")
        complaints = list_complaints(body)
        judge.complaints += complaints
        refused = [message for name, message in judge.refused.items() if name in body]
        if complaints or refused:
            judge.refusals.append(body)
            return self._refuse(400, "invalid_request_error", (complaints + refused)[0])
        if body["model"] != MODEL:
            return self._refuse(404, "not_found_error", f"model: {body['model']}")
        mode = judge.begin(request := Request(headers, body, time.perf_counter()))
        try:
            return self._answer(request, mode)
        finally:
            judge.end(request)

    def _answer(self, request: Request, mode: str | Status) -> None:
        if isinstance(mode, Status):
            return self._refuse(mode.code, "rate_limit_error", mode.message, dict(mode.headers))
        if mode == "overloaded":
            return self._refuse(529, "overloaded_error", "Overloaded")
        judge: AnthropicJudge = self.server.judge
        request.kind, answer = judge.judge(as_chat(request.body))
        small = request.body["max_tokens"] < 2 * judge.chats[0].body["max_tokens"]
        text = json.dumps(answer)
        forced = "tool_choice" in request.body and mode != "text"
        tool = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": answer}
        content: list[dict[str, Any]] = [tool] if forced else [{"type": "thinking", "thinking": "{}"}, _as_block(text)]
        reason = "tool_use" if forced else "end_turn"
        if mode == "truncated" or (mode == "truncated_once" and small):
            content, reason = [_as_block(text[:5])], "max_tokens"
        content, reason = {
            "prose": ([_as_block("It is rather good.")], "end_turn"),
            "empty": ([], "end_turn"),
            "refusal": ([], "refusal"),
            "paused": (content, "pause_turn"),
            "twice": ([tool, {**tool, "id": "toolu_2", "input": {**answer, "value": "bad"}}], reason),
            "same_twice": ([tool, {**tool, "id": "toolu_2"}], reason),
        }.get(mode, (content, reason))
        usage = {
            "input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": _CACHED_TOKENS,
            "output_tokens": len(text) // 4,
        }  # fmt: skip
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": f"{MODEL}-20260901", "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return self._send(200, {"type": "ping"} if mode == "not_a_message" else message)

    def _refuse(self, code: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(code, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}, headers)

    def _send(self, code: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""
