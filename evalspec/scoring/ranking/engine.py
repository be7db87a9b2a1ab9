"""Compute the retrieval measures of many queries at once, exactly as `measures` defines them for one.

Small inputs use those definitions in plain Python. Inputs that are large enough to justify importing numpy use arrays.
A query without a ranking has the value 0 here; the caller decides what it means.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import Struct

from evalspec.scoring.ranking.measures import Groups, JudgedRanking, find_measure, judge_ranking, rank_documents

if TYPE_CHECKING:
    from evalspec.scoring.ranking.hits import Hits

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]] | Mapping[str, Mapping[str, float]]

_SMALL = 100_000
_QUERY_WORTH = 40
"""Work is counted in documents. The overhead of a query equals this many documents."""


class MeasureSpec(NamedTuple):
    """One measure to compute: its name in `measures`, and the cut-off, None for the whole ranking."""

    measure: str
    cutoff: int | None = None

    def __str__(self) -> str:
        """Return the name as metrics are printed: `nDCG@10`."""
        return self.measure if self.cutoff is None else f"{self.measure}@{self.cutoff}"


class Measured(Struct, frozen=True):
    """Values by measure. These and the other lists have one entry per query, in the order of `queries`.

    `retrieved`: number of retrieved documents, down to the largest cut-off if every measure has one; 0 for a missing
    query. `relevant`: number of documents (or groups) that could be found. `ignored`: number of rankings of queries
    without judgements.
    """

    queries: tuple[str, ...]
    values: Mapping[MeasureSpec, list[float]]
    retrieved: list[int]
    relevant: list[int]
    missing: frozenset[str]
    ignored: int

    def defined(self, spec: MeasureSpec) -> list[float | None]:
        """Return the values of one measure; None where it is undefined.

        It is undefined if no document is relevant, and for Judged if nothing was retrieved. A missing query has 0.
        """
        counts = self.retrieved if spec.measure == "Judged" else self.relevant
        return [value if count else None for value, count in zip(self.values[spec], counts, strict=True)]


def compute_measures(
    qrels: Judgements,
    rankings: Rankings,
    specs: Sequence[MeasureSpec],
    *,
    min_grade: int = 1,
    groups: Mapping[str, Groups] | None = None,
    distinct: bool = False,
) -> Measured:
    """Compute every measure for every query of `qrels`, {query: {document: grade}}.

    `rankings`: for each query, document ids, best first, with repeated ids counting at their first rank. Or, for all
    queries, {document: score}, ranked by score and then by document id, both descending. `groups`: AND/OR ground truth
    of the queries that have it. `distinct`: the caller guarantees that no ranking repeats an id, which saves hashing
    all ids twice.

    Raises:
        ValueError: a measure is unknown, or a score is NaN.
    """
    for spec in specs:
        _measure(spec.measure)
    if groups or _work(qrels, rankings) <= _SMALL:
        return _compute_one_by_one(qrels, rankings, specs, min_grade, groups or {})
    from evalspec.scoring.ranking.hits import collect_from_rankings, collect_from_scores

    if _are_scored(rankings):
        hits = collect_from_scores(qrels, cast(Mapping[str, Mapping[str, float]], rankings))
    else:
        hits = collect_from_rankings(qrels, cast(Mapping[str, Sequence[str]], rankings), compute_depth(specs), distinct)
    return measure_hits(qrels, hits, specs, min_grade, len(rankings))


def compute_depth(specs: Sequence[MeasureSpec]) -> int | None:
    """Return the depth that the measures need: the largest cut-off; None if a measure has no cut-off."""
    cutoffs = [spec.cutoff for spec in specs if spec.cutoff is not None]
    return max(cutoffs) if cutoffs and len(cutoffs) == len(specs) else None


def _measure(name: str) -> Callable[[JudgedRanking], float]:
    measure = find_measure(name)
    if measure is None:
        raise ValueError(f"unknown measure '{name}'")
    return measure


def measure_hits(
    qrels: Judgements, hits: "Hits", specs: Sequence[MeasureSpec], min_grade: int, rankings: int
) -> Measured:
    """Return the measures of known hits, using numpy. `rankings`: their number."""
    from evalspec.scoring.ranking.hits import MISSING
    from evalspec.scoring.ranking.vectors import build_table, compute_vector

    depth = compute_depth(specs)
    table = build_table(qrels, hits, min_grade)
    missing = [query for query, retrieved in zip(qrels, hits.retrieved, strict=True) if retrieved == MISSING]
    return Measured(
        queries=tuple(qrels),
        values={spec: compute_vector(spec.measure, spec.cutoff, table) for spec in specs},
        retrieved=[count if depth is None else min(count, depth) for count in table.retrieved.tolist()],
        relevant=table.wanted.tolist(),
        missing=frozenset(missing),
        ignored=rankings - (len(qrels) - len(missing)),
    )


def _work(qrels: Judgements, rankings: Rankings) -> int:
    return _QUERY_WORTH * len(qrels) + sum(map(len, rankings.values()))


def _are_scored(rankings: Rankings) -> bool:
    return isinstance(next(iter(rankings.values()), None), Mapping)


def _compute_one_by_one(
    qrels: Judgements,
    rankings: Rankings,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    groups: Mapping[str, Groups],
) -> Measured:
    depth = compute_depth(specs)
    cutoffs = {depth, *(spec.cutoff for spec in specs)}
    measures = {spec: _measure(spec.measure) for spec in specs}
    values: dict[MeasureSpec, list[float]] = {spec: [] for spec in measures}
    deepest = []
    for query, grades in qrels.items():
        ranking = _order(query, rankings.get(query, ()))
        whole = judge_ranking(ranking, grades, None, min_grade, groups.get(query))
        judged = {cutoff: whole.cut(cutoff) for cutoff in cutoffs}
        for spec, measure in measures.items():
            values[spec].append(measure(judged[spec.cutoff]))
        deepest.append(judged[depth])
    shared = qrels.keys() & rankings.keys()
    return Measured(
        queries=tuple(qrels),
        values=values,
        retrieved=[judged.retrieved for judged in deepest],
        relevant=[judged.relevant for judged in deepest],
        missing=frozenset(qrels.keys() - shared),
        ignored=len(rankings) - len(shared),
    )


def _order(query: str, ranking: Sequence[str] | Mapping[str, float]) -> Sequence[str]:
    return rank_documents(ranking, query) if isinstance(ranking, Mapping) else ranking
