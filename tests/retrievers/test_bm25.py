"""The built-in BM25 against the closed formula, in any language, and without its packages."""

import asyncio
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput, MissingPackage
from evalspec.inputs.manifest.retriever_schema import Bm25Options
from evalspec.model import Document
from evalspec.targets.retrievers import bm25 as module
from evalspec.targets.retrievers.bm25 import Bm25Retriever, split_words
from retrievers.asking import SCOPE, ask, ask_ids, fill, find_hits, make_documents, run

INVERSE_FREQUENCY = {
    "lucene": lambda n, df: log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda n, df: max(0.0, log((n - df + 0.5) / (df + 0.5))),
    "atire": lambda n, df: log(n / df),
}
"""Kamphuis et al., ECIR 2020, table 1; Robertson's without its negative values."""

texts = st.lists(st.sampled_from(["ape", "bee", "cat", "dog", "elk"]), min_size=1, max_size=12).map(" ".join)


def bm25(**options):
    return Bm25Retriever(Bm25Options(builtin="bm25", **options))


def compute_scores(documents, query, k1, b, method):
    """{id: score} by the formula, of documents that score at all."""
    words = {document.id: document.text.split() for document in documents}
    mean_length = sum(map(len, words.values())) / len(words)
    scores = {}
    for id, own in words.items():
        score = 0.0
        for term in query.split():
            frequency = own.count(term)
            df = sum(term in other for other in words.values())
            if frequency:
                saturation = frequency / (frequency + k1 * (1 - b + b * len(own) / mean_length))
                scale = k1 + 1 if method == "atire" else 1
                score += INVERSE_FREQUENCY[method](len(words), df) * saturation * scale
        if score > 0:
            scores[id] = score
    return scores


@settings(max_examples=40)
@given(
    st.lists(texts, min_size=1, max_size=8),
    texts,
    st.sampled_from(list(INVERSE_FREQUENCY)),
    st.sampled_from([(1.5, 0.75), (0.9, 0.4), (0.0, 1.0)]),
)
def test_scores_are_those_of_the_formula(corpus, query, method, parameters):
    k1, b = parameters
    documents = [Document(f"d{number}", text) for number, text in enumerate(corpus)]
    hits = find_hits(bm25(k1=k1, b=b, method=method), documents, query)
    assert {hit.id: hit.score for hit in hits} == pytest.approx(
        compute_scores(documents, query, k1, b, method), rel=1e-12
    )
    assert hits == sorted(hits, key=lambda hit: (hit.score, hit.id), reverse=True)


def test_equal_scores_stand_by_id_the_highest_first_wherever_they_are_cut():
    documents = [Document(id, "a wing") for id in ("b", "10", "9", "a", "é", "A")] + [Document("z", "wing, a wing")]

    async def session():
        retriever = bm25()
        await fill(retriever, documents)
        whole = await ask_ids(retriever, "wing")
        assert [await ask_ids(retriever, "wing", top_k) for top_k in range(1, 8)] == [whole[:k] for k in range(1, 8)]
        return whole

    assert run(session()) == ["z", "é", "b", "a", "A", "9", "10"]


def test_documents_without_a_word_of_the_query_are_no_hits():
    documents = make_documents(one="the cat", two="a dog")
    assert [hit.id for hit in find_hits(bm25(), documents, "cat")] == ["one"]
    assert find_hits(bm25(), documents, "zebra !?") == []


def test_words_of_the_title_count_and_come_back():
    hits = find_hits(bm25(), [Document("one", "the body", "A Headline")], "headline")
    assert [hit.text for hit in hits] == ["A Headline\nthe body"]


def test_words():
    assert split_words("Don't re-enter №5, ＡＢＣ_straße!") == ["don", "t", "re", "enter", "no5", "abc", "strasse"]
    assert split_words("東京タワーと한국어 text") == ["東", "京", "タワー", "と", "한국어", "text"]


@pytest.mark.parametrize(
    ("language", "found"), [("english", ["plural"]), ("german", ["haus", "plural"]), (None, [])], ids=str
)
def test_the_language_decides_which_words_are_one(language, found):
    documents = make_documents(plural="engines", haus="häuser")
    hits = find_hits(bm25(language=language), documents, "engine haus")
    assert sorted(hit.id for hit in hits) == sorted(found)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["eval:a:", "eval:b:", "eval:a:x:"]), texts), min_size=1, max_size=9), texts)
def test_what_else_is_in_memory_changes_no_score_of_a_scope(drawn, query):
    async def session():
        together, alone = bm25(), bm25()
        for number, (scope, text) in enumerate(drawn):
            await fill(together, [Document(f"d{number}", text)], scope)
            if scope.startswith("eval:a:"):
                await fill(alone, [Document(f"d{number}", text)], scope)
        if any(scope.startswith("eval:a:") for scope, _ in drawn):
            assert await ask(together, query, 3, "eval:a:") == await ask(alone, query, 3, "eval:a:")

    run(session())


def test_what_is_not_there_is_one_line_with_the_fix(monkeypatch):
    with pytest.raises(InvalidInput, match=r"^language: there is no stemmer for 'englisch'\. did you mean 'english'\?"):
        bm25(language="englisch")

    def fail(name):
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr(module, "import_module", fail)
    with pytest.raises(MissingPackage, match=r"^[^\n]*PyStemmer[^\n]*'bm25s>=0\.2\.14' 'PyStemmer>=2\.2\.0\.3'$"):
        bm25()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"^[^\n]*bm25s[^\n]*'bm25s>=0\.2\.14' 'PyStemmer>=2\.2\.0\.3'$"):
        bm25(language=None)


def test_first_searches_at_once_build_one_index():
    async def session():
        retriever = bm25()
        await retriever.ingest(make_documents(one="cat", two="cat cat", three="dog"), SCOPE)
        return await asyncio.gather(*(ask_ids(retriever, "cat") for _ in range(5)))

    assert run(session()) == [["two", "one"]] * 5


def test_what_comes_while_an_index_is_built_is_not_missed():
    async def session():
        retriever = bm25()
        await retriever.ingest(make_documents(one="cat"), SCOPE)
        building = asyncio.create_task(retriever.prepare(SCOPE))
        await asyncio.sleep(0)  # it is in its thread now
        await retriever.ingest(make_documents(two="cat"), SCOPE)
        await building
        return await ask_ids(retriever, "cat")

    assert run(session()) == ["two", "one"]
