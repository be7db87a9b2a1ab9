"""Conversion of datasets between formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.datasets.base import DatasetFormat, Source
from evalspec.datasets.load import LoadedDataset, load_dataset
from evalspec.datasets.spooling import spool
from evalspec.datasets.writing import choose_format, list_losses, write_dataset
from evalspec.errors import InvalidInput, Problem
from evalspec.output_files import Input, is_stream, refuse_inputs
from evalspec.store.run_store import OWN_INPUTS


@dataclass(frozen=True, slots=True)
class Conversion:
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
    lossy: bool = False,
    force: bool = False,
    warn: Callable[[Problem], object] = lambda _: None,
) -> Conversion:
    """Read a dataset and write it in another format. `given`: format of the source, None to detect it.

    `warn`: called with each warning about the source and each loss, even if nothing can be written.

    Raises:
        InvalidInput: The format is unknown, the source is invalid, the destination exists or is an input, or data
            would be lost without `lossy`.
    """
    target = choose_format(to, "--to")
    if destination.exists() and not force and not is_stream(destination):
        raise InvalidInput(Problem("already exists", "choose another name, or pass --force", str(destination)))
    data = load_dataset(source, given, spool)
    for warning in data.warnings:
        warn(warning)
    if data.problems:
        raise InvalidInput(data.problems)
    files = (*data.files, *([source.corpus] if source.corpus else []))
    inputs = [Input(source.path, "SRC"), *(Input(file, "a file of SRC") for file in files)]
    refuse_inputs([destination], [*OWN_INPUTS, *inputs], "DST")
    losses = _list_losses(data, target, source.path, lossy=lossy)
    for loss in losses:
        warn(loss)
    written = write_dataset(target, data.content, destination, source.path)
    return Conversion(
        source_format=data.format,
        target_format=target.name,
        path=destination,
        samples=written.samples,
        available=len(data.content.samples),
        documents=None if data.content.documents is None else written.documents,
        losses=losses,
        warnings=data.warnings,
    )


def _list_losses(data: LoadedDataset, target: DatasetFormat, source: Path, *, lossy: bool) -> list[Problem]:
    losses = list_losses(target, data.content, source)
    if losses and not lossy:
        raise InvalidInput([replace(loss, fix="pass --lossy to write the rest") for loss in losses])
    return losses
