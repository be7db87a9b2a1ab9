"""What a command that has a finished Run does with it: prints it, and writes the reports that were asked for."""

import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.cli.failure import CommandFailed
from evalspec.cli.options import option
from evalspec.errors import ExitCode, Problem
from evalspec.records import Run
from evalspec.reporters.base import Reporter, Transcripts, reporter_for
from evalspec.reporters.json_report import render_json

STORE = Path(".evalspec")

output_option = option(
    "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
    help="Write a report too, its form by suffix; repeatable.",
)  # fmt: skip


def find_reporters(outputs: Sequence[Path]) -> list[tuple[Path, Reporter]]:
    """The reports that were asked for, checked before anything is spent.

    Raises:
        InvalidInput: a suffix names no form of report.
    """
    return [(path, reporter_for(path)) for path in outputs]


def print_run(run: Run, folder: Path, *, as_json: bool) -> None:
    """The result on stdout, all else on stderr."""
    if as_json:
        for note in run.notes:
            click.echo(f"note: {note}", err=True)
        click.echo(render_json(run), nl=False)
        return
    from evalspec.reporters.terminal import render_terminal

    width, color = find_terminal()
    click.echo(_inert_in_actions(render_terminal(run, width=width, color=color)), nl=False, color=color)
    click.echo(f"run: {folder}", err=True)


def find_terminal() -> tuple[int, bool]:
    """The width of standard output in columns, and whether it is to have colours."""
    color = bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    return shutil.get_terminal_size((100, 24)).columns, color


def _inert_in_actions(text: str) -> str:
    """GitHub's runner takes lines of its own form for commands, whoever wrote them: here it is told not to."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}\n{text}::{token}::\n"


def write_reports(run: Run, transcripts: Transcripts, reporters: Sequence[tuple[Path, Reporter]]) -> None:
    """Write each report to its place.

    Raises:
        CommandFailed: one cannot be written; the verdict's exit code stays, unless it was a pass.
    """
    for path, reporter in reporters:
        write_output(path, reporter.render(run, transcripts), ExitCode(run.exit_code))


def write_output(path: Path, content: str | bytes, code: ExitCode) -> None:
    """Write one file of `-o`, with the folders that it stands in.

    Raises:
        CommandFailed: it cannot be written; `code`, the verdict's, stays, unless it was a pass.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        problem = Problem(f"cannot be written: {error.strerror}", "choose another place", str(path), field="-o")
        raise CommandFailed(code or ExitCode.UNMEASURED, [problem.render()], [problem]) from error
