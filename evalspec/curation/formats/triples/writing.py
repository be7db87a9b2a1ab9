"""Write triples as one YAML list, and list what they cannot represent."""

from pathlib import Path
from typing import Any

from evalspec.curation.formats.triples.reading import PlainTriple
from evalspec.curation.gold.files import render_yaml
from evalspec.curation.gold.layout import BLOCKS_KEY
from evalspec.curation.gold.samples import find_kept_blocks, make_blocks
from evalspec.inputs.datasets.base import DatasetContent, Written, list_relevant
from evalspec.inputs.datasets.located import Accepted, refuse_empty
from evalspec.inputs.datasets.losses import (
    GRADES,
    NATIVE_ONLY,
    Loss,
    list_default_losses,
    list_document_losses,
    list_sample_losses,
)
from evalspec.model import CLAIMS_KEY, Sample


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    return _build(content)[1]


def write_triples(content: DatasetContent, path: Path) -> Written:
    """Write the triples as one YAML list.

    Raises:
        InvalidInput: No sample can be written.
    """
    entries, _ = _build(content)
    refuse_empty(len(entries), path)
    path.write_bytes(render_yaml(entries).encode())
    return Written(len(entries))


def _build(content: DatasetContent) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries that the format can represent, and a description of what it cannot."""
    losses = list_document_losses(content) + list_default_losses(content)
    losses += list_sample_losses(content.samples, _SAMPLE_LOSSES)
    fitting = filter(_has_blocks, content.samples)
    accepted = Accepted(PlainTriple, lambda: map(_to_entry, fitting), "samples")
    return list(accepted), losses + accepted.losses


def _has_blocks(sample: Sample) -> bool:
    return bool(sample.groups) or len(list_relevant(sample)) == 1


def _to_entry(sample: Sample) -> dict[str, Any]:
    entry = {
        "id": sample.id,
        "question": sample.question,
        "expected_block": find_kept_blocks(sample) or make_blocks(sample.groups, list_relevant(sample)),
        "expected_answer": sample.reference,
        "claims": sample.metadata.get(CLAIMS_KEY) or None,
        "metadata": {key: value for key, value in sample.metadata.items() if key not in (BLOCKS_KEY, CLAIMS_KEY)},
    }
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _are_blocks_kept(sample: Sample) -> bool:
    """Return whether the blocks in the metadata are written: as they are, or because they follow from the ids."""
    plain = make_blocks(sample.groups, list_relevant(sample)) if _has_blocks(sample) else None
    return find_kept_blocks(sample) is not None or sample.metadata[BLOCKS_KEY] == plain


_SAMPLE_LOSSES = (
    Loss("the whole sample, because not exactly one document is relevant", lambda sample: not _has_blocks(sample)),
    Loss("all right answers except the first", lambda sample: len(sample.references) > 1),
    *NATIVE_ONLY,
    GRADES,
    Loss(f"metadata.{CLAIMS_KEY} that is empty", lambda sample: not sample.metadata.get(CLAIMS_KEY, True)),
    Loss(
        f"metadata.{BLOCKS_KEY} that is not the relevant block's",
        lambda sample: BLOCKS_KEY in sample.metadata and not _are_blocks_kept(sample),
    ),
)
