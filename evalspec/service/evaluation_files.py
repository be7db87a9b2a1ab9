"""The files of evaluations, `.evalspec/evaluations/ID.json`, from which a new database lists them again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Engine, select

from evalspec.api.runs import name_stored
from evalspec.base.errors import EvalspecError, StoreError
from evalspec.model.base import built
from evalspec.runs.store.files import PRIVATE_FOLDER, store_errors, write_atomically
from evalspec.runs.store.run_store import prepare_root
from evalspec.runs.store.stored_run import open_run
from evalspec.service.database import writing
from evalspec.service.evaluations import EvaluationRequest, conclude, encode_result
from evalspec.service.jobs import Job, JobStatus
from evalspec.service.settings import Project
from evalspec.service.tables import JOBS

EVALUATION = "evaluation"
"""The kind of the jobs."""
EVALUATIONS_NAME = "evaluations"

_INTERRUPTED = "it had not finished when its database was replaced. start it again"
_NO_RUN = "it had no run when its database was replaced: it had not started, or the run was deleted. start it again"


class EvaluationFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An evaluation as its file has it. `created_at`: seconds since 1970. `calls`: the number of queries."""

    id: str
    user: str
    created_at: float
    calls: int
    request: EvaluationRequest


def evaluation_path(project: Project, id: str) -> Path:
    """Return the file of an evaluation, which may not exist."""
    return project.root / EVALUATIONS_NAME / f"{id}.json"


def write_evaluation(project: Project, evaluation: EvaluationFile) -> None:
    """Write the file of an evaluation.

    Raises:
        StoreError: The file cannot be written.
    """
    prepare_root(project.root)
    path = evaluation_path(project, evaluation.id)
    with store_errors(path):
        path.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
    write_atomically(path, [msgspec.json.format(msgspec.json.encode(evaluation), indent=1), b"\n"])


def restore_evaluations(engine: Engine, project: Project) -> int:
    """Add the evaluations of a project that the database does not know, and return their number.

    An evaluation whose run has not finished becomes failed, because the job that would continue it is lost. One that
    another namespace has, because its folder was copied, stays there.

    Raises:
        StoreError: A file cannot be read, or the database does not answer.
    """
    files = [_read(path) for path in _list_files(project)]
    with writing(engine) as connection:
        known = set(connection.execute(select(JOBS.c.id).where(JOBS.c.kind == EVALUATION)).scalars())
        missing = [_to_row(project, one) for one in files if one.id not in known]
        if missing:
            connection.execute(JOBS.insert(), missing)
    return len(missing)


def _list_files(project: Project) -> Sequence[Path]:
    folder = project.root / EVALUATIONS_NAME
    with store_errors(folder):
        return sorted(folder.glob("*.json")) if folder.is_dir() else []


def _read(path: Path) -> EvaluationFile:
    with store_errors(path):
        content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=built(EvaluationFile))
    except msgspec.DecodeError as error:
        raise StoreError(f"{path}: not an evaluation: {error}. restore or remove the file") from error


def _to_row(project: Project, evaluation: EvaluationFile) -> dict[str, Any]:
    known = msgspec.to_builtins(evaluation)
    row = asdict(Job(**known, namespace=project.namespace, kind=EVALUATION, status=JobStatus.FAILED, error=_NO_RUN))
    try:
        return row | _find_outcome(project, evaluation)
    except EvalspecError as error:  # every query failed, or the run is damaged
        return row | {"error": str(error)}


def _find_outcome(project: Project, evaluation: EvaluationFile) -> dict[str, Any]:
    """Return what the evaluation's run says about its job, if it has a run."""
    folder = project.find_run_of(evaluation.id)
    if folder is None:
        return {}
    stored = open_run(folder)
    if not stored.report.is_file():
        return {"run_id": stored.id, "error": _INTERRUPTED}
    result = conclude(name_stored(stored, stored.id).run, evaluation.request)
    return {"run_id": stored.id, "status": JobStatus.COMPLETED, "result": encode_result(result), "error": None}
