"""Create the retriever of a target in the manifest.

Built-in retrievers and those of installed packages (entry point group `evalspec.retrievers`) are found by name. The
hybrid fuses two of them by reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from math import fsum
from typing import Any, Protocol, cast

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, RetrieverError
from evalspec.base.registry import Registry, returned
from evalspec.inputs.manifest.retriever_schema import (
    Bm25Options,
    BuiltinOptions,
    HttpTarget,
    HybridOptions,
    PythonTarget,
    RetrieverTarget,
)
from evalspec.model import Document
from evalspec.targets.http.keys import KeyPlace
from evalspec.targets.retrievers.base import Deletes, Hit, Ingests, Prepares, Retrieval, Retriever, SearchRequest
from evalspec.targets.retrievers.bm25 import Bm25Retriever
from evalspec.targets.retrievers.qdrant import QdrantRetriever
from evalspec.targets.retrievers.vectors import DenseRetriever, TextVectors


class RetrieverFactory(Protocol):
    """Makes retrievers."""

    def __call__(self, options: Any, vectors: TextVectors, /) -> Retriever:
        """Return the retriever for some options, with the vectors that all retrievers of a run share.

        Nothing is loaded or connected yet. Options of a plug-in are in `options.model_extra`, unchecked.

        Raises:
            InvalidInput: an option is wrong, or a package is missing.
        """
        ...


RETRIEVERS: Registry[RetrieverFactory] = Registry("builtin retriever", "evalspec.retrievers")


def open_retriever(target: RetrieverTarget, url: str | None, place: KeyPlace, vectors: TextVectors) -> Retriever:
    """Return the retriever. Nothing is loaded, called or connected yet, except that the user's own module is imported.

    `target`: with references resolved. `url`: for a service without its own. `place`: of the manifest.

    Raises:
        InvalidInput: a package is missing, an option is wrong, or the user's code cannot be imported.
    """
    if isinstance(target, HttpTarget):
        from evalspec.targets.retrievers.http_target import RemoteRetriever

        return RemoteRetriever(target.http, target.http.url or url or "", place=place)
    if isinstance(target, PythonTarget):
        from evalspec.targets.retrievers.python_target import OwnRetriever

        return OwnRetriever(target, place.folder)
    return create_builtin(target, vectors)


def create_builtin(options: BuiltinOptions, vectors: TextVectors) -> Retriever:
    """Return the retriever of a `{builtin: …}` target with resolved references. Nothing is loaded or opened yet.

    Raises:
        InvalidInput: the name is unknown, an option is wrong, or a package is missing.
    """
    create = RETRIEVERS.find(options.builtin)
    if create is None:
        raise InvalidInput(f"unknown builtin retriever '{options.builtin}'", RETRIEVERS.hint(options.builtin))
    if not RETRIEVERS.is_plugin(options.builtin):
        return create(options, vectors)
    with RETRIEVERS.attribute_errors(options.builtin):
        return cast(Retriever, _Guarded(create(options, vectors), options.builtin))


_METHODS = ("search", "rerank", "prepare", "ingest", "delete", "aclose")


class _Guarded:
    """A plugin's retriever, whose exceptions are reported with the plugin's name. It has the plugin's methods, so
    that `isinstance` with the protocols of retrievers.base gives the same result.
    """

    def __init__(self, retriever: Retriever, name: str) -> None:
        if not hasattr(retriever, "search"):
            raise TypeError(f"it returned {type(retriever).__name__}, which has no method search")
        for attribute in _METHODS:
            if hasattr(retriever, attribute):
                setattr(self, attribute, _guard(getattr(retriever, attribute), attribute, name))

    async def aclose(self) -> None:
        """Do nothing if the plugin has no such method."""


def _guard(method: Callable[..., Any], kind: str, name: str) -> Callable[..., Awaitable[Any]]:
    async def guarded(*given: Any) -> Any:
        with RETRIEVERS.attribute_errors(name, RetrieverError):
            result = await returned(method(*given), Awaitable)  # type: ignore[type-abstract]
            if kind in ("search", "rerank"):
                hits = [returned(hit, Hit) for hit in returned(result, Retrieval).hits]
                return replace(result, hits=tuple(hits))
            return returned(result, Sequence) if kind == "ingest" else result  # type: ignore[type-abstract]

    return guarded


def _create_hybrid(options: HybridOptions, vectors: TextVectors) -> Retriever:
    bm25 = Bm25Retriever(Bm25Options(builtin="bm25"))
    return HybridRetriever(bm25, DenseRetriever(vectors), options.rrf_k)


RETRIEVERS.add("bm25", lambda options, _vectors: Bm25Retriever(options))
RETRIEVERS.add("dense", lambda _options, vectors: DenseRetriever(vectors))
RETRIEVERS.add("hybrid", _create_hybrid)
RETRIEVERS.add("qdrant", QdrantRetriever)


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
