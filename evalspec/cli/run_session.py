"""A session run to its end: executed under a progress display, stored, printed, reported."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalspec.cli.failure import CommandFailed, describe
from evalspec.cli.interrupts import ended_like_ctrl_c
from evalspec.cli.options import warn
from evalspec.cli.progress import open_progress
from evalspec.cli.run_output import deliver_run
from evalspec.cli.streams import notify, notify_github
from evalspec.errors import EvalspecError, ExitCode, Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.plan.build import Plan
from evalspec.plan.outlining import outline_plan
from evalspec.records import Run
from evalspec.reporters.base import Reporter
from evalspec.reporters.json_report import render_json
from evalspec.reporters.redaction import redact_run, withhold_texts
from evalspec.runner.diagnosing import diagnose
from evalspec.runner.fingerprint import compute_fingerprint
from evalspec.runner.reread import read_stored_baseline
from evalspec.runner.session import (
    Session,
    begin_run,
    describe_resume,
    has_failures,
    metadata_keys,
    resume_run,
)
from evalspec.store.run_store import STORE, RunStore
from evalspec.store.stored_run import StoredRun, open_run


def open_session(plan: Plan, stored: StoredRun | None = None, *, retry_errors: bool = False) -> Session:
    """A new run of a plan, or the stored one gone on with.

    Raises:
        InvalidInput: what the stored run is made of has changed.
        StoreError: it cannot be written, or read.
    """
    now = datetime.now(UTC)
    outline, fingerprint = outline_plan(plan), compute_fingerprint(plan, now)
    if stored is None:
        return begin_run(RunStore(STORE), plan, outline, fingerprint, now)
    return resume_run(stored, plan, outline, fingerprint, retry_errors=retry_errors)


def finish_session(
    session: Session, loaded: LoadedManifest, reporters: Sequence[tuple[Path, Reporter]], *, as_json: bool
) -> ExitCode:
    """Run what is left to run, and tell the result.

    Raises:
        CommandFailed: the run was interrupted or could not go on; what it has is kept, and the way on is told.
    """
    run = complete_session(session, loaded)
    folder = session.log.folder
    delivered = deliver_run(run, folder, lambda: open_run(folder).read_transcripts(), reporters, as_json=as_json)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from evalspec.reporters.github import write_github

        for line in write_github(delivered, os.environ):
            notify_github(line)
    if has_failures(run):
        again = describe_resume(session.plan, run.id, "--retry-errors")
        notify(loaded.references.redact(f"what failed is tried again by: {again}"))
    return ExitCode(delivered.exit_code)


def complete_session(session: Session, loaded: LoadedManifest) -> Run:
    """Run what is left to run, and store the report.

    Raises:
        CommandFailed: the run was interrupted or could not go on; what it has is kept, and the way on is told.
    """
    for reference in sorted(loaded.references.redaction.too_short):
        message = f"${reference} has fewer than four characters and is not hidden"
        warn(Problem(message, "add :public if it is no secret" if reference.startswith("env:") else ""))
    with session.log as log:
        run = diagnose(redact_run(_execute(session), loaded.references.redact_data), open_run(log.folder))
        if not session.outline.has_texts:
            run = withhold_texts(run, metadata_keys(session.outline))
        log.write_report(render_json(run))
    return run


def _execute(session: Session) -> Run:
    """Run the plan; being told to end is like Ctrl-C, so that a started agent is stopped and the log is whole."""
    from evalspec.runner.execute import execute

    baseline = read_stored_baseline(open_run(session.log.folder))
    way_on = f"go on with: {describe_resume(session.plan, session.log.id)}"
    try:
        with ended_like_ctrl_c(), open_progress(session.plan.total) as progress:
            return _run_alone(lambda: execute(session, progress, baseline))
    except KeyboardInterrupt:
        kept = f"interrupted; what was gathered is kept in {session.log.folder}"
        raise CommandFailed(ExitCode.INTERRUPTED, [kept, way_on]) from None
    except EvalspecError as error:
        failure = describe(error)
        raise CommandFailed(failure.exit_code, [*failure.lines, way_on], failure.problems) from error


def _run_alone(execution: Callable[[], Coroutine[Any, Any, Run]]) -> Run:
    """The result of a coroutine, kept from asyncio.run: to see to Ctrl-C it asks for the repr of what its task
    returned, which for a large run takes a second."""
    found: list[Run] = []

    async def run() -> None:
        found.append(await execution())

    asyncio.run(run())
    return found[0]
