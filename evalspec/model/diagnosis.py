"""Results of `runs.runner.diagnosing`: why rankings miss relevant documents."""

from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Number, Record


class MissingDocument(Record, frozen=True):
    """A relevant document that is not retrieved within the cut-off."""

    document: Annotated[str, Meta(description="Id of the document.")]
    grade: Annotated[int, Meta(description="Its grade of relevance; 1 if it has none.")]
    rank: Annotated[int | None, Meta(description="Rank from 1 in the deep ranking; null: not retrieved there either.")]
    alternatives: Annotated[
        tuple[str, ...], Meta(description="Ids of documents that would satisfy the query as well.")
    ] = ()


class Distractor(Record, frozen=True):
    """An irrelevant document at a rank where a relevant one should be."""

    document: Annotated[str, Meta(description="Id of the document.")]
    rank: Annotated[int, Meta(description="Its rank, from 1.")]
    grade: Annotated[int | None, Meta(description="Its grade of relevance, too low to count; null: unjudged.")]


class QueryDiagnosis(Record, frozen=True):
    """One query that misses relevant documents.

    `pushed_out_by`: the irrelevant documents above the first missing one. If the deep ranking has none of the missing
    documents, or has one within the cut-off (reranking then moved it down), the irrelevant ones within the cut-off.
    """

    query: Annotated[str, Meta(description="The id of the sample.")]
    wanted: Annotated[int, Meta(description="Number of relevant documents, or groups of alternatives.")]
    searched: Annotated[int, Meta(description="Number of documents in the deep ranking.")]
    missing: Annotated[
        tuple[MissingDocument, ...],
        Meta(description="The missing documents: best rank first, not retrieved ones last."),
    ]
    pushed_out_by: Annotated[
        tuple[Distractor, ...],
        Meta(
            description="The irrelevant documents above the best missing one; if that is not retrieved, those within "
            "the cut-off."
        ),
    ]

    @property
    def harm(self) -> float:
        """The lost recall of the query, 0 to 1."""
        return len(self.missing) / self.wanted


class NeverRetrieved(Record, frozen=True):
    """A relevant document that is within the cut-off of no query."""

    document: Annotated[str, Meta(description="Id of the document.")]
    queries: Annotated[tuple[str, ...], Meta(description="Ids of the samples that miss it.")]
    best_rank: Annotated[
        int | None, Meta(description="Its best rank in the rankings of these queries; null: not retrieved in any.")
    ]
    harm: Annotated[Number, Meta(description="The recall that these queries lose, summed: 1 is a whole query.")]


class AlwaysRetrieved(Record, frozen=True):
    """A document that is within the cut-off of almost every query, though not relevant to them."""

    document: Annotated[str, Meta(description="Id of the document.")]
    share: Annotated[
        Number, Meta(description="The share of answered queries that retrieve it though it is irrelevant, 0 to 1.")
    ]
    blocking: Annotated[int, Meta(description="The number of these queries that miss a relevant document.")]


class Diagnosis(Record, frozen=True):
    """Why rankings miss relevant documents. Queries and documents are listed by their harm, the worst first."""

    cutoff: Annotated[int, Meta(description="Rank down to which documents count as retrieved.")]
    depth: Annotated[int, Meta(description="Rank down to which missing documents were searched for.")]
    answered: Annotated[int, Meta(description="Number of judged queries that have a ranking.")]
    unanswered: Annotated[
        tuple[str, ...], Meta(description="Ids of the judged queries without a ranking, which are not diagnosed.")
    ]
    queries: Annotated[tuple[QueryDiagnosis, ...], Meta(description="Queries that miss relevant documents.")]
    never_retrieved: Annotated[
        tuple[NeverRetrieved, ...], Meta(description="Relevant documents within the cut-off of no query.")
    ]
    always_retrieved: Annotated[
        tuple[AlwaysRetrieved, ...],
        Meta(description="Documents within the cut-off of almost every query, though not relevant."),
    ]
