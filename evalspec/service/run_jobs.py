"""Jobs that run a manifest of the project, or resume one of its runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.model import Run, SampleStatus
from evalspec.runs.store.erasing import refuse_erased
from evalspec.runs.store.stored_run import StoredRun, open_run

if TYPE_CHECKING:
    from evalspec.api.evaluation import Evaluation
    from evalspec.service.job_process import Work

_SUFFIXES = (".yaml", ".yml", ".json")


def run_manifest(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `run`, and return the id and verdict of its run.

    The request: `manifest` (path in the project), `options` (of `evalspec.evaluate`), `retryErrors`.
    """
    from evalspec.api.arguments import to_options
    from evalspec.api.evaluation import options_of, prepare
    from evalspec.api.public import redacting
    from evalspec.inputs.manifest.loader import load_manifest
    from evalspec.runs.planning.options import RunOptions

    request = work.job.request
    loaded = load_manifest(resolve_manifest(work.project.folder, request["manifest"]))

    asked = to_options(request["options"])

    def begin(stored: StoredRun | None) -> "Evaluation":
        retries = bool(request.get("retryErrors"))
        options = asked if stored is None else RunOptions(**options_of(stored), concurrency=asked.concurrency)
        if options.batch:
            message = f"run {stored.id if stored else ''} asks its judge in batches, which the service does not collect"
            raise InvalidInput(message, "continue it with `evalspec evaluate --resume`")
        evaluation = prepare(loaded, options, work.project.store, resumed=stored, retry_errors=retries)
        return replace(evaluation, short_id=work.job.short_id)

    with redacting(loaded):
        return describe_outcome(work.complete(begin))


def resolve_manifest(folder: Path, name: str) -> Path:
    """Return the path of a manifest in a project's folder, as the worker that runs there spells it.

    Hidden files and folders are refused: what the service stores is there, and secrets often are.

    Raises:
        InvalidInput: The path leaves the folder, is hidden, or is not a YAML file.
    """
    place = Path(name.replace("\0", "?"))
    try:
        inside = (folder / place).resolve()
        parts = inside.relative_to(folder.resolve()).parts
    except (OSError, ValueError):
        parts = ()
    if place.is_absolute() or not parts or any(part.startswith(".") for part in (*parts, *place.parts)):
        fix = "name a file by its path in the project, without hidden folders"
        raise InvalidInput(Problem(f"'{name}' is not in the project", fix, field="manifest"))
    if inside.suffix not in _SUFFIXES or not inside.is_file():
        raise InvalidInput(Problem(f"{name}: no such manifest in the project", field="manifest"))
    return place


def count_open_attempts(folder: Path, *, retry_errors: bool) -> int:
    """Return how many attempts a resumed run makes.

    Raises:
        InvalidInput: Texts were erased from the run, so it cannot be resumed.
        StoreError: The run cannot be read.
    """
    stored = open_run(folder)
    index = stored.read_index()
    refuse_erased(stored, index, "resumed")
    total: int = sum(one.selected for one in stored.fingerprint.datasets) * stored.outline.repeats
    failed = sum(one.attempt.status is SampleStatus.FAILED for one in index.attempts.values())
    return total - len(index.attempts) + (failed if retry_errors else 0)


def describe_outcome(run: Run) -> dict[str, Any]:
    """Return id and verdict of a finished run."""
    return {"run_id": run.id, "verdict": run.verdict, "partial": run.partial, "exit_code": run.exit_code}
