"""The parts of a gold set that a run can use: a slice, or the held-out share."""

from pathlib import Path

from evalspec.curation.gold.gold_set import read_config
from evalspec.curation.gold.held_out import describe_uses, read_uses
from evalspec.curation.gold.slices import is_held_out, open_slice_alone
from evalspec.inputs.datasets.base import Part
from evalspec.model.fingerprints import PartDigest


def open_part(root: Path, name: str | None) -> Part:
    """Return the slice of this name, or for None the held-out share.

    Raises:
        InvalidInput: There is no such slice, or the set cannot be read.
    """
    if name is None:
        share, uses = read_config(root).rules.held_out, read_uses(root)
        note = f"the held-out share {describe_uses(uses)}; each use makes it less independent"
        details = PartDigest(held_out=True, uses_before=len(uses))
        return Part(lambda one: is_held_out(one, share), details, note=note)
    found = open_slice_alone(root, name)
    members = {entry.id for entry in found.entries}
    missing = {cause: len(ids) for cause, ids in sorted(found.missing.items())}
    details = PartDigest(found.name, len(found.file.triples), missing)
    return Part(members.__contains__, details, found.describe_missing())
