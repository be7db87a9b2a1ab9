"""A retriever that is the user's own code, in real modules on disk."""

import asyncio

import numpy as np
import pytest

from evalspec.base.errors import InvalidInput, RetrieverError
from evalspec.inputs.manifest.retriever_schema import PythonTarget
from evalspec.inputs.user_code.calls import check_target
from evalspec.model import Document
from evalspec.targets.retrievers.base import Deletes, Hit, Ingests, Prepares, Reranks, SearchRequest
from evalspec.targets.retrievers.python_target import OwnRetriever

ASKED = SearchRequest("refund", 2, "eval:faq:", {"lang": "en"})


@pytest.fixture
def write(tmp_path):
    """Write `mine.py` and make the retriever of a name in it."""

    def write(source, name="search"):
        (tmp_path / "mine.py").write_text(source)
        return OwnRetriever(PythonTarget(python=f"mine:{name}"), tmp_path)

    return write


def search(retriever, request=ASKED):
    return asyncio.run(retriever.search(request))


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_is_given_the_request(write, kind):
    retriever = write(
        f"{kind} search(request):\n    return [request.query, request.scope_prefix + request.filters['lang']]"
    )
    found = search(retriever)
    assert found.hits == (Hit("refund"), Hit("eval:faq:en"))
    assert found.timings_ms["retrieve"] >= 0
    assert not any(isinstance(retriever, ability) for ability in (Ingests, Deletes, Reranks, Prepares))


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_with_other_parameters_is_an_error_of_its_own(write, kind):
    retriever = write(f"{kind} search(query, top_k):\n    return []")
    with pytest.raises(RetrieverError, match=r"^search: TypeError: search\(\) missing 1 required .* 'top_k'$"):
        search(retriever)


def test_sync_functions_run_beside_each_other(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from threading import Barrier\nboth = Barrier(2)\ndef search(request):\n    both.wait(10)\n    return []"
    )
    retriever = OwnRetriever(PythonTarget(python="mine:search"), tmp_path)

    async def session():
        return await asyncio.gather(retriever.search(ASKED), retriever.search(ASKED))

    assert [found.hits for found in asyncio.run(session())] == [(), ()]


@pytest.mark.parametrize(
    ("returned", "hits"),
    [
        ("[]", ()),
        ("('a', 7)", (Hit("a"), Hit("7"))),
        ("[('a', 0.5), (7, 1)]", (Hit("a", score=0.5), Hit("7", score=1.0))),
        (
            "[{'id': 'a'}, {'id': 'c', 'document_id': 7, 'score': None, 'text': 't'}]",
            (Hit("a"), Hit("c", "7", None, "t")),
        ),
        ("['a', 'a', 'b']", (Hit("a"), Hit("a"))),
    ],
)
def test_what_may_be_returned(write, returned, hits):
    assert search(write(f"def search(request):\n    return {returned}")).hits == hits


def test_what_evalspec_itself_returns_may_be_returned(write):
    source = (
        "from evalspec.targets.retrievers.base import Hit, Retrieval\n"
        "def search(request):\n    return Retrieval((Hit('a', 'd'),), {'embed': 1.5, 'retrieve': 2.5})"
    )
    found = search(write(source))
    assert (found.hits, found.timings_ms) == ((Hit("a", "d"),), {"retrieve": 2.5, "embed": 1.5})


def test_numbers_of_numpy_are_numbers(write):
    source = "import numpy as np\ndef search(request):\n    return [(np.int64(3), np.float32(0.5))]"
    assert search(write(source)).hits == (Hit("3", score=float(np.float32(0.5))),)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("None", "search: it returned a NoneType; return a list of ids"),
        ("'abc'", "search: it returned the str 'abc'; return a list of ids"),
        ("{'a': 1.0}", "it returned a dict; return a list of ids"),
        ("[1.5]", "it returned a float as an id"),
        ("[True]", "it returned a bool as an id"),
        ("[('a', 'high')]", "it returned the str 'high' as a score; return a finite number"),
        ("[('a', float('nan'))]", "it returned nan as a score"),
        ("[('a', 1, 2)]", "it returned a tuple as an id"),
        ("[{'score': 1}]", "a dict with no id; valid keys: id, score, text, document_id"),
        ("[{'id': 'a', 'scores': 1}]", "a dict with the key 'scores'"),
        ("[{'id': 'a', 'text': 1}]", "it returned a int as a text"),
        ("1 / 0", "search: ZeroDivisionError: division by zero, mine.py:2"),
        ("exit(3)", "search: SystemExit: 3, mine.py:2"),
    ],
)
def test_anything_else_is_one_clear_line(write, returned, says):
    retriever = write(f"def search(request):\n    return {returned}")
    with pytest.raises(RetrieverError) as caught:
        search(retriever)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_of_its_own_kind_keeps_what_it_says_of_another_attempt(write):
    source = (
        "from evalspec.base.errors import RetrieverError\n"
        "def search(request):\n    raise RetrieverError('busy', retryable=True, retry_after=2.0, throttled=True)"
    )
    with pytest.raises(RetrieverError, match="search: busy") as caught:
        search(write(source))
    assert (caught.value.retryable, caught.value.retry_after, caught.value.throttled) == (True, 2.0, True)


FULL = """
class Store:
    def __init__(self):
        self.documents = {}
        self.open = True

    def search(self, request):
        assert self.open
        return [{"id": id, "text": text} for id, text in self.documents.items() if request.query in text]

    async def rerank(self, query, hits, top_k):
        return [(hit.id, len(hit.text)) for hit in sorted(hits, key=lambda hit: -len(hit.text))]

    def prepare(self, scope_prefix):
        self.prepared = scope_prefix

    def ingest(self, documents, scope_prefix):
        assert self.prepared == scope_prefix
        self.documents |= {document.id: document.text for document in documents if document.text}
        return [document.id for document in documents if not document.text]

    async def delete(self, scope_prefix):
        self.documents = {id: text for id, text in self.documents.items() if not id.startswith(scope_prefix)}

    def close(self):
        self.open = False

store = Store()
shelves = type("Shelves", (), {"first": store})
"""


@pytest.mark.parametrize("name", ["Store", "store", "shelves.first"])
def test_an_object_or_a_class_with_all_methods(write, name):
    retriever = write(FULL, name)
    assert all(isinstance(retriever, ability) for ability in (Ingests, Deletes, Reranks, Prepares))
    documents = [Document("p:1", "a refund"), Document("p:2", "the refund of all"), Document("p:3")]

    async def session():
        await retriever.prepare("p:")
        lost = await retriever.ingest(documents, "p:")
        found = await retriever.search(ASKED)
        best = await retriever.rerank("refund", found.hits, 1)
        await retriever.delete("p:")
        rest = await retriever.search(ASKED)
        await retriever.aclose()
        return lost, found, best, rest

    lost, found, best, rest = asyncio.run(session())
    assert lost == ["p:3"]
    assert [hit.id for hit in found.hits] == ["p:1", "p:2"]
    assert best.hits == (Hit("p:2", None, 17.0, "the refund of all"),)
    assert list(best.timings_ms) == ["rerank"]
    assert rest.hits == ()
    with pytest.raises(RetrieverError, match=r"AssertionError, mine\.py:8"):
        search(retriever)


def test_a_rerank_that_makes_up_a_hit_is_an_error(write):
    source = "class R:\n    def search(self, r): return []\n    def rerank(self, q, hits, k): return ['x']"
    with pytest.raises(RetrieverError, match="'x', which is not one of the 1 hits sent"):
        asyncio.run(write(source, "R").rerank("q", [Hit("a")], 1))


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        (
            "raise RuntimeError('no key')",
            "search",
            "the retriever mine:search cannot be imported: RuntimeError: no key, mine.py:1",
        ),
        (
            "class R:\n    def __init__(self): 1 / 0",
            "R",
            "cannot be imported: ZeroDivisionError: division by zero, mine.py:2",
        ),
        ("search = 7", "search", "the retriever mine:search is a int. name a search function"),
        ("class R: pass\nr = R()", "r.search", "AttributeError"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(write, source, name, says):
    with pytest.raises(InvalidInput) as caught:
        write(source, name)
    assert says in str(caught.value)


def test_a_name_that_is_not_there_is_found_without_running_the_module(tmp_path):
    (tmp_path / "mine.py").write_text("print('ran')\nraise SystemExit\ndef search(request): ...")
    assert check_target(tmp_path, "mine:search") == []
    [problem] = check_target(tmp_path, "mine:serch.x")
    assert "does not define 'serch'; did you mean 'search'?" in problem
    [problem] = check_target(tmp_path, "mime:search")
    assert "there is no module 'mime' beside the manifest" in problem


def test_a_retriever_that_cannot_be_closed_costs_no_report(project):
    code = "class mine:\n    def search(self, request):\n        return ['d1']\n    def close(self):\n        1 / 0"
    (project.folder / "mine.py").write_text(code)
    project.evaluation["retrievers"] = {"mine": {"python": "mine:mine"}}
    project.dataset("qa", [{"id": "q1", "relevant": ["d1"]}], retriever="mine", metrics=["Recall@5"])
    done = project.evaluate("--json")
    assert done.code == 0
    assert done.document["datasets"][0]["metrics"]["Recall@5"]["value"] == 1
    said = "a retriever cannot be closed: close: ZeroDivisionError: division by zero, mine.py:5"
    assert said in done.document["notes"]
