"""Errors as users see them: lines for people, JSON for pipelines, with secrets redacted from both.

SIGTERM and SIGHUP act like Ctrl-C: started processes are stopped and results so far are kept.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from evalspec.base.errors import EvalspecError, ExitCode, Problem
from evalspec.cli.documents import problem_document, render_document
from evalspec.cli.streams import notify

_OF_PATHS = {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP}


class CommandFailed(Exception):
    """The end of a command: its exit code, the lines to print, and the problems for `--json`."""

    def __init__(self, exit_code: ExitCode, lines: Sequence[str], problems: Sequence[Problem] = ()) -> None:
        super().__init__("\n".join(lines))
        self.exit_code = exit_code
        self.lines = list(lines)
        self.problems = tuple(problems) or tuple(Problem(line) for line in lines)

    @classmethod
    def usage(cls, message: str, fix: str) -> "CommandFailed":
        """Return the failure for an invalid command line."""
        problem = Problem(message.rstrip("."), fix)
        return cls(ExitCode.INVALID, [problem.render()], [problem])

    def to_json(self) -> str:
        """Return the errors as a JSON document."""
        return render_document({"errors": [*map(problem_document, self.problems)]}, self.exit_code)

    def redacted(self, redact: Callable[[str], str]) -> "CommandFailed":
        """Return a copy with secrets redacted."""
        problems = [problem.redacted(redact) for problem in self.problems]
        return CommandFailed(self.exit_code, [redact(line) for line in self.lines], problems)


def describe(error: Exception) -> CommandFailed:
    """Return the failure to print for an error. An unexpected exception is reported as a bug, with a debugging hint."""
    if isinstance(error, EvalspecError) and (problems := getattr(error, "problems", ())):
        return CommandFailed(error.exit_code, [problem.render() for problem in problems], problems)
    if isinstance(error, EvalspecError):
        return CommandFailed(error.exit_code, [str(error)])
    path = explain_path_error(error)
    if path is not None:
        return CommandFailed(ExitCode.INVALID, [path.render()], [path])
    hint = "this is a bug in evalspec; EVALSPEC_DEBUG=1 shows where"
    return CommandFailed(ExitCode.UNMEASURED, [f"{type(error).__name__}: {error} ({hint})"])


def explain_path_error(error: Exception) -> Problem | None:
    """Return the problem if the system refuses to look up a path; None for any other error.

    `Path.exists` raises if a name is too long or its folder is not accessible.
    """
    if not isinstance(error, OSError) or error.errno not in _OF_PATHS or not error.filename:
        return None
    return Problem(f"cannot access this path: {error.strerror}", "check the path", str(error.filename))


@contextmanager
def redacting(redact: Callable[[str], str]) -> Iterator[None]:
    """Redact secrets in every error that leaves this block."""
    try:
        yield
    except CommandFailed as failure:
        raise failure.redacted(redact) from None
    except EvalspecError as error:
        raise describe(error).redacted(redact) from error


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt within this block for SIGTERM and SIGHUP (if the platform has them), as for Ctrl-C.

    SIGINT is handled even if a shell started the process with it ignored, as with `&` in a script.
    """
    import signal  # for commands that run long

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


def explain_sudden_end() -> None:
    """Let `os._exit` in this process say what happened, and end it with the code for an unmeasured run.

    Processes that this one forks end as they want.
    """
    end, own = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != own:
            end(status)
        notify(f"evalspec: code of the project called os._exit({status}), so nothing was decided; raise an exception")
        end(ExitCode.UNMEASURED)

    os._exit = leave
