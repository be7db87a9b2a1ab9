"""Compare retrieved passages with gold passages by string similarity, without a judge.

The definitions are those of ragas 0.4 (NonLLMContextPrecisionWithReference, NonLLMContextRecall): similarity is one
minus the Levenshtein distance divided by the longer length. Passages match at 0.5 or more (precision) or above 0.5
(recall). ragas adds 1e-10 to a denominator, so its perfect precision is 0.9999999999; here it is 1.
"""

from collections.abc import Callable, Sequence

from evalspec.model import Exchange, Need, Score
from evalspec.scoring.metrics.functions import metric

_THRESHOLD = 0.5


def judge_precision(retrieved: Sequence[str], references: Sequence[str]) -> tuple[float, list[bool]]:
    """Return the average precision of the retrieved passages in order, and which of them match a reference."""
    matches = [_best_similarity(passage, references) >= _THRESHOLD for passage in retrieved]
    precisions = [sum(matches[:rank]) / rank for rank, match in enumerate(matches, 1) if match]
    return (sum(precisions) / len(precisions) if precisions else 0.0), matches


def judge_recall(retrieved: Sequence[str], references: Sequence[str]) -> tuple[float, list[bool]]:
    """Return the share of reference passages that match a retrieved one, and which of them do."""
    matches = [_best_similarity(reference, retrieved) > _THRESHOLD for reference in references]
    return sum(matches) / len(matches), matches


def _best_similarity(text: str, others: Sequence[str]) -> float:
    from rapidfuzz.distance import Levenshtein

    return max(1 - Levenshtein.normalized_distance(text, other) for other in others)


Judgement = Callable[[Sequence[str], Sequence[str]], tuple[float, list[bool]]]


def _score(judge: Judgement, exchange: Exchange) -> Score:
    references, retrieved = exchange.sample.reference_contexts or (), exchange.retrieved_contexts
    if not retrieved:
        return Score.scored(0.0, "nothing was retrieved")
    value, matches = judge(retrieved, references)
    unmatched = matches.count(False)
    reason = f"{unmatched} of {len(matches)} passages match none on the other side" if unmatched else None
    return Score.scored(value, reason, {"matches": matches})


_as_rapidfuzz = metric(
    engine="rapidfuzz",
    imports=("rapidfuzz.distance",),
    needs={Need.CONTEXT, Need.REFERENCE_CONTEXTS},
    scores_answers=False,
    reads_at_most=250_000,  # time grows with the product of the lengths
)


@_as_rapidfuzz
def non_llm_context_precision(exchange: Exchange) -> Score:
    """Average precision of the retrieved contexts; those similar to a reference context are relevant."""
    return _score(judge_precision, exchange)


@_as_rapidfuzz
def non_llm_context_recall(exchange: Exchange) -> Score:
    """Share of the reference contexts that are similar to a retrieved context."""
    return _score(judge_recall, exchange)
