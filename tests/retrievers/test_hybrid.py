"""Two retrievers asked as one."""

import pytest

from evalspec.base.errors import RetrieverError
from evalspec.inputs.manifest.retriever_schema import Bm25Options
from evalspec.model import Document
from evalspec.targets.retrievers.base import Retrieval
from evalspec.targets.retrievers.bm25 import Bm25Retriever
from evalspec.targets.retrievers.opening import HybridRetriever
from retrievers.asking import SCOPE, ask_ids, fill, make_documents, make_hits, run


class Searcher:
    """Can only search, and finds the same each time."""

    def __init__(self, *ids):
        self.ids = ids
        self.closed = False

    async def search(self, request):
        return Retrieval(tuple(make_hits(*self.ids[: request.top_k])), {"retrieve": 2.0})

    async def aclose(self):
        self.closed = True


def bm25():
    return Bm25Retriever(Bm25Options(builtin="bm25"))


def test_a_smaller_k_is_the_beginning_of_a_larger_one():
    documents = [Document(f"d{n}", " ".join(["cat"] * n + ["dog"] * (9 - n))) for n in range(10)]

    async def session():
        first = bm25()
        await fill(first, documents)
        hybrid = HybridRetriever(first, Searcher(*(f"d{n * 7 % 10}" for n in range(10))), 60)
        return [await ask_ids(hybrid, "cat", top_k) for top_k in range(1, 11)]

    found = run(session())
    assert [len(ids) for ids in found] == list(range(1, 11))
    assert found == [found[-1][:top_k] for top_k in range(1, 11)]


def test_a_part_that_cannot_do_it_is_named():
    part = Searcher("a")
    hybrid = HybridRetriever(bm25(), part, 60)
    with pytest.raises(RetrieverError, match="Searcher in the hybrid does not support ingest"):
        run(hybrid.ingest(make_documents(a="cat"), SCOPE))
    with pytest.raises(RetrieverError, match="Searcher in the hybrid does not support delete"):
        run(hybrid.delete(SCOPE))
    run(hybrid.aclose())
    assert part.closed
