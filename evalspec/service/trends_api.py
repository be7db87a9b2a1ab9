"""Route of trends: the values of a metric over the runs of a project."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from msgspec.structs import replace

from evalspec.service.access import Reading
from evalspec.service.documents import document_type, render_document
from evalspec.service.examples import LISTED_RUN, MOMENT, RUN_ID
from evalspec.service.parameters import Since, Until
from evalspec.service.run_index import RunFilter
from evalspec.service.run_records import MetricTrend, TrendPoint
from evalspec.service.runs_api import Branch
from evalspec.service.timestamps import to_seconds

ROUTER = APIRouter(prefix="/v1/trends", tags=["trends"])

_POINT = TrendPoint(
    run_id=RUN_ID,
    started_at=MOMENT,
    verdict="PASS",
    partial=False,
    manifest="agent.yaml",
    branch="main",
    selected=4,
    metrics=LISTED_RUN.datasets[0].metrics,
)
_TREND = MetricTrend("qa", "exact_match", (_POINT,))


@ROUTER.get("", response_model=document_type(MetricTrend, _TREND), summary="Show a trend")
def get_trend(
    access: Reading,
    dataset: Annotated[str, Query(max_length=1000)],
    metric: Annotated[str, Query(max_length=1000)],
    manifest: Annotated[str | None, Query(description="Path in the project.", max_length=1000)] = None,
    since: Since = None,
    until: Until = None,
    branch: Branch = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="The newest runs, at most so many.")] = 100,
) -> Response:
    """Return the values of a metric over finished runs, with their intervals. Values alone prove no change: compare."""
    wanted = RunFilter(manifest=manifest, branch=branch, since=to_seconds(since), until=to_seconds(until))
    found = access.runs.read_trend(dataset, wanted, limit)
    points = [replace(one, metrics={metric: one.metrics[metric]}) for one in found if metric in one.metrics]
    return render_document(MetricTrend(dataset, metric, tuple(points)))
