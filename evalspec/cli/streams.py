"""Standard output carries only the result of a command. Everything else, including output of user code, is on stderr.

Commands print with `emit` and `notify` only, which neutralise terminal control sequences and CI workflow commands in
untrusted text.

User code gets streams of its own. It may close, wrap or replace them without affecting results and messages.

If the reader goes away (`evalspec … | head`), the command continues, and its exit code is that of the verdict.
"""

import codecs
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from evalspec.base.descriptors import MOVED
from evalspec.base.foreign_text import commandless, inert, without_control_codes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ESCAPE = "evalspec-escape"
_COMMANDED = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Environment variables of CI systems that parse commands from output."""


class Output:
    """A standard stream that remains writable after its reader has gone.

    `error`: why output was lost, except because the reader left. `is_used`: whether something was written.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None else Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        self.error: OSError | None = None
        self.is_used = False

    def write(self, text: str) -> int:
        """Write text. Characters missing from the encoding become `\\uXXXX`, which JSON reads as the same text."""
        self.is_used = True
        self._attempt(lambda: self._write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._attempt(self._stream.flush)

    def close(self) -> None:
        """Flush, but stay open for later output."""
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
    import json

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPE, _escape)


class _UserBytes(BufferedWriter):
    """The unbuffered byte stream of user code. Output is discarded if the reader left."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        super().__init__(FileIO(descriptor, "wb", closefd=False))

    def write(self, data: "ReadableBuffer") -> int:
        """Write all bytes."""
        try:
            written = super().write(data)
            self.flush()
        except OSError:
            _discard(self._descriptor)
            return memoryview(data).nbytes
        return written


class _UserStream(TextIOWrapper):
    """A standard stream for user code. Closing it, or a wrapper of its buffer, does not affect other users."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        super().__init__(_UserBytes(descriptor), encoding, "backslashreplace", line_buffering=True)

    @property
    def buffer(self) -> BufferedWriter:
        """Return a byte stream for this caller: closing it in one thread does not close it in others."""
        return _UserBytes(self._descriptor)

    def detach(self) -> BufferedWriter:
        """Return a byte stream. This stream remains usable."""
        self.flush()
        return self.buffer

    def close(self) -> None:
        """Flush, but stay open for other user code."""
        self.flush()

    def reconfigure(self, *, errors: str | None = None, **changes: Any) -> None:
        """Change the encoding. Missing characters are still escaped."""
        super().reconfigure(errors=errors or self.errors, **changes)


def _discard(descriptor: int) -> None:
    """Discard all further output to a descriptor, at exit too."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


_results: list[Output] = []
_messages: list[Output] = []
_for_user_code: list[TextIO] = []


def keep_own_streams() -> None:
    """Move evalspec's standard streams to new file descriptors, and redirect descriptor 1 to stderr.

    User code, its child processes and C libraries then cannot print into the result or close evalspec's streams. Use
    this only in a command-line process: nothing is restored. Streams not on their usual descriptor are unchanged.
    """
    out, err = _move(sys.stdout, 1), _move(sys.stderr, 2)
    if out is not None:
        os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)
        MOVED[1] = out.fileno()
        sys.stdout = out
    if err is not None:
        sys.stderr = err
    moved = [(number, stream.encoding) for number, stream in ((1, out), (2, err)) if stream is not None]
    if moved:
        _for_user_code[:] = [_UserStream(*moved[0]), _UserStream(*moved[-1])]


def _move(stream: TextIO | None, descriptor: int) -> TextIO | None:
    """Return the stream on a new descriptor, or None if it is not the standard stream."""
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
    """Make `emit` write to standard output, and `notify` and `print` to standard error.

    `for_help`: click's help text is the result.
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
    """Return the stream for results."""
    return cast(TextIO, _results[-1]) if _results else sys.stdout


def messages_stream() -> TextIO:
    """Return the stream for progress and warnings."""
    return cast(TextIO, _messages[-1]) if _messages else sys.stderr


def can_prompt() -> bool:
    """Return whether somebody can answer: input and messages are a terminal."""
    return sys.stdin.isatty() and messages_stream().isatty()


def is_result_printed() -> bool:
    """Return whether any part of the result has been printed."""
    return bool(_results) and _results[-1].is_used


def emit(text: str, *, nl: bool = True, color: bool | None = None) -> None:
    """Print a result or a part of it. `inert` must have been applied to any untrusted text in it.

    `color`: whether the text has colours.
    """
    click.echo(_commandless(without_control_codes(text, styled=bool(color))), file=results_stream(), nl=nl, color=color)


def emit_line(line: str) -> None:
    """Print a line of the result, which may contain untrusted text."""
    emit(inert(line))


def notify(line: str) -> None:
    """Print a message on one line, which may contain untrusted text."""
    notify_lines(inert(line))


def notify_lines(text: str) -> None:
    """Print a message of several lines. As for `emit`, untrusted text in it must be inert."""
    click.echo(_commandless(without_control_codes(text)), file=messages_stream())


def notify_github(command: str) -> None:
    """Print a workflow command of GitHub Actions. Untrusted text in it must be escaped."""
    click.echo(command, file=messages_stream())


def _commandless(text: str) -> str:
    """Return the text without CI commands; unchanged on a terminal, where they have no effect."""
    return commandless(text) if any(map(os.environ.get, _COMMANDED)) else text
