"""Unrag's names, defaults and formulas. docs/reference/metrics.md lists the differences from the standard ones."""

import math
from collections.abc import Callable, Mapping, Sequence

from evalspec.inputs.datasets.base import CompatFormulas, list_relevant
from evalspec.model import Sample

OWN_KEY = "unrag"
"""The metadata key of samples and documents for fields that only Unrag has."""

AS_LISTED = "relevant"
"""The key in `metadata["unrag"]` for the original list of relevant ids, if some are repeated."""

DEFAULT_TOP_K = 10
"""Unrag's default cut-off."""

RANKING_LIMITS: Mapping[str, str] = {"hitAtK": "Success", "recallAtK": "Recall", "mrrAtK": "RR"}
"""Metrics that may have a minimum: Unrag's names and ours."""

LATENCY = "latency_p95"
"""Our name for the only metric that may have a maximum."""


def _top(ranking: Sequence[str], cutoff: int) -> list[str]:
    return [document for document in dict.fromkeys(ranking) if document][:cutoff]


def _hits(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> list[int]:
    wanted = set(relevant)
    return [rank for rank, document in enumerate(_top(ranking, cutoff), 1) if document in wanted]


def _compute_recall(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> float:
    """Return recall over the original list. Repeated ids count once in the numerator, but always in the denominator."""
    return len(_hits(ranking, relevant, cutoff)) / len(relevant) if relevant else 0.0


def _compute_ndcg(ranking: Sequence[str], relevant: Sequence[str], cutoff: int) -> float:
    gain = sum(1 / math.log2(rank + 1) for rank in _hits(ranking, relevant, cutoff))
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(set(relevant)), cutoff) + 1))
    return gain / best if best else 0.0


FORMULAS: Mapping[str, Callable[[Sequence[str], Sequence[str], int], float]] = {
    "Success": lambda ranking, relevant, cutoff: float(bool(_hits(ranking, relevant, cutoff))),
    "Recall": _compute_recall,
    "Precision": lambda ranking, relevant, cutoff: len(_hits(ranking, relevant, cutoff)) / cutoff,
    "RR": lambda ranking, relevant, cutoff: next((1 / rank for rank in _hits(ranking, relevant, cutoff)), 0.0),
    "nDCG": _compute_ndcg,
}
"""Unrag's hitAtK, recallAtK, precisionAtK, mrrAtK and ndcgAtK. Arguments: ranking, relevant ids as listed, k. Always
defined: a query without relevant documents is 0."""


def _find_relevant(sample: Sample) -> Sequence[str]:
    """Return the relevant documents as listed in the file, with repeated ids if the reader kept them."""
    own = sample.metadata.get(OWN_KEY)
    listed: Sequence[str] | None = own.get(AS_LISTED) if isinstance(own, Mapping) else None
    return listed or list_relevant(sample)


def _follow(
    formula: Callable[[Sequence[str], Sequence[str], int], float],
) -> Callable[[Sequence[str], Sample, int | None], float | None]:
    return lambda ranking, sample, cutoff: formula(
        ranking, _find_relevant(sample), _find_top_k(sample) or cutoff or DEFAULT_TOP_K
    )


def _find_top_k(sample: Sample) -> int | None:
    """Return the `topK` of a query, which Unrag measures it at, None if it has none of its own."""
    own = sample.metadata.get(OWN_KEY)
    value = own.get("topK") if isinstance(own, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


COMPAT = CompatFormulas({measure: _follow(formula) for measure, formula in FORMULAS.items()})
