"""An agent behind HTTP that is instrumented with OpenTelemetry, and says nothing of its retrieval in its reply.

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
    python bot.py 8930

An instrumentation of your framework makes such spans for you. Here they are made by hand, with the attributes of
OpenInference, so that every field that evalspec reads is in sight.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))  # evalspec sets OTEL_EXPORTER_OTLP_ENDPOINT
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("bot")

PAGES = {
    "refunds": "Refunds are paid within 14 days of the return.",
    "delivery": "A parcel takes three days within the country.",
    "opening": "The shop is open from nine to six.",
}


def search(question: str) -> list[str]:
    """Return the pages that share a long word with the question."""
    words = {word for word in question.lower().strip("?").split() if len(word) > 3}
    found = [name for name, text in PAGES.items() if words & {name, *text.lower().strip(".").split()}]
    with tracer.start_as_current_span("search", attributes={"openinference.span.kind": "RETRIEVER"}) as span:
        for place, name in enumerate(found):
            span.set_attribute(f"retrieval.documents.{place}.document.id", name)
            span.set_attribute(f"retrieval.documents.{place}.document.content", PAGES[name])
    return found


def answer(question: str) -> str:
    """Return the first page that was found, as a model would."""
    found = search(question)
    prompt = "\n".join(PAGES[name] for name in found)
    with tracer.start_as_current_span("chat", attributes={"openinference.span.kind": "LLM"}) as span:
        said = PAGES[found[0]] if found else "I do not know."
        span.set_attributes(
            {
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": f"{prompt}\n\n{question}",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": said,
                "llm.token_count.prompt": len(prompt.split()),
                "llm.token_count.completion": len(said.split()),
            }
        )
    return said


class Handler(BaseHTTPRequestHandler):
    """POST /v1/chat; GET / says that it is ready."""

    def do_GET(self) -> None:
        """Say that the agent is ready."""
        self._send({})

    def do_POST(self) -> None:
        """Answer a question. The span continues the trace that the request names."""
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))["message"]
        with tracer.start_as_current_span("POST /v1/chat", context=propagate.extract(self.headers)):
            self._send({"response": answer(question)})

    def _send(self, reply: dict[str, str]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
