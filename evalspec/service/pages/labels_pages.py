"""The page of a run's labels: what people say, how well they agree, downloads and import."""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response, UploadFile
from fastapi.responses import HTMLResponse
from msgspec import Struct

from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.tables import COLUMNS
from evalspec.model.labels import Label
from evalspec.reports.markup.shown import lay_out
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.view.labels import build_labels_view
from evalspec.service import labels_api
from evalspec.service.cursors import decode_cursor, encode_cursor
from evalspec.service.indexed_run import open_indexed_run
from evalspec.service.labelling import SUFFIXES, import_content, read_shown_labels, read_stats
from evalspec.service.pages.label_views import list_metrics, render_label_time, render_verdict
from evalspec.service.pages.run_sources import RunLinks
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Operator, Reviewer, Visit, Visitor, see_other
from evalspec.service.places import hide_folder
from evalspec.service.sample_pages import find_row
from evalspec.service.tokens import Scope
from evalspec.verdict.wording import render_value

ROUTER = APIRouter(include_in_schema=False)

_LABELS_SHOWN = 50
_TEXT_BYTES = 50_000
_ERRORS_SHOWN = 30
_CSV = "csv"

Number = Annotated[int | None, Query(ge=0, le=1_000_000)]


class ListedLabel(Struct, frozen=True):
    """One row of the list. `link`: the page on which the visitor can change it; None: it is somebody else's."""

    sample: str
    dataset: str
    sample_link: str | None
    attempt: int
    metric: str | None
    score: str
    said: str
    is_good: bool
    labeller: str
    note: str | None
    at: str
    link: str | None


@ROUTER.get("/runs/{run_id}/labels")
def show_labels(
    run_id: str,
    visit: Visitor,
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
    added: Number = None,
    known: Number = None,
    everything: Annotated[str, Query(max_length=10)] = "",
) -> HTMLResponse:
    """Show the labels that the visitor may see, and agreement. `added`, `known`: the outcome of an import.

    `everything`: count everybody's labels.
    """
    done = None if added is None else {"added": added, "known": known or 0}
    return _render(visit, run_id, cursor, done=done, everything=bool(everything))


@ROUTER.get("/runs/{run_id}/labels/export")
def download_labels(run_id: str, visit: Operator, form: labels_api.Form = "jsonl") -> Response:
    """Return everybody's labels as a file."""
    return labels_api.export_run_labels(run_id, visit.access, form, history=False)


@ROUTER.post("/runs/{run_id}/labels", response_model=None)
def import_labels(run_id: str, visit: Reviewer, file: UploadFile) -> Response:
    """Import a file of labels, all or none, and show them."""
    form = _CSV if (file.filename or "").lower().endswith(SUFFIXES[_CSV]) else "jsonl"
    try:
        done = import_content(visit.access, run_id, file.file.read(), form)
    except InvalidInput as error:
        errors = [hide_folder(problem.render(), visit.project.folder) for problem in error.problems]
        return _render(visit, run_id, errors=errors, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    place = visit.link_run(run_id, "/labels", added=sum(done.added.values()), known=done.known)
    return see_other(place)


def _render(
    visit: Visit,
    run_id: str,
    cursor: str | None = None,
    *,
    done: dict[str, int] | None = None,
    everything: bool = False,
    errors: list[str] | None = None,
    status: int = HTTPStatus.OK,
) -> HTMLResponse:
    place = decode_cursor(cursor, int)
    first = 0 if place is None else place[0]
    run, found = open_indexed_run(visit.access, run_id), read_shown_labels(visit.access, run_id)
    newest = list(found.labels)[::-1]
    stats = read_stats(visit.access, run_id, everything=everything) if cursor is None else None
    view = build_labels_view(stats) if stats is not None else None
    more = len(newest) > first + _LABELS_SHOWN
    following = encode_cursor(first + _LABELS_SHOWN) if more else None
    return render_page(
        "labels.html",
        visit,
        status,
        run_id=run_id,
        total=sum(stats.labellers.values()) if stats else None,
        people=len(stats.labellers) if stats else None,
        notes=view.notes
        if view and stats and (stats.labellers or stats.left_out or stats.reusable or stats.hidden)
        else (),
        layout=lay_out(view) if view else None,
        uncounted=stats.hidden if stats and visit.may(Scope.RUN) else 0,
        labels=[_list_label(visit, run_id, run.folder, one) for one in newest[first : first + _LABELS_SHOWN]],
        hidden=found.hidden,
        has_texts=run.stored.outline.has_texts,
        has_several=len(run.outlines) > 1,
        metrics=list_metrics(run),
        links=RunLinks(visit, run_id),
        next_page=visit.link_run(run_id, "/labels", cursor=following) if following else None,
        is_first=cursor is None,
        done=done,
        errors=(errors or [])[:_ERRORS_SHOWN],
        more_errors=max(len(errors or ()) - _ERRORS_SHOWN, 0),
        columns=COLUMNS,
        room=TextBudget(_TEXT_BYTES),
    )


def _list_label(visit: Visit, run_id: str, folder: Path, label: Label) -> ListedLabel:
    row = find_row(folder, label.dataset, label.sample)
    link = None
    if row is not None and label.labeller == visit.access.caller.user and visit.may(Scope.REVIEW):
        about = {"attempt": label.attempt, "about": label.metric}
        link = visit.link_run(run_id, "/label", at=row.position, **about)
    return ListedLabel(
        label.sample,
        label.dataset,
        visit.link_sample(run_id, label.dataset, label.sample, row.position) if row else None,
        label.attempt,
        label.metric,
        "" if label.metric is None or label.shown_value is None else render_value(label.metric, label.shown_value),
        render_verdict(label),
        label.verdict.is_good,
        label.labeller,
        label.note,
        render_label_time(label.at),
        link,
    )
