"""Why rankings miss what they should have: what `ranking.diagnosis` finds out."""

from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Number, Record


class MissingDocument(Record, frozen=True):
    """A relevant document that is not within the cut-off."""

    document: str
    grade: int
    rank: Annotated[int | None, Meta(description="From 1, in the ranking down to the depth; null: it is not there.")]
    alternatives: Annotated[tuple[str, ...], Meta(description="Any of these documents would have done as well.")] = ()


class Intruder(Record, frozen=True):
    """A document that is not relevant and stands where a relevant one should."""

    document: str
    rank: int
    grade: Annotated[int | None, Meta(description="null: nobody judged it.")]


class QueryDiagnosis(Record, frozen=True):
    """One query that misses something.

    `pushed_out_by`: the irrelevant documents above the first missing one; those within the cut-off where the deep
    ranking has none of the missing, or has one so high that it must have been reranked away.
    """

    query: Annotated[str, Meta(description="The id of the sample.")]
    wanted: Annotated[int, Meta(description="How many documents, or groups of them, are relevant.")]
    searched: Annotated[int, Meta(description="How many documents the ranking down to the depth has.")]
    missing: Annotated[tuple[MissingDocument, ...], Meta(description="Best rank first, those that are nowhere last.")]
    pushed_out_by: tuple[Intruder, ...]

    @property
    def harm(self) -> float:
        """The recall that the query lacks, 0 to 1."""
        return len(self.missing) / self.wanted


class NeverRetrieved(Record, frozen=True):
    """A document that no query has within the cut-off, though some should."""

    document: str
    queries: Annotated[tuple[str, ...], Meta(description="Those that miss it.")]
    best_rank: Annotated[
        int | None, Meta(description="The highest that it has in any of their rankings; null: it is in none.")
    ]
    harm: Annotated[Number, Meta(description="The recall that it takes from them, summed.")]


class AlwaysRetrieved(Record, frozen=True):
    """A document that almost every query has within the cut-off and that is not relevant to them."""

    document: str
    share: Annotated[Number, Meta(description="Of all answered queries those that it was retrieved for in vain.")]
    blocking: Annotated[int, Meta(description="In how many of them something relevant is missing.")]


class Diagnosis(Record, frozen=True):
    """Why rankings miss what they should have; every list has the most harmful first."""

    cutoff: int
    depth: int
    answered: Annotated[int, Meta(description="Queries that have a ranking.")]
    unanswered: Annotated[tuple[str, ...], Meta(description="Judged queries without one, of which nothing is known.")]
    queries: Annotated[tuple[QueryDiagnosis, ...], Meta(description="Those that miss something.")]
    never_retrieved: tuple[NeverRetrieved, ...]
    always_retrieved: tuple[AlwaysRetrieved, ...]
