"""Ids named in a message: all that a person would read, and how many more there are."""

from collections.abc import Iterable

_SHOWN = 100


def render_ids(ids: Iterable[str]) -> str:
    """The ids with commas between them, the first hundred in full."""
    every = list(ids)
    rest = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
