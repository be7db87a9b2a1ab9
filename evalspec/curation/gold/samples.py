"""Triples as samples of a dataset."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import to_plain
from evalspec.curation.gold.layout import BLOCKS_KEY
from evalspec.curation.gold.schema import Triple, TripleSource
from evalspec.inputs.datasets.base import list_relevant
from evalspec.model import CLAIMS_KEY, Sample

ORIGIN = ("source", "customer", "generated_by")
"""Metadata that says where a triple comes from. Permission and publication depend on it."""

ORIGINAL_AUTHOR = "original_author"
"""The metadata key for the author in the dataset, if it is not the author in the set."""


def make_sample(name: str, triple: Triple, metadata: Mapping[str, Any], line: int | None = None) -> Sample:
    """Return the sample of a triple. `metadata`: of the triple; blocks and claims are added. `line`: in its file."""
    ids = tuple(tuple(block.block_id for block in group) for group in triple.groups)
    groups = ids if isinstance(triple.expected_block, list) else None
    qrels = {one: 1 for group in ids for one in group}
    blocks = to_plain(triple)["expected_block"]
    own = {} if blocks == make_blocks(groups, qrels) else {BLOCKS_KEY: blocks}
    claims = {} if triple.claims is None else {CLAIMS_KEY: triple.claims}
    return Sample(
        id=name,
        user_input=triple.question,
        references=() if triple.expected_answer is None else (triple.expected_answer,),
        qrels=qrels,
        groups=groups,
        metadata={**metadata, **own, **claims},
        line=line,
    )


def make_blocks(groups: Sequence[Sequence[str]] | None, relevant: Iterable[str]) -> Any:
    """Return ids as `expected_block`: one block, or a list in which every block is needed. Empty if there are no ids.

    `groups`: lists of alternatives. `relevant`: the ids if there are no groups.
    """
    if groups is None:
        blocks = [{"block_id": one} for one in relevant]
        return blocks[0] if len(blocks) == 1 else blocks
    parts = [[{"block_id": one} for one in group] for group in groups]
    return [part[0] if len(part) == 1 else {"any": part} for part in parts]


def find_kept_blocks(sample: Sample) -> Any:
    """Return the blocks that the reader kept as metadata, None if they are no longer the relevant ones."""
    kept = sample.metadata.get(BLOCKS_KEY)
    try:
        triple = Triple.model_validate({"question": "?", "expected_block": kept})
    except ValidationError:
        return None
    if to_plain(triple)["expected_block"] != kept or kept == make_blocks(sample.groups, list_relevant(sample)):
        return None
    ids = tuple(tuple(block.block_id for block in group) for group in triple.groups)
    if isinstance(kept, list):
        return kept if ids == sample.groups else None
    return kept if sample.groups is None and [ids[0][0]] == list_relevant(sample) else None


def find_origin(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a sample that says where it comes from. A source that gold sets do not know is none."""
    found = {key: metadata[key] for key in ORIGIN if isinstance(metadata.get(key), str)}
    return {key: value for key, value in found.items() if key != "source" or value in tuple(TripleSource)}


def list_authors(metadata: Mapping[str, Any]) -> list[str]:
    """Return who wrote a sample according to its metadata, the first author first."""
    named = (metadata.get(key) for key in (ORIGINAL_AUTHOR, "added_by"))
    return [one for one in named if isinstance(one, str)]


def refuse_other_origin(metadata: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Refuse to change where a sample comes from. `more`: metadata that would outweigh the sample's.

    Raises:
        InvalidInput: It names another source, customer or model.
    """
    for key, value in find_origin(metadata).items():
        if more.get(key, value) != value:
            message = f"its {key} is {value}, which {more[key]} would replace"
            raise InvalidInput(Problem(message, "add it apart, or correct its dataset", field=f"metadata.{key}"))
