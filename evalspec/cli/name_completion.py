"""Names that a shell completes: stored runs, their samples, datasets, metrics and commands.

A shell inserts a completion without quotes, so only names are offered that no shell would interpret.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from evalspec.base.errors import EvalspecError

_PLAIN = r"\w[\w.,:+@%/-]*"
"""Names without a character that means something to bash, zsh or fish. The first one makes no option of a name."""


def complete_run(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the labels and ids of stored runs that begin like this."""
    return _keep(_list_runs(), incomplete)


def complete_run_or_sample(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return samples of the run that is already named; without one, runs, and samples of the latest one."""
    from evalspec.runs.store.run_log import LATEST_NAME

    given = context.params.get(parameter.name or "") or ()
    samples = _list_samples(given[0] if given else LATEST_NAME)
    return _keep(samples if given else [*_list_runs(), *samples], incomplete)


def complete_dataset(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the datasets of the manifest that begin like this."""
    from evalspec.inputs.manifest.loader import load_valid_parts

    with suppress(EvalspecError, OSError):  # nothing to complete; the command reports the error
        path = context.params.get("manifest") or find_manifest()
        loaded = load_valid_parts(Path(path)).loaded
        if loaded is not None and loaded.manifest.spec.evaluation is not None:
            return _keep((dataset.name for dataset in loaded.manifest.spec.evaluation.datasets), incomplete)
    return []


def complete_metric(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of metrics that begin like this."""
    from evalspec.scoring.metrics.base import METRICS

    return _keep((one.name for one in METRICS), incomplete)


def complete_command(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands that begin like this, below those that are already named."""
    here: click.Command | None = context.find_root().command
    for name in context.params.get(parameter.name or "") or ():
        here = here.get_command(context, name) if isinstance(here, click.Group) else None
    return _keep(here.list_commands(context), incomplete) if isinstance(here, click.Group) else []


def find_manifest() -> Path:
    """Return `agent.yaml`, or `agent.yml` if there is only that."""
    usual, other = Path("agent.yaml"), Path("agent.yml")
    return other if other.exists() and not usual.exists() else usual


def _keep(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and re.fullmatch(_PLAIN, name)]


def _list_runs() -> Iterator[str]:
    from evalspec.runs.store.run_log import LATEST_NAME
    from evalspec.runs.store.run_store import STORE, RunStore, is_run_name

    yield LATEST_NAME
    with suppress(EvalspecError, OSError):  # nothing to complete; the command reports the error
        store = RunStore(STORE)
        yield from store.labels()
        yield from (folder.name for folder in store.list() if is_run_name(folder.name))


def _list_samples(name: str) -> list[str]:
    from evalspec.api.runs import read_named
    from evalspec.runs.store.run_store import STORE, RunStore

    with suppress(EvalspecError, OSError):  # nothing to complete; the command reports the error
        run = read_named(name, RunStore(STORE)).run
        return [sample.id for dataset in run.datasets for sample in dataset.samples]
    return []
