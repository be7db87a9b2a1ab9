"""Errors of the API, in the form of RFC 9457 (application/problem+json).

Workers and checks import this too, so the web framework is imported in `problem_answers` only.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from evalspec.base.errors import Problem

PROBLEM_TYPE = "application/problem+json"

PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "Why a request was refused or failed (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence with the cause and the fix."},
        "errors": {
            "description": "Single faults.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message"],
                "properties": {
                    "message": {"type": "string"},
                    "fix": {"type": "string"},
                    "file": {"type": "string"},
                    "line": {"type": "integer"},
                    "field": {"type": "string"},
                },
            },
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "detail": "there is no job run_0123456789ab",
        }
    ],
}
"""The JSON Schema of a problem document."""


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


def conflict(detail: str) -> ApiProblem:
    """Return the problem for a request that the state of something does not permit."""
    return ApiProblem(HTTPStatus.CONFLICT, detail)


def busy(detail: str, seconds: int = 2) -> ApiProblem:
    """Return the problem for something that is possible later. `seconds`: when to try again."""
    return ApiProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(seconds)})


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
