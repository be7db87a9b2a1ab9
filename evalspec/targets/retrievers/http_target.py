"""A retriever behind HTTP, with requests and replies as described in the manifest."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar

from evalspec.base.errors import RetrieverError, ServiceError
from evalspec.base.json_path import as_id, as_string, read_list, select_values
from evalspec.inputs.manifest.retriever_schema import HitQueries, HttpCall, HttpRetriever, HttpSearch
from evalspec.model import Document
from evalspec.targets.http.client import (
    Connections,
    OutgoingRequest,
    encode_headers,
    open_client,
    parse_body,
)
from evalspec.targets.http.credentials import Credentials
from evalspec.targets.http.error_body import parse_error, refuse_error_body
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.keys import KeyPlace
from evalspec.targets.http.pacing import persist
from evalspec.targets.http.polling import JobPolling, add_headers, fetch
from evalspec.targets.http.routes import Route
from evalspec.targets.http.template import add_query, fill_json, fill_path, list_placeholders
from evalspec.targets.retrievers.base import Hit, Retrieval, SearchRequest, match_reranked, refuse_filters
from evalspec.targets.retrievers.http_target_checks import apply_preset
from evalspec.targets.retrievers.query_input import fill_from_query

T = TypeVar("T")

Values = Mapping[str, Any]
"""The values of placeholders, by name."""

DEFAULT_DOCUMENT = {"id": "{{id}}", "title": "{{title}}", "text": "{{text}}", "metadata": "{{metadata}}"}
"""The template of one document in {{documents}} if the manifest has none."""


class RemoteRetriever:
    """Queries the service at `url`.

    `rerank`, `ingest` and `delete` exist if the manifest describes them, so that `isinstance` with the protocols of
    retrievers.base detects what the service supports.

    Each concurrent call has a connection. Search and rerank are single attempts. Ingest and delete are idempotent, and
    are retried up to their `maxRetries`.
    """

    def __init__(
        self, options: HttpRetriever, url: str, route: Route | None = None, place: KeyPlace | None = None
    ) -> None:
        """`options`: checked (see http_target_checks), and with references resolved. `place`: of its credentials."""
        credentials = Credentials(options.auth, "http", place, timeout=options.search.timeout_seconds)
        chosen = route or credentials.choose_route(url)
        connections = Connections(lambda: open_client(options.headers, chosen))
        self._connections = connections
        self._search_call = _Call("search", apply_preset(options.search), url, connections, credentials)
        if options.rerank is not None:
            self._rerank_call = _Call("rerank", apply_preset(options.rerank), url, connections, credentials)
            self.rerank = self._rerank
        if options.ingest is not None:
            self._ingest_call = _Call("ingest", options.ingest, url, connections, credentials)
            self._ingest_options = options.ingest
            self.ingest = self._ingest
        if options.delete is not None:
            self._delete_call = _Call("delete", options.delete, url, connections, credentials)
            self.delete = self._delete

    async def search(self, request: SearchRequest) -> Retrieval:
        """See retrievers.base.Retriever. `retrieve` is timed from sending to the last byte."""
        if "filters" not in self._search_call.placeholders:
            refuse_filters("the search request", request)
        values = {
            "query": request.query,
            "topK": request.top_k,
            "scopePrefix": request.scope_prefix,
            "filters": dict(request.filters),
            **fill_from_query(self._search_call.placeholders, request),
        }
        hits, took_ms = await self._search_call.fetch_hits(values)
        return Retrieval(hits[: request.top_k], {"retrieve": took_ms})

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """See retrievers.base.Reranks. `rerank` is timed. Hits keep everything but rank and score."""
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
        """See retrievers.base.Ingests. Services do not report unsearchable documents, so nothing is returned."""
        for values in self._ingest_values(documents):
            await self._ingest_call.send_with_retries({**values, "scopePrefix": scope_prefix})
        return ()

    def _ingest_values(self, documents: Sequence[Document]) -> list[Values]:
        """Return the values of each request: one per batch if the template has {{documents}}, else one per document."""
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
    """One kind of request: fills its templates, sends it, and reads the whole reply.

    `kind`: its key in the manifest, which messages begin with.
    """

    def __init__(
        self, kind: str, call: HttpCall | HttpSearch, url: str, connections: Connections, credentials: Credentials
    ) -> None:
        path = call.path or ""
        self.placeholders = frozenset(list_placeholders([path, call.request]))
        self._service = ServiceNames("the retriever", kind)
        self._url = url.rstrip("/")
        self._path = f"/{path.lstrip('/')}"
        self._call = call
        self._headers = encode_headers({name.lower(): text for name, text in call.headers.items()})
        self._connections = connections
        self._credentials = credentials
        self._jobs = JobPolling(call.poll, url, self._service, credentials, call.max_retries) if call.poll else None

    async def fetch_hits(self, values: Values) -> tuple[tuple[Hit, ...], float]:
        """Return the hits of one reply, best first, and the ms from sending to the last byte.

        Raises:
            RetrieverError: there is no usable reply. The error says whether to retry.
        """
        queries = self._call.response if isinstance(self._call, HttpSearch) else None
        with self._explained():
            body, took_ms = await self._send(values)
            value = parse_body(body, self._url, self._service)
            if queries is None:
                raise ServiceError("the manifest has no query for the hits; set response.ids")
            error = parse_error(value)
            if error is not None and not _has_hits(value, queries):
                raise error
            return read_hits(value, queries), took_ms

    async def send_with_retries(self, values: Values) -> None:
        """Send an idempotent request. Only errors are read from the reply.

        Raises:
            RetrieverError: the last attempt failed.
        """

        async def attempt() -> None:
            with self._explained():
                body, _ = await self._send(values)
                refuse_error_body(body)

        await persist(attempt, self._call.max_retries)

    async def _send(self, values: Values) -> tuple[bytes, float]:
        """Send one request, and return the body of its reply and the ms from sending to its last byte."""
        request = self._build(values)
        async with self._connections.take() as client:

            async def exchange(own: Mapping[str, str]) -> tuple[bytes, float]:
                started, jobs = perf_counter(), self._jobs
                answer = await fetch(client, add_headers(request, own), self._service)
                body = answer.body if jobs is None else await jobs.finish(client, request, answer, started)
                return body, (perf_counter() - started) * 1000

            return await self._credentials.send(exchange)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise HTTP errors as RetrieverError, with the kind of this call."""
        try:
            yield
        except ServiceError as error:
            raise error.named(RetrieverError, self._service.setting) from None

    def _build(self, values: Values) -> OutgoingRequest:
        """Return the request. The values of a GET request are in its url."""
        url = self._url + fill_path(self._path, values.__getitem__)
        filled = fill_json(self._call.request, values.__getitem__)
        content = None
        if self._call.method == "GET" and filled:
            url = add_query(url, filled)
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
    """Return the hits in the order of the reply, including duplicates. The scores do not change the order.

    Ids may be text or integers.

    Raises:
        ServiceError: a place is missing, a value has another type, or lists have different lengths.
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
    """Return one value per id; None for each id if there is no query."""
    if text is None:
        return (None,) * len(ids)
    found = read_list(value, text, f"response.{name}", convert, expected)
    if len(found) != len(ids):
        raise ServiceError(
            f"{queries.ids} gives {len(ids)} ids and {text} gives {len(found)} {name}; the numbers must be equal"
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
