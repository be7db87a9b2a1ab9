"""Load the packages for scoring while the first requests are under way, which they would otherwise delay."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import needs_of
from evalspec.runs.runner.targets import JobTarget

_GRACE_SECONDS = 0.3
"""Wait for the first reply before loading the judge's libraries in parallel. An agent that is down is detected in this
time, and then nothing is loaded."""


async def preload_beside(plan: Plan, first_exchange: asyncio.Event, targets: Sequence[JobTarget[Any]]) -> None:
    """Load the packages during the first requests to the first target, unless the gate limits latency."""
    if plan.gates_latency or not targets:
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(first_exchange.wait(), _GRACE_SECONDS)
    if targets[0].never_reached:
        await first_exchange.wait()
    if not targets[0].is_down:
        await preload(plan)


async def preload(plan: Plan) -> None:
    """Load the packages, which would otherwise delay the first scores and requests in flight."""
    modules = {module for d in plan.datasets for m in d.metrics.values() for module in m.definition.imports}
    for module in sorted(modules):
        await asyncio.to_thread(import_module, module)
    await plan.services.preload(needs_of(plan.datasets, with_judged=not _may_be_cached(plan)))


def _may_be_cached(plan: Plan) -> bool:
    """Return whether judged metrics wait until the cache lacks a result.

    A limit on latency is no reason to wait: what is loaded during requests slows them down.
    """
    cache = plan.services.cache
    return cache is not None and cache.may_answer and not plan.gates_latency
