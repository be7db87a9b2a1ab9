"""Write triples of a gold set as a dataset, and keep a record of where they went."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import Input, is_stream, refuse_inputs
from evalspec.curation.gold.files import compute_hash, require_records, show, to_plain, write_record
from evalspec.curation.gold.gold_set import GoldSet, open_set, read_config
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.layout import EXPORTS
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.permission import find_today
from evalspec.curation.gold.samples import make_sample
from evalspec.curation.gold.schema import Export
from evalspec.curation.gold.triple_files import drop_triples
from evalspec.inputs.datasets.base import DatasetContent, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.datasets.writing import accept_losses, choose_format, refuse_existing, write_dataset
from evalspec.model import Sample
from evalspec.runs.store.run_store import OWN_INPUTS

STRESS = "stress"
REVIEW_STATE = "review_state"
"""The metadata keys of exported stress triples: that they are such, and their state in the set."""


class Exported(Struct, frozen=True):
    """A dataset that was written. `warnings`: what was left out, and what the format cannot hold."""

    path: Path
    format: str
    samples: int
    warnings: tuple[Problem, ...]


def export(
    root: Path,
    destination: Path,
    by: str,
    *,
    to: str = "triples",
    lossy: bool = False,
    force: bool = False,
    stress: bool = False,
    warn: Callable[[Problem], object] = lambda _: None,
) -> Exported:
    """Write the accepted triples as a dataset in any format, with computed `reviewed_by` and `resolution`.

    For internal use: questions of customers are included while their grants are active. The set keeps a record of the
    export, so that `revoke` finds it. `warn`: called with each warning, even if nothing can be written.

    `stress`: write the triples for stress tests instead, which a model wrote and too few people have confirmed.

    Raises:
        InvalidInput: The set is invalid, there is no such triple, the destination exists or is an input, or data would
            be lost without `lossy`.
    """
    require_person(read_config(root), by)
    target = choose_format(to, "--to")
    refuse_existing(destination, force=force)
    refuse_inputs([destination], [*OWN_INPUTS, Input(root, "the gold set")])
    with hold(root):  # so that a customer who revokes meanwhile is in the record
        found = open_set(root)
        content, warnings = (_read_stress(found), ()) if stress else _read_accepted(found, warn)
        losses = accept_losses(target, content, root, lossy=lossy)
        for loss in losses:
            warn(loss)
        names = [found.entries[sample.id].reference for sample in content.samples]
        with nullcontext() if is_stream(destination) else recording(root, destination, target.name, by, names):
            written = write_dataset(target, content, destination, root)
    return Exported(destination, target.name, written.samples, (*warnings, *losses))


def _read_accepted(found: GoldSet, warn: Callable[[Problem], object]) -> tuple[DatasetContent, Sequence[Problem]]:
    data = load_dataset(Source(found.root, show(found.root)), "triples", spool)
    for warning in data.warnings:
        warn(warning)
    if data.problems:
        raise InvalidInput(data.problems)
    samples = [_add_reviews(sample, found) for sample in data.samples]
    if not samples:
        raise InvalidInput(Problem("no triple is accepted", "see: evalspec gold list", show(found.root)))
    return replace(data.content, samples=samples), data.warnings


def _add_reviews(sample: Sample, found: GoldSet) -> Sample:
    review_status = found.entries[sample.id].review_status
    more = {"reviewed_by": review_status.reviewed_by, "resolution": review_status.resolution}
    return replace(sample, metadata={**sample.metadata, **{key: value for key, value in more.items() if value}})


def _read_stress(found: GoldSet) -> DatasetContent:
    samples = [
        make_sample(
            entry.id, entry.triple, {**to_plain(entry.triple.metadata), STRESS: True, REVIEW_STATE: str(entry.state)}
        )
        for entry in found.entries.values()
        if entry.is_stress and entry.triple is not None
    ]
    if not samples:
        message = "the set has no triple that a model wrote and people have not confirmed"
        raise InvalidInput(Problem(message, "mark such triples with --meta generated_by=MODEL", show(found.root)))
    return DatasetContent(samples)


@contextmanager
def recording(
    root: Path, destination: Path, name: str, by: str, triples: Sequence[str], *, is_public: bool = False
) -> Iterator[None]:
    """Record an export in the set before it is written.

    One to the same place replaces the record. Until it is written, the record also has the triples of the older one,
    whose file is there.
    """
    path = os.path.relpath(destination.absolute(), root.absolute())
    values = {"path": Path(path).as_posix(), "format": name, "is_public": is_public, "by": by}
    made = Export.model_validate({**values, "at": find_today().isoformat(), "triples": list(triples)})
    record = root / EXPORTS / f"{compute_hash(made.path)[:8]}.yaml"
    older = [one for known, export in list_exports(root) if known == record for one in export.triples]
    write_record(record, {**to_plain(made), "triples": list(dict.fromkeys([*triples, *older]))})
    yield
    write_record(record, made)


def list_exports(root: Path) -> list[tuple[Path, Export]]:
    """Return each recorded export with the file of its record.

    Raises:
        InvalidInput: A record cannot be read.
    """
    return require_records(Export, root / EXPORTS)


def find_export(root: Path, made: Export) -> Path:
    """Return the path of an export."""
    return Path(os.path.normpath(root / made.path))


def shorten_export(root: Path, record: Path, made: Export, names: Collection[str]) -> None:
    """Take triples out of an exported dataset, and out of its record. One without any other triple is deleted.

    Raises:
        InvalidInput: The file is a link, no longer a dataset that evalspec reads, or has more than evalspec keeps.
    """
    destination = find_export(root, made)
    if destination.is_symlink():
        raise InvalidInput(Problem("the export is a symbolic link", "replace it with the file", show(destination)))
    if destination.exists():
        _shorten(destination, made, names)
    left = [one for one in made.triples if one.rpartition("@")[0] not in names]
    if left:
        write_record(record, {**to_plain(made), "triples": left})
    else:
        record.unlink()


def _shorten(destination: Path, made: Export, names: Collection[str]) -> None:
    if made.format == "triples" and destination.is_file():
        drop_triples(destination, names)  # its reader leaves out triples that are not accepted
        return
    data = load_dataset(Source(destination, show(destination)), made.format)
    if data.problems:
        raise InvalidInput(data.problems)
    if data.warnings:
        fix = "take the customer's triples out of the file, then run this again"
        raise InvalidInput(replace(warning, fix=fix) for warning in data.warnings)
    kept = tuple(sample for sample in data.samples if sample.id not in names)
    if kept:
        content = DatasetContent(kept, data.content.documents, data.content.defaults)
        write_dataset(choose_format(made.format, "format"), content, destination, destination)
    elif destination.is_dir():
        raise InvalidInput(Problem("only triples of this customer are in it", "delete the folder", show(destination)))
    else:
        destination.unlink()
