"""How much of the signal of a full gold set a slice keeps, from the stored runs of the full set."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, to_builtins

from evalspec.base.errors import EvalspecError
from evalspec.base.json_text import compute_digest
from evalspec.curation.gold.slices import Slice
from evalspec.model import DatasetResult, Run
from evalspec.model.fingerprints import AgentDigest, Fingerprint, ManifestDigest
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.comparison.comparability import identity_of
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.stats.bootstrap import correlate_differences

FULL_RUNS = 8
"""Number of configurations with a full run below which the signal of a slice is unknown."""

_AGENT = ("name", "version", "sha256", "function", "code_sha256", "endpoint_sha256")
_API = "spec.api"


class SliceSignal(Struct, frozen=True):
    """The correlation, over pairs of configurations, of their differences on the slice and on the full set.

    `correlation`: from −1 to 1, with its 95 % `interval`. None with a `reason` if it is unknown. `configurations`:
    number of agents and retrievers that the runs compare; `runs`: number of full runs. `triples` and `full_triples`:
    those of the slice and of the full set that every run scored. `excluded_runs`: number of full runs by cause.
    """

    metric: str | None
    correlation: float | None
    interval: tuple[float, float] | None
    reason: str | None
    configurations: int
    runs: int
    triples: int
    full_triples: int
    excluded_runs: Mapping[str, int]


class _FullRun(Struct, frozen=True):
    """The scores of the leading metric in a run of the full set, by id of the triple."""

    configuration: str
    scores: Mapping[str, float]


def measure_signal(found: Slice, root: Path | str, store: Path | str = STORE) -> SliceSignal:
    """Return how much of the signal of the full set a slice keeps.

    Uses the finished runs of the full set in the store. The leading metric is the first with a threshold, otherwise the
    first, of the newest of them. Runs that computed it in another way are excluded. Runs of one configuration, that is
    with the same agent, endpoint and retriever, are averaged. Only triples that every run scored count, so that a
    change of the set is not taken for a change of the agent.
    """
    runs, metric, excluded = _read_full_runs(Path(root), RunStore(Path(store)))
    shared = sorted(set.intersection(*(set(run.scores) for run in runs))) if runs else []
    drawn = {entry.id for entry in found.entries}
    members = [name for name in shared if name in drawn]
    groups: dict[str, list[_FullRun]] = {}
    for run in runs:
        groups.setdefault(run.configuration, []).append(run)
    correlation, interval, reason = None, None, _explain_too_few(len(groups), len(runs))
    if reason is None and not members:
        reason = "no triple of the slice is scored in every full run"
    if reason is None:
        whole, part = ([_average(group, ids) for group in groups.values()] for ids in (shared, members))
        result = correlate_differences(whole, part)
        correlation, interval, reason = result.value, result.interval, result.reason
    return SliceSignal(
        metric, correlation, interval, reason, len(groups), len(runs), len(members), len(shared), excluded
    )


def _explain_too_few(configurations: int, runs: int) -> str | None:
    if configurations >= FULL_RUNS:
        return None
    if runs > configurations:
        return f"{configurations} of {FULL_RUNS} configurations with a full run stored ({runs} runs)"
    return f"{runs} of {FULL_RUNS} full runs stored"


def _average(group: Sequence[_FullRun], ids: Sequence[str]) -> float:
    """Return the mean of the scores of some triples over the runs of a configuration."""
    return compute_statistic([run.scores[name] for run in group for name in ids], "mean")


def _read_full_runs(root: Path, store: RunStore) -> tuple[list[_FullRun], str | None, dict[str, int]]:
    """Return the full runs with the same leading metric, newest first; the metric; and the others, counted by cause."""
    kept: list[_FullRun] = []
    excluded: dict[str, int] = {}
    metric, identity = None, None
    for stored, name in _list_full(root, store, excluded):
        run, dataset = _read_dataset(stored, name)
        if run is None or dataset is None:
            _count(excluded, "unreadable")
            continue
        if metric is None:
            metric = _find_leading(dataset)
            identity = identity_of(run, name, metric) if metric else None
        if metric is None or metric not in dataset.metrics or identity_of(run, name, metric) != identity:
            _count(excluded, "another metric or judge")
            continue
        scores = {sample.id: sample.scores.get(metric) for sample in dataset.samples}
        values = {one: score.value for one, score in scores.items() if score is not None and score.value is not None}
        if values:
            kept.append(_FullRun(_identify(stored.fingerprint, name), values))
        else:
            _count(excluded, "nothing scored")
    return kept, metric, excluded


def _list_full(root: Path, store: RunStore, excluded: dict[str, int]) -> Iterator[tuple[StoredRun, str]]:
    """Yield the finished runs of all triples of a set, newest first, each with the name of the dataset."""
    wanted = root.resolve()
    for folder in store.list():
        try:
            stored = open_run(folder)
            names = [
                one.name
                for one in stored.fingerprint.datasets
                if one.file and Path(one.file).resolve() == wanted and one.selected == one.available
            ]
        except (EvalspecError, OSError):
            continue  # `runs list` reports the error
        if not names or stored.fingerprint.rescored_from:
            continue
        if stored.report.is_file():
            yield stored, names[0]
        else:
            _count(excluded, "unfinished")


def _read_dataset(stored: StoredRun, name: str) -> tuple[Run | None, DatasetResult | None]:
    from evalspec.model.report_reading import read_report

    try:
        run = read_report(stored.report)
    except EvalspecError:
        return None, None
    return run, run.find_dataset(name)


def _find_leading(dataset: DatasetResult) -> str | None:
    """Return the first mean with a threshold, otherwise the first mean."""
    means = [metric for metric, summary in dataset.metrics.items() if summary.statistic == "mean"]
    limited = [threshold.metric for threshold in dataset.thresholds if threshold.metric in means]
    return next(iter([*limited, *means]), None)


def _identify(fingerprint: Fingerprint, dataset: str) -> str:
    """Return a digest of what the fingerprint knows of the configuration: agent, endpoint, replies and retriever."""
    agent, fields = fingerprint.agent or AgentDigest(), (fingerprint.manifest or ManifestDigest()).fields
    known = [
        [getattr(agent, name) for name in _AGENT],
        {key: value for key, value in fields.items() if key.startswith(_API)},
        fingerprint.responses and fingerprint.responses.sha256,
        to_builtins(fingerprint.retrievers.get(dataset)),
    ]
    return compute_digest(known)


def _count(counts: dict[str, int], cause: str) -> None:
    counts[cause] = counts.get(cause, 0) + 1
