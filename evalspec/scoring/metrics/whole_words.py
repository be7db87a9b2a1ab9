"""Find a text in another as whole words and numbers, not as a part of longer ones.

An end must be a word boundary only if it is a digit, or a letter of a script with upper and lower case (Latin, Greek,
Cyrillic …). Other scripts attach particles to words or have no spaces, so their letters may have neighbours.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

Span = tuple[int, int]

_LONGEST_SHOWN = 60
_SEPARATORS = frozenset(' .,;:!?"()')
_DASHES = "-‐‑−–﹣－"
"""Characters that may be a minus. An em dash may not."""
_ALSO: dict[str, str] = (
    dict.fromkeys(_DASHES, "-") | {"’": "'", "‰": "%"} | dict.fromkeys("°′″", ")") | dict.fromkeys("⁺⁻", "F")
)

# The patterns below match kinds of characters, not texts: see `_kinds_of`.
_LETTER = "a-zL"
_MINUS = rf"(?<![{_LETTER}DO)\]}}%-])(?<!D\$)(?<!D \$)-"
_GROUPED = r"D{1,3}(?P<separator>[.,'])D{3}(?:(?P=separator)D{3})*(?:(?!(?P=separator))[.,]D+)?"
_INDIAN = r"D{1,2}(?:,D{2})+,D{3}(?:\.D+)?"
_DECIMAL = r"D+[.,]D+"
_SPACED = r"(?<!D )D{1,3}(?: D{3})+(?:[.,]D+)?(?! D)"
_LEADING_POINT = r"(?<![^ (+\-=$<>])\.D+"
_EXPONENT = rf"e[+-]?D+(?![{_LETTER}D])"
_NUMBER = re.compile(
    rf"(?:{_MINUS})?(?:(?<!D)(?<!D[.,'])(?:{_GROUPED}|{_INDIAN}|{_DECIMAL}|{_SPACED})(?![.,']?D)"
    rf"|{_LEADING_POINT}|(?<!D)D+)(?:{_EXPONENT})?F*|F+"
)
_WORD = re.compile(rf"[{_LETTER}D]+(?:_+[{_LETTER}D]+)*(?:(?<=n)'t(?![{_LETTER}D]))?")
_NUMBER_WITH_UNIT = re.compile(rf"(D+)[{_LETTER}]+")
_VERSION = re.compile(r"vD+")
_MIXED = re.compile(rf"D.*[{_LETTER}O]|[{_LETTER}O].*D")


def find_whole(text: str, expected: str) -> tuple[bool, Span | None]:
    """Return whether `expected` occurs in `text` as whole words, otherwise the span of the longer word or number.

    Both texts are case-folded and have single spaces. The span is None if `expected` does not occur at all.
    """
    places = list(_occurrences(text, expected))
    if not places:
        return False, None
    if any(_is_apart(text, place) and _is_apart(text, place + len(expected)) for place in places):
        return True, None
    outline = _Outline.of(text)
    within = outline.find_enclosing(places[0], len(expected))
    if within is None or any(outline.find_enclosing(place, len(expected)) is None for place in places[1:]):
        return True, None
    return False, within


def _is_apart(text: str, place: int) -> bool:
    """Return whether clearly no word or number continues across an index. If not, an outline decides.

    Words contain none of _SEPARATORS, and numbers contain them only beside digits.
    """
    before, after = text[place - 1 : place], text[place : place + 1]
    return (
        not (before and after)
        or (before in _SEPARATORS and after.isalpha())
        or (after in _SEPARATORS and before.isalpha())
    )


class _Outline(Struct, frozen=True):
    """A text as kinds of characters, with the spans of its numbers and words.

    `units`: indexes between a number and its unit. `versions`: indexes after the v of a version.
    """

    kinds: str
    numbers: list[Span]
    words: list[Span]
    units: frozenset[int]
    versions: frozenset[int]

    @classmethod
    def of(cls, text: str) -> "_Outline":
        """Return the outline of a text."""
        kinds = _kinds_of(text)
        words = [match.span() for match in _WORD.finditer(kinds)]
        units = (_NUMBER_WITH_UNIT.fullmatch(kinds, *word) for word in words)
        return cls(
            kinds=kinds,
            numbers=[match.span() for match in _NUMBER.finditer(kinds)],
            words=words,
            units=frozenset(unit.end(1) for unit in units if unit),
            versions=frozenset(word[0] + 1 for word in words if _VERSION.fullmatch(kinds, *word)),
        )

    def find_enclosing(self, start: int, length: int) -> Span | None:
        """Return the span of the longer word or number that contains an occurrence; None if it is whole."""
        end = start + length
        spans = [(start, end), *_across(self.numbers, start), *_across(self.numbers, end)]
        if _must_end_a_word(self.kinds[start]):
            spans += self._word_across(start, start, end, self.versions)
        if _must_end_a_word(self.kinds[end - 1]):
            spans += self._word_across(end, start, end, frozenset())
        return None if len(spans) == 1 else (min(span[0] for span in spans), max(span[1] for span in spans))

    def _word_across(self, place: int, start: int, end: int, also: frozenset[int]) -> list[Span]:
        """Return the word that continues across an end of an occurrence. `also`: additional word boundaries."""
        is_between = place in also or (place in self.units and _MIXED.search(self.kinds, start, end) is None)
        return [] if is_between else _across(self.words, place)


def _occurrences(text: str, expected: str) -> Iterator[int]:
    """Yield the indexes of `expected` in `text`. Occurrences may overlap."""
    place = text.find(expected) if expected else -1
    while place >= 0:
        yield place
        place = text.find(expected, place + 1)


def _must_end_a_word(kind: str) -> bool:
    return kind in "DL" or "a" <= kind <= "z"


def _across(spans: list[Span], place: int) -> list[Span]:
    """Return the span that begins before an index and ends after it, if any."""
    index = bisect_left(spans, (place, 0)) - 1
    return [spans[index]] if index >= 0 and spans[index][0] < place < spans[index][1] else []


def _kinds_of(text: str) -> str:
    """Return a text of the same length with the kind of each character.

    `a` to `z` are themselves, L is any other letter with case, O a letter without case, D a digit, F another number
    like ½ or ², $ a currency, - a dash or minus, ) a closing character, ~ anything irrelevant. Other ASCII is itself. A
    mark is part of the letter that it follows.
    """
    kinds: list[str] = []
    for char in text:
        kind = _kind(char)
        if kind == "M":
            kind = "L" if kinds and (kinds[-1] == "L" or "a" <= kinds[-1] <= "z") else "~"
        kinds.append(kind)
    return "".join(kinds)


_KINDS = {"Lu": "L", "Ll": "L", "Lt": "L", "Lm": "O", "Lo": "O", "Nd": "D", "No": "F", "Sc": "$", "Pe": ")", "Pf": ")"}


@cache
def _kind(char: str) -> str:
    category = unicodedata.category(char)
    if "a" <= char <= "z":
        return char
    if char in _ALSO:
        return _ALSO[char]
    if "\u02b0" <= char <= "\u02ff":  # modifier letters of Latin, like the okina of Hawaii
        return "L"
    if category[0] == "M":
        return "M"
    if category in _KINDS:
        return _KINDS[category]
    return char if char.isascii() else "~"


def shorten(text: str) -> str:
    """Return the beginning of a text, short enough for a message."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
