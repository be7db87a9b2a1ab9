"""Routes that receive runs of other machines: announce the files of a run, send them in chunks, and store the run."""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Response
from msgspec import to_builtins
from pydantic import BaseModel, Field, model_validator

from evalspec.model.listed_runs import RunStatus
from evalspec.runs.store.ci_builds import clean_ci_build
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.pushed_runs import PUSHED_NAMES, REQUIRED_NAMES, PushedFile, list_pushed_files, read_push_mark
from evalspec.service.access import Access, Pushing, Reading
from evalspec.service.answers import file_headers
from evalspec.service.database import read_clock, reading
from evalspec.service.documents import body_config, show_example
from evalspec.service.examples import RUN_ID
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.problems import conflict, not_found
from evalspec.service.pushes import Push, PushState, append_chunk, commit_push, open_push

ROUTER = APIRouter(prefix="/v1/pushes", tags=["pushes"])
JSON_ROUTER = APIRouter(prefix="/v1/pushes", tags=["pushes"], route_class=JsonRoute)

_CHUNK_BYTES = 2 * 1024 * 1024
_LARGEST = 2**53
_DIGEST = "0" * 64
_EXAMPLE: Any = {
    "run_id": RUN_ID,
    "files": [{"name": name, "size": 3, "sha256": _DIGEST} for name in REQUIRED_NAMES],
    "ci": {"service": "GitHub Actions", "branch": "main"},
}
_PUSH: Any = {"push_id": f"{RUN_ID}.{_DIGEST}", "run_id": RUN_ID, "is_stored": False}
_PUSH |= {"files": [{"name": "run.json", "size": 3, "received": 0}], "chunk_bytes": _CHUNK_BYTES}
_STORED_FILES: Any = {"run_id": RUN_ID, "files": _EXAMPLE["files"], "pushed_by": None, "pushed_at": None, "ci": None}


class FileToPush(BaseModel):
    """A file of a run."""

    model_config = body_config()
    name: Literal["run.json", "inputs.jsonl", "samples.jsonl", "report.json", "baseline.json"]
    size: int = Field(ge=0, le=_LARGEST, description="In bytes.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class PushingBuild(BaseModel):
    """The CI build that pushes a run, for runs that do not name theirs. Texts that are too long are ignored."""

    model_config = body_config()
    service: str
    branch: str | None = None
    commit: str | None = None
    pull_request: str | None = None
    url: str | None = None


class PushRequest(BaseModel):
    """The files of a run that is to be pushed. `baseline.json` may be missing."""

    model_config = body_config(_EXAMPLE)
    run_id: str = Field(max_length=100)
    files: list[FileToPush] = Field(max_length=10)
    ci: PushingBuild | None = None

    @model_validator(mode="after")
    def _check_names(self) -> "PushRequest":
        names = [file.name for file in self.files]
        if len(names) != len(set(names)):
            raise ValueError("files: each file once")
        missing = [name for name in REQUIRED_NAMES if name not in names]
        if missing:
            raise ValueError(f"files: {', '.join(missing)} missing; only finished runs can be pushed")
        return self


class ReceivedFile(BaseModel):
    """How much of a file has arrived."""

    name: str
    size: int
    received: int


class PushAnswer(BaseModel):
    """A push."""

    model_config = show_example(_PUSH)
    push_id: str
    run_id: str
    is_stored: bool = Field(description="Whether the run is in the store: nothing is to be sent.")
    files: list[ReceivedFile] = Field(description="The next chunk of a file begins at `received`.")
    chunk_bytes: int = Field(description="The largest chunk.")


_STORED: dict[int | str, dict[str, Any]] = {200: {"model": PushAnswer, "description": "The run is stored already."}}


@JSON_ROUTER.post("", status_code=HTTPStatus.CREATED, responses=_STORED, summary="Announce a run")
def announce_run(asked: PushRequest, response: Response, access: Pushing) -> PushAnswer:
    """Begin or continue a push. The namespace is that of the token; the same run again is answered by 200."""
    ci = None if asked.ci is None else clean_ci_build(asked.ci.model_dump())
    push = Push(asked.run_id, tuple(PushedFile(**file.model_dump()) for file in asked.files), ci)
    with reading(access.engine) as connection:
        now = read_clock(connection)
    state = open_push(access.project, push, access.service.settings.limits.push_bytes, now)
    if state.is_stored:
        response.status_code = HTTPStatus.OK
    return _describe(state, access)


@ROUTER.put("/{push_id}/files/{name}", summary="Send a chunk")
def send_chunk(
    push_id: str,
    name: str,
    access: Pushing,
    offset: Annotated[int, Query(ge=0, le=_LARGEST, description="Where the chunk begins.")] = 0,
    content: Annotated[bytes, Body(media_type="application/octet-stream")] = b"",
) -> PushAnswer:
    """Append a chunk to a file. A chunk that does not begin at the end of the file changes nothing."""
    return _describe(append_chunk(access.project, push_id, name, offset, content), access)


@ROUTER.post("/{push_id}/commit", status_code=HTTPStatus.CREATED, responses=_STORED, summary="Store a pushed run")
def commit_run(push_id: str, response: Response, access: Pushing) -> PushAnswer:
    """Check a complete push, and store it as a run that nobody can resume or score again."""
    state, is_new = commit_push(access.project, push_id, access.caller.user)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _describe(state, access)


FILES = APIRouter(prefix="/v1/runs", tags=["runs"])


class StoredFiles(BaseModel):
    """The files of a run. `pushed_by`, `pushed_at`: who pushed it, null for a run of the server itself."""

    model_config = show_example(_STORED_FILES)
    run_id: str
    files: list[FileToPush]
    pushed_by: str | None
    pushed_at: str | None
    ci: dict[str, Any] | None = Field(description="The CI build that pushed it.")


@FILES.get("/{run_id}/files", summary="List the files of a run")
def list_files(run_id: str, access: Reading) -> StoredFiles:
    """Return the files of a finished run with their checksums, as they are pushed."""
    folder = _find_finished(access, run_id)
    mark = read_push_mark(folder)
    files = [FileToPush.model_validate(to_builtins(file)) for file in list_pushed_files(folder)]
    ci = None if mark is None else to_builtins(mark.ci)
    by, at = (None, None) if mark is None else (mark.user, mark.at)
    return StoredFiles(run_id=folder.name, files=files, pushed_by=by, pushed_at=at, ci=ci)


@FILES.get("/{run_id}/files/{name}", summary="Download a part of a file", response_class=Response)
def send_part(
    run_id: str,
    name: str,
    access: Reading,
    offset: Annotated[int, Query(ge=0, le=_LARGEST, description="Where the part begins.")] = 0,
) -> Response:
    """Return at most 2 MiB of a file of a finished run, from `offset` on."""
    path = _find_finished(access, run_id) / name
    if name not in PUSHED_NAMES or not path.is_file():
        raise not_found(f"the run has no file '{name[:100]}'", "GET /v1/runs/{run_id}/files lists them")
    with store_errors(path), path.open("rb") as stream:
        stream.seek(offset)
        content = stream.read(_CHUNK_BYTES)
    return Response(content, headers=file_headers(name), media_type="application/octet-stream")


def _find_finished(access: Access, run_id: str) -> Path:
    entry = access.runs.find(run_id)
    if entry.status is not RunStatus.FINISHED:
        raise conflict(f"run {entry.id} is not finished")
    return access.runs.find_folder(entry.id)


def _describe(state: PushState, access: Access) -> PushAnswer:
    chunk = min(_CHUNK_BYTES, access.service.settings.limits.body_bytes)
    return PushAnswer.model_validate({**to_builtins(state), "chunk_bytes": chunk})
