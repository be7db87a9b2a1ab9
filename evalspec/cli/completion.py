"""`evalspec completion`: the script that completes commands, options and names in a shell."""

import click
from click.shell_completion import get_completion_class

from evalspec.base.errors import InvalidInput
from evalspec.cli.commands import VARIABLE
from evalspec.cli.streams import emit


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, runs and metrics in SHELL.

    \b
    Examples:
      eval "$(evalspec completion bash)"  # in ~/.bashrc
      eval "$(evalspec completion zsh)"   # in ~/.zshrc
      evalspec completion fish > ~/.config/fish/completions/evalspec.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise InvalidInput(f"completion for {shell} is not available", "use bash, zsh or fish")
    emit(found(context.find_root().command, {}, "evalspec", VARIABLE).source())
