"""Route of reports: a run in any form of report, as a file to download."""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from evalspec.model.listed_runs import RunEntry, RunStatus
from evalspec.reports.base import REPORTERS, Reporter
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.derived import derived_folder
from evalspec.runs.store.files import PRIVATE_FOLDER, store_errors
from evalspec.runs.store.run_log import REPORT_NAME
from evalspec.runs.store.stored_run import open_run
from evalspec.service.access import Reading
from evalspec.service.answers import file_headers
from evalspec.service.child_process import run_child
from evalspec.service.examples import RUN_ID
from evalspec.service.jobs import create_id
from evalspec.service.problems import busy, conflict, not_found
from evalspec.service.sample_builds import SMALL
from evalspec.service.settings import Project

ROUTER = APIRouter(prefix="/v1/runs", tags=["runs"])

_JSON = "json"
_PREFIX = "report"
_PART_BYTES = 262_144
_TYPES = {
    ".json": "application/json",
    ".sarif": "application/sarif+json",
    ".jsonl": "application/jsonl",
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".junit.xml": "application/xml",
}
_UNKNOWN_TYPE = "application/octet-stream"
_REPORT = {"schemaVersion": 1, "runId": RUN_ID, "verdict": "PASS"}
_LARGE = threading.Lock()
"""One report of a large run at a time, because it needs much memory."""


class _OpenFileResponse(StreamingResponse):
    """A response with the content of an open file, which is closed also if the client leaves before the first part."""

    def __init__(self, file: BinaryIO, headers: dict[str, str], media_type: str) -> None:
        length = {"Content-Length": str(os.fstat(file.fileno()).st_size)}
        super().__init__(iter(partial(file.read, _PART_BYTES), b""), headers=headers | length, media_type=media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the content."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _describe_types() -> dict[str, Any]:
    """Return the content of the responses, for OpenAPI. The media types of reporters of plugins are unknown."""
    types: dict[str, Any] = {kind.partition(";")[0]: {} for kind in _TYPES.values()}
    report = {"type": "object", "description": "The JSON report.", "examples": [_REPORT]}
    binary = {"type": "string", "format": "binary"}
    return {**types, _TYPES[".json"]: {"schema": report}, _UNKNOWN_TYPE: {"schema": binary}}


@ROUTER.get(
    "/{run_id}/report",
    summary="Download a report",
    response_class=Response,
    responses={200: {"content": _describe_types()}},
)
def get_report(
    run_id: str,
    access: Reading,
    form: Annotated[str, Query(description="json, html, markdown, junit, csv, jsonl, parquet, sarif …")] = _JSON,
) -> Response:
    """Return a run as a file in a form of report. The report of an unfinished run says what is missing."""
    reporter = REPORTERS.find(form)
    if reporter is None:
        raise not_found(f"there is no form of report '{form[:100]}'", REPORTERS.hint(form))
    reporter.check_installed()
    entry, folder = access.runs.find(run_id), access.runs.find_folder(run_id)
    if entry.status is RunStatus.DAMAGED:
        raise conflict(entry.error or "the run is damaged")
    if form == _JSON and entry.status is RunStatus.FINISHED:
        return _send(folder / REPORT_NAME, run_id, reporter)
    if entry.samples > SMALL:
        return _render_elsewhere(access.project, entry, reporter)
    return _render_here(folder, run_id, reporter)


def _render_here(folder: Path, run_id: str, reporter: Reporter) -> Response:
    from evalspec.runs.runner.reread import conclude_stored

    stored = open_run(folder)
    refuse_damage(stored)
    content = reporter.render(conclude_stored(stored), stored.read_exchanges)
    return Response(content, headers=_name_file(run_id, reporter), media_type=_type_of(reporter))


def _render_elsewhere(project: Project, entry: RunEntry, reporter: Reporter) -> Response:
    """Let another process render the report of a large run, so that this one stays small."""
    if not _LARGE.acquire(blocking=False):
        raise busy("another report of a large run is being written; try again later", 10)
    folder = derived_folder(project.store.runs / entry.id)
    try:
        with store_errors(folder):
            folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            _remove_left(folder)
        path = folder / f"{create_id(_PREFIX)}{reporter.suffixes[0]}"
        done = run_child("evalspec", "report", entry.id, "-o", str(path), cwd=project.folder)
        if not path.exists():
            detail = f"the report could not be written (exit code {done.returncode})"
            raise conflict(f"{detail}; `evalspec report {entry.id}` says why")
        with store_errors(path):
            report = path.open("rb")
            path.unlink()  # it can be read until it is closed, and whatever happens to the request, no file is left
    finally:
        _LARGE.release()
    return _OpenFileResponse(report, _name_file(entry.id, reporter), _type_of(reporter))


def _remove_left(folder: Path) -> None:
    """Remove reports of a server that was killed while it made them: there is only one at a time."""
    for path in folder.glob(f"{_PREFIX}_*"):
        path.unlink(missing_ok=True)


def _send(path: Path, run_id: str, reporter: Reporter) -> Response:
    return FileResponse(path, headers=_name_file(run_id, reporter), media_type=_type_of(reporter))


def _name_file(run_id: str, reporter: Reporter) -> dict[str, str]:
    return file_headers(f"{run_id}{reporter.suffixes[0]}")


def _type_of(reporter: Reporter) -> str:
    return _TYPES.get(reporter.suffixes[0], _UNKNOWN_TYPE)
