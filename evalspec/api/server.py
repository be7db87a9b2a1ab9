"""A server of evalspec, as its clients see it: its address, the token for it, and requests."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from msgspec import MsgspecError, Struct, convert

from evalspec.base.errors import EvalspecError, InvalidInput, Problem, ServiceError, Unmeasurable
from evalspec.base.foreign_text import cut, inert
from evalspec.base.text import one_line
from evalspec.inputs.manifest.redaction import hide_all
from evalspec.model.base import built
from evalspec.targets.http.client import MAX_REPLY_BYTES, OutgoingRequest, open_client, parse_body, read_whole, send
from evalspec.targets.http.error_body import is_transient
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.pacing import parse_retry_after, persist
from evalspec.targets.http.routes import choose_route, is_loopback

TOKEN_VARIABLE = "EVALSPEC_TOKEN"  # noqa: S105 - the name of a variable
REFUSED = (400, 401, 403)
"""The statuses of a token that does not fit."""
_RETRIES = 6
_LONGEST_DETAIL = 1_000
"""Characters of a server's explanation in a message."""
_SECONDS = 60.0
_PROBLEM_TYPE = "application/problem+json"
_OCTETS = (b"content-type", b"application/octet-stream")
_PRINTED = re.compile(r"[!-~]+")
_LIKE = "like https://evals.example.com"

Say = Callable[[str], object]
Answer = TypeVar("Answer")


class PushServer(Struct, frozen=True):
    """A server with a token. `url`: without the path of the API, `/v1`. `scope`: what the token has to permit."""

    url: str
    token: str
    scope: str = "push"

    @property
    def token_fix(self) -> str:
        """How to get a token."""
        command = f"evalspec token create --user EMAIL --scope {self.scope} --namespace NS"
        return f"set it to what `{command}` prints on the server"

    def explain(self, what: str, error: ServiceError) -> EvalspecError:
        """Return the error of something that the server did not do. `what`: that it was not done."""
        if error.status in REFUSED:
            return InvalidInput(Problem(inert(f"{what}: {error}"), self.token_fix, field=TOKEN_VARIABLE))
        return Unmeasurable(inert(f"{what}: {error}"))


def choose_server(
    url: str | None, environment: Mapping[str, str], scope: str = "push", what: str = "", *, allow_http: bool = False
) -> PushServer:
    """Return the server, with the token of the environment. `scope`: what the token has to permit.

    `what`: what the server is for, as in ` for baseline server:main`.

    Raises:
        InvalidInput: The url is missing or not that of a server, the token is missing, or would be sent in plain text.
    """
    problems = []
    address = re.sub(r"(?<=[^/])/v1$", "", (url or "").rstrip("/"))
    server = PushServer(address, environment.get(TOKEN_VARIABLE, "").strip(), scope)
    if not server.token:
        problems.append(Problem("not set", server.token_fix, field=TOKEN_VARIABLE))
    elif not _PRINTED.fullmatch(server.token):
        fix = "copy it again from the output of `evalspec token create`"
        problems.append(Problem("has characters that no token has", fix, field=TOKEN_VARIABLE))
    problem = _check_url(url, what, allow_http=allow_http)
    if problem is not None:
        problems.append(problem)
    if problems:
        raise InvalidInput(problems)
    return server


def _check_url(url: str | None, what: str, *, allow_http: bool) -> Problem | None:
    if not url:
        return Problem(f"there is no server{what}", f"name one, {_LIKE}, or set EVALSPEC_TO", field="--to")
    try:
        parts = urlsplit(url if _PRINTED.fullmatch(url) else "")  # urlsplit drops line breaks, and nothing else does
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query or parts.fragment:
        return Problem("not the url of a server", f"write it {_LIKE}", field="--to")
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        message = f"http://{parts.netloc} is not encrypted, so others could read the token"
        return Problem(message, "use https; --allow-http permits it in a private network", field="--to")
    return None


@asynccontextmanager
async def open_server(server: PushServer, say: Say) -> AsyncIterator["ServerCalls"]:
    """Yield the calls of a server. `say`: is called with a line about each retry."""
    async with open_client({"authorization": f"Bearer {server.token}"}, choose_route(server.url)) as client:
        yield ServerCalls(client, server, say)


class ServerCalls:
    """Requests to one server. Their paths begin with a slash."""

    def __init__(self, client: httpx.AsyncClient, server: PushServer, say: Say) -> None:
        self._client = client
        self._server = server
        self._say = say
        self._service = ServiceNames("the server", "--to", hide=hide_all([server.token]))

    async def request(
        self, method: str, place: str, kind: type[Answer], content: bytes = b"", **settings: Any
    ) -> Answer:
        """Return what the server answers. `settings`: other arguments of `fetch`.

        Raises:
            ServiceError: As of `fetch`, or the answer is not of this kind.
        """
        body = await self.fetch(method, place, content, **settings)
        url = f"{self._server.url}{place}"
        try:
            return convert(parse_body(body, url, self._service), built(kind))
        except (MsgspecError, ServiceError, RecursionError) as error:
            raise ServiceError(f"{self._server.url} does not answer as a server of evalspec; check --to") from error

    async def fetch(
        self,
        method: str,
        place: str,
        content: bytes = b"",
        *,
        is_json: bool = True,
        seconds: float = _SECONDS,
        retries: int = _RETRIES,
        most: int = MAX_REPLY_BYTES,
    ) -> bytes:
        """Return the body of an answer, after several attempts if the server is busy or does not answer.

        `is_json`: whether `content` is JSON. `most`: size of the largest answer in bytes.

        Raises:
            ServiceError: The server refuses the request, or does not answer.
        """
        sent = OutgoingRequest(f"{self._server.url}{place}", seconds, content, method, () if is_json else (_OCTETS,))

        async def attempt() -> bytes:
            async with send(self._client, sent, self._service) as response:
                body = await read_whole(response, most)
            if not response.is_success:
                raise self._explain(response, body)
            return body

        return await persist(attempt, retries, self._say_retry)

    def _explain(self, response: httpx.Response, body: bytes) -> ServiceError:
        """Return the error of a response, in the words of the server if it has any."""
        status = response.status_code
        said = f"{self._server.url} answered {status} {response.reason_phrase}; is a server of evalspec there?"
        if response.headers.get("content-type", "").startswith(_PROBLEM_TYPE):
            with suppress(ServiceError, TypeError, KeyError):
                said = str(parse_body(body, "", self._service)["detail"])
        detail = cut(one_line(self._service.hide(said)), _LONGEST_DETAIL)
        if status == HTTPStatus.UNAUTHORIZED:
            detail = f"the token in EVALSPEC_TOKEN is not valid on {self._server.url}: unknown, expired or revoked"
        if "X-Namespace" in detail:
            detail = "the token is valid for several namespaces; use a token of one"
        retry_after = parse_retry_after(response.headers.get("retry-after"))
        return ServiceError(detail, retryable=is_transient(status), retry_after=retry_after, status=status)

    def _say_retry(self, error: ServiceError, seconds: float) -> None:
        self._say(f"{error}; trying again in {seconds:.0f} s")
