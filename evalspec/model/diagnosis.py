"""Results of `ranking.diagnosis`: why rankings miss relevant documents."""

from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Number, Record


class MissingDocument(Record, frozen=True):
    """A relevant document that is not retrieved within the cut-off."""

    document: str
    grade: int
    rank: Annotated[int | None, Meta(description="Rank from 1 in the deep ranking; null: not retrieved there either.")]
    alternatives: Annotated[tuple[str, ...], Meta(description="Documents that would satisfy the query equally.")] = ()


class Intruder(Record, frozen=True):
    """An irrelevant document at a rank where a relevant one should be."""

    document: str
    rank: int
    grade: Annotated[int | None, Meta(description="null: unjudged.")]


class QueryDiagnosis(Record, frozen=True):
    """One query that misses relevant documents.

    `pushed_out_by`: the irrelevant documents above the first missing one. If the deep ranking has none of the missing
    documents, or has one within the cut-off (reranking then moved it down), the irrelevant ones within the cut-off.
    """

    query: Annotated[str, Meta(description="The id of the sample.")]
    wanted: Annotated[int, Meta(description="Number of relevant documents, or groups of alternatives.")]
    searched: Annotated[int, Meta(description="Number of documents in the deep ranking.")]
    missing: Annotated[tuple[MissingDocument, ...], Meta(description="Best rank first; not retrieved ones last.")]
    pushed_out_by: tuple[Intruder, ...]

    @property
    def harm(self) -> float:
        """The lost recall of the query, 0 to 1."""
        return len(self.missing) / self.wanted


class NeverRetrieved(Record, frozen=True):
    """A relevant document that is within the cut-off of no query."""

    document: str
    queries: Annotated[tuple[str, ...], Meta(description="The queries that miss it.")]
    best_rank: Annotated[
        int | None, Meta(description="Its best rank in the rankings of these queries; null: not retrieved in any.")
    ]
    harm: Annotated[Number, Meta(description="The recall lost by these queries, summed.")]


class AlwaysRetrieved(Record, frozen=True):
    """A document that is within the cut-off of almost every query, though not relevant to them."""

    document: str
    share: Annotated[Number, Meta(description="The share of answered queries that retrieve it, and it is irrelevant.")]
    blocking: Annotated[int, Meta(description="The number of these queries that miss a relevant document.")]


class Diagnosis(Record, frozen=True):
    """Why rankings miss relevant documents. Every list starts with the most harmful entry."""

    cutoff: int
    depth: int
    answered: Annotated[int, Meta(description="Queries that have a ranking.")]
    unanswered: Annotated[tuple[str, ...], Meta(description="Judged queries without a ranking; not diagnosed.")]
    queries: Annotated[tuple[QueryDiagnosis, ...], Meta(description="Queries that miss relevant documents.")]
    never_retrieved: tuple[NeverRetrieved, ...]
    always_retrieved: tuple[AlwaysRetrieved, ...]
