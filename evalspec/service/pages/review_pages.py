"""Pages on which people review the triples of a gold set and settle disputes. Everything is an event file.

They do what a session on the terminal does, but keep no session: each address says which triple was skipped last, and
whatever is known of a person's reviews is in the files.
"""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from msgspec import Struct
from pydantic import AfterValidator, Field

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import revise_words
from evalspec.curation.gold.gold_set import TripleEntry
from evalspec.curation.gold.protocol import resolve, review
from evalspec.curation.gold.review_session import ReviewSession
from evalspec.curation.gold.reviewers import explain_no_review
from evalspec.curation.gold.schema import Category, Event, Flag, Kind, Outcome
from evalspec.curation.gold.states import SETTLING
from evalspec.curation.gold.taking_back import LastReview, find_last_reviews, take_last_back
from evalspec.curation.gold.wording import CATEGORIES, FLAGS
from evalspec.reports.markup.room import Room
from evalspec.runs.store.files import DiskFull
from evalspec.service.gold_api import MOST_WORDS, Note, Verdict
from evalspec.service.gold_people import (
    find_caller_sight,
    find_project_set,
    find_project_triple,
    require_caller_person,
    require_no_withheld,
    require_reviewed,
)
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_pages import render_triple
from evalspec.service.pages.gold_views import Words, show_triple, sign_events
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Reviewer, Visit, see_other
from evalspec.service.places import hide_folder

ROUTER = APIRouter(include_in_schema=False)

_TEXT_BYTES = 100_000

Id = Annotated[str, Form(max_length=2000)]
Shown = Annotated[str, Form(max_length=200)]
FormNote = Annotated[Note, Form(), AfterValidator(lambda note: (note or "").strip() or None)]
FormWords = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n")), Field(max_length=2 * MOST_WORDS)]
"""What people wrote in a text area. Browsers send each line break as two characters."""


class Answer(Struct, frozen=True):
    """What a person has filled in, to be shown again if it is refused."""

    verdict: str = ""
    category: str = ""
    note: str = ""


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
    verdict: Annotated[Verdict, Form()],
    category: Annotated[Category | None, Form()] = None,
    note: FormNote = None,
    after: Id = "",
) -> Response:
    """Record a review of a triple, and show the next one. `shown`: the hash of the content that the person saw."""
    opened = _open_review(visit, name)
    entry = find_project_triple(opened.session.root, id)
    flag = None if verdict == "confirm" else Flag(verdict)
    own = entry.standing.current.reviews.get(opened.session.by)
    if own is None or not _is_same(own, flag, category, note):
        about = None if flag is None else category
        record = partial(review, opened.session.root, id, opened.session.by, flag, category=about, note=note)
        refused = _try(visit, record, is_current=entry.content_hash == shown)
        if refused is not None:
            answer = Answer(verdict, category or "", note or "")
            return _render(opened, entry, after=after, answer=answer, errors=refused.errors, status=refused.status)
    return see_other(opened.links.part("/review", after=after or None))


def _is_same(own: Event, flag: Flag | None, category: Category | None, note: str | None) -> bool:
    """Return whether a review is the recorded one: a form that was sent twice counts once."""
    return (own.verdict, own.category if flag else None, own.note) == (flag, category if flag else None, note)


@ROUTER.post("/gold/{name}/undo", response_model=None)
def undo_review(name: str, visit: Reviewer, event: Id) -> Response:
    """Take the latest review back, and show its triple again. `event`: the name of its file."""
    opened = _open_review(visit, name)
    try:
        entry = take_last_back(opened.session.found, opened.session.by, event)
    except InvalidInput as error:
        return _render(opened, opened.session.open(), errors=_describe(error, visit), status=HTTPStatus.CONFLICT)
    return see_other(opened.links.part("/review", id=entry.id))


@ROUTER.post("/gold/{name}/settle", response_model=None)
def settle_dispute(
    name: str,
    visit: Reviewer,
    id: Id,
    shown: Shown,
    outcome: Annotated[Outcome, Form()],
    category: Annotated[Category | None, Form()] = None,
    note: FormNote = None,
) -> Response:
    """Uphold or drop a disputed triple. `shown`: the events that the person saw: nobody upholds unseen flags."""
    opened = _open_review(visit, name)
    entry = find_project_triple(opened.session.root, id)
    done = see_other(opened.links.triple(id))
    if any(_is_decision(event, opened.session.by, outcome, entry) for event in entry.standing.current.events):
        return done
    require_no_withheld(entry, find_caller_sight(opened.session.found, visit.access))
    decide = partial(resolve, opened.session.root, id, opened.session.by, outcome, category=category, note=note)
    refused = _try(visit, decide, is_current=sign_events(entry) == shown)
    if refused is not None:
        return render_triple(visit, name, id, errors=refused.errors, note=note or "", status=refused.status)
    return done


@ROUTER.post("/gold/{name}/revise", response_model=None)
def revise_disputed(
    name: str,
    visit: Reviewer,
    id: Id,
    shown: Shown,
    question: Annotated[FormWords, Form()],
    answer: Annotated[FormWords, Form()] = "",
    claims: Annotated[FormWords | None, Form()] = None,
    note: FormNote = None,
) -> Response:
    """Settle a dispute by a new revision. `shown`: the events that the person saw. `claims`: one per line."""
    opened = _open_review(visit, name)
    entry = find_project_triple(opened.session.root, id)
    words: dict[str, Any] = {"question": question.strip(), "expected_answer": answer.strip() or None}
    if claims is not None:
        words["claims"] = [line.strip() for line in claims.splitlines() if line.strip()] or None
    done = see_other(opened.links.triple(id))
    if _is_revision(entry, opened.session.by, words):
        return done
    require_reviewed(entry, find_caller_sight(opened.session.found, visit.access))
    revise = partial(
        revise_words, opened.session.root, id, opened.session.by, words, replaces=entry.content_hash, note=note
    )
    refused = _try(visit, revise, is_current=sign_events(entry) == shown)
    if refused is not None:
        written, status = Words(question, answer, claims), refused.status
        return render_triple(visit, name, id, errors=refused.errors, note=note or "", words=written, status=status)
    return done


def _is_revision(entry: TripleEntry, person: str, words: Mapping[str, Any]) -> bool:
    """Return whether the person has just written these words: a form that was sent twice."""
    written = [one.event for one in entry.events if one.event.kind is Kind.REVISE]
    own = bool(written) and written[-1].by == person and written[-1].revision == entry.standing.revision
    return own and all(getattr(entry.triple, key) == value for key, value in words.items())


class Refusal(Struct, frozen=True):
    """Why nothing was recorded."""

    errors: tuple[str, ...]
    status: int = HTTPStatus.CONFLICT


def _try(visit: Visit, record: Callable[[], object], *, is_current: bool) -> Refusal | None:
    """Record something, unless the person saw something else than is there now. Return why nothing was recorded."""
    if not is_current:
        return Refusal(("the triple was changed after it was shown. read it again",))
    try:
        record()
    except InvalidInput as error:
        return Refusal(_describe(error, visit))
    except DiskFull as error:
        return Refusal((hide_folder(str(error), visit.project.folder),), HTTPStatus.SERVICE_UNAVAILABLE)
    return None


def _is_decision(event: Event, person: str, outcome: Outcome, entry: TripleEntry) -> bool:
    """Return whether an event is this decision about the flags that there are now: a form that was sent twice."""
    if event.kind not in SETTLING or event.by != person or event.verdict != outcome:
        return False
    return outcome is not Outcome.UPHELD or event.settles == entry.standing.current.list_flags()


def _render(
    opened: OpenReview,
    entry: TripleEntry | None,
    *,
    after: str = "",
    whole: bool = False,
    answer: Answer = Answer(),  # noqa: B008 - it is frozen
    errors: tuple[str, ...] = (),
    status: int = HTTPStatus.OK,
) -> HTMLResponse:
    visit, links, session = opened.visit, opened.links, opened.session
    done = session.total - session.remaining
    refusal = explain_no_review(entry, session.by) if entry is not None else None
    asked: dict[str, Any] = {"id": entry.id if entry else None, "after": after or None}
    whole_link = None if whole else links.part("/review", **asked, whole=1)
    return render_page(
        "gold_review.html",
        visit,
        status,
        set_name=session.found.config.name,
        person=session.by,
        entry=entry,
        refusal=refusal,
        shown=show_triple(visit.project, session.root, entry, whole=whole) if entry and refusal is None else None,
        position=session.position,
        total=session.total,
        left=session.remaining,
        done=done,
        after=after,
        last=opened.last,
        answer=answer,
        errors=errors,
        flags={str(flag): text for flag, text in FLAGS.items()},
        categories={str(category): text for category, text in CATEGORIES.items()},
        links=links,
        whole_link=whole_link,
        room=Room(_TEXT_BYTES, whole_link),
    )


def _describe(error: InvalidInput, visit: Visit) -> tuple[str, ...]:
    return tuple(hide_folder(problem.render(), visit.project.folder) for problem in error.problems)
