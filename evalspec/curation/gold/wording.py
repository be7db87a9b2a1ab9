"""How flags, categories, rules of disputes and blocks are named to people, on the terminal and in the browser."""

from typing import Any

from evalspec.curation.gold.blocks import parse_pin
from evalspec.curation.gold.files import to_plain
from evalspec.curation.gold.schema import Block, Category, Flag, GoldTriple

FLAGS = {
    Flag.QUESTION_UNREALISTIC: "nobody would ask this",
    Flag.WRONG_BLOCK: "the answer comes from another block",
    Flag.NOT_ENTAILED: "the block does not say what the answer says",
    Flag.OVERSTATED: "the answer says more than the block",
    Flag.UNDERSTATED: "the answer leaves out what the question asks for",
}
CATEGORIES = {
    Category.NUMERIC: "numbers, units and modes",
    Category.SYNONYM: "other words or another tense",
    Category.COMPOUND: "several claims in one answer",
    Category.OTHER: "anything else",
}
RULES = {
    Category.NUMERIC: (
        "The block decides: it has to say every number, unit and mode of the answer. Otherwise the triple is revised "
        "or dropped, unless a third person says in a note why the answer is right."
    ),
    Category.SYNONYM: "Other words are right if they mean the same. Then the triple is upheld, otherwise revised.",
    Category.COMPOUND: "The triple is split into one for each claim, or revised until the block entails every claim.",
}
"""What decides a dispute of a category. Disputes of other categories have no rule of their own."""

_HIDDEN = frozenset({"reviewed_by", "resolution"})
"""Metadata that would say what others think."""


def list_answers(triple: GoldTriple) -> list[str]:
    """Return the answer and its claims, whose words are marked in the blocks."""
    return list(filter(None, [triple.expected_answer, *(triple.claims or ())]))


def list_shown_metadata(triple: GoldTriple) -> dict[str, Any]:
    """Return the metadata that reviewers may see."""
    return {key: value for key, value in to_plain(triple.metadata).items() if key not in _HIDDEN}


def label_blocks(triple: GoldTriple) -> dict[str, str]:
    """Return a label for each block, which says how it belongs to the others."""
    groups = triple.groups
    labels: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        part = f" {number} of {len(groups)}, all needed" if len(groups) > 1 else ""
        for block in group:
            alone = "" if len(group) == 1 else ", or another of this part" if part else ", one of several that answer"
            labels.setdefault(block.block_id, f"Block{part}{alone}")
    return labels


def describe_block(block: Block) -> str:
    """Return id, document, pages and version of a block."""
    pages = "–".join(map(str, dict.fromkeys(block.page_range or ())))
    parts = [
        block.block_id,
        block.document_id and f"document {block.document_id}",
        pages and f"page {pages}",
        _describe_version(block.version),
    ]
    return "; ".join(filter(None, parts))


def _describe_version(version: str | None) -> str:
    """Return a version as a reviewer needs it. The hash of a pin says nothing to them."""
    if version is None:
        return "unpinned"
    return f"version {version}" if parse_pin(version) is None else "pinned"
