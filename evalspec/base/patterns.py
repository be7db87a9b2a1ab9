"""Patterns that users write, searched within a time limit: nested repetitions could otherwise take forever."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import monotonic
from typing import Any

PATTERN_SECONDS = 1.0
_LEAST_SECONDS = 1e-6
_SHOWN = 80
_LEFT: ContextVar[list[float] | None] = ContextVar("left", default=None)
"""The seconds that all patterns of a comparison have left together; None: each has its own limit."""


class CannotCheck(ValueError):
    """What a user wrote cannot be checked against a value. Whether the value fits is unknown."""


class PatternTooSlow(CannotCheck):
    """A pattern takes longer than the limit on a text."""


def explain_bad_pattern(pattern: str) -> str | None:
    """Return why a text is no pattern, or None."""
    import regex

    if not pattern:
        return "an empty pattern is in every text; write the pattern to look for"
    try:
        _compile(pattern)
    except (regex.error, RecursionError) as error:
        return f"{_shown(pattern)} is no regular expression: {error}"
    return None


def has_pattern(pattern: str, text: str) -> bool:
    """Return whether a text has a pattern anywhere.

    Raises:
        PatternTooSlow: it takes too long.
    """
    left = _LEFT.get()
    seconds = PATTERN_SECONDS if left is None else max(left[0], _LEAST_SECONDS)
    begun = monotonic()
    try:
        return _compile(pattern).search(text, timeout=seconds, concurrent=True) is not None
    except TimeoutError as error:
        message = f"the pattern {_shown(pattern)} takes longer than {PATTERN_SECONDS:g} s on a text"
        raise PatternTooSlow(f"{message}; write one without nested repetitions") from error
    finally:
        if left is not None:
            left[0] -= monotonic() - begun


@contextmanager
def sharing_limit() -> Iterator[None]:
    """Let all patterns within the block share one time limit: an agent may send thousands of texts."""
    token = _LEFT.set([PATTERN_SECONDS])
    try:
        yield
    finally:
        _LEFT.reset(token)


@lru_cache(maxsize=1_000)
def _compile(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…")
