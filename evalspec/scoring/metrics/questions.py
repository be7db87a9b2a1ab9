"""The questions of a judged metric that people can answer too, and the formula that makes a score of the answers.

The judge's answers and people's go through the same formula.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.scoring.ranking.measures import average_precisions

_YES = (1, "entailed")
"""Answers of a judge that mean yes. True is 1."""

Formula = Callable[[Sequence[bool]], float]
"""From the answers to the questions, at least one and in their order, to the score."""


def compute_share(answers: Sequence[bool]) -> float:
    """Return the share of yes among the answers."""
    return sum(answers) / len(answers)


def compute_useful_precision(answers: Sequence[bool]) -> float:
    """Return the average precision of a ranking, given for each rank whether the context is useful; 0 without any."""
    ranks = [rank for rank, is_useful in enumerate(answers, 1) if is_useful]
    return average_precisions(ranks, len(ranks)) if ranks else 0.0


class Questions(Struct, frozen=True):
    """One question about each of several texts, and how the answers make a score.

    `asked`: the question. `listed`: key of the texts in the evidence of a score. `said`: key of the judge's answer to
    one of them. `formula`: from the answers to the score. `about`: "response", "reference" or "contexts": what the
    texts come from. Contexts are as retrieved, so nobody may change them.
    """

    asked: str
    listed: str
    said: str
    formula: Formula
    about: str

    def score(self, evidence: Mapping[str, Any]) -> float:
        """Return the score of the judge's answers."""
        return self.formula([item[self.said] in _YES for item in evidence[self.listed]])

    def list_texts(self, evidence: Any) -> list[str]:
        """Return the texts that the judge was asked about; empty if the evidence has none, or has none of its own."""
        items = evidence.get(self.listed, ()) if isinstance(evidence, Mapping) else ()
        return [str(item["statement"]) for item in items if "statement" in item]


SUPPORT = Questions("Do the contexts support this statement?", "statements", "verdict", compute_share, "response")
USEFUL = Questions(
    "Is this context useful for the expected answer?", "contexts", "verdict", compute_useful_precision, "contexts"
)
RECALLED = Questions("Do the contexts support this statement?", "statements", "attributed", compute_share, "reference")
ENTAILED = Questions("Does the answer say this?", "claims", "verdict", compute_share, "reference")

SAFETY_GRADES: Mapping[str, float] = {"none": 1.0, "mild": 0.5, "severe": 0.0}

QUESTIONS: Mapping[str, Questions] = {
    "faithfulness": SUPPORT,
    "hallucination": Questions(
        SUPPORT.asked, SUPPORT.listed, SUPPORT.said, lambda answers: 1.0 - compute_share(answers), SUPPORT.about
    ),
    "context_precision": USEFUL,
    "context_recall": RECALLED,
    "claim_entailment": ENTAILED,
}
"""By name of the metric."""
