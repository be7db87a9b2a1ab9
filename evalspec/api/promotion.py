"""Before a run becomes the baseline: how it compares with the other runs of the same evaluation."""

from collections.abc import Iterator
from typing import Any

from evalspec.base.errors import StoreError
from evalspec.model import Direction, Run
from evalspec.model.fingerprints import Fingerprint
from evalspec.runs.store.run_rows import read_values
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run


def count_outdone(store: RunStore, stored: StoredRun, concluded: Run) -> int | None:
    """Return the number of finished runs of the same evaluation if this one is the best of them, otherwise None.

    Runs are ranked by the leading metric: the first with a threshold, otherwise the first. A run that is better than no
    other run is not the best.
    """
    dataset = concluded.datasets[0]
    limited = (outcome.metric for outcome in dataset.thresholds)
    metric = next(limited, None) or next(iter(dataset.metrics), None)
    own = None if metric is None else dataset.metrics[metric].value
    if metric is None or own is None:
        return None
    sign = 1 if dataset.metrics[metric].direction is Direction.HIGHER else -1
    read = (read_values(run.folder, run.fingerprint).get(dataset.name, {}) for run in _find_alike(store, stored))
    gains = [sign * (own - found.value) for one in read if (found := one.get(metric)) and found.value is not None]
    return len(gains) + 1 if gains and min(gains) >= 0 and max(gains) > 0 else None


def _find_alike(store: RunStore, stored: StoredRun) -> Iterator[StoredRun]:
    """Yield the other finished runs of the same agent, samples and metrics."""
    wanted = _describe_evaluation(stored.fingerprint)
    for folder in store.list():
        try:
            other = open_run(folder)
            alike = other.report.is_file() and _describe_evaluation(other.fingerprint) == wanted
        except StoreError:
            continue  # `runs list` reports the error
        if alike and other.id != stored.id and other.fingerprint.rescored_from is None:
            yield other


def _describe_evaluation(fingerprint: Fingerprint) -> Any:
    """Return what two runs must have in common to be runs of the same evaluation."""
    datasets = [(one.name, one.samples_sha256, one.metric_identities) for one in fingerprint.datasets]
    agent = fingerprint.agent and fingerprint.agent.sha256
    return datasets, agent, fingerprint.retrievers_sha256, fingerprint.repeats
