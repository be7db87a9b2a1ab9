"""What `evaluate` has for retrievers: its options, what `--dry-run` prints, and deletions confirmed by a person."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from evalspec.cli.options import option
from evalspec.cli.streams import notify
from evalspec.errors import InvalidInput
from evalspec.foreign_text import inert
from evalspec.json_text import render_lines
from evalspec.planning.build import Plan
from evalspec.planning.draft import PlannedDataset
from evalspec.reporters.wording import counted
from evalspec.retrievers.ingest_plan import IngestPlan, list_steps

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


def confirm_deletions(plans: Iterable[Plan], *, yes: bool) -> None:
    """Have a person type each prefix outside of `eval:` below which everything will be deleted.

    Raises:
        InvalidInput: it was not confirmed.
    """
    prefixes = dict.fromkeys(ingest.scope_prefix for ingest in _ingests(plans) if ingest.needs_confirmation)
    for prefix in () if yes else prefixes:
        if not sys.stdin.isatty():
            raise InvalidInput(f"everything below '{prefix}' would be deleted, and nobody can confirm it", "pass --yes")
        notify(f"everything below '{prefix}' will be deleted.")
        if click.prompt("type the prefix to go on", default="", show_default=False, err=True) != prefix:
            raise InvalidInput(f"that is not '{prefix}'; nothing was deleted")


def render_plans(plans: Iterable[Plan], *, as_json: bool) -> str:
    """What `--dry-run` prints: the steps for each dataset, or one JSON document with them."""
    lines = [_list_lines(plan, dataset) for plan in plans for dataset in plan.datasets]
    if as_json:
        return render_lines({"schemaVersion": 1, "exitCode": 0, "plan": ["\n".join(steps) for steps in lines]})
    return "\n".join(inert(line) for steps in lines for line in steps)


def _list_lines(plan: Plan, dataset: PlannedDataset) -> list[str]:
    asked = dataset.retriever
    if asked is None:
        where = plan.url or "recorded replies"
        count = counted(len(dataset.samples) * plan.options.repeat, "sample")
        return [dataset.name, f"1. ask {count} of {where}"]
    settings = asked.settings
    decided = {
        "mode": settings.mode,
        "topK": settings.top_k,
        "rerankTopK": settings.rerank_top_k,
        "scopePrefix": settings.scope_prefix,
    }
    how = ", ".join(f"{key} {decided[key]} ({origin})" for key, origin in settings.origins.items() if decided[key])
    own = len(asked.query_settings.overrides.keys() & {sample.id for sample in dataset.samples})
    but = f"; {own} queries have settings of their own" if own else ""
    attempt = f"1. ask {len(dataset.samples) * plan.options.repeat:,} queries of what is indexed in {settings.name}"
    return [f"{dataset.name}: {how}{but}", *(list_steps(asked.ingest) if asked.ingest else [attempt])]


def _ingests(plans: Iterable[Plan]) -> list[IngestPlan]:
    asked = [dataset.retriever for plan in plans for dataset in plan.datasets if dataset.retriever is not None]
    return [planned.ingest for planned in asked if planned.ingest is not None]
