"""A retriever in the user's own code: `{python: "module:object"}`, in a module beside the manifest.

The object is a search function, or an object (or a class without constructor arguments) with the methods of
retrievers.base: `search(request)`, and optionally `rerank(query, hits, top_k)`, `prepare(scope_prefix)`,
`ingest(documents, scope_prefix)` and `delete(scope_prefix)`. Each may be async. Sync methods run in threads, several at
the same time.

Retrievers of LangChain and LlamaIndex are recognised by their methods, so that neither is imported. They get the text
of the query, and decide themselves how many documents they return.
"""

import inspect
from collections.abc import Callable, Sequence
from copy import deepcopy
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from evalspec.base.errors import EvalspecError, InvalidInput, RetrieverError
from evalspec.inputs.manifest.retriever_schema import PythonTarget
from evalspec.inputs.user_code.calls import UserCode, describe_value, read_passage
from evalspec.model import Document
from evalspec.targets.retrievers.base import Hit, Retrieval, SearchRequest, match_reranked

_KEYS = ("id", "score", "text", "document_id")
_OF_FRAMEWORKS = ("invoke", "ainvoke", "get_relevant_documents", "retrieve", "aretrieve")
_WANTED = "return a list of ids, of (id, score), or of {id, score, text, document_id}"


class OwnRetriever:
    """Calls the user's object.

    `rerank`, `prepare`, `ingest` and `delete` exist if the object has them, so that `isinstance` with the protocols of
    retrievers.base detects what it supports.
    """

    def __init__(self, target: PythonTarget, folder: Path) -> None:
        """Import the module, which runs it.

        Raises:
            InvalidInput: importing the module or creating the object raises, or it has no search.
        """
        self._code = UserCode(target.python, folder, RetrieverError)
        self._own = _load_object(self._code)
        for name in ("rerank", "prepare", "ingest", "delete"):
            if hasattr(self._own, name):
                setattr(self, name, getattr(self, f"_{name}"))

    async def search(self, request: SearchRequest) -> Retrieval:
        """See retrievers.base.Retriever. A stage that the object does not time is timed here, as `retrieve`.

        The object gets copies of the input and metadata, because its changes must not reach the sample.
        """
        search, takes_text = _find_search(self._own)
        if takes_text and not request.query:
            raise RetrieverError("search: the query has no words, and this retriever takes a text; write a function")
        own_request = replace(request, input=deepcopy(request.input), metadata=deepcopy(request.metadata))
        result, took_ms = await self._call("search", search, request.query if takes_text else own_request)
        found = _read_result(result, "search", "retrieve", took_ms)
        return replace(found, hits=found.hits[: request.top_k])

    async def aclose(self) -> None:
        """Call the object's `aclose` or `close`, if it has one."""
        close = getattr(self._own, "aclose", None) or getattr(self._own, "close", None)
        if close is not None:
            await self._call("close", close)

    async def _rerank(self, query: str, hits: Sequence[Hit], top_k: int) -> Retrieval:
        """See retrievers.base.Reranks. Hits keep what the object does not return."""
        result, took_ms = await self._call("rerank", self._own.rerank, query, hits, top_k)
        reranked = _read_result(result, "rerank", "rerank", took_ms)
        return replace(reranked, hits=match_reranked(reranked.hits, hits, top_k))

    async def _prepare(self, scope_prefix: str) -> None:
        """See retrievers.base.Prepares."""
        await self._call("prepare", self._own.prepare, scope_prefix)

    async def _ingest(self, documents: Sequence[Document], scope_prefix: str) -> Sequence[str]:
        """See retrievers.base.Ingests. None means that all documents can be found."""
        result, _ = await self._call("ingest", self._own.ingest, documents, scope_prefix)
        if result is None:
            return ()
        return [hit.id for hit in _read_result(result, "ingest", "ingest", 0.0).hits]

    async def _delete(self, scope_prefix: str) -> None:
        """See retrievers.base.Deletes."""
        await self._call("delete", self._own.delete, scope_prefix)

    async def _call(self, kind: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        started = perf_counter()
        try:
            result = await self._code.call(function, *arguments)
        except RetrieverError as error:
            raise error.named(RetrieverError, kind) from error.__cause__
        return result, (perf_counter() - started) * 1000


def _load_object(code: UserCode) -> Any:
    try:
        found = code.load()
        own = code.call_here(found) if inspect.isclass(found) else found
    except EvalspecError as error:
        raise InvalidInput(f"the retriever {code.target} cannot be imported: {error}") from error
    if not callable(_find_search(own)[0]):
        message = f"the retriever {code.target} is {describe_value(own)}"
        raise InvalidInput(message, "name a search function, or an object with a method search")
    return own


def _find_search(own: Any) -> tuple[Any, bool]:
    """Return what to call for a search, and whether it takes the text of the query in place of the request."""
    if hasattr(own, "search"):
        return own.search, False
    name = next((name for name in _OF_FRAMEWORKS if callable(getattr(own, name, None))), None)
    return (own, False) if name is None else (getattr(own, name), True)


def _read_result(result: Any, kind: str, stage: str, took_ms: float) -> Retrieval:
    """Return what the object returned, with the duration of the call for the stage unless the object gives it."""
    if isinstance(result, Retrieval):
        return replace(result, timings_ms={stage: took_ms, **result.timings_ms})
    if not isinstance(result, list | tuple):
        raise RetrieverError(f"{kind}: it returned {describe_value(result)}; {_WANTED}")
    return Retrieval(tuple(_read_hit(item, kind) for item in result), {stage: took_ms})


def _read_hit(item: Any, kind: str) -> Hit:
    if isinstance(item, Hit):
        return item
    if isinstance(item, tuple) and len(item) == 2:
        return Hit(_read_id(item[0], kind), score=_read_score(item[1], kind))
    if isinstance(item, dict):
        return _read_fields(item, kind)
    passage = read_passage(item)
    if passage is not None:
        if passage.id is None:
            message = "it returned a document without an id; set its id, or id in its metadata"
            raise RetrieverError(f"{kind}: {message}")
        return _read_fields(structs.asdict(passage), kind)
    return Hit(_read_id(item, kind))


def _read_fields(item: dict[Any, Any], kind: str) -> Hit:
    unknown = [key for key in item if key not in _KEYS]
    if unknown or "id" not in item:
        reason = f"the key {unknown[0]!r}" if unknown else "no id"
        raise RetrieverError(f"{kind}: it returned a dict with {reason}; valid keys: {', '.join(_KEYS)}")
    text, document = item.get("text"), item.get("document_id")
    if not isinstance(text, str | None):
        raise RetrieverError(f"{kind}: it returned {describe_value(text)} as a text; return a string")
    return Hit(
        _read_id(item["id"], kind),
        None if document is None else _read_id(document, kind),
        None if item.get("score") is None else _read_score(item["score"], kind),
        text,
    )


def _read_id(value: Any, kind: str) -> str:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str):
        raise RetrieverError(f"{kind}: it returned {describe_value(value)} as an id; {_WANTED}")
    return value


def _read_score(value: Any, kind: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not isfinite(value):
        shown = str(value) if isinstance(value, float) else describe_value(value)
        raise RetrieverError(f"{kind}: it returned {shown} as a score; return a finite number")
    return float(value)
