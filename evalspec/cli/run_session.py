"""Complete a run with a progress display, then print and write its reports.

The display is on stderr: a bar with rate and remaining time on a terminal, occasional lines elsewhere.
"""

import math
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from evalspec.api.evaluation import complete
from evalspec.api.loops import run_here
from evalspec.base.errors import EvalspecError, ExitCode
from evalspec.base.foreign_text import inert
from evalspec.cli.exporting import export_finished
from evalspec.cli.failure import CommandFailed, describe, ended_like_ctrl_c
from evalspec.cli.pushing import push_finished
from evalspec.cli.run_output import Shape, deliver_run
from evalspec.cli.streams import messages_stream, notify, notify_github
from evalspec.model import Run
from evalspec.reports.base import Reporter
from evalspec.runs.runner.session import Session, describe_resume, find_setting_to_fix, has_failures
from evalspec.runs.store.run_log import REPORT_NAME
from evalspec.runs.store.stored_run import open_run
from evalspec.scoring.judge.limits import name_option

if TYPE_CHECKING:
    from evalspec.api.exporting import PlannedExport
    from evalspec.api.server import PushServer

_SECONDS_BETWEEN_LINES = 10.0


def finish_session(
    session: Session,
    reporters: Sequence[tuple[Path, Reporter]],
    *,
    shape: Shape,
    server: "PushServer | None" = None,
    exports: "Sequence[PlannedExport]" = (),
) -> ExitCode:
    """Complete the session, print the result and write the reports. `server`, `exports`: where the run is sent to.

    Raises:
        CommandFailed: the run was interrupted or failed. Its results so far are kept; the message says how to resume.
    """
    run = complete_session(session)
    place, hints = session.log.place, []
    read_exchanges = open_run(place).read_exchanges
    if has_failures(run):
        hints.append(session.plan.loaded.references.redact(_say_way_on(session, run)))
    if run.fingerprint.shard is not None:
        hints.append(f"to merge all {run.fingerprint.shard.of} shards: evalspec merge RUN…")
    delivered = deliver_run(
        run,
        session.log.folder,
        read_exchanges,
        reporters,
        shape=shape,
        rendered=place / REPORT_NAME,
        failures=[*push_finished(place, server), *export_finished(run, read_exchanges, exports)],
        hints=hints,
    )
    show_on_github(delivered)
    return ExitCode(delivered.exit_code)


def show_on_github(run: Run) -> None:
    """Write the summary and annotations of a run in a job of GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from evalspec.reports.github import write_github

        for line in write_github(run, os.environ):
            notify_github(line)


def _say_way_on(session: Session, run: Run) -> str:
    """Return what to do about failures. A retry is no help if every reply fails for a setting of the manifest."""
    services = session.plan.services
    if services.budget.is_waiting:
        waiting = services.batches.waiting if services.batches else None
        said = f"{waiting}; to continue" if waiting else "to continue"
        return f"{said}: {describe_resume(session.plan, run.id)}"
    if services.budget.limit is not None:
        higher = (name_option(services.budget.limit), "NUMBER")
        return f"to continue, with a higher limit: {describe_resume(session.plan, run.id, *higher)}"
    setting = find_setting_to_fix(run)
    if setting is not None:
        return f"every reply failed for the same reason: fix {setting} and start again"
    return f"to retry failures: {describe_resume(session.plan, run.id, '--retry-errors')}"


def complete_session(session: Session) -> Run:
    """Run the remaining attempts and return the run.

    SIGTERM and SIGHUP act like Ctrl-C: a started agent is stopped and the log stays intact.

    Raises:
        CommandFailed: the run was interrupted or failed. Its results so far are kept; the message says how to resume.
    """
    way_on = f"to resume: {describe_resume(session.plan, session.log.id)}"
    try:
        with ended_like_ctrl_c(), open_progress(session.plan.total) as progress:
            return run_here(lambda: complete(session, progress))
    except KeyboardInterrupt:
        kept = f"interrupted; results so far are kept in {session.log.folder}"
        raise CommandFailed(ExitCode.INTERRUPTED, [kept, way_on]) from None
    except EvalspecError as error:
        failure = describe(error)
        raise CommandFailed(failure.exit_code, [*failure.lines, way_on], failure.problems) from error


def open_progress(total: int) -> "AbstractContextManager[ProgressBar | ProgressLines]":
    """Return a bar on a terminal, lines in CI and in files."""
    watched = messages_stream().isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    return ProgressBar(total) if watched else nullcontext(ProgressLines(total))


def _describe_wait(seconds: float) -> str:
    return f"the judge is rate limited; its next request is in {math.ceil(seconds)} s"


class ProgressLines:
    """Progress as a line at most every ten seconds. A short run prints none."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began: tuple[float, int] | None = None
        self._told = time.monotonic()
        self._told_of_wait = float("-inf")

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Print the progress of the run if a line is due. The clock starts with the first attempt, not with nodes."""
        now = time.monotonic()
        began, known = self._began = self._began or (now, asked)
        if now - max(began, self._told) < _SECONDS_BETWEEN_LINES:
            return
        self._told = now
        rate = (asked - known) / (now - began)
        left = f", about {(self._total - asked) / rate:.0f} s left" if rate else ""
        failures = f", {failed} failed" if failed else ""
        self.say(f"queried {asked}/{self._total}{failures}, scored {scored}, {rate:.1f}/s{left}")

    def ingested(self, done: int, total: int) -> None:
        """Print the progress of ingestion if a line is due."""
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self.say(f"ingested {done:,}/{total:,} documents")

    def judge_waits(self, seconds: float) -> None:
        """Print how long the judge's rate limit makes the run wait if such a line is due."""
        now = time.monotonic()
        if now - self._told_of_wait >= _SECONDS_BETWEEN_LINES:
            self._told_of_wait = now
            self.say(_describe_wait(seconds))

    def say(self, line: str) -> None:
        """Print a line."""
        notify(line)


class ProgressBar:
    """A progress bar of scored samples with rate and remaining time."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        self._total = total
        self._wait_ends = float("-inf")
        self._bar = Progress(*columns, console=Console(file=messages_stream()), transient=True)
        self._task = self._bar.add_task("asking", total=total, rate="")

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the bar from the terminal."""
        self._bar.stop()

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Update the bar."""
        task = self._bar.tasks[self._task]
        rate = f"{task.speed:.1f}/s" if task.speed else ""
        failures = f" ({failed} failed)" if failed else ""
        what = "scoring" if asked == self._total else "asking"
        left = self._wait_ends - time.monotonic()
        failures += f"; {_describe_wait(left)}" if left > 0 else ""
        self._bar.update(self._task, completed=scored, description=what + failures, rate=rate)

    def ingested(self, done: int, total: int) -> None:
        """Show the progress of ingestion beside the bar."""
        self._bar.update(self._task, description=f"ingesting {done:,}/{total:,}")

    def judge_waits(self, seconds: float) -> None:
        """Show beside the bar how long the judge's rate limit makes the run wait."""
        self._wait_ends = time.monotonic() + seconds
        self._bar.update(self._task, description=_describe_wait(seconds))

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(inert(line), markup=False, highlight=False)
