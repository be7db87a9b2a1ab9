"""Options that several commands share, and the rule that each flag has its environment variable."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from evalspec.cli.streams import notify
from evalspec.errors import Problem
from evalspec.model import MAX_REPEATS

Command = TypeVar("Command", bound=Callable[..., Any])


class _Option(click.Option):
    """An option that does not take the next option for its value, as where a variable in a script is empty."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """The value and where it comes from.

        Raises:
            click.UsageError: the value is missing.
        """
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.COMMANDLINE and not self.is_flag:
            others = {name for other in ctx.command.params for name in other.opts}
            if not others.isdisjoint(value if self.multiple else [value]):
                raise click.UsageError(f"Option '{max(self.opts, key=len)}' requires an argument.", ctx)
        return value, source


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """A click option that can also be set as EVALSPEC_<NAME>; lists are separated by spaces, paths as in PATH."""
    long_name = next(name for name in names if name.startswith("--"))
    variable = "EVALSPEC_" + long_name.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, cls=_Option, envvar=variable, show_envvar=True, **settings)


def manifest_argument(command: Command) -> Command:
    """The manifest, agent.yaml where none is named."""
    return click.argument("manifest", type=click.Path(path_type=Path), default=Path("agent.yaml"))(command)


json_option = option("--json", "as_json", is_flag=True, help="Print exactly one JSON document on stdout.")
no_judge_option = option("--no-judge", is_flag=True, help="Leave judged metrics out; they are shown as skipped.")
url_option = option("--url", metavar="URL", help="The agent's base url; wins over spec.api.url.")
dataset_option = option("--dataset", "datasets", multiple=True, metavar="NAME", help="Only this dataset; repeatable.")

judge_repeat_option = option(
    "--judge-repeat", type=click.IntRange(1, MAX_REPEATS), default=1, metavar="J", help="Grade each reply J times."
)

_REQUESTS = (
    option("--sample-size", type=click.IntRange(min=1), metavar="N", help="At most N samples of each dataset."),
    option("--seed", type=int, default=0, metavar="N", help="Which samples: the 20 of a seed are among its 50."),
    option("--tag", "tags", multiple=True, metavar="T", help="Only samples with this tag; repeatable (any of them)."),
    option("--exclude-tag", "exclude_tags", multiple=True, metavar="T", help="No sample with this tag; repeatable."),
    option("--repeat", type=click.IntRange(1, MAX_REPEATS), default=1, metavar="K", help="Ask each sample K times."),
    judge_repeat_option,
)


def request_options(command: Command) -> Command:
    """Which samples of each dataset are asked, and how often."""
    for decorate in reversed(_REQUESTS):
        command = decorate(command)
    return command


def warn(problem: Problem) -> None:
    """Tell something on stderr that does not stop the command."""
    notify(f"warning: {problem.render()}")
