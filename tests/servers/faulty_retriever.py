"""A retriever on loopback that works well or fails in a chosen way, over the server of faulty_agent.

    with FaultyRetriever() as service:
        service.url
        service.documents                       # what is indexed: {id: document}
        service.mode = "duplicates"             # of searches from now on
        service.script = [status(500), "ok"]    # the next requests of any kind, one each; as of FaultyAgent
        service.failing_delete = 3              # the third delete answers 500, and deletes nothing
        service.die_after = 2                   # after two requests of any kind it is gone
        service.delay = 0.05                    # slow
        service.bodies("ingest")                # what was sent, by kind: search, rerank, ingest, delete

A request is told by what it carries: {"ids": …} is a rerank, {"query": …} a search, {"documents": …} or {"text": …} an
ingest, all else a delete. Modes of searches: ok, duplicates, short (one hit), unknown_ids, unordered (best score last),
string_scores, integer_ids, uneven (a score less than ids), no_hits.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from evalspec.inputs.manifest.retriever_schema import HttpRetriever
from servers.faulty_agent import Answer, FaultyAgent, _Handler, status

Found = list[dict[str, Any]]

_SEARCHES: Mapping[str, Callable[[Found], Found]] = {
    "ok": lambda hits: hits,
    "duplicates": lambda hits: [hits[0], hits[0], *hits[1:]],
    "short": lambda hits: hits[:1],
    "unknown_ids": lambda hits: [{"id": "nobody", "score": 99.0, "text": "?"}, *hits],
    "unordered": lambda hits: [hit | {"score": float(place)} for place, hit in enumerate(hits)],
    "string_scores": lambda hits: [hit | {"score": str(hit["score"])} for hit in hits],
    "integer_ids": lambda hits: [hit | {"id": place} for place, hit in enumerate(hits)],
    "no_hits": lambda _hits: [],
}


class _AnyMethod(_Handler):
    do_GET = do_PUT = do_DELETE = _Handler.do_POST  # noqa: N815 - the names that the server looks for


class FaultyRetriever(FaultyAgent):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._server.RequestHandlerClass = _AnyMethod
        self.documents: dict[str, dict[str, Any]] = {}
        self.failing_delete: int | None = None

    def bodies(self, kind: str) -> list[Any]:
        """The bodies of all requests of a kind, in their order."""
        return [request.body for request in self.requests if _kind(request.body) == kind]

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        """The complete answer to one request."""
        kind = _kind(body)
        if isinstance(mode, Answer) or (mode not in _SEARCHES and mode != "uneven"):
            return super().answer(mode, body)
        if kind == "delete" and len(self.bodies("delete")) == self.failing_delete:
            return status(500, body='{"error": "index is locked"}')
        found = getattr(self, f"_{kind}")(body)
        if kind != "search":
            return _json(found)
        if mode == "uneven":
            return _json({"ids": [hit["id"] for hit in found], "scores": [hit["score"] for hit in found[1:]]})
        return _json({"hits": _SEARCHES[mode](found)})

    def _search(self, body: Any) -> Found:
        asked = set(body["query"].lower().split())
        inside = [entry for id, entry in self.documents.items() if id.startswith(body.get("scopePrefix", ""))]
        scored = [(len(asked & set(entry["text"].lower().split())), entry["id"]) for entry in inside]
        best = sorted(scored, key=lambda pair: (-pair[0], pair[1]))[: body.get("topK", 10)]
        return [{"id": id, "score": float(score), "text": self.documents[id]["text"]} for score, id in best]

    def _rerank(self, body: Any) -> Any:
        """The reverse order."""
        ids = list(reversed(body["ids"]))[: body["topK"]]
        return {"hits": [{"id": id, "score": 1.0 / (place + 1)} for place, id in enumerate(ids)]}

    def _ingest(self, body: Any) -> Any:
        for entry in body.get("documents", [body]):
            self.documents[entry["id"]] = entry
        return {"indexed": len(self.documents)}

    def _delete(self, body: Any) -> Any:
        prefix = body["scopePrefix"]
        self.documents = {id: entry for id, entry in self.documents.items() if not id.startswith(prefix)}
        return {}


def describe_retriever(**changed: Any) -> HttpRetriever:
    """How a manifest describes it; `changed` replaces whole calls, None leaves one out."""
    response = {"ids": "$.hits[*].id", "scores": "$.hits[*].score"}
    calls = {
        "search": {
            "path": "/search",
            "request": {"query": "{{query}}", "topK": "{{topK}}", "scopePrefix": "{{scopePrefix}}"},
            "response": response | {"texts": "$.hits[*].text"},
        },
        "rerank": {
            "path": "/rerank",
            "request": {"query": "{{query}}", "topK": "{{topK}}", "ids": "{{ids}}", "documents": "{{documents}}"},
            "response": response,
        },
        "ingest": {"path": "/documents", "request": {"documents": "{{documents}}"}, "maxRetries": 0},
        "delete": {"path": "/delete", "request": {"scopePrefix": "{{scopePrefix}}"}, "maxRetries": 0},
    }
    return HttpRetriever.model_validate({key: call for key, call in (calls | changed).items() if call is not None})


def _kind(body: Any) -> str:
    if not isinstance(body, dict):
        return "delete"
    kinds = {"ids": "rerank", "query": "search", "documents": "ingest", "text": "ingest"}
    return next((kind for key, kind in kinds.items() if key in body), "delete")


def _json(value: Any) -> Answer:
    return Answer(body=json.dumps(value).encode())
