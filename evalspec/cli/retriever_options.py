"""The options of `evaluate` that are about retrievers."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from evalspec.cli.options import option

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    option("--retriever", "retrievers", multiple=True, metavar="NAME",
           help="Ask this retriever instead of the agent; repeatable, or `all`: several are compared."),
    option("--mode", type=click.Choice(["retrieve", "retrieve+rerank"]), help="Whether its hits are reranked."),
    option("--top-k", type=click.IntRange(min=1), metavar="K", help="How many distinct documents it ranks."),
    option("--rerank-top-k", type=click.IntRange(min=1), metavar="K", help="How many documents are reranked."),
    option("--scope-prefix", metavar="PREFIX", help="Where documents are put, searched and deleted."),
    option("--no-ingest", is_flag=True, help="Ask what stores hold already; only retrievers in memory are filled."),
    option("--cleanup", type=click.Choice(["none", "on-success", "always"]), default="none", show_default=True,
           help="When the ingested documents are deleted again."),
    option("--allow-custom-prefix", is_flag=True, help="Accept a scope prefix outside of eval: and delete below it."),
    option("-y", "--yes", is_flag=True, help="Confirm deleting below such a prefix without being asked."),
    option("--dry-run", is_flag=True, help="Check everything and print what would be done; call nothing."),
    option("--depth", type=click.IntRange(min=0), default=100, show_default=True, metavar="N",
           help="Down to which rank missing documents are looked for; 0: not at all."),
    option("--best-by", metavar="METRIC", help="Of several retrievers name the best by this metric."),
    option("--max-latency", type=click.FloatRange(min=0, min_open=True), metavar="MS",
           help="With --best-by: only those whose p95 latency is within it; none being so is a failure."),
)  # fmt: skip


def retriever_options(command: Command) -> Command:
    """Add all of them to a command."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command
