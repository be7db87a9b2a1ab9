"""Runs by name: stored runs, report files and promoted baselines."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.runs.planning.inputs import existing_baseline
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.comparison.baseline import FOLDER, baseline_path
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.run_files import read_run_file

if TYPE_CHECKING:
    from evalspec.model import StoredExchange


def read_named(name: str, store: RunStore) -> NamedRun:
    """Return the run with a name.

    A name with a suffix or several parts is a path if the file exists. Otherwise stored runs come first, then files,
    then promoted baselines.

    Raises:
        InvalidInput: No run has that name, or it cannot be read.
    """
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


def name_stored(stored: StoredRun, name: str) -> NamedRun:
    """Return a stored run from its report. An unfinished run is reconstructed from its log, with a note."""
    refuse_damage(stored)
    if stored.report.is_file():
        from evalspec.model.report_reading import read_report

        run, notes = read_report(stored.report), []
    else:
        from evalspec.runs.runner.reread import conclude_stored

        run = conclude_stored(stored)
        notes = [f"{name}: {note}" for note in run.notes if "not finished" in note]

    def read(wanted: Collection[tuple[str, str]]) -> Iterable["StoredExchange"]:
        kept = ((name, sample) for name, sample in stored.read_samples() if (name, sample.id) in wanted)
        return stored.read_index().read_exchanges(kept, stored.outline.repeats)

    return NamedRun(name, run, "run", tuple(notes), read if stored.outline.has_texts else None)


def comparison_baseline(loaded: LoadedManifest, name: str | None, store: RunStore) -> NamedRun | None:
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
    if not Path(name).suffix:
        _check_name(name, [path.stem for path in promoted.parent.glob("*.json")], store)
    return read_named(name, store)


def _check_name(name: str, promoted: Iterable[str], store: RunStore) -> None:
    """Raise InvalidInput if no run or baseline has that name."""
    names = [LATEST_NAME, *store.labels(), *promoted]
    if name in names or Path(name).exists() or any(folder.name.startswith(name) for folder in store.list()):
        return
    raise InvalidInput(Problem(f"no baseline or run is named '{name}'", near_miss(name, names), field="--baseline"))
