"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from collections import Counter
from collections.abc import Sequence
from math import fsum

from msgspec.structs import replace

from evalspec.base.errors import RetrieverError
from evalspec.model import Document
from evalspec.targets.retrievers.base import Deletes, Hit, Ingests, Prepares, Retrieval, Retriever, SearchRequest

FUSED_DEPTH = 100
"""The minimum depth of each fused ranking, so that a smaller `top_k` gives a prefix of a larger one."""


def fuse_rankings(rankings: Sequence[Sequence[Hit]], rrf_k: float) -> list[Hit]:
    """Return one ranking of all hits, scored by the sum of 1 / (rrf_k + rank) over the rankings, with ranks from 1.

    A repeated hit counts at its first rank. Equal scores are ordered by id, descending.
    """
    shares: dict[str, list[float]] = {}
    found: dict[str, Hit] = {}
    for ranking in rankings:
        first = {hit.id: hit for hit in reversed(ranking)}
        for rank, hit_id in enumerate(dict.fromkeys(hit.id for hit in ranking), 1):
            found.setdefault(hit_id, first[hit_id])
            shares.setdefault(hit_id, []).append(1 / (rrf_k + rank))
    fused = [replace(hit, score=fsum(shares[hit_id])) for hit_id, hit in found.items()]
    return sorted(fused, key=lambda hit: (hit.score, hit.id), reverse=True)


class HybridRetriever:
    """Queries two retrievers one after the other, and fuses their rankings."""

    def __init__(self, first: Retriever, second: Retriever, rrf_k: float) -> None:
        self._parts = (first, second)
        self._rrf_k = rrf_k

    async def prepare(self, scope_prefix: str) -> None:
        """Prepare both retrievers.

        Raises:
            InvalidInput: a package is missing or broken.
            RetrieverError: a store does not answer.
        """
        for part in self._parts:
            if isinstance(part, Prepares):
                await part.prepare(scope_prefix)

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Ingest a batch into both, and return the ids of documents that neither can find.

        Raises:
            RetrieverError: one of them does not support ingest, or failed.
        """
        lost = []
        for part in self._parts:
            if not isinstance(part, Ingests):
                raise RetrieverError(f"{type(part).__name__} in the hybrid does not support ingest")
            lost.append(set(await part.ingest(documents, scope_prefix)))
        return [document.id for document in documents if all(document.id in ids for ids in lost)]

    async def delete(self, scope_prefix: str) -> None:
        """Delete a scope from both.

        Raises:
            RetrieverError: one of them does not support delete, or failed.
        """
        for part in self._parts:
            if not isinstance(part, Deletes):
                raise RetrieverError(f"{type(part).__name__} in the hybrid does not support delete")
            await part.delete(scope_prefix)

    async def search(self, request: SearchRequest) -> Retrieval:
        """Return the top of the fused ranking. The duration of a stage is the sum over both.

        Raises:
            RetrieverError: one of them failed.
        """
        deeper = replace(request, top_k=max(request.top_k, FUSED_DEPTH))
        found = [await part.search(deeper) for part in self._parts]
        timings: Counter[str] = Counter()
        for retrieval in found:
            timings.update(retrieval.timings_ms)
        fused = fuse_rankings([retrieval.hits for retrieval in found], self._rrf_k)
        return Retrieval(tuple(fused[: request.top_k]), dict(timings))

    async def aclose(self) -> None:
        """Close both."""
        for part in self._parts:
            await part.aclose()
