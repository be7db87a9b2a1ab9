"""Metrics that compare the response with the expected answers as text. The best match of several answers counts.

string_match and exact_match ignore case (Unicode caseless matching), runs of white space, the encoding of accented
letters, the script of decimal digits, and soft hyphens. They treat curly or non-breaking apostrophes, quotes and
hyphens like plain ones. string_match matches whole words, or with `match: substring` any occurrence, like AgentSpec's
pass_rate.

The others are common scores of machine translation and summarisation, scaled to 0..1: bleu and chrf are sacrebleu's
with its defaults, rouge is ROUGE-L (Lin 2004).

rouge differs from the package rouge-score in its words: they are runs of letters, marks and digits of any script.
rouge-score keeps only a-z and 0-9, so every Korean or Greek answer scores 0. Both agree on ASCII text. In scripts
without spaces a phrase is one word, so chrf is a better choice.

In a match of whole words, an end must be a word boundary only if it is a digit, or a letter of a script with upper and
lower case (Latin, Greek, Cyrillic …). Other scripts attach particles to words or have no spaces, so their letters may
have neighbours.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from string import punctuation
from typing import Any, Literal

from msgspec import Struct

from evalspec.base.errors import MetricError
from evalspec.base.foreign_text import normalize
from evalspec.model import Exchange, Need, Score
from evalspec.scoring.metrics.base import LONG_TEXTS
from evalspec.scoring.metrics.functions import metric

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
_OWED = re.compile(rf"{_MINUS}\$")
_WORD = re.compile(rf"[{_LETTER}D]+(?:_+[{_LETTER}D]+)*(?:(?<=n)'t(?![{_LETTER}D]))?")
_NUMBER_WITH_UNIT = re.compile(rf"(D+)[{_LETTER}]+")
_VERSION = re.compile(r"vD+")
_LETTERS = re.compile(f"[{_LETTER}]")
_MIXED = re.compile(rf"D.*[{_LETTER}O]|[{_LETTER}O].*D")


@lru_cache(maxsize=1)  # asked again for the reason of a miss
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


def list_numbers(text: str) -> list[str]:
    """Return the numbers of a text as it spells them, case-folded and with ASCII digits.

    Digits after a letter with case are part of a name, such as Q3, and a power such as the one of m² is no number. The
    minus before a currency, as in -$5, is the number's.
    """
    plain = normalise(text)
    kinds = _kinds_of(plain)
    spans = [match.span() for match in _NUMBER.finditer(kinds)]
    return [
        f"{'-' if start > 1 and _OWED.match(kinds, start - 2, start) else ''}{plain[start:end]}"
        for start, end in spans
        if ("D" in kinds[start:end] or any(0 < unicodedata.numeric(char, 0) < 1 for char in plain[start:end]))
        and not (start and kinds[start] == "D" and _LETTERS.match(kinds[start - 1]))
    ]


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


Comparison = Callable[[str, Sequence[str]], float]
"""A function of response and expected answers, none of them blank, that returns a value in 0..1."""


_PLAIN = str.maketrans(
    {"\u00ad": "", **dict.fromkeys("‘’ʼ", "'"), **dict.fromkeys("“”„", '"'), **dict.fromkeys("\u2010\u2011", "-")}
)
"""Removes soft hyphens, and replaces curly apostrophes and quotes and Unicode hyphens with ASCII."""


def compute_word_match(response: str, references: Sequence[str]) -> float:
    """Return 1 if one of the references occurs in the response as whole words and numbers, else 0."""
    text = normalise(response)
    return float(any(find_whole(text, normalise(reference))[0] for reference in references))


def compute_substring_match(response: str, references: Sequence[str]) -> float:
    """Return 1 if one of the references occurs in the response, even as part of a longer word, else 0."""
    text = normalise(response)
    return float(any(normalise(reference) in text for reference in references))


def compute_exact_match(response: str, references: Sequence[str]) -> float:
    """Return 1 if the response equals one of the references, else 0."""
    text = normalise(response)
    return float(any(normalise(reference) == text for reference in references))


def compute_rouge(response: str, references: Sequence[str]) -> float:
    """Return ROUGE-L: the F-measure of the longest common subsequence of words, without stemming."""
    words = _words(response)
    return max(_rouge_l(words, _words(reference)) for reference in references)


def compute_bleu(response: str, references: Sequence[str]) -> float:
    """Return sacrebleu's sentence BLEU: 13a tokens, exponential smoothing, no orders above the sentence's length."""
    return _as_share(_bleu().sentence_score(response, list(references)).score)


def compute_chrf(response: str, references: Sequence[str]) -> float:
    """Return sacrebleu's sentence chrF: F2 of character n-grams up to 6."""
    return _as_share(_chrf().sentence_score(response, list(references)).score)


@lru_cache(maxsize=2)  # asked again for the reason of a miss, of an answer that may be long
def normalise(text: str) -> str:
    """Return a text in the form for comparison: case-folded, single spaces, ASCII digits, quotes and hyphens."""
    if text.isascii():
        return " ".join(text.casefold().split())
    folded = normalize("NFC", normalize("NFD", text).casefold())
    plain = folded if folded.isascii() else "".join(map(_as_ascii_digit, folded.translate(_PLAIN)))
    return " ".join(plain.split())


def find_spelling(text: str, start: int, end: int) -> str:
    """Return the original spelling of a part of the normalised text, or that part itself if there is no clear match."""

    def reach(place: int) -> int:
        return len(normalise(text[:place]))

    places = range(len(text) + 1)
    begin = bisect_left(places, start + 1, key=reach) - 1
    spelling = text[max(begin, 0) : bisect_right(places, end, key=reach) - 1].strip()
    part = normalise(text)[start:end]
    return spelling if normalise(spelling) == part else part


def _as_ascii_digit(char: str) -> str:
    """Return a decimal digit of any script as 0 to 9, and any other character unchanged."""
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)


def _words(text: str) -> list[str]:
    lowered = normalize("NFC", text).lower()
    if lowered.isascii():
        return lowered.encode().translate(_ASCII_WORDS).decode().split()
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in lowered).split()


_ASCII_WORDS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
"""Replaces everything but letters and digits by spaces."""


def _rouge_l(words: list[str], reference: list[str]) -> float:
    common = _count_common()(words, reference)
    return 2 * common / (len(words) + len(reference)) if common else 0.0


@cache
def _count_common() -> Callable[[Sequence[str], Sequence[str]], int]:
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity


@cache
def _bleu() -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(effective_order=True)


@cache
def _chrf() -> Any:
    from sacrebleu.metrics import CHRF

    return CHRF()


def _as_share(percent: float) -> float:
    """Return sacrebleu's 0..100 as 0..1. Its perfect score exceeds 100 by a rounding error."""
    return min(percent / 100, 1.0)


def _score_word_match(exchange: Exchange) -> Score:
    """Return the score. The reason of a miss shows the longer word that contains the expected text, if there is one."""
    score = _score(compute_word_match, exchange)
    if score.value != 0:
        return score
    for reference in exchange.sample.references:
        if within := find_whole(normalise(exchange.response), normalise(reference))[1]:
            part = find_spelling(exchange.response, *within)
            joined = (word for word in exchange.response.split() if part in word and part != word.strip(punctuation))
            longer = next(joined, part)  # a part of a key would not be hidden
            reason = f"'{shorten(reference.strip())}' occurs only within '{shorten(longer)}'; {exchange.answered}"
            return Score.scored(0.0, reason)
    return score


def _score(compare: Comparison, exchange: Exchange) -> Score:
    response, references = exchange.response, exchange.sample.references
    if any(map(_is_blank, references)):
        raise MetricError("an expected answer is blank, so there is nothing to compare with")
    if not response.strip():
        return Score.scored(0.0, "the response is empty")
    value = compare(response, references)
    return Score.scored(value, None if value == 1 else exchange.answered)


def _is_blank(text: str) -> bool:
    """Return whether a text has nothing to compare with. One of soft hyphens only would occur in every response."""
    return not text.strip() or (not text.isascii() and not normalise(text))


_NEEDS = {Need.EXPECTED}


@metric(
    needs=_NEEDS,
    aliases=("pass_rate",),
    alias_parameters={"pass_rate": {"match": "substring"}},
    implicit=True,
    is_binary=True,
    reads_at_most=LONG_TEXTS,
    version=3,
)
def string_match(exchange: Exchange, *, match: Literal["word", "substring"] = "word") -> Score:
    """1 if an expected answer occurs in the response as whole words, ignoring case and spacing."""
    if match == "substring":
        return _score(compute_substring_match, exchange)
    return _score_word_match(exchange)


@metric(needs=_NEEDS, is_binary=True, version=2)
def exact_match(exchange: Exchange) -> Score:
    """1 if the response equals an expected answer, ignoring case and spacing."""
    return _score(compute_exact_match, exchange)


@metric(needs=_NEEDS, reads_at_most=LONG_TEXTS, engine="rapidfuzz", imports=("rapidfuzz.distance",))
def rouge(exchange: Exchange) -> Score:
    """ROUGE-L: F-measure of the longest common word sequence of response and expected answer."""
    return _score(compute_rouge, exchange)


@metric(needs=_NEEDS, reads_at_most=LONG_TEXTS, engine="sacrebleu", imports=("sacrebleu.metrics",), extra="bleu")
def bleu(exchange: Exchange) -> Score:
    """Word n-grams of the response that occur in the expected answers (sentence BLEU)."""
    return _score(compute_bleu, exchange)


@metric(needs=_NEEDS, reads_at_most=LONG_TEXTS, engine="sacrebleu", imports=("sacrebleu.metrics",), extra="bleu")
def chrf(exchange: Exchange) -> Score:
    """Character n-grams that response and expected answer share (chrF). Suitable for any language."""
    return _score(compute_chrf, exchange)
