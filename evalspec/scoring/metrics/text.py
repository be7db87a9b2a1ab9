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
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from string import punctuation
from typing import Any, Literal

from evalspec.base.errors import MetricError
from evalspec.base.foreign_text import normalize
from evalspec.model import Exchange, Need, Score
from evalspec.scoring.metrics.base import LONG_TEXTS
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.metrics.whole_words import find_whole, shorten

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


def normalise(text: str) -> str:
    """Return a text in the form for comparison: case-folded, single spaces, ASCII digits, quotes and hyphens."""
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
        return _ASCII_WORD.findall(lowered)
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in lowered).split()


_ASCII_WORD = re.compile("[a-z0-9]+")


def _rouge_l(words: list[str], reference: list[str]) -> float:
    from rapidfuzz.distance import LCSseq

    common = LCSseq.similarity(words, reference)
    return 2 * common / (len(words) + len(reference)) if common else 0.0


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
    text = normalise(exchange.response)
    for reference in exchange.sample.references:
        _, within = find_whole(text, normalise(reference))
        if within is not None:
            part = find_spelling(exchange.response, *within)
            joined = (word for word in exchange.response.split() if part in word and part != word.strip(punctuation))
            longer = next(joined, part)  # a part of a key would not be hidden
            reason = f"'{shorten(reference.strip())}' occurs only within '{shorten(longer)}'; {exchange.answered}"
            return Score.scored(0.0, reason)
    return score


def _score(compare: Comparison, exchange: Exchange) -> Score:
    references = exchange.sample.references
    if any(_is_blank(reference) for reference in references):
        raise MetricError("an expected answer is blank, so there is nothing to compare with")
    if not exchange.response.strip():
        return Score.scored(0.0, "the response is empty")
    value = compare(exchange.response, references)
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


@metric(needs=_NEEDS, reads_at_most=LONG_TEXTS, engine="sacrebleu", imports=("sacrebleu.metrics",))
def bleu(exchange: Exchange) -> Score:
    """Word n-grams of the response that occur in the expected answers (sentence BLEU)."""
    return _score(compute_bleu, exchange)


@metric(needs=_NEEDS, reads_at_most=LONG_TEXTS, engine="sacrebleu", imports=("sacrebleu.metrics",))
def chrf(exchange: Exchange) -> Score:
    """Character n-grams that response and expected answer share (chrF). Suitable for any language."""
    return _score(compute_chrf, exchange)
