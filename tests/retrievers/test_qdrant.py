"""A real Qdrant store: embedded in memory and on disk, and behind a url."""

import importlib.util
import socket

import pytest

from evalspec.base.errors import InvalidInput, MissingPackage, RetrieverError
from evalspec.inputs.manifest.retriever_schema import QdrantOptions
from evalspec.targets.retrievers import qdrant as module
from evalspec.targets.retrievers.qdrant import QdrantRetriever, list_scopes
from evalspec.targets.retrievers.vectors import DenseRetriever
from retrievers.asking import SCOPE, CountingEmbedder, ask, ask_ids, fill, make_documents, run, vectors_of

pytest.importorskip("wordllama")
if not importlib.util.find_spec("qdrant_client"):
    pytest.skip("qdrant-client is not installed", allow_module_level=True)

WORDS = ["wing", "flow", "heat", "shell", "plate", "shock", "layer", "speed", "panel", "jet", "body", "wave"]
TEXTS = {
    f"d{number}": f"{WORDS[number % 12]} {WORDS[number // 12 % 12]} in {WORDS[number * 7 % 12]}"
    for number in range(300)
}
DOCUMENTS = make_documents(**TEXTS)


def qdrant(**options):
    return QdrantRetriever(QdrantOptions(builtin="qdrant", **options), vectors_of(CountingEmbedder()))


def rank(retriever, queries=("heat of a shell", "jet speed", "shock wave")):
    """The rounded scores of the ids of each query, from ingest to close."""

    async def session():
        await fill(retriever, DOCUMENTS)
        found = [await ask(retriever, query, 300) for query in queries]
        await retriever.aclose()
        return [{hit.id: round(hit.score, 5) for hit in hits} for hits in found]

    return run(session())


@pytest.fixture
def server():
    from retrievers.qdrant_server import QdrantServer

    with QdrantServer() as server:
        yield server


def test_embedded_and_server_score_as_exact_cosine_does(server):
    exact = rank(DenseRetriever(vectors_of(CountingEmbedder())))
    assert rank(qdrant()) == exact
    assert rank(qdrant(url=server.url)) == exact
    upserts = [path for method, path, _ in server.seen if (method, path) == ("PUT", "/collections/evalspec/points")]
    assert len(upserts) == 2  # 256 points and the rest
    assert ("PUT", "/collections/evalspec/index", None) in server.seen


def test_a_folder_keeps_what_was_ingested(tmp_path):
    async def session():
        first = qdrant(path=str(tmp_path))
        await fill(first, DOCUMENTS[:30])  # each point is a commit to disk
        await first.aclose()
        second = qdrant(path=str(tmp_path))
        await second.prepare(SCOPE)
        found = await ask_ids(second, TEXTS["d7"], 3)
        await second.delete(SCOPE)
        await second.aclose()
        third = qdrant(path=str(tmp_path))
        with pytest.raises(RetrieverError, match="no document is indexed"):
            await ask(third, "wing")
        await third.aclose()
        return found

    assert "d7" in run(session())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock file open
def test_a_folder_in_use_is_one_line(tmp_path):
    async def session():
        first, second = qdrant(path=str(tmp_path)), qdrant(path=str(tmp_path))
        await first.prepare(SCOPE)
        try:
            with pytest.raises(
                InvalidInput, match=r"^the store of builtin: qdrant cannot be opened: [^\n]*already accessed"
            ):
                await second.prepare(SCOPE)
        finally:
            await first.aclose()

    run(session())


def test_the_api_key_goes_with_every_request(server):
    with pytest.warns(UserWarning, match="insecure connection"):
        rank(qdrant(url=server.url, api_key="k-1"))
    assert {key for _, _, key in server.seen} == {"k-1"}


@pytest.mark.parametrize(
    ("status", "body", "headers", "message", "retryable", "throttled"),
    [
        (
            401,
            b'{"status": {"error": "no  key"}}',
            {},
            r"401 .*; check qdrant\.apiKey; the reply says 'no key'$",
            False,
            False,
        ),
        (404, b"<html>", {}, r"404 Not Found, expected 200; check qdrant\.url$", False, False),
        (500, b'{"status": {"error": "disk full"}}', {}, r"500 .*; the reply says 'disk full'$", True, False),
        (503, b"", {}, r"503 Service Unavailable, expected 200$", True, True),
        (429, b"{}", {"retry-after": "7"}, r"is overloaded", True, True),
        (429, b"{}", {"retry-after": "Sat, 21 Nov 2026 10:00:00 GMT"}, r"is overloaded", True, True),
        (200, b"pong", {}, r"does not answer like Qdrant; check url", False, False),
    ],
)
def test_what_a_server_answers_is_told_in_one_line(server, status, body, headers, message, retryable, throttled):
    server.fault = (status, body, headers)
    with pytest.raises(RetrieverError, match=rf"127\.0\.0\.1:\d+.* {message}") as caught:
        rank(qdrant(url=server.url.replace("http://", "http://user:secret@")))
    error = caught.value
    assert "\n" not in str(error)
    assert "secret" not in str(error)
    assert (error.retryable, error.throttled) == (retryable, throttled)
    assert error.retry_after == (7 if headers.get("retry-after") == "7" else None)


def test_a_server_that_fails_later_keeps_what_it_has(server):
    async def session():
        retriever = qdrant(url=server.url)
        await fill(retriever, DOCUMENTS[:5])
        server.fault = (500, b"", {})
        for failing in (retriever.ingest(DOCUMENTS[5:9], SCOPE), retriever.delete(SCOPE), ask(retriever, "wing")):
            with pytest.raises(RetrieverError, match="answered 500"):
                await failing
        server.fault = None
        found = await ask_ids(retriever, "wing")
        await retriever.aclose()
        return found

    assert sorted(run(session())) == [f"d{number}" for number in range(5)]


def test_nobody_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(
        RetrieverError,
        match=rf"^qdrant: cannot connect to http://127\.0\.0\.1:{port}: connection refused; is Qdrant running",
    ) as caught:
        rank(qdrant(url=f"http://127.0.0.1:{port}"))
    assert caught.value.unreachable
    with pytest.raises(InvalidInput, match=r"cannot be opened: Unknown scheme: ftp\. check url"):
        rank(qdrant(url="ftp://store"))


@pytest.mark.parametrize(
    ("size", "distance", "message"),
    [
        (3, "Cosine", "'evalspec' has vectors of 3 dimensions, but the embeddings have 256. name another"),
        (256, "Dot", "'evalspec' does not have one vector per point, compared by cosine. name another collection"),
    ],
)
def test_a_collection_of_something_else_is_left_alone(tmp_path, size, distance, message):
    from qdrant_client import QdrantClient, models  # slow to import

    store = QdrantClient(path=str(tmp_path))
    vectors = models.VectorParams(size=size, distance=distance)
    store.create_collection("evalspec", vectors_config=vectors)
    store.close()

    async def session():
        retriever = qdrant(path=str(tmp_path))
        try:
            with pytest.raises(InvalidInput, match=message):
                await fill(retriever, DOCUMENTS)
            with pytest.raises(InvalidInput, match=message):
                await ask(retriever, "wing")
        finally:
            await retriever.aclose()

    run(session())


def test_a_prefix_ends_in_a_delimiter():
    assert list_scopes("eval:faq:re-fund/1") == ["eval:", "eval:faq:", "eval:faq:re-", "eval:faq:re-fund/"]

    async def session(call):
        retriever = qdrant()
        with pytest.raises(InvalidInput, match="separates scopes by delimiters, but 'docs' does not end in one"):
            await call(retriever)
        await retriever.aclose()

    run(session(lambda retriever: retriever.prepare("docs")))
    run(session(lambda retriever: retriever.ingest(DOCUMENTS, "docs")))
    run(session(lambda retriever: retriever.delete("docs")))
    run(session(lambda retriever: ask(retriever, "wing", scope="docs")))


def test_all_must_not_be_deleted_at_once():
    with pytest.raises(InvalidInput):
        run(qdrant().delete(""))


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"^[^\n]*qdrant-client[^\n]*'qdrant-client>=1\.14'$"):
        qdrant()
