"""The questions whose results may be cached: what each depends on, and the check that a cached result has to pass."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.scoring.judge.cache import Question
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.verdicts import Graded, StatementVerdict, settle_answer

_VERDICTS = frozenset({"entailed", "contradicted", "missing"})
Settings = Mapping[str, Any]


def ask_for_score(
    metric: str, settings: Settings, fields: Mapping[str, Any], embedded: Sequence[str]
) -> Question[Graded]:
    """Return the question for a score of ragas."""
    inputs = {"call": "grade", **settings, "fields": fields, "embedded": embedded}
    return Question(metric, inputs, Graded, _check_graded, fields, _strip_graded)


def ask_for_label(
    metric: str, settings: Settings, template: str, labels: Sequence[str], fields: Mapping[str, Any]
) -> Question[tuple[str, str]]:
    """Return the question for a label and its reason."""

    def check(result: tuple[str, str]) -> None:
        if result[0] not in labels:
            raise UnusableVerdict("it is none of the labels")

    inputs = {"call": "label", **settings, "template": template, "labels": labels, "fields": fields}
    return Question(metric, inputs, tuple[str, str], check, strip=lambda result: (result[0], ""))


def ask_for_statements(metric: str, settings: Settings, question: str, response: str) -> Question[list[str]]:
    """Return the question for the statements of a response. Without texts there is nothing to keep of them."""
    given = {"question": question, "answer": response}

    def check(result: list[str]) -> None:
        settle_answer("StatementGeneratorOutput", given, {"statements": result})

    return Question(metric, {"call": "statements", **settings, "fields": given}, list[str], check, given)


def ask_about_claims(
    metric: str, settings: Settings, question: str, response: str, claims: Sequence[str]
) -> Question[list[tuple[str, str, str]]]:
    """Return the question for a verdict on each claim."""

    def check(result: list[tuple[str, str, str]]) -> None:
        if [claim for claim, _, _ in result] != [*claims] or not {one for *_, one in result} <= _VERDICTS:
            raise UnusableVerdict("it does not have one verdict for each claim")

    inputs = {"call": "claims", **settings, "fields": [question, response, claims]}
    return Question(
        metric, inputs, list[tuple[str, str, str]], check, strip=lambda result: [("", "", one) for *_, one in result]
    )


def _check_graded(graded: Graded) -> None:
    """Check every verdict against its input, as when it was asked."""
    if not math.isfinite(graded.value):
        raise UnusableVerdict("its value is no number")
    for one in graded.verdicts:
        if settle_answer(one.kind, one.given, one.answer) != one.answer:
            raise UnusableVerdict("its verdicts are not those of its statements")


def _strip_graded(graded: Graded) -> Graded:
    """Return the value with the numbers of its verdicts."""
    return Graded(graded.value, tuple(StatementVerdict(one.kind, {}, _blank(one.answer)) for one in graded.verdicts))


def _blank(value: Any) -> Any:
    """Return a JSON value with empty texts."""
    if isinstance(value, Mapping):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return "" if isinstance(value, str) else value
