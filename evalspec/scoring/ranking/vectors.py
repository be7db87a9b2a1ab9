"""Compute the measures of `measures` for many queries at once with arrays. A test compares the two implementations.

Sums have the same order of ranks in both, so that the last digit is the same.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from evalspec.scoring.ranking.hits import Hits
from evalspec.scoring.ranking.measures import parse_beta

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class HitColumns(Struct, frozen=True):
    """All judged documents of a table, or those of one kind, ordered by query and rank."""

    query: Integers
    rank: Integers
    grade: Floats

    def up_to(self, cutoff: int | None) -> "HitColumns":
        """Return the documents within a cut-off."""
        return self if cutoff is None else self.where(self.rank <= cutoff)

    def where(self, keep: NDArray[np.bool_]) -> "HitColumns":
        """Return the documents that a mask selects."""
        return HitColumns(self.query[keep], self.rank[keep], self.grade[keep])


class HitTable(Struct, frozen=True):
    """Hits and judgements of all queries as columns.

    `judged`: the retrieved documents with a grade of at least 0. `relevant`: those with at least `min_grade`. `ideal`:
    the positive grades in the order of the best possible ranking. `wanted`: number of relevant documents per query,
    retrieved or not. `retrieved`: number of documents per ranking, 0 without a ranking.
    """

    judged: HitColumns
    relevant: HitColumns
    ideal: HitColumns
    wanted: Integers
    retrieved: Integers
    discounts: Floats

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.wanted)

    def count(self, found: HitColumns) -> Integers:
        """Return the number of documents per query."""
        return np.bincount(found.query, minlength=self.queries)

    def total(self, found: HitColumns, values: Floats) -> Floats:
        """Return the sum of `values`, one per document, by query."""
        totals: Floats = np.bincount(found.query, weights=values, minlength=self.queries).astype(np.float64)
        return totals


def build_table(qrels: Mapping[str, Mapping[str, int]], hits: Hits, min_grade: int) -> HitTable:
    """Return the table of hits, in the order of `qrels`."""
    query = _repeat(hits.counts)
    rank = np.asarray(hits.ranks, dtype=np.int64)
    grade = np.asarray(hits.grades, dtype=np.float64)
    order = _sort(query, rank)
    judged = HitColumns(query[order], rank[order], grade[order])
    if len(grade) and grade.min() < 0:
        judged = judged.where(judged.grade >= 0)
    ideal, wanted = _judgements(qrels, min_grade)
    longest = int(max(judged.rank.max(initial=0), ideal.rank.max(initial=0)))
    return HitTable(
        judged=judged,
        relevant=judged.where(judged.grade >= min_grade),
        ideal=ideal,
        wanted=wanted,
        retrieved=np.maximum(np.asarray(hits.retrieved, dtype=np.int64), 0),
        discounts=np.array([math.inf, *map(math.log2, range(2, longest + 2))]),
    )


def _judgements(qrels: Mapping[str, Mapping[str, int]], min_grade: int) -> tuple[HitColumns, Integers]:
    """Return the best possible ranking of each query, and its number of relevant documents."""
    query = _repeat(list(map(len, qrels.values())))
    grades = chain.from_iterable(judged.values() for judged in qrels.values())
    grade = np.fromiter(grades, dtype=np.float64, count=len(query))
    wanted = np.bincount(query[grade >= min_grade], minlength=len(qrels))
    query, grade = query[grade > 0], grade[grade > 0]
    order = _sort(query, -grade)
    rank = np.arange(1, len(query) + 1) - _starts(query)
    return HitColumns(query, rank, grade[order]), wanted


def _repeat(counts: Iterable[int]) -> Integers:
    """Return the number of the query for each document, from the number of documents per query."""
    lengths = np.asarray(counts, dtype=np.int64)
    return np.repeat(np.arange(len(lengths)), lengths)


def _sort(query: Integers, within: Integers | Floats) -> Integers:
    """Return the order by query and then by an integer, combined into one key, which is faster to sort than two."""
    span = within.max(initial=0) - within.min(initial=0) + 1
    order: Integers = np.argsort(query * span + within, kind="stable")
    return order


def _starts(query: Integers) -> Integers:
    """Return for each document the start of its query. The queries are sorted."""
    starts: Integers = np.searchsorted(query, query)
    return starts


def compute_vector(measure: str, cutoff: int | None, table: HitTable) -> list[float]:
    """Return the values of one measure, one per query.

    Raises:
        KeyError: the measure is unknown.
    """
    beta = parse_beta(measure)
    vector = _VECTORS[measure](table, cutoff) if beta is None else _f(table, cutoff, beta)
    values: list[float] = vector.tolist()
    return values


def _ratio(part: Any, whole: Any) -> Floats:
    """Return the ratio element by element; 0 for a denominator of 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64))
    ratio: Floats = np.divide(part, whole, out=np.zeros(part.shape), where=whole != 0)
    return ratio


def _precision(table: HitTable, cutoff: int | None) -> Floats:
    return _ratio(table.count(table.relevant.up_to(cutoff)), cutoff or table.retrieved)


def _recall(table: HitTable, cutoff: int | None) -> Floats:
    return _ratio(table.count(table.relevant.up_to(cutoff)), table.wanted)


def _f(table: HitTable, cutoff: int | None, beta: float) -> Floats:
    precision, recall = _precision(table, cutoff), _recall(table, cutoff)
    weight = beta * beta
    return _ratio((1 + weight) * precision * recall, weight * precision + recall)


def _ndcg(table: HitTable, cutoff: int | None) -> Floats:
    gain, best = (
        table.total(found, found.grade / table.discounts[found.rank])
        for found in (table.judged.up_to(cutoff), table.ideal.up_to(cutoff))
    )
    return _ratio(gain, best)


def _average_precision(table: HitTable, cutoff: int | None) -> Floats:
    found = table.relevant.up_to(cutoff)
    place = np.arange(1, len(found.query) + 1) - _starts(found.query)
    return _ratio(table.total(found, place / found.rank), table.wanted)


def _reciprocal_rank(table: HitTable, cutoff: int | None) -> Floats:
    found = table.relevant.up_to(cutoff)
    first = np.arange(len(found.query)) == _starts(found.query)
    best = np.zeros(table.queries)
    best[found.query[first]] = 1 / found.rank[first]
    return best


def _r_precision(table: HitTable, cutoff: int | None) -> Floats:
    found = table.relevant.up_to(cutoff)
    return _ratio(table.count(found.where(found.rank <= table.wanted[found.query])), table.wanted)


def _success(table: HitTable, cutoff: int | None) -> Floats:
    return (table.count(table.relevant.up_to(cutoff)) > 0).astype(np.float64)


def _judged(table: HitTable, cutoff: int | None) -> Floats:
    retrieved = table.retrieved if cutoff is None else np.minimum(table.retrieved, cutoff)
    return _ratio(table.count(table.judged.up_to(cutoff)), retrieved)


_VECTORS: Mapping[str, Callable[[HitTable, int | None], Floats]] = {
    "Precision": _precision,
    "Recall": _recall,
    "nDCG": _ndcg,
    "AP": _average_precision,
    "RR": _reciprocal_rank,
    "Rprec": _r_precision,
    "Success": _success,
    "Judged": _judged,
}
