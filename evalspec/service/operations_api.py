"""Routes for whoever operates the server: health, metrics, the audit log, the OpenAPI document, erasing personal data.

Erasing covers runs, labels and baselines, and the results and errors of jobs.
"""

import json
import math
import os
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, Json
from sqlalchemy import Engine, or_, select, update

from evalspec.api.erasure import SHORTEST_TEXT, erase
from evalspec.base.errors import StoreError
from evalspec.curation.gold.quotes import Quotes
from evalspec.service.access import Administering, Reading, Service, identify, service_of
from evalspec.service.alerts import AlertStatus, list_alerts
from evalspec.service.audit import list_entries
from evalspec.service.baselines_api import keep_shortened, list_whole
from evalspec.service.comparing import COMPARISON
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.database import newest_revision, read_revision, reading, writing
from evalspec.service.documents import body_config, show_example
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.jobs import OPEN
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.observing import Metrics
from evalspec.service.problems import ApiProblem
from evalspec.service.pushes import PUSHES_NAME, list_pushes, remove_idle_pushes
from evalspec.service.stores import STORE_ID_NAME
from evalspec.service.tables import JOBS
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


_ALERT: dict[str, Any] = {
    "id": "alert_0123456789ab",
    "created_at": MOMENT,
    "status": "delivered",
    "attempts": 1,
    "error": None,
    "body": {"text": "*PASS → FAIL*: project `shop`, …", "event": "verdict_changed", "run_id": RUN_ID},
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

    model_config = show_example({"entries": [_EXAMPLE], "next_cursor": None})
    entries: list[AuditLine]
    next_cursor: NextCursor


@ROUTER.get("/healthz", include_in_schema=False)
async def show_health() -> dict[str, str]:
    """Return that the process is running. It needs no thread: all of them may wait for a locked database."""
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
    known = list_entries(access.engine, namespace, **wanted, before=before, limit=limit + 1)
    entries, following = cut_page(known, limit, lambda entry: (entry.at, entry.id))
    return AuditPage(entries=[AuditLine.model_validate(entry) for entry in entries], next_cursor=following)


class AlertState(BaseModel):
    """An alert. It is sent until the webhook accepts it, for a day."""

    model_config = ConfigDict(from_attributes=True)
    id: str = Field(description="The same in every attempt to send it, as `webhook-id`.")
    created_at: ShownTime
    status: AlertStatus
    attempts: int
    error: str | None = Field(description="Why the last attempt failed; null: it did not.")
    body: Json[dict[str, Any]] = Field(description="What is sent.")


class AlertList(BaseModel):
    """Alerts, newest first."""

    model_config = show_example({"alerts": [_ALERT]})
    alerts: list[AlertState]


@ROUTER.get("/v1/alerts", summary="List alerts")
def show_alerts(access: Reading, limit: Limit = 50) -> AlertList:
    """Return the newest alerts of the namespace with their delivery."""
    found = list_alerts(access.engine, access.namespace, limit)
    return AlertList(alerts=[AlertState.model_validate(one) for one in found])


ERASURE = APIRouter(prefix="/v1/erasure", tags=["operations"], route_class=JsonRoute)

_ERASED = "erased, because it quoted an erased text"
_COMPUTED_AGAIN = frozenset({COMPARISON, "dataset_check"})
"""Kinds of jobs whose results have texts of samples, and are computed again on demand."""
_REQUEST: dict[str, Any] = {
    "texts": ["ben@example.com"],
    "samples": [{"dataset": "qa", "id": "refund"}],
    "dry_run": True,
}
_REPORT: dict[str, Any] = {
    "dry_run": True,
    "runs": {RUN_ID: 2},
    "labels": {RUN_ID: 1},
    "baselines": {},
    "jobs": [],
    "removed": [],
    "failed": [],
    "unreachable": [
        "qa.jsonl still quotes a text",
        "backups, clones and caches of CI",
        "reports and datasets that were written or sent elsewhere",
        "the services that answered or judged the samples",
    ],
}


class SampleName(BaseModel):
    """A sample of a dataset."""

    model_config = body_config(strict=False)
    dataset: str = Field(max_length=1000)
    id: str = Field(max_length=1000)


class ErasureRequest(BaseModel):
    """What to erase. The texts are neither stored nor logged."""

    model_config = body_config(_REQUEST, strict=False)
    texts: list[Annotated[str, Field(min_length=SHORTEST_TEXT, max_length=10_000)]] = Field(
        [], max_length=100, description="Every sample that quotes one of these texts is erased."
    )
    samples: list[SampleName] = Field([], max_length=10_000, description="These samples are erased.")
    dry_run: bool = Field(False, description="Change nothing.")


class ErasureReport(BaseModel):
    """What was erased, or would be."""

    model_config = show_example(_REPORT)
    dry_run: bool
    runs: dict[str, int] = Field(description="Number of erased samples, by run.")
    labels: dict[str, int] = Field(description="Number of labels without their words, by run.")
    baselines: dict[str, int] = Field(description="Number of removed samples, by file.")
    jobs: list[str] = Field(description="Ended jobs whose results or errors quoted a text or a sample.")
    removed: list[str] = Field(description="Deleted files, and pushes in progress.")
    failed: list[str] = Field(description="What has to be done again.")
    unreachable: list[str] = Field(description="Where the texts may still be.")


@ERASURE.post("", summary="Erase personal data")
def erase_data(asked: ErasureRequest, access: Administering) -> ErasureReport:
    """Erase texts of samples from the stored runs of the namespace. Scores stay.

    The request waits for the end, because a job would have to store the texts.
    """
    keys = [(sample.dataset, sample.id) for sample in asked.samples]
    promoted = [] if asked.dry_run else list_whole(access)
    done = erase(access.project.folder, asked.texts, keys, dry_run=asked.dry_run)
    keep_shortened(access, promoted)
    # pushes may quote a text, and begin again
    pushes = remove_idle_pushes(access.project, -math.inf, dry_run=asked.dry_run)
    held = [] if asked.dry_run else list_pushes(access.project)
    jobs_changed = _erase_from_jobs(access.engine, access.namespace, asked.texts, keys, dry_run=asked.dry_run)
    return ErasureReport(
        dry_run=done.is_dry_run,
        runs=done.runs,
        labels=done.labels,
        baselines=done.baselines,
        jobs=jobs_changed,
        removed=[*done.removed, *(f".evalspec/{PUSHES_NAME}/{name}" for name in pushes)],
        failed=[*done.failed, *(f".evalspec/{PUSHES_NAME}/{name}: a request is using it" for name in held)],
        unreachable=done.unreachable,
    )


def _erase_from_jobs(
    engine: Engine,
    namespace: str,
    texts: Collection[str],
    samples: Collection[tuple[str, str]],
    *,
    dry_run: bool,
) -> list[str]:
    """Remove texts from the results and errors of ended jobs that quote one of the texts, or compare a sample.

    Returns:
        The ids of these jobs.

    Raises:
        StoreError: The database does not answer.
    """
    quotes = Quotes(texts, shortest=1)
    shown = (JOBS.c.id, JOBS.c.kind, JOBS.c.result, JOBS.c.error)
    has_text = or_(JOBS.c.kind == COMPARISON, JOBS.c.error.is_not(None), JOBS.c.result.is_not(None))
    ended = select(*shown).where(JOBS.c.namespace == namespace, JOBS.c.status.not_in(OPEN), has_text)
    with reading(engine) as connection:
        found = [
            row
            for row in connection.execute(ended.order_by(JOBS.c.id))
            if quotes(_encode(row.result, row.error))
            or (row.kind == COMPARISON and _list_samples(row.result) & set(samples))
        ]
    if not dry_run:
        with writing(engine) as connection:
            for row in found:
                changed = update(JOBS).where(JOBS.c.namespace == namespace, JOBS.c.id == row.id)
                connection.execute(changed.values(result=_strip(row), error=row.error and _ERASED))
    return [row.id for row in found]


def _strip(row: Any) -> Mapping[str, Any] | None:
    """Return the result of a row of the table without texts. Scores of evaluations stay."""
    if row.result is None or row.kind in _COMPUTED_AGAIN:
        return None
    return {**row.result, "warnings": [_ERASED]} if "warnings" in row.result else row.result


def _encode(result: Any, error: str | None) -> bytes:
    return json.dumps([result, error], ensure_ascii=False).encode(errors="replace")


def _list_samples(result: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return the samples whose texts a comparison shows, by dataset and id."""
    return {
        (dataset["name"], sample["id"])
        for candidate in (result or {}).get("candidates", ())
        for dataset in candidate["datasets"]
        for sample in dataset["samples"]
    }
