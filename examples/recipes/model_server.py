"""An agent over the handbook that speaks the wires of Anthropic and of Ollama: a stand-in for both.

It refuses what they refuse, and streams word by word.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import handbook


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send(200, {"status": "ok"})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = {
            "/v1/messages": self.answer_messages,
            "/api/chat": self.answer_chat,
            "/api/generate": self.answer_chat,
        }
        if self.path not in answer:
            return self.send(404, {"error": "not found"})
        return answer[self.path](request)

    def answer_messages(self, request):
        roles = [message["role"] for message in request["messages"]]
        if not self.headers["x-api-key"]:
            return self.refuse(401, "authentication_error", "x-api-key header is required")
        if not self.headers["anthropic-version"]:
            return self.refuse(400, "invalid_request_error", "anthropic-version: header is required")
        if "max_tokens" not in request:
            return self.refuse(400, "invalid_request_error", "max_tokens: Field required")
        if set(roles) - {"user", "assistant"}:
            return self.refuse(400, "invalid_request_error", 'messages: Unexpected role "system"')
        question = request["messages"][-1]["content"]
        parts, sent = split_answer(question), count(question)
        reason = "max_tokens" if len(parts) > request["max_tokens"] else "end_turn"
        parts = parts[: request["max_tokens"]]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"]}
        if not request.get("stream"):
            content, usage = (
                [{"type": "text", "text": "".join(parts)}],
                {"input_tokens": sent, "output_tokens": len(parts)},
            )
            return self.send(200, message | {"content": content, "stop_reason": reason, "usage": usage})
        usage = {"input_tokens": sent, "output_tokens": 1}
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}
                for part in parts
            ),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": len(parts)}},
            {"type": "message_stop"},
        ]
        return self.stream("text/event-stream", (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events))

    def answer_chat(self, request):
        if not request.get("model"):
            return self.send(400, {"error": "model is required"})
        question = request["messages"][-1]["content"] if self.path == "/api/chat" else request["prompt"]
        parts = split_answer(question)
        last = {"done": True, "done_reason": "stop", "prompt_eval_count": count(question), "eval_count": len(parts)}
        if request.get("stream") is False:
            return self.send(200, self.line(request, "".join(parts)) | last)
        lines = [*(self.line(request, part) | {"done": False} for part in parts), self.line(request, "") | last]
        return self.stream("application/x-ndjson", (f"{json.dumps(line)}\n" for line in lines))

    def line(self, request, text):
        message = {"role": "assistant", "content": text}
        return {"model": request["model"]} | ({"message": message} if self.path == "/api/chat" else {"response": text})

    def refuse(self, status, kind, message):
        self.send(status, {"type": "error", "error": {"type": kind, "message": message}})

    def send(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, content_type, pieces):
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            data = piece.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_arguments):
        pass


def split_answer(question):
    """The answer in pieces, each a word with its blank."""
    answer = handbook.quote(question, [one["text"] for one in handbook.search(question)])
    first, *others = answer.split(" ")
    return [first, *(f" {word}" for word in others)]


def count(text):
    return len(text.split())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8921)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
