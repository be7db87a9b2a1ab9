"""The formulas of two other systems, for those who come from them and want their old numbers to the last digit.

docs/metrics.md has the table of where they differ from the standard. Each takes the ranking as it was
returned, the ground truth in that system's own shape and a cut-off, and gives None where that system gives no value.
"""

import math
from collections.abc import Callable, Mapping, Sequence

Groups = Sequence[Sequence[str]]


def _unrag_top(ranking: Sequence[str], cutoff: int) -> list[str]:
    return [document for document in dict.fromkeys(ranking) if document][:cutoff]


def _unrag_hits(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> list[int]:
    wanted = set(relevant)
    return [rank for rank, document in enumerate(_unrag_top(ranking, cutoff), 1) if document in wanted]


def _unrag_recall(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> float:
    """Over the list as written: an id that stands twice in it counts twice below the line and once above."""
    return len(_unrag_hits(ranking, relevant, cutoff)) / len(relevant) if relevant else 0.0


def _unrag_ndcg(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> float:
    gain = sum(1 / math.log2(rank + 1) for rank in _unrag_hits(ranking, relevant, cutoff))
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(set(relevant)), cutoff) + 1))
    return gain / best if best else 0.0


UNRAG: Mapping[str, Callable[[Sequence[str], Sequence[str], int], float]] = {
    "Success": lambda ranking, relevant, cutoff: float(bool(_unrag_hits(ranking, relevant, cutoff))),
    "Recall": _unrag_recall,
    "Precision": lambda ranking, relevant, cutoff: len(_unrag_hits(ranking, relevant, cutoff)) / cutoff,
    "RR": lambda ranking, relevant, cutoff: next((1 / rank for rank in _unrag_hits(ranking, relevant, cutoff)), 0.0),
    "nDCG": _unrag_ndcg,
}
"""Unrag's hitAtK, recallAtK, precisionAtK, mrrAtK and ndcgAtK: ranking, relevant ids as listed, k. Never None: a query
without relevant documents is a 0 in the mean."""


def is_autorag_defined(ranking: Sequence[str], groups: Groups) -> bool:
    """Whether AutoRAG gives this query a value at all; where not, it silently leaves the mean."""
    return bool(ranking) and all(ranking) and bool(groups) and all(group and all(group) for group in groups)


def _autorag_recall(ranking: Sequence[str], groups: Groups) -> float:
    return sum(bool(set(group) & set(ranking)) for group in groups) / len(groups)


def _autorag_precision(ranking: Sequence[str], groups: Groups) -> float:
    """Distinct hits over all that was returned, repeated ids included below the line."""
    return len(set(ranking) & _union(groups)) / len(ranking)


def _autorag_f1(ranking: Sequence[str], groups: Groups) -> float:
    recall, precision = _autorag_recall(ranking, groups), _autorag_precision(ranking, groups)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _autorag_ndcg(ranking: Sequence[str], groups: Groups) -> float:
    """Every occurrence gains, every alternative is expected: repeated ids lift it above 1, an OR keeps it below."""
    union = _union(groups)
    gain = sum(1 / math.log2(rank + 1) for rank, document in enumerate(ranking, 1) if document in union)
    expected = min(sum(len(group) for group in groups), len(ranking))
    best = sum(1 / math.log2(rank + 1) for rank in range(1, expected + 1))
    return gain / best


def _autorag_rr(ranking: Sequence[str], groups: Groups) -> float:
    """The mean over the groups, so that two documents that are both needed cannot reach 1."""
    return sum(next((1 / rank for rank in _ranks(ranking, group)), 0.0) for group in groups) / len(groups)


def _autorag_ap(ranking: Sequence[str], groups: Groups) -> float:
    """The mean over the groups of precision at their hits, over the hits and not over what is relevant."""
    total = 0.0
    for group in groups:
        ranks = _ranks(ranking, group)
        total += sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0
    return total / len(groups)


def _union(groups: Groups) -> set[str]:
    return {document for group in groups for document in group}


def _ranks(ranking: Sequence[str], group: Sequence[str]) -> list[int]:
    wanted = set(group)
    return [rank for rank, document in enumerate(ranking, 1) if document in wanted]


AUTORAG: Mapping[str, Callable[[Sequence[str], Groups], float]] = {
    "Recall": _autorag_recall,
    "Precision": _autorag_precision,
    "F1": _autorag_f1,
    "nDCG": _autorag_ndcg,
    "RR": _autorag_rr,
    "AP": _autorag_ap,
}
"""AutoRAG's retrieval_recall, _precision, _f1, _ndcg, _mrr and _map: ranking (already cut), groups. Defined only where
`is_autorag_defined` says so."""
