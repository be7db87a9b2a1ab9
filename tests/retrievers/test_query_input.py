"""What a query gives to a retriever besides its question: over a real server, and as the user's own code sees it."""

import asyncio

import pytest
from msgspec.structs import replace

from evalspec.base.errors import RetrieverError
from evalspec.inputs.datasets.query_input import QueryInput
from evalspec.inputs.manifest.retriever_schema import HttpRetriever, PythonTarget
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.base import SearchRequest
from evalspec.targets.retrievers.http_target import RemoteRetriever
from evalspec.targets.retrievers.http_target_checks import check_http
from evalspec.targets.retrievers.python_target import OwnRetriever
from evalspec.targets.retrievers.query_input import list_unfilled, list_untaken
from servers.faulty_agent import Answer
from servers.faulty_retriever import FaultyRetriever

INPUT = {
    "query": "bags",
    "color": None,
    "price": {"max": 30, "per.unit": True},
    "tags": ["new", '"}'],
    "note": "{{query}}",
}
ASKED = SearchRequest("bags", 2, input=INPUT, metadata={"tenant": {"id": "a/b"}})
TLS = choose_route("http://localhost")


@pytest.fixture
def send():
    """What the service receives for one search."""
    with FaultyRetriever() as service:
        service.mode = Answer(body=b'{"ids": []}')

        def send(asked=ASKED, **call):
            call = {"path": "/s", "request": {"q": "{{query}}"}, "response": {"ids": "$.ids"}} | call
            options = HttpRetriever.model_validate({"search": call})
            assert check_http(options) == []

            async def session():
                retriever = RemoteRetriever(options, service.url, TLS)
                try:
                    await retriever.search(asked)
                finally:
                    await retriever.aclose()

            before = len(service.requests)
            try:
                asyncio.run(session())
            except RetrieverError as error:
                assert (len(service.requests), error.retryable) == (before, False)
                raise
            return service.requests[-1]

        yield send


def test_values_keep_their_types_and_are_never_templates(send):
    template = {
        "all": "{{input}}",
        "max": "{{input.price.max}}",
        "unit": "{{ input.price.per.unit }}",
        "color": "{{input.color}}",
        "tags": "{{input.tags}}",
        "note": "{{input.note}}!",
        "tenant": "{{metadata.tenant}}",
    }
    assert send(request=template).body == {
        "all": INPUT,
        "max": 30,
        "unit": True,
        "color": None,
        "tags": ["new", '"}'],
        "note": "{{query}}!",
        "tenant": {"id": "a/b"},
    }


def test_a_question_is_an_input_of_one_field(send):
    assert send(replace(ASKED, input={}), request={"i": "{{input}}"}).body == {"i": {"query": "bags"}}


def test_values_in_a_url_are_encoded(send):
    path = "/{{metadata.tenant.id}}/{{input.price}}?t={{input.tags}}"
    sent = send(method="GET", path=path, request={"q": "{{query}}", "p": "{{input.price.per.unit}}"})
    assert sent.path == (
        "/a%2Fb/%7B%22max%22%3A%2030%2C%20%22per.unit%22%3A%20true%7D?t=%5B%22new%22%2C%20%22%5C%22%7D%22%5D&q=bags&p=true"
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [("/docs/{{input.x}}/all", ".."), ("/docs/{{input.x}}?a=b", "."), ("/docs/.{{input.x}}", ".")],
)
def test_a_value_never_leads_to_another_path(send, path, value):
    with pytest.raises(RetrieverError, match="search: a value makes a segment of the path"):
        send(replace(ASKED, input={"query": "bags", "x": value}), path=path)


def test_dots_elsewhere_are_text(send):
    assert send(replace(ASKED, input={"query": "b", "x": ".."}), path="/v1..{{input.x}}?x={{input.x}}").path == (
        "/v1....?x=.."
    )


@pytest.mark.parametrize("call", [{"path": "/{{input.x}}"}, {"method": "GET", "request": {"q": "{{input.x}}"}}])
def test_a_value_without_an_encoding_fails_its_query(send, call):
    with pytest.raises(RetrieverError, match="surrogate"):
        send(replace(ASKED, input={"query": "bags", "x": "\ud800"}), **call)


def test_a_missing_value_fails_the_query(send):
    with pytest.raises(RetrieverError, match=r"the request has \{\{input.size\}\}, but the query has no such value"):
        send(request={"q": "{{query}}", "size": "{{input.size}}"})


@pytest.mark.parametrize(
    ("changed", "place", "says"),
    [
        ({"search": {"path": "/{{inptu.x}}"}}, "search.path", "unknown placeholder {{inptu.x}}"),
        ({"search": {"request": ["{{query}}", "{{input.}}"]}}, "search.request", "unknown placeholder {{input.}}"),
        ({"search": {"request": ["{{query}}", "{{metadata}}"]}}, "search.request", "unknown placeholder {{metadata}}"),
        ({"search": {"request": ["{{metadata.q}}"]}}, "search.request", "add {{query}} or {{input}}"),
        ({"delete": {"path": "/{{input.x}}/{{scopePrefix}}"}}, "delete.path", "unknown placeholder {{input.x}}"),
        ({"url": "http://{{input.host}}:80"}, "url", "{{input.host}} is not replaced in a url; move it to a path"),
    ],
)
def test_placeholders_that_a_request_cannot_have(changed, place, says):
    search = {"path": "/s", "request": {"q": "{{query}}"}, "response": {"ids": "$"}} | changed.get("search", {})
    ((found, message),) = check_http(HttpRetriever.model_validate(changed | {"search": search}))
    assert (".".join(found), says in message) == (place, True), message


@pytest.mark.parametrize(
    ("names", "untaken"),
    [
        ({"query"}, ["color", "price", "tags", "note"]),
        ({"input"}, []),
        ({"input.query", "input.color", "input.price", "input.tags", "input.note"}, []),
        ({"query", "input.color", "input.price.max", "input.tags", "input.note"}, ["price.per.unit"]),
        ({"input.color", "input.price", "input.tags", "input.note"}, ["query"]),
        ({"query", "input.col", "metadata.color", "input.price", "input.tags.new", "input.note"}, ["color", "tags"]),
    ],
)
def test_fields_that_no_placeholder_takes(names, untaken):
    assert list_untaken(names, QueryInput(INPUT, "query", "query_input")) == untaken


def test_placeholders_without_a_value():
    names = {"query", "topK", "input", "input.color", "input.size", "input.price.min", "metadata.tenant", "metadata.x"}
    given = QueryInput(INPUT, "query", "query_input")
    assert list_unfilled(names, given, ASKED.metadata) == ["input.price.min", "input.size", "metadata.x"]


def test_your_own_code_gets_copies(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def search(request):\n"
        "    found = [request.metadata.pop('tenant')['id'], str(request.input['price'].pop('max'))]\n"
        "    request.input.clear()\n"
        "    return found"
    )
    retriever = OwnRetriever(PythonTarget(python="mine:search"), tmp_path)
    assert [hit.id for hit in asyncio.run(retriever.search(ASKED)).hits] == ["a/b", "30"]
    assert (ASKED.input["price"]["max"], ASKED.metadata) == (30, {"tenant": {"id": "a/b"}})
