"""Pinned blocks: find triples whose block changed or vanished, mark them as stale, and pin blocks to a corpus."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.curation.gold.authoring import find_edited
from evalspec.curation.gold.block_checks import STALE, BlockCheck, BlockStatus, check_blocks
from evalspec.curation.gold.blocks import (
    key_of,
    make_pin,
    read_documents,
    render_document,
    replace_blocks,
    store_text,
)
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, open_set
from evalspec.curation.gold.protocol import record, revise_triple
from evalspec.curation.gold.schema import Block, GoldTriple, Kind, Triple
from evalspec.curation.gold.states import State
from evalspec.model import Document

_LIVING = frozenset({State.PENDING, State.DISPUTED, State.ACCEPTED, State.STALE})


class SetCheck(Struct, frozen=True):
    """A set compared with a corpus, by triple.

    `stale`: blocks that changed or vanished, of triples that nobody has marked yet. `marked`: stale ones by their
    events. `unpinned`, `unknown`: blocks that could not be compared. `checked`: number of triples in the set for which
    the corpus matters, that is, which have not ended.
    """

    found: GoldSet
    stale: Mapping[str, Sequence[BlockCheck]]
    marked: Sequence[str]
    unpinned: Mapping[str, Sequence[BlockCheck]]
    unknown: Mapping[str, Sequence[BlockCheck]]
    checked: int


def check_set(root: Path | str, corpus: Path | str) -> SetCheck:
    """Compare all triples that have not ended with a corpus.

    Raises:
        InvalidInput: The set or the corpus is invalid, or the corpus has none of the blocks.
    """
    found, documents = open_set(root), read_documents(Path(corpus))
    return compare_set(found, documents, show(Path(corpus)))


def compare_set(found: GoldSet, documents: Mapping[str, Document], shown_as: str) -> SetCheck:
    """Compare all triples that have not ended with documents by id. `shown_as`: the corpus in messages.

    Raises:
        InvalidInput: The documents have none of the blocks.
    """
    living = list_active(found)
    checks = {entry.id: check_blocks(entry.triple, documents) for entry in living if entry.triple}
    _refuse_other_corpus([one for own in checks.values() for one in own], documents, shown_as)
    by_status: dict[BlockStatus, dict[str, list[BlockCheck]]] = defaultdict(dict)
    for name, own in checks.items():
        for one in own:
            by_status[one.status].setdefault(name, []).append(one)
    marked = [entry.id for entry in living if entry.state is State.STALE]
    stale = {name: [one for one in own if one.status in STALE] for name, own in checks.items() if name not in marked}
    return SetCheck(
        found,
        {name: own for name, own in stale.items() if own},
        marked,
        by_status[BlockStatus.UNPINNED],
        by_status[BlockStatus.UNKNOWN],
        len(living),
    )


def list_active(found: GoldSet) -> list[TripleEntry]:
    """Return the triples that have not ended, with their content."""
    return [entry for entry in found.entries.values() if is_active_entry(entry)]


def is_active_entry(entry: TripleEntry) -> bool:
    """Return whether a triple has not ended, and has its content."""
    return entry.state in _LIVING and entry.triple is not None


def _refuse_other_corpus(checks: Sequence[BlockCheck], documents: Mapping[str, Document], shown_as: str) -> None:
    if checks and all(one.status is BlockStatus.VANISHED for one in checks):
        example = f"the set has '{checks[0].block.block_id}', the corpus '{next(iter(documents), '')}'"
        message = f"no block of the set is in this corpus: {example}"
        raise InvalidInput(Problem(message, "name the corpus that the set was made for", shown_as))


class NewText(Struct, frozen=True):
    """The text that replaces the one of a block. `missing`, `added`: numbers of words that only one of them has."""

    block: str
    missing: int
    added: int

    def render(self) -> str:
        """Return how the texts differ, as a clause."""
        return f"the new text of block {self.block} lacks {counted(self.missing, 'word')} and adds {self.added}"


class Changed(Struct, frozen=True):
    """Triples that were changed. By id: `left` says why others were not, `texts` what reviewers should look at."""

    entries: Sequence[TripleEntry]
    left: Mapping[str, str]
    texts: Mapping[str, Sequence[NewText]] = {}


def mark_stale(root: Path | str, checked: SetCheck, by: str, *, at: str | None = None) -> Changed:
    """Mark the triples of a check as stale, with the reason. They leave the set until they are reviewed again.

    Raises:
        InvalidInput: The person is unknown.
    """
    marked, left = [], {}
    for name, own in checked.stale.items():
        entry = checked.found.find(name)
        if not entry.review_status.revision:
            left[name] = "the content was edited by hand, so it has no revision to mark"
            continue
        note = ", ".join(one.render() for one in own)
        marked.append(record(Path(root), entry, Kind.STALE, by, note=note, at=at))
    return Changed(marked, left)


def pin(
    root: Path | str,
    corpus: Path | str,
    by: str,
    names: Sequence[str] = (),
    *,
    reviewed: bool = False,
    at: str | None = None,
) -> Changed:
    """Pin the unpinned blocks of triples to the texts of a corpus, and keep the texts in the set.

    Each triple gets a new revision, whose reviews start again, unless it was accepted by reviewers who saw the same
    texts. The person may review it, since they wrote nothing.
    `names`: if none are given, all triples without reviews. A named triple whose block changed is pinned to the new
    text. `reviewed`: without names, pin triples with reviews too.

    Raises:
        InvalidInput: The corpus is invalid, the person is unknown, or a named triple cannot be pinned. Nothing is
            pinned then.
    """
    root, documents = Path(root), read_documents(Path(corpus))
    found = open_set(root)
    entries = [found.find(name) for name in names] if names else list_active(found)
    wanted, left = [], {}
    for entry in entries:
        why = _explain_no_pin(entry, documents, by, is_named=bool(names), reviewed=reviewed)
        if why is None:
            wanted.append(entry)
        elif names or _list_to_pin(entry.triple, documents):
            left[entry.id] = why
    if names:
        refuse_left(left, found)
    note = f"pinned to {show(Path(corpus))}"
    pinned = []
    for entry in wanted:
        triple = pin_triple(root, find_edited(entry), documents, renew=bool(names))
        kept = entry.review_status.current.reviews.values() if _keeps_reviews(entry, documents) else ()
        revised = revise_computed(root, entry, triple, by, note, at)
        for one in kept:
            said = f"of revision {one.revision}, with the same texts"
            revised = record(root, revised, Kind.CONFIRM, one.by, note=said, at=one.at, is_imported=True)
        pinned.append(revised)
    return Changed(pinned, left)


def refuse_left(left: Mapping[str, str], found: GoldSet) -> None:
    """Raise InvalidInput if named triples cannot be changed. `left`: why, by id."""
    if left:
        raise InvalidInput(Problem(f"{name}: {why}", file=show(found.find(name).path)) for name, why in left.items())


def revise_computed(
    root: Path, entry: TripleEntry, triple: GoldTriple, by: str, note: str, at: str | None
) -> TripleEntry:
    """Record a triple with other blocks as a revision that nobody wrote.

    Raises:
        InvalidInput: `revise_triple` refuses it.
    """
    return revise_triple(root, entry.id, triple, by, replaces=entry.content_hash, note=note, at=at, is_computed=True)


def explain_no_revision(entry: TripleEntry) -> str | None:
    """Return why no revision of a triple can be computed, whatever its blocks are; None if one can be."""
    if not is_active_entry(entry):
        return f"the triple is {entry.state}"
    if not entry.review_status.revision:
        return f"its content was edited by hand; record that first: evalspec gold revise {entry.id}"
    return None


def explain_unsettled(entry: TripleEntry, by: str) -> str | None:
    """Return why a person may not revise a disputed triple without reading it; None if they may."""
    current = entry.review_status.current
    if entry.state is not State.DISPUTED or by in current.writers | current.flaggers:
        return None
    return "it is disputed, and a revision would settle that; only its author and the flagger may"


def _explain_no_pin(
    entry: TripleEntry, documents: Mapping[str, Document], by: str, *, is_named: bool, reviewed: bool
) -> str | None:
    """Return why a triple is not pinned, None if it can be."""
    unable = explain_no_revision(entry)
    if unable is not None:
        return unable
    wanted = _list_to_pin(entry.triple, documents, renew=is_named)
    if not wanted:
        return "all blocks are pinned"
    absent = [block.block_id for block in wanted if block.block_id not in documents]
    if absent:
        return f"the corpus does not have {', '.join(absent)}"
    unsettled = explain_unsettled(entry, by)
    is_open = not (is_named or reviewed or _keeps_reviews(entry, documents))
    if unsettled is None and entry.review_status.current.reviews and is_open:
        return "it has reviews, which would start again"
    return unsettled


def _keeps_reviews(entry: TripleEntry, documents: Mapping[str, Document]) -> bool:
    """Return whether a triple is accepted by reviewers who all saw the texts that its blocks are pinned to."""
    if entry.triple is None or entry.review_status.resolution != "consensus":
        return False
    wanted = {
        block.block_id: make_pin(render_document(documents[block.block_id]))
        for block in _list_to_pin(entry.triple, documents, renew=True)
        if block.block_id in documents
    }
    reviews = entry.review_status.current.reviews.values()
    return all(wanted.items() <= (event.texts or {}).items() for event in reviews)


def _list_to_pin(triple: Triple | None, documents: Mapping[str, Document], *, renew: bool = False) -> list[Block]:
    """Return the unpinned blocks. `renew`: also those that changed."""
    if triple is None:
        return []
    checks = check_blocks(triple, documents) if renew else ()
    changed = [one.block for one in checks if one.status is BlockStatus.CHANGED]
    return [block for block in triple.blocks if block.version is None] + changed


def pin_triple(root: Path, triple: GoldTriple, documents: Mapping[str, Document], *, renew: bool = False) -> GoldTriple:
    """Return a triple with its unpinned blocks pinned to the documents. The texts are kept in the set.

    `renew`: also pin blocks that changed, to the new text.

    Raises:
        InvalidInput: A block is not among the documents.
    """
    wanted = _list_to_pin(triple, documents, renew=renew)
    absent = [block.block_id for block in wanted if block.block_id not in documents]
    if absent:
        fix = "check the id, or pin the block to a version with --block ID@VERSION"
        raise InvalidInput(Problem(f"the corpus does not have {', '.join(absent)}", fix, field="expected_block"))
    pinned = {}
    for block in wanted:
        version = store_text(root, render_document(documents[block.block_id]))
        pinned[key_of(block)] = [block.model_copy(update={"version": version})]
    return triple.model_copy(update={"expected_block": replace_blocks(triple.expected_block, pinned)})
