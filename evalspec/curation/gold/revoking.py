"""Delete a customer's content from the files of a set, each with a tombstone, and say what git still has.

The file of a triple is deleted last, so that a killed revocation finds the same triples when it is run again.
"""

import re
from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.git import read_git
from evalspec.base.plural import counted
from evalspec.base.registry import near_miss
from evalspec.curation.gold.blocks import list_block_files
from evalspec.curation.gold.event_files import event_name, write_event
from evalspec.curation.gold.files import read_record, read_records, require_records, show, to_plain, write_record
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.layout import BLOCKS, EVENTS, EXCEPTIONS, EXPORTS, GRANTS, SLICES, TRIPLES
from evalspec.curation.gold.leaks import NO_HASH, is_bare
from evalspec.curation.gold.permission import grant_path
from evalspec.curation.gold.quotes import walk_files
from evalspec.curation.gold.redaction import STRUCTURE, list_texts
from evalspec.curation.gold.schema import Allowed, Event, Grant, Kind, SliceFile
from evalspec.curation.gold.triple_files import delete_triple

_SLICE_KEYS = frozenset({"domain", "difficulty", "failure_mode"})
"""Metadata whose values many triples have."""
_FOLDERS = (TRIPLES, BLOCKS, SLICES, GRANTS, EXCEPTIONS, EXPORTS)


class Content(Struct, frozen=True):
    """The content of a customer in a set.

    `entries`: its triples, and those that replaced split ones. `tombstones`: ids of triples that are revoked already.
    `shared`: texts in the metadata of other triples, which are not the customer's alone.
    """

    customer: str
    entries: list[TripleEntry]
    tombstones: list[str]
    shared: Collection[str] = frozenset()

    @property
    def ids(self) -> set[str]:
        """The ids of all revoked triples."""
        return {*(entry.id for entry in self.entries), *self.tombstones}

    @property
    def questions(self) -> list[str]:
        """The questions."""
        return [entry.triple.question for entry in self.entries if entry.triple is not None]

    @property
    def texts(self) -> list[str]:
        """All texts: questions, answers, claims, notes, and metadata that no other triple has."""
        found = self.questions
        for entry in self.entries:
            if entry.triple is not None:
                found += [entry.triple.expected_answer or "", *(entry.triple.claims or ())]
            found += [one.event.note or "" for one in entry.events]
            found += [text for text in _list_metadata(entry) if text not in self.shared]
        return found


def _list_metadata(entry: TripleEntry) -> Iterator[str]:
    """Yield the texts in the metadata of a triple that are not keys of evalspec with a fixed vocabulary."""
    plain = {} if entry.triple is None else to_plain(entry.triple.metadata)
    yield from (text for _, text in list_texts({key: plain[key] for key in plain.keys() - STRUCTURE - _SLICE_KEYS}))


def find_content(found: GoldSet, customer: str) -> Content:
    """Return the content of a customer.

    Raises:
        InvalidInput: The set has no triple and no grant of the customer.
    """
    names = list_derived(found, {name for name, entry in found.entries.items() if customer in entry.customers})
    graves = (entry for entry in found.entries.values() if entry.triple is None)
    tombstones = [entry.id for entry in graves if customer in entry.customers or not entry.customers]
    if not names and customer not in found.grants:
        known = {*found.grants, *(name for entry in found.entries.values() for name in entry.customers)}
        fix = near_miss(customer, known) if known else ""
        raise InvalidInput(Problem(f"there is no customer '{customer}'", fix, show(found.root), field="--customer"))
    entries = [found.entries[name] for name in sorted(names) if found.entries[name].triple is not None]
    shared = {text for name, entry in found.entries.items() if name not in names for text in _list_metadata(entry)}
    return Content(customer, entries, tombstones, shared)


def list_derived(found: GoldSet, names: Collection[str]) -> set[str]:
    """Return ids with those of the triples that replaced them by splits, directly or indirectly."""
    known: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in known or name not in found.entries:
            continue
        known.add(name)
        waiting += [child for one in found.entries[name].events for child in one.event.children or ()]
    return known


def mark_revoked(found: GoldSet, customer: str, today: date) -> bool:
    """Mark a customer's grant as revoked, and return whether it was not."""
    grant = found.grants.get(customer)
    if grant is None or grant.revoked_at is not None:
        return False
    revoked = Grant.model_validate({**to_plain(grant), "revoked_at": today.isoformat()})
    write_record(grant_path(found.root, customer), revoked)
    return True


def find_blocks(found: GoldSet, content: Content) -> list[Path]:
    """Return the files of pinned texts that no other triple pins today.

    A text that nobody pins may be from an earlier revision of this content, which only git knows.
    """
    others = (entry.triple for entry in found.entries.values() if entry.id not in content.ids and entry.triple)
    pinned = {path for triple in others for block in triple.blocks for path in list_block_files(found.root, block)}
    return [path for path in walk_files(found.root / BLOCKS) if path not in pinned and not path.name.startswith(".")]


def find_slices(found: GoldSet, content: Content) -> dict[Path, list[str]]:
    """Return the slices with such triples, and the members as id@revision.

    Raises:
        InvalidInput: A slice cannot be read.
    """
    affected = {
        path: [one for one in slice_file.triples if one.rpartition("@")[0] in content.ids]
        for path, slice_file in require_records(SliceFile, found.root / SLICES)
    }
    return {path: members for path, members in affected.items() if members}


def shorten_slice(path: Path, members: Collection[str]) -> None:
    """Take members out of a slice, and list them as removed."""
    slice_file = read_record(SliceFile, path, [])
    if slice_file is not None:
        kept = [one for one in slice_file.triples if one not in members]
        write_record(path, {**to_plain(slice_file), "triples": kept, "removed": [*slice_file.removed, *members]})


def find_exceptions(found: GoldSet, content: Content) -> list[Path]:
    """Return the files of exceptions from the scrubber for such triples."""
    read = read_records(Allowed, found.root / EXCEPTIONS, [])
    return [path for path, allowed in read if allowed.triple in content.ids]


def write_tombstone(found: GoldSet, entry: TripleEntry, by: str, today: date) -> None:
    """Replace a triple by a tombstone: its events without notes and hashes, and one that says that it is revoked.

    A set without events gets no tombstone. The file of the triple is deleted last.
    """
    if found.has_events:
        write_tombstones(found, entry)
        if not any(one.event.kind is Kind.REVOKE for one in entry.events):
            revision = max((one.event.revision for one in entry.events), default=1)
            values = {"kind": Kind.REVOKE, "revision": revision, "content_hash": NO_HASH, "by": by}
            write_event(found.root, entry.id, Event.model_validate({**values, "at": today.isoformat()}))
    path = entry.path if entry.path.exists() else entry.path.with_name(f"{entry.id}.yaml")
    delete_triple(path, entry.id)


def write_tombstones(found: GoldSet, entry: TripleEntry) -> None:
    """Remove notes and hashes from the events of a triple. A merge may add some to a tombstone."""
    for one in entry.events:
        if not is_bare(one.event):
            bare = Event.model_validate({**to_plain(one.event), "content_hash": NO_HASH, "note": None})
            write_event(found.root, entry.id, bare)
            if one.path.name != event_name(bare):
                one.path.unlink(missing_ok=True)


def list_changing(found: GoldSet, content: Content) -> Iterator[Path]:
    """Yield the files of a set that lose this content when it is revoked."""
    yield from find_blocks(found, content)
    yield from find_slices(found, content)
    yield from find_exceptions(found, content)
    yield from (entry.path for entry in content.entries)
    yield from (one.path for name in content.ids for one in found.entries[name].events)


def remove_temporary(root: Path) -> None:
    """Remove temporary files of killed commands, which may have texts."""
    folders = [root, *(root / name for name in _FOLDERS), *(root / EVENTS).glob("*")]
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink():
            for path in folder.glob(".evalspec-*.tmp"):
                path.unlink(missing_ok=True)


def describe_git(root: Path, content: Content) -> Iterator[str]:
    """Yield what git has of a customer: every triple that named it in any revision, and those revoked now."""
    if not any((folder / ".git").exists() for folder in (root.resolve(), *root.resolve().parents)):
        return
    owner = rf"customer[\"']?:[ ]*[\"']?{re.escape(content.customer)}([\"' ,}}]|$)"
    listed = read_git(
        root, "log", "--all", "--format=", "--name-only", "--relative", "-z", f"-G{owner}", "--", "triples"
    )
    names = {Path(name.strip()).stem for name in (listed or "").split("\0") if name.strip()}
    names |= {entry.id for entry in content.entries}
    paths = [path for name in sorted(names) for path in (f"triples/{name}.yaml", f"events/{name}")]
    commits = read_git(root, "log", "--all", "--format=%h", "--", *paths) if paths else ""
    if listed is None or commits is None:
        yield "git history: could not be searched; it may have these triples"
    elif commits:
        count = len(commits.split())
        have = counted(count, "commit has", "commits have")
        yield f"git history: {have} these triples, with every earlier wording; `git filter-repo` rewrites them"
        remotes = read_git(root, "remote")
        if remotes:
            yield f"pushed copies: {', '.join(remotes.split())}"
