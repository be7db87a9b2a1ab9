"""Pages that add a dataset: choose a file, look at the preview, confirm it."""

from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Form, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from msgspec import Struct

from evalspec.base.jsonl import parse_json
from evalspec.model.base import built
from evalspec.service.dataset_checks import DatasetCheck, check_staged
from evalspec.service.pages.dataset_views import (
    ListedSample,
    describe_check,
    list_sample,
)
from evalspec.service.pages.datasets_pages import link_dataset
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Uploader, Visit, see_other
from evalspec.service.posted_datasets import DATASET_FORMAT, post_dataset
from evalspec.service.problems import ApiProblem
from evalspec.service.project_datasets import DatasetPlace
from evalspec.service.uploaded_datasets import (
    MOST_BYTES,
    SUFFIXES,
    StagedFile,
    discard_staged,
    find_staged,
    stage_file,
    store_upload,
)

ROUTER = APIRouter(include_in_schema=False)

_NAME_SHOWN = 80
"""How much of a file's name is shown, from its end."""
_KEPT = ("queries", "description", "metadata")
"""What a posted dataset has."""

Name = Annotated[str, Form(max_length=200)]


class Preview(Struct, frozen=True):
    """What was found in a file: its check and its first samples."""

    check: DatasetCheck
    samples: tuple[ListedSample, ...]


@ROUTER.get("/datasets/upload")
def show_upload(visit: Uploader) -> HTMLResponse:
    """Show the form."""
    return _render_form(visit)


@ROUTER.post("/datasets/upload", response_model=None)
def upload(visit: Uploader, file: UploadFile, name: Name = "") -> Response:
    """Keep a file, and show its preview."""
    given = Path((file.filename or "").replace("\\", "/")).name
    proposed = name.strip() or given.partition(".")[0].strip()
    try:
        look = partial(look_at, shown_as=given[-_NAME_SHOWN:])
        staged = stage_file(visit.project, file.file, given, proposed, visit.access.caller.user, look)
    except ApiProblem as problem:
        return _render_form(visit, _say(problem), name, problem.status)
    return see_other(visit.link(f"/datasets/upload/{staged.token}"))


def look_at(path: Path, shown_as: str) -> dict[str, Any]:
    """Return the preview of a file as JSON data. `shown_as`: the file in problems, as its author names it."""
    check, first = check_staged(path, shown_as)
    preview: dict[str, Any] = msgspec.to_builtins(Preview(check, tuple(map(list_sample, first))))
    return preview


def _read_preview(visit: Visit, token: str) -> tuple[StagedFile, Path, Preview]:
    """Return a waiting file of the visitor, its path, and what was found in it.

    Raises:
        ApiProblem: 404: There is none.
    """
    staged, path = find_staged(visit.project, token, visit.access.caller.user)
    return staged, path, msgspec.convert(staged.found, built(Preview))


def _say(problem: ApiProblem) -> str:
    """Return why a form was refused, without the names of the API's fields."""
    return "; ".join(str(error["message"]) for error in problem.errors) or problem.detail


def _render_form(visit: Visit, error: str | None = None, name: str = "", status: int = HTTPStatus.OK) -> HTMLResponse:
    most = min(MOST_BYTES, visit.access.service.settings.limits.body_bytes)
    return render_page("upload.html", visit, status, error=error, name=name, suffixes=SUFFIXES, most=most)


@ROUTER.get("/datasets/upload/{token}")
def show_preview(token: str, visit: Uploader) -> HTMLResponse:
    """Show what was recognised in a file, its first samples, and its problems."""
    return _render_preview(visit, token)


def _render_preview(
    visit: Visit, token: str, error: str | None = None, name: str | None = None, status: int = HTTPStatus.OK
) -> HTMLResponse:
    staged, _, preview = _read_preview(visit, token)
    check = preview.check
    return render_page(
        "preview.html",
        visit,
        status,
        token=token,
        name=staged.name if name is None else name,
        error=error,
        check=check,
        is_retrieval=check.format == DATASET_FORMAT,
        **describe_check(check),
        samples=preview.samples,
    )


@ROUTER.post("/datasets/upload/{token}", response_model=None)
def confirm_upload(token: str, visit: Uploader, name: Name) -> Response:
    """Store a file as the next version of a dataset: of queries for retrievers, or of samples."""
    staged, path, preview = _read_preview(visit, token)
    check = preview.check
    if check.problems or not check.profile.samples:
        return _render_preview(
            visit, token, "the file has errors, or no samples; fix it and upload it again", name, 409
        )
    try:
        if check.format == DATASET_FORMAT:
            posted = post_dataset(visit.project, name.strip(), _read_content(path))
            discard_staged(visit.project, token)
            place = DatasetPlace(posted.summary.dataset_name, version=posted.summary.version, is_posted=True)
        else:
            stored = store_upload(visit.project, staged, name.strip())
            place = DatasetPlace(stored.name, version=stored.version)
    except ApiProblem as problem:
        if problem.status is not HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        return _render_preview(visit, token, _say(problem), name, problem.status)
    return see_other(link_dataset(visit, place))


def _read_content(path: Path) -> dict[str, Any]:
    """Return the content of a valid file of queries as a dataset that is posted: of a document, or one query a line."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        document = parse_json(text)
    except ValueError:
        document = [parse_json(line) for line in text.split("\n") if line.strip()]
    if isinstance(document, dict) and "queries" in document:
        return {key: document[key] for key in _KEPT if document.get(key) is not None}
    queries = document if isinstance(document, list) else [document]
    return {"queries": queries}


@ROUTER.post("/datasets/upload/{token}/discard")
def discard_upload(token: str, visit: Uploader) -> RedirectResponse:
    """Delete a file without storing it."""
    find_staged(visit.project, token, visit.access.caller.user)
    discard_staged(visit.project, token)
    return see_other(visit.link("/datasets"))
