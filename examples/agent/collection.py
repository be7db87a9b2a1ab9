"""Documents that callers put in and search: the agent's retriever for others, apart from its own help pages."""

import threading
from collections.abc import Iterable

from retrieval import Bm25Index, Hit, Passage, words


class Collection:
    """Passages by id. A scope is the beginning of an id: only what begins so is searched, or deleted."""

    def __init__(self) -> None:
        self._passages: dict[str, Passage] = {}
        self._indexes: dict[str, Bm25Index] = {}
        self._lock = threading.Lock()

    def ingest(self, passages: Iterable[Passage]) -> None:
        """Add passages; one with a known id replaces the old one."""
        with self._lock:
            self._passages |= {passage.id: passage for passage in passages}
            self._indexes = {}

    def delete(self, scope_prefix: str) -> int:
        """Forget all passages of a scope; how many these were."""
        with self._lock:
            kept = {id: passage for id, passage in self._passages.items() if not id.startswith(scope_prefix)}
            deleted = len(self._passages) - len(kept)
            self._passages, self._indexes = kept, {}
            return deleted

    def search(self, query: str, limit: int, scope_prefix: str) -> list[Hit]:
        """The best passages of a scope, best first."""
        return self._index(scope_prefix).search(dict.fromkeys(words(query), 1.0), limit)

    def _index(self, scope_prefix: str) -> Bm25Index:
        with self._lock:
            if scope_prefix not in self._indexes:
                inside = [passage for id, passage in self._passages.items() if id.startswith(scope_prefix)]
                self._indexes[scope_prefix] = Bm25Index(inside)
            return self._indexes[scope_prefix]
