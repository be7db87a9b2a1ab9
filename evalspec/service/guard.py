"""What every request has to pass before a route sees it: host, rate, origin, and the size and time of its body."""

import asyncio
from collections import OrderedDict
from hashlib import sha256
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evalspec.service.origins import SESSION_COOKIE, check_host, check_origin, list_names
from evalspec.service.problem_answers import render_problem
from evalspec.service.problems import ApiProblem
from evalspec.service.rates import MOST_KEYS, Excess, Rates
from evalspec.service.settings import ServiceSettings

FAILURES_A_MINUTE = 30
"""Requests without a valid token or from another site, per address."""
BODY_SECONDS = 60.0
ALWAYS_ANSWERED = "/healthz"

_NETWORK_BITS = 64
"""An address of IPv6 stands for its network: whoever has one usually has all of it."""


class Guard:
    """The middleware. `stopping`: set when the server stops, which ends streams of events."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, stopping: asyncio.Event) -> None:
        self._app = app
        self._limits = settings.limits
        self._names = list_names(settings)
        self._stopping = stopping
        self._requests = Rates(settings.limits.requests_a_minute)
        self._failures = Rates(FAILURES_A_MINUTE)
        self._known: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, address = Headers(scope=scope), find_address(scope)
        credentials = _identify_credentials(scope)
        try:
            check_host(scope, headers, self._names)
            _check_path(scope)
            self._check_rates(scope, credentials, address)
            self._check_origin(scope, headers, address)
            self._check_body(headers)
        except ApiProblem as problem:
            answer = render_problem(problem.status, problem.detail, (), problem.headers)
            await answer(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._limits.body_bytes, self._stopping)
        await self._app(scope, exchange.receive, exchange.send)
        await exchange.complete()
        self._note(exchange.status, credentials, address)

    def _check_rates(self, scope: Scope, credentials: str | None, address: str) -> None:
        if scope["path"] == ALWAYS_ANSWERED:
            return
        if credentials is None or credentials not in self._known:
            _refuse(scope, self._failures.find_excess(address), "too many requests without a valid token")
        _refuse(scope, self._requests.take(credentials or address), "too many requests")

    def _check_origin(self, scope: Scope, headers: Headers, address: str) -> None:
        try:
            check_origin(scope, headers)
        except ApiProblem:
            self._failures.add(address)
            raise

    def _check_body(self, headers: Headers) -> None:
        if headers.get("content-encoding", "identity").lower() != "identity":
            detail = "packed bodies are not accepted; send the body without Content-Encoding"
            raise ApiProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers={"Accept-Encoding": "identity"})
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._limits.body_bytes:
            raise ApiProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _describe_limit(self._limits.body_bytes))

    def _note(self, status: int, credentials: str | None, address: str) -> None:
        """Count a failed login. Remember credentials that were valid, so that others at their address do not hurt."""
        if status == HTTPStatus.UNAUTHORIZED:
            self._failures.add(address)
            self._known.pop(credentials or "", None)
        elif credentials is not None and status < HTTPStatus.BAD_REQUEST:
            self._known[credentials] = None
            self._known.move_to_end(credentials)
            if len(self._known) > MOST_KEYS:
                self._known.popitem(last=False)


class _Exchange:
    """One request and its response: bounds the body, and ends a stream of events when the server stops."""

    def __init__(self, receive: Receive, send: Send, most_bytes: int, stopping: asyncio.Event) -> None:
        self._receive = receive
        self._send = send
        self._most_bytes = most_bytes
        self._stopping = stopping
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self._size = 0
        self._is_whole = False
        self._is_stream = False
        self._is_complete = False
        self.status = 0

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client is gone."""
        if self._is_whole:
            return await self._wait_for_end()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the body took too long") from None
        self._size += len(message.get("body", b""))
        if self._size > self._most_bytes:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _describe_limit(self._most_bytes))
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def complete(self) -> None:
        """End a stream that was stopped in order."""
        if self._is_stream and not self._is_complete and self._stopping.is_set():
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_for_end(self) -> Message:
        ends = asyncio.ensure_future(self._receive())
        stops = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({ends, stops}, return_when=asyncio.FIRST_COMPLETED)
            if not ends.done() and self._is_stream:
                return {"type": "http.disconnect"}
            return await ends
        finally:
            ends.cancel()
            stops.cancel()


def find_address(scope: Scope) -> str:
    """Return the address of the client; of IPv6 its network. Forwarded headers of trusted proxies are in the scope."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        address = ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, _NETWORK_BITS), strict=False))
    return str(address)


def _identify_credentials(scope: Scope) -> str | None:
    """Return a digest of token or session, valid or not. None: there is neither."""
    request = Request(scope)
    words = request.headers.get("authorization", "").split() or [request.cookies.get(SESSION_COOKIE, "")]
    return sha256(words[-1].encode()).hexdigest() if words[-1] else None


def _check_path(scope: Scope) -> None:
    """Refuse the character that no database stores. No id has it."""
    if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
        raise ApiProblem(HTTPStatus.BAD_REQUEST, "the address contains the character NUL")


def _refuse(scope: Scope, excess: Excess | None, detail: str) -> None:
    """Raise ApiProblem if a rate is exceeded. Only the first refusal of a minute is audited."""
    if excess is None:
        return
    scope["state"]["is_repeated"] = not excess.is_first
    seconds = max(ceil(excess.seconds), 1)
    status = HTTPStatus.TOO_MANY_REQUESTS
    raise ApiProblem(status, f"{detail}; try again in {seconds} s", headers={"Retry-After": str(seconds)})


def _describe_limit(most_bytes: int) -> str:
    return f"the body is larger than {most_bytes:,} bytes, which is the limit"
