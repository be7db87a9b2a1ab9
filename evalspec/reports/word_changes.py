"""The words in which two texts differ, such as an answer and the expected one."""

import re
from collections.abc import Sequence

from msgspec import Struct

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4000
"""Longer texts are not compared, because the time grows with the product of both lengths."""


class TextPiece(Struct, frozen=True):
    """Part of a text. `differs`: whether the other text lacks it."""

    text: str
    differs: bool = False


def mark_differences(one: str, other: str) -> tuple[tuple[TextPiece, ...], tuple[TextPiece, ...]]:
    """Return both texts in pieces, in which the words that only one of them has are marked.

    Words are compared without case. Nothing is marked in texts that have no word in common, or are too long.
    """
    words = [_WORD.findall(text) for text in (one, other)]
    if not all(words) or max(map(len, words)) > _MOST_WORDS:
        return _unmarked(one), _unmarked(other)
    from rapidfuzz.distance import LCSseq

    folded = [[word.casefold() if not word.isspace() else " " for word in side] for side in words]
    common: tuple[set[int], set[int]] = (set(), set())
    for step in LCSseq.opcodes(*folded):
        if step.tag == "equal":
            common[0].update(range(step.src_start, step.src_end))
            common[1].update(range(step.dest_start, step.dest_end))
    if not any(folded[0][place].isalnum() for place in common[0]):
        return _unmarked(one), _unmarked(other)
    return _join(words[0], common[0]), _join(words[1], common[1])


def _unmarked(text: str) -> tuple[TextPiece, ...]:
    return (TextPiece(text),) if text else ()


def _join(words: Sequence[str], common: set[int]) -> tuple[TextPiece, ...]:
    """Return words as pieces. White space is marked only between marked words."""
    marked = [place not in common and not word.isspace() for place, word in enumerate(words)]
    for place in range(1, len(words) - 1):
        if words[place].isspace() and marked[place - 1] and marked[place + 1]:
            marked[place] = True
    pieces: list[TextPiece] = []
    for word, differs in zip(words, marked, strict=True):
        if pieces and pieces[-1].differs == differs:
            pieces[-1] = TextPiece(pieces[-1].text + word, differs)
        else:
            pieces.append(TextPiece(word, differs))
    return tuple(pieces)
