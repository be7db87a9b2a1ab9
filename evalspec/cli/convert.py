"""`evalspec convert`: convert a dataset to another format, without loss unless `--lossy` is given."""

from pathlib import Path

import click

from evalspec.api.conversion import Conversion, convert_dataset
from evalspec.base.errors import ExitCode
from evalspec.base.output_files import is_standard_output
from evalspec.cli.documents import problem_document, render_document
from evalspec.cli.options import (
    field_option,
    json_option,
    option,
    render_written,
    retrieval_gt_1d_option,
    sample_size_option,
    seed_option,
    stratify_option,
    warn,
    where_option,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, notify_lines
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.selection import parse_selection
from evalspec.model.conventions import FlatIds

_PATH = click.Path(path_type=Path)


@click.command("convert", cls=OrderedCommand)
@click.argument("source", metavar="SRC", type=_PATH)
@click.argument("destination", metavar="DST", type=_PATH)
@option("--to", "to_name", metavar="FORMAT", required=True, help="Format of DST; an unknown name lists all formats.")
@option("--from", "from_name", metavar="FORMAT", help="Format of SRC; detected from its content by default.")
@field_option
@option("--corpus", type=_PATH, metavar="FILE", help="Documents of SRC, if they are in a separate file.")
@retrieval_gt_1d_option
@where_option
@sample_size_option
@seed_option
@stratify_option
@option("--lossy", is_flag=True, help="Write even if DST cannot represent everything; losses are listed.")
@option("--force", is_flag=True, help="Replace DST if it exists.")
@trust_options("source", "corpus")
@json_option
def command(
    source: Path,
    destination: Path,
    to_name: str,
    from_name: str | None,
    fields: tuple[tuple[str, str], ...],
    corpus: Path | None,
    retrieval_gt_1d: FlatIds | None,
    where: tuple[str, ...],
    sample_size: int | None,
    seed: int,
    stratify: tuple[str, ...],
    lossy: bool,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Read the dataset SRC and write it as DST in another format.

    If DST cannot represent everything, the losses are listed and nothing is written, unless --lossy is given. DST is a
    folder if its format has several files. It may be a pipe or /dev/stdout, but never SRC itself.

    \b
    Examples:
      evalspec convert qa.parquet evals/qa.jsonl --to jsonl --lossy
      evalspec convert evals/rag.jsonl collection --to trec
      evalspec convert tickets.csv qa.jsonl --to jsonl --field input=subject
      evalspec convert rag.jsonl hard.jsonl --to jsonl --where level=hard
    """
    named = Source(source, str(source), corpus, str(corpus) if corpus else "", retrieval_gt_1d, dict(fields))
    selection = parse_selection(where=where, size=sample_size, seed=seed, stratify=stratify)
    done = convert_dataset(
        named, destination, to_name, from_name, selection=selection, lossy=lossy, force=force, warn=warn
    )
    told = _document(done) if as_json else _sentence(done)
    notify_lines(told) if is_standard_output(destination) else emit(told)
    return ExitCode.OK


def _sentence(done: Conversion) -> str:
    return render_written(done.samples, done.available, done.documents, done.path)


def _document(done: Conversion) -> str:
    document = {
        "from": done.source_format,
        "to": done.target_format,
        "path": str(done.path),
        "samples": done.samples,
        "available": done.available,
        "documents": done.documents,
        "losses": [loss.message for loss in done.losses],
        "warnings": [*map(problem_document, done.warnings)],
    }
    return render_document(document)
