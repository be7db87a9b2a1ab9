"""What it costs to receive, join and store the traces of an agent: CPU of evalspec for each attempt, memory, losses.

    python -m benchmarks.traces [ATTEMPTS]

Evaluates ATTEMPTS samples (default 10,000) twice: with 50 spans of 1 KB for each attempt, which another process exports
as protobuf in batches of 512, and without any. Prints the difference in CPU for each attempt, the most memory of the
run with spans, and how many spans are in its log.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

SPANS, SIZE, BATCH = 50, 1024, 512
WORKERS = 8


def main() -> None:
    """Print the measurements, or serve as the agent if the first argument is `agent`."""
    if sys.argv[1:2] == ["agent"]:
        serve(int(sys.argv[2]), sys.argv[3])
        return
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        plain, _, _ = measure(Path(folder) / "plain", attempts, traced=False)
        traced, memory, spans = measure(Path(folder) / "traced", attempts, traced=True)
    print(f"CPU without traces  {plain / attempts * 1000:.2f} ms an attempt")
    print(f"CPU with traces     {traced / attempts * 1000:.2f} ms an attempt")
    print(f"of it for traces    {(traced - plain) / attempts * 1000:.2f} ms an attempt")
    print(f"most memory         {memory / 1024:.0f} MB")
    print(f"spans in the log    {spans:,} of {attempts * SPANS:,}")


def measure(folder: Path, attempts: int, *, traced: bool) -> tuple[float, int, int]:
    """Return the CPU seconds of one evaluation, its most memory in KB, and the spans in its log."""
    folder.mkdir()
    port, collector = _find_port(), _find_port()
    lines = ({"id": f"s{n}", "input": f"q{n}", "expected": "Paris", "relevant": ["d1"]} for n in range(attempts))
    (folder / "qa.jsonl").write_text("\n".join(map(json.dumps, lines)))
    api: dict[str, Any] = {"url": f"http://127.0.0.1:{port}"}
    api |= {"traces": {"receive": collector}} if traced else {}
    metrics = ["string_match", *(["Recall@1"] if traced else [])]
    manifest = {
        "apiVersion": "agentspec.io/v1",
        "kind": "AgentSpec",
        "metadata": {"name": "traces"},
        "spec": {"api": api, "evaluation": {"datasets": [{"name": "qa", "path": "qa.jsonl", "metrics": metrics}]}},
    }
    (folder / "agent.yaml").write_text(json.dumps(manifest))
    endpoint = f"http://127.0.0.1:{collector}/v1/traces" if traced else ""
    agent = subprocess.Popen([sys.executable, "-m", "benchmarks.traces", "agent", str(port), endpoint])
    time.sleep(1)
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-q", "-j", str(WORKERS)]
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    _, status, usage = os.wait4(process.pid, 0)
    agent.kill()
    if status:
        raise SystemExit(f"evaluate ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, sum(_count_spans(folder))


def _count_spans(folder: Path) -> Iterator[int]:
    for log in folder.glob(".evalspec/runs/2*/samples.jsonl"):
        with log.open("rb") as lines:
            yield from (line.count(b'"spanId"') for line in lines if line.startswith(b'{"kind":"spans"'))


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def serve(port: int, endpoint: str) -> None:
    """Answer each POST, and export its spans, if there is an endpoint."""
    spans: Queue[str] = Queue()
    if endpoint:
        threading.Thread(target=_export, args=(endpoint, spans), daemon=True).start()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            self._answer(b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            if "traceparent" in self.headers:
                spans.put(self.headers["traceparent"])
            self._answer(b'{"response": "Paris"}')

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def _export(endpoint: str, waiting: "Queue[str]") -> None:
    """Export the spans of all requests in batches, as the exporter of an SDK does."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    batch: list[Any] = []
    while True:
        try:
            parent = waiting.get(timeout=0.5)
            batch += _make_spans(*parent.split("-")[1:3])
        except Empty:
            parent = None
        while len(batch) >= BATCH or (batch and parent is None):
            sent, batch = batch[:BATCH], batch[BATCH:]
            request = ExportTraceServiceRequest()
            request.resource_spans.add().scope_spans.add().spans.extend(sent)
            body = request.SerializeToString()
            urllib.request.urlopen(urllib.request.Request(endpoint, body, {"content-type": "application/x-protobuf"}))


def _make_spans(trace: str, parent: str) -> list[Any]:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    made, root = [], os.urandom(8)
    for number in range(SPANS):
        span = Span(trace_id=bytes.fromhex(trace), name=f"step {number}", start_time_unix_nano=1, end_time_unix_nano=2)
        span.span_id = root if number == 0 else os.urandom(8)
        span.parent_span_id = bytes.fromhex(parent) if number == 0 else root
        attributes = {"openinference.span.kind": "CHAIN", "input.value": "x" * (SIZE - 200)}
        if number == 1:
            attributes = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.id": "d1"}
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
        made.append(span)
    return made


if __name__ == "__main__":
    main()
