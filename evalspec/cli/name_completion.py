"""Names that a shell completes: stored runs and metrics."""

from contextlib import suppress

import click

from evalspec.errors import EvalspecError
from evalspec.store.run_log import LATEST_NAME
from evalspec.store.run_store import STORE, RunStore


def complete_run(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the labels and ids of stored runs that begin like this."""
    names = [LATEST_NAME]
    with suppress(EvalspecError, OSError):  # nothing to complete; the command reports the error
        store = RunStore(STORE)
        names += [*store.labels(), *(folder.name for folder in store.list())]
    return [name for name in names if name.startswith(incomplete)]


def complete_metric(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of metrics that begin like this."""
    from evalspec.metrics.base import METRICS

    return [one.name for one in METRICS if one.name.startswith(incomplete)]
