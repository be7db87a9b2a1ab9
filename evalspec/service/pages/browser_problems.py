"""Problems as pages for browsers. Programs, which do not ask for HTML, get the problem document."""

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evalspec.service.pages.templating import render_page
from evalspec.service.problems import PROBLEM_TYPE

_API = "/v1/"
_LOGIN = "/login"
_MOST_ERRORS = 50
_KEPT = ("allow", "retry-after", "set-cookie", "www-authenticate", "x-request-id")
"""Headers of a problem that the page has too."""


_STARTS = {"/runs": "All runs", "/gold": "All gold sets", "/datasets": "All datasets"}
"""The lists, by their paths."""


class BrowserProblems:
    """The middleware. It is outside everything that answers with problems."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and turn a problem in its response into a page."""
        if scope["type"] != "http" or scope["path"].startswith(_API) or not wants_page(scope):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Answer(scope, receive, send).send)


class _Answer:
    """One response. A problem is held back until it is complete."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith(PROBLEM_TYPE):
                self._start = message
                return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._send_page(self._start)

    async def _send_page(self, start: Message) -> None:
        problem = json.loads(self._body)
        described = _describe(problem) | {
            "start": _find_start(self._scope["path"]),
            "is_login": self._scope["path"].startswith(_LOGIN),
            "log_in": _find_login(self._scope) if start["status"] == HTTPStatus.UNAUTHORIZED else None,
        }
        response = render_page("problem.html", None, start["status"], **described)
        headers = MutableHeaders(raw=start["headers"])
        for name in _KEPT:
            for value in headers.getlist(name):
                response.headers.append(name, value)
        await response(self._scope, self._receive, self._send)


def _describe(problem: dict[str, Any]) -> dict[str, Any]:
    errors = [
        ": ".join(str(error[key]) for key in ("file", "field", "message") if error.get(key))
        for error in problem.get("errors", ())[:_MOST_ERRORS]
    ]
    return {"code": problem["status"], "title": problem["title"], "detail": problem["detail"], "errors": errors}


def _find_start(path: str) -> dict[str, str]:
    """Return the list that a page belongs to, as the way back for a visitor."""
    found = next((start for start in _STARTS if path.startswith(start)), "/runs")
    return {"path": found, "text": _STARTS[found]}


def _find_login(scope: Scope) -> str | None:
    """Return where the visitor logs in and comes back to this page. None: with links only."""
    if scope["app"].state.service.issuer is None:
        return None
    is_page = scope["method"] == "GET" and not scope["path"].startswith(_LOGIN)
    place = f"{quote(scope['path'])}?{scope['query_string'].decode('latin-1')}".removesuffix("?")
    return f"{_LOGIN}/start?{urlencode({'next': place})}" if is_page else f"{_LOGIN}/start"


def wants_page(scope: Scope) -> bool:
    """Return whether a browser sent the request, not a program."""
    return "text/html" in Headers(scope=scope).get("accept", "")
