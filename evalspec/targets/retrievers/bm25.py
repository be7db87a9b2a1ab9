"""BM25 by the `bm25s` library: the baseline that a retriever should beat.

Words are runs of letters and digits, without case. Each Han or Hiragana character is a word, as in Lucene. There are no
stop words: a word that occurs everywhere has almost no weight. Words are stemmed if a language is given.
"""

import re
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, MissingPackage, Problem
from evalspec.base.foreign_text import normalize
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.retriever_schema import Bm25Options
from evalspec.model import Document
from evalspec.targets.retrievers.base import Retrieval, SearchRequest, refuse_filters
from evalspec.targets.retrievers.scopes import Scopes, Stored, nothing_indexed, searchable_text, take_top

_NAME = "builtin: bm25"
_ALONE = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = rf"[{_ALONE}]|[^\W_{_ALONE}]+"
"""Compiled at first use: that takes longer than most commands have to start."""


class _Index(Struct, frozen=True):
    """The index of `documents`, by bm25s."""

    postings: Any
    documents: Sequence[Document]


class Bm25Retriever:
    """Ranks documents that share a word with the query by BM25. Other documents are not hits.

    Document frequencies and the mean length are those of the searched scope. Scores have double precision.
    """

    def __init__(self, options: Bm25Options) -> None:
        """Raise MissingPackage without bm25s or PyStemmer, and InvalidInput for a language without a stemmer."""
        if find_spec("bm25s") is None:
            raise MissingPackage(_NAME, "bm25s", "retrievers")
        self._options = options
        self._words = _Vocabulary(_load_stemmer(options.language))
        self._scopes: Scopes[array[int], _Index] = Scopes(self._build)

    async def prepare(self, scope_prefix: str) -> None:
        """Build the index of a scope."""
        await self._scopes.find_index(scope_prefix)

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Store a batch, and return the ids of documents without any word."""
        wordless = []
        for document in documents:
            words = self._words.learn(searchable_text(document))
            self._scopes.put(document, scope_prefix, words or None)
            if not words:
                wordless.append(document.id)
        return wordless

    async def delete(self, scope_prefix: str) -> None:
        """Delete a scope."""
        self._scopes.delete(scope_prefix)

    async def search(self, request: SearchRequest) -> Retrieval:
        """Return the best documents. Equal scores are ordered by id, descending.

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
        """Do nothing: nothing is open."""

    def _build(self, stored: Sequence[Stored["array[int]"]]) -> _Index:
        options = self._options
        postings = import_module("bm25s").BM25(k1=options.k1, b=options.b, method=options.method, dtype="float64")
        corpus = ([one.entry for one in stored], self._words.numbers)
        postings.index(corpus, create_empty_token=False, show_progress=False)
        return _Index(postings, [one.document for one in stored])


class _Vocabulary:
    """Numbers of words. Words with the same stem share one."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self.numbers: dict[str, int] = {}
        self._stem = stem
        self._of_words = _WordNumbers(self._number)

    def learn(self, text: str) -> "array[int]":
        """Return the numbers of a document's words. New words get new numbers."""
        return array("i", map(self._of_words.__getitem__, split_words(text)))

    def find(self, text: str) -> list[int]:
        """Return the numbers of the query's words that occur in any document."""
        stems = map(self._stem, split_words(text))
        return [self.numbers[stem] for stem in stems if stem in self.numbers]

    def _number(self, word: str) -> int:
        return self.numbers.setdefault(self._stem(word), len(self.numbers))


class _WordNumbers(dict[str, int]):
    """Words to numbers. Each word is stemmed only once."""

    def __init__(self, number: Callable[[str], int]) -> None:
        self._number = number

    def __missing__(self, word: str) -> int:
        self[word] = found = self._number(word)
        return found


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, with case folded and characters normalised (NFKC)."""
    return re.findall(_WORD, normalize("NFKC", text).casefold())


def explain_language(language: str | None) -> tuple[str, str] | None:
    """Return why a language has no stemmer and the fix, or None; also None if PyStemmer is not installed."""
    if language is None or find_spec("Stemmer") is None:
        return None
    known = import_module("Stemmer").algorithms()
    return None if language in known else (f"there is no stemmer for '{language}'", near_miss(language, known))


def _load_stemmer(language: str | None) -> Callable[[str], str]:
    if language is None:
        return str
    try:
        stemmer = import_module("Stemmer")
    except ModuleNotFoundError as error:
        raise MissingPackage(f"language of {_NAME}", "PyStemmer", "retrievers") from error
    refused = explain_language(language)
    if refused is not None:
        raise InvalidInput(Problem(*refused, field="language"))
    stem: Callable[[str], str] = stemmer.Stemmer(language).stemWord
    return stem
