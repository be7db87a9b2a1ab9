"""Sessions of people, opened by a one-time link or at an identity provider; pages of their roles and tokens.

The secret of a session is in a cookie that scripts and other sites cannot use.
"""

import re
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote, urlsplit

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import Engine

from evalspec.base.errors import InvalidInput
from evalspec.service.access import identify, service_of
from evalspec.service.audit import record
from evalspec.service.database import DAY_SECONDS, read_clock, reading
from evalspec.service.guard import find_address
from evalspec.service.oidc import Issuer
from evalspec.service.origins import CALLBACK, SESSION_COOKIE
from evalspec.service.pages.browser_problems import wants_page
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Administrator, Visit, Visitor, see_other
from evalspec.service.people import list_people, set_disabled, set_role, welcome
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.timestamps import render_time
from evalspec.service.tokens import (
    EVERYWHERE,
    LOGIN,
    SESSION,
    TOKEN,
    Caller,
    ProjectRole,
    Scope,
    create_token,
    find_caller,
    fold_user,
    list_tokens,
    parse_id,
    revoke_token,
)

ROUTER = APIRouter(include_in_schema=False)
PATH = "/login"

_START = "/runs"
_LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]*")
"""The path of a page here. Browsers read `//` and a backslash as the beginning of a host."""
_BROWSER_COOKIE = "evalspec_login"
"""What binds a login at the issuer to the browser: a secret, and the page to show afterwards."""

LINK_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0


def create_link(engine: Engine, user: str, scopes: list[Scope], namespaces: list[str] | None) -> str:
    """Return the path of a new link that opens one session. It is valid for ten minutes."""
    code = create_token(engine, user, scopes, namespaces, LINK_SECONDS, LOGIN)
    record(engine, "login link create", user=user, target=parse_id(code))
    return f"{PATH}?code={code}"


@ROUTER.get(PATH)
def show_login(request: Request, code: str = "") -> HTMLResponse:
    """Show a button. Programs that follow links in messages do not press it, so they do not use up the link."""
    issuer = service_of(request).issuer
    host = urlsplit(issuer.settings.issuer).netloc if issuer and not code else None
    return render_page("login.html", None, user=None, host=host)


@ROUTER.post(PATH)
def log_in(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """Open a session with the code of a link, which is then used up."""
    engine = service_of(request).engine
    person = find_caller(engine, code, LOGIN)
    if person is None or not revoke_token(engine, person.token_id):
        detail = "the link is used or expired; start the server again, or run evalspec token create --login"
        raise ApiProblem(HTTPStatus.UNAUTHORIZED, detail)
    request.state.caller = person
    welcome(engine, person.user)
    session = create_token(engine, person.user, person.scopes, person.namespaces, SESSION_SECONDS, SESSION)
    return _open_session(request, person.user, session, _START)


def _open_session(request: Request, user: str, session: str, place: str) -> HTMLResponse:
    """Return a page that leads to a place. Browsers do not send the cookie along with a redirect of another site."""
    response = render_page("login.html", None, user=user, place=place)
    response.set_cookie(SESSION_COOKIE, session, max_age=int(SESSION_SECONDS), **_describe_cookie(request))
    return response


@ROUTER.get(f"{PATH}/start")
def start_login(request: Request, next: Annotated[str, Query(max_length=2000)] = _START) -> Response:
    """Send the browser to the identity provider. `next`: the page to show afterwards."""
    secret = secrets.token_urlsafe(32)
    response = RedirectResponse(_require_issuer(request).begin(secret, _find_callback(request)), HTTPStatus.SEE_OTHER)
    cookie = _describe_cookie(request) | {"samesite": "lax", "path": PATH}
    response.set_cookie(_BROWSER_COOKIE, f"{secret}.{quote(next)}", max_age=int(LINK_SECONDS), **cookie)
    return response


@ROUTER.get(CALLBACK)
def finish_login(request: Request) -> HTMLResponse:
    """Open a session for whom the identity provider has sent back."""
    issuer, engine = _require_issuer(request), service_of(request).engine
    secret, _, place = request.cookies.get(_BROWSER_COOKIE, "").partition(".")
    identity = issuer.finish(secret, request.query_params, _find_callback(request))
    default = issuer.settings.default_role
    welcome(engine, identity.user, identity.roles, ProjectRole(default) if default else None)
    session = create_token(
        engine, identity.user, [Scope.ADMIN], None, SESSION_SECONDS, SESSION, granted_by=identity.user
    )
    person = find_caller(engine, session, SESSION)
    if person is None:
        raise ApiProblem(HTTPStatus.FORBIDDEN, f"{identity.user} is disabled; ask an admin")
    request.state.caller = person
    record(engine, "login", user=person.user, token_id=person.token_id, address=find_address(request.scope))
    found = unquote(place)
    response = _open_session(request, person.user, session, found if _LOCAL.fullmatch(found) else _START)
    response.delete_cookie(_BROWSER_COOKIE, **_describe_cookie(request) | {"samesite": "lax", "path": PATH})
    return response


def _require_issuer(request: Request) -> Issuer:
    issuer = service_of(request).issuer
    if issuer is None:
        raise ApiProblem(HTTPStatus.UNAUTHORIZED, "this server has no identity provider (serve --oidc-issuer)")
    return issuer


def _find_callback(request: Request) -> str:
    """Return where the issuer sends the browser back to. The guard has checked the Host header."""
    return f"{request.url.scheme}://{request.headers['host']}{CALLBACK}"


@ROUTER.post("/logout", status_code=HTTPStatus.NO_CONTENT)
def log_out(request: Request, caller: Annotated[Caller, Depends(identify)]) -> Response:
    """End the session of the request. Tokens are revoked by `evalspec token revoke`."""
    if caller.kind != SESSION:
        raise ApiProblem(HTTPStatus.BAD_REQUEST, "this is a token; evalspec token revoke ends it")
    revoke_token(service_of(request).engine, caller.token_id)
    response = RedirectResponse(PATH, HTTPStatus.SEE_OTHER) if wants_page(request.scope) else Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, **_describe_cookie(request))
    return response


def _describe_cookie(request: Request) -> dict[str, Any]:
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": request.url.scheme == "https"}


_SHOWN = 500

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
    seconds, engine = days * DAY_SECONDS, visit.access.engine
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
    rules_here, here = caller.may(Scope.ADMIN), frozenset({visit.namespace})
    with reading(visit.access.engine) as connection:
        now = read_clock(connection)
    return [
        one
        for one, revoked_at in list_tokens(visit.access.engine, (TOKEN, SESSION))
        if revoked_at is None
        and one.expires_at > now
        and (rules_all or one.user == caller.user or (rules_here and one.namespaces == here))
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
