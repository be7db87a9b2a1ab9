"""What the tests of retrievers say to one, in one event loop each."""

import asyncio
from collections import Counter

from evalspec.model import Document
from evalspec.scoring.judge.embeddings import LocalEmbedder
from evalspec.targets.retrievers.base import Hit, SearchRequest
from evalspec.targets.retrievers.vectors import TextVectors

SCOPE = "eval:test:"


def make_documents(**texts):
    """Documents by id and text."""
    return [Document(id, text) for id, text in texts.items()]


def run(session):
    """The result of a coroutine."""
    return asyncio.run(session)


async def fill(retriever, documents, scope=SCOPE):
    """Ingest and make ready, as a run does it."""
    await retriever.prepare(scope)
    lost = await retriever.ingest(documents, scope)
    await retriever.prepare(scope)
    return lost


async def ask(retriever, query, top_k=10, scope=SCOPE):
    """The hits of a query."""
    return list((await retriever.search(SearchRequest(query, top_k, scope))).hits)


async def ask_ids(retriever, query, top_k=10, scope=SCOPE):
    """The ids of the hits."""
    return [hit.id for hit in await ask(retriever, query, top_k, scope)]


def find_hits(retriever, documents, query, top_k=10):
    """The hits of one query over documents, from ingest to close."""

    async def session():
        await fill(retriever, documents)
        hits = await ask(retriever, query, top_k)
        await retriever.aclose()
        return hits

    return run(session())


def make_hits(*ids):
    """Hits of documents, without scores."""
    return [Hit(id) for id in ids]


class CountingEmbedder:
    """The local model, with a count of how often each text was embedded."""

    def __init__(self):
        self.inner = LocalEmbedder()
        self.seen = Counter()

    async def load(self):
        await self.inner.load()

    async def embed(self, texts):
        self.seen.update(texts)
        return await self.inner.embed(texts)


def vectors_of(embedder):
    """The vectors of one embedder."""
    return TextVectors(lambda: embedder)
