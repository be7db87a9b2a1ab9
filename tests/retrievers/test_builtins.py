"""What every baseline holds to, whichever it is: scopes, replacing, deleting, and saying what it cannot do."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from evalspec.base.errors import InvalidInput, RetrieverError
from evalspec.base.registry import Registry
from evalspec.inputs.manifest.fields import RetrieverVariants
from evalspec.inputs.manifest.retriever_schema import PluginOptions
from evalspec.model import Document
from evalspec.targets.retrievers import opening
from evalspec.targets.retrievers.base import Deletes, Ingests, Prepares, Reranks, SearchRequest
from evalspec.targets.retrievers.opening import RETRIEVERS, create_builtin
from retrievers.asking import SCOPE, CountingEmbedder, ask, ask_ids, fill, make_documents, run, vectors_of

pytest.importorskip("wordllama")

ANIMALS = make_documents(cat="a cat sleeps on the sofa", dog="the dog barks at night", bond="bonds and stock exchange")


def create(name):
    options: Any = TypeAdapter(RetrieverVariants).validate_python({"builtin": name})[""]
    return create_builtin(options, vectors_of(CountingEmbedder()))


@pytest.fixture(params=["bm25", "dense", "hybrid", "qdrant"])
def retriever(request):
    return create(request.param)


def test_the_best_document_comes_first_with_score_text_and_timings(retriever):
    async def session():
        assert list(await fill(retriever, ANIMALS)) == []
        found = await retriever.search(SearchRequest("a dog that barks", 2, SCOPE))
        await retriever.aclose()
        return found

    found = run(session())
    assert (found.hits[0].id, found.hits[0].document, found.hits[0].text) == ("dog", "dog", "the dog barks at night")
    assert len(found.hits) <= 2
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert "retrieve" in found.timings_ms
    assert all(taken > 0 for taken in found.timings_ms.values())


def test_it_is_known_what_it_can_do(retriever):
    assert isinstance(retriever, Prepares)
    assert isinstance(retriever, Ingests)
    assert isinstance(retriever, Deletes)
    assert not isinstance(retriever, Reranks)


def test_a_search_sees_its_scope_only(retriever):
    own = [Document("eval:test:en:cat", "a cat"), Document("eval:test:de:cat", "a cat"), Document("cat", "a cat")]

    async def session():
        await fill(retriever, own)
        await fill(retriever, [Document("cat", "a cat"), Document("dog", "a cat")], "eval:tester:")
        found = {
            scope: sorted(await ask_ids(retriever, "cat", scope=scope))
            for scope in (SCOPE, "eval:test:en:", "eval:tester:", "eval:", "")
        }
        await retriever.aclose()
        return found

    ours, theirs = sorted(document.id for document in own), ["cat", "dog"]
    found = run(session())
    together = sorted(set(ours + theirs))
    assert found[SCOPE] == ours
    assert found["eval:test:en:"] == ["eval:test:en:cat"]
    assert found["eval:tester:"] == theirs
    assert sorted(set(found["eval:"])) == sorted(set(found[""])) == together


def test_delete_forgets_one_scope_and_nothing_else(retriever):
    async def session():
        await retriever.delete(SCOPE)  # nothing there is no error
        await fill(retriever, ANIMALS)
        await fill(retriever, ANIMALS, "eval:tester:")
        await retriever.delete(SCOPE)
        with pytest.raises(RetrieverError, match="no document is indexed under 'eval:test:'; ingest") as caught:
            await ask(retriever, "cat")
        assert not caught.value.retryable
        kept = await ask_ids(retriever, "cat", 1, "eval:tester:")
        await fill(retriever, ANIMALS[:1])
        again = await ask_ids(retriever, "cat")
        await retriever.aclose()
        return kept, again

    assert run(session()) == (["cat"], ["cat"])


def test_an_unused_retriever_says_that_nothing_is_indexed(retriever):
    async def session():
        await retriever.prepare(SCOPE)
        with pytest.raises(RetrieverError, match="no document is indexed at all"):
            await ask(retriever, "cat", scope="")
        await retriever.aclose()

    run(session())


def test_ingesting_again_replaces(retriever):
    async def session():
        await fill(retriever, make_documents(one="a cat", two="stock exchange"))
        await fill(retriever, make_documents(one="stock exchange stock exchange", two="a cat"))
        hits = await ask(retriever, "cat")
        await retriever.aclose()
        return hits

    hits = run(session())
    assert hits[0].id == "two"
    assert len({hit.id for hit in hits}) == len(hits)
    assert {hit.text for hit in hits} <= {"a cat", "stock exchange stock exchange"}


def test_a_document_that_lost_its_text_is_found_no_more(retriever):
    async def session():
        await fill(retriever, ANIMALS)
        lost = await fill(retriever, make_documents(cat=""))
        found = await ask_ids(retriever, "cat dog bonds")
        await retriever.aclose()
        return list(lost), sorted(found)

    assert run(session()) == (["cat"], ["bond", "dog"])


def test_documents_that_can_never_be_found_are_named(retriever):
    async def session():
        lost = await fill(retriever, [*ANIMALS, *make_documents(blank=" ", dots="...")])
        with pytest.raises(RetrieverError, match="no document is indexed under 'eval:blank:'"):
            await fill(retriever, make_documents(blank=""), "eval:blank:")
            await ask(retriever, "cat", scope="eval:blank:")
        found = await ask_ids(retriever, "cat")
        await retriever.aclose()
        return lost, found

    lost, found = run(session())
    assert "blank" in lost
    assert not set(found) & set(lost)


def test_filters_are_refused_not_ignored(retriever):
    async def session():
        await fill(retriever, ANIMALS)
        with pytest.raises(RetrieverError, match="does not support filters, but the query has lang"):
            await retriever.search(SearchRequest("cat", 1, SCOPE, {"lang": "en"}))
        await retriever.aclose()

    run(session())


def test_an_unknown_name_has_a_hint():
    with pytest.raises(InvalidInput, match=r"unknown builtin retriever 'bm52'\. did you mean 'bm25'\?"):
        create("bm52")


def test_another_package_adds_one(monkeypatch):
    assert RETRIEVERS.names() == ["bm25", "dense", "hybrid", "qdrant"]
    registry: Registry[Any] = Registry("builtin retriever", "evalspec.retrievers")
    registry.add("mine", lambda options, vectors: (options, vectors))
    monkeypatch.setattr(opening, "RETRIEVERS", registry)
    options: Any = TypeAdapter(RetrieverVariants).validate_python({"builtin": "mine", "depth": 3})[""]
    assert create_builtin(options, None) == (PluginOptions(builtin="mine", depth=3), None)
