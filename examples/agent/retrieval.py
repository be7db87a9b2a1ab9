"""Finds passages for a question with BM25: plain word statistics, no embeddings, no synonyms."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_WORD = re.compile(r"[a-z0-9]+")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at be but by can cannot could did do does for from get give had has have how i if in into is
        it its just know like many me much my need not of on or our please should so some tell than that the their them
        then there they this to up us want was we what when where which who why will with would you your
        """,
    )
)
_TITLE_REPEATS = 2


@dataclass(frozen=True, slots=True)
class Passage:
    """One help page."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage and its BM25 score for one question."""

    passage: Passage
    score: float


def read_corpus(path: Path) -> list[Passage]:
    """The help pages of a JSONL file with id, title and text on each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Passage(**json.loads(line)) for line in lines if line.strip()]


def words(text: str) -> list[str]:
    """The words that carry meaning, lower-cased, with a plural s removed."""
    found = _WORD.findall(text.lower().replace("'s", ""))
    return [_singular(word) for word in found if word not in _STOP_WORDS]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class Bm25Index:
    """Okapi BM25 (Robertson and Zaragoza, 2009) over title and text; a title counts twice."""

    def __init__(self, passages: Sequence[Passage], k1: float = 1.2, b: float = 0.75) -> None:
        self._passages = passages
        self._k1 = k1
        self._b = b
        self._counts = [Counter(words(f"{page.title} " * _TITLE_REPEATS + page.text)) for page in passages]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean_length = sum(self._lengths) / len(self._lengths) if any(self._lengths) else 1.0
        self._found_in = Counter(word for counts in self._counts for word in counts)

    def weight(self, word: str) -> float:
        """Inverse document frequency: how telling a word is. One that no page has is the most telling."""
        found_in = self._found_in[word]
        return math.log(1 + (len(self._passages) - found_in + 0.5) / (found_in + 0.5))

    def search(self, query: Mapping[str, float], limit: int) -> list[Hit]:
        """The best passages for weighted query words, best first; passages that share no word are left out."""
        hits = [Hit(page, self._score(query, number)) for number, page in enumerate(self._passages)]
        hits = [hit for hit in hits if hit.score > 0]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:limit]

    def _score(self, query: Mapping[str, float], number: int) -> float:
        counts = self._counts[number]
        norm = self._k1 * (1 - self._b + self._b * self._lengths[number] / self._mean_length)
        return sum(
            share * self.weight(word) * counts[word] * (self._k1 + 1) / (counts[word] + norm)
            for word, share in query.items()
            if word in counts
        )
