"""What the tests of retrievers say to one, in one event loop each."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from evalspec.model import Document
from evalspec.scoring.judge.embeddings import LocalEmbedder
from evalspec.targets.retrievers.base import Hit, Retriever, SearchRequest
from evalspec.targets.retrievers.vectors import TextVectors

SCOPE = "eval:test:"
_Given = TypeVar("_Given")


def make_documents(**texts: str) -> list[Document]:
    """Documents by id and text."""
    return [Document(id, text) for id, text in texts.items()]


def run(session: Coroutine[Any, Any, _Given]) -> _Given:
    """The result of a coroutine."""
    return asyncio.run(session)


async def fill(retriever: Any, documents: Sequence[Document], scope: str = SCOPE) -> Any:
    """Ingest and make ready, as a run does it."""
    await retriever.prepare(scope)
    lost = await retriever.ingest(documents, scope)
    await retriever.prepare(scope)
    return lost


async def ask(retriever: Retriever, query: str, top_k: int = 10, scope: str = SCOPE) -> list[Hit]:
    """The hits of a query."""
    return list((await retriever.search(SearchRequest(query, top_k, scope))).hits)


async def ask_ids(retriever: Retriever, query: str, top_k: int = 10, scope: str = SCOPE) -> list[str]:
    """The ids of the hits."""
    return [hit.id for hit in await ask(retriever, query, top_k, scope)]


def find_hits(retriever: Retriever, documents: Sequence[Document], query: str, top_k: int = 10) -> list[Hit]:
    """The hits of one query over documents, from ingest to close."""

    async def session() -> list[Hit]:
        await fill(retriever, documents)
        hits = await ask(retriever, query, top_k)
        await retriever.aclose()
        return hits

    return run(session())


def make_hits(*ids: str) -> list[Hit]:
    """Hits of documents, without scores."""
    return [Hit(id) for id in ids]


class CountingEmbedder:
    """The local model, with a count of how often each text was embedded."""

    def __init__(self) -> None:
        self.inner = LocalEmbedder()
        self.seen: Counter[str] = Counter()

    async def load(self) -> None:
        await self.inner.load()

    async def embed(self, texts: Sequence[str]) -> Any:
        self.seen.update(texts)
        return await self.inner.embed(texts)


def vectors_of(embedder: Any) -> TextVectors:
    """The vectors of one embedder."""
    return TextVectors(lambda: embedder)
