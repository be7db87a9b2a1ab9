"""The page of a run's labels, and the labels on a sample that other pages show.

The page shows what people say and how well they agree, and has downloads and import. Nobody sees what others say
about a reply or a score before they have labelled it themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response, UploadFile
from fastapi.responses import HTMLResponse
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.curation.labels.binding import LabelMatch, compute_reply_digest
from evalspec.curation.labels.current import list_current, list_visible
from evalspec.curation.labels.rating import RatingForm
from evalspec.curation.labels.session import VERDICT_KEYS
from evalspec.curation.labels.tables import COLUMNS
from evalspec.model import Score
from evalspec.model.labels import OF_REPLIES, OF_SHOWN_SCORES, Label, LabelVerdict, Target
from evalspec.reports.markup.shown import lay_out
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.rows import AttemptRow
from evalspec.reports.view.calibration import build_calibration_view
from evalspec.reports.view.labels import build_labels_view
from evalspec.service import labels_api
from evalspec.service.cursors import Cursor, decode_cursor, encode_cursor
from evalspec.service.indexed_run import IndexedRun, find_label_files, open_indexed_run
from evalspec.service.labelling import SUFFIXES, import_content, read_calibration, read_shown_labels, read_stats
from evalspec.service.pages.run_sources import RunLinks, list_tags
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Operator, Reviewer, Visit, Visitor, see_other
from evalspec.service.people import list_reviewers
from evalspec.service.places import hide_folder
from evalspec.service.sample_pages import SampleDetails, find_row
from evalspec.service.timestamps import render_minute
from evalspec.service.tokens import Scope
from evalspec.verdict.wording import render_value

_METRICS_OFFERED = 100
_OTHERS_SHOWN = 5
_INLINE = 8
_LINKED = 60
"""So many forms are on the page of a sample, and so many further ones are links."""


class ShownLabel(Struct, frozen=True):
    """One label. `said`: the verdict, with the person's score. `doubt`: why it does not count for the run; or empty."""

    labeller: str
    said: str
    is_good: bool | None
    note: str | None
    at: str
    doubt: str = ""


class LabelForm(Struct, frozen=True):
    """The labels on one reply or score, and the form for the visitor's own.

    `action`: where the form is sent; None: the visitor may not label, or there is nothing to judge. `seen`: the digest
    of the reply. `verdicts`: key and name of each. `others`: labels of others that the visitor may see. `hidden`:
    number of those that the visitor sees after labelling. `is_inline`: whether the form is on the page of the sample.
    `rating`: what the visitor is asked, if they give a score of their own without sight of the judge's.
    """

    metric: str | None
    action: str | None
    seen: str
    verdicts: tuple[tuple[str, str], ...]
    own: ShownLabel | None
    others: tuple[ShownLabel, ...]
    more_others: int
    hidden: int
    is_inline: bool = True
    rating: RatingForm | None = None

    @property
    def has_value(self) -> bool:
        """Whether a person may give a score of their own."""
        return self.metric is not None


class SampleLabelling(Struct, frozen=True):
    """The forms of a sample, by attempt and metric; None is the reply as a whole."""

    forms: Mapping[tuple[int, str | None], LabelForm]

    def find(self, attempt: int, metric: str | None = None) -> LabelForm | None:
        """Return the form of a reply, or of a score; None if there is nothing to judge."""
        return self.forms.get((attempt, metric))

    @property
    def is_open(self) -> bool:
        """Whether the visitor may label something."""
        return any(form.action is not None for form in self.forms.values())


def show_labelling(visit: Visit, run_id: str, found: SampleDetails) -> SampleLabelling:
    """Return the labels and forms of a sample. There are none if the run does not keep its texts."""
    dataset, sample = found.row.dataset, found.row.result.id
    labels = find_label_files(visit.project.root).read(run_id)
    own = [one for one in labels if one.sample == sample and one.dataset == dataset]
    run = open_indexed_run(visit.access, run_id) if own else None
    forms: dict[tuple[int, str | None], LabelForm] = {}
    for row in found.attempts:
        digest = None if row.exchange is None else compute_reply_digest(row.exchange)
        for metric in _list_judged(row):
            target = dataset, sample, row.number, metric
            on_it = [one for one in own if one.target == target]
            action = visit.link_run(run_id, "/label", at=found.row.position, attempt=row.number, about=metric, back=1)
            if len(forms) >= _INLINE + _LINKED:
                break
            shown = show_form(visit, run, target, digest, on_it, action)
            is_inline = len(forms) < _INLINE
            forms[row.number, metric] = shown if is_inline else replace(shown, others=(), is_inline=False)
    return SampleLabelling(forms)


def _list_judged(row: AttemptRow) -> Iterable[str | None]:
    """Yield what people label of an attempt: the reply, and each score that says why it is as it is."""
    if row.exchange is None or row.exchange.reply is None:
        return
    yield None
    yield from (metric for metric, score in row.scores.items() if _is_judged(score))


def _is_judged(score: Score) -> bool:
    return score.value is not None and (score.reason is not None or score.evidence_or_none is not None)


def show_form(
    visit: Visit,
    run: IndexedRun | None,
    target: Target,
    digest: str | None,
    labels: Sequence[Label],
    action: str,
    rating: RatingForm | None = None,
) -> LabelForm:
    """Return the labels on a target and the form for the visitor's own.

    `run`: needed if there are labels. `digest`: of the reply, None if there is none. `labels`: all on the target.
    """
    viewer, metric = visit.access.caller.user, target[3]
    current, visible = list_current(labels), list_visible(labels, viewer)
    matches = list(run.list_matches(target, visible)) if run is not None and visible else []
    shown = [(one, _show_label(one, match)) for one, match in matches]
    others = [one for label, one in shown if label.labeller != viewer]
    own = next((one for label, one in shown if label.labeller == viewer), None)
    verdicts = OF_REPLIES if metric is None else OF_SHOWN_SCORES
    return LabelForm(
        metric,
        action if visit.may("review") and digest is not None else None,
        digest or "",
        tuple((VERDICT_KEYS[verdict], str(verdict)) for verdict in verdicts),
        own,
        tuple(others[:_OTHERS_SHOWN]),
        max(len(others) - _OTHERS_SHOWN, 0),
        len(current) - len(visible),
        rating=rating,
    )


def _show_label(label: Label, match: LabelMatch = LabelMatch.COUNTS) -> ShownLabel:
    doubt = "" if match is LabelMatch.COUNTS else str(match)
    at = render_minute(label.at)
    return ShownLabel(label.labeller, render_verdict(label), _is_good(label), label.note, at, doubt)


def _is_good(label: Label) -> bool | None:
    """Return whether the person has something against what they saw; None for a score of their own."""
    return None if label.verdict is LabelVerdict.RATED else label.verdict.is_good


def render_verdict(label: Label) -> str:
    """Return a verdict with the score that the person would have given."""
    return str(label.verdict) if label.value is None else f"{label.verdict} ({label.value:.4g})"


def list_choices(run: IndexedRun) -> dict[str, Any]:
    """Return what a person may choose to label, for the forms of templates."""
    metrics = dict.fromkeys(metric.name for dataset in run.outlines.values() for metric in dataset.metrics)
    return {
        "metrics": list(metrics)[:_METRICS_OFFERED],
        "datasets": list(run.outlines),
        "tags": list_tags(run.folder),
        "has_limits": any(one.thresholds for one in run.outlines.values()),
    }


ROUTER = APIRouter(include_in_schema=False)

_LABELS_SHOWN = 50
_TEXT_BYTES = 50_000
_ERRORS_SHOWN = 30
_CSV = "csv"

Number = Annotated[int | None, Query(ge=0, le=1_000_000)]


class ListedLabel(Struct, frozen=True):
    """One row of the list. `link`: the page on which the visitor can change it; None: it is somebody else's."""

    label: Label
    shown: ShownLabel
    score: str
    sample_link: str | None
    link: str | None


@ROUTER.get("/runs/{run_id}/labels")
def show_labels(
    run_id: str,
    visit: Visitor,
    cursor: Cursor = None,
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


@ROUTER.get("/runs/{run_id}/labels/calibration")
def show_calibration(run_id: str, visit: Operator) -> HTMLResponse:
    """Show how the judge agrees with everybody's blind random labels."""
    view = build_calibration_view(read_calibration(visit.access, run_id))
    links = RunLinks(visit, run_id)
    return render_page("calibration.html", visit, run_id=run_id, layout=lay_out(view), links=links, notes=view.notes)


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
        **list_choices(run),
        reviewers=list_reviewers(visit.access.engine, visit.namespace) if visit.may(Scope.RUN) else None,
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
        label,
        _show_label(label),
        "" if label.metric is None or label.shown_value is None else render_value(label.metric, label.shown_value),
        visit.link_sample(run_id, label.dataset, label.sample, row.position) if row else None,
        link,
    )
