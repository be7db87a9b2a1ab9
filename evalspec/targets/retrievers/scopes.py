"""Documents in memory by scope, and the order of documents with equal scores."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from evalspec.base.errors import RetrieverError
from evalspec.model import Document
from evalspec.targets.retrievers.base import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Entry = TypeVar("Entry")
Index = TypeVar("Index")


def build_address(document: Document, scope_prefix: str) -> str:
    """Return the address of a document: its id, with the prefix added unless the id begins with it."""
    return document.id if document.id.startswith(scope_prefix) else scope_prefix + document.id


def searchable_text(document: Document) -> str:
    """Return the searchable part of a document: its title on its own line, and its text."""
    return f"{document.title}\n{document.text}".strip()


def nothing_indexed(scope_prefix: str) -> RetrieverError:
    """Return the error of a search without documents. An empty ranking would look like a bad one."""
    where = f"under '{scope_prefix}'" if scope_prefix else "at all"
    return RetrieverError(f"no document is indexed {where}; ingest the dataset's documents first")


class Stored(Struct, Generic[Entry], frozen=True):
    """A document, and what was computed from it on ingest."""

    document: Document
    entry: Entry


class Scopes(Generic[Entry, Index]):
    """Documents by address, with an index of its own documents for each searched scope.

    A scope is a separate corpus: other documents in memory do not change its scores. `build` gets the documents of one
    scope by id, descending, so that equal scores have trec_eval's order.
    """

    def __init__(self, build: Callable[[Sequence[Stored[Entry]]], Index]) -> None:
        self._build = build
        self._stored: dict[str, Stored[Entry]] = {}
        self._indexes: dict[str, Index] = {}
        self._turn = asyncio.Lock()

    def put(self, document: Document, scope_prefix: str, entry: Entry | None) -> None:
        """Store a document, replacing the one at its address. `entry` None: the document has nothing to find."""
        address = build_address(document, scope_prefix)
        self._stored.pop(address, None)
        if entry is not None:
            self._stored[address] = Stored(document, entry)
        self._indexes = {}

    def delete(self, scope_prefix: str) -> None:
        """Delete all documents whose address begins with the prefix."""
        self._stored = {key: stored for key, stored in self._stored.items() if not key.startswith(scope_prefix)}
        self._indexes = {}

    async def find_index(self, scope_prefix: str) -> Index | None:
        """Return the index of a scope, built in a thread if necessary; None if the scope has no document."""
        async with self._turn:
            indexes = self._indexes  # replaced if the documents change meanwhile
            if scope_prefix not in indexes:
                inside = [(key, stored) for key, stored in self._stored.items() if key.startswith(scope_prefix)]
                if not inside:
                    return None
                inside.sort(key=lambda item: (item[1].document.id, item[0]), reverse=True)
                indexes[scope_prefix] = await asyncio.to_thread(self._build, [stored for _, stored in inside])
            return indexes[scope_prefix]


def take_top(
    documents: Sequence[Document], scores: "NDArray[Any]", candidates: "NDArray[np.intp]", count: int
) -> tuple[Hit, ...]:
    """Return the hits with the best scores among `candidates` (ascending positions). Ties keep the documents' order."""
    import numpy as np

    own = scores[candidates]
    if count < len(own):
        lowest = np.partition(own, len(own) - count)[len(own) - count]
        candidates = candidates[own >= lowest]
        own = scores[candidates]
    best = np.argsort(-own, kind="stable")[:count]
    found = [(documents[position], float(scores[position])) for position in candidates[best]]
    return tuple(Hit(document.id, None, score, searchable_text(document)) for document, score in found)
