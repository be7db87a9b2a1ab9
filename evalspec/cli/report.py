"""`evalspec report`: show a stored run again, with its original thresholds."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.exporting import choose_exports, export_finished, export_option
from evalspec.cli.name_completion import complete_run
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.run_output import Shape, deliver_run, output_option, resolve_reporters, shape_options
from evalspec.cli.trust_options import trust_options
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import open_run


@click.command("report", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run, default=LATEST_NAME)
@export_option
@trust_options()
@shape_options
@output_option
def command(run: str, exports: tuple[str, ...], shape: Shape, outputs: tuple[Path, ...]) -> ExitCode:
    """Show RUN again (default: the latest), without calling the agent or the judge.

    The verdict is recomputed from the stored scores and the run's original thresholds, and sets the exit code. If the
    run is unfinished, the report says what is missing. --export reads the manifest of the run.

    \b
    Examples:
      evalspec report
      evalspec report latest -o report.html -o results.junit.xml
      evalspec report main --json
      evalspec report latest --export mlflow
    """
    from evalspec.runs.runner.reread import conclude_stored

    reporters = resolve_reporters(outputs)
    stored = open_run(RunStore(STORE).find(run))
    refuse_damage(stored)
    if outputs:
        from evalspec.runs.planning.inputs import list_stored_inputs

        refuse_inputs(outputs, [*OWN_INPUTS, Input(stored.folder, "the run"), *list_stored_inputs(stored.fingerprint)])
    planned_exports = choose_exports(stored.manifest_path, exports)
    concluded = conclude_stored(stored)
    hints = []
    if not stored.report.is_file():
        manifest = stored.manifest_path
        hints.append(f"to resume: evalspec evaluate {manifest} --resume {stored.id}")
    failures = export_finished(concluded, stored.read_exchanges, planned_exports)
    delivered = deliver_run(
        concluded, stored.folder, stored.read_exchanges, reporters, shape=shape, failures=failures, hints=hints
    )
    return ExitCode(delivered.exit_code)
