"""Agents that are instrumented for real, in an environment of their own, exporting to a server on loopback."""

import gzip
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from msgspec import UNSET

from evalspec.inputs.traces.otlp import read_traces
from evalspec.inputs.traces.steps import read_steps
from evalspec.model.spans import StepKind
from installed import make_environment
from traces.test_reading import KINDS, check_story

HERE = Path(__file__).parent
PACKAGES = HERE.parents[1] / "build" / "instrumented"
"""Kept between runs, because the packages take a minute to install."""
PINNED = (
    "langchain-core==1.8.3",
    "openinference-instrumentation-langchain==0.1.80",
    "opentelemetry-exporter-otlp-proto-http==1.45.2",
    "opentelemetry-instrumentation-langchain==0.62.4",
    "opentelemetry-sdk==1.45.2",
)


@pytest.fixture(scope="module")
def python():
    """The Python of an environment with the instrumentations."""
    PACKAGES.parent.mkdir(exist_ok=True)
    ready = PACKAGES / "ready"
    with FileLock(f"{PACKAGES}.lock"):
        if not ready.exists() or ready.read_text() != "\n".join(PINNED):
            make_environment(PACKAGES, *PINNED)
            ready.write_text("\n".join(PINNED))
    return PACKAGES / "bin" / "python"


@pytest.fixture
def receiver():
    """A server that keeps the bodies of what is exported to it."""

    bodies = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/traces" and self.headers["Content-Encoding"] == "gzip"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            bodies.append(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield SimpleNamespace(port=server.server_port, bodies=bodies)
    server.shutdown()
    server.server_close()


def run(python, kind, receiver, **environment):
    """Return the body that an instrumented agent exported."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OTEL", "EVALSPEC"))}
    command = [python, HERE / "agents" / "shop.py", kind, f"http://127.0.0.1:{receiver.port}"]
    subprocess.run(command, env=kept | environment, check=True, capture_output=True)
    (body,) = receiver.bodies
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_what_the_agent_did(python, kind, receiver):
    check_story(kind, run(python, kind, receiver))


@pytest.mark.parametrize(
    ("kind", "environment", "switch"),
    [
        ("traceloop", {"TRACELOOP_TRACE_CONTENT": "false"}, "TRACELOOP_TRACE_CONTENT=true"),
        (
            "openinference",
            {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"},
            "OPENINFERENCE_HIDE_INPUTS",
        ),
    ],
)
def test_hidden_content_is_unknown_and_names_its_switch(python, kind, environment, switch, receiver):
    steps = read_steps(read_traces(run(python, kind, receiver, **environment), is_json=False))
    found, model = (next(step for step in steps if step.kind == wanted) for wanted in ("retrieval", "model"))
    calls = [step for step in steps if step.kind is StepKind.TOOL]
    assert (found.documents, model.prompt, model.answer) == (None, None, None) and model.usage is not None
    assert all(step.call.problem and step.call.result is UNSET for step in calls) and len(calls) == 3
    assert all(switch in step.hidden for step in (found, model, *calls))
