"""What objects of LangChain and LlamaIndex take and return. The recipes run whole chains and engines."""

import asyncio

import pytest

from evalspec.base.errors import RetrieverError, ServiceError
from evalspec.inputs.manifest.retriever_schema import PythonTarget
from evalspec.model import FIRST_TOKEN, Message, Sample, ToolCall, Usage
from evalspec.targets.agents.function import FunctionAgent
from evalspec.targets.agents.user_agent import UserAgent
from evalspec.targets.retrievers.base import Hit, SearchRequest
from evalspec.targets.retrievers.python_target import OwnRetriever

QUESTION = Sample("s", "Where?")
CONVERSATION = Sample("s", (Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "Where?")))


def ask(own, sample=QUESTION):
    async def send():
        agent = FunctionAgent(UserAgent(own), 30.0)
        try:
            return await agent.ask(sample)
        finally:
            await agent.aclose()

    return asyncio.run(send())


@pytest.fixture
def messages():
    return pytest.importorskip("langchain_core.messages")


@pytest.fixture
def runnables():
    return pytest.importorskip("langchain_core.runnables")


def test_a_message_has_text_in_blocks_usage_and_a_finish_reason(messages, runnables):
    blocks = [{"type": "text", "text": "In "}, {"type": "tool_use", "id": "t"}, {"type": "text", "text": "Paris"}]
    answer = messages.AIMessage(
        content=blocks,
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"stop_reason": "max_tokens"},
        tool_calls=[{"name": "find", "args": {"q": "x"}, "id": "t"}],
    )
    reply = ask(runnables.RunnableLambda(lambda question: answer))
    assert (reply.response, reply.usage, reply.finish_reason) == ("In Paris", Usage(3, 2), "max_tokens")
    assert reply.tool_calls == (ToolCall("find", {"q": "x"}, "t"),)


def test_the_chunks_of_a_stream_are_one_message(messages):
    def stream(question):
        yield messages.AIMessageChunk(
            content="", usage_metadata={"input_tokens": 3, "output_tokens": 0, "total_tokens": 3}
        )
        yield messages.AIMessageChunk(content="Pa")
        yield messages.AIMessageChunk(
            content="ris",
            usage_metadata={"input_tokens": 0, "output_tokens": 2, "total_tokens": 2},
            response_metadata={"finish_reason": "stop"},
        )

    reply = ask(stream)
    assert (reply.response, reply.usage, reply.finish_reason) == ("Paris", Usage(3, 2), "stop")
    assert 0 < reply.trace.timings_ms[FIRST_TOKEN] <= reply.latency_ms


def test_a_graph_shows_its_calls_results_and_steps_since_the_users_last_message(messages):
    def call(name, number):
        return [{"name": name, "args": {"to": "Paris"}, "id": number}]

    def used(tokens):
        return {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}

    answered = {
        "messages": [
            messages.HumanMessage("Hi"),
            messages.AIMessage("", tool_calls=call("old", "0"), usage_metadata=used(9)),
            messages.ToolMessage("?", tool_call_id="0"),
            messages.HumanMessage("Book it."),
            messages.AIMessage(
                [{"type": "tool_use", "id": "1", "name": "find"}], tool_calls=call("find", "1"), usage_metadata=used(10)
            ),
            messages.ToolMessage("AF12", tool_call_id="1"),
            messages.AIMessage("", tool_calls=call("pay", "2"), usage_metadata=used(20)),
            messages.ToolMessage("no money", tool_call_id="2", status="error"),
            messages.AIMessage("Not paid.", usage_metadata=used(30)),
        ]
    }
    reply = ask(lambda _: answered)
    assert reply.usage == Usage(60, 3), "of all its steps, not of the last one"
    assert [call.usage for call in reply.model_calls] == [Usage(10, 1), Usage(20, 1), Usage(30, 1)]
    answered["messages"][4].usage_metadata = None
    unknown = ask(lambda _: answered)
    assert (unknown.usage, unknown.model_calls[1].usage) == (None, Usage(20, 1))
    assert (reply.response, reply.steps) == ("Not paid.", 3)
    assert reply.tool_calls == (
        ToolCall("find", {"to": "Paris"}, "1", result="AF12", step=0),
        ToolCall("pay", {"to": "Paris"}, "2", error="no money", step=1),
    )


def test_a_graph_gets_messages_and_answers_with_the_last_one(messages):
    graphs = pytest.importorskip("langgraph.graph")

    def answer(state):
        said = " ".join(message.content for message in state["messages"])
        return {"messages": [messages.AIMessage(content=f"{said} Paris")]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(graphs.START, "answer")
    graph.add_edge("answer", graphs.END)
    assert ask(graph.compile(), CONVERSATION).response == "Hi Yes? Where? Paris"


def test_a_chain_gets_its_key(runnables):
    prompts = pytest.importorskip("langchain_core.prompts")

    def chain(template):
        return prompts.ChatPromptTemplate.from_template(template) | (lambda value: value.messages[0].content)

    assert ask(chain("Q: {query}")).response == "Q: Where?"
    assert ask(chain("{topic}!")).response == "Where?!"
    with pytest.raises(ServiceError, match="the runnable takes the keys place, topic; write a function"):
        ask(chain("{place}{topic}"))
    with pytest.raises(ServiceError, match="conversation, but the runnable takes the text query"):
        ask(chain("Q: {query}"), CONVERSATION)


def test_an_engine_takes_no_conversation():
    class Engine:
        def query(self, text):
            return text

    assert ask(Engine()).response == "Where?"
    with pytest.raises(ServiceError, match="conversation, but query takes one question"):
        ask(Engine(), CONVERSATION)


class NoTruth:
    """As an array of NumPy is."""

    def __bool__(self):
        raise ValueError("ambiguous")


RESULTS = [
    ({"response": "Paris", "id": NoTruth()}, "id: .* is not accepted here. it should be text"),
    ({"answer": 7}, "a value of type int as answer, not text"),
    ({"messages": []}, "cannot be used: IndexError"),
    ({"answer": "Paris", "context": [7]}, "a passage of type int; expected text or a document"),
    (iter([]), "the agent's stream ended without any piece"),
    (iter(["Pa", 7]), "values of type str and int; yield text, or dicts"),
]


@pytest.mark.parametrize(("result", "said"), RESULTS, ids=[said for _, said in RESULTS])
def test_unusable_results(result, said):
    with pytest.raises(ServiceError, match=said):
        ask(lambda question: result)


def test_passages_without_ids_have_no_ids():
    documents = pytest.importorskip("langchain_core.documents")

    def answer(question):
        found = [documents.Document("a", metadata={"document_id": "d1"}), documents.Document("b", **identity)]
        return {"result": "Paris", "source_documents": found}

    identity = {"id": "d2"}
    assert ask(answer).retrieved_context_ids == ("d1", "d2")
    identity = {}
    reply = ask(answer)
    assert (reply.retrieved_contexts, reply.retrieved_context_ids) == (("a", "b"), None)


@pytest.mark.parametrize("method", ["def invoke", "def get_relevant_documents", "def retrieve", "async def aretrieve"])
def test_retrievers_get_the_text_of_the_query(tmp_path, method):
    code = f"""
class Document:
    def __init__(self, text, **metadata):
        self.page_content, self.metadata = text, metadata

class Retriever:
    {method}(self, query):
        return [Document(query, id="c1", document_id="d1"), Document("x", **({{}} if query == "bad" else {{"id": 2}}))]
"""
    (tmp_path / "mine.py").write_text(code)
    retriever = OwnRetriever(PythonTarget(python="mine:Retriever"), tmp_path)
    found = asyncio.run(retriever.search(SearchRequest("Where?", 2, "eval:")))
    assert found.hits == (Hit("c1", "d1", text="Where?"), Hit("2", text="x"))
    with pytest.raises(RetrieverError, match="a document without an id; set its id, or id in its metadata"):
        asyncio.run(retriever.search(SearchRequest("bad", 2, "eval:")))
