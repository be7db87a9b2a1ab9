"""What every request leaves behind: an id, a line in the log, metrics, an audit entry, and headers of its response.

The metrics are for Prometheus, in a registry of each server: requests, jobs by status, leases, runs.
"""

import secrets
import time
from collections.abc import Iterator
from http import HTTPStatus
from logging import WARNING
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine, func, select
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evalspec.service.audit import record
from evalspec.service.database import read_clock, reading
from evalspec.service.guard import find_address
from evalspec.service.jobs import JobStatus
from evalspec.service.logs import log_event, log_exception
from evalspec.service.origins import READING
from evalspec.service.problem_answers import render_problem
from evalspec.service.rates import Rates
from evalspec.service.tables import JOBS, RUNS
from evalspec.service.tokens import Caller

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The metrics of one server."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "evalspec_requests", "Requests, by route template.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "evalspec_request_seconds",
            "Time to the end of the response.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_Queue(engine))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. Unknown methods are counted together, because clients choose them freely."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format.

        Raises:
            StoreError: The database does not answer.
        """
        return generate_latest(self._registry)


class _Queue(Collector):
    """What the database knows, read with each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing: registering must not query the database."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges."""
        jobs = GaugeMetricFamily("evalspec_jobs", "Jobs, by status.", labels=["namespace", "status"])
        runs = GaugeMetricFamily("evalspec_runs", "Indexed runs.", labels=["namespace"])
        with reading(self._engine) as connection:
            now = read_clock(connection)
            by_status = select(JOBS.c.namespace, JOBS.c.status, func.count()).group_by(JOBS.c.namespace, JOBS.c.status)
            for namespace, status, count in connection.execute(by_status):
                jobs.add_metric([namespace, status], count)
            for namespace, count in connection.execute(
                select(RUNS.c.namespace, func.count()).group_by(RUNS.c.namespace)
            ):
                runs.add_metric([namespace], count)
            is_held = (JOBS.c.status == JobStatus.RUNNING) & (JOBS.c.lease_until >= now)
            working = connection.execute(select(func.count(JOBS.c.worker.distinct())).where(is_held)).scalar_one()
            oldest = connection.execute(
                select(func.min(JOBS.c.created_at)).where(JOBS.c.status == JobStatus.PENDING)
            ).scalar_one_or_none()
        waiting = 0.0 if oldest is None else max(now - oldest, 0.0)
        yield jobs
        yield runs
        yield GaugeMetricFamily("evalspec_workers_busy", "Workers with a valid lease.", value=working)
        yield GaugeMetricFamily("evalspec_queue_seconds", "Age of the oldest pending job.", value=waiting)


NO_ROUTE = "(no route)"
REFUSALS_A_MINUTE = 60
"""Refusals of requests without a valid token that are audited, of all addresses together."""

_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers hide the origin of forms, which is checked
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Observer:
    """The outermost middleware. An audit entry is written before the response is sent."""

    def __init__(self, app: ASGIApp, engine: Engine, metrics: Metrics) -> None:
        self._app = app
        self._engine = engine
        self._metrics = metrics
        self._strangers = Rates(REFUSALS_A_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and observe its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = secrets.token_hex(8)
        started = time.perf_counter()
        status = 0

        async def observe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = state["request_id"]
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                await self._audit(scope, status, headers)
            await send(message)

        try:
            await self._app(scope, receive, observe)
        except Exception:
            log_exception("request failed", request=state["request_id"], route=find_route(scope))
            if status:
                raise  # the connection is closed, because the rest of the response is missing
            detail = f"internal error; the log has the details of request {state['request_id']}"
            await render_problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)(scope, receive, observe)
        finally:
            self._log(scope, status, time.perf_counter() - started)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        route, caller = find_route(scope), _find_caller(scope)
        self._metrics.observe(scope["method"], route, status, seconds)
        log_event(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            request=scope["state"]["request_id"],
            token=None if caller is None else caller.token_id,
            namespace=scope["state"].get("namespace"),
        )

    async def _audit(self, scope: Scope, status: int, headers: Headers) -> None:
        if not self._belongs_in_audit(scope, status):
            return
        action = f"{scope['method']} {find_route(scope)}"
        entry = {**_describe_caller(scope), "target": _find_target(scope, headers), "status": status}
        await run_in_threadpool(record, self._engine, action, **entry)

    def _belongs_in_audit(self, scope: Scope, status: int) -> bool:
        """Return whether a request changed something or was refused. Without a token, nobody fills the log."""
        is_known = _find_caller(scope) is not None
        if status not in _REFUSALS:
            return is_known and scope["method"] not in READING and find_route(scope) != NO_ROUTE
        if scope["state"].get("is_repeated"):
            return False
        excess = None if is_known else self._strangers.take("")
        if excess is not None and excess.is_first:
            log_event("refusals are not audited", level=WARNING, seconds=round(excess.seconds))
        return excess is None


def find_route(scope: Scope) -> str:
    """Return the template of the route of a request, without ids."""
    return getattr(scope.get("route"), "path", NO_ROUTE)


def _find_caller(scope: Scope) -> Caller | None:
    found: Caller | None = scope["state"].get("caller")
    return found


def _describe_caller(scope: Scope) -> dict[str, Any]:
    caller = _find_caller(scope)
    namespace = scope["state"].get("namespace")
    if caller is None:
        return {"namespace": namespace, "address": find_address(scope)}
    if namespace is None and caller.namespaces is not None and len(caller.namespaces) == 1:
        (namespace,) = caller.namespaces
    who = {"user": caller.user, "token_id": caller.token_id}
    return {"namespace": namespace, "address": find_address(scope), **who}


def _find_target(scope: Scope, headers: Headers) -> str | None:
    """Return the ids in the path, and the address of what was created."""
    ids = [f"{name}={value}" for name, value in (scope.get("path_params") or {}).items()]
    created = headers.get("location")
    return " ".join([*ids, *([urlsplit(created).path] if created else [])]) or None
