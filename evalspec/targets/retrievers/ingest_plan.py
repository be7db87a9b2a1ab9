"""Ingest a dataset's documents into a retriever for one evaluation, and delete them afterwards.

What will be deleted, ingested and queried is checked before anything is changed. A scope prefix that is too short would
delete other data than test data, so prefixes are checked too. From the first delete on, every failure says what is
indexed and what to do.

Concurrent runs of a project must not use overlapping scopes of a store. Each held scope is a locked file in the store's
folder, named by the prefix. A run checks all locks first.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Generic, TypeVar, cast
from urllib.parse import quote, unquote

from msgspec import Struct

from evalspec.base.errors import EvalspecError, InvalidInput, Problem, Unmeasurable
from evalspec.base.plural import counted
from evalspec.model import Document
from evalspec.model.fingerprints import Cleanup
from evalspec.targets.retrievers.base import Deletes, Ingests, Prepares, Retriever

OWN_BEGINNING = "eval:"
_DELIMITERS = ":/"
_PATTERN = frozenset("%*?[]^\\")
_PRINTED_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible characters that Unicode classifies as letters, marks or symbols."""

_SEGMENTS = re.compile(f"[{_DELIMITERS}]")
_ALLOWED = "use letters, digits, - and _, with : or / between them"
DEFAULT_BATCH_SIZE = 500
_SHOWN = 3


def check_scope_prefix(prefix: str, *, allow_custom: bool = False) -> tuple[str, str] | None:
    """Return why a prefix must not be deleted and the fix, or None. `allow_custom`: accept prefixes outside `eval:`.

    A prefix must end in a delimiter, because `eval:faq` would also delete `eval:faq-2:`. Some stores match prefixes as
    patterns, so wildcards could match other scopes. Others treat them as paths, so `..` could leave the folder.
    """
    shown = f"the scope prefix '{''.join(map(_make_visible, prefix))}'"
    for character in prefix:
        if character in _PATTERN:
            return f"{shown} contains '{character}', which a store may treat as a pattern", _ALLOWED
        if _is_invisible(character):
            return f"{shown} contains '{_make_visible(character)}', which is invisible or easily missed", _ALLOWED
    dots = [segment for segment in _SEGMENTS.split(prefix) if segment in (".", "..")]
    if dots:
        return f"{shown} has the segment '{dots[0]}', which a store may treat as a folder", _ALLOWED
    if not prefix.strip(_DELIMITERS):
        return f"{shown} is empty, so it could delete everything", "write one like eval:my-dataset:"
    if not prefix.startswith(OWN_BEGINNING) and not allow_custom:
        fix = "add it, or pass --allow-custom-prefix if everything below the prefix may be deleted"
        return f"{shown} does not begin with {OWN_BEGINNING}", fix
    if not prefix.removeprefix(OWN_BEGINNING).strip(_DELIMITERS):
        return f"{shown} covers every evaluation", "write a longer one like eval:my-dataset:"
    if not prefix.endswith(tuple(_DELIMITERS)):
        return f"{shown} does not end in : or /, so it covers every prefix that begins with it", f"write {prefix}:"
    return None


def is_own(prefix: str) -> bool:
    """Return whether a prefix is one of evalspec's own, so that deleting it needs no confirmation."""
    return prefix.startswith(OWN_BEGINNING)


def _is_invisible(character: str) -> bool:
    """Return whether a character is invisible or a blank, since prefixes that look the same must be the same."""
    return character.isspace() or not character.isprintable() or bool(_PRINTED_AS_NOTHING.match(character))


def _make_visible(character: str) -> str:
    return f"U+{ord(character):04X}" if _is_invisible(character) and character != " " else character


_CLEANUP_WORDS = {
    Cleanup.NONE: "keep the documents",
    Cleanup.ON_SUCCESS: "delete the documents if the run succeeds",
    Cleanup.ALWAYS: "delete the documents in any case",
}


class IngestPlan(Struct, frozen=True):
    """The documents and queries of one retriever.

    `retriever`: its name in the manifest. `store`: the address of its document store, None for the memory of this
    process. `documents`: with their texts. `queries`: their number.
    """

    retriever: str
    store: str | None
    scope_prefix: str
    documents: tuple[Document, ...]
    batch_size: int
    queries: int
    cleanup: Cleanup

    @property
    def batches(self) -> int:
        """The number of calls of ingest."""
        return -(-len(self.documents) // self.batch_size)

    @property
    def needs_confirmation(self) -> bool:
        """Whether a person must confirm the deletion, because the prefix is not one of evalspec's own."""
        return not is_own(self.scope_prefix)


def plan_ingest(
    retriever: Retriever,
    documents: Sequence[Document],
    scope_prefix: str,
    *,
    name: str,
    store: str | None,
    queries: int,
    batch_size: int = DEFAULT_BATCH_SIZE,
    cleanup: Cleanup = Cleanup.NONE,
    allow_custom_prefix: bool = False,
    ids_need_prefix: bool = False,
) -> IngestPlan:
    """Return the plan after all checks that are possible without calling the retriever. Nothing is changed.

    `documents`: already loaded (see loaders). `ids_need_prefix`: the store recognises the scope by ids alone, so a
    document whose id does not begin with the prefix could neither be found nor deleted.

    Raises:
        InvalidInput: with every problem.
    """
    problems = [*_find_ability_problems(retriever, name), *_find_document_problems(documents)]
    refused = check_scope_prefix(scope_prefix, allow_custom=allow_custom_prefix)
    if refused is not None:
        problems.append(Problem(*refused))
    elif ids_need_prefix:
        problems += _find_foreign_ids(documents, scope_prefix)
    if problems:
        raise InvalidInput(problems)
    return IngestPlan(name, store, scope_prefix, tuple(documents), batch_size, queries, cleanup)


def list_steps(plan: IngestPlan) -> list[str]:
    """Return the lines that `--dry-run` prints, one per step."""
    where = f"{plan.retriever} ({plan.store})" if plan.store else plan.retriever
    steps = [
        f"delete everything below '{plan.scope_prefix}' in {where}",
        f"ingest {counted(len(plan.documents), 'document')} in {counted(plan.batches, 'batch', 'batches')}",
        f"send {counted(plan.queries, 'query', 'queries')}",
        _CLEANUP_WORDS[plan.cleanup],
    ]
    return [f"{number}. {step}" for number, step in enumerate(steps, start=1)]


def check_outsiders(documents: Sequence[Document], own_prefix: str, file: str) -> Iterator[Problem]:
    """Yield a problem if documents are outside the scope prefix of their dataset's own file."""
    outside = [document.id for document in documents if not document.id.startswith(own_prefix)]
    if outside:
        message = f"documents outside the dataset's own scopePrefix '{own_prefix}': {_some(outside)}"
        fix = "add it to their sourceIds, or correct scopePrefix; --no-ingest searches the existing index"
        yield Problem(message, fix, file, field="documents")


def _find_ability_problems(retriever: Retriever, name: str) -> Iterator[Problem]:
    abilities = {"ingest": isinstance(retriever, Ingests), "delete": isinstance(retriever, Deletes)}
    missing = [ability for ability, present in abilities.items() if not present]
    if missing:
        message = f"the retriever '{name}' does not support {' or '.join(missing)}, but the dataset has documents"
        yield Problem(message, f"add {' and '.join(missing)}, or pass --no-ingest to search the existing index")


def _find_document_problems(documents: Sequence[Document]) -> Iterator[Problem]:
    if not documents:
        yield Problem("there are no documents to ingest", "pass --no-ingest to search the existing index")
    twice = [name for name, times in Counter(document.id for document in documents).items() if times > 1]
    if twice:
        yield Problem(f"documents with duplicate ids: {_some(twice)}", "give each document a unique id")


def _find_foreign_ids(documents: Sequence[Document], prefix: str) -> Iterator[Problem]:
    foreign = [document.id for document in documents if not document.id.startswith(prefix)]
    if foreign:
        message = f"ids of documents that do not begin with the scope prefix '{prefix}': {_some(foreign)}"
        yield Problem(message, "add it to the ids, or add {{scopePrefix}} to the ingest request")


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in ids[:_SHOWN]) + more


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
