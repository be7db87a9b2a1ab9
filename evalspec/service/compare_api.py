"""Route of comparisons."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from evalspec.model import Direction
from evalspec.model.comparisons import (
    CandidateComparison,
    Change,
    ComparedRun,
    Comparison,
    DatasetComparison,
    MetricChange,
    SampleChange,
    SampleKind,
    ScoreChange,
)
from evalspec.service.access import Reading
from evalspec.service.answers import render_answer
from evalspec.service.bounds import ResamplingSeed
from evalspec.service.comparing import COMPARISON, compare_project_runs, count_samples
from evalspec.service.documents import body_config, document_type, render_document
from evalspec.service.examples import RUN_ID
from evalspec.service.jobs_api import JobState, describe_job
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.requested_jobs import start_job
from evalspec.service.sample_builds import SMALL

ROUTER = APIRouter(prefix="/v1/compare", tags=["compare"], route_class=JsonRoute)

Name = Annotated[str, Field(min_length=1, max_length=200)]


_METRIC = MetricChange(
    *(0.7, 0.8, 0.1, (0.02, 0.18), 200),
    metric="exact_match",
    statistic="mean",
    direction=Direction.HIGHER,
    verdict=Change.IMPROVED,
    test="randomisation",
    p_value=0.01,
    p_adjusted=0.02,
    units=200,
)
_DATASET = DatasetComparison(
    name="qa",
    candidate_name="qa",
    pairs=200,
    metrics={"exact_match": _METRIC},
    metrics_only_in_baseline=(),
    metrics_only_in_candidate=(),
    slices=(),
    sample_counts={SampleKind.IMPROVED: 20, SampleKind.UNCHANGED: 180},
    samples=(SampleChange("refund", SampleKind.IMPROVED, {"exact_match": ScoreChange(0.0, 1.0)}),),
)
_EXAMPLE = Comparison(
    baseline=ComparedRun(RUN_ID, RUN_ID, "run", ()),
    alpha=0.05,
    confidence=0.95,
    resamples=10_000,
    seed=0,
    tests=1,
    candidates=(CandidateComparison(RUN_ID, RUN_ID, "run", (), mismatches=(), differences=(), datasets=(_DATASET,)),),
    rivals=(),
    best_runs=(),
)


class CompareRequest(BaseModel):
    """Runs to compare: ids, labels, `latest`, or names of promoted baselines. The options are those of the command."""

    model_config = body_config({"baseline": "latest", "candidates": ["latest"], "samples": 5})
    baseline: Name
    candidates: list[Name] = Field(min_length=1, max_length=10)
    datasets: list[str] = Field([], max_length=100)
    metrics: list[str] = Field([], max_length=100)
    alpha: float = Field(0.05, gt=0, lt=1)
    resamples: int = Field(10_000, ge=100, le=100_000)
    seed: ResamplingSeed = 0
    allow_mismatch: bool = Field(False, description="Compare runs that are not comparable; `mismatches` says why.")
    samples: int = Field(10, ge=0, le=200, description="Changed samples of each dataset to show, worst first.")


@ROUTER.post(
    "",
    response_model=document_type(Comparison, _EXAMPLE),
    responses={202: {"model": JobState, "description": "A job compares large runs; its `result` is the answer."}},
    summary="Compare runs",
)
def compare(asked: CompareRequest, access: Reading) -> Response:
    """Compare candidates with a baseline, and test whether the differences exceed noise."""
    request = asked.model_dump()
    if count_samples(access, request) <= SMALL:
        return render_document(compare_project_runs(access.project, request))
    job = start_job(access, COMPARISON, request, "compare")
    answer: Any = describe_job(job).model_dump(mode="json")
    return render_answer(answer, HTTPStatus.ACCEPTED, {"Location": f"/v1/jobs/{job.id}"})
