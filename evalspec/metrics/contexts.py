"""Retrieved passages against gold passages by string similarity, without a judge.

The definitions are those of ragas 0.4 (NonLLMContextPrecisionWithReference, NonLLMContextRecall): similarity is one
minus the Levenshtein distance over the longer length, and passages match from 0.5 on (precision) or above 0.5 (recall).
ragas adds 1e-10 to a denominator, so that its perfect precision is 0.9999999999; here it is 1.
"""

from collections.abc import Callable, Sequence

from evalspec.metrics.functions import metric
from evalspec.model import Exchange, Need, Score

_THRESHOLD = 0.5


def judge_precision(retrieved: Sequence[str], references: Sequence[str]) -> tuple[float, list[bool]]:
    """Average precision of the retrieved passages in their order, with which of them match a reference."""
    matches = [_best_similarity(passage, references) >= _THRESHOLD for passage in retrieved]
    precisions = [sum(matches[:rank]) / rank for rank, match in enumerate(matches, 1) if match]
    return (sum(precisions) / len(precisions) if precisions else 0.0), matches


def judge_recall(retrieved: Sequence[str], references: Sequence[str]) -> tuple[float, list[bool]]:
    """Share of the reference passages that are like some retrieved one, with which of them are."""
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
)


@_as_rapidfuzz
def non_llm_context_precision(exchange: Exchange) -> Score:
    """Average precision of the retrieved contexts, each relevant where it resembles a reference context."""
    return _score(judge_precision, exchange)


@_as_rapidfuzz
def non_llm_context_recall(exchange: Exchange) -> Score:
    """Share of the reference contexts that resemble some retrieved context."""
    return _score(judge_recall, exchange)
