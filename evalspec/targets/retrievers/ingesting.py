"""Ingest a dataset's documents into a retriever for one evaluation, and delete them afterwards.

The plan is checked before. From the first delete on, every failure says what is indexed and what to do.

Concurrent runs of a project must not use overlapping scopes of a store. Each held scope is a locked file in the store's
folder, named by the prefix. A run checks all locks first.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Generic, TypeVar, cast
from urllib.parse import quote, unquote

from msgspec import Struct

from evalspec.base.errors import EvalspecError, Unmeasurable
from evalspec.targets.retrievers.base import Deletes, Ingests, Prepares, Retriever
from evalspec.targets.retrievers.ingest_plan import Cleanup, IngestPlan

T = TypeVar("T")
_SUFFIX = ".lock"
_DOOR = "door"
"""The lock to hold while checking the others. It is not a prefix, because prefixes end in a delimiter."""

_DOOR_SECONDS = 30


class _Stopped(Unmeasurable):
    """Deleting or ingesting failed. The message does not yet say what is indexed."""


class Ingested(Struct, Generic[T], frozen=True):
    """The result of the queries. `unsearchable`: ids of documents that can never be found. `left_behind`: why the
    documents could not be deleted afterwards, in one line; None if they were deleted or should be kept.
    """

    result: T
    unsearchable: tuple[str, ...]
    left_behind: str | None


async def ask_ingested(
    plan: IngestPlan,
    retriever: Retriever,
    ask: Callable[[], Awaitable[T]],
    *,
    locks: Path,
    tell: Callable[[str], None],
    succeeded: Callable[[T], bool] = lambda _result: True,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Ingested[T]:
    """Delete the scope, ingest the documents, call `ask`, and clean up according to the plan, also after a failure.

    `locks`: folder of the project's locks. `tell`: called with a line on what is indexed if `ask` failed or was
    interrupted. `succeeded`: returns whether a result counts as success for the cleanup. `on_progress`: called after
    each batch with the numbers of ingested documents and of all documents.

    Raises:
        Unmeasurable: another run holds the scope, or deleting or ingesting failed. The message says what is indexed.
        BaseException: as raised by `prepare` or `ask`.
    """
    with hold_scope(plan, locks):
        if isinstance(retriever, Prepares):
            await retriever.prepare(plan.scope_prefix)
        await _delete_first(plan, retriever)
        try:
            unsearchable = await _ingest(plan, retriever, on_progress)
            result = await ask()
        except BaseException as error:
            state = await _clean_up(plan, retriever, success=False) or _describe_end(plan)
            if isinstance(error, _Stopped):
                raise Unmeasurable(f"{_end(error)} {state}") from error.__cause__
            tell(state)
            raise
        left_behind = await _clean_up(plan, retriever, success=succeeded(result))
        return Ingested(result, unsearchable, left_behind)


async def _delete_first(plan: IngestPlan, retriever: Retriever) -> None:
    try:
        await cast(Deletes, retriever).delete(plan.scope_prefix)
    except EvalspecError as error:
        raise Unmeasurable(
            f"'{plan.scope_prefix}' of {plan.retriever} was not deleted: {_end(error)} Nothing was ingested or "
            "queried. Some documents of an earlier run may be deleted. Fix the retriever and run again: "
            "a run deletes them first"
        ) from error


async def _ingest(plan: IngestPlan, retriever: Retriever, on_progress: Callable[[int, int], None]) -> tuple[str, ...]:
    total, done = len(plan.documents), 0
    unsearchable: list[str] = []
    try:
        for start in range(0, total, plan.batch_size):
            batch = plan.documents[start : start + plan.batch_size]
            unsearchable += await cast(Ingests, retriever).ingest(batch, plan.scope_prefix)
            done += len(batch)
            on_progress(done, total)
        if isinstance(retriever, Prepares):
            await retriever.prepare(plan.scope_prefix)
    except EvalspecError as error:
        raise _Stopped(
            f"ingest into {plan.retriever} stopped after {done:,} of {total:,} documents: {_end(error)} "
            "No query was sent"
        ) from error
    return tuple(unsearchable)


async def _clean_up(plan: IngestPlan, retriever: Retriever, *, success: bool) -> str | None:
    """Delete the documents if the plan says so. Return why this failed, or None."""
    if not _is_cleaned_up(plan, success):
        return None
    try:
        await cast(Deletes, retriever).delete(plan.scope_prefix)
    except EvalspecError as error:
        left = f"Documents are left below '{plan.scope_prefix}'; the next run deletes them"
        return f"The cleanup failed: {_end(error)} {left}"
    return None


def _is_cleaned_up(plan: IngestPlan, success: bool) -> bool:
    return plan.cleanup is Cleanup.ALWAYS or (success and plan.cleanup is Cleanup.ON_SUCCESS)


def _describe_end(plan: IngestPlan) -> str:
    """Return what is indexed after a failure with a successful cleanup."""
    if _is_cleaned_up(plan, success=False):
        return f"Everything below '{plan.scope_prefix}' was deleted (cleanup: {plan.cleanup})"
    stays = f"The ingested documents stay below '{plan.scope_prefix}' (cleanup: {plan.cleanup})"
    return f"{stays}; the next run deletes them before it ingests"


def _end(error: EvalspecError) -> str:
    """Return the error as a sentence that another can follow."""
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."


@contextmanager
def hold_scope(plan: IngestPlan, locks: Path) -> Iterator[None]:
    """Hold the lock of a plan's scope, unless the store is in memory. `locks`: the project's folder.

    Raises:
        Unmeasurable: another run holds an overlapping scope, or the lock cannot be created.
    """
    from filelock import FileLock, Timeout

    if plan.store is None:
        yield
        return
    folder = locks / hashlib.sha256(plan.store.encode()).hexdigest()[:16]
    own = FileLock(folder / f"{quote(plan.scope_prefix, safe='')}{_SUFFIX}", timeout=0, thread_local=False)
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / _DOOR, timeout=_DOOR_SECONDS):
                for path in _find_overlapping(folder, plan.scope_prefix):
                    with FileLock(path, timeout=0):
                        pass
                held.enter_context(own)
        except Timeout as error:
            taken = unquote(Path(error.lock_file).name.removesuffix(_SUFFIX))
            message = f"another run is using '{taken}' of {plan.retriever} ({plan.store})"
            raise Unmeasurable(f"{message}. Wait for it, or use another scope prefix; nothing was deleted") from error
        except OSError as error:
            raise Unmeasurable(f"{folder}: {error.strerror or error}. Nothing was deleted") from error
        yield


def _find_overlapping(folder: Path, prefix: str) -> Iterator[Path]:
    """Yield the locks of scopes that contain this one, or are in it."""
    for path in folder.glob(f"*{_SUFFIX}"):
        other = unquote(path.name.removesuffix(_SUFFIX))
        if other != prefix and (other.startswith(prefix) or prefix.startswith(other)):
            yield path
