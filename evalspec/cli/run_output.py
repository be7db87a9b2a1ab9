"""Print a finished Run and write the requested reports."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import EvalspecError, ExitCode, Problem
from evalspec.base.output_files import is_stream, refuse_others, write_file
from evalspec.base.registry import returned
from evalspec.cli.documents import problem_document
from evalspec.cli.options import Command, group_options, json_option, option, quiet_option, verbose_option
from evalspec.cli.streams import emit, notify
from evalspec.cli.terminal_size import detect_terminal, find_line_width
from evalspec.model import Run
from evalspec.reports.base import REPORTERS, Reporter, StoredExchanges, reporter_for
from evalspec.reports.json_report import JSON, iterate_json

_CHARACTERS_AT_ONCE = 65_536
_UNCUT = 100_000
"""The width of the line of --quiet in a log, which has no end of the line to fit in."""
_AS_JSON = Path("report.json")
_FORMS = f"{__name__}.forms"
"""The key of the reporters by path, for paths of `-o` with the name of a form."""


def _check_outputs(context: click.Context, _parameter: click.Parameter, outputs: Sequence[Path]) -> Sequence[Path]:
    found = [_split_form(output) for output in outputs]
    context.meta[_FORMS] = dict(found)
    paths = [path for path, _ in found]
    refuse_others(paths, force=context.params.pop("force"))
    return paths


def _split_form(output: Path) -> tuple[Path, Reporter | None]:
    """Return the path and the reporter of FORMAT:PATH. Without a known format, the whole is a path."""
    form, _, rest = str(output).partition(":")
    reporter = REPORTERS.find(form) if rest else None
    return (Path(rest), reporter) if reporter else (output, None)


def output_options(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `-o` with this help. It is checked before the command does anything."""
    return group_options(
        option("--force", is_flag=True, is_eager=True, help="Let -o replace files that evalspec did not write."),
        option(
            "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
            callback=_check_outputs, help=text,
        ),
    )  # fmt: skip


output_option = output_options(
    "Also write a report in the format of the suffix, or FORMAT:PATH; repeatable. A pipe or /dev/stdout gets JSON."
)


def resolve_reporters(outputs: Sequence[Path]) -> list[tuple[Path, Reporter]]:
    """Return the requested reports with their reporters. A stream whose name has no suffix gets JSON.

    Raises:
        InvalidInput: a path names no report format, neither before it (`junit:report.xml`) nor by its suffix.
    """
    named: Mapping[Path, Reporter | None] = click.get_current_context().meta[_FORMS]
    return [(path, named.get(path) or reporter_for(_AS_JSON if is_nameless(path) else path)) for path in outputs]


def is_nameless(path: Path) -> bool:
    """Return whether a path is a pipe or device whose name implies no format, like /dev/stdout."""
    return not path.suffix and is_stream(path)


class Shape(Struct, frozen=True):
    """How the command line wants the result: as JSON, or how much text."""

    as_json: bool = False
    verbose: bool = False
    quiet: bool = False


def with_shape(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options for `-v`, `-q` and `--json`. The command gets them as a Shape in `shape`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def shaped(*arguments: Any, as_json: bool, verbose: bool, quiet: bool, **settings: Any) -> Any:
            if verbose and quiet:
                raise click.UsageError("--verbose and --quiet exclude each other")
            return command(*arguments, shape=Shape(as_json, verbose, quiet), **settings)

        return group_options(*options)(shaped)  # type: ignore[arg-type]

    return decorate


shape_options = with_shape(verbose_option, quiet_option, json_option)
"""Add the options of reports for `-v`, `-q` and `--json` to a command."""


def deliver_run(
    run: Run,
    folder: Path,
    exchanges: StoredExchanges,
    reporters: Sequence[tuple[Path, Reporter]],
    *,
    shape: Shape,
    rendered: Path | None = None,
    failures: Sequence[Problem] = (),
    hints: Sequence[str] = (),
) -> Run:
    """Write the reports, then print the result with any write errors.

    Return the run with the final exit code of the command. `rendered`: the JSON report of this run, if it is on disk.
    `failures`: what else could not be delivered. `hints`: messages on what to do next.
    """
    failures = [*failures, *write_reports(run, exchanges, reporters, rendered)]
    delivered = replace(run, exit_code=decide_exit_code(ExitCode(run.exit_code), failures))
    if shape.as_json:
        _print_json(delivered, failures, rendered, hints)
    else:
        _print_text(delivered, folder, exchanges, failures, shape, hints)
    return delivered


def _print_json(run: Run, failures: Sequence[Problem], rendered: Path | None, hints: Sequence[str]) -> None:
    """Print the report on stdout, and everything else on stderr."""
    for note in run.notes:
        notify(f"note: {note}")
    more = {"errors": [*map(problem_document, failures)]} if failures else {}
    for part in iterate_json(run, more) if failures or rendered is None else _read_parts(rendered):
        emit(part, nl=False)
    print_failures(failures)
    for hint in hints:
        notify(hint)


def _print_text(
    run: Run, folder: Path, exchanges: StoredExchanges, failures: Sequence[Problem], shape: Shape, hints: Sequence[str]
) -> None:
    """Print the report on stdout, and everything else before it on stderr, so that the verdict is the last line.

    Only the hints on an agent that is down come after the report, because they are what to do about it.
    """
    from evalspec.reports.terminal import Amount, render_terminal
    from evalspec.reports.view.outage import is_outage

    amount = Amount.BRIEF if shape.quiet else Amount.FULL if shape.verbose else Amount.NORMAL
    is_down = amount is Amount.NORMAL and is_outage(run)
    before = [] if is_down or shape.quiet else [f"run: {folder}", *hints]
    print_failures(failures)
    for message in before:
        notify(message)
    width, color = detect_terminal()
    if shape.quiet:
        width = find_line_width() or _UNCUT
    report = render_terminal(run, width=width, color=color, exchanges=exchanges, amount=amount)
    emit(report, nl=False, color=color)
    for hint in hints if is_down else ():
        notify(hint)


def _read_parts(path: Path) -> Iterator[str]:
    """The text of a report, some lines at a time."""
    with path.open(encoding="utf-8", newline="") as file:
        while lines := file.readlines(_CHARACTERS_AT_ONCE):
            yield "".join(lines)


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
    with REPORTERS.attribute_errors(reporter.name):
        content = reporter.render(run, exchanges)
        return content if isinstance(content, bytes) else returned(content, str)


def write_output(path: Path, render: Callable[[], str | bytes]) -> Problem | None:
    """Write one file of `-o`. Return the problem if anything fails.

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
