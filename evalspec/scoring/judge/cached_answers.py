"""Single answers, vectors and refusals in the judge's cache, for scores that it does not have.

An answer is found by the configured parameters and the first request, and by its number among the answers to this
question: what a refusal or a repair changed later is no part of it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from evalspec.base.json_text import change_values
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.grading import Grading, find_cacheable

if TYPE_CHECKING:
    from evalspec.scoring.judge.cache import JudgeCache, Question
import math

from evalspec.scoring.judge.cache import Question
from evalspec.scoring.judge.verdicts import Graded, StatementVerdict, settle_answer

_REFUSALS = "refusals"


class CachedAnswers:
    """The answers of one judge, and what its endpoint refuses. `place`: its model, address and parameters."""

    def __init__(self, cache: "JudgeCache | None", place: Sequence[Any]) -> None:
        self._cache = cache
        self._place = place
        self._refusals: list[str] | None = None

    async def find(
        self, messages: Sequence[Mapping[str, str]], metric: str, number: int, check: Callable[[str], object]
    ) -> str | None:
        """Return an answer to the messages that passes the check, or None."""
        grading = find_cacheable()
        if self._cache is None or grading is None:
            return None
        return await self._cache.find(self._ask(messages, metric, number, check), grading)

    def keep(self, messages: Sequence[Mapping[str, str]], metric: str, number: int, answer: str) -> None:
        """Write an answer that has passed its check."""
        grading = find_cacheable()
        if self._cache is not None and grading is not None:
            self._cache.keep(self._ask(messages, metric, number, lambda _answer: None), grading, answer)

    async def find_refusals(self) -> list[str] | None:
        """Return what the endpoint has refused, in this order; None if nothing is known of it."""
        if self._cache is not None:
            self._refusals = await self._cache.find(self._ask_for_refusals(), Grading())
        return self._refusals

    def keep_refusals(self, refusals: Sequence[str]) -> None:
        """Write what the endpoint has refused so far, if that is new."""
        if self._cache is not None and self._refusals != [*refusals]:
            self._refusals = [*refusals]
            self._cache.keep(self._ask_for_refusals(), Grading(), self._refusals)

    def _ask(
        self, messages: Sequence[Mapping[str, str]], metric: str, number: int, check: Callable[[str], object]
    ) -> "Question[str]":
        from evalspec.scoring.judge.cache import Question

        return Question(metric, {"answer": [self._place, messages, number]}, str, check, level="answer")

    def _ask_for_refusals(self) -> "Question[list[str]]":
        from evalspec.scoring.judge.cache import Question

        inputs = {_REFUSALS: self._place}
        return Question(_REFUSALS, inputs, list[str], lambda _names: None, strip=lambda names: names, level=_REFUSALS)


class CachedVectors:
    """The vectors of one model. Like other entries, a vector belongs to a sample, with which it is erased."""

    def __init__(self, cache: "JudgeCache | None", place: Sequence[Any]) -> None:
        self._cache = cache
        self._place = place

    async def find(self, text: str) -> list[float] | None:
        """Return the vector of a text, or None."""
        grading = find_cacheable()
        if self._cache is None or grading is None:
            return None
        return await self._cache.find(self._ask(text), grading)

    def keep(self, text: str, vector: list[float]) -> None:
        """Write a vector."""
        grading = find_cacheable()
        if self._cache is not None and grading is not None:
            self._cache.keep(self._ask(text), grading, vector)

    def _ask(self, text: str) -> "Question[list[float]]":
        from evalspec.scoring.judge.cache import Question

        return Question("embeddings", {"vector": [self._place, text]}, list[float], _check_vector, level="vector")


def _check_vector(vector: Sequence[float]) -> None:
    if not any(vector) or not all(map(isfinite, vector)):
        raise UnusableVerdict("it is no vector")


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
    return change_values(value, lambda one: "" if isinstance(one, str) else one)
