"""What a run will delete and ingest: shown, and confirmed where it is not evalspec's own to delete."""

import json
import sys
from collections.abc import Iterable

import click

from evalspec.cli.streams import notify
from evalspec.errors import InvalidInput
from evalspec.plan.build import Plan
from evalspec.plan.draft import PlannedDataset
from evalspec.reporters.wording import counted
from evalspec.retrievers.ingest_plan import IngestPlan, render_plan


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
    steps = [_render(plan, dataset) for plan in plans for dataset in plan.datasets]
    if as_json:
        return json.dumps({"schemaVersion": 1, "exitCode": 0, "plan": steps}, indent=2, ensure_ascii=False)
    return "\n".join(steps)


def _render(plan: Plan, dataset: PlannedDataset) -> str:
    asked = dataset.retriever
    if asked is None:
        where = plan.url or "recorded replies"
        return f"{dataset.name}\n1. ask {counted(len(dataset.samples) * plan.options.repeat, 'sample')} of {where}"
    settings = asked.settings
    decided = {
        "mode": settings.mode,
        "topK": settings.top_k,
        "rerankTopK": settings.rerank_top_k,
        "scopePrefix": settings.scope_prefix,
    }
    how = ", ".join(f"{key} {decided[key]} ({origin})" for key, origin in settings.origins.items() if decided[key])
    own = len(asked.questioning.overrides.keys() & {sample.id for sample in dataset.samples})
    but = f"; {own} queries have settings of their own" if own else ""
    asking = f"1. ask {len(dataset.samples) * plan.options.repeat:,} queries of what is indexed in {settings.name}"
    steps = render_plan(asked.ingest) if asked.ingest else asking
    return f"{dataset.name}: {how}{but}\n{steps}"


def _ingests(plans: Iterable[Plan]) -> list[IngestPlan]:
    asked = [dataset.retriever for plan in plans for dataset in plan.datasets if dataset.retriever is not None]
    return [planned.ingest for planned in asked if planned.ingest is not None]
