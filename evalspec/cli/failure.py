"""An error as the user gets it: lines for a person, a document for a pipeline, secrets redacted from both.

Being told to end is like Ctrl-C, so what was begun is undone and what was gathered is kept.
"""

import errno
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from evalspec.errors import EvalspecError, ExitCode, InvalidInput, Problem
from evalspec.json_text import render_lines

_OF_PATHS = {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP}


class CommandFailed(Exception):
    """A command that ends here: its exit code, what to print, and the problems behind it for `--json`."""

    def __init__(self, exit_code: ExitCode, lines: Sequence[str], problems: Sequence[Problem] = ()) -> None:
        super().__init__("\n".join(lines))
        self.exit_code = exit_code
        self.lines = list(lines)
        self.problems = tuple(problems) or tuple(Problem(line) for line in lines)

    @classmethod
    def usage(cls, message: str, fix: str) -> "CommandFailed":
        """A wrong command line."""
        problem = Problem(message.rstrip("."), fix)
        return cls(ExitCode.INVALID, [problem.render()], [problem])

    def to_json(self) -> str:
        """One JSON document that says what went wrong."""
        errors = [problem_document(problem) for problem in self.problems]
        return render_lines({"schemaVersion": 1, "exitCode": int(self.exit_code), "errors": errors})

    def redacted(self, redact: Callable[[str], str]) -> "CommandFailed":
        """The same without the given secrets."""
        problems = [
            replace(p, message=redact(p.message), fix=redact(p.fix), file=redact(p.file), field=redact(p.field))
            for p in self.problems
        ]
        return CommandFailed(self.exit_code, [redact(line) for line in self.lines], problems)


def problem_document(problem: Problem) -> dict[str, Any]:
    """A problem as JSON."""
    return {
        "file": problem.file or None,
        "line": problem.line,
        "field": problem.field or None,
        "message": problem.message,
        "fix": problem.fix or None,
    }


def describe(error: Exception) -> CommandFailed:
    """What to print for an error. One that was not raised on purpose is a bug, and says how to see more of it."""
    if isinstance(error, InvalidInput):
        return CommandFailed(error.exit_code, [problem.render() for problem in error.problems], error.problems)
    if isinstance(error, EvalspecError):
        return CommandFailed(error.exit_code, [str(error)])
    path = explain_path_error(error)
    if path is not None:
        return CommandFailed(ExitCode.INVALID, [path.render()], [path])
    hint = "this is a bug in evalspec; EVALSPEC_DEBUG=1 shows where"
    return CommandFailed(ExitCode.UNMEASURED, [f"{type(error).__name__}: {error} ({hint})"])


def explain_path_error(error: Exception) -> Problem | None:
    """What is wrong with a path that the system does not even look up; None for any other error.

    Whether a file exists cannot even be asked where its name is too long or its folder may not be looked into.
    """
    if not isinstance(error, OSError) or error.errno not in _OF_PATHS or not error.filename:
        return None
    return Problem(f"cannot be looked up: {error.strerror}", "check the path", str(error.filename))


@contextmanager
def redacting(redact: Callable[[str], str]) -> Iterator[None]:
    """Errors leave this block without the secrets that `redact` knows."""
    try:
        yield
    except CommandFailed as failure:
        raise failure.redacted(redact) from None
    except EvalspecError as error:
        raise describe(error).redacted(redact) from error


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt within for SIGTERM and SIGHUP, where the system has them, as for Ctrl-C.

    Ctrl-C is listened to even if a shell started us with it ignored, as with `&` in a script.
    """

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
