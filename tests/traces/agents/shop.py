"""An agent that is instrumented for real: it retrieves, calls tools, two of them at once, and asks a model.

Run by tests with the packages of its own environment: `python shop.py KIND ENDPOINT`. It does what `story.py` says.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from story import ANSWER, CALLS, DOCUMENTS, INSTRUCTIONS, QUESTION, TOKENS


class Shelf(BaseRetriever):
    """Finds the same documents each time."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=one["text"], id=one["id"], metadata={"score": one["score"]}) for one in DOCUMENTS]


@tool
def find_order(order: str, deep: bool) -> str:
    """Find an order."""
    time.sleep(0.1)
    return CALLS[0]["result"]


@tool
def find_customer(order: str, deep: bool) -> str:
    """Find a customer."""
    time.sleep(0.1)
    return CALLS[1]["result"]


@tool
def cancel(order: str, deep: bool) -> str:
    """Cancel an order."""
    raise ValueError("order 7 was sent")


MODEL = GenericFakeChatModel(
    messages=iter(
        [
            AIMessage(
                ANSWER,
                usage_metadata={
                    "input_tokens": TOKENS["input_tokens"],
                    "output_tokens": TOKENS["output_tokens"],
                    "total_tokens": 25,
                    "input_token_details": {"cache_read": TOKENS["cached"]},
                },
            )
        ]
    )
)


def run_langchain():
    shelf = Shelf()

    def answer(question):
        shelf.invoke(question)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(copy_context().run, find_order.invoke, CALLS[0]["arguments"])
            second = pool.submit(copy_context().run, find_customer.invoke, CALLS[1]["arguments"])
            first.result(), second.result()
        with suppress(ValueError):
            cancel.invoke(CALLS[2]["arguments"])
        return MODEL.invoke([SystemMessage(INSTRUCTIONS), HumanMessage(question)]).content

    return RunnableLambda(answer, name="shop").invoke(QUESTION)


def run_by_hand(tracer):
    """Write the spans with OpenTelemetry's SDK, in the conventions of today."""

    def call_tool(call, parent):
        with tracer.start_as_current_span(f"execute_tool {call['name']}", context=parent) as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", call["name"])
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(call["arguments"]))
            time.sleep(0.1)
            if "error" in call:
                raise ValueError("order 7 was sent")
            span.set_attribute("gen_ai.tool.call.result", call["result"])

    with tracer.start_as_current_span("invoke_agent shop") as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        root.set_attribute("gen_ai.conversation.id", "conversation-1")
        with tracer.start_as_current_span("retrieval shelf") as span:
            span.set_attribute("gen_ai.operation.name", "retrieval")
            found = [{"id": one["id"], "score": one["score"]} for one in DOCUMENTS]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
        here = trace.set_span_in_context(root)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(call_tool, CALLS[:2], [here, here]))
        with suppress(ValueError):
            call_tool(CALLS[2], here)
        with tracer.start_as_current_span("chat fake-1") as span:
            asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
            said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
            span.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "fake",
                    "gen_ai.request.model": "fake-1",
                    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": INSTRUCTIONS}]),
                    "gen_ai.input.messages": json.dumps(asked),
                    "gen_ai.output.messages": json.dumps(said),
                    "gen_ai.usage.input_tokens": TOKENS["input_tokens"],
                    "gen_ai.usage.output_tokens": TOKENS["output_tokens"],
                    "gen_ai.usage.cache_read.input_tokens": TOKENS["cached"],
                }
            )


def main():
    kind, endpoint = sys.argv[1:]
    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"{endpoint}/v1/traces", compression=Compression.Gzip)
    never = 3_600_000  # by itself: all spans are one export, however long the imports below take
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=never))
    trace.set_tracer_provider(provider)
    if kind == "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=provider)
    elif kind == "traceloop":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=provider)
    run_by_hand(provider.get_tracer("by hand")) if kind == "opentelemetry" else run_langchain()
    provider.force_flush()


if __name__ == "__main__":
    main()
