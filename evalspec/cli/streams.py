"""Standard output is for the result of a command alone. All else that is printed, by user code too, goes to stderr.

Commands print by `emit` and `notify` only: there text from elsewhere loses the power to steer a terminal or to command
a CI system.

User code has streams of its own: whatever it closes, wraps or replaces, results and messages arrive.

A reader that goes away (`evalspec … | head`) ends nothing: the command goes on, and its exit code is the verdict's.
"""

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from evalspec.foreign_text import commandless, inert, steerless
from evalspec.output_files import move_descriptor

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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

    def close(self) -> None:
        """Only flush: what is printed later must arrive."""
        self.flush()

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
            with suppress(OSError, ValueError):
                _discard(self._stream.fileno())


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPE, _escape)


class _UserBytes(BufferedWriter):
    """What user code writes its bytes to. They pass on at once, and are lost if the reader left."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        super().__init__(FileIO(descriptor, "wb", closefd=False))

    def write(self, data: "ReadableBuffer") -> int:
        """Write all of it."""
        try:
            written = super().write(data)
            self.flush()
        except OSError:
            _discard(self._descriptor)
            return memoryview(data).nbytes
        return written


class _UserStream(TextIOWrapper):
    """A standard stream as user code has it. Closing it, or a wrapper of its buffer, closes nothing for others."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        super().__init__(_UserBytes(descriptor), encoding, "backslashreplace", line_buffering=True)

    @property
    def buffer(self) -> BufferedWriter:
        """A stream of bytes of the caller's own: one that is closed in a thread stays open in the others."""
        return _UserBytes(self._descriptor)

    def detach(self) -> BufferedWriter:
        """A stream of bytes; this one stays usable."""
        self.flush()
        return self.buffer

    def close(self) -> None:
        """Only flush: other user code may still print."""
        self.flush()

    def reconfigure(self, *, errors: str | None = None, **changes: Any) -> None:
        """Change the encoding; what it lacks is still escaped."""
        super().reconfigure(errors=errors or self.errors, **changes)


def _discard(descriptor: int) -> None:
    """Let what is written to a descriptor go nowhere, at exit too."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


_results: list[Output] = []
_messages: list[Output] = []
_for_user_code: list[TextIO] = []


def keep_own_streams() -> None:
    """Move our standard streams to file descriptors of their own, and let descriptor 1 write to stderr.

    So user code, its child processes and its libraries in C print no part of the result, and cannot close our streams.
    Only for a process that is the command line: nothing is restored. A stream that is not on its usual descriptor does
    not change.
    """
    out, err = _move(sys.stdout, 1), _move(sys.stderr, 2)
    if out is not None:
        os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)
        move_descriptor(1, out.fileno())
        sys.stdout = out
    if err is not None:
        sys.stderr = err
    moved = [(number, stream.encoding) for number, stream in ((1, out), (2, err)) if stream is not None]
    if moved:
        _for_user_code[:] = [_UserStream(*moved[0]), _UserStream(*moved[-1])]


def _move(stream: TextIO | None, descriptor: int) -> TextIO | None:
    """The same stream on a new descriptor, or None if it is another than the standard one."""
    try:
        is_standard = stream is not None and stream.fileno() == descriptor
    except (OSError, ValueError):
        return None
    if not is_standard or not isinstance(stream, TextIOWrapper):
        return None
    stream.flush()
    moved = open(os.dup(descriptor), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115
    moved.reconfigure(line_buffering=stream.line_buffering, write_through=stream.write_through)
    return moved


@contextmanager
def reserve_stdout(*, for_help: bool = False) -> Iterator[Output]:
    """Within, `emit` writes to standard output, and `notify` and `print` to standard error.

    Help that click prints is a result.
    """
    out, err = sys.stdout, sys.stderr
    results, messages = Output(out), Output(err)
    _results.append(results)
    _messages.append(messages)
    printed, errors = _for_user_code or [cast(TextIO, messages)] * 2
    sys.stdout, sys.stderr = cast(TextIO, results) if for_help else printed, errors
    try:
        yield results
    finally:
        for stream in (results, printed, errors, messages):
            stream.flush()
        _results.pop()
        _messages.pop()
        sys.stdout, sys.stderr = out, err


def results_stream() -> TextIO:
    """Where results go."""
    return cast(TextIO, _results[-1]) if _results else sys.stdout


def messages_stream() -> TextIO:
    """Where progress and warnings go."""
    return cast(TextIO, _messages[-1]) if _messages else sys.stderr


def is_result_printed() -> bool:
    """Whether the result, or a part of it, is printed already."""
    return bool(_results) and _results[-1].is_used


def emit(text: str, *, nl: bool = True, color: bool | None = None) -> None:
    """Print a result, or a part of it: text whose lines are ours, with foreign text in it that `inert` was applied to.

    `color`: True if it has colours.
    """
    click.echo(_commandless(steerless(text, styled=bool(color))), file=results_stream(), nl=nl, color=color)


def emit_line(line: str) -> None:
    """Print a line of the result, whatever foreign text is in it."""
    emit(inert(line))


def notify(line: str) -> None:
    """Print a message on one line, whatever foreign text is in it."""
    notify_lines(inert(line))


def notify_lines(text: str) -> None:
    """Print a message whose lines are ours, as `emit` does with a result."""
    click.echo(_commandless(steerless(text)), file=messages_stream())


def notify_github(command: str) -> None:
    """Print a workflow command of GitHub Actions, in which everything foreign is escaped already."""
    click.echo(command, file=messages_stream())


def _commandless(text: str) -> str:
    """On a terminal the text as it is: it commands nothing there."""
    return commandless(text) if any(map(os.environ.get, _COMMANDED)) else text
