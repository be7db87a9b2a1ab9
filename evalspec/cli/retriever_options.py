"""Retriever options of `evaluate`, the output of `--dry-run`, and the confirmation of deletions."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from evalspec.base.errors import InvalidInput
from evalspec.base.foreign_text import inert
from evalspec.base.json_text import render_lines
from evalspec.base.plural import counted
from evalspec.base.text import strip_userinfo
from evalspec.cli.options import group_options, option
from evalspec.cli.streams import notify
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset

if TYPE_CHECKING:
    from evalspec.targets.retrievers.ingest_plan import IngestPlan

retriever_options = group_options(
    option("--retriever", "retrievers", multiple=True, metavar="NAME",
           help="Query this retriever instead of the agent; repeatable, or `all`. Several are compared."),
    option("--mode", type=click.Choice(["retrieve", "retrieve+rerank"]), metavar="MODE",
           help="One of retrieve and retrieve+rerank."),
    option("--top-k", type=click.IntRange(min=1), metavar="K", help="Retrieve K distinct documents."),
    option("--rerank-top-k", type=click.IntRange(min=1), metavar="K", help="Rerank K documents."),
    option("--scope-prefix", metavar="PREFIX", help="Store, search and delete documents in this scope."),
    option("--no-ingest", is_flag=True, help="Query the index as it is; fill only in-memory ones."),
    option("--cleanup", type=click.Choice(["none", "on-success", "always"]), default="none", show_default=True,
           metavar="WHEN", help="Delete the documents: none, on-success or always."),
    option("--allow-custom-prefix", is_flag=True, help="Allow a prefix other than eval: and deletions in it."),
    option("-y", "--yes", is_flag=True, help="Do not ask before deletions in such a prefix."),
    option("--dry-run", is_flag=True, help="Print the steps; call nothing and import none of your code."),
    option("--depth", type=click.IntRange(min=0), default=100, show_default=True, metavar="N",
           help="Search for missing documents to rank N; 0: do not."),
    option("--best-by", metavar="METRIC", help="Choose the best retriever by this metric."),
    option("--max-latency", type=click.FloatRange(min=0, min_open=True), metavar="MS",
           help="With --best-by: highest p95; exit 1 if none meets it."),
)  # fmt: skip


def confirm_deletions(plans: Iterable[Plan], *, yes: bool) -> None:
    """Ask the user to type each prefix outside of `eval:` below which everything will be deleted.

    Raises:
        InvalidInput: a deletion was not confirmed.
    """
    prefixes = dict.fromkeys(ingest.scope_prefix for ingest in _ingests(plans) if ingest.needs_confirmation)
    for prefix in () if yes else prefixes:
        if not sys.stdin.isatty():
            message = f"this deletes everything below '{prefix}', which cannot be confirmed without a terminal"
            raise InvalidInput(message, "pass --yes")
        notify(f"everything below '{prefix}' will be deleted.")
        if click.prompt("type the prefix to continue", default="", show_default=False, err=True) != prefix:
            raise InvalidInput(f"the input is not '{prefix}'; nothing was deleted")


def render_plans(plans: Iterable[Plan], *, as_json: bool) -> str:
    """Return the output of `--dry-run`: the steps per dataset, as text or as a JSON document."""
    lines = [_list_lines(plan, dataset) for plan in plans for dataset in plan.datasets]
    if as_json:
        return render_lines({"schemaVersion": 1, "exitCode": 0, "plan": ["\n".join(steps) for steps in lines]})
    return "\n".join(inert(line) for steps in lines for line in steps)


def _list_lines(plan: Plan, dataset: PlannedDataset) -> list[str]:
    asked = dataset.retriever
    if asked is None:
        where = plan.own_agent or strip_userinfo(plan.url or "recorded replies")
        count = counted(len(dataset.samples) * plan.options.repeat, "sample")
        return [dataset.name, f"1. send {count} to {where}"]
    from evalspec.targets.retrievers.ingest_plan import list_steps

    settings = asked.settings
    decided = {
        "mode": settings.mode,
        "topK": settings.top_k,
        "rerankTopK": settings.rerank_top_k,
        "scopePrefix": settings.scope_prefix,
    }
    how = ", ".join(f"{key} {decided[key]} ({origin})" for key, origin in settings.origins.items() if decided[key])
    own = len(asked.query_settings.overrides.keys() & {sample.id for sample in dataset.samples})
    but = f"; {own} queries have their own settings" if own else ""
    attempt = f"1. send {len(dataset.samples) * plan.options.repeat:,} queries to the existing index of {settings.name}"
    return [f"{dataset.name}: {how}{but}", *(list_steps(asked.ingest) if asked.ingest else [attempt])]


def _ingests(plans: Iterable[Plan]) -> "list[IngestPlan]":
    asked = [dataset.retriever for plan in plans for dataset in plan.datasets if dataset.retriever is not None]
    return [planned.ingest for planned in asked if planned.ingest is not None]
