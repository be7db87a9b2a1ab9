"""promptfoo's asserts: which of them say what the right answer is, and which metric is the counterpart of each."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

_ANSWERS = {
    "equals": "exact_match",
    "factuality": "factual_correctness",
    "model-graded-factuality": "factual_correctness",
    "similar": "answer_similarity",
    "context-recall": "context_recall",
    "contains-any": "string_match",
    "icontains-any": "string_match",
    "contains": "string_match",
    "icontains": "string_match",
    "rouge-n": "rouge",
    "bleu": "bleu",
    "levenshtein": "answer_similarity",
}
"""Asserts whose value is a right answer, the clearest first, each with the metric that checks it."""

_METRICS = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-relevance": "context_precision",
    "latency": "a threshold on latency_p95",
}
"""Asserts that need no answer, with their counterpart."""

_ALTERNATIVES = ("contains-any", "icontains-any")
_IN_CELL = re.compile(r"\s*([a-z][a-z-]*)(?:\([^)]*\))?\s*:\s*(.*)", re.DOTALL)
_OF_CELLS = frozenset((*_ANSWERS, *_METRICS)) | {
    "contains-all",
    "icontains-all",
    "contains-json",
    "is-json",
    "javascript",
    "python",
    "fn",
    "eval",
    "grade",
    "llm-rubric",
    "cost",
    "regex",
    "starts-with",
    "g-eval",
    "model-graded-closedqa",
    "webhook",
    "perplexity",
    "moderation",
}
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_TEMPLATE = ("{{", "{%", "{#", "file://")


class Verdicts(Struct, frozen=True):
    """The right answers of a test. `kind`: the assert that gave them. `others`: the types of all other asserts."""

    answers: tuple[str, ...] = ()
    kind: str = ""
    others: tuple[str, ...] = ()


def find_counterpart(kind: str) -> str:
    """Return the metric that does what an assert does, empty if there is none."""
    return _ANSWERS.get(kind) or _METRICS.get(kind, "")


def has_answer(kind: Any) -> bool:
    """Return whether the value of an assert of this type is a right answer."""
    return isinstance(kind, str) and kind in _ANSWERS


def choose_answers(asserts: Iterable[Any], variables: Mapping[str, Any]) -> Verdicts:
    """Return the right answers of a test.

    Several asserts must all hold, but evalspec's right answers are alternatives. So one assert gives the answers, and
    the others are reported.
    """
    flat = list(_flatten(asserts))
    given = [(kind, answers) for kind, value in flat if (answers := _find_answers(kind, value, variables))]
    if not given:
        return Verdicts(others=tuple(kind for kind, _ in flat))
    order = list(_ANSWERS)
    kind, answers = min(given, key=lambda one: order.index(one[0]))
    others = [other for other, value in flat if _find_answers(other, value, variables) != answers]
    return Verdicts(answers, kind, tuple(others))


def _flatten(asserts: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for one in asserts:
        if not isinstance(one, Mapping):
            yield "an assert that is no mapping", None
        elif isinstance(one.get("assert"), list):
            yield from _flatten(one["assert"])
        else:
            yield str(one.get("type", "an assert without a type")), one.get("value")


def _find_answers(kind: str, value: Any, variables: Mapping[str, Any]) -> tuple[str, ...]:
    if kind not in _ANSWERS:
        return ()
    if kind in _ALTERNATIVES and isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    values = value if isinstance(value, list) and (kind in _ALTERNATIVES or len(value) == 1) else [value]
    texts = [fill_in(one, variables) for one in values if isinstance(one, str | int | float)]
    complete = [text for text in texts if text is not None and text.strip()]
    return tuple(complete) if len(complete) == len(values) else ()


def fill_in(value: Any, variables: Mapping[str, Any]) -> str | None:
    """Return a text with its plain `{{name}}` replaced by variables. None if it needs a template engine or a file."""
    text = value if isinstance(value, str) else str(value)
    filled = substitute(text, variables)
    return None if any(mark in filled for mark in _TEMPLATE) else filled


def substitute(text: str, variables: Mapping[str, Any]) -> str:
    """Return a text with each plain `{{name}}` of a variable replaced, once."""
    return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), text)


def parse_cell_assert(cell: str) -> dict[str, Any]:
    """Return the assert that a cell of the column `__expected` spells; a text without a type has to be equal."""
    typed = _IN_CELL.fullmatch(cell)
    if typed and typed[1].removeprefix("not-") in _OF_CELLS:
        return {"type": typed[1], "value": typed[2].strip()}
    if cell.strip() in _OF_CELLS:
        return {"type": cell.strip()}
    return {"type": "equals", "value": cell}
