"""The Qdrant vector store, embedded or on a server, through `qdrant-client` (extra `qdrant`).

A point is one document. Its payload lists every prefix of its address that ends in a delimiter, so that a scope is an
exact match, which servers of every version can index. Therefore a scope prefix must end in a delimiter.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, uuid5

from evalspec.base.errors import EvalspecError, InvalidInput, MissingPackage, Problem, RetrieverError
from evalspec.base.trust import Act, Refused, require
from evalspec.inputs.manifest.retriever_schema import QdrantOptions
from evalspec.model import Document
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.base import Hit, Retrieval, SearchRequest, refuse_filters
from evalspec.targets.retrievers.scopes import build_address, nothing_indexed, searchable_text
from evalspec.targets.retrievers.vectors import TextVectors

if TYPE_CHECKING:
    from evalspec.targets.http.failures import ServiceNames
    from evalspec.targets.retrievers.vectors import Vector

_NAME = "builtin: qdrant"
_SCOPES = "scopes"
_POINTS_PER_REQUEST = 256


class QdrantRetriever:
    """Ranks by cosine in one collection, created with the first documents. A server's index is approximate."""

    def __init__(self, options: QdrantOptions, vectors: TextVectors) -> None:
        """Raise MissingPackage without qdrant-client. Nothing is opened before `prepare` or the first call."""
        if find_spec("qdrant_client") is None:
            raise MissingPackage(_NAME, "qdrant-client", "qdrant")
        self._options = options
        self._vectors = vectors
        self._client: Any = None
        self._dimensions: int | None = None
        self._turn = asyncio.Lock()

    async def prepare(self, scope_prefix: str) -> None:
        """Load the embedder, open the store and check the collection.

        Raises:
            InvalidInput: a package is missing, the store cannot be opened, the collection does not fit, or the prefix
                does not end in a delimiter.
            RetrieverError: the server does not answer.
        """
        if scope_prefix:
            _check_prefix(scope_prefix)
        await self._vectors.load()
        await self._find_dimensions()

    async def ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """Embed and store a batch, and return the ids of documents without a vector.

        Raises:
            RetrieverError: the embeddings service or the server failed. Some of the batch may be stored.
        """
        _check_prefix(scope_prefix)
        vectors = await self._vectors.embed_documents([searchable_text(document) for document in documents])
        pairs = list(zip(documents, vectors, strict=True))
        found = [(document, vector) for document, vector in pairs if vector is not None]
        lost = [document for document, vector in pairs if vector is None]
        if found:
            await self._match_dimensions(len(found[0][1]), create=True)
        for start in range(0, len(found), _POINTS_PER_REQUEST):
            await self._store(found[start : start + _POINTS_PER_REQUEST], scope_prefix)
        if lost and await self._find_dimensions() is not None:  # earlier versions must not be found
            ids = [_find_id(build_address(document, scope_prefix)) for document in lost]
            await self._delete(import_module("qdrant_client.models").PointIdsList(points=ids))
        return [document.id for document in lost]

    async def delete(self, scope_prefix: str) -> None:
        """Delete the points of a scope. The collection is kept.

        Raises:
            RetrieverError: the server failed.
        """
        _check_prefix(scope_prefix)
        if await self._find_dimensions() is None:
            return
        await self._delete(import_module("qdrant_client.models").FilterSelector(filter=_filter(scope_prefix)))

    async def search(self, request: SearchRequest) -> Retrieval:
        """Return the best documents. Equal scores that the store returns are ordered by id, descending.

        Raises:
            RetrieverError: nothing is indexed in the scope, the query has no vector, the request has filters, or the
                server failed.
        """
        refuse_filters(_NAME, request)
        scope = request.scope_prefix
        if scope:
            _check_prefix(scope)
        if await self._find_dimensions() is None:
            raise nothing_indexed(scope)
        started = perf_counter()
        query = await self._vectors.embed_query(request.query)
        embedded = perf_counter()
        await self._match_dimensions(len(query), create=False)
        with self._explained():
            found = await self._open().query_points(
                self._options.collection,
                query=query.tolist(),
                limit=request.top_k,
                query_filter=_filter(scope) if scope else None,
                with_payload=["document_id", "text"],
            )
        timings = {"embed": 1000 * (embedded - started), "retrieve": 1000 * (perf_counter() - embedded)}
        if not found.points:  # in a scope with documents, one is always the nearest
            raise nothing_indexed(scope)
        hits = [Hit(one.payload["document_id"], None, one.score, one.payload["text"]) for one in found.points]
        return Retrieval(tuple(sorted(hits, key=lambda hit: (hit.score, hit.id), reverse=True)), timings)

    async def aclose(self) -> None:
        """Close the connections, or the folder of the embedded store."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _store(self, part: Sequence[tuple[Document, "Vector"]], scope_prefix: str) -> None:
        addresses = [build_address(document, scope_prefix) for document, _ in part]
        points = import_module("qdrant_client.models").Batch(
            ids=[_find_id(address) for address in addresses],
            vectors=[vector.tolist() for _, vector in part],
            payloads=[
                {"document_id": document.id, "text": searchable_text(document), _SCOPES: list_scopes(address)}
                for (document, _), address in zip(part, addresses, strict=True)
            ],
        )
        with self._explained():
            await self._open().upsert(self._options.collection, points=points, wait=True)

    async def _delete(self, selector: Any) -> None:
        with self._explained():
            await self._open().delete(self._options.collection, points_selector=selector, wait=True)

    def _open(self) -> Any:
        if self._client is None:
            options, create = self._options, import_module("qdrant_client").AsyncQdrantClient
            try:
                if options.url is None:
                    if options.path:
                        require(Act.KEEP_STORE, options.path)
                    self._client = create(location=None if options.path else ":memory:", path=options.path)
                else:
                    self._client = create(
                        url=options.url,
                        api_key=options.api_key,
                        timeout=options.timeout_seconds,
                        check_compatibility=False,
                        **choose_route(options.url).client_options,
                    )
            except (ValueError, RuntimeError, OSError) as error:
                fix = "check url or path; only one process at a time can use a path"
                raise InvalidInput(
                    Problem(f"the store of {_NAME} cannot be opened: {error}".rstrip("."), fix)
                ) from error
        return self._client

    async def _find_dimensions(self) -> int | None:
        """Return the length of the collection's vectors; None if there is no collection."""
        if self._dimensions is None:
            client, name = self._open(), self._options.collection
            with self._explained():
                if not await client.collection_exists(name):
                    return None
                params = (await client.get_collection(name)).config.params.vectors
            if getattr(params, "distance", None) != "Cosine":
                message = f"the collection '{name}' does not have one vector per point, compared by cosine"
                raise InvalidInput(Problem(message, f"name another collection in {_NAME}"))
            self._dimensions = int(params.size)
        return self._dimensions

    async def _match_dimensions(self, wanted: int, create: bool) -> None:
        """Check that vectors of a length fit the collection. `create`: create it first if there is none."""
        async with self._turn:
            if await self._find_dimensions() is None and create:
                await self._create_collection(wanted)
        if self._dimensions != wanted:
            message = f"the collection '{self._options.collection}' has vectors of {self._dimensions} dimensions"
            fix = "name another collection, or configure the embeddings that it was created with"
            raise InvalidInput(Problem(f"{message}, but the embeddings have {wanted}", fix))

    async def _create_collection(self, dimensions: int) -> None:
        client, name, models = self._open(), self._options.collection, import_module("qdrant_client.models")
        with self._explained():
            config = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
            await client.create_collection(name, vectors_config=config)
            if self._options.url is not None:  # an embedded store has no indexes
                await client.create_payload_index(name, _SCOPES, field_schema=models.PayloadSchemaType.KEYWORD)
        self._dimensions = dimensions

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise the client's errors as evalspec's."""
        try:
            yield
        except Exception as error:
            explained = _explain_error(error, self._options.url, self._options.timeout_seconds)
            if explained is None:
                raise
            raise explained from error


def list_scopes(address: str) -> list[str]:
    """Return every prefix of an address that ends in a delimiter: `eval:faq:1` is in `eval:` and `eval:faq:`."""
    return [address[: end + 1] for end, character in enumerate(address) if not character.isalnum()]


def _find_id(address: str) -> str:
    return str(uuid5(NAMESPACE_OID, address))


def _check_prefix(scope_prefix: str) -> None:
    if not scope_prefix or scope_prefix[-1].isalnum():
        message = f"{_NAME} separates scopes by delimiters, but '{scope_prefix}' does not end in one"
        raise InvalidInput(message, f"write '{scope_prefix}:'")


def _filter(scope_prefix: str) -> Any:
    models = import_module("qdrant_client.models")
    return models.Filter(must=[models.FieldCondition(key=_SCOPES, match=models.MatchValue(value=scope_prefix))])


def _explain_error(error: Exception, url: str | None, timeout: float) -> EvalspecError | None:
    """Return an error of qdrant-client as evalspec's; None for other errors. `url`: None for an embedded store."""
    answers = import_module("qdrant_client.http.exceptions")
    refusals = import_module("qdrant_client.common.client_exceptions")
    where = urlsplit(url).netloc.rpartition("@")[2] if url else "the embedded store"
    if isinstance(error, refusals.QdrantException):  # 429; its Retry-After may not be a number
        wait = getattr(error, "retry_after_s", None)
        return RetrieverError(f"{where} is overloaded", retryable=True, retry_after=wait, throttled=True)
    if isinstance(error, answers.UnexpectedResponse):
        return _explain_status(error.status_code or 0, error.content, url or "")
    if isinstance(error, answers.ResponseHandlingException):
        return _explain_source(error.source, url or "", where, timeout)
    return _not_qdrant(where) if isinstance(error, json.JSONDecodeError) else None


def _explain_status(status: int, content: bytes, url: str) -> RetrieverError:
    import httpx

    from evalspec.targets.http.failures import explain_status

    response = httpx.Response(status, request=httpx.Request("GET", url))
    return explain_status(response, _find_reason(content), _describe_service()).named(RetrieverError, "qdrant")


def _find_reason(content: bytes) -> str:
    try:
        said = json.loads(content)["status"]["error"]
    except (ValueError, LookupError, TypeError):
        return ""
    return str(said)


def _explain_source(source: Exception, url: str, where: str, timeout: float) -> EvalspecError:
    import httpx

    from evalspec.targets.http.failures import explain_failure

    if isinstance(source, Refused):
        return source
    if isinstance(source, httpx.TransportError | OSError):
        return explain_failure(source, url, timeout, _describe_service()).named(RetrieverError, "qdrant")
    return _not_qdrant(where)


def _describe_service() -> "ServiceNames":
    from evalspec.targets.http.failures import ServiceNames

    return ServiceNames("Qdrant", "qdrant", credentials_key="apiKey", place_key="url")


def _not_qdrant(where: str) -> RetrieverError:
    return RetrieverError(f"{where} does not answer like Qdrant; check url")
