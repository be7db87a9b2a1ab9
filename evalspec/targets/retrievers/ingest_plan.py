"""Check what will be deleted, ingested and queried, before anything is changed.

A scope prefix that is too short would delete other data than test data, so prefixes are checked here as well.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.model import Document
from evalspec.targets.retrievers.base import Deletes, Ingests, Retriever

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


class Cleanup(StrEnum):
    """When to delete the documents after the queries."""

    NONE = "none"
    ON_SUCCESS = "on-success"
    ALWAYS = "always"


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
