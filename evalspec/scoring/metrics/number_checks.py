"""equals_number: whether the only number of the answer is the expected one.

A point is the decimal mark, and commas, apostrophes and spaces between groups of three digits group them: `1,000` is a
thousand and `1.000` is one. Where that cannot be, they are read as they must be, as in `3,5`, `0,125` and `1.000.000`.
"""

import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from evalspec.model import Cause, Exchange, Need, Score
from evalspec.scoring.metrics.base import LONG_TEXTS
from evalspec.scoring.metrics.functions import metric, read_needed
from evalspec.scoring.metrics.parameters import Parameter
from evalspec.scoring.metrics.text import list_numbers, shorten

_NUMBER = re.compile(r"(?:(?P<sign>[^\d.])(?=[\d.]))?(?P<body>[\d.,' ]*)(?:e(?P<power>.?\d{1,3}))?(?P<fraction>\D?)")
_LONGEST = 400
"""Digits of a number that is read. Nobody writes longer ones, and huge powers would take long."""
_MARKS = re.compile("[.,]")
_GROUPED = re.compile(r"[1-9]\d{0,2},\d{3}")


def read_number(text: str) -> Fraction | None:
    """Return the value of a number as `list_numbers` spells it; None if it is no plain one, such as `5²`."""
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > _LONGEST:
        return None
    part = Fraction(0)
    if found["fraction"]:
        numeric = unicodedata.numeric(found["fraction"], 0.0)
        if not 0 < numeric < 1:
            return None
        part = Fraction(numeric).limit_denominator(100)
    digits = _read_digits(found["body"])
    power = int(re.sub(r"^\D", lambda mark: "" if mark[0] == "+" else "-", found["power"])) if found["power"] else 0
    value = (digits + part) * Fraction(10) ** power
    return -value if found["sign"] else value


def _read_digits(body: str) -> Fraction:
    plain = re.sub("[' ]", "", body)
    marks = _MARKS.findall(plain)
    if len(set(marks)) == 2:
        decimal = marks[-1]
    elif len(marks) == 1:
        decimal = "" if _GROUPED.fullmatch(plain) else marks[0]
    else:
        decimal = ""
    whole, _, rest = plain.rpartition(decimal) if decimal else (plain, "", "")
    return Fraction(f"{_MARKS.sub('', whole) or 0}.{rest or 0}")


def _explain_expected(text: str) -> str | None:
    numbers = list_numbers(text)
    if len(numbers) == 1 and read_number(numbers[0]) is not None:
        return None
    return f"the expected answer '{shorten(text)}' is not one number"


def _needs(parameters: Mapping[str, Any]) -> frozenset[Need]:
    return frozenset() if "value" in parameters else frozenset({Need.EXPECTED})


def _explain_tolerance(tolerance: float) -> str | None:
    return "a tolerance is at least 0; write how far off a number may be" if tolerance < 0 else None


@metric(
    parameters=(
        Parameter("value", float, default=None),
        Parameter("tolerance", float, default=0.0, explain=_explain_tolerance),
    ),
    needs_of=_needs,
    is_binary=True,
    reads_at_most=LONG_TEXTS,
)
def equals_number(exchange: Exchange, *, value: float | None = None, tolerance: float = 0.0) -> Score:
    """1 if the answer has exactly one number, and it is the expected one or `value`, within the tolerance."""
    if value is None:
        references = read_needed(exchange, Need.EXPECTED)
        problem = next(filter(None, map(_explain_expected, references)), None)
        if problem:
            return Score.failed(problem, Cause.DATASET)
        wanted = [read_number(list_numbers(text)[0]) for text in references]
    else:
        wanted = [Fraction(repr(value))]
    numbers = list_numbers(exchange.response)
    if len(numbers) != 1:
        shown = f"{len(numbers)} numbers" if numbers else "no number"
        return Score.scored(0, f"the answer has {shown}; {exchange.answered}")
    found = read_number(numbers[0])
    if found is None:
        return Score.scored(0, f"'{shorten(numbers[0])}' is no plain number; {exchange.answered}")
    holds = any(one is not None and abs(found - one) <= Fraction(repr(tolerance)) for one in wanted)
    return Score.scored(holds, None if holds else f"the number is {shorten(numbers[0])}; {exchange.answered}")
