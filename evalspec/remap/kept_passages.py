"""What a sample's metadata keeps of its passages beside their ids: made again from the new corpus, or taken out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalspec.datasets import triples, unrag_schema
from evalspec.datasets.autorag_checks import PASSAGES
from evalspec.datasets.autorag_writing import passages_of
from evalspec.records import Document, Sample

_CONTENTS = "retrieval_gt_contents"
"""AutoRAG's texts of the ground truth, in the shape of `retrieval_gt`."""
_AS_LISTED = "relevant"
"""Unrag's list of relevant ids as it was written, kept where it has duplicates."""


def refresh_metadata(sample: Sample, documents: Mapping[str, Document], *, moved: bool) -> tuple[Sample, bool]:
    """The sample with metadata about its passages as the new corpus has them. `moved`: they are not the ones that the
    metadata was made for. The second value says whether something had to be taken out.
    """
    metadata: dict[str, Any] = dict(sample.metadata)
    relevant = list(sample.qrels or ())
    if PASSAGES in metadata:
        metadata[PASSAGES] = passages_of(relevant, documents)
    if not moved:
        return replace(sample, metadata=metadata), False
    if _CONTENTS in metadata:
        groups = sample.groups or [(name,) for name in relevant]
        metadata[_CONTENTS] = [[documents[name].text for name in group] for group in groups]
    taken_out = metadata.pop(triples.OWN_KEY, None)
    own = metadata.get(unrag_schema.OWN_KEY)
    if isinstance(own, dict) and _AS_LISTED in own:
        taken_out = own[_AS_LISTED]
        metadata[unrag_schema.OWN_KEY] = {key: value for key, value in own.items() if key != _AS_LISTED}
    kept = {key: value for key, value in metadata.items() if value or not sample.metadata[key]}
    return replace(sample, metadata=kept), taken_out is not None
