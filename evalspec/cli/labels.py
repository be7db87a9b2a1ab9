"""`evalspec labels`: list, export, import and compare what people say about runs."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted, name_some, pluralize
from evalspec.cli.documents import emit_document
from evalspec.cli.labeller import find_labeller
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import json_option, person_option
from evalspec.cli.streams import emit, notify
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Label, LabelUse
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import STORE

_history_option = click.option("--history", is_flag=True, help="Include labels that were replaced or withdrawn.")


@click.group("labels", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List, export, import and compare labels: what people say about the replies and scores of a run.

    `evalspec label RUN` records labels. The names of runs are something else: `evalspec runs label`.

    \b
    Examples:
      evalspec labels stats latest
      evalspec labels export latest -o labels.csv
      evalspec labels import labels.csv
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("list")
@click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
@_history_option
@person_option
@json_option
def list_command(run: str, history: bool, person: str | None, as_json: bool) -> ExitCode:
    """List the labels of RUN (default: the latest). You see others' labels on what you have labelled yourself.

    \b
    Example:
      evalspec labels list latest --as ada
    """
    from evalspec.curation.labels.listing import list_labels

    viewer = find_labeller(person)
    every = list_labels(run, history=history)
    shown = list_labels(run, viewer=viewer, history=history)
    if as_json:
        from msgspec import to_builtins

        emit_document({"labels": to_builtins(shown), "hidden": len(every) - len(shown)})
    else:
        for line in _render_rows(shown):
            emit(line)
    if len(every) > len(shown):
        hidden = counted(len(every) - len(shown), "label")
        notify(f"{hidden} of others on what {inert(viewer)} has not labelled: hidden, because labels are blind")
    elif not shown:
        _say_none(run)
    return ExitCode.OK


def _say_none(*runs: str) -> None:
    """Print that nothing was labelled on runs, and on which others something was."""
    from evalspec.curation.labels.files import list_labelled_runs

    others = name_some(list_labelled_runs(STORE)[::-1])
    kept = f"; labels are kept with the run that people looked at, here {others}" if others else ""
    notify(f"no labels were given on {inert(', '.join(runs))}{kept}")


def _render_rows(labels: Sequence[Label]) -> list[str]:
    rows = [[inert(part) for part in _list_cells(label)] for label in labels]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _list_cells(label: Label) -> list[str]:
    attempt = f" attempt {label.attempt}" if label.attempt > 1 else ""
    shown = "" if label.shown_value is None else f"{label.shown_value:.4g}"
    value = "" if label.value is None else f" ({label.value:.4g})"
    verdict = f"{label.verdict}{value}"
    return [
        f"{label.dataset}: {label.sample}{attempt}",
        label.metric or "reply",
        shown,
        verdict,
        label.labeller,
        label.note or "",
    ]


@command.command("use")
@click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
@click.option("-m", "--metric", required=True, metavar="NAME", help="The metric that people scored.")
@click.option(
    "--for",
    "purpose",
    required=True,
    type=click.Choice([one.value for one in LabelUse]),
    help="What the labels helped to choose.",
)
def use_command(run: str, metric: str, purpose: str) -> ExitCode:
    """Record that the blind labels on RUN (default: the latest) have helped to choose a prompt or a threshold.

    They no longer correct or calibrate the metric: what was chosen by them looks better on them than it is.

    \b
    Example:
      evalspec labels use latest --metric tone --for threshold
    """
    from evalspec.curation.labels.labelling import use_labels

    used = use_labels(run, metric, purpose)
    notify(f"{counted(len(used), 'label')} of {inert(metric)} used to choose a {purpose}")
    if chosen := sum(one.draw.kind is DrawKind.CHOSEN for one in used):
        said = pluralize(chosen, "was not drawn at random, so it", "were not drawn at random, so they")
        notify(f"{chosen:,} of them {said} corrected nothing before either")
    command = f"evalspec label {inert(run)} --metric {shlex.quote(inert(metric))} --random 50"
    notify(f"to correct the judge, draw others: {command}")
    return ExitCode.OK


@command.command("export")
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="PATH", help="File to write, .jsonl or .csv.")
@click.option("--force", is_flag=True, help="Replace a file with something else.")
@_history_option
def export_command(runs: Sequence[str], output: Path | None, history: bool, force: bool) -> ExitCode:
    """Write the labels of RUN (default: the latest) as JSON Lines or CSV. Without -o, print them as JSON Lines.

    The file has everybody's labels. To keep yours blind, label first.

    \b
    Examples:
      evalspec labels export latest -o labels.csv
      evalspec labels export latest main --history -o labels.jsonl
    """
    from evalspec.curation.labels.exchanging import JSONL, export_labels, render_labels
    from evalspec.curation.labels.listing import list_labels

    names = runs or (LATEST_NAME,)
    if output is None:
        every = [label for run in names for label in list_labels(run, history=history)]
        emit(render_labels(every, JSONL).decode(), nl=False)
        if not every:
            _say_none(*names)
        return ExitCode.OK
    count = export_labels(output, names, history=history, force=force)
    notify(f"wrote {counted(count, 'label')} to {inert(str(output))}")
    if not count:
        _say_none(*names)
    return ExitCode.OK


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def import_command(file: Path, as_json: bool) -> ExitCode:
    """Add the labels of FILE, .jsonl or .csv: all of them, or none if a line is invalid.

    Labels that are there already are left out. A line needs run, dataset, sample, verdict and labeller, and for a
    score its metric. Without replyDigest, it is about the reply and the score that the stored run has.

    \b
    Example:
      evalspec labels import labels.csv
    """
    from evalspec.curation.labels.exchanging import import_labels

    done = import_labels(file)
    if as_json:
        emit_document({"added": dict(done.added), "known": done.known})
    known = f", {done.known:,} known already" if done.known else ""
    notify(f"added {counted(sum(done.added.values()), 'label')}{known}")
    return ExitCode.OK


@command.command("stats")
@click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
@json_option
def stats_command(run: str, as_json: bool) -> ExitCode:
    """Show how people agree with each other about RUN, and how often they agree with its metrics.

    Labels of other runs count where reply, metric, judge and score are equal. Labels on the same reply with another
    judge or score do not; they are counted as reusable.

    \b
    Example:
      evalspec labels stats latest
    """
    from evalspec.curation.labels.measuring import measure_labels

    found = measure_labels(run, store=STORE)
    if as_json:
        from msgspec import to_builtins

        emit_document(to_builtins(found))
        return ExitCode.OK
    from evalspec.cli.terminal_size import detect_terminal
    from evalspec.reports.terminal import render_view_terminal
    from evalspec.reports.view.labels import build_labels_view

    width, color = detect_terminal()
    emit(render_view_terminal(build_labels_view(found), width=width, color=color), nl=False, color=color)
    return ExitCode.OK
