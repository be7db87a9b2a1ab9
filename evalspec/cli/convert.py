"""`evalspec convert`: a dataset from one format into another, with nothing lost unless that is asked for."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from evalspec.cli.failure import problem_document
from evalspec.cli.options import json_option, option, warn
from evalspec.cli.run_output import OWN_INPUTS, refuse_inputs
from evalspec.cli.streams import emit, notify
from evalspec.cli.trust_options import trust_options
from evalspec.datasets.base import DatasetFormat, Source, Written
from evalspec.datasets.load import LoadedDataset, load_dataset
from evalspec.datasets.spooling import open_spool
from evalspec.datasets.writing import find_losses, find_target, write_dataset
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.output_files import Input, is_standard_output, is_stream
from evalspec.reporters.wording import counted

_PATH = click.Path(path_type=Path)


@click.command("convert")
@click.argument("source", metavar="SRC", type=_PATH)
@click.argument("destination", metavar="DST", type=_PATH)
@option("--to", "to_name", metavar="FORMAT", required=True, help="Format of DST; a wrong name lists them all.")
@option("--from", "from_name", metavar="FORMAT", help="Format of SRC; told by its content where not given.")
@option("--corpus", type=_PATH, metavar="FILE", help="The documents of SRC, where they have a file of their own.")
@option("--retrieval-gt-1d", type=click.Choice(["and", "or"]), help="AutoRAG: all ids of a flat list, or any?")
@option("--lossy", is_flag=True, help="Write even if DST cannot hold everything; what is lost is told.")
@option("--force", is_flag=True, help="Replace DST if it exists.")
@trust_options("source", "corpus")
@json_option
def command(
    source: Path,
    destination: Path,
    to_name: str,
    from_name: str | None,
    corpus: Path | None,
    retrieval_gt_1d: Literal["and", "or"] | None,
    lossy: bool,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Read the dataset SRC and write it as DST in another format.

    What DST cannot hold is listed and refused, unless --lossy. DST is a folder where its format has several files, and
    never SRC itself. It may be a pipe, or /dev/stdout.

    \b
    Examples:
      evalspec convert qa.parquet evals/qa.jsonl --to jsonl --lossy
      evalspec convert evals/rag.jsonl collection --to trec
    """
    target = find_target(to_name, "--to")
    if destination.exists() and not force and not is_stream(destination):
        raise InvalidInput(Problem("exists already", "choose another name, or --force replaces it", str(destination)))
    named = Source(source, str(source), corpus, str(corpus) if corpus else "", retrieval_gt_1d)
    with open_spool() as collect:
        data = load_dataset(named, from_name, collect)
        files = (*data.files, *([corpus] if corpus else []))
        inputs = [Input(source, "SRC"), *(Input(file, "a file of SRC") for file in files)]
        refuse_inputs([destination], [*OWN_INPUTS, *inputs], "DST")
        losses = _accept_losses(data, target, source, lossy=lossy)
        written = write_dataset(target, data.content, destination, source)
        told = (
            _document(data, written, target, destination, losses) if as_json else _sentence(data, written, destination)
        )
    notify(told) if is_standard_output(destination) else emit(told)
    return ExitCode.OK


def _accept_losses(data: LoadedDataset, target: DatasetFormat, source: Path, *, lossy: bool) -> list[Problem]:
    """What the target cannot hold, told as warnings.

    Raises:
        InvalidInput: the dataset is wrong, or something would be lost that may not be.
    """
    for warning in data.warnings:
        warn(warning)
    if data.problems:
        raise InvalidInput(data.problems)
    losses = find_losses(target, data.content, source)
    if losses and not lossy:
        raise InvalidInput([replace(loss, fix="--lossy writes the rest") for loss in losses])
    for loss in losses:
        warn(loss)
    return losses


def _sentence(data: LoadedDataset, written: Written, destination: Path) -> str:
    of_all = f" of {len(data.content.samples)}" if written.samples < len(data.content.samples) else ""
    documents = f" and {counted(written.documents, 'document')}" if written.documents else ""
    noun = "sample" if len(data.content.samples) == 1 else "samples"
    return f"wrote {written.samples}{of_all} {noun}{documents} to {destination}"


def _document(
    data: LoadedDataset, written: Written, target: DatasetFormat, destination: Path, losses: Sequence[Problem]
) -> str:
    document: dict[str, Any] = {
        "schemaVersion": 1,
        "exitCode": int(ExitCode.OK),
        "from": data.format,
        "to": target.name,
        "path": str(destination),
        "samples": written.samples,
        "documents": None if data.content.documents is None else written.documents,
        "losses": [loss.message for loss in losses],
        "warnings": [problem_document(warning) for warning in data.warnings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
