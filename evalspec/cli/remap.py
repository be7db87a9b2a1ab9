"""`evalspec remap`: carry the ground truth of a dataset over to a re-chunked corpus."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.output_files import Input, is_standard_output, is_stream, refuse_inputs
from evalspec.base.plural import counted
from evalspec.cli.documents import problem_document, render_document
from evalspec.cli.options import (
    json_option,
    min_overlap_option,
    option,
    render_written,
    retrieval_gt_1d_option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, notify_lines
from evalspec.cli.trust_options import trust_options
from evalspec.curation.remap import report
from evalspec.curation.remap.carrying import Remapped, load_and_remap
from evalspec.inputs.datasets.base import Written
from evalspec.inputs.datasets.writing import choose_format, list_losses, write_dataset
from evalspec.model.conventions import FlatIds
from evalspec.runs.store.run_store import OWN_INPUTS

_PATH = click.Path(path_type=Path)
_OTHER_FORMAT = "choose another format with --to (jsonl supports groups), or use --lossy to write the rest"


@click.command("remap", cls=OrderedCommand)
@click.argument("old", metavar="OLD_CORPUS", type=_PATH)
@click.argument("new", metavar="NEW_CORPUS", type=_PATH)
@click.argument("dataset", metavar="DATASET", type=_PATH)
@option("-o", "--output", "destination", type=_PATH, metavar="DST", help="Output path; without it, nothing is written.")
@option("--to", "to_name", metavar="FORMAT", help="Format of DST; by default, that of DATASET.")
@min_overlap_option
@retrieval_gt_1d_option
@option("--lossy", is_flag=True, help="Write even if ground truth cannot be carried over; losses are listed.")
@trust_options("old", "new", "dataset")
@json_option
def command(
    old: Path,
    new: Path,
    dataset: Path,
    destination: Path | None,
    to_name: str | None,
    min_overlap: float,
    retrieval_gt_1d: FlatIds | None,
    lossy: bool,
    as_json: bool,
) -> ExitCode:
    """Carry the ground truth of DATASET from the chunks of OLD_CORPUS over to those of NEW_CORPUS.

    Chunks are matched by file, page and span (start_end_idx), otherwise by text. A relevant chunk without a new chunk
    that overlaps it enough is an error, unless --lossy is given.

    \b
    Examples:
      evalspec remap old.parquet new.parquet qa.parquet  # try it, write nothing
      evalspec remap old.jsonl new.jsonl evals/rag.jsonl -o evals/rag-2.jsonl
    """
    if to_name is not None:
        choose_format(to_name, "--to")
    if destination is not None and destination.exists() and not is_stream(destination):
        raise InvalidInput(Problem("already exists", "choose another name", str(destination)))
    if destination is not None:
        inputs = [Input(old, "OLD_CORPUS"), Input(new, "NEW_CORPUS"), Input(dataset, "DATASET")]
        refuse_inputs([destination], [*OWN_INPUTS, *inputs])
    remapped = load_and_remap(old, new, dataset, min_overlap, retrieval_gt_1d)
    target = choose_format(to_name or remapped.data.format, "--to")
    notes = [*remapped.warnings, *report.list_notes(remapped)]
    warn_all(notes)
    losses = [
        *_refused_unless(lossy, report.list_losses(remapped), "--lossy writes what is left"),
        *_refused_unless(lossy, list_losses(target, remapped.content, dataset), _OTHER_FORMAT),
    ]
    warn_all(losses)
    written = write_dataset(target, remapped.content, destination, dataset) if destination else None
    if as_json:
        told = _document(remapped, target.name, written, destination, [*notes, *losses])
    else:
        told = f"{report.render_remapping(remapped)}\n\n{_sentence(remapped, written, destination)}"
    notify_lines(told) if destination and is_standard_output(destination) else emit(told)
    return ExitCode.OK


def _refused_unless(lossy: bool, losses: Sequence[Problem], fix: str) -> Sequence[Problem]:
    if losses and not lossy:
        raise InvalidInput([replace(loss, fix=f"{loss.fix}, or {fix}" if loss.fix else fix) for loss in losses])
    return [replace(loss, fix="") for loss in losses]


def _sentence(remapped: Remapped, written: Written | None, destination: Path | None) -> str:
    total = len(remapped.data.samples)
    if written is None or destination is None:
        return f"{counted(total, 'sample')}; nothing is written without -o"
    return render_written(written.samples, total, written.documents, destination)


def _document(
    remapped: Remapped, target: str, written: Written | None, destination: Path | None, notes: Sequence[Problem]
) -> str:
    document = {
        "from": remapped.data.format,
        "to": target,
        "path": str(destination) if destination else None,
        "samples": written.samples if written else None,
        "documents": written.documents if written and remapped.content.documents is not None else None,
        **report.build_document(remapped),
        "warnings": [*map(problem_document, notes)],
    }
    return render_document(document)
