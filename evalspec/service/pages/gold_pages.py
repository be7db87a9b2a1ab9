"""Pages of gold sets: the sets, the triples of one, disputes, and statistics. Reviews are on pages of their own."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import AfterValidator, Field

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import revise_words
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, open_set, read_set
from evalspec.curation.gold.protocol import resolve
from evalspec.curation.gold.reviewers import OPEN
from evalspec.curation.gold.schema import Category, DisputeOutcome, Event, Kind
from evalspec.curation.gold.states import SETTLING
from evalspec.curation.gold.viewer import SEEN_STATES
from evalspec.curation.gold.wording import CATEGORIES
from evalspec.reports.markup.shown import Layout, lay_out, lay_out_section
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.view.curation import build_curation_view
from evalspec.service.cursors import Cursor, cut_page, decode_cursor
from evalspec.service.gold_api import MOST_WORDS, Note
from evalspec.service.gold_people import (
    assign_reviews,
    find_caller_viewer,
    find_project_set,
    find_project_triple,
    list_project_sets,
    list_set_reviewers,
    require_caller_person,
    require_no_withheld,
    require_reviewed,
)
from evalspec.service.pages.case_pages import NOT_REFUSED, FilledForm, Refusal, find_refusal
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_views import (
    Words,
    can_settle,
    list_history,
    list_triple,
    show_dispute,
    show_set,
    show_triple,
    sign_events,
)
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Operator, Reviewer, Visit, Visitor, see_other
from evalspec.service.parameters import AddressQuery
from evalspec.service.places import hide_folder
from evalspec.service.problems import not_found

ROUTER = APIRouter(include_in_schema=False)

_SETS_SHOWN = 50
_TRIPLES_SHOWN = 50
_EVENTS_SHOWN = 100
_TEXT_BYTES = 90_000
_TO_SETTLE = "to settle"
"""The filter of the disputes that the visitor can settle."""
_OF_SET = AddressQuery("text", state=(_TO_SETTLE, *SEEN_STATES))
_OF_TRIPLE = AddressQuery("id", "whole")

Id = Annotated[str, Form(max_length=2000)]
Shown = Annotated[str, Form(max_length=200)]
FormNote = Annotated[Note, Form(), AfterValidator(lambda note: (note or "").strip() or None)]
FormWords = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n")), Field(max_length=2 * MOST_WORDS)]
"""What people wrote in a text area. Browsers send each line break as two characters."""


@ROUTER.get("/gold")
def list_sets(visit: Visitor) -> HTMLResponse:
    """Show the gold sets of the project, with what waits for the visitor."""
    sets, problems = [], []
    roots = list_project_sets(visit.project)
    for root in roots[:_SETS_SHOWN]:
        try:
            found = read_set(root)
        except InvalidInput as error:
            problems.append(hide_folder(str(error), visit.project.folder))
            continue
        shown = show_set(visit.project, found, find_caller_viewer(found, visit.access))
        sets.append((shown, SetLinks(visit, root.name)))
    more = max(len(roots) - _SETS_SHOWN, 0)
    return render_page("gold.html", visit, sets=sets, file_problems=problems, more=more, may_review=visit.may("review"))


@ROUTER.get("/gold/{name}")
def show_gold_set(
    name: str, visit: Visitor, given: Annotated[dict[str, str], Depends(_OF_SET)], cursor: Cursor = None
) -> HTMLResponse:
    """Show the triples of a set, filtered by state and text, in the order of their ids."""
    root = find_project_set(visit.project, name)
    found = read_set(root)
    viewer = find_caller_viewer(found, visit.access)
    chosen = {key: given[key] for key in ("state", "text") if given.get(key)}
    place = decode_cursor(cursor, str)

    def is_wanted(entry: TripleEntry) -> bool:
        state, text = chosen.get("state"), chosen.get("text", "").casefold()
        question = entry.triple.question if entry.triple is not None else ""
        has_state = can_settle(entry, viewer) if state == _TO_SETTLE else state in (None, viewer.show_state(entry))
        return has_state and (text in entry.id.casefold() or text in question.casefold())

    entries = [entry for id, entry in sorted(found.entries.items()) if place is None or id > place[0]]
    wanted = [entry for entry in entries if is_wanted(entry)]
    shown, following = cut_page(wanted, _TRIPLES_SHOWN, lambda entry: (entry.id,))
    links = SetLinks(visit, name)
    return render_page(
        "gold_set.html",
        visit,
        set=show_set(visit.project, found, viewer),
        links=links,
        triples=[list_triple(entry, viewer) for entry in shown],
        states=(*([_TO_SETTLE] if viewer.person else []), *SEEN_STATES),
        chosen=chosen,
        is_first=cursor is None,
        next_page=links.part("", **chosen, cursor=following) if following else None,
        may_review=visit.may("review"),
        reviewers=list_set_reviewers(visit.access, found.config) if visit.may("run") and viewer.person else (),
    )


@ROUTER.get("/gold/{name}/triple")
def show_gold_triple(name: str, visit: Visitor, given: Annotated[dict[str, str], Depends(_OF_TRIPLE)]) -> HTMLResponse:
    """Show a triple with its history, and the dispute about it."""
    return _render_triple(visit, name, given.get("id", ""), whole="whole" in given)


def _render_triple(
    visit: Visit,
    name: str,
    id: str,
    *,
    whole: bool = False,
    refusal: Refusal = NOT_REFUSED,
    words: Words | None = None,
) -> HTMLResponse:
    """Return the page of a triple. `refusal`: why it was not settled. `words`: what the person wrote.

    Raises:
        ApiProblem: 404: there is no such set or triple.
    """
    root = find_project_set(visit.project, name)
    entry, found = find_project_triple(root, id), read_set(root)
    viewer, links = find_caller_viewer(found, visit.access), SetLinks(visit, name)
    is_blind, history = viewer.is_blind(entry), list_history(entry)
    may_assign = visit.may("run") and viewer.person is not None and id not in viewer.withheld
    able = list_set_reviewers(visit.access, found.config) if may_assign else ()
    dispute = show_dispute(root, entry, viewer)
    whole_link = None if whole else links.part("/triple", id=id, whole=1)
    return render_page(
        "gold_triple.html",
        visit,
        refusal.status,
        set_name=found.config.name,
        entry=entry,
        row=list_triple(entry, viewer),
        shown=show_triple(visit.project, root, entry, whole=whole),
        file=str(entry.path.relative_to(visit.project.folder)),
        is_blind=is_blind,
        is_withheld=entry.id in viewer.withheld,
        history=[] if is_blind else history[-_EVENTS_SHOWN:],
        more_events=max(len(history) - _EVENTS_SHOWN, 0),
        dispute=dispute,
        words=words or (dispute and dispute.words),
        is_revised=words is not None,
        outcomes={
            DisputeOutcome.UPHELD: "the triple is right as it is",
            DisputeOutcome.DROPPED: "the triple is taken out",
        },
        categories={str(Category(key)): text for key, text in CATEGORIES.items()},
        links=links,
        most_words=MOST_WORDS,
        whole_link=whole_link,
        room=TextBudget(_TEXT_BYTES, whole_link),
        may_review=visit.may("review"),
        reviewers=[one for one in able if entry.state in OPEN and one not in entry.review_status.current.writers],
        errors=refusal.errors,
        note=refusal.form.note,
    )


@ROUTER.post("/gold/{name}/settle", response_model=None)
def settle_dispute(
    name: str,
    visit: Reviewer,
    id: Id,
    shown: Shown,
    outcome: Annotated[DisputeOutcome, Form()],
    category: Annotated[Category | None, Form()] = None,
    note: FormNote = None,
) -> Response:
    """Uphold or drop a disputed triple. `shown`: the events that the person saw: nobody upholds unseen flags."""
    found, person, entry = _open_triple(visit, name, id)
    done = see_other(SetLinks(visit, name).triple(id))
    if any(_is_decision(event, person, outcome, entry) for event in entry.review_status.current.events):
        return done
    require_no_withheld(entry, find_caller_viewer(found, visit.access))
    decide = partial(resolve, found.root, id, person, outcome, category=category, note=note)
    form = FilledForm(note=note or "")
    refusal = find_refusal(visit, decide, form, is_current=sign_events(entry) == shown)
    return done if refusal is None else _render_triple(visit, name, id, refusal=refusal)


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
    found, person, entry = _open_triple(visit, name, id)
    words: dict[str, Any] = {"question": question.strip(), "expected_answer": answer.strip() or None}
    if claims is not None:
        words["claims"] = [line.strip() for line in claims.splitlines() if line.strip()] or None
    done = see_other(SetLinks(visit, name).triple(id))
    if _is_revision(entry, person, words):
        return done
    require_reviewed(entry, find_caller_viewer(found, visit.access))
    revise = partial(revise_words, found.root, id, person, words, replaces=entry.content_hash, note=note)
    form = FilledForm(note=note or "")
    refusal = find_refusal(visit, revise, form, is_current=sign_events(entry) == shown)
    if refusal is None:
        return done
    return _render_triple(visit, name, id, words=Words(question, answer, claims), refusal=refusal)


def _is_revision(entry: TripleEntry, person: str, words: Mapping[str, Any]) -> bool:
    """Return whether the person has just written these words: a form that was sent twice."""
    written = [one.event for one in entry.events if one.event.kind is Kind.REVISE]
    own = bool(written) and written[-1].by == person and written[-1].revision == entry.review_status.revision
    return own and all(getattr(entry.triple, key) == value for key, value in words.items())


def _is_decision(event: Event, person: str, outcome: DisputeOutcome, entry: TripleEntry) -> bool:
    """Return whether an event is this decision about the flags that there are now: a form that was sent twice."""
    if event.kind not in SETTLING or event.by != person or event.verdict != outcome:
        return False
    return outcome is not DisputeOutcome.UPHELD or event.settles == entry.review_status.current.list_flags()


def _open_triple(visit: Visit, name: str, id: str) -> tuple[GoldSet, str, TripleEntry]:
    """Return a set, the name of the visitor among its people, and a triple of it.

    Raises:
        ApiProblem: 403: The visitor is not one of the people of the set. 404: There is no such set or triple.
    """
    root = find_project_set(visit.project, name)
    person = require_caller_person(visit.access, root)
    return read_set(root), person, find_project_triple(root, id)


@ROUTER.post("/gold/{name}/assign")
def assign_triples(
    name: str, visit: Operator, to: Id, id: Id = "", count: Annotated[int, Form(ge=1, le=1000)] = 1
) -> Response:
    """Ask a person to review a triple, or so many that need a review most."""
    assign_reviews(visit.access, find_project_set(visit.project, name), to, [id] if id else [], count)
    links = SetLinks(visit, name)
    return see_other(links.triple(id) if id else links.part())


@ROUTER.get("/gold/{name}/stats")
def show_stats(
    name: str,
    visit: Visitor,
    at: Annotated[str | None, Query(max_length=100)] = None,
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> HTMLResponse:
    """Show agreement, flag rates, disputes, sources and coverage of a set. `at`: only this section, with all rows."""
    from evalspec.curation.gold.curation import compute_curation

    found = open_set(find_project_set(visit.project, name))
    viewer = find_caller_viewer(found, visit.access)
    view, hidden = build_curation_view(compute_curation(found, viewer)), viewer.count_hidden(found)
    layout = lay_out(view)
    if at is not None:
        alone = lay_out_section(view, at, page)
        if alone is None:
            raise not_found("the statistics have no such section")
        layout = Layout((alone,), ())
    links = SetLinks(visit, name)
    return render_page(
        "gold_stats.html",
        visit,
        set_name=found.config.name,
        view=view,
        layout=layout,
        links=links,
        at=at,
        page=page,
        hidden=hidden,
    )
