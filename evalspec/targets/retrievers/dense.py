"""Exact cosine similarity of the run's embeddings, to measure a vector store's approximate index against."""

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.model import Document
from evalspec.targets.retrievers.base import Retrieval, SearchRequest, refuse_filters
from evalspec.targets.retrievers.scopes import Scopes, Stored, nothing_indexed, searchable_text, take_top
from evalspec.targets.retrievers.vectors import TextVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.targets.retrievers.vectors import Vector

_NAME = "builtin: dense"


class _Index(Struct, frozen=True):
    """`rows`: the row in `matrix` of each of `documents`. Equal texts share a row, so that their scores are equal."""

    matrix: "NDArray[np.float32]"
    rows: "NDArray[np.intp]"
    documents: Sequence[Document]


class DenseRetriever:
    """Ranks all documents by the cosine of their vector and the query's. It always finds something."""

    def __init__(self, vectors: TextVectors) -> None:
        self._vectors = vectors
        self._scopes: Scopes[Vector, _Index] = Scopes(_build)

    async def prepare(self, scope_prefix: str) -> None:
        """Load the embedder and build the index of a scope.

        Raises:
            InvalidInput: a package that the embedder needs is missing or broken.
        """
        await self._vectors.load()
        await self._scopes.find_index(scope_prefix)

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Embed and store a batch, and return the ids of documents without a vector.

        Raises:
            RetrieverError: the embeddings service failed. Nothing of the batch is indexed.
        """
        vectors = await self._vectors.embed_documents([searchable_text(document) for document in documents])
        for document, vector in zip(documents, vectors, strict=True):
            self._scopes.put(document, scope_prefix, vector)
        return [document.id for document, vector in zip(documents, vectors, strict=True) if vector is None]

    async def delete(self, scope_prefix: str) -> None:
        """Delete a scope. The vectors of its texts are kept."""
        self._scopes.delete(scope_prefix)

    async def search(self, request: SearchRequest) -> Retrieval:
        """Return the best documents. Equal scores are ordered by id, descending.

        Raises:
            RetrieverError: nothing is indexed in the scope, the query has no vector, or the request has filters.
        """
        import numpy as np

        refuse_filters(_NAME, request)
        index = await self._scopes.find_index(request.scope_prefix)
        if index is None:
            raise nothing_indexed(request.scope_prefix)
        started = perf_counter()
        query = await self._vectors.embed_query(request.query)
        embedded = perf_counter()
        scores = (index.matrix @ query)[index.rows]
        hits = take_top(index.documents, scores, np.arange(len(scores)), request.top_k)
        timings = {"embed": 1000 * (embedded - started), "retrieve": 1000 * (perf_counter() - embedded)}
        return Retrieval(hits, timings)

    async def aclose(self) -> None:
        """Do nothing: the run closes the embedder."""


def _build(stored: Sequence[Stored["Vector"]]) -> _Index:
    import numpy as np

    row_of: dict[str, int] = {}
    distinct: list[Vector] = []
    rows = []
    for one in stored:
        text = searchable_text(one.document)
        if text not in row_of:
            row_of[text] = len(distinct)
            distinct.append(one.entry)
        rows.append(row_of[text])
    return _Index(np.vstack(distinct), np.array(rows, dtype=np.intp), [one.document for one in stored])
