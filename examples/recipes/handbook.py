"""The handbook of an invented bike library, and two stand-ins for models: words hashed into a vector, and a quote.

Both are deterministic and need no weights, so that the recipes run anywhere. Put your own models in their place.
"""

import json
import re
from math import sqrt
from pathlib import Path
from zlib import crc32

DOCUMENTS = [json.loads(line) for line in Path(__file__).with_name("documents.jsonl").read_text().splitlines()]
DIMENSIONS = 256
_COMMON = {
    "a",
    "an",
    "and",
    "are",
    "be",
    "can",
    "do",
    "does",
    "how",
    "in",
    "is",
    "it",
    "of",
    "on",
    "or",
    "the",
    "to",
    "what",
    "when",
}


def words(text):
    """The words of a text that carry meaning, without a plural s."""
    return [word.rstrip("s") for word in re.findall(r"\w+", text.lower()) if word not in _COMMON]


def embed(text):
    """A unit vector: each word counts in the dimension of its hash."""
    vector = [0.0] * DIMENSIONS
    for word in words(text):
        vector[crc32(word.encode()) % DIMENSIONS] += 1.0
    length = sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else [1.0, *vector[1:]]


def quote(question, passages):
    """The sentence of the passages that shares the most words with the question."""
    sentences = [sentence for passage in passages for sentence in re.split(r"(?<=\.)\s+", passage)]
    return max(
        sentences, key=lambda sentence: len(set(words(question)) & set(words(sentence))), default="I don't know."
    )


def search(question, limit=2):
    """The documents that are most similar to the question."""
    wanted = embed(question)

    def similarity(document):
        return sum(one * other for one, other in zip(wanted, embed(document["text"]), strict=True))

    return sorted(DOCUMENTS, key=similarity, reverse=True)[:limit]
