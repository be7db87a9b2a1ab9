"""Sessions of people: a one-time link opens one. Its secret is in a cookie that scripts and other sites cannot use."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import Engine

from evalspec.service.access import identify, service_of
from evalspec.service.audit import record
from evalspec.service.origins import SESSION_COOKIE
from evalspec.service.pages.browser_problems import wants_page
from evalspec.service.pages.templating import render_page
from evalspec.service.problems import ApiProblem
from evalspec.service.tokens import LOGIN, SESSION, Caller, Scope, create_token, find_caller, parse_id, revoke_token

ROUTER = APIRouter(include_in_schema=False)
PATH = "/login"

LINK_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0


def create_link(engine: Engine, user: str, scopes: list[Scope], namespaces: list[str] | None) -> str:
    """Return the path of a new link that opens one session. It is valid for ten minutes."""
    code = create_token(engine, user, scopes, namespaces, LINK_SECONDS, LOGIN)
    record(engine, "login link create", user=user, target=parse_id(code))
    return f"{PATH}?code={code}"


@ROUTER.get(PATH)
def show_login() -> HTMLResponse:
    """Show a button. Programs that follow links in messages do not press it, so they do not use up the link."""
    return render_page("login.html", None, user=None)


@ROUTER.post(PATH)
def log_in(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """Open a session with the code of a link, which is then used up."""
    engine = service_of(request).engine
    person = find_caller(engine, code, LOGIN)
    if person is None or not revoke_token(engine, person.token_id):
        detail = "the link is used or expired; start the server again, or run evalspec token create --login"
        raise ApiProblem(HTTPStatus.UNAUTHORIZED, detail)
    request.state.caller = person
    session = create_token(engine, person.user, person.scopes, person.namespaces, SESSION_SECONDS, SESSION)
    response = render_page("login.html", None, user=person.user)
    response.set_cookie(SESSION_COOKIE, session, max_age=int(SESSION_SECONDS), **_describe_cookie(request))
    return response


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
