"""Metrics for Prometheus, in a registry of each server: requests, jobs by status, leases, runs."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine, func, select

from evalspec.service.database import read_clock, reading
from evalspec.service.jobs import PENDING, RUNNING
from evalspec.service.tables import JOBS, RUNS

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
            is_held = (JOBS.c.status == RUNNING) & (JOBS.c.lease_until >= now)
            working = connection.execute(select(func.count(JOBS.c.worker.distinct())).where(is_held)).scalar_one()
            oldest = connection.execute(
                select(func.min(JOBS.c.created_at)).where(JOBS.c.status == PENDING)
            ).scalar_one_or_none()
        waiting = 0.0 if oldest is None else max(now - oldest, 0.0)
        yield jobs
        yield runs
        yield GaugeMetricFamily("evalspec_workers_busy", "Workers with a valid lease.", value=working)
        yield GaugeMetricFamily("evalspec_queue_seconds", "Age of the oldest pending job.", value=waiting)
