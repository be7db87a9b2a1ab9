"""Compare the blocks of a triple with a corpus: whether each is there, in the version that the triple names."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from evalspec.curation.gold.blocks import is_pin_of, make_pin, parse_pin, render_document
from evalspec.curation.gold.schema import Block, Triple
from evalspec.model import Document

_VERSION = "version"


class BlockStatus(StrEnum):
    """How a block relates to a corpus. `unknown`: its version is a label, and the corpus has no versions."""

    SAME = "same"
    CHANGED = "changed"
    VANISHED = "vanished"
    UNPINNED = "unpinned"
    UNKNOWN = "unknown"


STALE = frozenset({BlockStatus.CHANGED, BlockStatus.VANISHED})
"""What makes a triple stale."""


class BlockCheck(Struct, frozen=True):
    """One block compared with a corpus. `found`: the version that the corpus has, if it is another."""

    block: Block
    status: BlockStatus
    found: str | None = None

    def render(self) -> str:
        """Return what happened to the block, as a clause."""
        name = self.block.block_id
        if self.status is BlockStatus.CHANGED:
            return f"block {name} changed from {self.block.version} to {self.found}"
        clauses = {
            BlockStatus.SAME: f"block {name} is unchanged",
            BlockStatus.VANISHED: f"block {name} is not in the corpus",
            BlockStatus.UNPINNED: f"block {name} is not pinned",
            BlockStatus.UNKNOWN: f"block {name} has the version {self.block.version}, and the corpus has no versions",
        }
        return clauses[self.status]


def check_blocks(triple: Triple, documents: Mapping[str, Document]) -> list[BlockCheck]:
    """Compare the blocks of a triple with a corpus. A pin is compared with the text, a label with the own version.

    The own version of a document is `metadata.version`.
    """
    return [_check_block(block, documents.get(block.block_id)) for block in triple.blocks]


def _check_block(block: Block, document: Document | None) -> BlockCheck:
    if document is None:
        return BlockCheck(block, BlockStatus.VANISHED)
    if block.version is None:
        return BlockCheck(block, BlockStatus.UNPINNED)
    if parse_pin(block.version) is not None:
        text = render_document(document)
        same = is_pin_of(block.version, text)
        return BlockCheck(block, BlockStatus.SAME) if same else BlockCheck(block, BlockStatus.CHANGED, make_pin(text))
    own = find_version(document)
    if own is None:
        return BlockCheck(block, BlockStatus.UNKNOWN)
    return BlockCheck(block, BlockStatus.SAME) if own == block.version else BlockCheck(block, BlockStatus.CHANGED, own)


def find_version(document: Document) -> str | None:
    """Return the document's own version as text, None if it has none."""
    inner = document.metadata.get("metadata")
    own = document.metadata.get(_VERSION, inner.get(_VERSION) if isinstance(inner, dict) else None)
    return None if own is None else str(own)
