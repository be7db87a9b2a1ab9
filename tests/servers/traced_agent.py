"""An agent that exports spans of what it does, as OTLP/JSON, to a receiver on loopback.

with TracedAgent(port) as agent:
    agent.steps = [retrieval("d1", "d2"), model(10, 3)]      # the spans below the one of each request
    agent.traces["other question"] = [...]                   # for one question; None: no span at all
    agent.steps[1] |= {"inside": 0, "took": 5, "at": 2}      # below the step 0, for 5 ms, after 2 ms
    agent.steps[1] |= {"inside": None, "scope": "other"}     # its parent is lost; of another instrumentation
    agent.wait = 0.5                                         # seconds from the reply to the export
    agent.has_root = False                                   # without the span of the request
    agent.foreign = True                                     # in traces of its own
    agent.statuses = [503]                                   # of the next replies, after their spans
    agent.asked                                              # the headers of each request
    agent.exported                                           # the bodies with its spans
"""

import json
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from secrets import token_hex
from typing import Any

from servers.hanging_up import Served

Step = dict[str, Any]


def retrieval(*ids: str, texts: tuple[str, ...] = (), name: str = "search") -> Step:
    """A retrieval in OpenInference's words, which have texts."""
    attributes: dict[str, Any] = {"openinference.span.kind": "RETRIEVER"}
    for place, id in enumerate(ids):
        attributes[f"retrieval.documents.{place}.document.id"] = id
        if texts:
            attributes[f"retrieval.documents.{place}.document.content"] = texts[place]
    if not ids:
        attributes["output.value"] = "[]"
    return {"name": name, "attributes": attributes}


def standard_retrieval(*ids: str) -> Step:
    """A retrieval in OpenTelemetry's words, which have ids and no texts."""
    documents = json.dumps([{"id": id, "score": 1.0} for id in ids])
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents}
    return {"name": "retrieval docs", "attributes": attributes}


def reranking(*ids: str) -> Step:
    attributes: dict[str, Any] = {"openinference.span.kind": "RERANKER"}
    attributes |= {f"reranker.output_documents.{place}.document.id": id for place, id in enumerate(ids)}
    return {"name": "rerank", "attributes": attributes}


def model(tokens_in: int, tokens_out: int, prompt: str | None = None, answer: str | None = None) -> Step:
    attributes: dict[str, Any] = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": tokens_in,
        "llm.token_count.completion": tokens_out,
    }
    if prompt is not None:
        attributes |= {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer or "",
        }
    return {"name": "chat", "attributes": attributes}


def tool(name: str, arguments: dict[str, Any], result: str = "ok") -> Step:
    attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": name,
        "input.value": json.dumps(arguments),
        "input.mime_type": "application/json",
        "output.value": result,
    }
    return {"name": name, "attributes": attributes}


class TracedAgent(Served):
    """Answers "Paris" to POST /v1/chat. `port`: of the receiver."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}/v1/traces"
        self.steps: list[Step] = []
        self.traces: dict[str, list[Step] | None] = {}
        self.reply: dict[str, Any] = {"response": "Paris"}
        self.wait = 0.0
        self.has_root, self.foreign = True, False
        self.statuses: list[int] = []
        self.asked: list[dict[str, str]] = []
        self.exports: list[threading.Thread] = []
        self.exported: list[bytes] = []
        self.export_statuses: list[int] = []
        super().__init__(_make_handler(self))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for export in self.exports:
            export.join()

    def answer(self, question: str, headers: dict[str, str]) -> int:
        """Export the spans of one request, and return the status of its reply."""
        self.asked.append(headers)
        steps = self.traces.get(question, self.steps)
        if steps is not None and "traceparent" in headers:
            _, trace, parent, _ = headers["traceparent"].split("-")
            body = self._describe(token_hex(16) if self.foreign else trace, parent, steps)
            if self.wait:
                self.exports.append(threading.Thread(target=self._export_later, args=(body,)))
                self.exports[-1].start()
            else:
                self.export(body)
        return self.statuses.pop(0) if self.statuses else 200

    def _export_later(self, body: bytes) -> None:
        time.sleep(self.wait)
        with suppress(OSError, HTTPException):  # the run may have ended
            self.export(body)

    def export(self, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.exported.append(body)
        sent = urllib.request.Request(self.endpoint, body, {"content-type": kind, **headers})
        try:
            with urllib.request.urlopen(sent) as response:
                self.export_statuses.append(response.status)
        except urllib.error.HTTPError as error:
            with error:
                self.export_statuses.append(error.code)

    def _describe(self, trace: str, parent: str, steps: list[Step]) -> bytes:
        now, root = time.time_ns(), token_hex(8)
        names = [token_hex(8) for _ in steps]
        scopes: dict[str, list[Step]] = {}
        for place, step in enumerate(steps):
            inside = step.get("inside", ...)
            above = root if inside is ... else token_hex(8) if inside is None else names[inside]
            start = now + place + 1 + step.get("at", 0) * 1_000_000
            said = (step["name"], step["attributes"], step.get("took", 1))
            scopes.setdefault(step.get("scope", "agent"), []).append(
                _make_span(trace, names[place], above, start, *said)
            )
        if self.has_root:
            scopes.setdefault("agent", []).append(_make_span(trace, root, parent, now, "POST /v1/chat", {}))
        parts = [{"scope": {"name": name}, "spans": spans} for name, spans in scopes.items()]
        return json.dumps({"resourceSpans": [{"scopeSpans": parts}]}).encode()


def _make_span(
    trace: str, span: str, parent: str, start: int, name: str, attributes: dict[str, Any], took: int = 1
) -> Step:
    return {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + took * 1_000_000),
        "attributes": [{"key": key, "value": _wrap(value)} for key, value in attributes.items()],
        "status": {},
    }


def _wrap(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def _make_handler(agent: TracedAgent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = agent.answer(str(body.get("message")), {key.lower(): text for key, text in self.headers.items()})
            reply = json.dumps(agent.reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

    return Handler
