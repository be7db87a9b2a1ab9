"""Texts in a form for comparisons: without invisible characters, and with one form for each letter and white space."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from evalspec.base.foreign_text import normalize

_PLAIN = re.compile(r"[ -~\n]*")
_ZERO_WIDTH_SPACE = "\u200b"
_IGNORABLE = re.compile("[\u034f\u17b4\u17b5\u180b-\u180f\u2065\ufe00-\ufe0f\ufff0-\ufff8\U000e0000-\U000e0fff]")
"""Invisible characters that are in no category of their own: joiners, variation selectors, reserved ones."""
_BLANKS = re.compile("[\u115f\u1160\u2800\u3164\uffa0]")
"""Characters without ink that are no white space to Unicode: fillers of Hangul, and Braille without dots."""
_INVISIBLE = re.compile(f"[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]|{_IGNORABLE.pattern}")
_QUOTES = {ord(char): mark for mark, chars in {"'": "‘’‚‛′ʼ´", '"': "“”„‟″«»"}.items() for char in chars}
"""Apostrophes and quotation marks that word processors put in place of the plain ones."""


class Folded(Struct, frozen=True):
    """A text for comparisons. `starts`, `ends`: by character, the offsets in the original text.

    `breaks`: offsets of characters that follow a zero-width space, which may separate words.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    breaks: frozenset[int] = frozenset()


def fold(text: str, *, keep_case: bool = False) -> Folded:
    """Return a text in NFKC, case-folded, with plain quotes and no invisible characters.

    A mark belongs to the letter before it.

    White space is a blank, or `\\n` where a line or paragraph ends.
    """
    if _PLAIN.fullmatch(text):
        return Folded(text if keep_case else text.lower(), range(len(text)), range(1, len(text) + 1))
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    breaks: set[int] = set()
    bounds = [place for place, char in enumerate(text) if not _is_mark(char)] or [0]
    for start, end in zip([0, *bounds[1:]], [*bounds[1:], len(text)], strict=True):
        letter = text[start:end]
        for char in _fold_letter(letter, keep_case):
            chars.append(char)
            starts.append(start)
            ends.append(end)
        if _ZERO_WIDTH_SPACE in letter:
            breaks.add(len(chars))
    return Folded("".join(chars), starts, ends, frozenset(breaks))


def flatten(text: str) -> str:
    """Return a long text as `fold` does, without offsets and with a blank for any white space."""
    if not text.isascii():
        shown = normalize("NFKC", _INVISIBLE.sub("", _BLANKS.sub(" ", text.translate(_QUOTES))))
        text = normalize("NFKC", shown.casefold())
    return " ".join(text.lower().split())


def _is_mark(char: str) -> bool:
    """Return whether a character is a part of the letter before it.

    Accents are, later parts of a Hangul syllable, and invisible characters.
    """
    return unicodedata.combining(char) > 0 or "\u1161" <= char <= "\u11ff" or _is_invisible(char)


def _is_invisible(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind == "Cf" or (kind == "Cc" and not char.isspace()) or _IGNORABLE.match(char) is not None


@lru_cache(maxsize=8192)
def _fold_letter(letter: str, keep_case: bool) -> str:
    shown = "".join(char for char in letter.translate(_QUOTES) if not _is_invisible(char))
    shown = normalize("NFKC", shown)
    if not keep_case:
        shown = normalize("NFKC", shown.casefold())
    return "".join(_fold_space(char) for char in shown)


def _fold_space(char: str) -> str:
    if _BLANKS.match(char):
        return " "
    return ("\n" if char.splitlines() == [""] else " ") if char.isspace() else char
