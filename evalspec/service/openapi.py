"""The OpenAPI document: every route with its problems and with the scheme of its tokens."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from evalspec.service.problems import PROBLEM_SCHEMA, PROBLEM_TYPE

_PREFIX = "/v1/"
_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.UNAUTHORIZED: "There is no valid token.",
    HTTPStatus.FORBIDDEN: "The token does not permit this, or is not valid for the namespace.",
    HTTPStatus.NOT_FOUND: "It does not exist in this namespace.",
    HTTPStatus.CONFLICT: "Its state does not permit this.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The input is invalid. `errors` has every fault with its place.",
    HTTPStatus.TOO_MANY_REQUESTS: "A limit is reached. `Retry-After` says when to try again.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Try again after the seconds in `Retry-After`.",
}
_UNUSED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own schemas of invalid requests, which this API answers with problems."""


def document_app(app: FastAPI) -> None:
    """Add problems and tokens to the OpenAPI document of an application."""
    build = app.openapi

    def build_whole() -> dict[str, Any]:
        is_built = app.openapi_schema is not None
        document = build()
        if not is_built:
            _complete(document)
        return document

    app.openapi = build_whole  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    schemas["Problem"] = dict(PROBLEM_SCHEMA)
    components.setdefault("securitySchemes", {})["token"] = {"type": "http", "scheme": "bearer"}
    for operation in _list_operations(document):
        operation.setdefault("security", [{"token": []}])
        answers = operation.setdefault("responses", {})
        for status, meaning in _PROBLEMS.items():
            content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
            answers[str(int(status))] = {"description": meaning, "content": content}


def _list_operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        if path.startswith(_PREFIX):
            yield from methods.values()
