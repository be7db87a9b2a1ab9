"""Use a retriever as an agent: a query becomes one ranking of distinct documents.

The same rule applies before and after reranking: chunks collapse to their document at its first rank, and the ranking
is truncated afterwards. If too few documents remain, the search is repeated with more chunks.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import RetrieverError
from evalspec.inputs.datasets.query_input import QueryInput, describe_question, open_files
from evalspec.model import AgentReply, RetrieverSettings, Sample, SearchTrace
from evalspec.model.fingerprints import RetrieverMode
from evalspec.targets.retrievers.base import Hit, Reranks, Retriever, SearchRequest, collapse_hits

RERANK_FACTOR = 3
"""Candidates per requested document if nothing sets the number of documents to rerank."""

DEFAULT_TOP_K = 10
"""Documents of a ranking if neither the settings nor the metrics of the dataset say how many."""

DEFAULT = "default"
"""The origin of a setting with its default value."""

_MOST_SEARCHES = 5


class QueryOverrides(Struct, frozen=True):
    """Settings of one query that override the dataset's; None if the query has none."""

    top_k: int | None = None
    rerank_top_k: int | None = None
    scope_prefix: str | None = None


class QuerySettings(Struct, frozen=True):
    """How to query a retriever for one dataset.

    `overrides`: by sample id. `corpus`: the ids of all documents, None if unknown. `timeout_seconds`: for a query with
    its reranking; None if the timeouts of the retriever's own calls apply. `find_input`: returns a query's input.
    `folder`: the dataset's, in which the files of inputs are.
    """

    settings: RetrieverSettings
    filters: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, QueryOverrides] = field(default_factory=dict)
    corpus: Collection[str] | None = None
    timeout_seconds: float | None = None
    find_input: Callable[[Sample], QueryInput] = describe_question
    folder: Path = Path()


class RetrieverAgent:
    """Queries a retriever. One object serves all workers of a run. Its owner closes the retriever."""

    def __init__(self, retriever: Retriever, query_settings: QuerySettings) -> None:
        self._retriever = retriever
        self._how = query_settings
        self._settings = query_settings.settings

    async def ask(self, sample: Sample) -> AgentReply:
        """Return the ranking of the documents. `latency_ms` covers search and reranking, but not the deep search.

        Raises:
            RetrieverError: there is no usable answer. The error says whether to retry.
        """
        own = self._how.overrides.get(sample.id, QueryOverrides())
        top_k = own.top_k or self._settings.top_k
        timings: Counter[str] = Counter()
        reranks = self._settings.mode == RetrieverMode.RERANK
        wanted = self._count_candidates(own, top_k) if reranks else top_k
        request = self._build_request(sample, wanted, own)
        started = perf_counter()
        async with self._in_time():
            found, oddities = await self._search(request, timings)
            final = await self._rerank(sample.question, found, top_k, timings) if reranks else found
        latency = (perf_counter() - started) * 1000
        ranking = collapse_hits(final)[:top_k]
        deep = None
        if self._settings.depth > top_k and _misses_something(sample, ranking, self._settings.min_grade):
            deep = await self._search_deep(request, oddities)
        oddities["fewer"] = int(len(ranking) < top_k)
        return AgentReply(
            response="",
            retrieved_contexts=_texts(ranking),
            retrieved_context_ids=_documents(ranking),
            latency_ms=latency,
            candidate_ids=_documents(collapse_hits(found)[:top_k]) if reranks else None,
            deep_ids=deep,
            trace=SearchTrace(dict(timings), {kind: count for kind, count in oddities.items() if count}),
        )

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        from asyncio import timeout

        limit = self._how.timeout_seconds
        try:
            async with timeout(limit):
                yield
        except TimeoutError:
            raise RetrieverError(f"no ranking within {limit:g} s", retryable=True) from None

    async def aclose(self) -> None:
        """Do nothing: other workers use the retriever too."""

    def _build_request(self, sample: Sample, wanted: int, own: QueryOverrides) -> SearchRequest:
        return SearchRequest(
            query=sample.question if sample.has_words else "",
            top_k=wanted,
            scope_prefix=self._settings.scope_prefix if own.scope_prefix is None else own.scope_prefix,
            filters=self._how.filters,
            input=open_files(self._how.find_input(sample), self._how.folder),
            metadata=sample.metadata,
        )

    def _count_candidates(self, own: QueryOverrides, top_k: int) -> int:
        """Return how many documents to rerank, at least as many as requested."""
        is_decided = self._settings.origins.get("rerankTopK", DEFAULT) != DEFAULT
        given = own.rerank_top_k or (self._settings.rerank_top_k if is_decided else None)
        return max(top_k, given or RERANK_FACTOR * top_k)

    async def _search(self, request: SearchRequest, timings: Counter[str]) -> tuple[list[Hit], Counter[str]]:
        """Return the hits of the first `top_k` distinct documents, and counts of irregularities among all hits."""
        wanted = asked = request.top_k
        searches = 0
        while True:
            searches += 1
            found = await self._retriever.search(replace(request, top_k=asked))
            timings.update(found.timings_ms)
            documents = [hit.document for hit in collapse_hits(found.hits)]
            if len(documents) >= wanted or len(found.hits) < asked or searches == _MOST_SEARCHES:
                break
            asked = max(2 * asked, ceil(asked * wanted / max(1, len(documents))))
        kept = set(documents[:wanted])
        oddities = count_oddities(found.hits, self._how.corpus) + Counter(askedAgain=searches - 1)
        return [hit for hit in found.hits if hit.document in kept], oddities

    async def _rerank(self, query: str, hits: Sequence[Hit], top_k: int, timings: Counter[str]) -> Sequence[Hit]:
        """Return the hits in their new order. Of chunks all are requested, so that collapsing loses no document."""
        if not isinstance(self._retriever, Reranks):
            raise RetrieverError(f"{self._settings.name} does not support rerank")
        if not hits:
            return hits
        is_distinct = len({hit.document for hit in hits}) == len(hits)
        reranked = await self._retriever.rerank(query, hits, min(top_k, len(hits)) if is_distinct else len(hits))
        timings.update(reranked.timings_ms)
        return reranked.hits

    async def _search_deep(self, request: SearchRequest, oddities: Counter[str]) -> tuple[str, ...] | None:
        """Return the ranking to the depth of the diagnosis; None if this fails, which does not fail the query."""
        try:
            found, _ = await self._search(replace(request, top_k=self._settings.depth), Counter())
        except RetrieverError:
            oddities["undiagnosed"] += 1
            return None
        return _documents(collapse_hits(found))


def count_oddities(hits: Sequence[Hit], corpus: Collection[str] | None = None) -> Counter[str]:
    """Count irregularities of a search that are not errors. `corpus`: the ids of all documents, if known.

    `duplicates`: hits with the id of an earlier hit (the first one counts). `outOfOrder`: hits with a higher score than
    their predecessor (the retriever's order is kept). `unknown`: hits of documents that are not in the corpus.
    """
    scores = [hit.score for hit in hits if hit.score is not None]
    return Counter(
        duplicates=len(hits) - len({hit.id for hit in hits}),
        outOfOrder=sum(later > earlier for earlier, later in pairwise(scores)),
        unknown=0 if corpus is None else sum(hit.document not in corpus for hit in hits),
    )


def _documents(hits: Iterable[Hit]) -> tuple[str, ...]:
    return tuple(hit.document for hit in hits)


def _texts(hits: Sequence[Hit]) -> tuple[str, ...] | None:
    """Return the passages if the retriever returns a text for every hit."""
    texts = tuple(hit.text for hit in hits if hit.text is not None)
    return texts if len(texts) == len(hits) else None


def _misses_something(sample: Sample, ranking: Sequence[Hit], min_grade: int) -> bool:
    found = {hit.document for hit in ranking}
    if sample.groups is not None:
        return any(found.isdisjoint(group) for group in sample.groups)
    return any(grade >= min_grade and name not in found for name, grade in (sample.qrels or {}).items())
