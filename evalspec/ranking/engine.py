"""The retrieval measures of many queries at once, exactly as `measures` defines them for one.

Small work is done by those definitions themselves, in plain Python; from about the size at which importing numpy pays,
over arrays. What a query that is missing from the rankings means is the caller's affair: here its values are 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from evalspec.ranking.hits import MISSING, Hits, collect_from_rankings, collect_from_scores, rank_documents
from evalspec.ranking.measures import Groups, JudgedRanking, find_measure, judge_ranking

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]] | Mapping[str, Mapping[str, float]]

_SMALL = 100_000
_QUERY_WORTH = 40
"""Work is counted in documents; what a query costs besides is that of so many."""


class MeasureSpec(NamedTuple):
    """One measure to compute: its name in `measures`, and where the ranking is cut, None for nowhere."""

    measure: str
    cutoff: int | None = None

    def __str__(self) -> str:
        """As metrics are printed: `nDCG@10`."""
        return self.measure if self.cutoff is None else f"{self.measure}@{self.cutoff}"


@dataclass(frozen=True, slots=True)
class Measured:
    """Values by measure; these and the other lists have one entry for each of `queries`, in its order.

    `retrieved`: how many documents were retrieved, as far down as the largest cut-off where every measure has one; 0
    too where the query is missing. `relevant`: how many documents (or groups) could be found. `ignored`: how many
    rankings there are for queries without judgements.
    """

    queries: tuple[str, ...]
    values: Mapping[MeasureSpec, list[float]]
    retrieved: list[int]
    relevant: list[int]
    missing: frozenset[str]
    ignored: int

    def defined(self, spec: MeasureSpec) -> list[float | None]:
        """The values of one measure; None where even a perfect ranking would get none.

        That is where no document is relevant, and for Judged where nothing was retrieved. A missing query has 0.
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

    `rankings`: document ids, best first, by query, a repeated one counting at its first place; or, for all queries,
    {document: score}, ranked by falling score and equal scores by document id with the highest first. `groups`: AND/OR
    ground truth of the queries that have such. `distinct`: the caller vouches that no ranking repeats an id, which
    saves hashing all ids twice.

    Raises:
        ValueError: a measure is not known, a score is NaN.
    """
    for spec in specs:
        _measure(spec.measure)
    if groups or _work(qrels, rankings) <= _SMALL:
        return _compute_one_by_one(qrels, rankings, specs, min_grade, groups or {})
    if _are_scored(rankings):
        hits = collect_from_scores(qrels, cast(Mapping[str, Mapping[str, float]], rankings))
    else:
        hits = collect_from_rankings(qrels, cast(Mapping[str, Sequence[str]], rankings), compute_depth(specs), distinct)
    return measure_hits(qrels, hits, specs, min_grade, len(rankings))


def compute_depth(specs: Sequence[MeasureSpec]) -> int | None:
    """How far down a ranking must be looked at: to the largest cut-off where every measure has one, else whole."""
    cutoffs = [spec.cutoff for spec in specs if spec.cutoff is not None]
    return max(cutoffs) if cutoffs and len(cutoffs) == len(specs) else None


def _measure(name: str) -> Callable[[JudgedRanking], float]:
    measure = find_measure(name)
    if measure is None:
        raise ValueError(f"unknown measure '{name}'")
    return measure


def measure_hits(
    qrels: Judgements, hits: Hits, specs: Sequence[MeasureSpec], min_grade: int, rankings: int
) -> Measured:
    """The measures of hits that were found already, with numpy. `rankings`: how many there were."""
    from evalspec.ranking.vectors import build_table, compute_vector

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
    cutoffs = {spec.cutoff for spec in specs}
    depth = compute_depth(specs)
    measures = {spec: _measure(spec.measure) for spec in specs}
    values: dict[MeasureSpec, list[float]] = {spec: [] for spec in measures}
    deepest = []
    for query, grades in qrels.items():
        ranking = _order(query, rankings.get(query, ()))
        judged = {
            cutoff: judge_ranking(ranking, grades, cutoff, min_grade, groups.get(query)) for cutoff in {*cutoffs, depth}
        }
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
