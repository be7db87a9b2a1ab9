"""Singular, plural and lists of names in messages."""

from collections.abc import Sequence

_NAMES_SHOWN = 5


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 sample`, `2 samples`. `plural`: if it is not the noun with an `s`."""
    return f"{count:,} {pluralize(count, noun, plural)}"


def pluralize(count: int, word: str, plural: str | None = None) -> str:
    """Return a word for a count: `sample` or `samples`; with `plural`, any pair, such as `is` and `are`."""
    return word if count == 1 else (f"{word}s" if plural is None else plural)


def name_some(names: Sequence[str]) -> str:
    """Return the first names, with an ellipsis if there are more: `s1, s2, s3, s4, s5, …`."""
    return ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
