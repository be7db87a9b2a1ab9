"""Documents in memory by scope, and the order in which those of equal score stand."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evalspec.errors import RetrieverError
from evalspec.model import Document
from evalspec.retrievers.base import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Entry = TypeVar("Entry")
Index = TypeVar("Index")


def build_address(document: Document, scope_prefix: str) -> str:
    """Where a document stands: its id, below the prefix where it does not begin with that already."""
    return document.id if document.id.startswith(scope_prefix) else scope_prefix + document.id


def searchable_text(document: Document) -> str:
    """What is searched of a document: its title, on a line of its own, and its text."""
    return f"{document.title}\n{document.text}".strip()


def nothing_indexed(scope_prefix: str) -> RetrieverError:
    """The error of a search that could not have found anything: an empty ranking would look like a bad one."""
    where = f"under '{scope_prefix}'" if scope_prefix else "at all"
    return RetrieverError(f"no document is indexed {where}; ingest the dataset's documents first")


@dataclass(frozen=True, slots=True)
class Stored(Generic[Entry]):
    """A document and what was made of it when it came."""

    document: Document
    entry: Entry


class Scopes(Generic[Entry, Index]):
    """Documents by address, and for each scope that is searched an index of its documents alone.

    A scope is a corpus of its own: what else is in memory changes no score in it. `build` is given the documents of
    one scope by falling id, so that among equal scores the order of the index is that of trec_eval, the highest first.
    """

    def __init__(self, build: Callable[[Sequence[Stored[Entry]]], Index]) -> None:
        self._build = build
        self._stored: dict[str, Stored[Entry]] = {}
        self._indexes: dict[str, Index] = {}
        self._turn = asyncio.Lock()

    def put(self, document: Document, scope_prefix: str, entry: Entry | None) -> None:
        """Store a document in place of the one at its address; None: there is nothing in it to be found."""
        address = build_address(document, scope_prefix)
        self._stored.pop(address, None)
        if entry is not None:
            self._stored[address] = Stored(document, entry)
        self._indexes = {}

    def delete(self, scope_prefix: str) -> None:
        """Forget all documents whose address begins with the prefix."""
        self._stored = {key: stored for key, stored in self._stored.items() if not key.startswith(scope_prefix)}
        self._indexes = {}

    async def find_index(self, scope_prefix: str) -> Index | None:
        """The index of a scope, built in a thread where there is none yet; None where no document is in it."""
        async with self._turn:
            indexes = self._indexes  # replaced by whoever changes the documents meanwhile
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
    """The hits of the highest scores among `candidates` (rising positions); equal scores in the documents' order."""
    import numpy as np

    own = scores[candidates]
    if count < len(own):
        lowest = np.partition(own, len(own) - count)[len(own) - count]
        candidates = candidates[own >= lowest]
        own = scores[candidates]
    best = np.argsort(-own, kind="stable")[:count]
    found = [(documents[position], float(scores[position])) for position in candidates[best]]
    return tuple(Hit(document.id, None, score, searchable_text(document)) for document, score in found)
