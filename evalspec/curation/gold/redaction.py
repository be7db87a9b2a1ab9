"""Redact the terms of a grant in a customer's text, and find terms that are left.

Terms are compared as whole words, case-folded and in Unicode's normal form NFKC. White space, dashes, `_`, `.`, `/`, a
middle dot or nothing may be between the words of a term. Only letters with upper and lower case and digits continue a
word: other scripts have no spaces or attach particles to words.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import to_plain
from evalspec.curation.gold.folding import Folded, fold
from evalspec.curation.gold.schema import GoldTriple

PLACEHOLDER = "[redacted]"
STRUCTURE = frozenset({"source", "customer", "traffic", "generated_by", "added_by", "added_at", "reviewed_by"})
"""Metadata that is not the customer's text."""
_SEPARATOR = (
    r"[\s._/\\·\u2022\u2027\u2219\u22c5\u30fb\-\u058a\u05be\u1806\u2010-\u2015\u2043\u2212\u2e3a\u2e3b\u301c\u30a0]"
)
"""White space, full stop, underscore, slashes, middle dots and dashes, after folding."""


class Found(Struct, frozen=True):
    """A term in a text. `number`: of the term in the list, from 1. `start`, `end`: offsets in the text."""

    number: int
    start: int
    end: int


def find_terms(text: str, terms: Sequence[str]) -> list[Found]:
    """Return where terms occur in a text, in order and without overlaps. Longer terms take precedence."""
    folded = fold(text)
    found: list[Found] = []
    taken = bytearray(len(text))
    for number, term in sorted(enumerate(terms, 1), key=lambda pair: -len(pair[1])):
        pattern = _compile(term)
        for start, end in _list_matches(pattern, folded) if pattern else ():
            one = Found(number, folded.starts[start], folded.ends[end - 1])
            if 1 not in taken[one.start : one.end]:
                taken[one.start : one.end] = bytes([1]) * (one.end - one.start)
                found.append(one)
    return sorted(found, key=lambda one: one.start)


def may_have_terms(source: str, terms: Sequence[str]) -> bool:
    """Return whether a YAML source may have a term in one of its texts. It is quicker than looking at each text."""
    if ("\\" in source and '"' in source) or "''" in source:
        return True
    folded = fold(source).text
    return any(words[0] in folded for words in map(_split_words, terms) if words)


def redact_text(text: str, terms: Sequence[str]) -> str:
    """Return a text in which every term is `[redacted]`."""
    parts, place = [], 0
    for one in find_terms(text, terms):
        parts += [text[place : one.start], PLACEHOLDER]
        place = one.end
    return "".join([*parts, text[place:]])


def redact_value(value: Any, terms: Sequence[str]) -> Any:
    """Return a JSON value with its texts redacted. Keys of objects are unchanged."""
    if isinstance(value, str):
        return redact_text(value, terms)
    if isinstance(value, dict):
        return {key: redact_value(part, terms) for key, part in value.items()}
    return [redact_value(part, terms) for part in value] if isinstance(value, list) else value


def redact_triple(triple: GoldTriple, terms: Sequence[str]) -> GoldTriple:
    """Return a triple with the terms redacted in question, answer, claims and metadata.

    Raises:
        InvalidInput: A term is in an id of a block or document, or in a key of the metadata, which stay as they are.
    """
    if not terms:
        return triple
    plain = to_plain(triple)
    for key in ("question", "expected_answer", "claims"):
        if key in plain:
            plain[key] = redact_value(plain[key], terms)
    metadata = plain.get("metadata", {})
    plain["metadata"] = {
        key: value if key in STRUCTURE else redact_value(value, terms) for key, value in metadata.items()
    }
    left = next((place for place, text in list_texts(plain) if find_terms(text, terms)), None)
    if left is not None:
        message = "a term of the grant is here, where it cannot be redacted"
        raise InvalidInput(Problem(message, "use another name", field=left))
    return GoldTriple.model_validate(plain)


def count_redacted(triple: GoldTriple) -> int:
    """Return the number of placeholders in a triple."""
    return sum(text.count(PLACEHOLDER) for _, text in list_texts(to_plain(triple)))


def list_texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every text of a triple's data, and of every key that people chose.

    The customer's own name is left out: it names the grant.
    """
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():
            inner = f"{place}.{key}" if place else str(key)
            if inner.startswith("metadata."):
                yield inner, str(key)
            if inner != "metadata.customer":
                yield from list_texts(part, inner)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from list_texts(part, f"{place}[{number}]")


def refuse_unusable(terms: Sequence[str]) -> None:
    """Check that every term can be redacted.

    Raises:
        InvalidInput: A term has no letter or digit, or is a part of the placeholder.
    """
    for term in terms:
        if not any(char.isalnum() for char in term):
            raise InvalidInput(Problem(f"the term {term!r} has no letter or digit", "write a word", field="terms"))
        if find_terms(PLACEHOLDER, [term]):
            raise InvalidInput(Problem(f"the term {term!r} is the placeholder itself", "remove it", field="terms"))


@lru_cache(maxsize=1024)
def _split_words(term: str) -> list[str]:
    return [word for word in re.split(f"{_SEPARATOR}+", fold(term).text) if word]


@lru_cache(maxsize=1024)
def _compile(term: str) -> re.Pattern[str] | None:
    """Return the pattern of a term, which takes linear time: repetitions are possessive."""
    words = _split_words(term)
    return re.compile(f"{_SEPARATOR}*+".join(map(re.escape, words))) if words else None


def _list_matches(pattern: re.Pattern[str], folded: Folded) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each match that is not a part of a longer word. Matches may overlap."""
    match = pattern.search(folded.text)
    while match is not None:
        start, end = match.span()
        if not _is_inside_word(folded, start) and not _is_inside_word(folded, end):
            yield start, end
        match = pattern.search(folded.text, start + 1)


def _is_inside_word(folded: Folded, place: int) -> bool:
    if not 0 < place < len(folded.text) or place in folded.breaks:
        return False
    return _continues(folded.text[place - 1]) and _continues(folded.text[place])


def _continues(char: str) -> bool:
    return char.isdigit() or char != char.upper() or char != char.lower()
