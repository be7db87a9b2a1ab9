"""Conversion of datasets between formats."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import LoadedDataset, load_dataset
from evalspec.inputs.datasets.selection import Selection, select
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.datasets.writing import accept_losses, choose_format, refuse_existing, write_dataset
from evalspec.runs.store.run_store import OWN_INPUTS

_EVERYTHING = Selection()


class Conversion(Struct, frozen=True):
    """Result of a conversion. `available`: number of samples in the source. `documents`: None without a corpus.

    `losses`: what the target format cannot represent. `warnings`: problems of the source that are not errors.
    """

    source_format: str
    target_format: str
    path: Path
    samples: int
    available: int
    documents: int | None
    losses: Sequence[Problem]
    warnings: Sequence[Problem]


def convert_dataset(
    source: Source,
    destination: Path,
    to: str,
    given: str | None = None,
    *,
    selection: Selection = _EVERYTHING,
    lossy: bool = False,
    force: bool = False,
    warn: Callable[[Problem], object] = lambda _: None,
) -> Conversion:
    """Read a dataset and write it in another format. `given`: format of the source, None to detect it.

    `selection`: the samples to write; all documents are written. `warn`: called with each warning about the source and
    each loss, even if nothing can be written.

    Raises:
        InvalidInput: The format is unknown, the source is invalid, the destination exists or is an input, or data
            would be lost without `lossy`, or no sample is selected.
    """
    target = choose_format(to, "--to")
    refuse_existing(destination, force=force)
    data = load_dataset(source, given, spool)
    for warning in data.warnings:
        warn(warning)
    if data.problems:
        raise InvalidInput(data.problems)
    files = (*data.files, *([source.corpus] if source.corpus else []))
    inputs = [Input(source.path, "SRC"), *(Input(file, "a file of SRC") for file in files)]
    refuse_inputs([destination], [*OWN_INPUTS, *inputs], "DST")
    available = len(data.content.samples)
    data = _select(data, selection)
    losses = accept_losses(target, data.content, source.path, lossy=lossy)
    for loss in losses:
        warn(loss)
    written = write_dataset(target, data.content, destination, source.path)
    return Conversion(
        source_format=data.format,
        target_format=target.name,
        path=destination,
        samples=written.samples,
        available=available,
        documents=None if data.content.documents is None else written.documents,
        losses=losses,
        warnings=data.warnings,
    )


def _select(data: LoadedDataset, selection: Selection) -> LoadedDataset:
    samples = data.content.samples
    selection.check_keys(lambda: samples)
    kept = select(samples, selection)
    if samples and not kept:
        raise InvalidInput(Problem("no sample is selected", "change --where", data.shown_as, field="--where"))
    return replace(data, content=replace(data.content, samples=kept))
