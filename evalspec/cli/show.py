"""`evalspec show`: one sample of a stored run, with everything that is known of it."""

import shlex
from collections.abc import Sequence

import click

from evalspec.api.runs import read_stored
from evalspec.base.errors import ExitCode, InvalidInput
from evalspec.base.foreign_text import inert
from evalspec.base.registry import near_miss
from evalspec.cli.documents import emit_document
from evalspec.cli.name_completion import complete_run_or_sample
from evalspec.cli.options import json_option, option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.run_output import Shape, with_shape
from evalspec.cli.streams import emit
from evalspec.cli.terminal_size import detect_terminal
from evalspec.model import DatasetResult, Run, SampleResult
from evalspec.reports.rows import AttemptRow, read_attempts
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run


@click.command("show", cls=OrderedCommand)
@click.argument("names", nargs=-1, required=True, metavar="[RUN] SAMPLE", shell_complete=complete_run_or_sample)
@option("--dataset", metavar="NAME", help="The dataset of the sample, if several have one with this id.")
@with_shape(
    option("-v", "--verbose", is_flag=True, help="Do not cut passages."),
    option("-q", "--quiet", is_flag=True, help="Print the id and the state of the sample on one line."),
    json_option,
)
def command(names: Sequence[str], dataset: str | None, shape: Shape) -> ExitCode:
    """Show SAMPLE of RUN (default: the latest): question, calls of tools, answers, contexts, scores.

    The start of an id is enough. Words in which the answer and the expected one differ are marked. With -v, passages
    are not cut; -q prints one line.

    \b
    Examples:
      evalspec show refund-policy
      evalspec show main refund-policy -v
      evalspec show refund-policy --json | jq '.attempts[0].scores'
    """
    if len(names) > 2:
        raise click.UsageError("at most a run and a sample can be named")
    stored = open_run(RunStore(STORE).find(names[0] if len(names) > 1 else LATEST_NAME))
    run = read_stored(stored)
    found, result = _find(run, names[-1], dataset)
    attempts = _read(run, stored, found, result)
    emit_sample(run, found, result, attempts, shape)
    return ExitCode.OK


def emit_sample(
    run: Run, dataset: DatasetResult, result: SampleResult, attempts: Sequence[AttemptRow], shape: Shape
) -> None:
    """Print a sample."""
    if shape.as_json:
        from evalspec.reports.attempt_lines import describe_attempt

        documents = [describe_attempt(run, row) for row in attempts]
        emit_document({"runId": run.id, "dataset": dataset.name, "attempts": documents})
        return
    from evalspec.reports.terminal import render_view_terminal
    from evalspec.reports.view.parts import View
    from evalspec.reports.view.sample import build_sample_view

    width, color = detect_terminal()
    view = build_sample_view(run, dataset, result, attempts, is_full=shape.verbose)
    shown = View(view.headline) if shape.quiet else view
    emit(render_view_terminal(shown, width=width, color=color), nl=False, color=color)


def _find(run: Run, sample: str, dataset: str | None) -> tuple[DatasetResult, SampleResult]:
    """Return a sample and its dataset. `sample`: its id, as it is or as it is shown, or the start of it.

    Raises:
        InvalidInput: No dataset, or several, have such a sample.
    """
    datasets = [one for one in run.datasets if dataset in (None, one.name)]
    if not datasets:
        fix = near_miss(dataset or "", [one.name for one in run.datasets])
        raise InvalidInput(f"run {run.id} has no dataset '{dataset}'", fix)
    known = [(one, result) for one in datasets for result in one.samples]
    ids = [result.id for _, result in known]
    shown = {inert(id): id for id in ids}
    chosen = sample if sample in ids else shown.get(sample) or _complete(sample, ids, run)
    found = [entry for entry in known if entry[1].id == chosen]
    if len(found) > 1:
        named = ", ".join(one.name for one, _ in found)
        raise InvalidInput(
            f"'{sample}' is a sample of several datasets: {named}", f"add --dataset {shlex.quote(found[0][0].name)}"
        )
    return found[0]


def _complete(start: str, ids: Sequence[str], run: Run) -> str:
    """Return the only id that begins so.

    Raises:
        InvalidInput: None does, or several do.
    """
    begun = list(dict.fromkeys(id for id in ids if start and id.startswith(start)))
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise InvalidInput(
            f"{len(begun)} samples begin with '{start}'", f"write more of the id, such as {shlex.quote(begun[0])}"
        )
    raise InvalidInput(f"run {run.id} has no sample '{start}'", near_miss(start, ids))


def _read(run: Run, stored: StoredRun, dataset: DatasetResult, result: SampleResult) -> list[AttemptRow]:
    """Return the attempts at a sample with their texts, without reading those of other samples."""
    from msgspec.structs import replace

    wanted = {(dataset.name, result.id)}
    alone = replace(run, datasets=(replace(dataset, samples=(result,)),))
    return list(read_attempts(alone, lambda: stored.read_exchanges(wanted)))
