"""Jobs that run a manifest of the project, or resume one of its runs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.model import Run, SampleStatus
from evalspec.model.base import built
from evalspec.runs.store.erasing import refuse_erased
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.service.settings import Project, ServiceSettings

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


CHECKS = {
    "run": "evalspec.service.run_jobs:check_run",
    "evaluation": "evalspec.service.evaluations:check_evaluation",
}
"""The function that checks the request of a job before it is queued, by kind. `here`: in the project's folder."""


class Checked(Struct, frozen=True):
    """What a check has found. `samples`: how many each dataset has."""

    problems: tuple[Problem, ...] = ()
    samples: Mapping[str, int] = {}


def check_request(
    settings: ServiceSettings, project: Project, kind: str, request: Mapping[str, Any]
) -> Mapping[str, int]:
    """Check the request of a job. Return how many samples each dataset has. Nothing is called.

    The manifest of a project that is isolated or not trusted is read by a process that is too.

    Raises:
        InvalidInput: Lists all problems.
    """
    if settings.is_confined or settings.trust.is_limited:
        from evalspec.service.workers import check_apart

        found = msgspec.convert(check_apart(settings, project, kind, request), built(Checked))
    else:
        found = _find_check(kind)(project, request, here=False)
    if found.problems:
        raise InvalidInput(found.problems)
    return found.samples


def run_check(work: "Work") -> Any:
    """Execute a job of kind `check`, which is in no queue. The request: `kind` and `request` of a job."""
    asked = work.job.request
    return msgspec.to_builtins(_find_check(asked["kind"])(work.project, asked["request"], here=True))


def _find_check(kind: str) -> Callable[..., Checked]:
    module, _, name = CHECKS[kind].partition(":")
    found: Callable[..., Checked] = getattr(import_module(module), name)
    return found


def check_run(project: Project, request: Mapping[str, Any], *, here: bool) -> Checked:
    """Return what is wrong with a run of a manifest. The request: as of `run_manifest`."""
    from evalspec.api.public import validate

    place = resolve_manifest(project.folder, request["manifest"])
    found = validate(place if here else project.folder / place, **request["options"])
    return Checked(tuple(found.problems or (() if found.samples else found.warnings)), found.samples)


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
