"""The parts of the JSON report that tell of asking a retriever; their fields are those of the records."""

from pydantic import Field

from evalspec.reporters.document_base import Part, Text


class RetrieverReport(Part):
    """How the queries of a dataset were put to a retriever."""

    name: Text
    mode: Text = Field(description="retrieve, or retrieve+rerank.")
    top_k: int = Field(description="How many distinct documents of each query were ranked.")
    rerank_top_k: int | None = Field(description="Of how many candidates; null: nothing was reranked.")
    scope_prefix: Text = Field(description="Where it looked; empty: everywhere.")
    depth: int = Field(description="How far down missing documents were looked for; 0: they were not.")
    min_grade: int = Field(description="The lowest grade that is relevant.")
    origins: dict[Text, Text] = Field(description="Who decided a setting, by its name in the manifest.")


class StageReport(Part):
    """What one stage took, in ms."""

    stage: Text = Field(description="embed, retrieve, rerank, one of the retriever's own, or total.")
    count: int = Field(description="Of how many askings it is known.")
    p50: float
    p95: float
    p99: float


class MissingReport(Part):
    """A relevant document that is not within the cut-off."""

    document: Text
    grade: int
    rank: int | None = Field(description="From 1, in the ranking down to the depth; null: it is not there.")
    alternatives: tuple[Text, ...] = Field(description="Any of these documents would have done as well.")


class IntruderReport(Part):
    """A document that is not relevant and stands where a relevant one should."""

    document: Text
    rank: int
    grade: int | None = Field(description="null: nobody judged it.")


class QueryReport(Part):
    """One query that misses something."""

    query: Text = Field(description="The id of the sample.")
    wanted: int = Field(description="How many documents, or groups of them, are relevant.")
    searched: int = Field(description="How many documents the ranking down to the depth has.")
    missing: tuple[MissingReport, ...] = Field(description="Best rank first, those that are nowhere last.")
    pushed_out_by: tuple[IntruderReport, ...]


class NeverRetrievedReport(Part):
    """A document that no query has within the cut-off, though some should."""

    document: Text
    queries: tuple[Text, ...] = Field(description="Those that miss it.")
    best_rank: int | None = Field(description="The highest that it has in any of their rankings; null: it is in none.")
    harm: float = Field(description="The recall that it takes from them, summed.")


class AlwaysRetrievedReport(Part):
    """A document that almost every query has within the cut-off and that is not relevant to them."""

    document: Text
    share: float = Field(description="Of all answered queries those that it was retrieved for in vain.")
    blocking: int = Field(description="In how many of them something relevant is missing.")


class DiagnosisReport(Part):
    """Why rankings miss what they should have; every list has the most harmful first."""

    cutoff: int
    depth: int
    answered: int = Field(description="Queries that have a ranking.")
    unanswered: tuple[Text, ...] = Field(description="Judged queries without one, of which nothing is known.")
    queries: tuple[QueryReport, ...] = Field(description="Those that miss something.")
    never_retrieved: tuple[NeverRetrievedReport, ...]
    always_retrieved: tuple[AlwaysRetrievedReport, ...]
