"""Carry triples over to a re-chunked or edited corpus: new revisions, which people have to review."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.authoring import find_edited
from evalspec.curation.gold.block_checks import STALE, BlockStatus, check_blocks
from evalspec.curation.gold.blocks import (
    BlockKey,
    is_pin_of,
    key_of,
    parse_pin,
    read_corpus,
    render_document,
    replace_blocks,
    store_text,
)
from evalspec.curation.gold.gold_set import TripleEntry, open_set
from evalspec.curation.gold.pins import (
    Changed,
    NewText,
    explain_no_revision,
    explain_unsettled,
    list_active,
    refuse_left,
    revise_computed,
)
from evalspec.curation.gold.schema import Block, GoldTriple
from evalspec.curation.remap.corpus import Chunk
from evalspec.curation.remap.matching import Match, compute_matches
from evalspec.model import Document


class _Side(Struct, frozen=True):
    """One of the two corpora, by id."""

    shown_as: str
    documents: Mapping[str, Document]
    chunks: Mapping[str, Chunk]

    @classmethod
    def read(cls, path: Path | str) -> "_Side":
        """Read a corpus.

        Raises:
            InvalidInput: There are no documents, or the file is invalid.
        """
        corpus = read_corpus(Path(path))
        chunks = corpus.chunks or [Chunk(document.id, document.text) for document in corpus.documents]
        return cls(corpus.shown_as, {one.id: one for one in corpus.documents}, {one.id: one for one in chunks})


class _Move(Struct, frozen=True):
    """Both corpora, and the match of every old block that is looked for."""

    old: _Side
    new: _Side
    matches: Mapping[str, Match]


def carry(
    root: Path | str,
    old: Path | str,
    new: Path | str,
    by: str,
    names: Sequence[str] = (),
    *,
    min_overlap: float = 0.5,
    at: str | None = None,
) -> Changed:
    """Carry triples whose block changed or vanished over to the new corpus. Each gets a revision, to be reviewed.

    The new block is the one that has most of the old text (`evalspec remap`). A block that was split becomes
    alternatives. `names`: by default, all triples that have not ended. `min_overlap`: least share of the shorter text.
    The person may review it, since they wrote nothing.

    Raises:
        InvalidInput: A corpus is invalid, the person is unknown, or a named triple cannot be carried over. Nothing is
            written then.
    """
    root, found = Path(root), open_set(root)
    entries = [found.find(name) for name in names] if names else list_active(found)
    move = _match(_Side.read(old), _Side.read(new), entries, min_overlap)
    wanted: list[tuple[TripleEntry, Mapping[BlockKey, Sequence[Block]]]] = []
    left: dict[str, str] = {}
    for entry in entries:
        carried = _find_blocks(entry, move, by)
        if isinstance(carried, str):
            left[entry.id] = carried
        elif carried:
            wanted.append((entry, carried))
        elif names:
            left[entry.id] = "its blocks are unchanged"
    if names:
        refuse_left(left, found)
    texts = {entry.id: _list_new_texts(blocks, move) for entry, blocks in wanted}
    whence = f"carried from {move.old.shown_as} to {move.new.shown_as}"
    notes = {name: ", ".join([whence, *(one.render() for one in own)]) for name, own in texts.items()}
    revised = [
        revise_computed(root, entry, _replace(root, find_edited(entry), blocks, move), by, notes[entry.id], at)
        for entry, blocks in wanted
    ]
    return Changed(revised, left, {name: own for name, own in texts.items() if own})


def _list_new_texts(carried: Mapping[BlockKey, Sequence[Block]], move: _Move) -> list[NewText]:
    """Return the blocks whose new text has other words. The texts of alternatives count together."""
    found = []
    for (name, _), blocks in carried.items():
        before = Counter(render_document(move.old.documents[name]).split())
        after = [Counter(render_document(move.new.documents[block.block_id]).split()) for block in blocks]
        missing = before - sum(after, Counter())
        added = reduce(or_, (one - before for one in after))  # the same words in two overlapping chunks count once
        found += [NewText(name, missing.total(), added.total())] if missing or added else []
    return found


def _match(old: _Side, new: _Side, entries: Sequence[TripleEntry], min_overlap: float) -> _Move:
    judged = {block.block_id for entry in entries if entry.triple for block in entry.triple.blocks}
    if judged and judged.isdisjoint(old.documents):
        raise InvalidInput(Problem("no block of these triples is in this corpus", "name the old corpus", old.shown_as))
    matches = compute_matches([*old.chunks.values()], [*new.chunks.values()], min_overlap, judged)
    return _Move(old, new, matches)


def _find_blocks(entry: TripleEntry, move: _Move, by: str) -> dict[BlockKey, list[Block]] | str:
    """Return the new blocks by old one, none if all are unchanged, or why the triple cannot be carried over."""
    unable = explain_no_revision(entry)
    if unable is not None:
        return unable
    found: dict[BlockKey, list[Block]] = {}
    for one in check_blocks(find_edited(entry), move.new.documents):
        if one.status not in STALE and not (one.status is BlockStatus.UNPINNED and _differs(one.block, move)):
            continue
        blocks = _carry_block(one.block, move)
        if isinstance(blocks, str):
            return blocks
        found[key_of(one.block)] = blocks
    unsettled = explain_unsettled(entry, by) if found else None
    return found if unsettled is None else unsettled


def _differs(block: Block, move: _Move) -> bool:
    """Return whether the text of a block is not the same in both corpora."""
    before = move.old.documents.get(block.block_id)
    return before is None or render_document(before) != render_document(move.new.documents[block.block_id])


def _carry_block(block: Block, move: _Move) -> list[Block] | str:
    """Return the blocks that replace one, not pinned yet, or why there are none."""
    document = move.old.documents.get(block.block_id)
    if document is None:
        return f"block {block.block_id} is not in {move.old.shown_as}"
    if parse_pin(block.version) is not None and not is_pin_of(block.version, render_document(document)):
        return f"block {block.block_id} has another text in {move.old.shown_as} than the pinned one"
    match = move.matches[block.block_id]
    if not match.overlaps:
        return f"block {block.block_id} is not carried over: {match.why}"
    return [_make_block(block, overlap.chunk, move) for overlap in match.overlaps]


def _make_block(block: Block, name: str, move: _Move) -> Block:
    """Return the new block. What is known about the old place is only kept if the new one has the same id or file."""
    if name == block.block_id:
        return block.model_copy(update={"version": None})
    paths = (move.old.chunks[block.block_id].path, move.new.chunks[name].path)
    same_file = paths[0] is not None and paths[0] == paths[1]
    return Block(block_id=name, document_id=block.document_id if same_file else None)


def _replace(root: Path, triple: GoldTriple, carried: Mapping[BlockKey, Sequence[Block]], move: _Move) -> GoldTriple:
    """Return the triple with its new blocks, which are pinned. Their texts are kept in the set."""

    def pin(block: Block) -> Block:
        text = render_document(move.new.documents[block.block_id])
        return block.model_copy(update={"version": store_text(root, text)})

    pinned = {key: [pin(block) for block in blocks] for key, blocks in carried.items()}
    return triple.model_copy(update={"expected_block": replace_blocks(triple.expected_block, pinned)})
