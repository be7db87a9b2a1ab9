"""Pages of gold sets: the sets, the triples of one, and its statistics. Reviews are on pages of their own."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.gold_set import TripleEntry, open_set, read_set
from evalspec.curation.gold.schema import Category, Outcome
from evalspec.curation.gold.sight import SEEN_STATES
from evalspec.curation.gold.wording import CATEGORIES
from evalspec.reports.markup.room import Room
from evalspec.reports.markup.shown import Layout, lay_out, lay_out_section
from evalspec.reports.view.curation import build_curation_view
from evalspec.service.cursors import decode_cursor, encode_cursor
from evalspec.service.gold_api import MOST_WORDS
from evalspec.service.gold_people import find_caller_sight, find_project_set, find_project_triple, list_project_sets
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_views import (
    Words,
    can_settle,
    list_history,
    list_triple,
    show_dispute,
    show_set,
    show_triple,
)
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Visit, Visitor
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

Cursor = Annotated[str | None, Query(max_length=2000)]


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
        shown = show_set(visit.project, found, find_caller_sight(found, visit.access))
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
    sight = find_caller_sight(found, visit.access)
    chosen = {key: given[key] for key in ("state", "text") if given.get(key)}
    place = decode_cursor(cursor, str)

    def is_wanted(entry: TripleEntry) -> bool:
        state, text = chosen.get("state"), chosen.get("text", "").casefold()
        question = entry.triple.question if entry.triple is not None else ""
        has_state = can_settle(entry, sight) if state == _TO_SETTLE else state in (None, sight.show_state(entry))
        return has_state and (text in entry.id.casefold() or text in question.casefold())

    entries = [entry for id, entry in sorted(found.entries.items()) if place is None or id > place[0]]
    wanted = [entry for entry in entries if is_wanted(entry)]
    following = encode_cursor(wanted[_TRIPLES_SHOWN - 1].id) if len(wanted) > _TRIPLES_SHOWN else None
    links = SetLinks(visit, name)
    return render_page(
        "gold_set.html",
        visit,
        set=show_set(visit.project, found, sight),
        links=links,
        triples=[list_triple(entry, sight) for entry in wanted[:_TRIPLES_SHOWN]],
        states=(*([_TO_SETTLE] if sight.person else []), *SEEN_STATES),
        chosen=chosen,
        is_first=cursor is None,
        next_page=links.part("", **chosen, cursor=following) if following else None,
        may_review=visit.may("review"),
    )


@ROUTER.get("/gold/{name}/triple")
def show_gold_triple(name: str, visit: Visitor, given: Annotated[dict[str, str], Depends(_OF_TRIPLE)]) -> HTMLResponse:
    """Show a triple with its history, and the dispute about it."""
    return render_triple(visit, name, given.get("id", ""), whole="whole" in given)


def render_triple(
    visit: Visit,
    name: str,
    id: str,
    *,
    whole: bool = False,
    errors: tuple[str, ...] = (),
    note: str = "",
    words: Words | None = None,
    status: int = 200,
) -> HTMLResponse:
    """Return the page of a triple. `errors`: why it was not settled. `note`, `words`: what the person wrote.

    Raises:
        ApiProblem: 404: there is no such set or triple.
    """
    root = find_project_set(visit.project, name)
    entry, found = find_project_triple(root, id), read_set(root)
    sight, links = find_caller_sight(found, visit.access), SetLinks(visit, name)
    is_blind, history = sight.is_blind(entry), list_history(entry)
    dispute = show_dispute(root, entry, sight)
    whole_link = None if whole else links.part("/triple", id=id, whole=1)
    return render_page(
        "gold_triple.html",
        visit,
        status,
        set_name=found.config.name,
        entry=entry,
        row=list_triple(entry, sight),
        shown=show_triple(visit.project, root, entry, whole=whole),
        file=str(entry.path.relative_to(visit.project.folder)),
        is_blind=is_blind,
        is_withheld=entry.id in sight.withheld,
        history=[] if is_blind else history[-_EVENTS_SHOWN:],
        more_events=max(len(history) - _EVENTS_SHOWN, 0),
        dispute=dispute,
        words=words or (dispute and dispute.words),
        is_revised=words is not None,
        outcomes={Outcome.UPHELD: "the triple is right as it is", Outcome.DROPPED: "the triple is taken out"},
        categories={str(Category(key)): text for key, text in CATEGORIES.items()},
        links=links,
        most_words=MOST_WORDS,
        whole_link=whole_link,
        room=Room(_TEXT_BYTES, whole_link),
        may_review=visit.may("review"),
        errors=errors,
        note=note,
    )


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
    sight = find_caller_sight(found, visit.access)
    view, hidden = build_curation_view(compute_curation(found, sight)), sight.count_hidden(found)
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
