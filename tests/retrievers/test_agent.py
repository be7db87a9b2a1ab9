"""A retriever asked like an agent: distinct documents, then the cut, at both stages alike."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import RetrieverError
from evalspec.model import RetrieverSettings, Sample
from evalspec.model.fingerprints import RetrieverMode
from evalspec.targets.retrievers.agent import QueryOverrides, QuerySettings, RetrieverAgent
from evalspec.targets.retrievers.base import Hit, Retrieval


@dataclass
class Chunks:
    """Has chunks in a fixed order, named document#number, and gives as many of the first as it is asked for."""

    chunks: list[str]
    asked: list[int] = field(default_factory=list)
    failing_beyond: int = 1000

    async def search(self, request):
        self.asked.append(request.top_k)
        if request.top_k > self.failing_beyond:
            raise RetrieverError("too many")
        hits = [Hit(chunk, chunk.partition("#")[0], text=chunk) for chunk in self.chunks[: request.top_k]]
        return Retrieval(tuple(hits), {"retrieve": 1.0})

    async def aclose(self):
        """Nothing is open."""


class Reversing(Chunks):
    """Reranks the candidates into the reverse order, as many as it is asked for."""

    async def rerank(self, query, hits, top_k):
        return Retrieval(tuple(reversed(hits))[:top_k], {"rerank": 2.0})


def ask(retriever, sample=None, **settings):
    how = QuerySettings(RetrieverSettings("mine", **{"mode": "retrieve", "top_k": 3, **settings}))
    return asyncio.run(RetrieverAgent(retriever, how).ask(sample or Sample("s", "what?")))


def distinct(chunks):
    return list(dict.fromkeys(chunk.partition("#")[0] for chunk in chunks))


chunk_lists = st.lists(st.sampled_from("abcdef"), max_size=30).map(
    lambda documents: [f"{document}#{number}" for number, document in enumerate(documents)]
)


@given(chunks=chunk_lists, top_k=st.integers(1, 6))
def test_the_ranking_is_the_first_distinct_documents(chunks, top_k):
    """Within the few searches that are made, no document is lost to chunks of another."""
    reply = ask(Chunks(chunks), top_k=top_k)
    assert list(reply.retrieved_context_ids) == distinct(chunks)[:top_k]
    assert len(reply.retrieved_contexts) == len(reply.retrieved_context_ids)
    assert (len(reply.retrieved_context_ids) < top_k) == ("fewer" in reply.trace.oddities)


@given(chunks=chunk_lists, top_k=st.integers(1, 4), factor=st.integers(1, 3))
def test_reranking_keeps_every_document_of_the_candidates(chunks, top_k, factor):
    """The oracle: all chunks of the candidates, turned round, collapsed, cut."""
    retriever = Reversing(chunks)
    reply = ask(
        retriever, mode="retrieve+rerank", top_k=top_k, rerank_top_k=factor * top_k, origins={"rerankTopK": "x"}
    )
    candidates = set(distinct(chunks)[: factor * top_k])
    kept = [chunk for chunk in chunks[: retriever.asked[-1]] if chunk.partition("#")[0] in candidates]
    assert list(reply.candidate_ids) == distinct(chunks)[:top_k]
    assert list(reply.retrieved_context_ids) == distinct(reversed(kept))[:top_k]


def test_more_chunks_are_asked_for_where_collapsing_leaves_too_few():
    retriever = Chunks([f"a#{n}" for n in range(10)] + ["b#0", "c#0"])
    reply = ask(retriever)
    assert reply.retrieved_context_ids == ("a", "b", "c")
    assert retriever.asked == [3, 9, 27] and reply.trace.oddities == {"askedAgain": 2}
    assert reply.trace.timings_ms == {"retrieve": 3.0}, "what it takes to get the documents is what is measured"


def test_at_least_twice_as_many_are_asked_for():
    retriever = Chunks(["a#0", "a#1", "b#0", "b#1", "b#2", "b#3", "c#0"])
    assert ask(retriever).retrieved_context_ids == ("a", "b", "c")
    assert retriever.asked == [3, 6, 12]


def test_it_gives_up_asking_for_more():
    retriever = Chunks(["a#0"] * 10_000)
    reply = ask(retriever, top_k=2)
    assert len(retriever.asked) == 5 and reply.retrieved_context_ids == ("a",)
    assert reply.trace.oddities["fewer"] == 1


@pytest.mark.parametrize(
    ("own", "settings", "asked"),
    [
        ({}, {}, 9),
        ({}, {"rerank_top_k": 12, "origins": {"rerankTopK": "--rerank-top-k"}}, 12),
        ({"top_k": 2}, {"rerank_top_k": 9, "origins": {"rerankTopK": "default"}}, 6),
        ({"top_k": 2}, {"rerank_top_k": 12, "origins": {"rerankTopK": "dataset"}}, 12),
        ({"rerank_top_k": 1}, {}, 3),
    ],
)
def test_how_many_are_reranked(own, settings, asked):
    retriever = Reversing([f"{name}#0" for name in "abcdefghijklmnop"])
    how = QuerySettings(
        RetrieverSettings("mine", RetrieverMode.RERANK, 3, **settings), {}, {"s": QueryOverrides(**own)}
    )
    reply = asyncio.run(RetrieverAgent(retriever, how).ask(Sample("s", "what?")))
    assert retriever.asked == [asked]
    assert len(reply.retrieved_context_ids) == own.get("top_k", 3)


MISSING = Sample("s", "what?", qrels={"a": 1, "f": 2, "z": 0})


def test_a_query_that_misses_something_is_searched_deeper_after_the_clock():
    retriever = Chunks([f"{name}#0" for name in "abcdef"])
    reply = ask(retriever, MISSING, depth=5)
    assert reply.deep_ids == tuple("abcde") and retriever.asked == [3, 5]
    assert reply.trace.timings_ms == {"retrieve": 1.0}
    assert ask(Chunks(["a#0", "b#0", "c#0"]), Sample("s", "?", qrels={"a": 1, "z": 0}), depth=5).deep_ids is None
    grouped = Sample("s", "?", qrels={"a": 1, "f": 1}, groups=(("a", "f"),))
    assert ask(Chunks(["a#0"]), grouped, depth=5).deep_ids is None
    assert ask(Chunks(["a#0"]), MISSING, depth=5, min_grade=3).deep_ids is None
    assert ask(Chunks(["a#0"]), MISSING, depth=0).deep_ids is None


def test_a_deep_search_that_fails_is_counted_and_fails_nothing_else():
    reply = ask(Chunks(["a#0", "b#0", "c#0", "d#0"], failing_beyond=3), MISSING, depth=5)
    assert reply.retrieved_context_ids == ("a", "b", "c") and reply.deep_ids is None
    assert reply.trace.oddities == {"undiagnosed": 1}


def test_hits_without_a_text_give_no_contexts():
    class Bare(Chunks):
        async def search(self, request):
            return Retrieval((Hit("a", text="x"), Hit("b")), {})

    assert ask(Bare([])).retrieved_contexts is None
