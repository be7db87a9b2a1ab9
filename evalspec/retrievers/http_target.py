"""A retriever behind HTTP, as the manifest describes its requests and replies."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import urlencode

from evalspec.errors import RetrieverError, ServiceError
from evalspec.http.client import (
    Connections,
    OutgoingRequest,
    encode_headers,
    open_client,
    parse_body,
    read_whole,
    refuse_status,
    send,
)
from evalspec.http.error_body import parse_error, refuse_error_body
from evalspec.http.failures import Service
from evalspec.http.json_path import as_id, as_string, read_list, select_values
from evalspec.http.pacing import persist
from evalspec.http.routes import Route
from evalspec.http.template import as_text, fill_json, fill_path, list_placeholders
from evalspec.manifest.retriever_schema import HitQueries, HttpCall, HttpRetriever, HttpSearch
from evalspec.model import Document
from evalspec.retrievers.base import Hit, Retrieval, SearchRequest, match_reranked, refuse_filters
from evalspec.retrievers.http_target_checks import apply_preset

T = TypeVar("T")

Values = Mapping[str, Any]
"""The values of placeholders, by name."""

DEFAULT_DOCUMENT = {"id": "{{id}}", "title": "{{title}}", "text": "{{text}}", "metadata": "{{metadata}}"}
"""One of {{documents}} where the manifest gives no template for it."""


class RemoteRetriever:
    """Asks the service at `url`. `rerank`, `ingest` and `delete` are there where the manifest describes them, so that
    `isinstance` with the protocols of retrievers.base tells what the service can do.

    As many connections are opened as calls run at once. A search or a rerank is one attempt; ingest and delete, which
    may be repeated without harm, are retried as their `maxRetries` says.
    """

    def __init__(self, options: HttpRetriever, url: str, route: Route) -> None:
        """`options`: with their references resolved, and without problems (see http_target_checks)."""
        connections = Connections(lambda: open_client(options.headers, route))
        self._connections = connections
        self._search_call = _Call("search", apply_preset(options.search), url, connections)
        if options.rerank is not None:
            self._rerank_call = _Call("rerank", apply_preset(options.rerank), url, connections)
            self.rerank = self._rerank
        if options.ingest is not None:
            self._ingest_call = _Call("ingest", options.ingest, url, connections)
            self._ingest_options = options.ingest
            self.ingest = self._ingest
        if options.delete is not None:
            self._delete_call = _Call("delete", options.delete, url, connections)
            self.delete = self._delete

    async def search(self, request: SearchRequest) -> Retrieval:
        """See retrievers.base.Retriever; timed is `retrieve`, from sending to the last byte."""
        if "filters" not in self._search_call.placeholders:
            refuse_filters("the search request", request)
        values = {
            "query": request.query,
            "topK": request.top_k,
            "scopePrefix": request.scope_prefix,
            "filters": dict(request.filters),
        }
        hits, took_ms = await self._search_call.fetch_hits(values)
        return Retrieval(hits[: request.top_k], {"retrieve": took_ms})

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """See retrievers.base.Reranks; timed is `rerank`. What the reply does not say of a hit stays as it was."""
        values: dict[str, Any] = {"query": query, "topK": top_k, "ids": [hit.id for hit in hits]}
        if "documents" in self._rerank_call.placeholders:
            without = [hit.id for hit in hits if hit.text is None]
            if without:
                message = f"{len(without)} of the {len(hits)} hits have no text ('{without[0]}')"
                raise RetrieverError(f"rerank: {message}; set search.response.texts, or send {{{{ids}}}} only")
            values["documents"] = [{"id": hit.id, "text": hit.text} for hit in hits]
        found, took_ms = await self._rerank_call.fetch_hits(values)
        return Retrieval(match_reranked(found, hits, top_k), {"rerank": took_ms})

    async def _ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """See retrievers.base.Ingests. A service does not say what it cannot find, so nothing is returned."""
        for values in self._ingest_values(documents):
            await self._ingest_call.send_with_retries({**values, "scopePrefix": scope_prefix})
        return ()

    def _ingest_values(self, documents: Sequence[Document]) -> list[Values]:
        """The values of each request: one for each document, or for each batch where it has {{documents}}."""
        if "documents" not in self._ingest_call.placeholders:
            return [_document_values(document) for document in documents]
        template, size = self._ingest_options.document, self._ingest_options.batch_size
        template = DEFAULT_DOCUMENT if template is None else template
        filled = [fill_json(template, _document_values(document).__getitem__) for document in documents]
        return [{"documents": filled[start : start + size]} for start in range(0, len(filled), size)]

    async def _delete(self, scope_prefix: str) -> None:
        """See retrievers.base.Deletes."""
        await self._delete_call.send_with_retries({"scopePrefix": scope_prefix})


class _Call:
    """One kind of request: filled from its templates, sent, and read to the last byte.

    `kind`: the manifest's key for it, with which messages begin.
    """

    def __init__(self, kind: str, call: HttpCall | HttpSearch, url: str, connections: Connections) -> None:
        path = call.path or ""
        self.placeholders = frozenset(list_placeholders([path, call.request]))
        self._service = Service("the retriever", kind)
        self._url = f"{url.rstrip('/')}/{path.lstrip('/')}"
        self._call = call
        self._headers = encode_headers({name.lower(): text for name, text in call.headers.items()})
        self._connections = connections

    async def fetch_hits(self, values: Values) -> tuple[tuple[Hit, ...], float]:
        """Return the hits of one reply, best first, and the ms from sending to the last byte.

        Raises:
            RetrieverError: no usable reply; it says whether another attempt may help.
        """
        queries = self._call.response if isinstance(self._call, HttpSearch) else None
        with self._explained():
            body, took_ms = await self._send(values)
            value = parse_body(body, self._url, self._service)
            if queries is None:
                raise ServiceError("the manifest does not say where the hits are; set response.ids")
            error = parse_error(value)
            if error is not None and not _has_hits(value, queries):
                raise error
            return read_hits(value, queries), took_ms

    async def send_with_retries(self, values: Values) -> None:
        """Send a request that may be repeated without harm. Of the reply only an error is read.

        Raises:
            RetrieverError: the last attempt failed.
        """

        async def attempt() -> None:
            with self._explained():
                body, _ = await self._send(values)
                refuse_error_body(body)

        await persist(attempt, self._call.max_retries)

    async def _send(self, values: Values) -> tuple[bytes, float]:
        """The body of the reply to one attempt, and the ms from sending to its last byte."""
        request = self._build(values)
        async with self._connections.take() as client:
            started = perf_counter()
            async with send(client, request, self._service) as response:
                await refuse_status(response, self._service)
                body = await read_whole(response)
                return body, (perf_counter() - started) * 1000

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the wire, as those of this call."""
        try:
            yield
        except ServiceError as error:
            raise error.named(RetrieverError, self._service.setting) from None

    def _build(self, values: Values) -> OutgoingRequest:
        """The request. The values of a GET are in its url."""
        url = fill_path(self._url, values.__getitem__)
        filled = fill_json(self._call.request, values.__getitem__)
        content = None
        if self._call.method == "GET" and filled:
            query = urlencode({key: as_text(value) for key, value in filled.items()})
            url = f"{url}{'&' if '?' in url else '?'}{query}"
        elif self._call.method != "GET" and self._call.request is not None:
            content = _write_json(filled)
        return OutgoingRequest(url, self._call.timeout_seconds, content, self._call.method, self._headers)


def _has_hits(value: Any, queries: HitQueries) -> bool:
    return any(found not in (None, []) for found in select_values(queries.ids, value))


def _write_json(request: Any) -> bytes:
    try:
        return json.dumps(request, allow_nan=False, default=str).encode()
    except ValueError as error:
        raise ServiceError(f"the request cannot be written as JSON: {error}") from error


def _document_values(document: Document) -> Values:
    return {"id": document.id, "title": document.title, "text": document.text, "metadata": dict(document.metadata)}


def read_hits(value: Any, queries: HitQueries) -> tuple[Hit, ...]:
    """The hits in the order of the reply, which is the ranking whatever the scores say; duplicates and all.

    Ids may be text or whole numbers.

    Raises:
        ServiceError: a place that is not there, a value of another kind, or lists of different lengths.
    """
    ids = read_list(value, queries.ids, "response.ids", as_id)
    documents = _read_beside(ids, value, queries, "documentIds", queries.document_ids, as_id, "strings")
    scores = _read_beside(ids, value, queries, "scores", queries.scores, _as_score, "finite numbers")
    texts = _read_beside(ids, value, queries, "texts", queries.texts, as_string, "strings")
    return tuple(Hit(*parts) for parts in zip(ids, documents, scores, texts, strict=True))


def _read_beside(
    ids: tuple[str, ...],
    value: Any,
    queries: HitQueries,
    name: str,
    text: str | None,
    convert: Callable[[Any], T | None],
    expected: str,
) -> tuple[T | None, ...]:
    """What stands beside each id; None everywhere where it is not mapped."""
    if text is None:
        return (None,) * len(ids)
    found = read_list(value, text, f"response.{name}", convert, expected)
    if len(found) != len(ids):
        raise ServiceError(
            f"{queries.ids} gives {len(ids)} ids and {text} gives {len(found)} {name}; one for each hit was expected"
        )
    return found


def _as_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    return score if math.isfinite(score) else None
