"""A retriever behind HTTP, as the manifest describes its requests and replies."""

from collections.abc import Sequence
from typing import Any

from evalspec.errors import RetrieverError
from evalspec.json_http.connection import Connections, open_client, parse_body
from evalspec.json_http.error_body import find_error, refuse_error_body
from evalspec.json_http.json_path import find_values
from evalspec.json_http.routes import Route
from evalspec.json_http.template import fill_json
from evalspec.manifest.retriever_schema import HitQueries, HttpCall, HttpIngest, HttpRetriever, HttpSearch
from evalspec.records import Document
from evalspec.retries import persist
from evalspec.retrievers.base import Hit, Retrieval, SearchRequest, refuse_filters
from evalspec.retrievers.http_target_calls import Reply, ServiceCall, Values
from evalspec.retrievers.http_target_hits import read_hits
from evalspec.retrievers.presets import apply_preset
from evalspec.retrievers.target_rules import match_reranked

DEFAULT_DOCUMENT = {"id": "{{id}}", "title": "{{title}}", "text": "{{text}}", "metadata": "{{metadata}}"}
"""One of {{documents}} where the manifest gives no template for it."""

_CONNECT_SECONDS = 20.0


class RemoteRetriever:
    """Asks the service at `url`. `rerank`, `ingest` and `delete` are there where the manifest describes them, so that
    `isinstance` with the protocols of retrievers.base tells what the service can do.

    As many connections are opened as calls run at once. A search or a rerank is one attempt; ingest and delete, which
    may be repeated without harm, are repeated as their `maxRetries` says.
    """

    def __init__(self, options: HttpRetriever, url: str, route: Route) -> None:
        """`options`: with their references resolved, and without problems (see http_target_checks)."""
        self._connections = Connections(lambda: open_client(options.headers, route, _CONNECT_SECONDS))

        def service(kind: str, call: HttpCall | HttpSearch) -> ServiceCall:
            return ServiceCall(kind, call, url, self._connections)

        search = apply_preset(options.search)
        self.search = _Search(service("search", search), search).search
        if options.rerank is not None:
            rerank = apply_preset(options.rerank)
            self.rerank = _Rerank(service("rerank", rerank), rerank).rerank
        if options.ingest is not None:
            self.ingest = _Ingest(service("ingest", options.ingest), options.ingest).ingest
        if options.delete is not None:
            self.delete = _Delete(service("delete", options.delete)).delete

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()


class _Search:
    def __init__(self, call: ServiceCall, options: HttpSearch) -> None:
        self._call = call
        self._options = options

    async def search(self, request: SearchRequest) -> Retrieval:
        """See retrievers.base.Retriever; timed is `retrieve`, from sending to the last byte."""
        if "filters" not in self._call.placeholders:
            refuse_filters("the search request", request)
        values = {
            "query": request.query,
            "topK": request.top_k,
            "scopePrefix": request.scope_prefix,
            "filters": dict(request.filters),
        }
        reply = await self._call.send(values)
        hits = _read_reply(reply, self._call, self._options)
        return Retrieval(hits[: request.top_k], {"retrieve": reply.took_ms})


class _Rerank:
    def __init__(self, call: ServiceCall, options: HttpSearch) -> None:
        self._call = call
        self._options = options

    async def rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """See retrievers.base.Reranks; timed is `rerank`. What the reply does not say of a hit stays as it was."""
        reply = await self._call.send(self._values(query, hits, top_k))
        found = _read_reply(reply, self._call, self._options)
        return Retrieval(match_reranked(found, hits, top_k), {"rerank": reply.took_ms})

    def _values(self, query: str, hits: Sequence[Hit], top_k: int) -> Values:
        values: dict[str, Any] = {"query": query, "topK": top_k, "ids": [hit.id for hit in hits]}
        if "documents" in self._call.placeholders:
            without = [hit.id for hit in hits if hit.text is None]
            if without:
                message = f"{len(without)} of the {len(hits)} hits have no text ('{without[0]}')"
                raise RetrieverError(f"rerank: {message}; set search.response.texts, or send {{{{ids}}}} only")
            values["documents"] = [{"id": hit.id, "text": hit.text} for hit in hits]
        return values


class _Ingest:
    def __init__(self, call: ServiceCall, options: HttpIngest) -> None:
        self._call = call
        self._template = DEFAULT_DOCUMENT if options.document is None else options.document
        self._batch_size = options.batch_size

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """See retrievers.base.Ingests. A service does not say what it cannot find, so nothing is returned."""
        for values in self._requests(documents):
            await _send_again(self._call, {**values, "scopePrefix": scope_prefix})
        return ()

    def _requests(self, documents: Sequence[Document]) -> list[Values]:
        if "documents" not in self._call.placeholders:
            return [_document_values(document) for document in documents]
        filled = [fill_json(self._template, _document_values(document).__getitem__) for document in documents]
        starts = range(0, len(filled), self._batch_size)
        return [{"documents": filled[start : start + self._batch_size]} for start in starts]


class _Delete:
    def __init__(self, call: ServiceCall) -> None:
        self._call = call

    async def delete(self, scope_prefix: str) -> None:
        """See retrievers.base.Deletes."""
        await _send_again(self._call, {"scopePrefix": scope_prefix})


def _read_reply(reply: Reply, call: ServiceCall, options: HttpSearch) -> tuple[Hit, ...]:
    with call.explained():
        value = parse_body(reply.body, call.url, call.words)
        if options.response is None:
            raise RetrieverError("the manifest does not say where the hits are; set response.ids")
        error = find_error(value)
        if error is not None and not _has_hits(value, options.response):
            raise error
        return read_hits(value, options.response)


def _has_hits(value: Any, queries: HitQueries) -> bool:
    return any(found not in (None, []) for found in find_values(queries.ids, value))


async def _send_again(call: ServiceCall, values: Values) -> None:
    """Send what may be repeated without harm. What the reply says is not read, but for an error in it."""

    async def attempt() -> None:
        reply = await call.send(values)
        with call.explained():
            refuse_error_body(reply.body)

    await persist(attempt, call.max_retries)


def _document_values(document: Document) -> Values:
    return {"id": document.id, "title": document.title, "text": document.text, "metadata": dict(document.metadata)}
