"""The OpenAPI document: every route with its problems and with the scheme of its tokens."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from evalspec.service.documents import complete_schemas
from evalspec.service.problems import PROBLEM_SCHEMA, PROBLEM_TYPE

_PREFIX = "/v1/"
_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.UNAUTHORIZED: "There is no valid token.",
    HTTPStatus.FORBIDDEN: "The token does not permit this, or is not valid for the namespace.",
    HTTPStatus.NOT_FOUND: "It does not exist in this namespace.",
    HTTPStatus.CONFLICT: "Its state does not permit this.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the limit.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is packed. Send it without `Content-Encoding`.",
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


def describe_problem(meaning: str) -> dict[str, Any]:
    """Return the description of a response that is a problem, for OpenAPI."""
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": meaning, "content": content}


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    complete_schemas(document)
    schemas["Problem"] = dict(PROBLEM_SCHEMA)
    for schema in schemas.values():
        if "examples" in schema:
            schema["examples"] = [_restore_nulls(example, schema, schemas) for example in schema["examples"]]
    components.setdefault("securitySchemes", {})["token"] = {"type": "http", "scheme": "bearer"}
    for operation in _list_operations(document):
        operation.setdefault("security", [{"token": []}])
        answers = operation.setdefault("responses", {})
        for status, meaning in _PROBLEMS.items():
            answers[str(int(status))] = describe_problem(meaning)


def _restore_nulls(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """Return an example with null for each missing key that is required: FastAPI removes every null of the document."""
    options = [_resolve(one, schemas) for one in schema.get("anyOf", [schema])]
    if isinstance(value, list):
        items: Mapping[str, Any] = next((one["items"] for one in options if isinstance(one.get("items"), dict)), {})
        return [_restore_nulls(item, items, schemas) for item in value]
    if not isinstance(value, dict):
        return value
    found = next((one for one in options if one.get("type") == "object"), {})
    known, others = found.get("properties", {}), found.get("additionalProperties")
    inner = others if isinstance(others, dict) else {}
    whole = dict.fromkeys(found.get("required", ())) | value
    return {key: _restore_nulls(item, known.get(key, inner), schemas) for key, item in whole.items()}


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _list_operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        if path.startswith(_PREFIX):
            yield from methods.values()
