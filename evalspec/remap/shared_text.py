"""Which stretches two long texts have in common. The work grows with the length of the texts and not with the product
of their lengths.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

SHINGLE = 16
"""Characters. A shorter stretch is no evidence: any two texts of a language share such stretches."""
_STEP = 8
"""Every so many characters of the old text a shingle is looked up: stretches of 23 characters are always found."""
_REPEAT = 8
"""Characters that the end of a chunk and the beginning of the next one share by no accident."""
_CONTEXT = 256
"""Characters on either side of a passage that help to find it, so that the last word of a document is found too."""
_COMMON = 64
"""A shingle at more places than that is a heading or a footer. It extends a stretch and does not start one."""

Interval = tuple[int, int]
"""The first character and the one after the last."""


class Stretch(NamedTuple):
    """The same characters at two places, with different ones (or an end) on either side."""

    old: int
    new: int
    length: int

    @property
    def shift(self) -> int:
        """From its place in the old text to that in the new one."""
        return self.new - self.old

    @property
    def in_old(self) -> Interval:
        """Its characters in the old text."""
        return self.old, self.old + self.length


def compose(text: str) -> str:
    """Text with composed characters (NFC)."""
    return unicodedata.normalize("NFC", text)


def squeeze(text: str) -> str:
    """Text as it is compared: composed and without blanks, which chunkers drop and parsers change."""
    return "".join(compose(text).split())


def unsqueeze(
    first: str, second: str, pairs: Iterable[tuple[Interval, Interval]]
) -> tuple[list[Interval], list[Interval]]:
    """Where shared parts of two squeezed texts are in the composed ones, with the blanks around that both have."""
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
    """How many characters at the beginning of a text are the end of the one before it."""
    start = before.find(text[:_REPEAT], max(0, len(before) - len(text))) if text else -1
    while start >= 0 and not text.startswith(before[start:]):
        start = before.find(text[:_REPEAT], start + 1)
    return len(before) - start if start >= 0 else 0


def list_stretches(old: str, new: str, wanted: Iterable[Interval]) -> list[Stretch]:
    """All stretches that two texts share and that touch the surroundings of the wanted parts of the old one."""
    seeds = _find_seeds(old, wanted)
    reached: dict[int, int] = {}
    found: list[Stretch] = []
    for place in range(len(new) - SHINGLE + 1):
        for start in seeds.get(new[place : place + SHINGLE], ()):
            if reached.get(place - start, -1) < start:
                back = _measure_back(old, start, new, place)
                length = back + _measure_common(old, start, new, place)
                found.append(Stretch(start - back, place - back, length))
                reached[place - start] = start - back + length
    return found


def _find_seeds(text: str, wanted: Iterable[Interval]) -> Mapping[str, Sequence[int]]:
    seeds: dict[str, list[int]] = defaultdict(list)
    for start, end in merge((max(0, first - _CONTEXT), last + _CONTEXT) for first, last in wanted):
        for place in range(start, min(end, len(text)) - SHINGLE + 1, _STEP):
            seeds[text[place : place + SHINGLE]].append(place)
    return {shingle: places for shingle, places in seeds.items() if len(places) <= _COMMON}


def _measure_common(first: str, start: int, second: str, other: int) -> int:
    """How many characters two texts have in common from these places on."""
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
    """How many characters two texts have in common up to these places."""
    length = 0
    while length < min(start, other) and first[start - length - 1] == second[other - length - 1]:
        length += 1
    return length


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same characters as intervals that do not touch, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def measure(intervals: Iterable[Interval]) -> int:
    """How many characters lie in any of the intervals."""
    return sum(end - start for start, end in merge(intervals))


class MatchMethod(StrEnum):
    """By what a chunk was found again."""

    SAME = "same id and text"
    SPAN = "by span"
    TEXT = "by text"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a new chunk has of an old one. `parts`: these characters of the old one. `of_old`, `of_new`: their share of
    either chunk. `doubtful`: the spans overlap, and the texts have little in common; or the text
    is short or repeated and may be of another document.
    """

    chunk: str
    how: MatchMethod
    parts: tuple[Interval, ...]
    of_old: float
    of_new: float
    doubtful: bool = False

    @property
    def value(self) -> float:
        """The overlap coefficient, over 0 to 1; of a doubtful text, its share of the old chunk."""
        if self.doubtful and self.how is MatchMethod.TEXT:
            return self.of_old
        return max(self.of_old, self.of_new)
