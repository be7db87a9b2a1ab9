"""Route of trends: the values of a metric over the runs of a project."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from evalspec.service.access import Reading
from evalspec.service.answers import render_answer
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.jobs import render_time, to_seconds
from evalspec.service.moments import Since, Until
from evalspec.service.run_answers import LISTED, MetricValue
from evalspec.service.run_index import RunFilter, TrendPoint
from evalspec.service.runs_api import Branch

ROUTER = APIRouter(prefix="/v1/trends", tags=["trends"])

_METRIC = "exact_match"


class TrendEntry(MetricValue):
    """A metric in one run."""

    run_id: str
    started_at: str
    verdict: str | None
    partial: bool | None
    manifest: str | None
    branch: str | None
    selected: int = Field(description="Number of samples.")


_EXAMPLE: dict[str, Any] = {
    "run_id": RUN_ID,
    "started_at": MOMENT,
    "verdict": "PASS",
    "partial": False,
    "manifest": "agent.yaml",
    "branch": "main",
    "selected": 4,
    **LISTED["datasets"][0]["metrics"][_METRIC],
}


class Trend(BaseModel):
    """The values of one metric of one dataset, newest last. Runs without the metric are left out.

    A line may join neighbours of one `series` only.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dataset": "qa", "metric": _METRIC, "points": [_EXAMPLE]}]}
    )
    dataset: str
    metric: str
    points: list[TrendEntry]


@ROUTER.get("", response_model=Trend, summary="Show a trend")
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
    points = [_describe(point, metric) for point in found if metric in point.metrics]
    return render_answer({"dataset": dataset, "metric": metric, "points": points})


def _describe(point: TrendPoint, metric: str) -> dict[str, Any]:
    return {
        "run_id": point.run_id,
        "started_at": render_time(point.started_at),
        "verdict": point.verdict,
        "partial": point.partial,
        "manifest": point.manifest,
        "branch": point.branch,
        "selected": point.selected,
        **point.metrics[metric],
    }
