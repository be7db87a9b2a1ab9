"""Any data made ready for the page: nothing in it steers the text, breaks JSON, or is longer than there is room for."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from evalspec.foreign_text import visible

_MOST_EXACT = 2**53
"""Integers beyond it are not exact in JavaScript."""


class PageData:
    """Makes data of others ready for the page.

    `longest`: characters of a text; None: as long as they are. `lengths`: how long the texts were before; `cut`: how
    many of them were longer.
    """

    def __init__(self, longest: int | None = None) -> None:
        self.longest = longest
        self.lengths: Counter[int] = Counter()
        self.cut = 0

    def show(self, value: Any) -> Any:
        """The same data of JSON's types, keys included; a number that JSON or JavaScript lacks as text."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.show(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.show(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) <= _MOST_EXACT:
            return value
        return self._text(str(value))

    def _text(self, text: str) -> str:
        shown = visible(text)
        length = len(shown)
        self.lengths[length] += 1
        if self.longest is None or length <= self.longest:
            return shown
        self.cut += 1
        return f"{shown[: self.longest]}… [cut here: {length:,} characters, whole in the run folder]"
