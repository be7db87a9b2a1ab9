"""Checks of the answer's text without a judge: what it contains, begins with, or matches. Each score is 1 or 0.

Texts are compared character by character, in Unicode's form NFC: case and spaces count. `ignore_case` compares them
without case, as Unicode's caseless matching has it.
"""

from collections.abc import Callable

from evalspec.base.foreign_text import normalize
from evalspec.base.patterns import explain_bad_pattern, has_pattern
from evalspec.model import Exchange, Score
from evalspec.scoring.metrics.base import LONG_TEXTS
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.metrics.parameters import Parameter
from evalspec.scoring.metrics.text import shorten


def _explain_empty(value: str | list[str]) -> str | None:
    texts = [value] if isinstance(value, str) else value
    return None if all(texts) else "an empty text is in every answer; write the text to look for"


_VALUE = Parameter("value", str, explain=_explain_empty)
_VALUES = Parameter("values", list, explain=_explain_empty)
_IGNORE_CASE = Parameter("ignore_case", bool, default=False)


def _fold(text: str, ignore_case: bool) -> str:
    return normalize("NFC", normalize("NFD", text).casefold() if ignore_case else text)


def _find(exchange: Exchange, values: list[str], ignore_case: bool) -> list[bool]:
    """Return for each text whether the answer contains it."""
    answer = _fold(exchange.response, ignore_case)
    return [_fold(value, ignore_case) in answer for value in values]


def _judge(exchange: Exchange, holds: bool, missed: Callable[[], str]) -> Score:
    return Score.scored(holds, None if holds else f"{missed()}; {exchange.answered}")


def _quote(values: list[str]) -> str:
    return ", ".join(f"'{shorten(value)}'" for value in values)


@metric(parameters=(_VALUE, _IGNORE_CASE), is_binary=True, reads_at_most=LONG_TEXTS)
def contains(exchange: Exchange, *, value: str, ignore_case: bool = False) -> Score:
    """1 if the answer contains a text, which may be part of a word."""
    return _judge(exchange, all(_find(exchange, [value], ignore_case)), lambda: f"no {_quote([value])}")


@metric(parameters=(_VALUES, _IGNORE_CASE), is_binary=True, reads_at_most=LONG_TEXTS)
def contains_any(exchange: Exchange, *, values: list[str], ignore_case: bool = False) -> Score:
    """1 if the answer contains at least one of several texts."""
    return _judge(exchange, any(_find(exchange, values, ignore_case)), lambda: f"none of {_quote(values)}")


@metric(parameters=(_VALUES, _IGNORE_CASE), is_binary=True, reads_at_most=LONG_TEXTS)
def contains_all(exchange: Exchange, *, values: list[str], ignore_case: bool = False) -> Score:
    """1 if the answer contains each of several texts."""
    found = _find(exchange, values, ignore_case)
    missing = [value for value, is_found in zip(values, found, strict=True) if not is_found]
    return _judge(exchange, not missing, lambda: f"no {_quote(missing)}")


@metric(parameters=(_VALUE, _IGNORE_CASE), is_binary=True, reads_at_most=LONG_TEXTS)
def not_contains(exchange: Exchange, *, value: str, ignore_case: bool = False) -> Score:
    """1 if the answer does not contain a text. An empty answer contains none."""
    return _judge(exchange, not any(_find(exchange, [value], ignore_case)), lambda: f"contains {_quote([value])}")


@metric(parameters=(_VALUE, _IGNORE_CASE), is_binary=True, reads_at_most=LONG_TEXTS)
def starts_with(exchange: Exchange, *, value: str, ignore_case: bool = False) -> Score:
    """1 if the answer begins with a text. Spaces before it count."""
    holds = _fold(exchange.response, ignore_case).startswith(_fold(value, ignore_case))
    return _judge(exchange, holds, lambda: f"does not begin with {_quote([value])}")


@metric(
    parameters=(Parameter("pattern", str, explain=explain_bad_pattern),),
    is_binary=True,
    reads_at_most=LONG_TEXTS,
    imports=("regex",),
)
def matches(exchange: Exchange, *, pattern: str) -> Score:
    """1 if a regular expression matches anywhere in the answer; one that takes over 1 s has no score."""
    return _judge(exchange, has_pattern(pattern, exchange.response), lambda: f"no match of {_quote([pattern])}")
