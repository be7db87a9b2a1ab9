"""Why rankings miss what they should have: what `ranking.diagnosis` finds out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MissingDocument:
    """A relevant document that is not within the cut-off. `rank`: from 1 in the deep ranking, None where it is not
    there. `alternatives`: the other documents of its group, any of which would have done.
    """

    document: str
    grade: int
    rank: int | None
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intruder:
    """A document that is not relevant and stands where a relevant one should. `grade` None: nobody judged it."""

    document: str
    rank: int
    grade: int | None


@dataclass(frozen=True, slots=True)
class QueryDiagnosis:
    """One query that misses something.

    `missing`: best rank first, those that are nowhere last. `pushed_out_by`: the irrelevant documents above the first
    missing one; those within the cut-off where the deep ranking has none of the missing, or has one so high that it
    must have been reranked away. `wanted`: how many documents (or groups) are relevant. `searched`: how many documents
    the deep ranking has, to the depth at the most.
    """

    query: str
    missing: tuple[MissingDocument, ...]
    pushed_out_by: tuple[Intruder, ...]
    wanted: int
    searched: int

    @property
    def harm(self) -> float:
        """The recall that the query lacks, 0 to 1."""
        return len(self.missing) / self.wanted


@dataclass(frozen=True, slots=True)
class NeverRetrieved:
    """A document that is within the cut-off of no query, though `queries` miss it. `best_rank`: the highest that it has
    in any of their deep rankings. `harm`: the recall that it takes from them, summed.
    """

    document: str
    queries: tuple[str, ...]
    best_rank: int | None
    harm: float


@dataclass(frozen=True, slots=True)
class AlwaysRetrieved:
    """A document that is within the cut-off of almost every query that it is not relevant to. `share`: of all answered
    queries those that it was retrieved for in vain. `blocking`: in how many of them something relevant is missing.
    """

    document: str
    share: float
    blocking: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All lists with the most harmful first. `answered`: how many queries have a ranking. `unanswered`: the judged
    queries that have none, of which nothing is known and which are in no list.
    """

    cutoff: int
    depth: int
    answered: int
    unanswered: tuple[str, ...]
    queries: tuple[QueryDiagnosis, ...]
    never_retrieved: tuple[NeverRetrieved, ...]
    always_retrieved: tuple[AlwaysRetrieved, ...]
