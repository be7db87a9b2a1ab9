"""The interface of a retriever under test.

Every retriever implements `Retriever`. The other protocols are optional, and detected by `isinstance`, which checks for
their methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from evalspec.base.errors import RetrieverError
from evalspec.model import Document


class SearchRequest(Struct, frozen=True):
    """One query. `scope_prefix`: the scope to search, empty for all. `filters`: in the retriever's own syntax.

    `query`: empty if the query has no words. `input`: its whole structured input, `{"query": query}` if it is only a
    question; files in it are absolute paths (`pathlib.Path`). `metadata`: of the sample.
    """

    query: str
    top_k: int
    scope_prefix: str = ""
    filters: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Complete the input of a question."""
        if not self.input:
            force_setattr(self, "input", {"query": self.query})


class Hit(Struct, frozen=True):
    """One result. `document_id`: the document of the chunk `id`; None if `id` is itself a document."""

    id: str
    document_id: str | None = None
    score: float | None = None
    text: str | None = None

    @property
    def document(self) -> str:
        """The id of the document that this hit counts for."""
        return self.id if self.document_id is None else self.document_id


class Retrieval(Struct, frozen=True):
    """Hits, best first, and the known durations of the stages in ms: `embed`, `retrieve`, `rerank`."""

    hits: tuple[Hit, ...]
    timings_ms: Mapping[str, float] = field(default_factory=dict)


class Retriever(Protocol):
    """Searches documents. One object serves all workers of a run, on one event loop."""

    async def search(self, request: SearchRequest) -> Retrieval:
        """Return at most `top_k` hits, best first. One attempt, without retries.

        Raises:
            RetrieverError: there is no usable answer. The error says whether to retry.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A retriever that can be prepared, so that the first search does not wait."""

    async def prepare(self, scope_prefix: str) -> None:
        """Load models, check that the store answers, and index the scope. Repeated calls cost nothing.

        Called before anything is deleted, to detect missing requirements in time, and again after ingest.

        Raises:
            InvalidInput: a package is missing or broken.
            RetrieverError: the store does not answer, or has incompatible content.
        """
        ...


@runtime_checkable
class Ingests(Protocol):
    """A retriever that can index documents."""

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Index one batch. Existing documents are replaced.

        Returns the ids of documents that can never be found, because they have no searchable content.

        Raises:
            RetrieverError: some of the batch may not be indexed.
        """
        ...


@runtime_checkable
class Deletes(Protocol):
    """A retriever that can delete documents."""

    async def delete(self, scope_prefix: str) -> None:
        """Delete all documents of a scope. An empty scope is not an error.

        Raises:
            RetrieverError: some documents may remain.
        """
        ...


@runtime_checkable
class Reranks(Protocol):
    """A retriever that can rerank hits."""

    async def rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """Return the best `top_k` of the hits.

        Raises:
            RetrieverError: there is no usable answer. The error says whether to retry.
        """
        ...


def collapse_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return the first hit of each document, in order. Truncate rankings after this, never before."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.document, hit)
    return list(first.values())


def match_reranked(found: Sequence[Hit], given: Sequence[Hit], top_k: int) -> tuple[Hit, ...]:
    """Return the best hits of those given, in their new order and with their new scores.

    Raises:
        RetrieverError: a hit is not one of those given.
    """
    known = {hit.id: hit for hit in reversed(given)}
    unknown = [hit.id for hit in found if hit.id not in known]
    if unknown:
        raise RetrieverError(f"rerank: the reply has '{unknown[0]}', which is not one of the {len(given)} hits sent")
    return tuple(replace(known[hit.id], score=hit.score) for hit in found[:top_k])


def refuse_filters(name: str, request: SearchRequest) -> None:
    """Refuse a request with filters for a retriever without them, instead of ignoring the filters.

    Raises:
        RetrieverError: the request has filters.
    """
    if request.filters:
        raise RetrieverError(f"{name} does not support filters, but the query has {', '.join(sorted(request.filters))}")
