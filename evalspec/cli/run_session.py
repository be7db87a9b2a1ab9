"""A run to its end: executed under a progress display, printed, reported."""

import os
from collections.abc import Sequence
from pathlib import Path

from evalspec.api.evaluation import complete
from evalspec.api.loops import run_here
from evalspec.cli.failure import CommandFailed, describe
from evalspec.cli.interrupts import ended_like_ctrl_c
from evalspec.cli.progress import open_progress
from evalspec.cli.run_output import deliver_run
from evalspec.cli.streams import notify, notify_github
from evalspec.errors import EvalspecError, ExitCode
from evalspec.model import Run
from evalspec.reporters.base import Reporter
from evalspec.runner.session import Session, describe_resume, has_failures
from evalspec.store.run_log import REPORT_NAME
from evalspec.store.stored_run import open_run


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
