"""Pages of people with their roles, and of tokens. Who administers every project may change both for everybody."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response

from evalspec.base.errors import InvalidInput
from evalspec.service.audit import record
from evalspec.service.database import read_clock, reading
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Administrator, Visit, Visitor, see_other
from evalspec.service.people import list_people, set_disabled, set_role
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.timestamps import render_time
from evalspec.service.tokens import (
    EVERYWHERE,
    SESSION,
    TOKEN,
    Caller,
    ProjectRole,
    Scope,
    create_token,
    list_tokens,
    parse_id,
    revoke_token,
)

ROUTER = APIRouter(include_in_schema=False)

_SHOWN = 500
_DAY_SECONDS = 86_400

User = Annotated[str, Form(min_length=1, max_length=200)]


@ROUTER.get("/people")
def show_people(visit: Administrator) -> HTMLResponse:
    """Show the people of the namespace; to who administers all, everybody."""
    return _render_people(visit)


@ROUTER.post("/people", response_model=None)
def change_person(
    visit: Administrator,
    user: User,
    role: Annotated[ProjectRole | Literal["none", "disable", "enable"], Form()],
    place: Annotated[Literal["here", "everywhere"], Form()] = "here",
) -> Response:
    """Change the role of a person here or everywhere, or disable or enable them."""
    name = user.strip().lower() if "@" in user else user.strip()
    is_state = role in ("disable", "enable")
    if (is_state or place == "everywhere") and not _rules_all(visit):
        raise ApiProblem(HTTPStatus.FORBIDDEN, "this needs the role admin in every project")
    if role == "disable" and name == visit.access.caller.user:
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
    _record(visit, "person change", f"{name} {role} {place}")
    return see_other(visit.link("/people"))


def _render_people(visit: Visit, error: str = "") -> HTMLResponse:
    rules_all = _rules_all(visit)
    people = [
        one for one in list_people(visit.access.engine) if rules_all or {visit.namespace, EVERYWHERE} & {*one.roles}
    ]
    status = HTTPStatus.CONFLICT if error else HTTPStatus.OK
    given = {"people": people[:_SHOWN], "more": max(len(people) - _SHOWN, 0), "error": error, "rules_all": rules_all}
    return render_page("people.html", visit, status, **given, roles=list(ProjectRole), time=render_time)


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
    caller, name = visit.access.caller, user.strip() or visit.access.caller.user
    if caller.kind != SESSION:
        raise ApiProblem(HTTPStatus.BAD_REQUEST, "a token creates no tokens; log in, or use evalspec token create")
    if not caller.may(scope) or (name != caller.user and not caller.may(Scope.ADMIN)):
        raise ApiProblem(HTTPStatus.FORBIDDEN, "you can create tokens for yourself, with scopes that you have")
    if not name.isprintable():
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "write an address or a name on one line")
    seconds, engine = days * float(_DAY_SECONDS), visit.access.engine
    token = create_token(engine, name, [scope], [visit.namespace], seconds, granted_by=caller.granted_by)
    _record(visit, "token create", f"{parse_id(token)} {name}")
    return _render_tokens(visit, token)


@ROUTER.post("/tokens/revoke", response_model=None)
def remove_token(visit: Visitor, id: Annotated[str, Form(max_length=100)]) -> Response:
    """Revoke one of the tokens and sessions that the visitor sees."""
    if id not in {one.token_id for one in _list_tokens(visit)} or not revoke_token(visit.access.engine, id):
        raise not_found("there is no such token")
    _record(visit, "token revoke", id)
    return see_other(visit.link("/tokens"))


def _list_tokens(visit: Visit) -> Sequence[Caller]:
    """Return valid tokens and sessions: of the visitor, and those that an admin is responsible for."""
    caller, rules_all = visit.access.caller, _rules_all(visit)
    with reading(visit.access.engine) as connection:
        now = read_clock(connection)
    return [
        one
        for one, revoked_at in list_tokens(visit.access.engine, (TOKEN, SESSION))
        if revoked_at is None
        and one.expires_at > now
        and (rules_all or one.user == caller.user or (caller.may(Scope.ADMIN) and one.namespaces == {visit.namespace}))
    ]


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


def _record(visit: Visit, action: str, target: str) -> None:
    caller = visit.access.caller
    who = {"user": caller.user, "token_id": caller.token_id}
    record(visit.access.engine, action, **who, namespace=visit.namespace, target=target)
