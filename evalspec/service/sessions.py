"""Sessions of people, opened by a one-time link or at an identity provider.

The secret of a session is in a cookie that scripts and other sites cannot use.
"""

import re
import secrets
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import Engine

from evalspec.service.access import identify, service_of
from evalspec.service.audit import record
from evalspec.service.guard import find_address
from evalspec.service.oidc import Issuer
from evalspec.service.origins import CALLBACK, SESSION_COOKIE
from evalspec.service.pages.browser_problems import wants_page
from evalspec.service.pages.templating import render_page
from evalspec.service.people import welcome
from evalspec.service.problems import ApiProblem
from evalspec.service.tokens import (
    LOGIN,
    SESSION,
    Caller,
    ProjectRole,
    Scope,
    create_token,
    find_caller,
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
    if not welcome(engine, identity.user, identity.roles, ProjectRole(default) if default else None):
        raise ApiProblem(HTTPStatus.FORBIDDEN, f"{identity.user} is disabled; ask an admin")
    session = create_token(
        engine, identity.user, [Scope.ADMIN], None, SESSION_SECONDS, SESSION, granted_by=identity.user
    )
    request.state.caller = find_caller(engine, session, SESSION)
    record(engine, "login", user=identity.user, token_id=parse_id(session), address=find_address(request.scope))
    found = unquote(place)
    response = _open_session(request, identity.user, session, found if _LOCAL.fullmatch(found) else _START)
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
