"""Vectors of documents and queries, from the embedder of the run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from evalspec.base.errors import MetricError, RetrieverError, ServiceError

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
