"""`evalspec merge`: join the shards of a run, and check the gate once over all of them."""

import shlex
from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.name_completion import complete_run
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.run_output import Shape, deliver_run, output_option, resolve_reporters, shape_options
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore


@click.command("merge", cls=OrderedCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", shell_complete=complete_run)
@shape_options
@output_option
def command(runs: tuple[str, ...], shape: Shape, outputs: tuple[Path, ...]) -> ExitCode:
    """Join all shards of a run into a new stored run, and check the gate once over all, with the baseline.

    A RUN is the id of a shard, the beginning of one, or the path of its folder. Nothing is asked. The result is that of
    the run without --shard. If a shard is missing or not finished, nothing is decided, and the command that evaluates
    or resumes it is printed.

    \b
    Exit codes:
      0  PASS
      1  a metric fails its threshold or is worse than the baseline
      2  the runs are not the shards of one run
      3  INCOMPLETE: a shard is missing, or could not measure enough

    \b
    Examples:
      evalspec merge shards/*
      evalspec merge 20261121T061500 20261121T061502 -o report.html
    """
    from evalspec.api.merging import is_unconfirmed, merge_shards
    from evalspec.cli.run_session import show_on_github
    from evalspec.runs.runner.session import has_failures

    reporters, store = resolve_reporters(outputs), RunStore(STORE)
    refuse_inputs(outputs, [*OWN_INPUTS, *(Input(store.find(name), "a shard") for name in runs)])
    stored, run = merge_shards(runs, store)
    command = shlex.join(["evalspec", "evaluate", str(stored.manifest_path), "--resume", stored.id])
    hints = [f"to retry failures: {command} --retry-errors"] if has_failures(run) else []
    delivered = deliver_run(
        run,
        stored.folder,
        stored.read_exchanges,
        reporters,
        shape=shape,
        rendered=stored.report if stored.report.is_file() else None,
        hints=[f"to confirm the drop: {command}"] if is_unconfirmed(run) else hints,
    )
    show_on_github(delivered)
    return ExitCode(delivered.exit_code)
