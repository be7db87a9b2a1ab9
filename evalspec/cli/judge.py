"""`evalspec judge`: how far a judge can be trusted."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.cli.compare import check_forms
from evalspec.cli.documents import emit_document, problem_document, render_document
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import json_option, option
from evalspec.cli.run_output import decide_exit_code, output_options, print_failures, write_output
from evalspec.cli.streams import emit, notify
from evalspec.cli.terminal_size import detect_terminal
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import STORE, RunStore

if TYPE_CHECKING:
    from evalspec.model.calibrations import AppliedCalibration, JudgeAnchors, JudgeCalibration, Stability
    from evalspec.reports.view.parts import View

_run_argument = click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
_metric_option = option("-m", "--metric", metavar="NAME", help="Only this metric.")


@click.group("judge", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Compare the judge of a run with people, and with itself.

    People's labels come from `evalspec label RUN --metric M --random 50`.

    \b
    Examples:
      evalspec judge calibrate latest --as main
      evalspec judge apply main latest
      evalspec judge stability latest
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("calibrate")
@_run_argument
@_metric_option
@option("--as", "name", metavar="NAME", help="Keep it in evals/calibrations/NAME.json, or in this file, for git.")
@option(
    "--anchors",
    type=click.IntRange(min=10),
    metavar="N",
    help="With --as: also keep N labelled replies, with their texts, on which later runs test whether the judge is the "
    "same. RUN needs three grades of each (rescore --judge-repeat 3).",
)
@json_option
@output_options("Also write it to a .html, .json or .md file; repeatable.")
def calibrate_command(
    run: str, metric: str | None, name: str | None, anchors: int | None, as_json: bool, outputs: Sequence[Path]
) -> ExitCode:
    """Show how well the judge of RUN (default: the latest) agrees with labels that were drawn and given blindly.

    For each judged metric: confusion at the threshold, sensitivity, specificity, bias and kappa with intervals, the
    best threshold, and each reply on which judge and people disagree.

    \b
    Examples:
      evalspec judge calibrate latest
      evalspec judge calibrate latest --metric faithfulness --as main -o judge.html
      evalspec judge calibrate latest --as main --anchors 50
    """
    from evalspec.curation.labels.calibrating import calibrate, choose_anchors
    from evalspec.reports.view.calibration import build_calibration_view

    check_forms(outputs)
    if anchors is not None and name is None:
        raise InvalidInput(Problem("anchors belong to a calibration", "add --as NAME", field="--anchors"))
    found = calibrate(run, metric=metric, store=STORE)
    if name is not None:
        _keep(run, name, found, None if anchors is None else choose_anchors(run, anchors, metric=metric, store=STORE))
    return _print(found, build_calibration_view, as_json, outputs)


@command.command("apply")
@click.argument("calibration", metavar="NAME")
@_run_argument
@json_option
def apply_command(calibration: str, run: str, as_json: bool) -> ExitCode:
    """Show the share of good replies in RUN (default: the latest), if its judge errs as in the calibration NAME.

    Also shows the specificity at which the limit is no longer met. It decides nothing, because nobody labelled RUN. A
    calibration of another judge, prompt or rubric is void.

    \b
    Example:
      evalspec judge apply main latest
    """
    from evalspec.curation.labels.calibrating import apply
    from evalspec.reports.view.calibration import build_application_view
    from evalspec.verdict.correction.calibration_file import read_calibration

    kept = read_calibration(_find_file(run, calibration))
    return _print(apply(kept, run, store=STORE), build_application_view, as_json)


@command.command("stability")
@_run_argument
@_metric_option
@json_option
def stability_command(run: str, metric: str | None, as_json: bool) -> ExitCode:
    """Show how much the judge's grades of one reply differ in RUN (default: the latest).

    RUN needs several grades of each reply: `evalspec rescore RUN --judge-repeat 3`. For each judged metric: flips at
    the threshold, the judge's part of the variance, and the repeats with which it has at most 10 % of that of the mean.

    \b
    Example:
      evalspec judge stability latest --metric faithfulness
    """
    from evalspec.curation.labels.calibrating import stability
    from evalspec.reports.view.calibration import build_stability_view

    return _print(stability(run, metric=metric, store=STORE), build_stability_view, as_json)


def _find_file(run: str, name: str) -> Path:
    """Return the file of a calibration: the named one, or that beside the manifest of the run."""
    from evalspec.runs.store.stored_run import open_run
    from evalspec.verdict.correction.calibration_file import calibration_path

    return calibration_path(open_run(RunStore(STORE).find(run)).manifest_path.parent, name)


def _keep(run: str, name: str, found: "JudgeCalibration", anchors: "JudgeAnchors | None") -> None:
    """Write a calibration for git, with its anchors.

    Raises:
        InvalidInput: The file is something else, or an input of the run.
        StoreError: It cannot be written.
    """
    from evalspec.base.output_files import refuse_inputs
    from evalspec.runs.store.files import store_errors
    from evalspec.runs.store.run_store import OWN_INPUTS
    from evalspec.verdict.correction.calibration_file import anchors_path, write_anchors, write_calibration

    path = _find_file(run, name)
    refuse_inputs([path], OWN_INPUTS, "--as")
    with store_errors(path):
        write_calibration(path, found)
        if anchors is not None:
            write_anchors(anchors_path(path), anchors)
    notify(f"wrote the calibration to {inert(str(path))}")
    if anchors is not None:
        notify(f"wrote replies with their texts to {inert(str(anchors_path(path)))}")


def _print(
    found: "JudgeCalibration | AppliedCalibration | Stability",
    build: Callable[[Any], "View"],
    as_json: bool,
    outputs: Sequence[Path] = (),
) -> ExitCode:
    """Write a document to `outputs` and print it. Return the exit code."""
    from msgspec import to_builtins

    from evalspec.reports.terminal import Amount, render_view_terminal

    document, view = to_builtins(found), build(found)
    written = [write_output(path, partial(_render, path, document, view)) for path in outputs]
    failures = [failure for failure in written if failure is not None]
    code = decide_exit_code(ExitCode.OK, failures)
    if as_json:
        errors = {"errors": [*map(problem_document, failures)]} if failures else {}
        emit_document({**document, **errors}, code)
    else:
        width, color = detect_terminal()
        emit(render_view_terminal(view, width=width, color=color, amount=Amount.FULL), nl=False, color=color)
    print_failures(failures)
    return code


def _render(path: Path, document: dict[str, Any], view: "View") -> str:
    suffix = path.suffix.casefold()
    if suffix == ".md":
        from evalspec.reports.markdown import render_view_markdown

        return render_view_markdown(view)
    if suffix == ".html":
        from evalspec.reports.html_report.document import render_view_html

        return render_view_html(view, "Calibration of the judge")
    return f"{render_document(document)}\n"
