"""Exact cosine, what is embedded how often, and an embedder that fails."""

import numpy as np
import pytest

from evalspec.base.errors import JudgeError, MetricError, RetrieverError
from evalspec.model import Document
from evalspec.scoring.judge.embeddings import LocalEmbedder, compute_cosine
from evalspec.targets.retrievers.vectors import DenseRetriever
from retrievers.asking import SCOPE, CountingEmbedder, ask, ask_ids, fill, find_hits, make_documents, run, vectors_of

pytest.importorskip("wordllama")

TEXTS = ("a cat on a mat", "the dog barks", "stock exchange", "a cat and a dog", "wings of an aeroplane")


def dense(embedder=None):
    return DenseRetriever(vectors_of(embedder or LocalEmbedder()))


def test_scores_are_the_cosines():
    documents = [Document(f"d{number}", text) for number, text in enumerate(TEXTS)]
    query = "cats and dogs"
    *vectors, asked = run(LocalEmbedder().embed([*TEXTS, query]))
    cosines = {document.id: compute_cosine(vector, asked) for document, vector in zip(documents, vectors, strict=True)}
    hits = find_hits(dense(), documents, query)
    assert {hit.id: hit.score for hit in hits} == pytest.approx(cosines, abs=1e-6)
    assert [hit.id for hit in hits] == sorted(cosines, key=cosines.__getitem__, reverse=True)


def test_equal_texts_score_the_same_and_stand_by_id():
    """Equal rows of one matrix may come out of one product with different last bits."""
    documents = [Document(f"{number:02}", TEXTS[number % 2]) for number in range(43)]

    async def session():
        retriever = dense()
        await fill(retriever, documents)
        return [await ask(retriever, query, top_k) for query in TEXTS for top_k in (43, 7)]

    found = run(session())
    for whole, beginning in zip(found[::2], found[1::2], strict=True):
        assert len({hit.score for hit in whole}) == 2
        assert whole == sorted(whole, key=lambda hit: (hit.score, hit.id), reverse=True)
        assert beginning == whole[:7]


def test_a_document_is_embedded_once_in_a_run_and_a_query_each_time():
    embedder = CountingEmbedder()
    vectors = vectors_of(embedder)

    async def session():
        for retriever in (DenseRetriever(vectors), DenseRetriever(vectors)):
            await fill(retriever, make_documents(one="a cat", two="a cat", three="a dog"))
            await fill(retriever, make_documents(one="a cat", four="a bird"), "eval:other:")
            await ask(retriever, "which cat")

    run(session())
    assert embedder.seen == {"a cat": 1, "a dog": 1, "a bird": 1, "which cat": 2}


class PickyEmbedder(CountingEmbedder):
    """Has no direction for some texts, as a model that lacks their words, and may be down."""

    down = False

    async def embed(self, texts):
        assert texts, "a service may refuse a request for nothing"
        assert all(text.strip() for text in texts), "a service may refuse a blank text and its whole batch"
        if self.down:
            raise JudgeError("the embeddings service answered 500", retryable=True)
        rows = await super().embed([text.replace("§", "") or "x" for text in texts])
        bad = [text for text in texts if "§" in text]
        if bad:
            raise MetricError(f"the embedding of {bad[0]!r} has no direction to compare")
        return np.asarray(rows)


def test_texts_without_a_vector_are_found_among_the_others():
    documents = [
        Document(f"d{number}", f"§{number}" if number in (0, 5, 6) else f"cat {number}") for number in range(9)
    ]

    documents.append(Document("blank", " "))

    async def session():
        retriever = dense(PickyEmbedder())
        lost = [*await fill(retriever, documents), *await fill(retriever, make_documents(empty=""))]
        with pytest.raises(RetrieverError, match="the embedding of the query '§' is zero or not finite"):
            await ask(retriever, "§")
        return lost, await ask_ids(retriever, "cat")

    lost, found = run(session())
    assert list(lost) == ["d0", "d5", "d6", "blank", "empty"]
    assert sorted(found) == ["d1", "d2", "d3", "d4", "d7", "d8"]


def test_a_service_that_fails_loses_no_document_in_silence():
    embedder = PickyEmbedder()

    async def session():
        retriever = dense(embedder)
        await fill(retriever, make_documents(one="a cat"))
        embedder.down = True
        for failing in (retriever.ingest(make_documents(two="a dog"), SCOPE), ask(retriever, "cat")):
            with pytest.raises(RetrieverError, match="the embeddings service answered 500") as caught:
                await failing
            assert not caught.value.retryable  # the embedder has repeated it already
        embedder.down = False
        return await ask_ids(retriever, "cat")

    assert run(session()) == ["one"]
