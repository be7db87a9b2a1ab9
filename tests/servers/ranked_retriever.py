"""Retrievers on loopback with given rankings, and the manifest that declares them.

with RankedRetriever() as service:
    service.rankings = {"plain": {"wireless earbuds": ["a1", "a2"]}}     # by retriever and question
    service.broken = {"wireless earbuds"}                               # these questions are answered 500
    service.bodies("search")                                            # what was received
"""

from pathlib import Path
from typing import Any

import yaml

from servers.faulty_agent import Answer, status
from servers.faulty_retriever import FaultyRetriever, Found


class RankedRetriever(FaultyRetriever):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.rankings: dict[str, dict[str, list[str]]] = {}
        self.broken: set[str] = set()

    def answer(self, mode: str | Answer, body: Any) -> Answer:
        return status(500) if body["query"] in self.broken else super().answer(mode, body)

    def _search(self, body: Any) -> Found:
        ranking = self.rankings[body["index"]].get(body["query"], [])
        return [{"id": id} for id in ranking[: body["topK"]]]


def describe_index(name: str, url: str, **more: Any) -> dict[str, Any]:
    """A retriever of a manifest that searches one of the rankings. `more`: further keys of its request."""
    request = {"query": "{{query}}", "topK": "{{topK}}", "index": name, **more}
    search = {"path": "/search", "request": request, "response": {"ids": "$.hits[*].id"}, "maxRetries": 0}
    return {"http": {"url": url, "search": search}}


def write_retrievers(folder: Path, **retrievers: dict[str, Any]) -> None:
    """Replace a project's manifest by one that has only retrievers."""
    manifest = {
        "apiVersion": "agentspec.io/v1",
        "kind": "AgentSpec",
        "metadata": {"name": "shop"},
        "spec": {"evaluation": {"retrievers": retrievers}},
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))
