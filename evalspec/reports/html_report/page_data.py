"""Encode data for the page: harmless texts, as JSON that HTML parsers never read as markup, in compressed pieces.

The page unpacks the pieces on demand.
"""

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.foreign_text import visible
from evalspec.reports.markup.elements import Element

_MOST_EXACT = 2**53
"""Larger integers are not exact in JavaScript."""
_PIECE = 256_000
"""Characters of JSON at which a piece is closed. A browser unpacks such a piece in a few milliseconds."""


class PageData:
    """Prepares untrusted data for the page.

    `longest`: maximum characters of a text; None: unlimited. `lengths`: counts of the original lengths. `cut`: the
    number of longer texts.
    """

    def __init__(self, longest: int | None = None) -> None:
        self.longest = longest
        self.lengths: Counter[int] = Counter()
        self.cut = 0

    def show(self, value: Any) -> Any:
        """Return JSON data with harmless texts and keys. Numbers that JSON or JavaScript lacks become text."""
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

    def show_element(self, element: Element, known: Sequence[str] = ()) -> list[Any]:
        """Return an element as JSON data with harmless texts and values of attributes: tag, attributes, children.

        A text that is among the known ones becomes its place there.
        """
        places = {text: place for place, text in reversed([*enumerate(known)])}

        def convert(node: Element) -> list[Any]:
            attributes = {name: self._text(value) for name, value in node.attributes.items()}
            children: list[Any] = []
            for one in node.children:
                if isinstance(one, Element):
                    children.append(convert(one))
                else:
                    children.append(places[one] if one in places else self._text(one))
            return [node.tag, attributes, children]

        return convert(element)

    def _text(self, text: str) -> str:
        shown = text if text.isprintable() else visible(text)  # much faster than the search
        length = len(shown)
        self.lengths[length] += 1
        if self.longest is None or length <= self.longest:
            return shown
        self.cut += 1
        return f"{shown[: self.longest]}… [truncated: {length:,} characters in total, complete in the run folder]"


def to_json(value: Any) -> str:
    """Return JSON on one line without spaces.

    Raises:
        ValueError: the value has a number that JSON lacks.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_script(value: Any) -> str:
    """Return JSON for a data block. It has no `<`, so nothing in it can end the block or open a comment.

    Raises:
        ValueError: as for `to_json`.
    """
    return to_json(value).replace("<", "\\u003c")


def pack(text: str) -> str:
    """Return the text compressed (RFC 1950) and base64-encoded. `DecompressionStream("deflate")` reads it."""
    return b64encode(zlib.compress(text.encode())).decode("ascii")


class Chunks:
    """A sequence of items, packed into pieces as they are added.

    `firsts`: the number of the first item of each piece. `characters`: of JSON in the pieces. If the pieces exceed
    `most_bytes`, further items are dropped to bound memory, and `complete` is False. None keeps all items.
    """

    def __init__(self, most_bytes: int | None) -> None:
        self.firsts: list[int] = []
        self.pieces: list[str] = []
        self.size = 0
        self.characters = 0
        self._most_bytes = most_bytes
        self._open: list[str] = []
        self._open_size = 0
        self._count = 0

    @property
    def complete(self) -> bool:
        """Return whether all items were kept."""
        return self._most_bytes is None or self.size <= self._most_bytes

    def add(self, item: Any) -> None:
        """Append one item."""
        self._count += 1
        if not self.complete:
            return
        text = to_json(item)
        self._open.append(text)
        self._open_size += len(text)
        if self._open_size >= _PIECE:
            self.close()

    def close(self) -> None:
        """Pack the remaining items."""
        if not self._open:
            return
        piece = pack(f"[{','.join(self._open)}]")
        self.firsts.append(self._count - len(self._open))
        self.pieces.append(piece)
        self.size += len(piece)
        self.characters += self._open_size
        self._open, self._open_size = [], 0
