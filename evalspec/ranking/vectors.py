"""The measures of `measures` for many queries at once, over arrays: the same definitions, which a test holds together.

Sums run in the order of the ranks, as they do there, so that the last digit is the same.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.ranking.hits import Hits
from evalspec.ranking.measures import parse_beta

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HitColumns:
    """Judged documents in the order of query and rank; of `Table` all, or those of one kind."""

    query: Integers
    rank: Integers
    grade: Floats

    def up_to(self, cutoff: int | None) -> "HitColumns":
        """Those within a cut-off."""
        return self if cutoff is None else self.where(self.rank <= cutoff)

    def where(self, keep: NDArray[np.bool_]) -> "HitColumns":
        """Those that a mask keeps."""
        return HitColumns(self.query[keep], self.rank[keep], self.grade[keep])


@dataclass(frozen=True, slots=True)
class HitTable:
    """Hits and judgements of all queries as columns.

    `judged`: the retrieved documents with a grade of 0 and more, `relevant`: those of `min_grade` and more. `ideal`:
    the positive grades as the best possible ranking has them. `wanted`: relevant documents of each query, retrieved or
    not. `retrieved`: documents of each ranking, 0 where there is none.
    """

    judged: HitColumns
    relevant: HitColumns
    ideal: HitColumns
    wanted: Integers
    retrieved: Integers
    discounts: Floats

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return len(self.wanted)

    def count(self, found: HitColumns) -> Integers:
        """How many of them each query has."""
        return np.bincount(found.query, minlength=self.queries)

    def total(self, found: HitColumns, values: Floats) -> Floats:
        """The sum of the values, one of each of them, by query."""
        totals: Floats = np.bincount(found.query, weights=values, minlength=self.queries).astype(np.float64)
        return totals


def build_table(qrels: Mapping[str, Mapping[str, int]], hits: Hits, min_grade: int) -> HitTable:
    """Columns from the hits of the queries of `qrels`, in its order."""
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
    """The best possible ranking of each query, and how many relevant documents it has."""
    query = _repeat(list(map(len, qrels.values())))
    grades = chain.from_iterable(judged.values() for judged in qrels.values())
    grade = np.fromiter(grades, dtype=np.float64, count=len(query))
    wanted = np.bincount(query[grade >= min_grade], minlength=len(qrels))
    query, grade = query[grade > 0], grade[grade > 0]
    order = _sort(query, -grade)
    rank = np.arange(1, len(query) + 1) - _starts(query)
    return HitColumns(query, rank, grade[order]), wanted


def _repeat(counts: Iterable[int]) -> Integers:
    """The number of its query for each of so many documents."""
    lengths = np.asarray(counts, dtype=np.int64)
    return np.repeat(np.arange(len(lengths)), lengths)


def _sort(query: Integers, within: Integers | Floats) -> Integers:
    """The order by query, and within it by a whole number: as one key, which is sorted sooner than two."""
    span = within.max(initial=0) - within.min(initial=0) + 1
    order: Integers = np.argsort(query * span + within, kind="stable")
    return order


def _starts(query: Integers) -> Integers:
    """For each document where its query begins; the queries are sorted."""
    starts: Integers = np.searchsorted(query, query)
    return starts


def compute_vector(measure: str, cutoff: int | None, table: HitTable) -> list[float]:
    """The values of one measure, one a query.

    Raises:
        KeyError: no such measure.
    """
    beta = parse_beta(measure)
    vector = _VECTORS[measure](table, cutoff) if beta is None else _f(table, cutoff, beta)
    values: list[float] = vector.tolist()
    return values


def _ratio(part: Any, whole: Any) -> Floats:
    """Element by element; 0 where there is nothing to divide by."""
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
