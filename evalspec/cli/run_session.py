"""A run to its end: executed under a progress display, printed, reported.

The display is on stderr: a bar with rate and time left on a terminal, now and then a line elsewhere.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from evalspec.api.evaluation import complete
from evalspec.api.loops import run_here
from evalspec.cli.failure import CommandFailed, describe, ended_like_ctrl_c
from evalspec.cli.run_output import deliver_run
from evalspec.cli.streams import messages_stream, notify, notify_github
from evalspec.errors import EvalspecError, ExitCode
from evalspec.foreign_text import inert
from evalspec.model import Run
from evalspec.reporters.base import Reporter
from evalspec.runner.session import Session, describe_resume, has_failures
from evalspec.store.run_log import REPORT_NAME
from evalspec.store.stored_run import open_run

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_SECONDS_BETWEEN_LINES = 10.0


def finish_session(session: Session, reporters: Sequence[tuple[Path, Reporter]], *, as_json: bool) -> ExitCode:
    """Run what is left to run, and tell the result.

    Raises:
        CommandFailed: the run was interrupted or could not go on; what it has is kept, and the way on is told.
    """
    run = complete_session(session)
    folder = session.log.folder
    delivered = deliver_run(
        run,
        folder,
        lambda: open_run(folder).read_exchanges(),
        reporters,
        as_json=as_json,
        rendered=folder / REPORT_NAME,
    )
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from evalspec.reporters.github import write_github

        for line in write_github(delivered, os.environ):
            notify_github(line)
    if has_failures(run):
        again = describe_resume(session.plan, run.id, "--retry-errors")
        notify(session.plan.loaded.references.redact(f"what failed is tried again by: {again}"))
    return ExitCode(delivered.exit_code)


def complete_session(session: Session) -> Run:
    """Run what is left to run; being told to end is like Ctrl-C, so a started agent is stopped and the log is whole.

    Raises:
        CommandFailed: the run was interrupted or could not go on; what it has is kept, and the way on is told.
    """
    way_on = f"go on with: {describe_resume(session.plan, session.log.id)}"
    try:
        with ended_like_ctrl_c(), open_progress(session.plan.total) as progress:
            return run_here(lambda: complete(session, progress))
    except KeyboardInterrupt:
        kept = f"interrupted; what was gathered is kept in {session.log.folder}"
        raise CommandFailed(ExitCode.INTERRUPTED, [kept, way_on]) from None
    except EvalspecError as error:
        failure = describe(error)
        raise CommandFailed(failure.exit_code, [*failure.lines, way_on], failure.problems) from error


def open_progress(total: int) -> "ProgressBar | ProgressLines":
    """The form that fits: a bar where a person watches, lines in CI and in files."""
    watched = messages_stream().isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    return ProgressBar(total) if watched else ProgressLines(total)


class ProgressLines:
    """A line at most every ten seconds; a short run prints none."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._started = self._told = time.monotonic()

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Tell where the run is, if it is time to."""
        now = time.monotonic()
        if now - self._told < _SECONDS_BETWEEN_LINES:
            return
        self._told = now
        rate = asked / (now - self._started)
        left = f", about {(self._total - asked) / rate:.0f} s left" if rate else ""
        failures = f", {failed} failed" if failed else ""
        self.say(f"asked {asked}/{self._total}{failures}, scored {scored}, {rate:.1f}/s{left}")

    def ingested(self, done: int, total: int) -> None:
        """Tell how much a retriever has taken in, if it is time to."""
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self.say(f"ingested {done:,}/{total:,} documents")

    def say(self, line: str) -> None:
        """Tell it."""
        notify(line)


class ProgressBar:
    """A bar of scored samples with rate and time left."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar: RichProgress | None = None

    def __enter__(self) -> "ProgressBar":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(file=messages_stream()), transient=True)
        self._task = self._bar.add_task("asking", total=self._total, rate="")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Move the bar."""
        if self._bar is None:
            return
        task = self._bar.tasks[self._task]
        rate = f"{task.speed:.1f}/s" if task.speed else ""
        failures = f" ({failed} failed)" if failed else ""
        what = "scoring" if asked == self._total else "asking"
        self._bar.update(self._task, completed=scored, description=what + failures, rate=rate)

    def ingested(self, done: int, total: int) -> None:
        """Say beside the bar how much a retriever has taken in."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"ingesting {done:,}/{total:,}")

    def say(self, line: str) -> None:
        """Tell it above the bar."""
        if self._bar is not None:
            self._bar.console.print(inert(line), markup=False, highlight=False)
