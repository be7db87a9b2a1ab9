"""Where two texts have stretches in common, found by shingles: every run of a few characters that both of them have.

Unlike the longest common substring this survives a corrected letter; unlike the longest common subsequence it is local,
so that the end of one text is found at the beginning of the other. The work grows with the length of the texts and not
with the product of their lengths.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

SHINGLE = 16
"""Characters. A stretch that is shorter is no evidence: any two texts of a language have such in common."""
_COMMON = 64
"""A shingle of more texts than that is a heading or a footer; it counts, but it does not make two texts a pair."""

Interval = tuple[int, int]
"""The first character and the one after the last."""


def normalise(text: str) -> str:
    """Text as it is compared: composed characters (NFC), every run of blanks one space, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def find_shingles(text: str) -> Iterator[str]:
    """All runs of `SHINGLE` characters, in order; of a shorter text the whole, so that it is like its equals only."""
    return (text[start : start + SHINGLE] for start in range(max(1, len(text) - SHINGLE + 1)) if text)


def find_shared(text: str, other_shingles: Collection[str]) -> list[Interval]:
    """The stretches of a text that consist of shingles of another one."""
    size = min(SHINGLE, len(text))
    return merge(
        (start, start + size) for start, shingle in enumerate(find_shingles(text)) if shingle in other_shingles
    )


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


def find_pairs(texts: Mapping[str, str], others: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """For each of `texts`, {name: text}, the `others`, (name, text), by name, with which it shares more than a phrase.

    That is twice `SHINGLE` characters in a row, or a tenth of a short text. All texts are normalised.
    """
    owners: dict[str, list[str]] = defaultdict(list)
    sizes = {}
    for name, text in texts.items():
        shingles = set(find_shingles(text))
        sizes[name] = len(shingles)
        for shingle in shingles:
            owners[shingle].append(name)
    telling = {shingle: names for shingle, names in owners.items() if len(names) <= _COMMON}
    pairs: dict[str, list[str]] = defaultdict(list)
    for other, text in others:
        shingles = set(find_shingles(text))
        counts = Counter(name for shingle in shingles & telling.keys() for name in telling[shingle])
        for name, count in counts.items():
            if count >= min(SHINGLE + 1, 0.1 * min(sizes[name], len(shingles))):
                pairs[name].append(other)
    return pairs
