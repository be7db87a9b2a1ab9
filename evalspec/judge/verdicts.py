"""What ragas takes on trust: whether the judge's answer is one that a score may be computed from.

ragas divides by the number of verdicts that came back and adds up whatever integers they hold: four statements with
one verdict give faithfulness 1.0, a verdict of 2 gives a context precision of 2.0 (measured with ragas 0.4.3). Here
each answer is held against what was sent. Nothing in this module knows ragas' classes, only the names and fields of
its response models.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Answer = Mapping[str, Any]
Given = Mapping[str, Any]

FREE_TEXT = "DiscreteResponseModel"
"""The response model of a prompt that is free text, so without an input that could be taken from it."""

_INPUT_MARK = "\nNow perform the same with the following input\ninput: "
_OUTPUT_MARK = "\nOutput: "


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of the judge that was used: `kind` is ragas' response model, `given` the input of its prompt."""

    kind: str
    given: Given
    answer: Answer


@dataclass(frozen=True, slots=True)
class Graded:
    """A value that ragas computed, and the verdicts that it was computed from, in the order of asking.

    `value` is NaN where ragas has no number for it.
    """

    value: float
    verdicts: tuple[Verdict, ...]

    def answers(self, kind: str) -> list[Answer]:
        """The answers of one kind."""
        return [verdict.answer for verdict in self.verdicts if verdict.kind == kind]


class NothingStated(Exception):
    """The judge found no statement in `text`, so that there is nothing to give verdicts on."""

    def __init__(self, text: str) -> None:
        super().__init__("the judge found no statement")
        self.text = text


def parse_input(prompt: str) -> dict[str, Any]:
    """The input at the end of one of ragas' structured prompts.

    The mark cannot stand in the input itself: there a line end is written as two characters.
    """
    _, _, rest = prompt.rpartition(_INPUT_MARK)
    parsed: dict[str, Any] = json.loads(rest.removesuffix(_OUTPUT_MARK))
    return parsed


def find_violation(kind: str, given: Given, answer: Answer) -> str | None:
    """Why an answer of this kind must not be used, or None.

    Raises:
        KeyError: a response model that has no check here; nothing is let through unchecked.
    """
    return _CHECKS[kind](given, answer)


def find_nothing_stated(kind: str, given: Given, answer: Answer) -> str | None:
    """The text in which the judge found no statement; None for any other answer."""
    if kind not in _DECOMPOSED:
        return None
    statements, source = _DECOMPOSED[kind]
    return None if answer[statements] else given[source]


_DECOMPOSED = {
    "StatementGeneratorOutput": ("statements", "answer"),
    "ClaimDecompositionOutput": ("claims", "response"),
}
"""Where a decomposition has its statements, and under which name its prompt has the text."""


def _texts(field: str) -> Callable[[Given, Answer], str | None]:
    def check(_given: Given, answer: Answer) -> str | None:
        return f"one of its {field} is blank" if any(not text.strip() for text in answer[field]) else None

    return check


def _statement_verdicts(given: Given, answer: Answer) -> str | None:
    wanted, got = len(given["statements"]), len(answer["statements"])
    if wanted != got:
        return f"it has {got} verdicts for {wanted} statements"
    return _binary("verdict", answer["statements"])


def _context_recall(_given: Given, answer: Answer) -> str | None:
    if not answer["classifications"]:
        return "it classifies no statement"
    return _binary("attributed", answer["classifications"])


def _context_precision(_given: Given, answer: Answer) -> str | None:
    return _binary("verdict", [answer])


def _answer_relevance(_given: Given, answer: Answer) -> str | None:
    if not answer["question"].strip() and answer["noncommittal"] == 0:
        return "its question is empty"
    return _binary("noncommittal", [answer])


def _correctness(given: Given, answer: Answer) -> str | None:
    """Each statement of the answer is true or false positive; false negatives come from the reference."""
    wanted, got = len(given["answer"]), len(answer["TP"]) + len(answer["FP"])
    if wanted != got:
        return f"it puts {got} statements in TP and FP, where the answer has {wanted}"
    missed, most = len(answer["FN"]), len(given["ground_truth"])
    return f"it puts {missed} statements in FN, where the ground truth has {most}" if missed > most else None


def _label(_given: Given, _answer: Answer) -> str | None:
    """The labels are part of the response model's schema, which is validated before."""
    return None


def _binary(field: str, items: Sequence[Answer]) -> str | None:
    wrong = [item[field] for item in items if item[field] not in (0, 1)]
    return f"its {field} is {wrong[0]}, which is neither 0 nor 1" if wrong else None


_CHECKS: Mapping[str, Callable[[Given, Answer], str | None]] = {
    "StatementGeneratorOutput": _texts("statements"),
    "ClaimDecompositionOutput": _texts("claims"),
    "NLIStatementOutput": _statement_verdicts,
    "StatementFaithfulnessOutput": _statement_verdicts,
    "ContextRecallOutput": _context_recall,
    "ContextPrecisionOutput": _context_precision,
    "AnswerRelevanceOutput": _answer_relevance,
    "ClassificationWithReason": _correctness,
    FREE_TEXT: _label,
}
