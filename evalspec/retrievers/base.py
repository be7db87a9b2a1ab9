"""What a retriever under test is asked and answers, and what else it may be able to do.

`Retriever` is all that every one can do. The other protocols are told by `isinstance`, which looks for their methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from evalspec.errors import RetrieverError
from evalspec.model import Document


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One query. `scope_prefix`: where to look, empty for everywhere. `filters`: as the retriever understands them."""

    query: str
    top_k: int
    scope_prefix: str = ""
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. `document_id`: what the chunk `id` was cut from; None where `id` is itself a document."""

    id: str
    document_id: str | None = None
    score: float | None = None
    text: str | None = None

    @property
    def document(self) -> str:
        """The id of the document that this hit counts for."""
        return self.id if self.document_id is None else self.document_id


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hits, best first, and what the stages took in ms as far as the retriever knows: `embed`, `retrieve`, `rerank`."""

    hits: tuple[Hit, ...]
    timings_ms: Mapping[str, float] = field(default_factory=dict)


class Retriever(Protocol):
    """Finds what a query is about. One object serves all workers of a run, on one event loop."""

    async def search(self, request: SearchRequest) -> Retrieval:
        """`top_k` hits at most, best first; one attempt, without retries.

        Raises:
            RetrieverError: no usable answer; it says whether another attempt may help.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """Has something that the first search would otherwise wait for."""

    async def prepare(self, scope_prefix: str) -> None:
        """Load models, see that a store answers, index what is in the scope. Calling it again costs nothing.

        To be called before anything is deleted, so that what is missing is found in time, and after ingest.

        Raises:
            InvalidInput: a package is missing or broken.
            RetrieverError: the store does not answer, or holds something else.
        """
        ...


@runtime_checkable
class Ingests(Protocol):
    """Can index documents."""

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Index one batch; a document that is there already is replaced.

        Returns the ids of those that can never be found, because nothing in them can be searched.

        Raises:
            RetrieverError: the batch, or a part of it, is not indexed.
        """
        ...


@runtime_checkable
class Deletes(Protocol):
    """Can forget documents."""

    async def delete(self, scope_prefix: str) -> None:
        """Forget all documents of a scope; none being there is no error.

        Raises:
            RetrieverError: some may be left.
        """
        ...


@runtime_checkable
class Reranks(Protocol):
    """Can bring hits into a better order."""

    async def rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """The best `top_k` of the hits.

        Raises:
            RetrieverError: no usable answer; it says whether another attempt may help.
        """
        ...


def collapse_hits(hits: Iterable[Hit]) -> list[Hit]:
    """One hit for each document, its first, in their order. Cut after this, never before."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.document, hit)
    return list(first.values())


def match_reranked(found: Sequence[Hit], given: Sequence[Hit], top_k: int) -> tuple[Hit, ...]:
    """Return the best hits as they were given, in their new order and with their new scores.

    Raises:
        RetrieverError: a hit is not among those given.
    """
    known = {hit.id: hit for hit in reversed(given)}
    unknown = [hit.id for hit in found if hit.id not in known]
    if unknown:
        raise RetrieverError(f"rerank: the answer has '{unknown[0]}', which is not among the {len(given)} hits given")
    return tuple(replace(known[hit.id], score=hit.score) for hit in found[:top_k])


def refuse_filters(name: str, request: SearchRequest) -> None:
    """Say so where a retriever has no filters, instead of searching without them.

    Raises:
        RetrieverError: the request has filters.
    """
    if request.filters:
        raise RetrieverError(f"{name} has no filters, and the query asks for {', '.join(sorted(request.filters))}")
