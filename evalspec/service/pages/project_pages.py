"""Pages of a project beside its runs: who is asked to label and review."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Response
from fastapi.responses import HTMLResponse

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.gold_set import TripleEntry, read_set
from evalspec.curation.gold.reviewers import list_assigned, list_reviewable
from evalspec.service.assignments_api import assign_labels, end_assignment, list_assignments
from evalspec.service.gold_people import find_caller_viewer, list_project_sets
from evalspec.service.labelling import parse_number
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_views import can_settle
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Operator, Visit, Visitor, see_other

ROUTER = APIRouter(include_in_schema=False)

_SHOWN = 500

Name = Annotated[str, Form(max_length=10_000)]
Digits = Annotated[str, Form(max_length=20)]


@ROUTER.get("/work")
def show_work(visit: Visitor) -> HTMLResponse:
    """Show what the visitor is asked to label and review, then what others are asked to label."""
    found, by = list_assignments(visit.access), visit.access.caller.user
    return render_page(
        "work.html",
        visit,
        own=[one for one in found if by in one.people],
        others=[one for one in found if by not in one.people],
        triples=list(_list_triples(visit))[:_SHOWN],
        may_assign=visit.may("run"),
    )


def _list_triples(visit: Visit) -> Iterator[tuple[TripleEntry, SetLinks, bool]]:
    """Yield the triples that the visitor was asked to review, and whether they can settle a dispute about it."""
    for root in list_project_sets(visit.project):
        with suppress(InvalidInput):  # the page of gold sets says why
            found = read_set(root)
            viewer = find_caller_viewer(found, visit.access)
            waiting = list_reviewable(found, viewer.person) if viewer.person else []
            for entry in found.entries.values():
                is_dispute = can_settle(entry, viewer)
                if viewer.person in list_assigned(entry) and (is_dispute or entry in waiting):
                    yield entry, SetLinks(visit, root.name), is_dispute


@ROUTER.post("/work")
def assign_work(
    visit: Operator,
    run_id: Name,
    people: Annotated[list[str], Form(max_length=50)] = [],  # noqa: B006 - FastAPI copies it
    metric: Name = "",
    dataset: Name = "",
    tag: Name = "",
    state: Annotated[Literal["", "beyond"], Form()] = "",
    draw: Annotated[Literal["", "random", "strata", "decide", "new"], Form()] = "",
    size: Digits = "",
    seed: Digits = "",
    each: Digits = "",
) -> Response:
    """Ask people to label replies or scores of a run."""
    given = {"metric": metric, "dataset": dataset, "tag": tag, "state": state, "draw": draw, "size": size, "seed": seed}
    queue = {name: value for name, value in given.items() if value}
    assign_labels(visit.access, run_id, queue, people, parse_number(each, "the number of people") or None)
    return see_other(visit.link("/work"))


@ROUTER.post("/work/end")
def end_work(visit: Operator, id: Name) -> Response:
    """End an assignment."""
    end_assignment(id, visit.access)
    return see_other(visit.link("/work"))
