"""Pages of runs: the list with trends, one run, a section of it, progress, and its actions."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from msgspec.structs import replace
from pydantic import BeforeValidator

from evalspec.base.foreign_text import cut
from evalspec.base.plural import counted
from evalspec.model import VerdictStatus
from evalspec.model.listed_runs import RunEntry, RunStatus
from evalspec.reports.base import REPORTERS
from evalspec.reports.markup.elements import Element, Nodes, el, group
from evalspec.reports.markup.elements import name as isolate
from evalspec.reports.markup.run import draw_navigation, draw_reasons, draw_remarks, draw_run, draw_sections
from evalspec.reports.markup.run_content import DatasetCharts, RunContent
from evalspec.reports.markup.shown import Layout, ShownSection, lay_out, lay_out_section
from evalspec.reports.markup.views import draw_inner, draw_shown_parts
from evalspec.reports.view.parts import TONES, name
from evalspec.runs.store.files import DiskFull
from evalspec.service import jobs, jobs_api, reports_api, runs_api
from evalspec.service.baselines_api import list_promotions
from evalspec.service.cursors import Cursor, cut_page, decode_cursor
from evalspec.service.database import read_clock, reading
from evalspec.service.jobs import Job, JobStatus
from evalspec.service.pages.run_lists import TREND_RUNS, build_trends, describe_origin, list_run
from evalspec.service.pages.run_sources import RunLinks, read_content
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Operator, Visit, Visitor, see_other
from evalspec.service.places import hide_folder
from evalspec.service.problems import ApiProblem, conflict, not_found
from evalspec.service.requested_jobs import start_job
from evalspec.service.run_index import NO_BRANCH, RunFilter
from evalspec.service.timestamps import render_minute
from evalspec.verdict.stats.change_points import WINDOW
from evalspec.verdict.wording import MARKS

ROUTER = APIRouter(include_in_schema=False)

_RUNS_SHOWN = 40
_JOBS_SHOWN = 5
_CHARTS_SHOWN = 16
_REASONS_SHOWN = 60
_RUN_KINDS = ("run",)
_FAILED = (JobStatus.FAILED, JobStatus.CANCELLED)
_RECENT_SECONDS = 86_400.0
_JOBS_SEARCHED = 50
_BRANCHES_OF_FILTER = {"": None, ":none": NO_BRANCH}
"""What the filter means that is no name of a branch. Git permits no colon in a name."""

_ANY = BeforeValidator(lambda value: value or None)
"""Forms send an empty value for no filter."""

Word = Annotated[str, Query(max_length=300)]


@ROUTER.get("/")
def show_start(visit: Visitor) -> RedirectResponse:
    """Show the list of runs."""
    return see_other(visit.link("/runs"))


@ROUTER.get("/runs")
def list_runs(
    request: Request,
    visit: Visitor,
    verdict: Annotated[VerdictStatus | None, _ANY] = None,
    status: Annotated[RunStatus | None, _ANY] = None,
    dataset: Word = "",
    manifest: Word = "",
    branch: Word = "",
    cursor: Cursor = None,
) -> HTMLResponse:
    """Show runs, newest first, with their values and trends."""
    access = visit.access
    before: Any = decode_cursor(cursor, float, str)
    chosen_branch = _BRANCHES_OF_FILTER.get(branch, branch)
    chosen = RunFilter(verdict, status, manifest or None, dataset or None, branch=chosen_branch)
    found = access.runs.list(replace(chosen, before=before), _RUNS_SHOWN + 1)
    shown, following = cut_page(found, _RUNS_SHOWN, lambda entry: (entry.moment, entry.id))
    given = {"verdict": verdict, "status": status, "dataset": dataset, "manifest": manifest, "branch": branch}
    kept = {key: value for key, value in given.items() if value}
    trend_dataset = dataset or _find_newest_dataset(shown)
    branches = access.runs.list_branches()
    trend_branch = _choose_branch(visit, chosen_branch, trend_dataset)
    wanted = RunFilter(manifest=manifest or None, branch=trend_branch)
    points = access.runs.read_trend(trend_dataset, wanted, WINDOW) if trend_dataset and cursor is None else ()
    trends, more_trends = build_trends(points)
    open_jobs = jobs.list_jobs(access.engine, access.namespace, _RUN_KINDS, statuses=jobs.OPEN, limit=_JOBS_SHOWN)
    return render_page(
        "runs.html",
        visit,
        runs=[list_run(entry) for entry in shown],
        jobs=open_jobs,
        trends=trends,
        more_trends=more_trends,
        trend_dataset=trend_dataset,
        trend_branch=trend_branch,
        trend_runs=min(len(points), TREND_RUNS),
        branches=[name for name, _ in branches if name != NO_BRANCH],
        failed_jobs=_list_failed(visit) if cursor is None else [],
        branch=branch,
        chosen=chosen,
        is_filtered=bool(kept) or cursor is not None,
        next_page=visit.link("/runs", **kept, cursor=following) if following else None,
        api_url=str(request.base_url).rstrip("/"),
    )


def _choose_branch(visit: Visit, chosen: str | None, dataset: str | None) -> str:
    """Return the branch whose trends are shown: the chosen one, or that of most runs, but of no pull request."""
    if chosen is not None:
        return chosen
    known = visit.access.runs.list_branches(dataset)
    return next((name for name, _ in known if not name.startswith(":")), NO_BRANCH)


def _list_failed(visit: Visit) -> list[Job]:
    """Return recent jobs that failed or were cancelled before they made a run, unless one like them was added since."""
    engine = visit.access.engine
    with reading(engine) as connection:
        oldest = read_clock(connection) - _RECENT_SECONDS
    seen: list[Mapping[str, Any]] = []
    failed = []
    for job in jobs.list_jobs(engine, visit.namespace, _RUN_KINDS, limit=_JOBS_SEARCHED):
        if job.status in _FAILED and job.run_id is None and job.created_at > oldest and job.request not in seen:
            failed.append(job)
        seen.append(job.request)
    return failed[:_JOBS_SHOWN]


def _find_newest_dataset(entries: Sequence[RunEntry]) -> str | None:
    named = (dataset.name for entry in entries if entry.status is RunStatus.FINISHED for dataset in entry.datasets)
    return next(named, None)


@ROUTER.get("/runs/jobs/{job_id}")
def show_progress(job_id: str, visit: Visitor) -> HTMLResponse:
    """Show the progress of a job, as a part of a page."""
    job = jobs.find_job(visit.access.engine, visit.namespace, job_id)
    if job is None:
        raise not_found(f"there is no job {job_id[:100]}")
    return render_page("progress.html", visit, job=job)


@ROUTER.post("/runs/jobs/{job_id}/cancel")
def cancel_job(job_id: str, visit: Operator) -> RedirectResponse:
    """Cancel a job, and show its run."""
    state = jobs_api.cancel_job(job_id, visit.access)
    place = visit.link("/runs") if state.run_id is None else visit.link_run(state.run_id)
    return see_other(place)


@ROUTER.post("/runs/jobs/{job_id}/retry")
def retry_job(job_id: str, visit: Operator) -> RedirectResponse:
    """Add a job like one that failed or was cancelled; if that had begun a run, continue the run."""
    job = jobs.find_job(visit.access.engine, visit.namespace, job_id)
    if job is None or job.kind not in _RUN_KINDS:
        raise not_found(f"there is no job of a run with the id {job_id[:100]}")
    if job.status not in _FAILED:
        raise conflict(f"the job is {job.status}; only a failed or cancelled one can be retried")
    if job.run_id is not None:
        return resume_run(job.run_id, visit)
    start_job(visit.access, job.kind, job.request, job.kind, job.calls)
    return see_other(visit.link("/runs"))


@ROUTER.post("/runs/{run_id}/resume")
def resume_run(run_id: str, visit: Operator, retry: Word = "") -> RedirectResponse:
    """Continue an interrupted run, or repeat the failed attempts of a finished one."""
    asked = runs_api.ResumeRequest(retry_errors=bool(retry))
    runs_api.resume_run(run_id, visit.access, Response(), asked)
    return see_other(visit.link_run(run_id))


@ROUTER.get("/runs/{run_id}/report")
def download_report(run_id: str, visit: Visitor, form: Annotated[str, Query(max_length=100)]) -> Response:
    """Return a run as a file in a form of report."""
    return reports_api.get_report(run_id, visit.access, form)


@ROUTER.get("/runs/{run_id}")
def show_run(run_id: str, visit: Visitor) -> HTMLResponse:
    """Show a run: verdict, reasons, tables, slices, distributions and metadata; its progress while it runs."""
    # The job comes first: a run that ends meanwhile is shown as finished, or the page is loaded again.
    job = jobs.find_job_of_run(visit.access.engine, visit.namespace, run_id)
    entry = visit.access.runs.find(run_id)
    content, error, is_preparing = _read_content(visit, entry)
    layout = lay_out(content.view) if content else Layout((), ())
    links = RunLinks(visit, run_id)
    may_change = visit.may("run") and entry.origin.pushed_by is None and (job is None or not job.is_open)
    return render_page(
        "run.html",
        visit,
        run_id=run_id,
        heading=(content.agent if content else None) or "Run",
        started=render_minute(entry.started_at) if entry.moment else None,
        state=_describe_state(entry, content),
        content=content,
        said=[cell for cell in content.view.headline[1:] if cell.words != name(content.agent or "")] if content else [],
        error=error,
        is_preparing=is_preparing,
        layout=layout,
        links=links,
        reasons=_draw_reasons(visit, run_id, content) if content else None,
        sections=_draw_sections(visit, run_id, content, layout, links) if content else None,
        end=draw_run(content, links) if content else None,
        jobs=[job] if job is not None and job.status != JobStatus.COMPLETED else [],
        can_resume=may_change and entry.status is RunStatus.INTERRUPTED,
        can_retry=may_change and entry.status is RunStatus.FINISHED and _has_failures(visit, run_id),
        origin=describe_origin(entry),
        build_url=None if entry.origin.ci is None else entry.origin.ci.url,
        pushed_by=entry.origin.pushed_by,
        promotions=list_promotions(visit.access.engine, visit.namespace, run_id=run_id),
        forms=[(reporter.name, reporter.suffixes[0]) for reporter in REPORTERS],
    )


def _read_content(visit: Visit, entry: RunEntry) -> tuple[RunContent | None, str | None, bool]:
    """Return what is known of a run, why it is not known, and whether it is being prepared."""
    if entry.status is RunStatus.DAMAGED:
        return None, entry.error, False
    if entry.status is RunStatus.RUNNING:
        return None, None, False
    try:
        return read_content(visit.access, entry.id), None, False
    except ApiProblem as problem:
        if problem.status is HTTPStatus.SERVICE_UNAVAILABLE:
            return None, None, True
        if problem.status is HTTPStatus.CONFLICT:
            return None, hide_folder(problem.detail, visit.project.folder), False
        raise
    except DiskFull as error:
        return None, hide_folder(str(error), visit.project.folder), False


def _describe_state(entry: RunEntry, content: RunContent | None) -> dict[str, str]:
    """Return verdict, mark and tone; of a run without a verdict its status."""
    if content is not None and entry.status is RunStatus.FINISHED:
        verdict = VerdictStatus(content.verdict)
        return {"text": verdict.replace("_", " "), "mark": MARKS[verdict], "tone": str(TONES[verdict])}
    tone = "fail" if entry.status is RunStatus.DAMAGED else "warn"
    return {"text": entry.status.upper(), "mark": "", "tone": tone}


def _has_failures(visit: Visit, run_id: str) -> bool:
    """Return whether a finished run has failed attempts or scores, so that a retry may help."""
    head = visit.access.runs.find_head(run_id)
    return any(
        one.answered < one.selected or any(summary.failed for summary in one.metrics.values()) for one in head.datasets
    )


def _draw_reasons(visit: Visit, run_id: str, content: RunContent) -> Element:
    """Return the reasons of the verdict with links to their samples, and remarks on the whole run."""

    def link(number: int) -> Nodes:
        found = content.concerned[number] if number < len(content.concerned) else None
        if found is None:
            return None
        said = f"{'' if found.complete else 'the first '}{counted(found.count, 'sample')}"
        address = visit.link_run(run_id, "/samples", reason=number)
        return " ", el("a", said, el("span", " of this reason", class_="unseen"), class_="short", href=address)

    return group(draw_reasons(content.view.reasons[:_REASONS_SHOWN], link), draw_remarks(content))


def _draw_sections(visit: Visit, run_id: str, content: RunContent, layout: Layout, links: RunLinks) -> Element:
    def link_samples(shown: ShownSection) -> Nodes:
        if shown.section.key != "dataset":
            return None
        address = visit.link_run(run_id, "/samples", dataset=shown.dataset)
        return el("p", el("a", "Samples of ", isolate(cut(shown.dataset or "", 160)), href=address))

    others = [("others", "Others")] if layout.linked else []
    return group(
        draw_navigation(layout.sections, links, *others, ("run", "Run")),
        draw_sections(layout.sections, links, _choose_charts(content, layout), link_samples),
    )


def _choose_charts(content: RunContent, layout: Layout) -> Mapping[str, DatasetCharts]:
    """Return the charts of the shown datasets, so many that the page stays small."""
    shown = {section.dataset for section in layout.sections}
    left, chosen = _CHARTS_SHOWN, {}
    for found in content.charts:
        if found.dataset in shown:
            charts = found.charts[:left]
            more = found.more + len(found.charts) - len(charts)
            chosen[found.dataset] = replace(found, charts=charts, more=more)
            left -= len(charts)
    return chosen


@ROUTER.get("/runs/{run_id}/part")
def show_section(
    run_id: str,
    visit: Visitor,
    at: Annotated[str, Query(max_length=100)] = "0",
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> HTMLResponse:
    """Show one section of a run with all its rows, a page at a time."""
    content = read_content(visit.access, run_id)
    shown = lay_out_section(content.view, at, page)
    if shown is None:
        raise not_found("the run has no such section")
    heading = "".join(piece if isinstance(piece, str) else piece.text for piece in shown.section.title)
    links = RunLinks(visit, run_id)
    return render_page(
        "section.html",
        visit,
        run_id=run_id,
        heading=heading,
        shown=shown,
        page=page,
        links=links,
        parts=group(draw_shown_parts(shown, links)),
        inner=group([draw_inner(one, links) for one in shown.sections]),
    )
