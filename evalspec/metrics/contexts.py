"""Retrieved passages against gold passages by string similarity, without a judge.

The definitions are those of ragas 0.4 (NonLLMContextPrecisionWithReference, NonLLMContextRecall): similarity is one
minus the Levenshtein distance over the longer length, and passages match from 0.5 on (precision) or above 0.5 (recall).
ragas adds 1e-10 to a denominator, so that its perfect precision is 0.9999999999; here it is 1.
"""

from collections.abc import Callable, Sequence

from evalspec.errors import MetricError
from evalspec.metrics.base import MetricDefinition, per_sample, register
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
    references, retrieved = exchange.sample.reference_contexts, exchange.retrieved_contexts
    if exchange.reply is None:
        raise MetricError("the agent gave no reply")
    if not references:
        raise MetricError("the sample has no reference_contexts")
    if retrieved is None:
        raise MetricError("neither the reply nor the sample gives retrieved contexts")
    if not retrieved:
        return Score.scored(0.0, "nothing was retrieved")
    value, matches = judge(retrieved, references)
    unmatched = matches.count(False)
    reason = f"{unmatched} of {len(matches)} passages match none on the other side" if unmatched else None
    return Score.scored(value, reason, {"matches": matches})


def _register(name: str, summary: str, judge: Judgement) -> None:
    register(
        MetricDefinition(
            name=name,
            summary=summary,
            engine="rapidfuzz",
            imports=("rapidfuzz.distance",),
            build=per_sample(lambda exchange: _score(judge, exchange)),
            needs=frozenset({Need.CONTEXT, Need.REFERENCE_CONTEXTS}),
            scores_answers=False,
        )
    )


_register(
    "non_llm_context_precision",
    "Average precision of the retrieved contexts, each relevant where it resembles a reference context.",
    judge_precision,
)
_register(
    "non_llm_context_recall",
    "Share of the reference contexts that resemble some retrieved context.",
    judge_recall,
)
