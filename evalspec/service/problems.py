"""Errors of the API, in the form of RFC 9457 (application/problem+json)."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from evalspec.errors import EvalspecError, ExitCode, InvalidInput, Problem, StoreError

PROBLEM_TYPE = "application/problem+json"


class ApiProblem(Exception):
    """A request that is refused. `detail`: one sentence with the fix. `errors`: single faults with their places."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


def not_found(what: str, fix: str = "") -> ApiProblem:
    """Return the problem for something that does not exist in this namespace."""
    return ApiProblem(HTTPStatus.NOT_FOUND, f"{what}. {fix}" if fix else what)


def describe_problems(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return problems of an input as JSON, each with its place and fix where they are known."""
    return [
        {
            key: value
            for key in ("message", "fix", "file", "line", "field")
            if (value := getattr(problem, key)) not in ("", None)
        }
        for problem in problems
    ]


def install_problems(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    @app.exception_handler(ApiProblem)
    def _refused(_request: Request, error: ApiProblem) -> JSONResponse:
        return render_problem(error.status, error.detail, error.errors, error.headers)

    @app.exception_handler(InvalidInput)
    def _invalid(_request: Request, error: InvalidInput) -> JSONResponse:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return render_problem(status, str(error), describe_problems(error.problems))

    @app.exception_handler(StoreError)
    def _unavailable(_request: Request, error: StoreError) -> JSONResponse:
        return render_problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), (), {"Retry-After": "5"})

    @app.exception_handler(EvalspecError)
    def _failed(_request: Request, error: EvalspecError) -> JSONResponse:
        known = error.exit_code == ExitCode.INVALID
        return render_problem(HTTPStatus.UNPROCESSABLE_ENTITY if known else HTTPStatus.BAD_GATEWAY, str(error))

    @app.exception_handler(RequestValidationError)
    def _malformed(_request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [{"field": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
        detail = "; ".join(f"{one['field']}: {one['message']}" for one in errors)
        return render_problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors)

    @app.exception_handler(HTTPException)
    def _http(_request: Request, error: HTTPException) -> JSONResponse:
        return render_problem(HTTPStatus(error.status_code), error.detail, (), error.headers)


def render_problem(
    status: HTTPStatus,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return the response for a problem."""
    document: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    if errors:
        document["errors"] = list(errors)
    return JSONResponse(document, int(status), headers, PROBLEM_TYPE)
