"""A group of commands whose modules are imported when they are used."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """Imports a command only when it is used."""

    def __init__(self, *args: Any, summaries: Mapping[str, str], load: Callable[[str], Any], **more: Any) -> None:
        """`summaries`: of the commands by name, in the order of the help. `load`: imports the command of a name."""
        super().__init__(*args, **more)
        self._summaries, self._load = summaries, load

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the summaries."""
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command or None."""
        found = self._load(cmd_name) if cmd_name in self._summaries else None
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the summaries without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the completions of a name or option without importing the commands."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=said) for name, said in self._summaries.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command; for an unknown name, raise a usage error that suggests the closest one."""
        if args[0] not in self._summaries and not args[0].startswith("-"):
            from evalspec.base.registry import near_miss

            typed = " ".join([*ctx.command_path.split()[1:], args[0]])
            raise click.UsageError(f"unknown command '{typed}'. {near_miss(args[0], self._summaries)}", ctx)
        return super().resolve_command(ctx, args)
