"""Find text that should not be in a set: terms of grants, and what is left of revoked triples."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import yaml
from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.base.plural import counted, pluralize
from evalspec.curation.gold.files import read_records, show
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.layout import BLOCKS, EXCEPTIONS, EXPORTS, GRANTS, TRIPLES
from evalspec.curation.gold.permission import grant_path
from evalspec.curation.gold.quotes import walk_files
from evalspec.curation.gold.redaction import find_terms, may_have_terms
from evalspec.curation.gold.schema import Allowed, Event, Export, Kind
from evalspec.curation.gold.states import State
from evalspec.curation.gold.values import Strict
from evalspec.inputs.datasets.located import render_ids

NO_HASH = "0" * 32
"""The content hash in events of revoked triples."""
_REVISE = "redact it: evalspec gold revise ID, or edit the file"
_NAMING = frozenset({"customer", "metadata.customer", "terms"})
"""Places of YAML files that name a customer on purpose."""


def list_leaks(found: GoldSet) -> Iterator[Problem]:
    """Yield a problem for each text with a term of a grant, and for each piece of a revoked triple."""
    for entry in found.entries.values():
        yield from _check_revoked(entry)
    yield from _list_kept(found)
    yield from list_terms(found.root, {customer: grant.terms for customer, grant in found.grants.items()})


def list_broken_records(found: GoldSet) -> list[Problem]:
    """Return the problems of the records of exceptions and exports."""
    problems: list[Problem] = []
    kinds: tuple[tuple[str, type[Strict]], ...] = ((EXCEPTIONS, Allowed), (EXPORTS, Export))
    for folder, model in kinds:
        list(read_records(model, found.root / folder, problems))
    return problems


def list_missing_grants(found: GoldSet) -> Iterator[Problem]:
    """Yield a problem for each triple of a customer without any grant."""
    for entry in found.entries.values():
        if entry.document is None:
            continue
        for customer in sorted(entry.customers - found.grants.keys()):
            line = entry.document.line(("metadata", "customer"))
            fix = f"record the permission: evalspec gold grant --customer {customer} --evidence …"
            yield Problem(f"{customer} has not granted permission", fix, show(entry.path), line, "metadata.customer")


def list_ended_grants(found: GoldSet) -> Iterator[Problem]:
    """Yield a warning for each grant that does not cover some triples of its customer today."""
    causes: dict[tuple[str, str], int] = {}
    ended = {customer for customer, grant in found.grants.items() if grant.revoked_at is None}
    for entry in found.entries.values():
        for customer in entry.customers & ended if entry.state is State.REVOKED else ():
            key = customer, entry.review_status.resolution or State.REVOKED
            causes[key] = causes.get(key, 0) + 1
    for (customer, cause), count in causes.items():
        if cause == State.REVOKED:
            continue
        stored = counted(count, "triple is", "triples are")
        fix = f"delete: evalspec gold revoke --customer {customer}; renew: `gold grant` with --renew"
        yield Problem(f"{cause}, so {stored} not evaluated", fix, show(grant_path(found.root, customer)))


def is_bare(event: Event) -> bool:
    """Return whether an event of a revoked triple has no trace of its content."""
    return event.note is None and event.content_hash == NO_HASH


def _check_revoked(entry: TripleEntry) -> Iterator[Problem]:
    if not any(one.event.kind is Kind.REVOKE for one in entry.events):
        return
    fix = "run again: evalspec gold revoke --customer NAME"
    if entry.triple is not None:
        yield Problem("the triple is revoked, but its content is here", fix, show(entry.path))
    for one in entry.events:
        if not is_bare(one.event):
            yield Problem("the triple is revoked, but a note or hash of its content is here", fix, show(one.path))


def _list_kept(found: GoldSet) -> Iterator[Problem]:
    """Yield a problem for each customer that revoked its permission, while triples still have their content."""
    for customer, grant in found.grants.items():
        kept = [entry.id for entry in found.entries.values() if entry.triple and customer in entry.customers]
        if grant.revoked_at is not None and kept:
            message = f"{customer} revoked the permission on {grant.revoked_at[:10]}, but its text is in"
            fix = f"run again: evalspec gold revoke --customer {customer}"
            yield Problem(f"{message} {render_ids(kept)}", fix, show(grant_path(found.root, customer)))


class _Piece(Struct, frozen=True):
    """A text of a file. `line`: of a YAML value; None if the text is the file's own, from its first line."""

    text: str
    line: int | None = None
    place: str = ""


def list_terms(root: Path, terms: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield a problem for each place with a term, in all files below a set's folder and in their names.

    `terms`: by customer. The customer's own name and grant are left out, and so are the lists of terms.
    """
    every = [term for each in terms.values() for term in each]
    grants = {grant_path(root, customer): own for customer, own in terms.items()}
    named = set[Path]()
    for path in walk_files(root) if every else ():
        wanted = {grant: own for grant, own in grants.items() if path != grant}
        if may_have_terms(str(path), every):
            own = {one for one in (path, *path.parents) if one != root and one.is_relative_to(root)} - named
            for one in sorted(own):
                yield from _check_piece(_Piece(one.name, place="file name"), wanted, one, "rename it")
            named |= own
        try:
            source = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            yield Problem(f"cannot be searched for terms of grants: {error.strerror}", "make it readable", show(path))
            continue
        if may_have_terms(source, every):
            for piece in _list_pieces(source, path):
                fix = _REVISE if piece.line and path.parent.name == TRIPLES else "edit the file"
                if path.parent.name == BLOCKS:
                    fix = "give its triples the name of a release as `version` instead, then delete the file"
                yield from _check_piece(piece, wanted, path, fix)


def _list_pieces(source: str, path: Path) -> Iterator[_Piece]:
    """Yield the values and the comments of YAML, and any other text whole."""
    values = None
    if path.suffix in (".yaml", ".yml"):
        with suppress(yaml.YAMLError, RecursionError):
            documents = list(yaml.compose_all(source, yaml.SafeLoader))  # libyaml's would crash if nested deeply
            values = [one for document in documents for one in _walk_nodes(document, "")]
    rest = list(source)
    for place, node, is_named in values or ():
        start, end = node.start_mark.index, node.end_mark.index
        rest[start:end] = re.sub(r"[^\n]", " ", source[start:end])
        if not is_named:
            yield _Piece(node.value, node.start_mark.line + 1, place)
    yield _Piece("".join(rest))


def _walk_nodes(node: yaml.Node | None, place: str) -> Iterator[tuple[str, yaml.ScalarNode, bool]]:
    """Yield (place, scalar, whether it names a customer or is a key of evalspec) of a YAML document."""
    if isinstance(node, yaml.ScalarNode):
        yield place, node, place.rpartition("].")[2].partition("[")[0] in _NAMING
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{place}.{key.value}" if place else str(key.value)
            yield inner, key, not any(part in inner for part in ("metadata.", "people."))
            yield from _walk_nodes(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _walk_nodes(value, f"{place}[{number}]")


def _check_piece(piece: _Piece, terms: Mapping[Path, Sequence[str]], path: Path, fix: str) -> Iterator[Problem]:
    for grant, own in terms.items():
        lines: dict[int | None, set[int]] = {}
        for one in find_terms(piece.text, own):
            is_name = piece.line is None and piece.place
            line = None if is_name else piece.line or piece.text.count("\n", 0, one.start) + 1
            lines.setdefault(line, set()).add(one.number)
        for line, numbers in lines.items():
            named, verb = pluralize(len(numbers), "term"), pluralize(len(numbers), "is", "are")
            numbered = f"{named} {', '.join(map(str, sorted(numbers)))}"
            message = f"{numbered} of {GRANTS}/{grant.name} {verb} not redacted"
            yield Problem(message, fix, show(path), line, piece.place)
