"""Push stored runs to a server of evalspec, for `evalspec runs push` and `evalspec evaluate --push`.

The files are sent in chunks as they are stored. A push that was interrupted continues where it was, and a run that the
server has already is not sent again.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from msgspec import MsgspecError, Struct, convert, to_builtins
from msgspec.json import encode

from evalspec.base.errors import InvalidInput, Problem, ServiceError, Unmeasurable
from evalspec.base.text import one_line
from evalspec.inputs.manifest.redaction import hide_all
from evalspec.model.base import built
from evalspec.model.shards import refuse_shard
from evalspec.runs.runner.ci_variables import detect_ci_build
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.pushed_runs import PushedFile, list_pushed_files
from evalspec.runs.store.run_log import is_being_written
from evalspec.runs.store.stored_run import open_run
from evalspec.targets.http.client import OutgoingRequest, open_client, parse_body, read_whole, send
from evalspec.targets.http.error_body import is_transient
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.pacing import parse_retry_after, persist
from evalspec.targets.http.routes import choose_route, is_loopback

TOKEN_VARIABLE = "EVALSPEC_TOKEN"  # noqa: S105 - the name of a variable
_CREATE_TOKEN = "evalspec token create --user EMAIL --scope push --namespace NS"  # noqa: S105 - a command
_RETRIES = 6
_SECONDS = 60.0
_COMMIT_SECONDS = 900.0
"""The server checks the whole run."""
_PROBLEM_TYPE = "application/problem+json"
_OCTETS = (b"content-type", b"application/octet-stream")
_PRINTED = re.compile(r"[!-~]+")
_MOST_BEGINNINGS = 3
_MOST_REFUSALS = 3
"""How often the server may refuse a chunk at the offset that it asked for."""

Say = Callable[[str], object]


class PushServer(Struct, frozen=True):
    """Where to push to. `url`: without a slash at its end."""

    url: str
    token: str


class PushedRun(Struct, frozen=True):
    """A run that a server has. `is_new`: it was not there before. `page`: its address."""

    run_id: str
    page: str
    is_new: bool


class _Received(Struct):
    name: str
    size: int
    received: int


class _State(Struct):
    push_id: str
    is_stored: bool
    files: list[_Received]
    chunk_bytes: int


def choose_server(url: str | None, environment: Mapping[str, str], *, allow_http: bool = False) -> PushServer:
    """Return the server to push to, with the token of the environment.

    Raises:
        InvalidInput: The url is missing or not that of a server, the token is missing, or would be sent in plain text.
    """
    problems = []
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if not token:
        fix = f"set it to what `{_CREATE_TOKEN}` prints on the server"
        problems.append(Problem("not set", fix, field=TOKEN_VARIABLE))
    elif not _PRINTED.fullmatch(token):
        fix = "copy it again from the output of `evalspec token create`"
        problems.append(Problem("has characters that no token has", fix, field=TOKEN_VARIABLE))
    problem = _check_url(url, allow_http=allow_http)
    if problem is not None:
        problems.append(problem)
    if problems:
        raise InvalidInput(problems)
    return PushServer((url or "").rstrip("/"), token)


def _check_url(url: str | None, *, allow_http: bool) -> Problem | None:
    if not url:
        return Problem("there is no server to push to", "name one, like https://evals.example.com", field="--to")
    try:
        parts = urlsplit(url if _PRINTED.fullmatch(url) else "")  # urlsplit drops line breaks, and nothing else does
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query or parts.fragment:
        return Problem("not the url of a server", "write it like https://evals.example.com", field="--to")
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        message = f"http://{parts.netloc} is not encrypted, so others could read the token"
        return Problem(message, "use https; --allow-http permits it in a private network", field="--to")
    return None


def check_pushable(folder: Path) -> None:
    """Check that a run is finished and intact.

    Raises:
        InvalidInput: The run is not finished, or is being written.
        StoreError: The run is damaged.
    """
    stored = open_run(folder)
    refuse_shard(stored.id, stored.fingerprint, "pushed")
    if is_being_written(folder):
        raise InvalidInput(f"run {stored.id} is being written", "wait for its end, then push it")
    if not stored.report.is_file() or stored.read_index().report is None:
        fix = f"resume it: evalspec evaluate … --resume {stored.id}"
        raise InvalidInput(f"run {stored.id} is not finished", fix)
    refuse_damage(stored)


async def push_run(folder: Path, server: PushServer, say: Say) -> PushedRun:
    """Push a run, and return where the server shows it. `say`: is called with a line about each retry.

    Raises:
        InvalidInput: The run is not finished, or is being written.
        StoreError: The run is damaged.
        Unmeasurable: The server refused the run, or could not be reached in several attempts.
    """
    check_pushable(folder)
    files = list_pushed_files(folder)
    async with open_client({"authorization": f"Bearer {server.token}"}, choose_route(server.url)) as client:
        try:
            is_new = await _Pushing(client, server, say).push(folder, files)
        except ServiceError as error:
            raise Unmeasurable(f"run {folder.name} was not pushed: {error}") from error
    return PushedRun(folder.name, f"{server.url}/runs/{quote(folder.name)}", is_new)


def _announce(run_id: str, files: tuple[PushedFile, ...]) -> dict[str, Any]:
    ci = detect_ci_build(os.environ)
    named = {} if ci is None else {"ci": {name: getattr(ci, name) for name in ci.__struct_fields__}}
    return {"run_id": run_id, "files": to_builtins(files), **named}


def _refuse_other_files(asked: Sequence[_Received], announced: Sequence[PushedFile]) -> None:
    """Check that a server asks for the announced files: it could name any file of this machine.

    Raises:
        ServiceError: It asks for others.
    """
    if sorted((file.name, file.size) for file in asked) != sorted((file.name, file.size) for file in announced):
        raise ServiceError("the server asks for other files than those of the run; check --to")


class _Pushing:
    """The requests of one push."""

    def __init__(self, client: httpx.AsyncClient, server: PushServer, say: Say) -> None:
        self._client = client
        self._server = server
        self._say = say
        self._service = ServiceNames("the server", "--to", hide=hide_all([server.token]))

    async def push(self, folder: Path, files: tuple[PushedFile, ...]) -> bool:
        """Push a run unless the server has it, and return whether it was new.

        A push can vanish: another one of the same run was faster, or a server that was full made room.
        """
        for left in reversed(range(_MOST_BEGINNINGS)):
            state = await self._request("POST", "/v1/pushes", encode(_announce(folder.name, files)))
            if state.is_stored:
                return False
            _refuse_other_files(state.files, files)
            try:
                await self._send_files(folder, state)
                await self._commit(state.push_id)
                break
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND or not left:
                    raise
        return True

    async def _send_files(self, folder: Path, state: _State) -> None:
        """Send what the server does not have yet."""
        for file in state.files:
            with (folder / file.name).open("rb") as content:
                refusals = 0
                while file.received < file.size:
                    content.seek(file.received)
                    chunk = content.read(min(max(state.chunk_bytes, 0), file.size - file.received))
                    received = await self._send_chunk(state.push_id, file, chunk)
                    refusals = 0 if received > file.received else refusals + 1
                    if not chunk or refusals > _MOST_REFUSALS:
                        raise ServiceError(f"{file.name} changed while it was pushed, or another push sends it too")
                    file.received = received

    async def _commit(self, push_id: str) -> None:
        """Have the server store what was sent.

        Raises:
            ServiceError: It did not.
        """
        state = await self._request("POST", f"/v1/pushes/{push_id}/commit", seconds=_COMMIT_SECONDS)
        if not state.is_stored:
            raise ServiceError("the server did not store it; check --to")

    async def _send_chunk(self, push_id: str, file: _Received, chunk: bytes) -> int:
        """Send a chunk, and return how many bytes of the file the server has."""
        place = f"/v1/pushes/{push_id}/files/{file.name}?offset={file.received}"
        state = await self._request("PUT", place, chunk, is_json=False)
        return next((one.received for one in state.files if one.name == file.name), 0)

    async def _request(
        self, method: str, place: str, content: bytes = b"", *, is_json: bool = True, seconds: float = _SECONDS
    ) -> _State:
        """Send a request, also several times if the server is busy or gone, and return the state of the push."""
        url = f"{self._server.url}{place}"
        headers = () if is_json else (_OCTETS,)
        sent = OutgoingRequest(url, seconds, content, method, headers)

        async def attempt() -> _State:
            async with send(self._client, sent, self._service) as response:
                body = await read_whole(response)
            if not response.is_success:
                raise self._explain(response, body)
            try:
                return convert(parse_body(body, url, self._service), built(_State))
            except (MsgspecError, ServiceError) as error:
                raise ServiceError(f"{self._server.url} does not answer as a server of evalspec; check --to") from error

        return await persist(attempt, _RETRIES, self._say_retry)

    def _explain(self, response: httpx.Response, body: bytes) -> ServiceError:
        """Return the error of a response, in the words of the server if it has any."""
        status = response.status_code
        said = f"{self._server.url} answered {status} {response.reason_phrase}; is a server of evalspec there?"
        if response.headers.get("content-type", "").startswith(_PROBLEM_TYPE):
            with suppress(ServiceError, TypeError, KeyError):
                said = str(parse_body(body, "", self._service)["detail"])
        detail = one_line(self._service.hide(said))
        if status == HTTPStatus.UNAUTHORIZED:
            detail = f"the token in EVALSPEC_TOKEN is not valid on {self._server.url}: unknown, expired or revoked"
        if "X-Namespace" in detail:
            detail = "the token is valid for several namespaces; push with a token of one"
        retry_after = parse_retry_after(response.headers.get("retry-after"))
        return ServiceError(detail, retryable=is_transient(status), retry_after=retry_after, status=status)

    def _say_retry(self, error: ServiceError, seconds: float) -> None:
        self._say(f"{error}; trying again in {seconds:.0f} s")
