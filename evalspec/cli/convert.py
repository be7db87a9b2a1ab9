"""`evalspec convert`: a dataset from one format into another, with nothing lost unless that is asked for."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from evalspec.cli.failure import problem_document
from evalspec.cli.options import json_option, option, warn
from evalspec.datasets.base import DATASETS, DatasetContent, DatasetFormat, Source, Written
from evalspec.datasets.load import LoadedDataset, load_dataset
from evalspec.errors import ExitCode, InvalidInput, Problem

_FILE_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".parquet", ".tsv", ".txt", ".gz")
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

    What DST cannot hold is listed and refused, unless --lossy. DST is a folder where its format has several files.

    \b
    Examples:
      evalspec convert qa.parquet evals/qa.jsonl --to jsonl --lossy
      evalspec convert evals/rag.jsonl collection --to trec
    """
    target = _find_target(to_name)
    if destination.exists() and not force:
        raise InvalidInput(Problem("exists already", "choose another name, or --force replaces it", str(destination)))
    corpus_shown_as = str(corpus) if corpus else ""
    data = load_dataset(Source(source, str(source), corpus, corpus_shown_as, retrieval_gt_1d), from_name)
    for warning in data.warnings:
        warn(warning)
    if data.problems:
        raise InvalidInput(data.problems)
    with _unencodable_text_told(source):
        losses = _find_losses(target, data.content, source)
        if losses and not lossy:
            raise InvalidInput([replace(loss, fix="--lossy writes the rest") for loss in losses])
        for loss in losses:
            warn(loss)
        written = _write(target, data.content, destination)
    told = _document(data, written, target, destination, losses) if as_json else _sentence(data, written, destination)
    click.echo(told)
    return ExitCode.OK


def _find_target(name: str) -> DatasetFormat:
    target = DATASETS.find(name)
    if target is None:
        raise InvalidInput(Problem(f"unknown dataset format '{name}'", DATASETS.hint(name), field="--to"))
    return target


def _find_losses(target: DatasetFormat, content: DatasetContent, source: Path) -> list[Problem]:
    return [Problem(f"{target.name} cannot hold {loss}", file=str(source)) for loss in target.find_losses(content)]


def _write(target: DatasetFormat, content: DatasetContent, destination: Path) -> Written:
    """Write beside the destination and put it in place whole; what stood there before stays until then."""
    try:
        with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".evalspec-convert-") as folder:
            written = Path(folder) / "new" / destination.name
            written.parent.mkdir()
            counts = target.write(content, written)
            _refuse_misplaced(target, written, destination)
            _put_in_place(written, destination, aside=Path(folder) / "old")
    except OSError as error:
        fix = "create its folder first" if isinstance(error, FileNotFoundError) else ""
        raise InvalidInput(Problem(f"cannot be written: {error.strerror}", fix, str(destination))) from error
    return counts


def _refuse_misplaced(target: DatasetFormat, written: Path, destination: Path) -> None:
    """A folder called like a file is a slip, and what stands in an old folder may be more than what replaces it."""
    if written.is_dir() and destination.suffix in _FILE_SUFFIXES:
        fix = f"name a folder, for example {destination.with_suffix('')}"
        raise InvalidInput(Problem(f"{target.name} is a folder of several files", fix, str(destination)))
    if destination.is_dir():
        others = sorted(_names_in(destination) - (_names_in(written) if written.is_dir() else set()))
        if others:
            message = f"--force would delete {', '.join(others[:5])}{' …' if others[5:] else ''}"
            raise InvalidInput(Problem(message, "name another folder, or move them away", str(destination)))


def _put_in_place(written: Path, destination: Path, aside: Path) -> None:
    """Rename into place; a folder cannot be renamed over, so the old one steps aside first."""
    if not destination.is_dir():
        written.replace(destination)
        return
    destination.rename(aside)
    try:
        written.rename(destination)
    except OSError:
        aside.rename(destination)
        raise


def _names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@contextmanager
def _unencodable_text_told(source: Path) -> Iterator[None]:
    """JSON can name half a character ("\\ud83d"), which no other file can hold."""
    try:
        yield
    except UnicodeEncodeError as error:
        message = f"a text holds half of a character pair (\\u{ord(error.object[error.start]):04x})"
        raise InvalidInput(Problem(message, "mend the text", str(source))) from error


def _sentence(data: LoadedDataset, written: Written, destination: Path) -> str:
    of_all = f" of {len(data.samples)}" if written.samples < len(data.samples) else ""
    documents = f" and {written.documents} documents" if written.documents else ""
    return f"wrote {written.samples}{of_all} samples{documents} to {destination}"


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
