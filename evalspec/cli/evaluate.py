"""`evalspec evaluate`: the whole path from agent.yaml to a verdict."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from evalspec.cli.failure import CommandFailed, redacting
from evalspec.cli.options import dataset_option, json_option, manifest_argument, no_judge_option, option, warn
from evalspec.cli.progress import open_progress
from evalspec.errors import ExitCode, Problem
from evalspec.manifest.loader import LoadedManifest, load_manifest
from evalspec.plan.build import Plan, build_plan
from evalspec.plan.options import RunOptions
from evalspec.records import Run
from evalspec.reporters.base import Reporter, reporter_for
from evalspec.reporters.json_report import render_json
from evalspec.reporters.redaction import redact_run
from evalspec.store.run_log import RunLog
from evalspec.store.run_store import RunStore

STORE = Path(".evalspec")


@click.command("evaluate")
@manifest_argument
@dataset_option
@option("--url", metavar="URL", help="The agent's base url; wins over spec.api.url.")
@option("--sample-size", type=click.IntRange(min=1), metavar="N", help="At most N samples of each dataset.")
@option("--seed", type=int, default=0, metavar="N", help="Which samples: the 20 of a seed are among its 50.")
@option("--tag", "tags", multiple=True, metavar="T", help="Only samples with this tag; repeatable (any of them).")
@option("--exclude-tag", "exclude_tags", multiple=True, metavar="T", help="No sample with this tag; repeatable.")
@option("-j", "--concurrency", type=click.IntRange(min=1), default=10, metavar="N", help="Requests in flight.")
@option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for one reply.")
@no_judge_option
@option(
    "--responses", type=click.Path(path_type=Path), metavar="FILE", help="Score recorded replies; no agent is asked."
)
@json_option
@option("-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
        help="Write a report too, its form by suffix; repeatable.")  # fmt: skip
def command(manifest: Path, as_json: bool, outputs: tuple[Path, ...], **options: object) -> ExitCode:
    """Ask the agent every sample of MANIFEST's datasets, score the replies, and say whether the gate passes.

    The exit code is the verdict: 0 pass, 1 beyond a threshold, 2 invalid input, 3 could not measure.

    \b
    Examples:
      evalspec evaluate agent.yaml --dataset rag-quality
      evalspec evaluate agent.yaml --sample-size 20 --tag smoke --no-judge
      evalspec evaluate agent.yaml --json -o report.json
    """
    loaded = load_manifest(manifest)
    with redacting(loaded.references.redact):
        return _evaluate(loaded, RunOptions(**options), as_json, outputs)  # type: ignore[arg-type]


def _evaluate(loaded: LoadedManifest, options: RunOptions, as_json: bool, outputs: Sequence[Path]) -> ExitCode:
    reporters = [(path, reporter_for(path)) for path in outputs]
    plan = build_plan(loaded, options)
    for warning in plan.warnings:
        warn(warning)
    started = datetime.now(UTC)
    with RunStore(STORE).create(started, redact=loaded.references.redact_data) as log:
        fingerprint = _fingerprint(plan, started)
        log.write_fingerprint(fingerprint)
        run = replace(_execute(plan, log), fingerprint=fingerprint)
        run = redact_run(run, loaded.references.redact_data)
        log.write_report(render_json(run))
    _print(run, log, as_json)
    _write_outputs(run, reporters)
    return ExitCode(run.exit_code)


def _fingerprint(plan: Plan, started: datetime) -> dict[str, object]:
    from evalspec.runner.fingerprint import compute_fingerprint

    return compute_fingerprint(plan, started)


def _execute(plan: Plan, log: RunLog) -> Run:
    """Run the plan; being told to end is like Ctrl-C, so that a started agent is stopped and the log is whole."""
    from evalspec.runner.execute import execute

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with open_progress(plan.total) as progress:
            return asyncio.run(execute(plan, log, progress))
    except KeyboardInterrupt:
        raise CommandFailed(ExitCode.INTERRUPTED, [f"interrupted; what was gathered is kept in {log.folder}"]) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _write_outputs(run: Run, reporters: Sequence[tuple[Path, Reporter]]) -> None:
    for path, reporter in reporters:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(reporter.render(run), encoding="utf-8")
        except OSError as error:
            problem = Problem(f"cannot be written: {error.strerror}", "choose another place", str(path), field="-o")
            code = ExitCode(run.exit_code) or ExitCode.UNMEASURED
            raise CommandFailed(code, [problem.render()], [problem]) from error


def _print(run: Run, log: RunLog, as_json: bool) -> None:
    if as_json:
        for note in run.notes:
            click.echo(f"note: {note}", err=True)
        click.echo(render_json(run), nl=False)
        return
    from evalspec.reporters.terminal import render_terminal

    width = shutil.get_terminal_size((100, 24)).columns
    color = bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    click.echo(render_terminal(run, width=width, color=color), nl=False, color=color)
    click.echo(f"run: {log.folder}", err=True)
