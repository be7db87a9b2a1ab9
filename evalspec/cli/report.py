"""`evalspec report`: show a stored run again, with its original thresholds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.exporting import choose_exports, export_finished, export_option
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.run_output import Shape, deliver_run, output_option, resolve_reporters, shape_options
from evalspec.cli.trust_options import trust_options
from evalspec.model.shards import refuse_shard
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import open_run

if TYPE_CHECKING:
    from evalspec.reports.base import Reporter


_OF_REPORTS = (ExitCode.OK, ExitCode.GATE_FAILED, ExitCode.UNMEASURED)


@click.command("report", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run, default=LATEST_NAME)
@option("--manifest", type=click.Path(path_type=Path), help="The thresholds for the log of another harness.")
@export_option
@trust_options()
@shape_options
@output_option
def command(
    run: str, manifest: Path | None, exports: tuple[str, ...], shape: Shape, outputs: tuple[Path, ...]
) -> ExitCode:
    """Show RUN again (default: the latest), without calling the agent or the judge.

    The verdict is recomputed from the stored scores and the run's original thresholds, and sets the exit code. If the
    run is unfinished, the report says what is missing. --export reads the manifest of the run.

    RUN may also be a file: a JSON report, a log of Inspect (.eval, .json) or samples_*.jsonl of lm-evaluation-harness.
    The thresholds and the ciGate of --manifest decide about a log.

    \b
    Examples:
      evalspec report
      evalspec report latest -o report.html -o results.junit.xml
      evalspec report main --json
      evalspec report logs/capitals.eval --manifest thresholds.yaml
      evalspec report latest --export mlflow
    """
    from evalspec.runs.runner.reread import conclude_stored

    reporters = resolve_reporters(outputs)
    path = Path(run)
    if path.is_file() and exports:
        fix = "name a stored run, whose manifest says where its results go"
        raise InvalidInput(Problem(f"'{run}' is a file, so nothing says where to send it", fix, field="--export"))
    if path.is_file():
        return _report_file(path, manifest, shape, reporters)
    if manifest is not None:
        fix = f"score the replies of a stored run again: evalspec rescore {run} {manifest}"
        raise InvalidInput(Problem(f"'{run}' is not a log of another harness", fix, field="--manifest"))
    stored = open_run(RunStore(STORE).find(run))
    refuse_shard(stored.id, stored.fingerprint, "reported")
    refuse_damage(stored)
    if outputs:
        from evalspec.runs.planning.inputs import list_stored_inputs

        refuse_inputs(outputs, [*OWN_INPUTS, Input(stored.folder, "the run"), *list_stored_inputs(stored.fingerprint)])
    planned_exports = choose_exports(stored.manifest_path, exports)
    concluded = conclude_stored(stored)
    hints = []
    if not stored.report.is_file():
        hints.append(f"to resume: evalspec evaluate {stored.manifest_path} --resume {stored.id}")
    failures = export_finished(concluded, stored.read_exchanges, planned_exports)
    delivered = deliver_run(
        concluded, stored.folder, stored.read_exchanges, reporters, shape=shape, failures=failures, hints=hints
    )
    return ExitCode(delivered.exit_code)


def _report_file(
    path: Path, manifest: Path | None, shape: Shape, reporters: Sequence[tuple[Path, "Reporter"]]
) -> ExitCode:
    """Report a log of another harness, or the run in a report as it is."""
    from evalspec.api.runs import conclude_log
    from evalspec.inputs.logs import find_log
    from evalspec.inputs.manifest.loader import load_manifest
    from evalspec.model.report_reading import read_report

    given = [Input(path, "the file that is reported"), *([Input(manifest, "the manifest")] if manifest else [])]
    refuse_inputs([output for output, _ in reporters], [*OWN_INPUTS, *given])
    log, loaded = find_log(path), None if manifest is None else load_manifest(manifest)
    if log is None and loaded is not None:
        raise InvalidInput(Problem(f"'{path}' is not a log of another harness", "remove it", field="--manifest"))
    run, exchanges = conclude_log(log, path, loaded) if log else (read_report(path), ())
    refuse_shard(run.id, run.fingerprint, "reported")
    if run.exit_code not in _OF_REPORTS:
        raise InvalidInput(Problem(f"{run.exit_code} is no exit code of a run", "", str(path), field="exitCode"))
    return ExitCode(deliver_run(run, path, lambda: exchanges, reporters, shape=shape).exit_code)
