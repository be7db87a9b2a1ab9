"""Runs by name: stored runs, report files, logs of other harnesses and promoted baselines."""

from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evalspec.api.server_baselines import OF_ENVIRONMENT, ServerChoice, read_served
from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.inputs.logs import ForeignLog, read_log
from evalspec.inputs.manifest.gate_schema import SERVER, CiGate
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import Limit
from evalspec.inputs.manifest.redaction import FOR_READERS
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model.fingerprints import RepliesFile
from evalspec.runs.planning.inputs import existing_baseline
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import RunStore, count_back
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.comparison.baseline import FOLDER, baseline_path
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.run_files import combine_samples, outline_dataset, read_baseline, read_run_file
from evalspec.verdict.outline import DatasetOutline, RunOutline

if TYPE_CHECKING:
    from evalspec.model import Run, StoredExchange, Threshold


def read_named(name: str, store: RunStore, server: ServerChoice = OF_ENVIRONMENT) -> NamedRun:
    """Return the run with a name. `server`: has those of `server:NAME`.

    A name with a suffix or several parts is a path if the file exists. Otherwise stored runs come first, then files,
    then promoted baselines.

    Raises:
        InvalidInput: No run has that name, or it cannot be read.
    """
    if name.startswith(SERVER):
        return read_served(name, store, server)
    path = Path(name)
    if path.is_file() and (path.suffix or len(path.parts) > 1):
        return read_run_file(path, name)
    try:
        stored = open_run(store.find(name))
    except InvalidInput as error:
        if path.is_file():
            return read_run_file(path, name)
        if path.suffix or len(path.parts) > 1:
            raise InvalidInput(Problem("no such file", "check the path", name)) from error
        promoted = baseline_path(Path(), name)
        if promoted.is_file():
            return read_run_file(promoted, name)
        fix = near_miss(name, [*store.labels(), *(path.stem for path in FOLDER.glob("*.json"))])
        if fix.startswith("did you mean"):
            raise InvalidInput(f"no run or baseline is named '{name}'", fix) from error
        raise
    return name_stored(stored, name)


def read_stored(stored: StoredRun) -> "Run":
    """Return a stored run from its report. An unfinished run is reconstructed from its log."""
    refuse_damage(stored)
    if stored.report.is_file():
        from evalspec.model.report_reading import read_report

        return read_report(stored.report)
    from evalspec.runs.runner.reread import conclude_stored

    return conclude_stored(stored)


def name_stored(stored: StoredRun, name: str) -> NamedRun:
    """Return a stored run to compare, with a note if it is not finished."""
    run = read_stored(stored)
    is_finished = stored.report.is_file()
    notes = [] if is_finished else [f"{name}: {note}" for note in run.notes if "not finished" in note]

    def read(wanted: Collection[tuple[str, str]]) -> Iterable["StoredExchange"]:
        kept = ((name, sample) for name, sample in stored.read_samples() if (name, sample.id) in wanted)
        return stored.read_index().read_exchanges(kept, stored.outline.repeats)

    summaries = (summary for dataset in run.datasets for summary in dataset.metrics.values())
    people = stored.read_index().people if any(one.correction for one in summaries) else ()
    policy, texts = stored.outline.policy, read if stored.outline.has_texts else None
    share = policy.max_removed if "max_removed" in policy.model_fields_set else None
    return NamedRun(name, run, "run", tuple(notes), texts, people=people, max_removed=share)


def comparison_baseline(
    loaded: LoadedManifest, name: str | None, store: RunStore, server: ServerChoice = OF_ENVIRONMENT
) -> NamedRun | None:
    """Return the baseline with that name, or without a name the gate's baseline if it exists.

    A promoted baseline takes precedence over a stored run.

    Raises:
        InvalidInput: No run or baseline has that name.
    """
    if name is None:
        path = existing_baseline(loaded)
        return None if path is None else read_run_file(path, loaded.manifest.spec.evaluation.ci_gate.baseline)
    promoted = baseline_path(loaded.path.parent, name)
    if promoted.is_file() and not Path(name).is_file():
        return read_run_file(promoted, name)
    if not Path(name).suffix and not name.startswith(SERVER):
        _check_name(name, [path.stem for path in promoted.parent.glob("*.json")], store)
    return read_named(name, store, server)


def _check_name(name: str, promoted: Iterable[str], store: RunStore) -> None:
    """Raise InvalidInput if no run or baseline has that name."""
    names = [LATEST_NAME, *store.labels(), *promoted]
    is_known = name in names or count_back(name) is not None or Path(name).exists()
    if is_known or any(folder.name.startswith(name) for folder in store.list()):
        return
    raise InvalidInput(Problem(f"no baseline or run is named '{name}'", near_miss(name, names), field="--baseline"))


def conclude_log(
    log: ForeignLog, path: Path, loaded: LoadedManifest | None = None
) -> "tuple[Run, tuple[StoredExchange, ...]]":
    """Return the run in a log with a verdict, and its texts. `loaded`: the manifest with the thresholds; None: none.

    Raises:
        InvalidInput: The log cannot be read, or has no score that a threshold limits.
    """
    from evalspec.runs.runner.conclude import RunMetadata, conclude
    from evalspec.runs.runner.second_attempts import explain_no_second
    from evalspec.runs.store.run_redaction import redact_run

    shown_as = str(path)
    found = read_log(log, path, shown_as)
    dataset, policy, baseline = outline_dataset(found), CiGate(enabled=False), None
    if loaded is not None:
        dataset = replace(dataset, thresholds=_bind(dataset, loaded))
        policy, kept = loaded.manifest.spec.evaluation.ci_gate, existing_baseline(loaded)
        baseline = None if kept is None else read_baseline(kept)
    repeats = found.fingerprint.repeats.agent if found.fingerprint.repeats else 1
    samples = combine_samples(found, dataset, shown_as)
    file = RepliesFile(shown_as, sha256(path.read_bytes()).hexdigest())
    fingerprint = replace(found.fingerprint, responses=file)
    metadata = RunMetadata(
        fingerprint,
        baseline,
        notes=tuple(f"{log.title}: {note}" for note in found.notes),
        unfinished=found.unfinished and f"{log.title}: {found.unfinished}",
        second=explain_no_second(fingerprint) or "",
    )
    run = conclude(RunOutline(policy, (dataset,), repeats=repeats), shown_as, [samples], metadata)
    return redact_run(run, FOR_READERS.mask_data, FOR_READERS.is_readable), tuple(found.exchanges)


def _bind(dataset: DatasetOutline, loaded: LoadedManifest) -> "tuple[Threshold, ...]":
    """Return the thresholds of the evaluation and of the dataset of the same name, which override them.

    Raises:
        InvalidInput: The log has no score of a metric.
    """
    from evalspec.runs.planning.thresholds import to_threshold

    metrics = {metric.name: metric for metric in dataset.metrics}
    bound: dict[tuple[str, str, str | None], Threshold | None] = {}
    problems = []
    for place, key, limits in _list_limits(dataset.name, loaded):
        metric = metrics.get(key)
        if metric is None:
            problems.append(loaded.problem(place, f"the log has no score of {key}", near_miss(key, metrics)))
            continue
        for limit in limits:
            confidence = loaded.manifest.spec.evaluation.ci_gate.confidence
            identity = (key, limit.stat or metric.statistic, limit.slice)
            bound[identity] = None if limit.lifts else to_threshold(key, metric.direction, limit, confidence)
    if problems:
        raise InvalidInput(problems)
    return tuple(threshold for threshold in bound.values() if threshold is not None)


def _list_limits(name: str, loaded: LoadedManifest) -> Iterator[tuple[Place, str, list[Limit]]]:
    evaluation = loaded.manifest.spec.evaluation
    place: Place = ("spec", "evaluation")
    given = {place: evaluation.thresholds}
    given |= {(*place, "datasets", n): one.thresholds for n, one in enumerate(evaluation.datasets) if one.name == name}
    for where, thresholds in given.items():
        yield from (((*where, "thresholds", key), key, limits) for key, limits in thresholds.items())
