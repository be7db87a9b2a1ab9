"""Whether what the judge took out of a text comes from that text.

A judge paraphrases, resolves pronouns and repeats the question, so only a statement that has no content word in common
with its source is refused. Two words are one where they share most of their beginning, where one contains the other, or
where they are one number in digits and in words.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from evalspec.judge.numerals import find_leading_digits, strip_accents
from evalspec.judge.wording import split_words

_SHARED_BEGINNING = 0.6
"""Two forms of a word begin alike for this part of the shorter one, and for three letters at least."""
_SHORTEST_BEGINNING = 3
_SHORTEST_INSIDE, _LONGEST_COMPOUND = 4, 40

_FUNCTION_WORDS = """
a about all also am an and any are as at be because been being both but by can could did do does during
each either else even every for from had has have having he her here hers him his how i if in into is it its itself just
like may me might more most much must my no nor not of on one only or other our own same she should so some
such than that the their them then there these they this those through to too until us very was we were what
when where which while who whom whose why will with within without would yes you your never ever yet ok okay
der die das den dem des ein eine einen einem einer eines und oder aber ist sind war waren wird werden wurde wurden hat
haben hatte in im am an auf aus bei mit nach von vom zu zum zur fur als auch nicht kein keine es er sie wir ich man sich
dass wenn wie was wer ja nein nur noch so um durch uber
le la les un une des du de d l et ou mais est sont etait ete a ont au aux en dans par pour sur avec sans ne pas que qui
qu ce cette ces il elle ils elles on se s son sa ses plus oui non si c n y
el los las una unos unas del y o pero es son era fue fueron ha han al en con por para sin no que se su sus lo como mas
si muy este esta
il lo gli i di e ma sono da nel nella con per che non si come piu
o os as um uma do da dos das em no na nos nas com por para nao sim e mas foi sao ao
de het een en van is zijn was op te met voor niet ook ja nee
и в во не на с со что как по из за у от до же бы это он она они мы я да нет но или был была было были для к о об при
의 은 는 이 가 을 를 에 에서 와 과 도 네 예 아니요 입니다 있습니다
في من على الى عن ان هو هي كان كانت هذا هذه التي الذي و لا نعم ما مع
的 了 是 在 和 有 不 也 这 那 个 与 为 一 は が を に の で と も です ます した して する いる ある はい
"""
_IGNORED = frozenset(strip_accents(word) for word in _FUNCTION_WORDS.split())

_IDEOGRAPHS = "\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Each is a word."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f"
"""Thai, Lao, Burmese, Khmer and hiragana are written without spaces: each two characters stand for a word."""
_PART = re.compile(f"[{_IDEOGRAPHS}]|(?P<unspaced>[{_UNSPACED}]{{3,}})|[^{_IDEOGRAPHS}{_UNSPACED}]+|[{_UNSPACED}]+")


def find_stranger(statements: Iterable[str], source: str) -> str | None:
    """The first statement that has no content word in common with the source, or None.

    Where either has no content word, as "Yes.", nothing can be said.
    """
    known = _Vocabulary(content_words(source))
    if not known.words:
        return None
    for statement in statements:
        words = content_words(statement)
        if words and not any(known.has(word) for word in words):
            return statement
    return None


def compute_coverage(statements: Iterable[str], source: str) -> float:
    """The part of the source's content words that occur in the statements; 1 where the source has none."""
    words = content_words(source)
    found = _Vocabulary(content_words(" \n".join(statements)))
    return sum(map(found.has, words)) / len(words) if words else 1.0


def content_words(text: str) -> frozenset[str]:
    """The words that carry a text's meaning, without case and accents."""
    words = (word for written in split_words(text) for word in _segment(strip_accents(written)))
    return frozenset(word for word in words if word not in _IGNORED and any(map(str.isalnum, word)))


class _Vocabulary:
    """Content words, searchable for relatives of another word."""

    def __init__(self, words: frozenset[str]) -> None:
        self.words = words
        self._joined = " ".join(words)
        self._by_beginning = defaultdict(list)
        for word in words:
            self._by_beginning[word[:_SHORTEST_BEGINNING]].append(word)
        self._digits = [word for word in words if word[-1].isdecimal()]
        self._in_words = {digits for word in words if (digits := find_leading_digits(word))}

    def has(self, word: str) -> bool:
        """Whether the word or a relative of it is here."""
        if word in self.words:
            return True
        if word[-1].isdecimal():
            return any(_is_part_of(digits, word) for digits in self._in_words)
        return self._has_form(word) or self._has_number(word)

    def _has_form(self, word: str) -> bool:
        if any(_begin_alike(word, other) for other in self._by_beginning[word[:_SHORTEST_BEGINNING]]):
            return True
        if not _SHORTEST_INSIDE <= len(word) <= _LONGEST_COMPOUND:
            return False
        ends = range(_SHORTEST_INSIDE, len(word) + 1)
        inner = (word[start:end] for end in ends for start in range(end - _SHORTEST_INSIDE + 1))
        return word in self._joined or any(part in self.words for part in inner)

    def _has_number(self, word: str) -> bool:
        leading = find_leading_digits(word)
        return leading is not None and any(_is_part_of(leading, digits) for digits in self._digits)


def _begin_alike(one: str, two: str) -> bool:
    shorter = min(len(one), len(two))
    enough = max(_SHORTEST_BEGINNING, math.ceil(_SHARED_BEGINNING * shorter))
    return shorter >= enough and one[:enough] == two[:enough]


def _is_part_of(leading: str, number: str) -> bool:
    """Whether a number can have been written with this number word: 42 with 4 (forty) and with 2 (two)."""
    digits = "".join(filter(str.isdecimal, number)).rstrip("0")
    return digits.startswith(leading) or digits.endswith(leading)


def _segment(word: str) -> Iterable[str]:
    """The word, or its parts where its script has no spaces."""
    for part in _PART.finditer(word):
        if part["unspaced"]:
            yield from map("".join, pairwise(part[0]))
        else:
            yield part[0]
