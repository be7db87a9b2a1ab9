"""Pages of a project beside its runs: work, alerts, baselines, people and tokens."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Query, Response
from fastapi.responses import HTMLResponse
from pydantic import Field

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.gold_set import TripleEntry, read_set
from evalspec.curation.gold.reviewers import list_assigned, list_reviewable
from evalspec.service import operations_api
from evalspec.service.alerts import queue_test
from evalspec.service.assignments_api import Draw, assign_labels, end_assignment, list_assignments
from evalspec.service.baselines_api import list_promotions
from evalspec.service.database import DAY_SECONDS, read_clock, reading
from evalspec.service.gold_people import find_caller_viewer, list_project_sets
from evalspec.service.labelling import parse_number
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.gold_views import can_settle
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Administrator, Operator, Visit, Visitor, see_other
from evalspec.service.people import list_people, set_disabled, set_role
from evalspec.service.problems import ApiProblem, conflict, not_found
from evalspec.service.timestamps import render_time
from evalspec.service.tokens import (
    EVERYWHERE,
    SESSION,
    TOKEN,
    Caller,
    ProjectRole,
    Scope,
    create_token,
    fold_user,
    list_tokens,
    parse_id,
    revoke_token,
)

ROUTER = APIRouter(include_in_schema=False)

_SHOWN = 500
_ALERTS_SHOWN = 100
_PEOPLE_SHOWN = 100

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
            waiting = {entry.id for entry in list_reviewable(found, viewer.person)} if viewer.person else ()
            for entry in found.entries.values():
                is_dispute = can_settle(entry, viewer)
                if viewer.person in list_assigned(entry) and (is_dispute or entry.id in waiting):
                    yield entry, SetLinks(visit, root.name), is_dispute


@ROUTER.post("/work")
def assign_work(
    visit: Operator,
    run_id: Name,
    people: Annotated[list[Annotated[str, Field(max_length=300)]], Form(max_length=50)] = [],  # noqa: B006 - copied
    metric: Name = "",
    dataset: Name = "",
    tag: Name = "",
    state: Annotated[Literal["", "beyond"], Form()] = "",
    draw: Annotated[Literal["", Draw], Form()] = "",
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


@ROUTER.get("/alerts")
def show_alerts(visit: Visitor) -> HTMLResponse:
    """Show the newest alerts with their delivery, and where they go."""
    hook, host, problem = visit.access.service.settings.alerts.get(visit.namespace), None, ""
    try:
        host = urlsplit(hook.read()[0]).hostname if hook else None
    except InvalidInput as error:
        problem = str(error)
    found = operations_api.show_alerts(visit.access, _ALERTS_SHOWN).alerts
    return render_page("alerts.html", visit, alerts=found, hook=hook, host=host, problem=problem)


@ROUTER.post("/alerts")
def send_test(visit: Administrator) -> Response:
    """Queue an alert that says that it is a test."""
    if visit.namespace not in visit.access.service.settings.alerts:
        raise conflict("this namespace has no webhook (serve --alert)")
    queue_test(visit.access.engine, visit.namespace)
    return see_other(visit.link("/alerts"))


@ROUTER.get("/baselines")
def show_baselines(visit: Visitor, name: Annotated[str | None, Query(max_length=100)] = None) -> HTMLResponse:
    """Show who promoted which run to which baseline, newest first."""
    found = list_promotions(visit.access.engine, visit.namespace, _SHOWN, name=name or None)
    newest = {one.name: one.number for one in sorted(found, key=lambda one: one.number)}
    return render_page("baselines.html", visit, promotions=found, newest=newest, name=name)


User = Annotated[str, Form(min_length=1, max_length=200)]


@ROUTER.get("/people")
def show_people(visit: Administrator, name: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """Show the people of the namespace; to who administers all, everybody. `name`: a part of their names."""
    return _render_people(visit, name=name)


@ROUTER.post("/people", response_model=None)
def change_person(
    visit: Administrator,
    user: User,
    role: Annotated[ProjectRole | Literal["none", "disable", "enable"], Form()],
    place: Annotated[Literal["here", "everywhere"], Form()] = "here",
) -> Response:
    """Change the role of a person here or everywhere, or disable or enable them."""
    name = fold_user(user)
    is_state = role in ("disable", "enable")
    if (is_state or place == "everywhere") and not _rules_all(visit):
        raise ApiProblem(HTTPStatus.FORBIDDEN, "this needs the role admin in every project")
    if role == "disable" and name == fold_user(visit.access.caller.user):
        return _render_people(visit, "you cannot disable yourself")
    if not name or not name.isprintable():
        return _render_people(visit, "write an address or a name on one line")
    try:
        if is_state:
            set_disabled(visit.access.engine, name, is_disabled=role == "disable")
        else:
            namespace = visit.namespace if place == "here" else EVERYWHERE
            set_role(visit.access.engine, name, namespace, None if role == "none" else ProjectRole(role))
    except InvalidInput as error:
        return _render_people(visit, str(error))
    visit.access.record("person change", f"{name} {role} {place}")
    return see_other(visit.link("/people"))


def _render_people(visit: Visit, error: str = "", name: str = "") -> HTMLResponse:
    rules_all, part = _rules_all(visit), fold_user(name).casefold()
    people = [
        one
        for one in list_people(visit.access.engine)
        if part in one.user.casefold() and (rules_all or {visit.namespace, EVERYWHERE} & {*one.roles})
    ]
    return render_page(
        "people.html",
        visit,
        HTTPStatus.CONFLICT if error else HTTPStatus.OK,
        people=people[:_PEOPLE_SHOWN],
        more=max(len(people) - _PEOPLE_SHOWN, 0),
        error=error,
        name=name,
        rules_all=rules_all,
        roles=list(ProjectRole),
        time=render_time,
    )


@ROUTER.get("/tokens")
def show_tokens(visit: Visitor) -> HTMLResponse:
    """Show the visitor's tokens and sessions that are valid; to an admin, those of the namespace."""
    return _render_tokens(visit)


@ROUTER.post("/tokens")
def add_token(
    visit: Visitor,
    scope: Annotated[Scope, Form()],
    days: Annotated[int, Form(ge=1, le=365)] = 90,
    user: Annotated[str, Form(max_length=200)] = "",
) -> HTMLResponse:
    """Create a token for this namespace and show it once. `user`: the visitor; an admin may name somebody else."""
    caller, name = visit.access.caller, fold_user(user) or visit.access.caller.user
    if caller.kind != SESSION:
        raise ApiProblem(HTTPStatus.BAD_REQUEST, "a token creates no tokens; log in, or use evalspec token create")
    if not caller.may(scope) or (name != caller.user and not caller.may(Scope.ADMIN)):
        raise ApiProblem(HTTPStatus.FORBIDDEN, "you can create tokens for yourself, with scopes that you have")
    if not name.isprintable():
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "write an address or a name on one line")
    seconds, engine = days * DAY_SECONDS, visit.access.engine
    token = create_token(engine, name, [scope], [visit.namespace], seconds, granted_by=caller.granted_by)
    visit.access.record("token create", f"{parse_id(token)} {name}")
    return _render_tokens(visit, token)


@ROUTER.post("/tokens/revoke", response_model=None)
def remove_token(visit: Visitor, id: Annotated[str, Form(max_length=100)]) -> Response:
    """Revoke one of the tokens and sessions that the visitor sees."""
    if id not in {one.token_id for one, _ in _list_tokens(visit)} or not revoke_token(visit.access.engine, id):
        raise not_found("there is no such token")
    visit.access.record("token revoke", id)
    return see_other(visit.link("/tokens"))


def _list_tokens(visit: Visit) -> Sequence[tuple[Caller, float | None]]:
    """Return valid tokens and sessions with the last login: of the visitor, and what an admin is responsible for."""
    caller, rules_all = visit.access.caller, _rules_all(visit)
    rules_here, here = caller.may(Scope.ADMIN), frozenset({visit.namespace})
    with reading(visit.access.engine) as connection:
        now = read_clock(connection)
    return [
        (one, last_login)
        for one, revoked_at, last_login in list_tokens(visit.access.engine, (TOKEN, SESSION))
        if revoked_at is None
        and one.expires_at > now
        and (rules_all or _is_own(one, caller) or (rules_here and one.namespaces == here))
    ]


def _is_own(one: Caller, caller: Caller) -> bool:
    """Return whether a token or session is surely the caller's.

    A token does not prove that its user has it, because admins create tokens in any name. So its own is only itself.
    """
    return one.user == caller.user if caller.kind == SESSION else one.token_id == caller.token_id


def _render_tokens(visit: Visit, made: str = "") -> HTMLResponse:
    tokens, caller = _list_tokens(visit), visit.access.caller
    return render_page(
        "tokens.html",
        visit,
        tokens=tokens[:_SHOWN],
        more=max(len(tokens) - _SHOWN, 0),
        made=made,
        scopes=[scope for scope in Scope if caller.may(scope)],
        may_create=caller.kind == SESSION,
        time=render_time,
    )


def _rules_all(visit: Visit) -> bool:
    """Return whether the visitor is admin of every namespace."""
    return visit.may(Scope.ADMIN) and visit.access.caller.namespaces is None
