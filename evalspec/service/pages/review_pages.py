"""The page on which people review the triples of a gold set. Whatever is known of their reviews is in event files."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from msgspec import Struct

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.gold_set import TripleEntry
from evalspec.curation.gold.protocol import review
from evalspec.curation.gold.retraction import LastReview, find_last_reviews, retract_last
from evalspec.curation.gold.review_session import ReviewSession
from evalspec.curation.gold.reviewers import explain_no_review
from evalspec.curation.gold.schema import Category, Event, Flag
from evalspec.curation.gold.wording import CATEGORIES, FLAGS
from evalspec.service.gold_api import ReviewVerdict
from evalspec.service.gold_people import find_project_set, find_project_triple, require_caller_person
from evalspec.service.pages.case_pages import (
    NOT_REFUSED,
    CasePage,
    FilledForm,
    LastDecision,
    Refusal,
    describe_errors,
    find_refusal,
)
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_pages import FormNote, Id, Shown
from evalspec.service.pages.gold_views import show_triple
from evalspec.service.pages.visits import Reviewer, Visit, see_other

ROUTER = APIRouter(include_in_schema=False)


class OpenReview(Struct, frozen=True):
    """A set as one reviewer works on it. `last`: their latest review if they can take it back."""

    visit: Visit
    session: ReviewSession
    last: LastReview | None

    @property
    def links(self) -> SetLinks:
        """The addresses of the set's pages."""
        return SetLinks(self.visit, self.session.root.name)


def _open_review(visit: Visit, name: str) -> OpenReview:
    """Return a set as the visitor reviews it.

    Raises:
        ApiProblem: 403: The visitor is not one of the people of the set. 404: There is no such set.
        InvalidInput: The set has no events.
    """
    root = find_project_set(visit.project, name)
    session = ReviewSession(root, require_caller_person(visit.access, root))
    last = next((one for one in find_last_reviews(session.found, session.by) if one.is_open), None)
    return OpenReview(visit, session, last)


@ROUTER.get("/gold/{name}/review")
def show_review(
    name: str,
    visit: Reviewer,
    id: Annotated[str, Query(max_length=2000)] = "",
    after: Annotated[str, Query(max_length=2000)] = "",
    whole: Annotated[str, Query(max_length=10)] = "",
) -> HTMLResponse:
    """Show one triple to review. `id`: that one, otherwise the next. `after`: the triple that was skipped last."""
    opened = _open_review(visit, name)
    opened.session.start_after(after)
    entry = find_project_triple(opened.session.root, id) if id else opened.session.open()
    return _render(opened, entry, after=after, whole=bool(whole))


@ROUTER.post("/gold/{name}/review", response_model=None)
def record_review(
    name: str,
    visit: Reviewer,
    id: Id,
    shown: Shown,
    verdict: Annotated[ReviewVerdict, Form()],
    category: Annotated[Category | None, Form()] = None,
    note: FormNote = None,
    after: Id = "",
) -> Response:
    """Record a review of a triple, and show the next one. `shown`: the hash of the content that the person saw."""
    opened = _open_review(visit, name)
    entry = find_project_triple(opened.session.root, id)
    flag = None if verdict == "confirm" else Flag(verdict)
    own = entry.review_status.current.reviews.get(opened.session.by)
    if own is None or not _is_same(own, flag, category, note):
        about = None if flag is None else category
        record = partial(review, opened.session.root, id, opened.session.by, flag, category=about, note=note)
        form = FilledForm(verdict, category or "", note or "")
        refusal = find_refusal(visit, record, form, is_current=entry.content_hash == shown)
        if refusal is not None:
            return _render(opened, entry, after=after, refusal=refusal)
    return see_other(opened.links.part("/review", after=after or None))


def _is_same(own: Event, flag: Flag | None, category: Category | None, note: str | None) -> bool:
    """Return whether a review is the recorded one: a form that was sent twice counts once."""
    return (own.verdict, own.category if flag else None, own.note) == (flag, category if flag else None, note)


@ROUTER.post("/gold/{name}/undo", response_model=None)
def undo_review(name: str, visit: Reviewer, event: Id) -> Response:
    """Take the latest review back, and show its triple again. `event`: the name of its file."""
    opened = _open_review(visit, name)
    try:
        entry = retract_last(opened.session.found, opened.session.by, event)
    except InvalidInput as error:
        return _render(opened, opened.session.open(), refusal=Refusal(describe_errors(error, visit)))
    return see_other(opened.links.part("/review", id=entry.id))


def _render(
    opened: OpenReview,
    entry: TripleEntry | None,
    *,
    after: str = "",
    whole: bool = False,
    refusal: Refusal = NOT_REFUSED,
) -> HTMLResponse:
    visit, links, session = opened.visit, opened.links, opened.session
    why_not = explain_no_review(entry, session.by) if entry is not None else None
    page = CasePage(
        session.by,
        links.part("/review"),
        show_triple(visit.project, session.root, entry, whole=whole) if entry and why_not is None else None,
        session,
        links.part("/review", after=entry.id) if entry else None,
        _describe_last(opened),
        None if whole else links.part("/review", id=entry.id if entry else None, after=after or None, whole=1),
        refusal,
    )
    return page.render(
        "review.html",
        visit,
        set_name=session.found.config.name,
        entry=entry,
        why_not=why_not,
        after=after,
        flags={str(flag): text for flag, text in FLAGS.items()},
        categories={str(category): text for category, text in CATEGORIES.items()},
        links=links,
    )


def _describe_last(opened: OpenReview) -> LastDecision | None:
    if opened.last is None:
        return None
    event, fields = opened.last.file.event, {"event": opened.last.file.path.name}
    said = FLAGS[event.verdict] if isinstance(event.verdict, Flag) else ""
    return LastDecision(opened.last.entry.id, said, opened.links.part("/undo"), fields)
