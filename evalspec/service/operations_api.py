"""Routes for whoever operates the server: health, metrics, the audit log and the OpenAPI document."""

import os
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field

from evalspec.base.errors import StoreError
from evalspec.service.access import Administering, Service, identify, service_of
from evalspec.service.audit import list_entries
from evalspec.service.cursors import Cursor, Limit, NextCursor, decode_cursor, encode_cursor
from evalspec.service.database import newest_revision, read_revision, reading
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.metrics import Metrics
from evalspec.service.problems import ApiProblem
from evalspec.service.stores import STORE_ID_NAME
from evalspec.service.timestamps import ShownTime
from evalspec.service.tokens import Caller, Scope

ROUTER = APIRouter(tags=["operations"])

_EXAMPLE: dict[str, Any] = {
    "at": MOMENT,
    "action": "DELETE /v1/runs/{run_id}",
    "user": "ana@example.com",
    "token_id": "a5944abc1ea2",
    "address": "192.0.2.7",
    "target": f"run_id={RUN_ID}",
    "status": 204,
}


class AuditLine(BaseModel):
    """One entry of the audit log."""

    model_config = ConfigDict(from_attributes=True)
    at: ShownTime
    action: str = Field(description="Method and route, or an internal action.")
    user: str | None = None
    token_id: str | None = None
    address: str | None = None
    target: str | None = Field(None, description="Ids of what was changed.")
    status: int | None = Field(None, description="Of the HTTP response.")


class AuditPage(BaseModel):
    """Entries of the audit log, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entries": [_EXAMPLE], "next_cursor": None}]})
    entries: list[AuditLine]
    next_cursor: NextCursor


@ROUTER.get("/healthz", include_in_schema=False)
def show_health() -> dict[str, str]:
    """Return that the process is running."""
    return {"status": "ok"}


@ROUTER.get("/readyz", include_in_schema=False)
def show_readiness(request: Request) -> JSONResponse:
    """Return whether requests can be served: 200, or 503 with what is missing. Names of namespaces are not shown."""
    checks = _check(service_of(request))
    is_ready = set(checks.values()) == {"ok"}
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse({"status": "ready" if is_ready else "not ready", **checks}, int(status))


def _check(service: Service) -> dict[str, str]:
    try:
        with reading(service.engine) as connection:
            is_current = read_revision(connection) == newest_revision()
        database = "ok" if is_current else "its tables are of another version of evalspec"
    except StoreError:
        database = "no answer"
    projects = service.settings.projects.values()
    is_readable = all(os.access(project.root / STORE_ID_NAME, os.R_OK) for project in projects)
    return {"database": database, "projects": "ok" if is_readable else "a project is gone, or cannot be read"}


@ROUTER.get("/metrics", include_in_schema=False)
def show_metrics(request: Request, caller: Annotated[Caller, Depends(identify)]) -> Response:
    """Return metrics for Prometheus. They cover all namespaces, so a token for all of them is needed."""
    if caller.namespaces is not None or not caller.may(Scope.READ):
        detail = "metrics need a token with the scope read, for all namespaces"
        raise ApiProblem(HTTPStatus.FORBIDDEN, detail)
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


@ROUTER.get("/v1/openapi.json", include_in_schema=False)
def show_openapi(request: Request, _caller: Annotated[Caller, Depends(identify)]) -> dict[str, Any]:
    """Return the description of the API."""
    document: dict[str, Any] = request.app.openapi()
    return document


@ROUTER.get("/v1/audit", summary="Show the audit log")
def list_audit(
    access: Administering,
    *,
    user: str | None = None,
    action: Annotated[str | None, Query(description="As in the entries.")] = None,
    status: Annotated[int | None, Query(ge=100, le=999, description="Of the HTTP response.")] = None,
    everything: Annotated[bool, Query(description="Of all namespaces and of none. Needs a token for all.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AuditPage:
    """Return who changed what in the namespace, and what was refused. Newest first."""
    if everything and access.caller.namespaces is not None:
        raise ApiProblem(HTTPStatus.FORBIDDEN, "this needs a token for all namespaces")
    before: Any = decode_cursor(cursor, float, str)
    namespace = None if everything else access.namespace
    wanted: dict[str, Any] = {"user": user, "action": action, "status": status}
    entries = list_entries(access.engine, namespace, **wanted, before=before, limit=limit + 1)
    following = encode_cursor(entries[limit - 1].at, entries[limit - 1].id) if len(entries) > limit else None
    return AuditPage(entries=[AuditLine.model_validate(entry) for entry in entries[:limit]], next_cursor=following)
