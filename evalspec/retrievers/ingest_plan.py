"""What is deleted, ingested and asked, checked as a whole before anything is touched.

A scope prefix that is too short deletes what is nobody's test data, so the rules for one are here as well.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evalspec.errors import InvalidInput, Problem
from evalspec.model import Document
from evalspec.retrievers.base import Deletes, Ingests, Retriever

OWN_BEGINNING = "eval:"
_DELIMITERS = ":/"
_PATTERN = frozenset("%*?[]^\\")
_PRINTED_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as letters, marks or symbols, and that nobody sees."""

_SEGMENTS = re.compile(f"[{_DELIMITERS}]")
_ALLOWED = "use letters, digits, - and _, with : or / between them"
DEFAULT_BATCH_SIZE = 500
_SHOWN = 3


def check_scope_prefix(prefix: str, *, allow_custom: bool = False) -> tuple[str, str] | None:
    """Why a prefix may not be deleted and what to write instead, or None. `allow_custom`: also one outside of `eval:`.

    A prefix ends in a delimiter, or else `eval:faq` would delete `eval:faq-2:` too. Some stores match prefixes by
    patterns, so one that holds a wildcard could match what it does not say; some as paths, where `..` leads out.
    """
    shown = f"the scope prefix '{''.join(map(_make_visible, prefix))}'"
    for character in prefix:
        if character in _PATTERN:
            return f"{shown} holds '{character}', which a store may take for a pattern", _ALLOWED
        if _is_invisible(character):
            return f"{shown} holds '{_make_visible(character)}', which is hard or impossible to see", _ALLOWED
    dots = [segment for segment in _SEGMENTS.split(prefix) if segment in (".", "..")]
    if dots:
        return f"{shown} has the segment '{dots[0]}', which a store may take for a folder", _ALLOWED
    if not prefix.strip(_DELIMITERS):
        return f"{shown} names nothing, so it could delete everything", "write one like eval:my-dataset:"
    if not prefix.startswith(OWN_BEGINNING) and not allow_custom:
        fix = "begin it so, or pass --allow-custom-prefix if everything below it may be deleted"
        return f"{shown} does not begin with {OWN_BEGINNING}", fix
    if not prefix.removeprefix(OWN_BEGINNING).strip(_DELIMITERS):
        return f"{shown} is that of every evaluation", "name your own below it, as in eval:my-dataset:"
    if not prefix.endswith(tuple(_DELIMITERS)):
        return f"{shown} does not end in : or /, so it covers every prefix that begins like it", f"write {prefix}:"
    return None


def is_own(prefix: str) -> bool:
    """Whether a prefix is one of evalspec's own, so that nobody has to confirm that it may be deleted."""
    return prefix.startswith(OWN_BEGINNING)


def _is_invisible(character: str) -> bool:
    """Blanks too: two prefixes that look the same must be the same."""
    return character.isspace() or not character.isprintable() or bool(_PRINTED_AS_NOTHING.match(character))


def _make_visible(character: str) -> str:
    return f"U+{ord(character):04X}" if _is_invisible(character) and character != " " else character


class Cleanup(StrEnum):
    """When the documents are deleted after the queries were asked."""

    NONE = "none"
    ON_SUCCESS = "on-success"
    ALWAYS = "always"


_CLEANUP_WORDS = {
    Cleanup.NONE: "leave the documents there",
    Cleanup.ON_SUCCESS: "delete them again if all went well",
    Cleanup.ALWAYS: "delete them again, whatever happened",
}


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """One retriever's documents and queries.

    `retriever`: its name in the manifest. `store`: the address of what it keeps documents in, None where that is the
    memory of this process. `documents`: with their texts. `queries`: how many are asked.
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
        """How many calls of ingest it takes."""
        return -(-len(self.documents) // self.batch_size)

    @property
    def needs_confirmation(self) -> bool:
        """Whether a person has to confirm what is deleted, because the prefix is not one of evalspec's own."""
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
    """Check everything that can be checked without calling the retriever; nothing is changed.

    `documents`: already loaded (see loaders). `ids_need_prefix`: the store knows the scope by the ids alone, so that
    a document whose id does not begin with the prefix could be neither found nor deleted.

    Raises:
        InvalidInput: everything that is wrong.
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
    """What `--dry-run` prints: a line for each step, in their order."""
    where = f"{plan.retriever} ({plan.store})" if plan.store else plan.retriever
    steps = [
        f"delete everything below '{plan.scope_prefix}' in {where}",
        f"ingest {_count(len(plan.documents), 'document')} in {_count(plan.batches, 'batch', 'batches')}",
        f"ask {_count(plan.queries, 'query', 'queries')}",
        _CLEANUP_WORDS[plan.cleanup],
    ]
    return [f"{number}. {step}" for number, step in enumerate(steps, start=1)]


def check_outsiders(documents: Sequence[Document], own_prefix: str, file: str) -> Iterator[Problem]:
    """The problem of documents outside the scope prefix that their dataset's own file states."""
    outside = [document.id for document in documents if not document.id.startswith(own_prefix)]
    if outside:
        message = f"documents outside the dataset's own scopePrefix '{own_prefix}': {_some(outside)}"
        fix = "begin their sourceIds with it, or correct scopePrefix; --no-ingest searches what is indexed already"
        yield Problem(message, fix, file, field="documents")


def _find_ability_problems(retriever: Retriever, name: str) -> Iterator[Problem]:
    abilities = {"ingest": isinstance(retriever, Ingests), "delete": isinstance(retriever, Deletes)}
    missing = [ability for ability, present in abilities.items() if not present]
    if missing:
        message = f"the retriever '{name}' cannot {' or '.join(missing)}, and the dataset brings documents"
        yield Problem(message, f"describe {' and '.join(missing)}, or pass --no-ingest to ask what is indexed already")


def _find_document_problems(documents: Sequence[Document]) -> Iterator[Problem]:
    if not documents:
        yield Problem("there is no document to ingest", "pass --no-ingest to ask what is indexed already")
    twice = [name for name, times in Counter(document.id for document in documents).items() if times > 1]
    if twice:
        yield Problem(f"documents whose id stands twice: {_some(twice)}", "give each document an id of its own")


def _find_foreign_ids(documents: Sequence[Document], prefix: str) -> Iterator[Problem]:
    foreign = [document.id for document in documents if not document.id.startswith(prefix)]
    if foreign:
        message = f"documents whose id does not begin with the scope prefix '{prefix}': {_some(foreign)}"
        yield Problem(message, "begin their ids with it, or have the ingest request carry {{scopePrefix}}")


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in ids[:_SHOWN]) + more


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
