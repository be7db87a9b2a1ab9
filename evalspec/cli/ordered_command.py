"""A command whose help lists its options in the order of use, and many of them in groups."""

from collections.abc import Mapping, Sequence

import click

GROUPS: Mapping[str, Sequence[str]] = {
    "Samples": (
        "--dataset",
        "--tag",
        "--exclude-tag",
        "--where",
        "--slice",
        "--held-out",
        "--sample-size",
        "--seed",
        "--stratify",
        "--shard",
        "--on",
    ),
    "Agent and judge": (
        "--url",
        "--repeat",
        "--concurrency",
        "--timeout",
        "--responses",
        "--no-judge",
        "--judge-repeat",
        "--batch",
        "--no-cache",
        "--fresh",
        "--allow-actions",
        "--traces",
    ),
    "Limits": ("--max-cost", "--max-judge-calls", "--max-tokens", "--max-time", "--fail-fast"),
    "Stored runs": ("--resume", "--retry-errors", "--no-content"),
    "Output": ("--output", "--export", "--force", "--json", "--verbose", "--quiet"),
    "Server": ("--push", "--to URL", "--allow-http"),
    "Retrievers": (
        "--retriever",
        "--best-by",
        "--max-latency",
        "--mode",
        "--top-k",
        "--rerank-top-k",
        "--scope-prefix",
        "--no-ingest",
        "--cleanup",
        "--allow-custom-prefix",
        "--yes",
        "--dry-run",
        "--depth",
    ),
    "Untrusted projects": ("--untrusted", "--allow-env", "--allow-host"),
}
"""The options of all commands that have a place of their own; the others of a command come first. A name that means
something else in other commands has its metavar."""

_LEAST_GROUPED = 16
"""Number of options from which their groups have titles."""
_PLACES = {
    name: (place, group) for place, (group, name) in enumerate((g, n) for g, names in GROUPS.items() for n in names)
}
_VARIABLES = "A variable can set each option: EVALSPEC_DATASET sets --dataset, for example."


class OrderedCommand(click.Command):
    """A command with ordered options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with the long names of short options.

        click first takes `-m` for a long option and compares it with the names of all others, which takes longer than
        the rest. No value is changed: one that is the name of an option is refused anyway (`_Option.consume_value`).
        """
        options = [one for one in self.params if isinstance(one, click.Option)]
        long_names = {name: _find_long(one) for one in options for name in one.opts}
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(long_names.get(one, one) for one in args[:end]), *args[end:]])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options. Only long lists have titles."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and not one.hidden]
        options.sort(key=_find_place)
        is_grouped = len(options) >= _LEAST_GROUPED
        titles = dict.fromkeys(_find_group(one) if is_grouped else "Options" for one in options)
        for title in titles:
            told = (one.get_help_record(ctx) for one in options if not is_grouped or _find_group(one) == title)
            with formatter.section(title):
                formatter.write_dl([record for record in told if record])
        if any(one.envvar for one in options):
            formatter.write_paragraph()
            formatter.write_text(_VARIABLES)


def _find_long(option: click.Option) -> str:
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


def _look_up(option: click.Option) -> tuple[int, str]:
    name = _find_long(option)
    if name == "--help":
        return len(_PLACES), "Help"
    return _PLACES.get(name) or _PLACES.get(f"{name} {option.metavar}") or (-1, "Options")


def _find_place(option: click.Option) -> int:
    return _look_up(option)[0]


def _find_group(option: click.Option) -> str:
    return _look_up(option)[1]
