"""The words of a text, without what judges change freely: quotes, spaces, punctuation, the script of digits."""

import re
import unicodedata
from functools import lru_cache

_IN_WORDS_AND_NUMBERS = ".,:'-*"
_MEANINGFUL = "%‰#&@/§^"
"""Punctuation that a statement can differ by; all other punctuation is noise. Symbols such as € and + always count."""
_ALIKE = str.maketrans("’‘ʼ′`´−", "''''''-")
_NOT_A_NUMBER = ("<super>", "<sub>", "<fraction>")
"""Characters that NFKC would add to the digits beside them: 10² is not 102."""

_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"\bcannot\b|\bcan't\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bshan't\b", "shall not"),
        (r"n't\b", " not"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"'m\b", " am"),
        (r"'s\b", " is"),
    )
)
_EMPHASIS = re.compile(r"(?<![0-9A-Za-z*])(\*{1,3})(?=[^\s*])([^*]++)(?<!\s)\1(?![0-9A-Za-z*])")
_WORD = re.compile(
    r"""
    (?: (?<!\S) | (?<=(?<!\S)') ) (?: -\.? | \. ) \d+(?:[.,:]\d+)*  # a sign or a leading point begins a number
    | \d+(?:[.,:]\d+)*
    | (?<=\d)\* | \*(?=\s*-?\.?\d)                                  # an operator; beside words it is a mark
    | [^\s\d.,:'*-]+
    """,
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def split_words(text: str) -> list[str]:
    """The words, numbers and symbols of a text, in order and in their own case.

    Contractions are written out. A number is one word, without commas between thousands, with a zero before a leading
    point, and apart from its unit.
    """
    folded = unicodedata.normalize("NFC", "".join(map(_fold, strip_emphasis(text).translate(_ALIKE))))
    for contraction, full in _CONTRACTIONS:
        folded = contraction.sub(full, folded)
    found: list[str] = _WORD.findall(folded)
    return [_write_number(word) if word[-1].isdecimal() else word for word in found]


def strip_emphasis(text: str) -> str:
    """The text without the asterisks that Markdown puts around *words*; those of 5 * 3 stay."""
    return _EMPHASIS.sub(r"\2", text)


def _write_number(word: str) -> str:
    if _THOUSANDS.fullmatch(word):
        return word.replace(",", "")
    sign = "-" if word[0] == "-" else ""
    return f"{sign}0{word[len(sign) :]}" if word[len(sign)] == "." else word


@lru_cache(maxsize=8192)
def _fold(character: str) -> str:
    """What stands for one character: its plain form, itself, or a space where it does not matter."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_NOT_A_NUMBER):
        return f" {character} "
    plain = unicodedata.normalize("NFKC", character)
    category = unicodedata.category(plain[0])
    if category == "Cf":  # soft hyphens, joiners, marks of direction
        return ""
    if plain in _IN_WORDS_AND_NUMBERS or category[0] in "LMN":
        return plain
    if plain in _MEANINGFUL or category in ("Sc", "Sm", "So"):
        return f" {plain} "
    return " "
