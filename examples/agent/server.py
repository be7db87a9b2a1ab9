"""Serves the help agent over HTTP: `python examples/agent/server.py --port 8917`. Standard library only."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from answering import Answer, Answerer
from collection import Collection
from retrieval import Bm25Index, Hit, Passage, read_corpus

CORPUS = Path(__file__).resolve().parents[2] / "evals" / "corpus.jsonl"
MODEL = "inkwharf-help"
LARGEST_BODY = 1_000_000


class BadRequest(Exception):
    """What the caller sent cannot be answered: a status and one line that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HelpServer(ThreadingHTTPServer):
    """The listening socket and the agent behind it."""

    request_queue_size = 128  # the default of 5 makes a burst of new connections wait for a retransmission

    def __init__(self, address: tuple[str, int], answerer: Answerer) -> None:
        super().__init__(address, Handler)
        self.answerer = answerer
        self.collection = Collection()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no error of ours; anything else is printed as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open between requests."""

    server: HelpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, {"status": "ok"})
        else:
            self._send_error(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        respond = {
            "/v1/chat": self._chat,
            "/v1/chat/completions": self._chat_completions,
            "/v1/retriever/search": self._search,
            "/v1/retriever/ingest": self._ingest,
            "/v1/retriever/delete": self._delete,
        }.get(self.path)
        try:
            body = self._read_body()
            if respond is None:
                self._send_error(404, f"no such path: {self.path}")
            else:
                respond(parse_object(body))
        except BadRequest as error:
            self._send_error(error.status, str(error))

    def _chat(self, body: dict[str, Any]) -> None:
        questions = user_questions(body)
        answer = self.server.answerer.answer(questions)
        usage = {"input_tokens": count_words(*questions), "output_tokens": count_words(answer.text)}
        self._send(200, {"response": answer.text, "contexts": render_contexts(answer), "usage": usage})

    def _chat_completions(self, body: dict[str, Any]) -> None:
        questions = user_questions(body)
        answer = self.server.answerer.answer(questions)
        if body.get("stream") is True:
            self._stream(answer.text)
            return
        asked, said = count_words(*questions), count_words(answer.text)
        message = {"role": "assistant", "content": answer.text}
        completion = {
            "id": "chatcmpl-help",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
            "contexts": render_contexts(answer),
        }
        self._send(200, completion)

    def _search(self, body: dict[str, Any]) -> None:
        limit = body.get("top_k", 10)
        if type(limit) is not int or limit < 1:
            raise BadRequest(400, "top_k must be a whole number from 1")
        hits = self.server.collection.search(read_text(body, "query"), limit, read_text(body, "scope_prefix", ""))
        self._send(200, {"hits": render_hits(hits)})

    def _ingest(self, body: dict[str, Any]) -> None:
        documents = body.get("documents")
        if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
            raise BadRequest(400, "documents must be a list of objects with id and text")
        passages = [
            Passage(read_text(document, "id"), read_text(document, "title", ""), read_text(document, "text"))
            for document in documents
        ]
        self.server.collection.ingest(passages)
        self._send(200, {"ingested": len(passages)})

    def _delete(self, body: dict[str, Any]) -> None:
        self._send(200, {"deleted": self.server.collection.delete(read_text(body, "scope_prefix"))})

    def _stream(self, text: str) -> None:
        """Server-sent events, one word each; the connection ends with the stream."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        self._send_event({"role": "assistant"}, None)
        for number, word in enumerate(text.split(" ")):
            self._send_event({"content": word if number == 0 else f" {word}"}, None)
        self._send_event({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def _send_event(self, delta: dict[str, str], finish_reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        chunk = {"id": "chatcmpl-help", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise BadRequest(411, "send a Content-Length")
        if int(length) > LARGEST_BODY:
            self.close_connection = True
            raise BadRequest(413, f"the body is larger than {LARGEST_BODY} bytes")
        return self.rfile.read(int(length))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_error(self, status: int, message: str) -> None:
        self._send(status, {"error": {"message": message}})

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the caller measures them."""


def parse_object(body: bytes) -> dict[str, Any]:
    """The request's JSON object."""
    try:
        parsed = json.loads(body)
    except ValueError as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise BadRequest(400, "the body must be a JSON object")
    return parsed


def user_questions(body: dict[str, Any]) -> list[str]:
    """What the user said, oldest first: from `messages`, and `message` where it is not their last turn already."""
    message, messages = body.get("message"), body.get("messages") or []
    if not isinstance(message, str | None) or not isinstance(messages, list):
        raise BadRequest(400, "message must be text and messages a list")
    questions = [_content(turn) for turn in messages if isinstance(turn, dict) and turn.get("role") == "user"]
    if message and questions[-1:] != [message]:
        questions.append(message)
    if not questions:
        raise BadRequest(400, "send a message, or messages with a user turn")
    return questions


def _content(turn: dict[str, Any]) -> str:
    content = turn.get("content")
    if not isinstance(content, str):
        raise BadRequest(400, "the content of a user turn must be text")
    return content


def render_contexts(answer: Answer) -> list[dict[str, Any]]:
    """The retrieved pages as JSON, best first."""
    return render_hits(answer.hits)


def render_hits(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    """Hits as JSON, best first."""
    return [
        {"id": hit.passage.id, "title": hit.passage.title, "text": hit.passage.text, "score": round(hit.score, 4)}
        for hit in hits
    ]


def read_text(body: dict[str, Any], key: str, default: str | None = None) -> str:
    """The text under a key; without a default it must be there and not be empty."""
    text = body.get(key, default)
    if not isinstance(text, str) or (default is None and not text):
        raise BadRequest(400, f"{key} must be text")
    return text


def count_words(*texts: str) -> int:
    """This agent has no model, so its tokens are words."""
    return sum(len(text.split()) for text in texts)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="A small help agent to evaluate.")
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8917")))
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    options = parser.parse_args()
    answerer = Answerer(Bm25Index(read_corpus(options.corpus)))
    try:
        server = HelpServer(("127.0.0.1", options.port), answerer)
    except OSError as error:
        sys.exit(f"cannot listen on port {options.port}: {error.strerror}")
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown() waits for serve_forever(), which runs in the thread that the signal interrupts.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    with server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
