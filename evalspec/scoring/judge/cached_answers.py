"""Single answers, vectors and refusals in the judge's cache, for scores that it does not have.

An answer is found by the configured parameters and the first request, and by its number among the answers to this
question: what a refusal or a repair changed later is no part of it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.grading import Grading, find_cacheable

if TYPE_CHECKING:
    from evalspec.scoring.judge.cache import JudgeCache, Question

_REFUSALS = "refusals"


class CachedAnswers:
    """The answers of one judge, and what its endpoint refuses. `place`: its model, address and parameters."""

    def __init__(self, cache: "JudgeCache | None", place: Sequence[Any]) -> None:
        self._cache = cache
        self._place = place
        self._refusals: list[str] | None = None

    def find(
        self, messages: Sequence[Mapping[str, str]], metric: str, number: int, check: Callable[[str], object]
    ) -> str | None:
        """Return an answer to the messages that passes the check, or None."""
        grading = find_cacheable()
        if self._cache is None or grading is None:
            return None
        return self._cache.find(self._ask(messages, metric, number, check), grading)

    def keep(self, messages: Sequence[Mapping[str, str]], metric: str, number: int, answer: str) -> None:
        """Write an answer that has passed its check."""
        grading = find_cacheable()
        if self._cache is not None and grading is not None:
            self._cache.keep(self._ask(messages, metric, number, lambda _answer: None), grading, answer)

    def find_refusals(self) -> list[str] | None:
        """Return what the endpoint has refused, in this order; None if nothing is known of it."""
        if self._cache is not None:
            self._refusals = self._cache.find(self._ask_for_refusals(), Grading())
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

    def find(self, text: str) -> list[float] | None:
        """Return the vector of a text, or None."""
        grading = find_cacheable()
        if self._cache is None or grading is None:
            return None
        return self._cache.find(self._ask(text), grading)

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
