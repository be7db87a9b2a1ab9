"""Print a finished Run and write the requested reports."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from evalspec.cli.failure import problem_document
from evalspec.cli.options import option
from evalspec.cli.streams import emit, notify, results_stream
from evalspec.errors import EvalspecError, ExitCode, Problem
from evalspec.model import Run
from evalspec.output_files import is_stream, write_file
from evalspec.reporters.base import REPORTERS, Reporter, StoredExchanges, reporter_for
from evalspec.reporters.json_report import JSON, iterate_json

_WIDTH = 100
"""Width in columns if standard output is no terminal."""
_CHARACTERS_AT_ONCE = 65_536
_AS_JSON = Path("report.json")

output_option = option(
    "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
    help="Also write a report, in the format of the suffix; repeatable. A pipe or /dev/stdout gets JSON.",
)  # fmt: skip


def resolve_reporters(outputs: Sequence[Path]) -> list[tuple[Path, Reporter]]:
    """Return the requested reports with their reporters. A stream whose name has no suffix gets JSON.

    Raises:
        InvalidInput: a suffix belongs to no report format.
    """
    return [(path, reporter_for(_AS_JSON if is_nameless(path) else path)) for path in outputs]


def is_nameless(path: Path) -> bool:
    """Return whether a path is a pipe or device whose name implies no format, like /dev/stdout."""
    return not path.suffix and is_stream(path)


def deliver_run(
    run: Run,
    folder: Path,
    exchanges: StoredExchanges,
    reporters: Sequence[tuple[Path, Reporter]],
    *,
    as_json: bool,
    rendered: Path | None = None,
    failures: Sequence[Problem] = (),
) -> Run:
    """Write the reports, then print the result with any write errors.

    Return the run with the final exit code of the command. `rendered`: the JSON report of this run, if it is on disk.
    `failures`: what else could not be delivered.
    """
    failures = [*failures, *write_reports(run, exchanges, reporters, rendered)]
    delivered = replace(run, exit_code=decide_exit_code(ExitCode(run.exit_code), failures))
    if as_json:
        _print_json(delivered, failures, rendered)
    else:
        _print_text(delivered, exchanges)
    print_failures(failures)
    if not as_json:
        notify(f"run: {folder}")
    return delivered


def _print_json(run: Run, failures: Sequence[Problem], rendered: Path | None) -> None:
    """Print the report on stdout and its notes on stderr. `failures`: what was not written or pushed."""
    for note in run.notes:
        notify(f"note: {note}")
    more = {"errors": [problem_document(failure) for failure in failures]} if failures else {}
    for part in iterate_json(run, more) if failures or rendered is None else _read_parts(rendered):
        emit(part, nl=False)


def _print_text(run: Run, exchanges: StoredExchanges) -> None:
    from evalspec.reporters.terminal import render_terminal

    width, color = detect_terminal()
    try:
        text = render_terminal(run, width=width, color=color, exchanges=exchanges)
    except EvalspecError as error:  # the texts cannot be read, but the result is known
        notify(f"evalspec: {error}")
        text = render_terminal(run, width=width, color=color)
    emit(text, nl=False, color=color)


def _read_parts(path: Path) -> Iterator[str]:
    """The text of a report, some lines at a time."""
    with path.open(encoding="utf-8", newline="") as file:
        while lines := file.readlines(_CHARACTERS_AT_ONCE):
            yield "".join(lines)


def detect_terminal() -> tuple[int, bool]:
    """Return the width of standard output in columns, and whether to print colours."""
    color = bool(os.environ.get("FORCE_COLOR")) or (results_stream().isatty() and not os.environ.get("NO_COLOR"))
    return _find_width(), color


def _find_width() -> int:
    """Return the width of the terminal. shutil.get_terminal_size uses descriptor 1, which may be standard error."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(results_stream().fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def write_reports(
    run: Run, exchanges: StoredExchanges, reporters: Sequence[tuple[Path, Reporter]], rendered: Path | None = None
) -> list[Problem]:
    """Write each report and return a problem for each one that cannot be written."""
    written = [
        write_output(
            path, rendered.read_bytes if rendered and reporter is JSON else partial(_render, reporter, run, exchanges)
        )
        for path, reporter in reporters
    ]
    return [failure for failure in written if failure is not None]


def _render(reporter: Reporter, run: Run, exchanges: StoredExchanges) -> str | bytes:
    with REPORTERS.blaming(reporter.name):
        return reporter.render(run, exchanges)


def write_output(path: Path, render: Callable[[], str | bytes]) -> Problem | None:
    """Write one file of `-o` and create its parent folders. Return the problem if anything fails.

    A reporter from another package may raise any exception; the result must still be printed.
    """
    try:
        content = render()
        write_file(path, [content if isinstance(content, bytes) else content.encode()])
    except OSError as error:
        return Problem(f"cannot be written: {error.strerror or error}", "choose another place", str(path), field="-o")
    except EvalspecError as error:
        return Problem(f"cannot be written: {error}", file=str(path), field="-o")
    except Exception as error:
        return Problem(f"cannot be written: {type(error).__name__}: {error}", file=str(path), field="-o")
    return None


def decide_exit_code(code: ExitCode, failures: Sequence[Problem]) -> ExitCode:
    """Return the verdict's exit code; a pass becomes UNMEASURED if a result could not be written or pushed."""
    return code or (ExitCode.UNMEASURED if failures else ExitCode.OK)


def print_failures(failures: Sequence[Problem]) -> None:
    """Print what could not be written or pushed on stderr."""
    for failure in failures:
        notify(f"evalspec: {failure.render()}")
