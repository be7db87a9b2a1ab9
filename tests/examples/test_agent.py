"""The example agent over real HTTP, and the datasets that were written for it."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.retriever_schema import HttpRetriever
from evalspec.model.fingerprints import Cleanup
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.base import Retrieval, SearchRequest
from evalspec.targets.retrievers.http_target import RemoteRetriever
from evalspec.targets.retrievers.http_target_checks import check_http
from evalspec.targets.retrievers.ingest_plan import ask_ingested, plan_ingest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "examples" / "agent" / "server.py"
DATASETS = ("rag", "safety", "accuracy", "regression", "retrieval")
UNKNOWN = "I don't know."
FAQ = ROOT / "evals" / "support-faq.unrag.json"
SCOPE = "eval:support-faq:"
RETRIEVER = HttpRetriever.model_validate(
    {
        "search": {
            "path": "/v1/retriever/search",
            "request": {"query": "{{query}}", "top_k": "{{topK}}", "scope_prefix": "{{scopePrefix}}"},
            "response": {"ids": "$.hits[*].id", "scores": "$.hits[*].score", "texts": "$.hits[*].text"},
        },
        "ingest": {"path": "/v1/retriever/ingest", "request": {"documents": "{{documents}}"}},
        "delete": {"path": "/v1/retriever/delete", "request": {"scope_prefix": "{{scopePrefix}}"}},
    }
)


def read_lines(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "evals" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


CORPUS = {page["id"]: page for page in read_lines("corpus")}


@contextmanager
def running_agent() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, str(SERVER), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def agent() -> Iterator[httpx.Client]:
    with running_agent() as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        yield client


def ask(agent: httpx.Client, user_input: str | list[dict[str, str]]) -> dict[str, Any]:
    body = {"message": user_input} if isinstance(user_input, str) else {"messages": user_input}
    reply = agent.post("/v1/chat", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_is_healthy(agent: httpx.Client) -> None:
    reply = agent.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


def test_answers_with_sentences_of_the_best_page_and_shows_its_contexts(agent: httpx.Client) -> None:
    reply = ask(agent, "How long is the free trial?")
    assert "21 days" in reply["response"]
    contexts = reply["contexts"]
    assert contexts[0]["id"] == "free-trial"
    assert len({context["id"] for context in contexts}) == len(contexts) <= 5
    for context in contexts:
        page = CORPUS[context["id"]]
        assert (context["title"], context["text"]) == (page["title"], page["text"])
    scores = [context["score"] for context in contexts]
    assert scores == sorted(scores, reverse=True)
    sentences = re.split(r"(?<=[.?!])\s+", reply["response"])
    assert 1 <= len(sentences) <= 3
    assert all(sentence in contexts[0]["text"] for sentence in sentences)
    assert reply["usage"] == {"input_tokens": 6, "output_tokens": len(reply["response"].split())}


def test_says_that_it_does_not_know(agent: httpx.Client) -> None:
    reply = ask(agent, "Quetzalcoatl?")
    assert reply["response"].startswith(UNKNOWN)
    assert reply["contexts"] == []
    assert ask(agent, "And what is it?")["response"].startswith(UNKNOWN)


def test_a_follow_up_is_understood_from_the_question_before(agent: httpx.Client) -> None:
    follow_up = {"role": "user", "content": "And on the Business plan?"}
    conversation = [
        {"role": "user", "content": "How many guests are included in the Team plan?"},
        {"role": "assistant", "content": "The Team plan includes 10 guests."},
        follow_up,
    ]
    assert ask(agent, conversation)["contexts"][0]["id"] == "guests"
    assert ask(agent, [follow_up])["contexts"][0]["id"] != "guests"


def test_message_beside_messages_counts_once(agent: httpx.Client) -> None:
    turn = {"role": "user", "content": "How is my data encrypted?"}
    both = {"message": turn["content"], "messages": [turn]}
    assert agent.post("/v1/chat", json=both).json() == ask(agent, turn["content"])


def test_speaks_chat_completions(agent: httpx.Client) -> None:
    question = "What uptime do you guarantee?"
    body = {"model": "any", "messages": [{"role": "user", "content": question}]}
    completion = agent.post("/v1/chat/completions", json=body).json()
    plain = ask(agent, question)
    assert completion["choices"][0]["message"] == {"role": "assistant", "content": plain["response"]}
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert completion["contexts"] == plain["contexts"]
    usage = completion["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 5


def test_streams_the_same_answer(agent: httpx.Client) -> None:
    question = "What uptime do you guarantee?"
    body = {"model": "any", "stream": True, "messages": [{"role": "user", "content": question}]}
    with agent.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        events = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert events.pop() == "[DONE]"
    choices = [json.loads(event)["choices"][0] for event in events]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == ask(agent, question)["response"]
    assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/chat", b"{not json", 400, "not JSON"),
        ("/v1/chat", b"\xff", 400, "not JSON"),
        ("/v1/chat", b"[]", 400, "JSON object"),
        ("/v1/chat", b"{}", 400, "message"),
        ("/v1/chat", b'{"message": 7}', 400, "message"),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": 7}]}', 400, "content"),
        ("/v1/chat", b" " * 1_000_001, 413, "larger"),
        ("/elsewhere", b"{}", 404, "/elsewhere"),
        ("/v1/retriever/search", b"{}", 400, "query must be text"),
        ("/v1/retriever/search", b'{"query": "a", "top_k": 0}', 400, "top_k"),
        ("/v1/retriever/ingest", b'{"documents": ["a"]}', 400, "documents must be a list"),
        ("/v1/retriever/ingest", b'{"documents": [{"id": "a"}]}', 400, "text must be text"),
        ("/v1/retriever/delete", b'{"scope_prefix": ""}', 400, "scope_prefix must be text"),
    ],
)
def test_refuses_bad_requests_in_json(agent: httpx.Client, path: str, body: bytes, status: int, says: str) -> None:
    reply = agent.post(path, content=body)
    assert reply.status_code == status
    assert says in reply.json()["error"]["message"]
    assert agent.get("/health").status_code == 200


def test_documents_of_a_caller_are_searched_and_deleted_by_scope(agent: httpx.Client) -> None:
    def call(name: str, **body: Any) -> Any:
        reply = agent.post(f"/v1/retriever/{name}", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def find(scope: str) -> list[str]:
        return [hit["id"] for hit in call("search", query="blue apples", scope_prefix=scope)["hits"]]

    texts = {"a:1": "a red apple", "a:2": "a blue apple", "b:1": "a blue apple"}
    call("ingest", documents=[{"id": id, "text": text} for id, text in texts.items()])
    assert (find("a:"), find("b:"), find("c:")) == (["a:2", "a:1"], ["b:1"], [])
    assert call("ingest", documents=[{"id": "a:1", "title": "Pears", "text": "the"}]) == {"ingested": 1}
    assert find("a:") == ["a:2"]
    assert call("delete", scope_prefix="a:") == {"deleted": 2}
    assert (find("a:"), find("")) == ([], ["b:1"])
    assert call("delete", scope_prefix="b") == {"deleted": 1}
    assert ask(agent, "How long is the free trial?")["contexts"], "the help pages are not theirs"


def test_an_unknown_page_is_not_found(agent: httpx.Client) -> None:
    assert agent.get("/").status_code == 404


def test_stops_on_sigterm_with_a_connection_open() -> None:
    with running_agent() as (process, url), httpx.Client(base_url=url, timeout=60) as client:
        client.get("/health")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_taken_port_is_one_line(agent: httpx.Client) -> None:
    command = [sys.executable, str(SERVER), "--port", str(agent.base_url.port)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert len(second.stderr.splitlines()) == 1
    assert f"cannot listen on port {agent.base_url.port}" in second.stderr


def test_the_manifest_names_every_dataset() -> None:
    loaded = load_manifest(ROOT / "agent.yaml.example")
    paths = [loaded.references.path(dataset.path) for dataset in loaded.manifest.spec.evaluation.datasets]
    assert [path.stem for path in paths] == list(DATASETS)
    assert loaded.manifest.spec.evaluation.ci_gate.enabled


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_is_valid_and_labelled_against_the_corpus(name: str) -> None:
    loaded = load_dataset(Source(ROOT / "evals" / f"{name}.jsonl", name))
    assert (loaded.problems, loaded.warnings) == ((), ())
    texts = {page["text"] for page in CORPUS.values()}
    for sample in loaded.samples:
        assert sample.tags, sample.id
        assert sample.reference, sample.id
        assert set(sample.qrels or ()) <= CORPUS.keys(), sample.id
        passages = (*(sample.retrieved_contexts or ()), *(sample.reference_contexts or ()))
        assert set(passages) <= texts, sample.id


def test_datasets_and_corpus_have_their_size_and_distinct_ids() -> None:
    rows = {name: read_lines(name) for name in DATASETS}
    ids = [row["id"] for name in DATASETS for row in rows[name]]
    assert len(set(ids)) == len(ids) >= 80
    assert len(CORPUS) == len(read_lines("corpus")) >= 30
    grades = {grade for row in rows["retrieval"] for grade in row["relevant"].values()}
    assert grades == {0, 1, 2, 3}
    assert sum(isinstance(row["input"], list) for row in rows["rag"]) >= 2
    assert sum(row["relevant"] == {} for row in rows["retrieval"]) >= 2
    assert all(row["reference_contexts"] for row in rows["rag"])


@pytest.mark.parametrize("name", ["rag", "accuracy"])
def test_recorded_contexts_are_what_the_agent_retrieves(agent: httpx.Client, name: str) -> None:
    for row in read_lines(name):
        live = [context["text"] for context in ask(agent, row["input"])["contexts"]]
        assert row["context"], row["id"]
        assert row["context"] == live[: len(row["context"])], row["id"]


def test_the_agent_is_mostly_right_and_makes_mistakes(agent: httpx.Client) -> None:
    regression = read_lines("regression")
    matches = [row["expected"].lower() in ask(agent, row["input"])["response"].lower() for row in regression]
    assert 0.6 < sum(matches) / len(matches) < 0.9

    recalls = []
    for row in read_lines("retrieval"):
        relevant = {page for page, grade in row["relevant"].items() if grade > 0}
        if relevant:
            found = {context["id"] for context in ask(agent, row["input"])["contexts"]}
            recalls.append(len(found & relevant) / len(relevant))
    assert 0.6 < sum(recalls) / len(recalls) < 0.9


def test_the_support_questions_against_the_agents_retriever(agent: httpx.Client, tmp_path: Path) -> None:
    loaded = load_dataset(Source(FAQ, FAQ.name))
    documents, defaults = loaded.content.documents or (), loaded.content.defaults
    assert (loaded.format, loaded.problems, loaded.warnings) == ("unrag", (), ())
    assert (len(documents), defaults.settings["scopePrefix"]) == (15, SCOPE)
    for document in documents:
        page = CORPUS[document.id.removeprefix(SCOPE)]
        assert document.text == f"{page['title']}\n{page['text']}"
    answerable = [sample for sample in loaded.samples if sample.qrels]
    assert len(loaded.samples) > len(answerable) >= 25
    assert check_http(RETRIEVER) == []

    async def session() -> list[Retrieval]:
        retriever = RemoteRetriever(RETRIEVER, str(agent.base_url), choose_route("http://localhost"))
        options: dict[str, Any] = {"name": "example", "store": str(agent.base_url), "queries": len(answerable)}
        plan = plan_ingest(
            retriever, documents, SCOPE, cleanup=Cleanup.ALWAYS, ids_need_prefix=True, batch_size=4, **options
        )

        async def ask_all() -> list[Retrieval]:
            return [await retriever.search(SearchRequest(sample.question, 5, SCOPE)) for sample in answerable]

        try:
            done = await ask_ingested(plan, retriever, ask_all, locks=tmp_path, tell=print)
            assert done.left_behind is None
            assert (await retriever.search(SearchRequest("refund", 5, SCOPE))).hits == ()
            return done.result
        finally:
            await retriever.aclose()

    best = [
        [hit.document in (sample.qrels or {}) for hit in found.hits]
        for sample, found in zip(answerable, asyncio.run(session()), strict=True)
    ]
    hit_rate = sum(map(any, best)) / len(best)
    reciprocal_rank = sum(1 / (1 + hits.index(True)) for hits in best if any(hits)) / len(best)
    limits = defaults.thresholds
    assert limits["Success@5"][0] <= hit_rate < 1
    assert limits["RR@5"][0] <= reciprocal_rank < 1


def test_the_example_of_retrievers_compares_them_all(tmp_path):
    """The service over real HTTP beside the baselines, on the dataset in Unrag's format, as its manifest has it."""
    manifest = str(ROOT / "examples" / "retrievers" / "agent.yaml")
    with running_agent() as (_, url):
        command = [sys.executable, "-m", "evalspec", "evaluate", manifest, "--url", url, "--json"]
        one = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        chosen = [*command, "--retriever", "all", "--best-by", "nDCG@5", "--max-latency", "2000"]
        every = subprocess.run(chosen, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert one.returncode == 0, one.stderr
    (dataset,) = json.loads(one.stdout)["datasets"]
    assert (dataset["selected"], dataset["retriever"]["name"]) == (27, "service")
    assert dataset["metrics"]["Success@5"]["value"] == pytest.approx(24 / 26)
    assert every.returncode == 0, every.stderr
    document = json.loads(every.stdout)
    names = [document["baseline"]["name"], *(candidate["name"] for candidate in document["candidates"])]
    assert names == ["service", "bm25", "dense", "hybrid[rrfK=10]", "hybrid[rrfK=60]"]
    assert document["best"][0]["retriever"] == "dense"
