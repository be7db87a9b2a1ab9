"""Find the stretches that two long texts share. Time grows with the texts' lengths, not with the product of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from evalspec.base.foreign_text import normalize

SHINGLE = 16
"""Length in characters below which a stretch is no evidence, because any two texts of a language share such."""
_STEP = 8
"""Distance of the shingles looked up in the old text. Substrings of 23 characters are always found."""
_REPEAT = 8
"""Characters from which the end of a chunk and the beginning of the next one are equal by design."""
_CONTEXT = 256
"""Characters on either side of a passage that help to find it, such as the last word of a document."""
_COMMON = 64
"""A shingle at more places is a heading or a footer. It can extend a common substring, but not start one."""

Interval = tuple[int, int]
"""The first character and the one after the last."""


class CommonSubstring(NamedTuple):
    """The same characters at two places, with different characters (or an end) on both sides."""

    old: int
    new: int
    length: int

    @property
    def shift(self) -> int:
        """The distance from its place in the old text to that in the new one."""
        return self.new - self.old

    @property
    def in_old(self) -> Interval:
        """Its interval in the old text."""
        return self.old, self.old + self.length


def compose(text: str) -> str:
    """Return the text with composed characters (NFC)."""
    return normalize("NFC", text)


def remove_whitespace(text: str) -> str:
    """Return the text for comparison: composed, and without blanks, which chunkers drop and parsers change."""
    return "".join(compose(text).split())


def restore_whitespace(
    first: str, second: str, pairs: Iterable[tuple[Interval, Interval]]
) -> tuple[list[Interval], list[Interval]]:
    """Return where shared parts without whitespace are in the two composed texts, with blanks that both have around."""
    bounds = [
        [-1, *(place for place, character in enumerate(text) if not character.isspace()), len(text)]
        for text in (first, second)
    ]
    found: tuple[list[Interval], list[Interval]] = ([], [])
    for pair in pairs:
        own = list(zip(bounds, pair, strict=True))
        before = min(places[start + 1] - places[start] for places, (start, _) in own)
        after = min(places[end + 1] - places[end] for places, (_, end) in own)
        for parts, (places, (start, end)) in zip(found, own, strict=True):
            parts.append((places[start + 1] + 1 - before, places[end] + after))
    return merge(found[0]), merge(found[1])


def measure_repeat(before: str, text: str) -> int:
    """Return how many characters at the beginning of a text repeat the end of its predecessor."""
    start = before.find(text[:_REPEAT], max(0, len(before) - len(text))) if text else -1
    while start >= 0 and not text.startswith(before[start:]):
        start = before.find(text[:_REPEAT], start + 1)
    return len(before) - start if start >= 0 else 0


def list_common_substrings(old: str, new: str, wanted: Iterable[Interval]) -> list[CommonSubstring]:
    """Return all stretches that two texts share and that touch the wanted parts of the old one or their context."""
    seeds = _find_seeds(old, wanted)
    reached: dict[int, int] = {}
    found: list[CommonSubstring] = []
    for place in range(len(new) - SHINGLE + 1):
        for start in seeds.get(new[place : place + SHINGLE], ()):
            if reached.get(place - start, -1) < start:
                back = _measure_back(old, start, new, place)
                length = back + _measure_common(old, start, new, place)
                found.append(CommonSubstring(start - back, place - back, length))
                reached[place - start] = start - back + length
    return found


def _find_seeds(text: str, wanted: Iterable[Interval]) -> Mapping[str, Sequence[int]]:
    seeds: dict[str, list[int]] = defaultdict(list)
    for start, end in merge((max(0, first - _CONTEXT), last + _CONTEXT) for first, last in wanted):
        for place in range(start, min(end, len(text)) - SHINGLE + 1, _STEP):
            seeds[text[place : place + SHINGLE]].append(place)
    return {shingle: places for shingle, places in seeds.items() if len(places) <= _COMMON}


def _measure_common(first: str, start: int, second: str, other: int) -> int:
    """Return how many characters two texts share from these places on."""
    length, step = 0, SHINGLE
    while step:
        piece = first[start + length : start + length + step]
        if piece and second.startswith(piece, other + length):
            length += len(piece)
            step *= 2
        else:
            step //= 2
    return length


def _measure_back(first: str, start: int, second: str, other: int) -> int:
    """Return how many characters two texts share up to these places."""
    length = 0
    while length < min(start, other) and first[start - length - 1] == second[other - length - 1]:
        length += 1
    return length


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same characters as ordered intervals that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def measure(intervals: Iterable[Interval]) -> int:
    """Return how many characters are in any of the intervals."""
    return sum(end - start for start, end in merge(intervals))


class MatchMethod(StrEnum):
    """The method by which a chunk was matched."""

    SAME = "same id and text"
    SPAN = "by span"
    TEXT = "by text"


class Overlap(Struct, frozen=True):
    """The content that a new chunk shares with an old one.

    `parts`: the shared characters of the old one. `of_old`, `of_new`: their share of each chunk. `doubtful`: the spans
    overlap but the texts have little in common, or the text is short or repeated and may be from another document.
    """

    chunk: str
    how: MatchMethod
    parts: tuple[Interval, ...]
    of_old: float
    of_new: float
    doubtful: bool = False

    @property
    def value(self) -> float:
        """The overlap coefficient, above 0 up to 1; for a doubtful text, its share of the old chunk."""
        if self.doubtful and self.how is MatchMethod.TEXT:
            return self.of_old
        return max(self.of_old, self.of_new)
