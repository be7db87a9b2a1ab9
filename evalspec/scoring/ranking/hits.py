"""Find the ranks of judged documents in the rankings of many queries, which is all that the measures need.

Whole rankings are never numbered, sorted or copied into arrays, because converting an id costs more than looking up the
few judged ones.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import length_hint

from msgspec import Struct

from evalspec.scoring.ranking.measures import refuse_nan

MISSING = -1
"""The number of retrieved documents of a query without a ranking."""


class Hits(Struct, frozen=True):
    """The judged documents that were retrieved, for all queries of the judgements, in the order of the queries.

    `counts`: their number per query. `ranks` (from 1) and `grades`: one query after the other, in any order within a
    query. `retrieved`: documents per ranking within the depth, or MISSING.
    """

    counts: Sequence[int]
    ranks: Sequence[int]
    grades: Sequence[int]
    retrieved: Sequence[int]


def collect_from_rankings(
    qrels: Mapping[str, Mapping[str, int]],
    rankings: Mapping[str, Sequence[str]],
    depth: int | None,
    distinct: bool,
) -> Hits:
    """Return the hits of ordered rankings down to `depth`. `distinct`: the caller guarantees that no id is repeated."""
    counts, ranks, grades, retrieved = [], array("q"), array("q"), []
    for query, judged in qrels.items():
        ranking = rankings.get(query)
        if ranking is None:
            counts.append(0)
            retrieved.append(MISSING)
            continue
        before = len(ranks)
        if distinct:
            top = _take_top(ranking, depth)
            sought = set(judged)
        else:
            top, present = _take_distinct(ranking, depth)
            sought = present.intersection(judged)
        found = _compute_ranks(sought, top)
        ranks.extend(found)
        grades.extend(judged[top[rank - 1]] for rank in found)
        counts.append(len(ranks) - before)
        retrieved.append(len(top))
    return Hits(counts, ranks, grades, retrieved)


def _compute_ranks(sought: set[str], top: Sequence[str]) -> list[int]:
    """Return the ranks of the sought ids, best first. `top`: a list or tuple. Found ids are removed from `sought`.

    `isdisjoint` hashes and compares in C, and stops after the first id that it finds. `length_hint` returns exactly
    what the iterator of a list or tuple has left, which gives the rank. So a ranking is read once at most. A loop over
    `enumerate`, `compress` over the members, or `index` of each id in the ranking need 1.6 to 2 times the CPU (7,000
    rankings of 1,000 ids). That would miss the goal for objects in benchmarks/README.md.
    """
    ranks = []
    rest = iter(top)
    while sought and not sought.isdisjoint(rest):
        rank = len(top) - length_hint(rest)
        ranks.append(rank)
        sought.remove(top[rank - 1])
    return ranks


def _take_top(ranking: Sequence[str], depth: int | None) -> list[str] | tuple[str, ...]:
    """Return the first `depth` documents as a list or tuple, which `length_hint` of its iterator needs."""
    top = ranking if depth is None else ranking[:depth]
    return top if isinstance(top, (list, tuple)) else list(top)


def _take_distinct(ranking: Sequence[str], depth: int | None) -> tuple[list[str] | tuple[str, ...], set[str]]:
    """Return the first `depth` distinct documents, also as a set. A repeated document counts at its first rank."""
    top = _take_top(ranking, depth)
    present = set(top)
    if len(present) == len(top):
        return top, present
    top = list(dict.fromkeys(ranking))[:depth]
    return top, set(top)


def collect_from_scores(qrels: Mapping[str, Mapping[str, int]], scored: Mapping[str, Mapping[str, float]]) -> Hits:
    """Return the hits of scored documents, ranked by score and then by document id, both descending.

    Raises:
        ValueError: a score is NaN.
    """
    counts, ranks, grades, retrieved = [], array("q"), array("q"), []
    for query, judged in qrels.items():
        before = len(ranks)
        scores = scored.get(query)
        if scores is not None:
            ordered: list[float] = []
            for document in judged:
                if document in scores:
                    score = scores[document]
                    ordered = ordered or _sort_scores(scores, query)
                    not_higher = bisect_right(ordered, score)
                    rank = len(ordered) - not_higher + 1
                    if not_higher > 1 and ordered[not_higher - 2] == score:
                        rank += _count_before(document, scores)
                    ranks.append(rank)
                    grades.append(judged[document])
        counts.append(len(ranks) - before)
        retrieved.append(MISSING if scores is None else len(scores))
    return Hits(counts, ranks, grades, retrieved)


def _sort_scores(scores: Mapping[str, float], query: str) -> list[float]:
    ordered = sorted(scores.values())
    total = sum(ordered)
    if total != total:
        refuse_nan(ordered, query)
    return ordered


def _count_before(document: str, scores: Mapping[str, float]) -> int:
    """Return how many documents with the same score have a higher id."""
    score = scores[document]
    return sum(other == score and name > document for name, other in scores.items())
