"""A retriever behind HTTP: a real server that works well, or fails in every way we know."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.base.errors import RetrieverError
from evalspec.inputs.manifest.retriever_schema import HitQueries, HttpRetriever
from evalspec.model import Document
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.agent import count_oddities
from evalspec.targets.retrievers.base import Deletes, Hit, Ingests, Reranks, Retrieval, SearchRequest
from evalspec.targets.retrievers.http_target import RemoteRetriever, read_hits
from evalspec.targets.retrievers.http_target_checks import check_http, reports_scope
from servers.faulty_agent import Answer, throttled
from servers.faulty_agent import status as answered
from servers.faulty_retriever import FaultyRetriever, describe_retriever

SCOPE = "eval:faq:"
DOCUMENTS = [
    Document(f"{SCOPE}{name}", text, title=name.title(), metadata={"page": page})
    for page, (name, text) in enumerate(
        {
            "refund": "a refund takes five days",
            "trial": "the trial takes a month",
            "seats": "add seats any time",
        }.items()
    )
]
ASKED = SearchRequest("How long takes a refund", 2, SCOPE)
TLS = choose_route("http://localhost")


@pytest.fixture
def service():
    with FaultyRetriever() as server:
        server.documents = {document.id: {"id": document.id, "text": document.text} for document in DOCUMENTS} | {
            "eval:other:refund": {"id": "eval:other:refund", "text": "a refund takes ten days"}
        }
        yield server


def use(url, work, options=None):
    """The result of `await work(retriever)`."""

    async def session():
        retriever = RemoteRetriever(options or describe_retriever(), url, TLS)
        try:
            return await work(retriever)
        finally:
            await retriever.aclose()

    return asyncio.run(session())


def search(service, request=ASKED, options=None) -> Retrieval:
    return use(service.url, lambda retriever: retriever.search(request), options)


def failure(service, work=lambda retriever: retriever.search(ASKED), options=None) -> RetrieverError:
    with pytest.raises(RetrieverError) as caught:
        use(service.url, work, options)
    assert "\n" not in str(caught.value)
    return caught.value


def ids(retrieval: Retrieval) -> list[str]:
    return [hit.id.removeprefix(SCOPE) for hit in retrieval.hits]


class TestSearch:
    def test_hits_and_latency(self, service):
        service.delay = 0.05
        found = search(service)
        assert found.hits == (
            Hit(f"{SCOPE}refund", None, 3.0, "a refund takes five days"),
            Hit(f"{SCOPE}trial", None, 2.0, "the trial takes a month"),
        )
        request = service.requests[0]
        work = (request.answered - request.arrived) * 1000
        assert list(found.timings_ms) == ["retrieve"]
        assert found.timings_ms["retrieve"] >= work >= 50

    def test_values_are_substituted_never_spliced(self, service):
        @given(st.text() | st.sampled_from(["{{topK}}", '", "topK": 99, "x": "', "{{filters}}"]))
        def check(query):
            search(service, replace(ASKED, query=query))
            assert service.requests[-1].body == {"query": query, "topK": 2, "scopePrefix": SCOPE}

        check()

    def test_filters_are_sent_or_refused(self, service):
        asked = replace(ASKED, filters={"lang": ["en", "de"]})
        assert "does not support filters, but the query has lang" in str(
            failure(service, lambda retriever: retriever.search(asked))
        )
        request = {"query": "{{query}}", "where": "{{filters}}"}
        options = describe_retriever(search=_search(request=request))
        search(service, asked, options)
        assert service.bodies("search") == [{"query": ASKED.query, "where": {"lang": ["en", "de"]}}]

    def test_a_get_says_it_all_in_its_url(self, service):
        service.mode = Answer(body=b'{"ids": ["d1"]}')
        options = describe_retriever(
            search=_search(
                method="GET",
                path="/find/{{scopePrefix}}?v=1",
                request={"q": "{{query}}", "k": "{{topK}}"},
                response={"ids": "$.ids"},
            )
        )
        asked = replace(ASKED, query="a & b/ü?")
        assert search(service, asked, options).hits == (Hit("d1"),)
        sent = service.requests[0]
        assert (sent.path, sent.body) == ("/find/eval%3Afaq%3A?v=1&q=a+%26+b%2F%C3%BC%3F&k=2", None)

    def test_each_call_under_way_has_a_connection_of_its_own_and_it_is_kept(self, service):
        opened = []
        register = service._server.process_request
        service._server.process_request = lambda *connection: (opened.append(1), register(*connection))

        async def ask_three_times_two(retriever):
            for _ in range(3):
                await asyncio.gather(retriever.search(ASKED), retriever.search(ASKED))

        use(service.url, ask_three_times_two)
        assert (len(service.requests), len(opened)) == (6, 2)

    def test_headers_of_the_service_and_of_the_call(self, service):
        options = HttpRetriever.model_validate(
            {"headers": {"X-Key": "k", "X-Which": "all"}, "search": _search(headers={"x-which": "search"})}
        )
        search(service, options=options)
        sent = service.requests[0].headers
        assert (sent["x-key"], sent["x-which"], sent["content-type"]) == ("k", "search", "application/json")


class TestOddReplies:
    @pytest.mark.parametrize(
        ("mode", "found", "odd"),
        [
            ("ok", ["refund", "trial", "seats"], Counter()),
            ("duplicates", ["refund", "refund", "trial", "seats"], Counter(duplicates=1)),
            ("short", ["refund"], Counter()),
            ("unknown_ids", ["nobody", "refund", "trial", "seats"], Counter(unknown=1)),
            ("unordered", ["refund", "trial", "seats"], Counter(outOfOrder=2)),
            ("integer_ids", ["0", "1", "2"], Counter(unknown=3)),
            ("no_hits", [], Counter()),
        ],
    )
    def test_what_is_odd_is_kept_in_the_order_of_the_reply_and_counted(self, service, mode, found, odd):
        service.mode = mode
        retrieval = search(service, replace(ASKED, top_k=10))
        assert ids(retrieval) == found
        assert count_oddities(retrieval.hits, {document.id for document in DOCUMENTS}) == odd

    def test_more_hits_than_were_asked_for_are_cut(self, service):
        service.mode = "unknown_ids"
        assert ids(search(service)) == ["nobody", "refund"]

    @pytest.mark.parametrize(
        ("mode", "says", "retryable"),
        [
            (
                "string_scores",
                "search: the values at $.hits[*].score (response.scores) include a string, but must be finite numbers",
                False,
            ),
            (Answer(body=b'{"hits": [{"id": "a", "score": 1e999}]}'), "1e999 is too large for a number", False),
            (Answer(body=b'{"hits": [{"id": "a", "score": true}]}'), "include a boolean", False),
            (
                Answer(body=b'{"hits": [{"id": 1.5, "score": 1}]}'),
                "the values at $.hits[*].id",
                False,
            ),
            (Answer(body=b'{"results": []}'), "no value at $.hits (response.ids); its keys are: results", False),
            (
                Answer(body=b'{"hits": [{"id": "a"}]}'),
                "1 of the 1 values at $.hits[*] (response.scores) have no match",
                False,
            ),
            (
                Answer(body=b'{"hits": [], "error": "no index"}'),
                "search: the reply has an error: 'no index'",
                False,
            ),
            (Answer(body=b'{"error": {"code": 503}}'), "has an error: '{\"code\": 503}'", True),
            (answered(500, body="{}"), "/search answered 500 Internal Server Error, expected 200", True),
            (answered(401), "check search.headers", False),
            (answered(404), "check search.path", False),
            (
                answered(422, body='{"detail": "no field k"}'),
                """check search.request; the reply says '{"detail": "no""",
                False,
            ),
            (throttled(7), "answered 429", True),
            ("html", "HTML page instead of JSON; check search.path", False),
            ("empty", "empty body", False),
            ("invalid_json", "not valid JSON", False),
            ("drop", "was closed before the reply was complete", True),
        ],
    )
    def test_what_cannot_be_used_is_one_clear_line(self, service, mode, says, retryable):
        service.mode = mode
        error = failure(service)
        assert str(error).startswith("search: ")
        assert says in str(error)
        assert error.retryable is retryable

    @pytest.mark.parametrize("error", [b"null", b"{}", b'""'])
    def test_an_error_that_says_nothing_is_none(self, service, error):
        service.mode = Answer(body=b'{"hits": [], "error": ' + error + b"}")
        assert search(service).hits == ()

    def test_hits_beside_an_error_count(self, service):
        service.mode = Answer(body=b'{"hits": [{"id": "a", "score": 1, "text": "x"}], "error": "one shard is slow"}')
        assert ids(search(service)) == ["a"]

    def test_lists_of_different_lengths_are_an_error(self, service):
        service.mode = "uneven"
        options = describe_retriever(search=_search(response={"ids": "$.ids", "scores": "$.scores"}))
        says = "search: $.ids gives 2 ids and $.scores gives 1 scores; the numbers must be equal"
        assert str(failure(service, options=options)) == says

    def test_throttling_reaches_the_error(self, service):
        service.mode = throttled(7)
        error = failure(service)
        assert (error.throttled, error.retry_after) == (True, 7.0)

    @pytest.mark.parametrize("mode", ["hang", "dribble"])
    def test_the_timeout_bounds_the_whole_call(self, service, mode):
        service.mode = mode
        options = describe_retriever(search=_search(timeoutSeconds=1))
        error = failure(service, options=options)
        assert "within 1 s (search.timeoutSeconds)" in str(error)
        assert (error.retryable, error.unreachable) == (True, False)

    def test_a_service_that_is_gone(self, service):
        service.stop()
        error = failure(service)
        assert str(error).endswith("connection refused; is the retriever running there?")
        assert (error.retryable, error.unreachable) == (True, True)

    def test_chunks_with_the_documents_they_belong_to(self):
        reply = {"hits": [{"id": "c1", "doc": 7}, {"id": "c2", "doc": "d8"}]}
        queries = HitQueries.model_validate({"ids": "$.hits[*].id", "documentIds": "$.hits[*].doc"})
        assert [hit.document for hit in read_hits(reply, queries)] == ["7", "d8"]


class TestRerank:
    def test_the_best_of_the_hits_in_the_order_of_the_reply(self, service):
        given_hits = [Hit("c1", "d1", 9.0, "one"), Hit("c2", "d2", 8.0, "two"), Hit("c3", "d3", 7.0, "three")]
        best = use(service.url, lambda retriever: retriever.rerank("q", given_hits, 2))
        assert best.hits == (Hit("c3", "d3", 1.0, "three"), Hit("c2", "d2", 0.5, "two"))
        assert list(best.timings_ms) == ["rerank"]
        assert service.bodies("rerank")[0]["documents"][0] == {"id": "c1", "text": "one"}

    def test_a_hit_that_was_not_given_is_an_error(self, service):
        service.mode = Answer(body=b'{"hits": [{"id": "c9", "score": 1}]}')
        error = failure(service, lambda retriever: retriever.rerank("q", [Hit("c1", text="one")], 1))
        assert str(error) == "rerank: the reply has 'c9', which is not one of the 1 hits sent"

    def test_texts_that_are_wanted_and_not_known_are_an_error(self, service):
        error = failure(service, lambda retriever: retriever.rerank("q", [Hit("c1")], 1))
        assert "1 of the 1 hits have no text ('c1'); set search.response.texts" in str(error)


class TestIngestAndDelete:
    def test_batches_with_the_documents_as_the_template_says(self, service):
        options = describe_retriever(
            ingest={
                "path": "/documents",
                "request": {"documents": "{{documents}}", "namespace": "{{scopePrefix}}"},
                "document": {"id": "{{id}}", "text": "{{title}}: {{text}}", "meta": "{{metadata}}"},
                "batchSize": 2,
            }
        )
        lost = use(service.url, lambda retriever: retriever.ingest(DOCUMENTS, SCOPE), options)
        assert list(lost) == []
        sent = service.bodies("ingest")
        assert [len(body["documents"]) for body in sent] == [2, 1]
        assert sent[0]["documents"][0] == {
            "id": f"{SCOPE}refund",
            "text": "Refund: a refund takes five days",
            "meta": {"page": 0},
        }
        assert sent[0]["namespace"] == SCOPE

    def test_one_document_a_request_where_the_template_has_no_documents(self, service):
        options = describe_retriever(
            ingest={"path": "/documents/{{id}}", "method": "PUT", "request": {"id": "{{id}}", "text": "{{text}}"}}
        )
        service.documents = {}
        use(service.url, lambda retriever: retriever.ingest(DOCUMENTS, SCOPE), options)
        assert list(service.documents) == [document.id for document in DOCUMENTS]
        assert service.requests[0].path == "/documents/eval%3Afaq%3Arefund"

    def test_delete_names_the_scope(self, service):
        use(service.url, lambda retriever: retriever.delete(SCOPE))
        assert list(service.documents) == ["eval:other:refund"]

    def test_both_are_repeated_as_often_as_the_manifest_says(self, service):
        service.script = [throttled(0), "ok", throttled(0), "ok"]
        calls = {
            "ingest": {"path": "/i", "request": {"documents": "{{documents}}"}, "maxRetries": 1},
            "delete": {"path": "/d", "request": {"scopePrefix": "{{scopePrefix}}"}, "maxRetries": 1},
        }

        async def replace_all(retriever):
            await retriever.delete(SCOPE)
            await retriever.ingest(DOCUMENTS, SCOPE)

        use(service.url, replace_all, describe_retriever(**calls))
        assert (len(service.bodies("delete")), len(service.bodies("ingest"))) == (2, 2)
        service.script = [throttled(0), throttled(0)]
        assert str(failure(service, lambda retriever: retriever.delete(SCOPE), describe_retriever(**calls))).startswith(
            "delete: "
        )

    @pytest.mark.parametrize("kind", ["ingest", "delete"])
    def test_an_error_with_status_200_is_a_failure(self, service, kind):
        calls = {"ingest": lambda retriever: retriever.ingest(DOCUMENTS, SCOPE), "delete": lambda r: r.delete(SCOPE)}
        service.mode = Answer(body=b'{"error": "index is locked"}')
        assert str(failure(service, calls[kind])) == f"{kind}: the reply has an error: 'index is locked'"
        for said in (b"", b"<html>", b"{\xff", b'{"error": null}', b'"error"'):
            service.mode = Answer(body=said)
            use(service.url, calls[kind])

    def test_a_retriever_can_do_what_the_manifest_describes(self):
        full = RemoteRetriever(describe_retriever(), "http://x", TLS)
        bare = RemoteRetriever(describe_retriever(rerank=None, ingest=None, delete=None), "http://x", TLS)
        for ability in (Ingests, Deletes, Reranks):
            assert isinstance(full, ability)
            assert not isinstance(bare, ability)


class TestPresets:
    def test_autorag(self, service):
        service.mode = Answer(
            body=b'{"passages": [{"doc_id": "p1", "content": "one", "score": 0.5, "file_page": null}]}'
        )
        options = HttpRetriever.model_validate({"search": {"preset": "autorag"}})
        assert search(service, options=options).hits == (Hit("p1", None, 0.5, "one"),)
        request = service.requests[0]
        assert (request.path, request.body) == ("/v1/retrieve", {"query": ASKED.query})

    def test_mixpeek(self, service):
        service.mode = Answer(body=b'{"documents": [{"document_id": "doc_1", "score": 0.9}], "pagination": {}}')
        path = "/v1/retrievers/ret_1/execute"
        options = HttpRetriever.model_validate({"search": {"preset": "mixpeek", "path": path}})
        assert search(service, options=options).hits == (Hit("doc_1", None, 0.9),)
        request = service.requests[0]
        assert request.path == path
        assert request.body["inputs"] == {"query": ASKED.query, "top_k": 2}
        assert request.body["pagination"]["page_size"] == 2

    def test_what_the_manifest_says_replaces_the_part_of_the_preset(self, service):
        service.mode = Answer(body=b'{"passages": [{"doc_id": "p1"}]}')
        said = {"preset": "autorag", "path": "/rag/v1/retrieve", "response": {"ids": "$.passages[*].doc_id"}}
        options = HttpRetriever.model_validate({"search": said})
        assert search(service, options=options).hits == (Hit("p1"),)
        assert service.requests[0].path == "/rag/v1/retrieve"

    @pytest.mark.parametrize("said", [{"preset": "autorag"}, {"preset": "mixpeek", "path": "/x"}])
    def test_presets_have_no_problems(self, said):
        assert check_http(HttpRetriever.model_validate({"search": said})) == []

    @pytest.mark.parametrize(
        ("said", "key", "message"),
        [
            ({"preset": "mixpeek"}, "path", "preset mixpeek needs the path of the retriever"),
            ({"preset": "mixpek"}, "preset", "unknown preset 'mixpek'; did you mean 'mixpeek'?"),
            ({"preset": "Mixpeek", "path": "/x"}, "preset", "unknown preset 'Mixpeek'"),
            ({"preset": "unrag"}, "preset", "unknown preset 'unrag'"),
        ],
    )
    def test_presets_that_cannot_be_applied(self, said, key, message):
        options = HttpRetriever.model_validate({"search": {"preset": "autorag"}, "rerank": said})
        ((place, found),) = check_http(options)
        assert place == ("rerank", key)
        assert message in found


class TestChecks:
    def test_a_good_description_has_no_problems(self):
        assert check_http(describe_retriever()) == []

    @pytest.mark.parametrize(
        ("changed", "place", "says"),
        [
            (
                {"search": {"request": {"q": "{{qery}}"}}},
                "search.request",
                "unknown placeholder {{qery}}; did you mean",
            ),
            ({"search": {"request": {"q": "what?"}}}, "search.request", "add {{query}}"),
            ({"search": {"path": "/x/{{id}}"}}, "search.path", "unknown placeholder {{id}}"),
            ({"search": {"request": ["{{query}}"], "method": "GET"}}, "search.request", "write an object"),
            ({"search": {"request": {1: "{{query}}"}}}, "search.request", "the key 1 is not text"),
            ({"search": {"response": {"ids": "hits"}}}, "search.response.ids", "not a JSONPath query"),
            (
                {"search": {"response": {"ids": "$.a", "documentIds": "$["}}},
                "search.response.documentIds",
                "not a JSONPath query",
            ),
            ({"rerank": {"request": {"q": "{{query}}"}}}, "rerank.request", "add {{ids}} or {{documents}}"),
            ({"ingest": {"request": {"all": "{{scopePrefix}}"}}}, "ingest.request", "add {{documents}} or {{text}}"),
            ({"ingest": {"request": ["{{documents}}", "{{id}}"]}}, "ingest.request", "unknown placeholder {{id}}"),
            ({"ingest": {"document": {"id": "{{id}}"}}}, "ingest.document", "add {{text}}"),
            (
                {"ingest": {"request": {"text": "{{text}}"}, "document": {"text": "{{text}}"}}},
                "ingest.document",
                "the request does not use it",
            ),
            ({"delete": {"request": None}}, "delete.request", "it could delete everything; add {{scopePrefix}}"),
        ],
    )
    def test_problems_are_found_before_the_run_with_their_place(self, changed, place, says):
        plain = describe_retriever().model_dump(by_alias=True)
        options = HttpRetriever.model_validate(
            {key: call | changed.get(key, {}) if isinstance(call, dict) else call for key, call in plain.items()}
        )
        [(found, message)] = check_http(options)
        assert ".".join(found) == place
        assert says in message

    def test_whether_the_service_is_told_the_scope(self):
        assert not reports_scope(describe_retriever())
        assert reports_scope(
            describe_retriever(ingest={"path": "/{{scopePrefix}}/documents", "request": {"all": "{{documents}}"}})
        )


def _search(**changed):
    return describe_retriever().search.model_dump(by_alias=True) | changed
