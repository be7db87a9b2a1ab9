"""`evalspec gold stats` and `calibrate`: how well reviewers agree, and what the set lacks."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting, note_option, set_option
from evalspec.cli.options import json_option
from evalspec.cli.streams import emit, notify
from evalspec.curation.gold.calibration import calibrate
from evalspec.curation.gold.curation import stats
from evalspec.curation.gold.files import show, to_plain
from evalspec.curation.gold.gold_set import find_set


@click.command("stats")
@set_option
@json_option
def stats_command(folder: Path | None, as_json: bool) -> ExitCode:
    """Show how well reviewers agree, who flags and is flagged, how disputes end, and what the set lacks.

    \b
    Example:
      evalspec gold stats --set evals/gold/help
    """
    found = stats(find_set(folder))
    if as_json:
        from msgspec import to_builtins

        emit_document(to_builtins(found))
        return ExitCode.OK
    from evalspec.cli.terminal_size import detect_terminal
    from evalspec.reports.terminal import render_view_terminal
    from evalspec.reports.view.curation import build_curation_view

    width, color = detect_terminal()
    emit(render_view_terminal(build_curation_view(found), width=width, color=color), nl=False, color=color)
    return ExitCode.OK


@click.command("calibrate")
@click.argument("name", metavar="NAME")
@note_option
@acting
def calibrate_command(name: str, note: str | None, root: Path, by: str, as_json: bool) -> ExitCode:
    """Record that you talked to NAME about what to flag. Their own baseline restarts, and alarms about them end.

    \b
    Example:
      evalspec gold calibrate cleo --note "A rounded number is not overstated."
    """
    recorded = calibrate(root, name, by, note=note)
    if as_json:
        emit_document({"file": show(recorded.path), **to_plain(recorded.session)})
    session = recorded.session
    outcomes = f"{counted(session.reviewed, 'blind review')} and {counted(session.written, 'reviewed triple')}"
    notify(f"recorded {show(recorded.path)}: the baseline of {session.person} restarts after {outcomes}")
    return ExitCode.OK
