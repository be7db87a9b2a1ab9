"""Check that a retriever isolates scopes, with canary documents under two prefixes that differ only in a `_`.

A store that deletes with SQL `LIKE prefix || '%'` treats `_` as any character, and so deletes both. The prefixes
contain a random number, so nobody else has documents below them. Both are always deleted at the end.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from time import perf_counter
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from evalspec.base.errors import EvalspecError, RetrieverError
from evalspec.model import Document
from evalspec.targets.retrievers.base import Deletes, Ingests, Prepares, Retriever, SearchRequest, collapse_hits
from evalspec.targets.retrievers.ingest_plan import OWN_BEGINNING

CANARIES = 3
"""Number of canaries in each scope."""

_TOP_K = 10
_TEXT = "evalspec canary {word}: this document checks that a retriever isolates scopes, and will be deleted"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


@runtime_checkable
class Checkable(Retriever, Ingests, Deletes, Protocol):
    """A retriever that supports the check."""


class ScopeFinding(StrEnum):
    """The checks, in order."""

    FINDS = "finds what it ingested"
    SEARCH = "search isolates scopes"
    DELETES = "delete removes its scope"
    DELETE = "delete isolates scopes"


class ScopeCheck(Struct):
    """The result of a check.

    `problems`: by finding. A finding in `checked` without a problem is good. `took_ms`: the duration of each step, by
    name. `searchable` and `gone`: the time from the call until searches show it. `left_behind`: why canaries could not
    be deleted at the end, by scope prefix.
    """

    prefixes: tuple[str, str]
    checked: list[ScopeFinding] = field(default_factory=list)
    problems: dict[ScopeFinding, str] = field(default_factory=dict)
    took_ms: dict[str, float] = field(default_factory=dict)
    left_behind: dict[str, str] = field(default_factory=dict)

    def add(self, finding: ScopeFinding, problem: str | None) -> None:
        """Add one finding."""
        self.checked.append(finding)
        if problem is not None:
            self.problems[finding] = problem


def start_check() -> ScopeCheck:
    """Return a check with new prefixes. As SQL patterns, the first matches the second."""
    stem = f"{OWN_BEGINNING}check-{secrets.token_hex(8)}"
    return ScopeCheck((f"{stem}_1:", f"{stem}A1:"))


async def check_scopes(retriever: Checkable, check: ScopeCheck, wait: float) -> None:
    """Run a check. `wait`: seconds until ingested documents must be found, and deleted documents must be gone.

    Raises:
        RetrieverError: a call failed. `check` has the findings so far, and both scopes are deleted nevertheless.
    """
    first, second = check.prefixes
    word = secrets.token_hex(4)
    canaries = {prefix: _make_canaries(prefix, word) for prefix in check.prefixes}
    query = _TEXT.format(word=word)
    async with _cleaning_up(retriever, check):
        for prefix, documents in canaries.items():
            await _prepare(retriever, prefix)
            async with _timing(check, "ingest"):
                await retriever.ingest(documents, prefix)
            await _prepare(retriever, prefix)
        probe = _Probe(retriever, query, canaries, check)
        missing = await probe.await_all(wait)
        check.add(ScopeFinding.FINDS, missing)
        leaks = [await probe.find_leak(prefix) for prefix in check.prefixes]
        check.add(ScopeFinding.SEARCH, next(filter(None, leaks), None))
        if missing is not None:
            return
        async with _timing(check, "delete"):
            await retriever.delete(first)
        check.add(ScopeFinding.DELETES, await probe.await_none(first, wait))
        lost = await probe.find_missing(second)
        gone = f"deleting '{first}' also deleted {len(lost)} of {CANARIES} documents below '{second}'" if lost else None
        check.add(ScopeFinding.DELETE, gone)


class _Probe:
    """Searches for the canaries."""

    def __init__(
        self, retriever: Retriever, query: str, canaries: Mapping[str, Collection[Document]], check: ScopeCheck
    ) -> None:
        self._retriever = retriever
        self._query = query
        self._canaries = canaries
        self._check = check

    async def await_all(self, wait: float) -> str | None:
        """Search until all canaries are found. Return what is missing after the wait, or None."""
        started = perf_counter()
        async for _ in _pauses(wait):
            missing = [name for prefix in self._canaries for name in await self.find_missing(prefix)]
            if not missing:
                self._check.took_ms["searchable"] = (perf_counter() - started) * 1000
                return None
        return f"{len(missing)} of {2 * CANARIES} documents are not found {wait:g} s after they were ingested"

    async def await_none(self, prefix: str, wait: float) -> str | None:
        """Search until no canary of a scope is found. Return what is left after the wait, or None."""
        started = perf_counter()
        async for _ in _pauses(wait):
            try:
                left = await self._search(prefix) & self._ids(prefix)
            except RetrieverError as error:
                if error.retryable or error.unreachable:
                    raise
                left = set()  # a scope without documents may not exist
            if not left:
                self._check.took_ms["gone"] = (perf_counter() - started) * 1000
                return None
        return f"{len(left)} of {CANARIES} documents below '{prefix}' are found {wait:g} s after they were deleted"

    async def find_missing(self, prefix: str) -> set[str]:
        """Return the canaries of a scope that a search in it does not find."""
        try:
            return self._ids(prefix) - await self._search(prefix)
        except RetrieverError as error:
            if error.retryable or error.unreachable or "searchable" not in self._check.took_ms:
                raise
            return self._ids(prefix)  # they were found before, and now the scope does not exist

    async def find_leak(self, prefix: str) -> str | None:
        """Return what a search in a scope finds of the other one, or None."""
        other = next(one for one in self._canaries if one != prefix)
        leaked = await self._search(prefix) & self._ids(other)
        return f"a search below '{prefix}' finds {len(leaked)} documents of '{other}'" if leaked else None

    def _ids(self, prefix: str) -> set[str]:
        return {document.id for document in self._canaries[prefix]}

    async def _search(self, prefix: str) -> set[str]:
        """Return the canaries among the hits. A target may have extended their ids."""
        async with _timing(self._check, "search"):
            found = await self._retriever.search(SearchRequest(self._query, _TOP_K, prefix))
        hits = [hit.document for hit in collapse_hits(found.hits)]
        known = {document.id for documents in self._canaries.values() for document in documents}
        return {name for name in known if any(name in hit for hit in hits)}


@asynccontextmanager
async def _cleaning_up(retriever: Deletes, check: ScopeCheck) -> AsyncIterator[None]:
    """Delete both scopes at the end, in a task of its own that a cancellation of this one does not reach."""
    try:
        yield
    finally:
        await asyncio.create_task(_clean_up(retriever, check))


async def _clean_up(retriever: Deletes, check: ScopeCheck) -> None:
    for prefix in check.prefixes:
        try:
            await retriever.delete(prefix)
        except EvalspecError as error:
            check.left_behind[prefix] = str(error)


async def _prepare(retriever: object, prefix: str) -> None:
    if isinstance(retriever, Prepares):
        await retriever.prepare(prefix)


@asynccontextmanager
async def _timing(check: ScopeCheck, step: str) -> AsyncIterator[None]:
    """Record how long a step takes. If it is repeated, the slowest counts."""
    started = perf_counter()
    yield
    check.took_ms[step] = max(check.took_ms.get(step, 0.0), (perf_counter() - started) * 1000)


async def _pauses(wait: float) -> AsyncIterator[None]:
    """Yield immediately, then after growing pauses until the wait is over."""
    deadline, pause = perf_counter() + wait, _FIRST_PAUSE
    while True:
        yield
        left = deadline - perf_counter()
        if left <= 0:
            return
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _make_canaries(prefix: str, word: str) -> list[Document]:
    """Return documents with the same texts for each scope, so that a search that ignores scopes finds those of both."""
    return [Document(f"{prefix}canary-{number}", _TEXT.format(word=word)) for number in range(CANARIES)]
