"""Answers to requests that are refused or failed."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from logging import ERROR
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from evalspec.base.errors import EvalspecError, ExitCode, InvalidInput, StoreError
from evalspec.service.answers import render_answer
from evalspec.service.database import DatabaseDown
from evalspec.service.logs import log_event
from evalspec.service.places import hide_folder_within
from evalspec.service.problems import PROBLEM_TYPE, ApiProblem, describe_problems

_PLAIN = {"extra_forbidden": "unknown key", "missing": "this is required"}
"""Messages in plain words, by pydantic's types of errors."""
_NO_ROUTE = "there is nothing at this address; /v1/openapi.json lists the routes of the API"


def install_problems(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    @app.exception_handler(ApiProblem)
    def _refused(request: Request, error: ApiProblem) -> Response:
        return _answer(request, error.status, error.detail, error.errors, error.headers)

    @app.exception_handler(InvalidInput)
    def _invalid(request: Request, error: InvalidInput) -> Response:
        return _answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, str(error), describe_problems(error.problems))

    @app.exception_handler(DatabaseDown)
    def _down(request: Request, error: DatabaseDown) -> Response:
        log_event("the database failed", level=ERROR, error=str(error))  # it may name hosts and users
        full = "the disk of the database is full. free some space on it, then try again"
        detail = full if error.is_full else "the database does not answer; try again soon"
        return _answer(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, (), {"Retry-After": "5"})

    @app.exception_handler(StoreError)
    def _unavailable(request: Request, error: StoreError) -> Response:
        return _answer(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error), (), {"Retry-After": "5"})

    @app.exception_handler(EvalspecError)
    def _failed(request: Request, error: EvalspecError) -> Response:
        known = error.exit_code == ExitCode.INVALID
        return _answer(request, HTTPStatus.UNPROCESSABLE_ENTITY if known else HTTPStatus.BAD_GATEWAY, str(error))

    @app.exception_handler(RequestValidationError)
    def _malformed(request: Request, error: RequestValidationError) -> Response:
        errors = [
            {"field": ".".join(map(str, one["loc"])), "message": _PLAIN.get(one["type"], one["msg"])}
            for one in error.errors()
        ]
        detail = "; ".join(f"{one['field']}: {one['message']}" for one in errors)
        return _answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors)

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        is_route_unknown = status is HTTPStatus.NOT_FOUND and error.detail == status.phrase
        return _answer(request, status, _NO_ROUTE if is_route_unknown else error.detail, (), error.headers)


def _answer(
    request: Request,
    status: HTTPStatus,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for a problem, whose texts do not say where the server keeps the project of the request.

    Folders of other namespaces are not replaced: that would show a caller who guesses one that it exists.
    """
    project = request.app.state.service.settings.projects.get(getattr(request.state, "namespace", None))
    shown: dict[str, Any] = {"detail": detail, "errors": [dict(error) for error in errors]}
    if project is not None:
        shown = hide_folder_within(shown, project.folder)
    return render_problem(status, shown["detail"], shown["errors"], headers)


def render_problem(
    status: HTTPStatus,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for a problem."""
    document: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    if errors:
        document["errors"] = list(errors)
    return render_answer(document, int(status), headers, PROBLEM_TYPE)
