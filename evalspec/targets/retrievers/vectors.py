"""Vectors of documents and queries, from the embedder of the run, and the retriever that compares them exactly."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from evalspec.base.errors import MetricError, RetrieverError, ServiceError
from evalspec.model import Document
from evalspec.targets.retrievers.base import Retrieval, SearchRequest, refuse_filters
from evalspec.targets.retrievers.scopes import Scopes, Stored, nothing_indexed, searchable_text, take_top

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

KnownVectors = dict[str, "Vector | None"]
"""Vectors by text; None for a text without one."""


class Embedder(Protocol):
    """Embeds texts as vectors of one length, none of them zero."""

    async def load(self) -> None:
        """Prepare what the first text would otherwise wait for.

        Raises:
            InvalidInput: a required package is missing or broken.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> "NDArray[Any]":
        """Return the vectors, one row per text, in order.

        Raises:
            MetricError: a text has no usable vector.
        """
        ...


class TextVectors:
    """Unit vectors in single precision.

    `known`: vectors of texts that were embedded before. New ones are added, so that each document is embedded once for
    all retrievers. Queries are embedded every time, because their latency is measured.
    """

    def __init__(self, find_embedder: Callable[[], Embedder], known: KnownVectors | None = None) -> None:
        """`find_embedder`: returns the run's embedder. Called when a text must be embedded."""
        self._find_embedder = find_embedder
        self._known: KnownVectors = {} if known is None else known

    async def load(self) -> None:
        """Load the embedder.

        Raises:
            InvalidInput: a required package is missing or broken.
        """
        await self._find_embedder().load()

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return the vector of each text; None if the model knows none of its words.

        Raises:
            RetrieverError: the embeddings service failed.
        """
        new = [text for text in dict.fromkeys(texts) if text.strip() and text not in self._known]
        self._known |= dict(zip(new, await self._embed(new), strict=True))
        return [self._known.get(text) for text in texts]

    async def embed_query(self, text: str) -> "Vector":
        """Return the vector of a query.

        Raises:
            RetrieverError: the query has no vector, or the embeddings service failed.
        """
        vector = (await self._embed([text]))[0]
        if vector is None:
            raise RetrieverError(f"the embedding of the query {text[:60]!r} is zero or not finite, so it has no cosine")
        return vector

    async def _embed(self, texts: "list[str]") -> "list[Vector | None]":
        """Return each text's vector; None for texts without one, which are found by halving."""
        import numpy as np

        if not texts:
            return []
        try:
            rows = await self._find_embedder().embed(texts)
        except ServiceError as error:
            raise RetrieverError(str(error)) from error
        except MetricError:
            if len(texts) == 1:
                return [None]
            middle = len(texts) // 2
            return [*await self._embed(texts[:middle]), *await self._embed(texts[middle:])]
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return list(unit.astype(np.float32))


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
