"""`evalspec report`: show a stored run again, with its original thresholds."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.name_completion import complete_run
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.run_output import Shape, deliver_run, output_option, resolve_reporters, shape_options
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import open_run


@click.command("report", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run, default=LATEST_NAME)
@shape_options
@output_option
def command(run: str, shape: Shape, outputs: tuple[Path, ...]) -> ExitCode:
    """Show RUN again (default: the latest), without calling the agent or the judge.

    The verdict is recomputed from the stored scores and the run's original thresholds, and sets the exit code. If the
    run is unfinished, the report says what is missing.

    \b
    Examples:
      evalspec report
      evalspec report latest -o report.html -o results.junit.xml
      evalspec report main --json
    """
    from evalspec.runs.runner.reread import conclude_stored

    reporters = resolve_reporters(outputs)
    stored = open_run(RunStore(STORE).find(run))
    refuse_damage(stored)
    if outputs:
        from evalspec.runs.planning.inputs import list_stored_inputs

        refuse_inputs(outputs, [*OWN_INPUTS, Input(stored.folder, "the run"), *list_stored_inputs(stored.fingerprint)])
    concluded = conclude_stored(stored)
    hints = []
    if not stored.report.is_file():
        manifest = stored.manifest_path
        hints.append(f"to resume: evalspec evaluate {manifest} --resume {stored.id}")
    delivered = deliver_run(concluded, stored.folder, stored.read_exchanges, reporters, shape=shape, hints=hints)
    return ExitCode(delivered.exit_code)
