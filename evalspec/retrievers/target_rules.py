"""What holds for every retriever that is not evalspec's own, be it a service or the user's code."""

from collections.abc import Sequence
from dataclasses import replace

from evalspec.errors import AgentError, RetrieverError
from evalspec.retrievers.base import Hit


def match_reranked(found: Sequence[Hit], given: Sequence[Hit], top_k: int) -> tuple[Hit, ...]:
    """The best hits as they were given, in their new order and with their new scores.

    Raises:
        RetrieverError: a hit is not among those given.
    """
    known = {hit.id: hit for hit in reversed(given)}
    unknown = [hit.id for hit in found if hit.id not in known]
    if unknown:
        raise RetrieverError(f"rerank: the answer has '{unknown[0]}', which is not among the {len(given)} hits given")
    return tuple(replace(known[hit.id], score=hit.score) for hit in found[:top_k])


def name_call(kind: str, error: AgentError) -> RetrieverError:
    """The error of a call as one that says which call it was: search, rerank, ingest or delete."""
    return RetrieverError(
        f"{kind}: {error}",
        retryable=error.retryable,
        retry_after=error.retry_after,
        throttled=error.throttled,
        unreachable=error.unreachable,
    )
