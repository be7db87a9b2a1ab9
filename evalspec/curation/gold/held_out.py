"""The log of uses of the held-out share, and the parts of a gold set that a run can use. Each use is a file."""

from collections.abc import Sequence
from pathlib import Path

from evalspec.base.errors import InvalidInput
from evalspec.base.trust import require_file
from evalspec.curation.gold.files import require_records, write_record
from evalspec.curation.gold.gold_set import read_config
from evalspec.curation.gold.identity import find_person
from evalspec.curation.gold.layout import HELD_OUT
from evalspec.curation.gold.schema import HeldOutUse
from evalspec.curation.gold.slices import is_held_out, open_slice_alone
from evalspec.curation.gold.values import render_now
from evalspec.inputs.datasets.base import Part
from evalspec.model.fingerprints import PartDigest

_NOBODY = "unknown"


def read_uses(root: Path) -> list[HeldOutUse]:
    """Return the uses of a set's held-out share, in the order of their runs.

    Raises:
        InvalidInput: A file is invalid.
    """
    folder = root / HELD_OUT
    require_file(folder)
    return sorted((use for _, use in require_records(HeldOutUse, folder)), key=lambda use: use.run)


def log_use(root: Path, run: str, by: str | None = None, at: str | None = None) -> HeldOutUse:
    """Add a use to the log. `run`: id of the run. `by`: a person of the set; by default the one that git knows.

    Raises:
        InvalidInput: The file cannot be written.
    """
    use = HeldOutUse(run=run, at=at or render_now(), by=by or _find_person(root))
    write_record(root / HELD_OUT / f"{run}-{use.by or _NOBODY}.yaml", use)
    return use


def describe_uses(uses: Sequence[HeldOutUse]) -> str:
    """Return how often the share was used before, as the rest of a sentence about it."""
    if not uses:
        return "was not used before"
    times = "once" if len(uses) == 1 else f"{len(uses):,} times"
    latest = uses[-1]
    return f"was used {times} before, last on {latest.at[:10]}{f' by {latest.by}' if latest.by else ''}"


def _find_person(root: Path) -> str | None:
    try:
        return find_person(root, read_config(root))
    except InvalidInput:
        return None


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
