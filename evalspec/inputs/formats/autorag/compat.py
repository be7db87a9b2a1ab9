"""AutoRAG's formulas. docs/reference/metrics.md lists the differences from the standard ones."""

import math
from collections.abc import Callable, Mapping, Sequence

from evalspec.inputs.datasets.base import CompatFormulas, list_relevant
from evalspec.model import Sample

Groups = Sequence[Sequence[str]]


def is_defined(ranking: Sequence[str], groups: Groups) -> bool:
    """Return whether AutoRAG computes a value for this query. If not, it silently omits the query from the mean."""
    return bool(ranking) and all(ranking) and bool(groups) and all(group and all(group) for group in groups)


def _compute_recall(ranking: Sequence[str], groups: Groups) -> float:
    return sum(bool(set(group) & set(ranking)) for group in groups) / len(groups)


def _compute_precision(ranking: Sequence[str], groups: Groups) -> float:
    """Return distinct hits divided by the number of results. Repeated ids count in the denominator."""
    return len(set(ranking) & _union(groups)) / len(ranking)


def _compute_f1(ranking: Sequence[str], groups: Groups) -> float:
    recall, precision = _compute_recall(ranking, groups), _compute_precision(ranking, groups)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _compute_ndcg(ranking: Sequence[str], groups: Groups) -> float:
    """Return nDCG where every occurrence of an id gains, and every alternative of a group is expected.

    Repeated ids can raise it above 1. Alternatives keep it below 1.
    """
    union = _union(groups)
    gain = sum(1 / math.log2(rank + 1) for rank, document in enumerate(ranking, 1) if document in union)
    expected = min(sum(len(group) for group in groups), len(ranking))
    best = sum(1 / math.log2(rank + 1) for rank in range(1, expected + 1))
    return gain / best


def _compute_rr(ranking: Sequence[str], groups: Groups) -> float:
    """Return the mean reciprocal rank over the groups. Two documents that are both needed cannot reach 1."""
    return sum(next((1 / rank for rank in _ranks(ranking, group)), 0.0) for group in groups) / len(groups)


def _compute_ap(ranking: Sequence[str], groups: Groups) -> float:
    """Return the mean over the groups of the precision at their hits.

    A group is averaged over its hits, not over its relevant documents.
    """
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


FORMULAS: Mapping[str, Callable[[Sequence[str], Groups], float]] = {
    "Recall": _compute_recall,
    "Precision": _compute_precision,
    "F1": _compute_f1,
    "nDCG": _compute_ndcg,
    "RR": _compute_rr,
    "AP": _compute_ap,
}
"""AutoRAG's retrieval_recall, _precision, _f1, _ndcg, _mrr and _map. Arguments: ranking after the cut-off, groups. Only
defined if `is_defined`."""


def _follow(
    formula: Callable[[Sequence[str], Groups], float],
) -> Callable[[Sequence[str], Sample, int | None], float | None]:
    def compute(ranking: Sequence[str], sample: Sample, cutoff: int | None) -> float | None:
        groups: Groups | None = sample.groups
        if groups is None:
            groups = [(document,) for document in list_relevant(sample)]
        cut = ranking[:cutoff]
        return formula(cut, groups) if is_defined(cut, groups) else None

    return compute


COMPAT = CompatFormulas(
    {measure: _follow(formula) for measure, formula in FORMULAS.items()},
    undefined="AutoRAG leaves a query that retrieved nothing out of its mean",
    unbounded=frozenset({"nDCG"}),
)
"""nDCG is unbounded, because repeated documents count each time."""
