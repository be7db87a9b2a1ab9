"""BM25 by the `bm25s` library: the baseline that a retriever should beat.

Words are runs of letters and digits, without regard to case; each Han or Hiragana character is one by itself, as for
Lucene. There is no list of stop words: a word that is everywhere weighs next to nothing. Where a language is given,
words are brought to their stems.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from evalspec.errors import InvalidInput, MissingPackage, Problem
from evalspec.manifest.retriever_schema import Bm25Options
from evalspec.model import Document
from evalspec.registry import near_miss
from evalspec.retrievers.base import Retrieval, SearchRequest, refuse_filters
from evalspec.retrievers.scopes import Scopes, Stored, nothing_indexed, searchable_text, take_top

_NAME = "builtin: bm25"
_ALONE = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = rf"[{_ALONE}]|[^\W_{_ALONE}]+"
"""Compiled at first use: that takes longer than most commands have to start."""


@dataclass(frozen=True, slots=True)
class _Index:
    """`postings`: bm25s' index of `documents`."""

    postings: Any
    documents: Sequence[Document]


class Bm25Retriever:
    """Ranks by BM25 the documents that share a word with the query; the others are no hits.

    Document frequencies and the mean length are those of the scope that is searched. Computed in double precision.
    """

    def __init__(self, options: Bm25Options) -> None:
        """Raises MissingPackage without bm25s (or a stemmer), InvalidInput for a language without a stemmer."""
        if find_spec("bm25s") is None:
            raise MissingPackage(_NAME, "bm25s", "retrievers")
        self._options = options
        self._words = _Vocabulary(_load_stemmer(options.language))
        self._scopes: Scopes[array[int], _Index] = Scopes(self._build)

    async def prepare(self, scope_prefix: str) -> None:
        """Build the index of a scope."""
        await self._scopes.find_index(scope_prefix)

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Take a batch; returns the ids of documents without any word."""
        wordless = []
        for document in documents:
            words = self._words.learn(searchable_text(document))
            self._scopes.put(document, scope_prefix, words or None)
            if not words:
                wordless.append(document.id)
        return wordless

    async def delete(self, scope_prefix: str) -> None:
        """Forget a scope."""
        self._scopes.delete(scope_prefix)

    async def search(self, request: SearchRequest) -> Retrieval:
        """The best documents; equal scores by id, the highest first.

        Raises:
            RetrieverError: nothing is indexed in the scope, or the request has filters.
        """
        import numpy as np

        refuse_filters(_NAME, request)
        index = await self._scopes.find_index(request.scope_prefix)
        if index is None:
            raise nothing_indexed(request.scope_prefix)
        started = perf_counter()
        words = self._words.find(request.query)
        scores = index.postings.get_scores_from_ids(words)
        hits = take_top(index.documents, scores, np.flatnonzero(scores > 0), request.top_k)
        return Retrieval(hits, {"retrieve": 1000 * (perf_counter() - started)})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _build(self, stored: Sequence[Stored["array[int]"]]) -> _Index:
        options = self._options
        postings = import_module("bm25s").BM25(k1=options.k1, b=options.b, method=options.method, dtype="float64")
        corpus = ([one.entry for one in stored], self._words.numbers)
        postings.index(corpus, create_empty_token=False, show_progress=False)
        return _Index(postings, [one.document for one in stored])


class _Vocabulary:
    """Numbers of words, those of one stem having one."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self.numbers: dict[str, int] = {}
        self._stem = stem
        self._of_words = _WordNumbers(self._number)

    def learn(self, text: str) -> "array[int]":
        """The numbers of a document's words; new ones get theirs."""
        return array("i", map(self._of_words.__getitem__, split_words(text)))

    def find(self, text: str) -> list[int]:
        """The numbers of those words of a query that any document has."""
        stems = map(self._stem, split_words(text))
        return [self.numbers[stem] for stem in stems if stem in self.numbers]

    def _number(self, word: str) -> int:
        return self.numbers.setdefault(self._stem(word), len(self.numbers))


class _WordNumbers(dict[str, int]):
    """Words to numbers, each stemmed only once."""

    def __init__(self, number: Callable[[str], int]) -> None:
        self._number = number

    def __missing__(self, word: str) -> int:
        self[word] = found = self._number(word)
        return found


def split_words(text: str) -> list[str]:
    """The words of a text in their order, folded to one case and to one form of each character (NFKC)."""
    return re.findall(_WORD, unicodedata.normalize("NFKC", text).casefold())


def _load_stemmer(language: str | None) -> Callable[[str], str]:
    if language is None:
        return str
    try:
        stemmer = import_module("Stemmer")
    except ModuleNotFoundError as error:
        raise MissingPackage(f"language of {_NAME}", "PyStemmer", "retrievers") from error
    if language not in stemmer.algorithms():
        fix = f"{near_miss(language, stemmer.algorithms())}; null takes words as they are"
        raise InvalidInput(Problem(f"there is no stemmer for '{language}'", fix, field="language"))
    stem: Callable[[str], str] = stemmer.Stemmer(language).stemWord
    return stem
