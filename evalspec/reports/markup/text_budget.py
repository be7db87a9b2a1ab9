"""Texts of samples as elements, and how many of their characters fit on a page."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TypeVar

from msgspec import Struct

from evalspec.base.foreign_text import cut, visible
from evalspec.reports.markup.elements import Element, Nodes, el
from evalspec.reports.word_changes import TextPiece

T = TypeVar("T")

_URL = re.compile(r"(https?://[!#-&(-;=?-\[\]-~]+(?<![!),.:;?\]}]))")
"""An address in a text: of printable ASCII without quotes, without the punctuation after it. No other scheme is one."""
_LEAST = 200
"""So many characters of each text are shown, however full the page is."""
_MOST = 20_000
_MOST_ITEMS = 100
_LONGEST_NAME = 160
_LONGEST_NAME_WHOLE = 2000


class CutText(Struct, frozen=True):
    """The beginning of a text. `more`: number of further characters."""

    text: str
    more: int


class TextBudget:
    """The budget for texts on one page. `left`: in bytes of HTML; None: unlimited. `whole_link`: to the whole texts."""

    def __init__(self, left: int | None, whole_link: str | None = None) -> None:
        self._left = left
        self._whole_link = whole_link
        self._most_items = None if left is None else _MOST_ITEMS

    def items(self, items: Sequence[T], draw: Callable[[T], Nodes]) -> tuple[Nodes, Element | None]:
        """Return the first items as elements, and how many more there are."""
        shown = items[: self._most_items]
        more = len(items) - len(shown)
        return [draw(item) for item in shown], el("p", f"… and {more:,} more", class_="muted") if more else None

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

    def clip(self, name: str) -> str:
        """Return a name. A page with little room shows its beginning."""
        return cut(name, _LONGEST_NAME if self._most_items else _LONGEST_NAME_WHOLE)

    def prose(self, text: str, kind: str = "", most: int = _MOST, *, has_links: bool = False) -> Element:
        """Return a text with its original line breaks, with a link to its rest if it is cut.

        `has_links`: whether addresses in it (http and https) are links.
        """
        if _is_blank(text):
            return _draw_empty()
        shown = self.take(text, most)
        content = _link_urls(shown.text) if has_links else shown.text
        return el("div", content, self._link_rest(shown), class_=f"prose {kind}".strip(), dir="auto")

    def pieces(self, pieces: Sequence[TextPiece], most: int = _MOST) -> Element:
        """Return a text in which the words that another text lacks are marked."""
        if _is_blank("".join(piece.text for piece in pieces)):
            return _draw_empty()
        return el("div", [self._draw_piece(piece, most) for piece in pieces], class_="prose", dir="auto")

    def _draw_piece(self, piece: TextPiece, most: int) -> Iterator[Nodes]:
        shown = self.take(piece.text, most)
        yield el("mark", shown.text) if piece.differs else shown.text
        yield self._link_rest(shown)

    def _link_rest(self, shown: CutText) -> Element | None:
        if not shown.more:
            return None
        said = f"{shown.more:,} more characters"
        link = el("a", said, href=self._whole_link, data_key="w") if self._whole_link else said
        return el("span", "… ", link, class_="muted")


def _link_urls(text: str) -> list[Nodes]:
    parts = enumerate(_URL.split(text))
    return [el("a", part, href=part, rel="noopener noreferrer") if place % 2 else part for place, part in parts]


def _is_blank(text: str) -> bool:
    """Return whether nothing is seen of a text. A carriage return, for example, is seen as its escape."""
    return not text.strip() and not visible(text).strip()


def _draw_empty() -> Element:
    return el("p", "(empty)", class_="muted")


def _measure(text: str) -> int:
    return len(escape(visible(text)).encode(errors="replace"))
