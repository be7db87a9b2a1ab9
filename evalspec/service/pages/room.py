"""How many characters of texts fit on a page."""

from markupsafe import escape
from msgspec import Struct

from evalspec.base.foreign_text import visible

_LEAST = 200
"""So many characters of each text are shown, however full the page is."""


class CutText(Struct, frozen=True):
    """The beginning of a text. `more`: number of further characters."""

    text: str
    more: int


class Room:
    """The room for texts on one page. `left`: in bytes of HTML; None: unlimited."""

    def __init__(self, left: int | None) -> None:
        self._left = left

    def take(self, text: str, most: int) -> CutText:
        """Return what is shown of a text: at most so many characters, and as many as there is room for."""
        if self._left is None:
            return CutText(text, 0)
        shown = text[:most]
        size = _measure(shown)
        if size > self._left:
            shown = shown[: max(_LEAST, len(shown) * max(self._left, 0) // size)]
            size = _measure(shown)
        self._left -= size
        return CutText(shown, len(text) - len(shown))


def _measure(text: str) -> int:
    return len(str(escape(visible(text))).encode(errors="replace"))
