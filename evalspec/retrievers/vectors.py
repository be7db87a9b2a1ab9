"""Vectors of documents and queries, from whatever embedder the run has."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from evalspec.errors import MetricError, RetrieverError, ServiceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

KnownVectors = dict[str, "Vector | None"]
"""Vectors by text; None for a text that has none."""


class Embedder(Protocol):
    """Turns texts into vectors of one length, with a direction each."""

    async def load(self) -> None:
        """Make ready what the first text would have to wait for.

        Raises:
            InvalidInput: a package that it needs is missing or broken.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> "NDArray[Any]":
        """One row for each text, in their order.

        Raises:
            MetricError: there is no usable vector for one of them.
        """
        ...


class TextVectors:
    """Unit vectors in single precision. `known`: of texts that were embedded before; new ones are added, so that each
    document is embedded once, however many retrievers are given it.

    Queries are embedded whenever they are asked: what that takes is part of what is measured.
    """

    def __init__(self, find_embedder: Callable[[], Embedder], known: KnownVectors | None = None) -> None:
        """`find_embedder`: gives the run's one embedder; not called before a text is to be embedded."""
        self._find_embedder = find_embedder
        self._known: KnownVectors = {} if known is None else known

    async def load(self) -> None:
        """Make the embedder ready.

        Raises:
            InvalidInput: a package that it needs is missing or broken.
        """
        await self._find_embedder().load()

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector | None]":
        """The vector of each text; None where it has none, for lack of words that the model knows.

        Raises:
            RetrieverError: the embeddings service failed.
        """
        new = [text for text in dict.fromkeys(texts) if text.strip() and text not in self._known]
        self._known |= dict(zip(new, await self._embed(new), strict=True))
        return [self._known.get(text) for text in texts]

    async def embed_query(self, text: str) -> "Vector":
        """The vector of a query.

        Raises:
            RetrieverError: it has none, or the embeddings service failed.
        """
        vector = (await self._embed([text]))[0]
        if vector is None:
            raise RetrieverError(f"the embedding of the query {text[:60]!r} has no direction to compare")
        return vector

    async def _embed(self, texts: "list[str]") -> "list[Vector | None]":
        """Each text's vector; those without one are found by halving."""
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
