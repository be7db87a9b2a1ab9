"""Routes of runs: start one from a manifest of the project, list, show, resume, cancel and delete; trends over runs."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from msgspec.structs import asdict, replace
from pydantic import BaseModel, Field

from evalspec.model import VerdictStatus
from evalspec.model.fingerprints import CiBuild
from evalspec.model.listed_runs import RunEntry, RunKind, RunStatus
from evalspec.runs.store.locks import is_being_written
from evalspec.service import jobs
from evalspec.service.access import Access, Reading, Running
from evalspec.service.answers import render_answer
from evalspec.service.bounds import Depth, SampleSize, Seed
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.documents import body_config, document_type, page_example, render_document, to_json
from evalspec.service.examples import LISTED_RUN, MOMENT, RUN_ID, WHOLE_RUN
from evalspec.service.jobs import Job
from evalspec.service.jobs_api import JobState, describe_job
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.parameters import Since, Until
from evalspec.service.problems import conflict
from evalspec.service.requested_jobs import start_job
from evalspec.service.run_index import RunFilter
from evalspec.service.run_jobs import check_request, count_open_attempts, resolve_manifest
from evalspec.service.run_records import LevelChange, MetricTrend, TrendPoint, WholeRun, iterate_level_changes
from evalspec.service.settings import MANIFEST, Project
from evalspec.service.timestamps import to_seconds

ROUTER = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=JsonRoute)

ManifestPath = Annotated[str | None, Query(description="Path in the project.", max_length=1000)]
Branch = Annotated[
    str | None,
    Query(description="Of the project, or `:7` for builds of pull request 7; empty: runs of neither.", max_length=1000),
]


document_type(CiBuild)


class RunPage(BaseModel):
    """A page of runs, newest first."""

    model_config = page_example("runs", LISTED_RUN)
    runs: list[document_type(RunEntry)]  # type: ignore[valid-type]
    next_cursor: NextCursor


class RunRequest(BaseModel):
    """A run of a manifest of the project. The options are those of `evalspec evaluate`."""

    model_config = body_config({"manifest": MANIFEST, "sample_size": 20})
    manifest: str = Field(MANIFEST, description="Path in the project.", max_length=1000)
    datasets: list[str] = Field([], description="Only these datasets.")
    sample_size: SampleSize | None = Field(None, description="At most so many samples per dataset.")
    seed: Seed = 0
    tags: list[str] = []
    exclude_tags: list[str] = []
    where: list[str] = []
    stratify: list[str] = []
    slice: str | None = None
    held_out: bool = False
    repeat: Annotated[int, Field(ge=1, le=100)] = 1
    judge_repeat: Annotated[int, Field(ge=1, le=100)] = 1
    no_judge: bool = False
    no_content: bool = False
    concurrency: Annotated[int, Field(ge=1, le=100)] = 10
    retriever: str | None = None
    mode: Literal["retrieve", "retrieve+rerank"] | None = None
    top_k: Depth | None = None
    rerank_top_k: Depth | None = None

    def to_options(self) -> dict[str, Any]:
        """Return the options of `evalspec.evaluate` that differ from their defaults."""
        return self.model_dump(exclude={"manifest"}, exclude_defaults=True)


class ResumeRequest(BaseModel):
    """How to resume a run."""

    model_config = body_config({"retry_errors": True})
    retry_errors: bool = Field(False, description="Repeat failed attempts too. A finished run has only those.")
    concurrency: Annotated[int, Field(ge=1, le=100)] = 10


@ROUTER.post("", status_code=HTTPStatus.ACCEPTED, summary="Start a run")
def start_run(asked: RunRequest, response: Response, access: Running) -> JobState:
    """Start a run. It is checked first; the samples are queried by a worker."""
    options = asked.to_options()
    request = {"manifest": asked.manifest, "options": options}
    found = check_request(access.service.settings, access.project, "run", request)
    counts = (min(count, asked.sample_size or count) for count in found.values())
    job = start_job(access, "run", request, "run", sum(counts) * asked.repeat)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return describe_job(job)


@ROUTER.get("", response_model=RunPage, summary="List runs")
def list_runs(
    access: Reading,
    verdict: VerdictStatus | None = None,
    status: RunStatus | None = None,
    kind: Annotated[RunKind | None, Query(description="`retriever`: evaluations of retrievers.")] = None,
    manifest: ManifestPath = None,
    dataset: Annotated[str | None, Query(description="Only runs with this dataset.", max_length=1000)] = None,
    since: Since = None,
    until: Until = None,
    branch: Branch = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Return runs of the service and of the command line, newest first."""
    before: Any = decode_cursor(cursor, float, str)
    times = to_seconds(since), to_seconds(until)
    wanted = RunFilter(verdict, status, manifest, dataset, *times, before, branch, kind)
    found, following = cut_page(access.runs.list(wanted, limit + 1), limit, lambda one: (one.moment, one.id))
    labels = _read_labels(access.project)
    shown = [to_json(replace(one, labels=labels.get(one.id, ()))) for one in found]
    return render_answer({"runs": shown, "next_cursor": following})


@ROUTER.get("/{run_id}", response_model=document_type(WholeRun, WHOLE_RUN), summary="Show a run")
def get_run(run_id: str, access: Reading) -> Response:
    """Return a run: verdict, reasons, thresholds, metrics with intervals, slices and notes."""
    entry = access.runs.find(run_id)
    job = jobs.find_job_of_run(access.engine, access.namespace, run_id)
    known = asdict(replace(entry, labels=_read_labels(access.project).get(run_id, ())))
    head = access.runs.find_head(run_id)
    return render_document(WholeRun(**known, job_id=None if job is None else job.id, result=head))


def _read_labels(project: Project) -> dict[str, tuple[str, ...]]:
    """Return the labels of each run that has one, by id."""
    found: dict[str, tuple[str, ...]] = {}
    for label, folder in project.store.labels().items():
        found[folder.name] = (*found.get(folder.name, ()), label)
    return found


@ROUTER.post("/{run_id}/resume", status_code=HTTPStatus.ACCEPTED, summary="Resume a run")
def resume_run(run_id: str, access: Running, response: Response, asked: ResumeRequest | None = None) -> JobState:
    """Continue an interrupted run with the current manifest, or repeat the failed attempts of a finished one."""
    asked = asked or ResumeRequest()
    entry = access.runs.find(run_id)
    _refuse_unresumable(access, entry, asked)
    manifest = str(resolve_manifest(access.project.folder, entry.manifest or MANIFEST))
    request = {"manifest": manifest, "options": {"concurrency": asked.concurrency}, "retryErrors": asked.retry_errors}
    calls = count_open_attempts(access.runs.find_folder(run_id), retry_errors=asked.retry_errors)
    job = start_job(access, "run", request, "run", calls, run_id)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return describe_job(job)


@ROUTER.post("/{run_id}/cancel", summary="Cancel a run")
def cancel_run(run_id: str, access: Running) -> JobState:
    """Cancel the job that writes a run. The results so far are kept, and the run can be resumed."""
    folder = access.runs.find_folder(run_id)
    job = _find_open_job(access, run_id)
    if job is not None:
        job = jobs.cancel(access.engine, access.namespace, job.id)
    if job is None:
        started = "the command line started the run; stop it there" if is_being_written(folder) else ""
        raise conflict(started or "the run is not in progress")
    return describe_job(job)


@ROUTER.delete("/{run_id}", status_code=HTTPStatus.NO_CONTENT, summary="Delete a run")
def delete_run(run_id: str, access: Running) -> None:
    """Delete a run with its files and labels."""
    folder = access.runs.find_folder(run_id)
    if _find_open_job(access, run_id) is not None or is_being_written(folder):
        raise conflict("the run is in progress; cancel it first")
    access.project.store.remove(folder)
    access.runs.drop(run_id)


def _find_open_job(access: Access, run_id: str) -> Job | None:
    job = jobs.find_job_of_run(access.engine, access.namespace, run_id)
    return job if job is not None and job.is_open else None


def _refuse_unresumable(access: Access, entry: RunEntry, asked: ResumeRequest) -> None:
    if entry.origin.pushed_by is not None:
        raise conflict("the run was pushed, so it is read-only; resume it where it was evaluated")
    if entry.status is RunStatus.RUNNING or _find_open_job(access, entry.id) is not None:
        raise conflict("the run is in progress")
    if entry.status is RunStatus.FINISHED and not asked.retry_errors:
        raise conflict("the run is finished; `retry_errors` repeats its failed attempts")


TRENDS = APIRouter(prefix="/v1/trends", tags=["trends"])

_POINT = TrendPoint(
    run_id=RUN_ID,
    started_at=MOMENT,
    verdict="PASS",
    partial=False,
    manifest="agent.yaml",
    branch="main",
    commit="2f0c1c5e",
    pull_request=None,
    selected=4,
    metrics=LISTED_RUN.datasets[0].metrics,
)
_TREND = MetricTrend("qa", "exact_match", (_POINT,), (LevelChange(RUN_ID, MOMENT, "2f0c1c5e", 0.81, 0.74),))


@TRENDS.get("", response_model=document_type(MetricTrend, _TREND), summary="Show a trend")
def get_trend(
    access: Reading,
    dataset: Annotated[str, Query(max_length=1000)],
    metric: Annotated[str, Query(max_length=1000)],
    manifest: ManifestPath = None,
    since: Since = None,
    until: Until = None,
    branch: Branch = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="The newest runs, at most so many.")] = 100,
) -> Response:
    """Return the values of a metric over finished runs, with their intervals, and where its level changed.

    Two values alone prove no change: compare the runs. Runs whose clock was more than ten minutes ahead are left out.
    """
    wanted = RunFilter(manifest=manifest, branch=branch, since=to_seconds(since), until=to_seconds(until))
    found = access.runs.read_trend(dataset, wanted, limit)
    points = [replace(one, metrics={metric: one.metrics[metric]}) for one in found if metric in one.metrics]
    return render_document(MetricTrend(dataset, metric, tuple(points), tuple(iterate_level_changes(metric, found))))
