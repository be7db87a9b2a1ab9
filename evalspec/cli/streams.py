"""Standard output is for the result of a command alone. All else that is printed, by user code too, goes to stderr.

Commands print by the functions of this module only: here text from elsewhere loses the power to steer a terminal or to
be a command of a CI system.

A reader that goes away (`evalspec … | head`) ends nothing: the command goes on, and its exit code is the verdict's.
"""

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast

import click

from evalspec.foreign_text import commandless, inert, steerless
from evalspec.output_files import move_descriptor

_ESCAPE = "evalspec-escape"
_COMMANDED = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Set by CI systems that take lines of a certain form for commands."""


class Output:
    """A standard stream that can be written to whatever becomes of its reader.

    `error`: why something written is lost, except for a reader that left. `is_used`: something was written.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None else Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        self.error: OSError | None = None
        self.is_used = False

    def write(self, text: str) -> int:
        """Write a text; what the encoding lacks becomes `\\uXXXX`, which JSON reads as the same text."""
        self.is_used = True
        self._attempt(lambda: self._write(text))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            self._stream.write(text.encode(encoding, _ESCAPE).decode(encoding))

    def _attempt(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.error = self.error or error
            with suppress(OSError, ValueError):  # what is buffered goes nowhere, at exit too
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPE, _escape)

_results: list[Output] = []


def keep_stdout_for_results() -> None:
    """Move standard output to a file descriptor of its own, and let what writes to descriptor 1 write to stderr.

    So child processes of user code, and its libraries in C, print no part of the result. Only for a process that is
    the command line: nothing is restored. Where `sys.stdout` is another stream, nothing changes.
    """
    out = sys.stdout
    try:
        is_own = out is not None and out.fileno() == 1
    except (OSError, ValueError):
        return
    if not is_own or not isinstance(out, TextIOWrapper):
        return
    results = open(os.dup(1), "w", encoding=out.encoding, errors=out.errors, closefd=False)  # noqa: SIM115
    results.reconfigure(line_buffering=out.line_buffering, write_through=out.write_through)
    out.flush()
    os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)
    move_descriptor(1, results.fileno())
    sys.stdout = results


@contextmanager
def reserve_stdout(*, for_help: bool = False) -> Iterator[Output]:
    """Within, `emit` writes to standard output, and `print` to standard error. Help that click prints is a result."""
    out, err = sys.stdout, sys.stderr
    results, messages = Output(out), Output(err)
    _results.append(results)
    sys.stderr = cast(TextIO, messages)
    sys.stdout = cast(TextIO, results) if for_help else sys.stderr
    try:
        yield results
    finally:
        results.flush()
        messages.flush()
        _results.pop()
        sys.stdout, sys.stderr = out, err


def find_results() -> TextIO:
    """Where results go."""
    return cast(TextIO, _results[-1]) if _results else sys.stdout


def is_result_printed() -> bool:
    """Whether the result, or a part of it, is printed already."""
    return bool(_results) and _results[-1].is_used


def emit(text: str, *, nl: bool = True, color: bool | None = None) -> None:
    """Print a result, or a part of it: text whose lines are ours, with foreign text in it that `inert` was applied to.

    `color`: True if it has colours.
    """
    click.echo(_commandless(steerless(text, styled=bool(color))), file=find_results(), nl=nl, color=color)


def emit_line(line: str) -> None:
    """Print a line of the result, whatever foreign text is in it."""
    emit(inert(line))


def print_message(line: str) -> None:
    """Print a line on standard error, whatever foreign text is in it."""
    print_messages(inert(line))


def print_messages(text: str) -> None:
    """Print text on standard error whose lines are ours, as `emit` does with a result."""
    click.echo(_commandless(steerless(text)), err=True)


def print_command(command: str) -> None:
    """Print a workflow command of GitHub Actions on standard error, in which everything foreign is escaped already."""
    click.echo(command, err=True)


def _commandless(text: str) -> str:
    """On a terminal the text as it is: it commands nothing there."""
    return commandless(text) if any(map(os.environ.get, _COMMANDED)) else text
