"""Shared command-line options. Each option can also be set by an environment variable."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.types import OptionHelpExtra

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted, pluralize
from evalspec.cli.name_completion import complete_dataset, find_manifest
from evalspec.cli.streams import notify
from evalspec.model.conventions import MAX_REPEATS, FlatIds

_INDEX = r"\[\d+\]"

Command = TypeVar("Command", bound=Callable[..., Any])


class EnumChoice(click.Choice[str]):
    """The words of an enum. The command gets the member."""

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__([str(one) for one in kind])
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the member of a word.

        Raises:
            click.BadParameter: the enum has no such word.
        """
        return self._kind(super().convert(str(value), param, ctx))


class _Option(click.Option):
    """An option that never consumes the next option as its value, for example if a shell variable is empty."""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return the notes of the help without the variable, which the help explains once for all options."""
        extra = super().get_help_extra(ctx)
        extra.pop("envvars", None)
        return extra

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return the value and its source.

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
    """Return a click option that EVALSPEC_<NAME> can also set: lists separated by spaces, paths as in PATH."""
    long_name = next(name for name in names if name.startswith("--"))
    variable = "EVALSPEC_" + long_name.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, cls=_Option, envvar=variable, show_envvar=True, **settings)


def group_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that adds several options, in this order of the help."""

    def add_all(command: Command) -> Command:
        for add in reversed(options):
            command = add(command)
        return command

    return add_all


def manifest_argument(command: Command) -> Command:
    """Add the MANIFEST argument, `agent.yaml` or `agent.yml` by default."""
    return click.argument("manifest", type=click.Path(path_type=Path), default=_find_manifest)(command)


def _find_manifest() -> Path:
    """Return the usual manifest. Two of them are ambiguous to a reader, so the one that is not read is named."""
    found, other = find_manifest(), Path("agent.yml")
    if other.exists() and found != other:
        warn(Problem(f"{other} is beside {found} and is not read", f"remove it, or name it: evalspec … {other}"))
    return found


json_option = option("--json", "as_json", is_flag=True, help="Print exactly one JSON document on stdout.")
verbose_option = option("-v", "--verbose", is_flag=True, help="Print all slices and metrics, and more samples.")
quiet_option = option("-q", "--quiet", is_flag=True, help="Print the verdict on one line.")
no_judge_option = option("--no-judge", is_flag=True, help="Skip judged metrics.")
on_option = option(
    "--on", metavar="PLACE", help="Ask and score elsewhere: ray, or ray:HOST:PORT; here: in this process."
)
no_cache_option = option("--no-cache", is_flag=True, help="Neither read nor write the judge's cache.")
url_option = option("--url", metavar="URL", help="Base URL of the agent; overrides spec.api.url.")
dataset_option = option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_dataset,
    help="Use only this dataset; repeatable.",
)

person_option = option("--as", "person", metavar="NAME", help="Who you are; by default, the person git knows.")
judge_repeat_option = option(
    "--judge-repeat", type=click.IntRange(1, MAX_REPEATS), default=1, metavar="J", help="Judge each reply J times."
)


class SeparatedText(click.ParamType[str]):
    """A text, such as a condition. It may contain spaces, so a variable separates several by semicolons."""

    name = "text"
    envvar_list_splitter = ";"


class _FieldType(click.ParamType[tuple[str, str]]):
    """A field of a sample and its column. Columns may contain spaces, so semicolons separate several in a variable."""

    name = "field"
    envvar_list_splitter = ";"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return both parts of `FIELD=COLUMN`."""
        field, equals, column = value.partition("=")
        if not equals or not field.strip() or not column.strip():
            self.fail(f"'{value}' is not FIELD=COLUMN, such as input=question", param, ctx)
        return field.strip(), column.strip()


field_option = option(
    "--field",
    "fields",
    multiple=True,
    type=_FieldType(),
    metavar="FIELD=COLUMN",
    help="The column that has this field, such as input=ticket.text; repeatable.",
)
where_option = option(
    "--where",
    multiple=True,
    type=SeparatedText(),
    metavar="COND",
    help="Use only samples with KEY=VALUE, KEY!=VALUE or 'KEY in A,B,C'; repeatable.",
)
stratify_option = option(
    "--stratify", multiple=True, metavar="KEY,…", help="Keep the shares of these keys' values in --sample-size."
)
sample_size_option = option(
    "--sample-size", type=click.IntRange(min=1), metavar="N", help="Use at most N samples per dataset."
)
seed_option = option(
    "--seed", type=int, default=0, metavar="N", help="Seed of the draw; larger sizes include smaller ones."
)
slice_option = option("--slice", metavar="NAME", help="Use only this slice of the gold set.")
held_out_option = option("--held-out", is_flag=True, help="Use only the held-out share of the gold set; it is logged.")
min_overlap_option = option(
    "--min-overlap",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Minimum overlap, as a share of the shorter text; 0 accepts any overlap.",
)
retrieval_gt_1d_option = option(
    "--retrieval-gt-1d",
    type=EnumChoice(FlatIds),
    help="AutoRAG: whether a flat list requires all of its ids or any.",
)

tag_option = option(
    "--tag", "tags", multiple=True, metavar="T", help="Use only samples with any of these tags; repeatable."
)

request_options = group_options(
    sample_size_option,
    seed_option,
    stratify_option,
    where_option,
    slice_option,
    held_out_option,
    tag_option,
    option(
        "--exclude-tag", "exclude_tags", multiple=True, metavar="T", help="Exclude samples with this tag; repeatable."
    ),
    option("--repeat", type=click.IntRange(1, MAX_REPEATS), default=1, metavar="K", help="Send each sample K times."),
    judge_repeat_option,
)
"""They select samples and set the number of attempts."""


limit_options = group_options(
    option("--max-cost", type=click.FloatRange(min=0), metavar="C", help="Stop before the judge costs more than C."),
    option("--max-judge-calls", type=click.IntRange(min=0), metavar="N", help="Stop after N requests to the judge."),
    option(
        "--max-tokens", type=click.IntRange(min=0), metavar="N", help="Stop before the judge uses more than N tokens."
    ),
    option("--max-time", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after S seconds."),
    option("--fail-fast", is_flag=True, help="Ask the judge only while a score can change the verdict."),
)
"""They limit what a run may use. A run that stops can be resumed."""


def render_written(samples: int, available: int, documents: int | None, path: Path) -> str:
    """Return how many samples and documents of a dataset were written where."""
    of_all = f" of {available}" if samples < available else ""
    more = f" and {counted(documents, 'document')}" if documents else ""
    return f"wrote {samples}{of_all} {pluralize(available, 'sample')}{more} to {inert(str(path))}"


def warn_all(problems: Iterable[Problem]) -> None:
    """Print warnings on stderr. Those that differ only in their line are one line, with the first place and a count."""
    for line in render_counted(problems):
        notify(f"warning: {line}")


def render_counted(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield problems as lines. Those that differ only in their line are one line, with the first place and a count."""
    alike: dict[tuple[str, ...], list[Problem]] = {}
    for one in problems:
        kind = one.file, re.sub(_INDEX, "[]", one.field), one.message, one.fix
        alike.setdefault(kind, []).append(one)
    for first, *others in alike.values():
        yield first.render() + (f" (and {counted(len(others), 'more place')})" if others else "")


def warn(problem: Problem) -> None:
    """Print a warning on stderr."""
    notify(f"warning: {problem.render()}")
