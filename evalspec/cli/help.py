"""`evalspec help`: the help of a command."""

from collections.abc import Sequence

import click

from evalspec.cli.name_completion import complete_command
from evalspec.cli.streams import emit


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...", shell_complete=complete_command)
@click.pass_context
def command(context: click.Context, names: Sequence[str]) -> None:
    """Show the help of COMMAND, or of evalspec.

    \b
    Examples:
      evalspec help evaluate
      evalspec help runs promote
    """
    here = context.find_root()
    for name in names:
        if not isinstance(here.command, click.Group):
            raise click.UsageError(f"'{here.command_path}' has no subcommands", context)
        _, found, _ = here.command.resolve_command(here, [name])
        if found is not None:
            here = click.Context(found, info_name=name, parent=here)
    emit(here.command.get_help(here))
