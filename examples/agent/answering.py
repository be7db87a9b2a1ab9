"""Answers a conversation with sentences taken from the best passage, or says that it does not know."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval import Bm25Index, Hit, words

UNKNOWN = "I don't know. I could not find this in the help pages."
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")
_PASSAGES = 5
_EARLIER_TURN = 0.4  # weight of words that only the previous question has
_ENOUGH = 0.35  # share of the question's weight that the best passage must cover
_ALSO_GOOD = 0.7  # a sentence is added when it scores this share of the best one


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, and the passages that were at hand, best first."""

    text: str
    hits: tuple[Hit, ...]


class Answerer:
    """Retrieval and extraction over one index."""

    def __init__(self, index: Bm25Index) -> None:
        self._index = index

    def answer(self, questions: Sequence[str]) -> Answer:
        """Answer the last of the user's questions; the one before it gives context to a follow-up."""
        query = self._query(questions)
        hits = self._index.search(query, _PASSAGES)
        if not hits or self._coverage(query, hits[0]) < _ENOUGH:
            return Answer(UNKNOWN, tuple(hits))
        return Answer(self._extract(query, hits[0]), tuple(hits))

    def _query(self, questions: Sequence[str]) -> dict[str, float]:
        earlier = dict.fromkeys(words(" ".join(questions[-2:-1])), _EARLIER_TURN)
        return earlier | dict.fromkeys(words(questions[-1]), 1.0)

    def _coverage(self, query: Mapping[str, float], hit: Hit) -> float:
        known = set(words(f"{hit.passage.title} {hit.passage.text}"))
        weights = {word: share * self._index.weight(word) for word, share in query.items()}
        return sum(weights[word] for word in weights if word in known) / sum(weights.values())

    def _extract(self, query: Mapping[str, float], hit: Hit) -> str:
        """The sentence with the most telling words, and up to two that come close, in the page's order."""
        sentences = _SENTENCE_END.split(hit.passage.text)
        scores = [self._overlap(query, sentence) for sentence in sentences]
        best = sorted(range(len(sentences)), key=lambda number: -scores[number])[:3]
        chosen = [number for number in best if scores[number] >= _ALSO_GOOD * scores[best[0]]]
        return " ".join(sentences[number] for number in sorted(chosen))

    def _overlap(self, query: Mapping[str, float], sentence: str) -> float:
        return sum(query.get(word, 0.0) * self._index.weight(word) for word in set(words(sentence)))
