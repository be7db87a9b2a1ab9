"""The credentials of one service: a fixed key, a token that is renewed before it expires, or a client certificate.

This is no `httpx.Auth`: there, getting a token would count as latency of the agent, and share its timeout and its
connection, and a request that is sent again after a 401 would not be counted.
"""

import asyncio
import json
import math
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from threading import Event, Thread, Timer
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from evalspec.base.errors import InvalidInput, Problem, ServiceError
from evalspec.base.text import decode_reply
from evalspec.base.trust import Act, require, require_file
from evalspec.inputs.manifest.auth_schema import AuthConfig, CertificateConfig, OAuth2Config
from evalspec.inputs.manifest.redaction import hide_all
from evalspec.targets.http.keys import KeyPlace, build_bearer, forget

if TYPE_CHECKING:
    from ssl import SSLContext

    from evalspec.targets.http.routes import Route

T = TypeVar("T")

_LONGEST_SECONDS = 60.0
_MOST_PRINTED = 64 * 1024
_REST_SECONDS = 1.0
"""To read what an ended command has printed, which is at most what a pipe holds."""
_MARGIN_SECONDS = 60.0
"""A token is renewed so long before it expires, or at half of its time if that is later."""
_RETRIES = 2
"""Of a request for a token."""
_REQUEST_SECONDS = 30.0
"""For all attempts to get a token from an endpoint."""
_YEAR_SECONDS = 366 * 86_400.0
_FORMS = 'one line with the token, or {"token": "…", "expiresAt": "2026-01-31T12:00:00Z"}'
_SEE_WHY = "run it in a terminal to see why"


async def _count_nothing() -> None:
    """Do nothing."""


class _Token(NamedTuple):
    """`renew_at`: seconds since the epoch; infinite if nobody says when it expires."""

    key: str
    renew_at: float


class Credentials:
    """The credentials of one service. Requests that need a new token at the same time share one renewal."""

    def __init__(
        self,
        auth: AuthConfig | None,
        setting: str,
        place: KeyPlace | None = None,
        *,
        key: str = "",
        build: Callable[[str], Mapping[str, str]] = build_bearer,
        learn: Callable[[str], None] = forget,
        timeout: float = _REQUEST_SECONDS,
    ) -> None:
        """`setting`: the section of `auth`. `key`: sent without a token. `build`: returns the headers of a key.

        `learn`: called with each token, and with what is sent to get it, before it is used. `timeout`: of a request to
        the service, in seconds. To get a token from an endpoint may take as long, but no longer than 30 s.

        Raises:
            InvalidInput: the environment has an unusable proxy or certificates for the token endpoint.
        """
        self._auth = auth or AuthConfig.model_construct()
        self._field = f"{setting}.auth"
        self._place = place or KeyPlace()
        self._learn = learn
        self._timeout = min(timeout, _REQUEST_SECONDS)
        self._build = build
        self._turn = asyncio.Lock()
        self._token = _Token(key, float("inf"))
        self._broken: str | None = None
        self._fetch: Callable[[], Awaitable[_Token]] | None = None
        if self._auth.command is not None:
            command = self._auth.command
            self._fetch = lambda: self._print_token(command)
        elif self._auth.oauth2 is not None:
            oauth2, route = self._auth.oauth2, self.choose_route(self._auth.oauth2.token_url)
            self._build = build_bearer
            self._fetch = lambda: self._request_token(oauth2, route)
        if header := self._auth.header:
            self._build = lambda key: {header.lower(): key}

    def choose_route(self, url: str) -> "Route":
        """Return the route to a url, which offers the client certificate.

        Raises:
            InvalidInput: a certificate or the proxy is not usable.
        """
        from evalspec.targets.http.routes import choose_route

        certificate = self._auth.certificate
        return choose_route(url, (lambda tls: self._load(tls, certificate)) if certificate else None)

    async def send(
        self,
        exchange: Callable[[Mapping[str, str]], Awaitable[T]],
        count_again: Callable[[], Awaitable[None]] = _count_nothing,
    ) -> T:
        """Return the result of an exchange, which gets headers. It is repeated once if its token is rejected (401).

        `count_again`: awaited before the exchange is repeated.

        Raises:
            ServiceError: as raised by `exchange`, or there is no token.
            Refused: the project's commands are not trusted.
        """
        token = await self._get()
        try:
            return await exchange(self._build(token) if token else {})
        except ServiceError as error:
            if error.status != HTTPStatus.UNAUTHORIZED or self._fetch is None:
                raise
            renewed = await self._get(rejected=token)
            if renewed == token:
                raise
        await count_again()
        return await exchange(self._build(renewed))

    async def _get(self, rejected: str | None = None) -> str:
        """Return the token; empty if there is none. `rejected`: one that the service no longer accepts."""
        async with self._turn:
            token = self._token
            if self._fetch and (not token.key or token.key == rejected or time() >= token.renew_at):
                self._token = token = await self._renew(self._fetch)
            return token.key

    async def _renew(self, fetch: Callable[[], Awaitable[_Token]]) -> _Token:
        """Return a new token. After a failure, no further one is tried, because every request would wait for it."""
        if self._broken is not None:
            raise ServiceError(self._broken, fatal=True)
        try:
            token = await fetch()
        except ServiceError as error:
            self._broken = str(error)
            raise
        self._hide_from_now(token.key)
        return token

    def _hide_from_now(self, *keys: str) -> None:
        for key in keys:
            self._learn(key)
            self._place.learn(key)

    def _load(self, tls: "SSLContext", certificate: CertificateConfig) -> None:
        from ssl import SSLError

        cert, key = self._place.folder / certificate.cert, self._place.folder / (certificate.key or certificate.cert)
        for file in (cert, key):
            require_file(file)
        try:
            # Without a password, OpenSSL would ask for one in the terminal.
            tls.load_cert_chain(cert, key, certificate.password or "")
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, SSLError) else getattr(error, "strerror", None)
            message = f"the client certificate cannot be loaded: {reason or 'wrong password, or no PEM file'}"
            fix = "check cert, key and password; cert and key are PEM files"
            raise InvalidInput(Problem(message, fix, field=f"{self._field}.certificate")) from None

    async def _request_token(self, config: OAuth2Config, route: "Route") -> _Token:
        from urllib.parse import quote

        from evalspec.targets.http.client import (
            OutgoingRequest,
            encode_headers,
            open_client,
            read_whole,
            refuse_status,
            send,
        )
        from evalspec.targets.http.error_body import find_error
        from evalspec.targets.http.failures import ServiceNames, shown_url
        from evalspec.targets.http.pacing import persist

        secret = (config.client_secret or "").strip()
        encoded = quote(secret, safe="")
        pair = f"{quote(config.client_id, safe='')}:{encoded}"
        if secret:
            self._hide_from_now(encoded, pair)
        service = ServiceNames(
            "the token endpoint",
            f"{self._field}.oauth2",
            request_keys="clientId, scope and audience",
            credentials_key="clientId and clientSecret",
            place_key="tokenUrl",
            hide=hide_all([secret, encoded, pair]),
        )
        content, headers = _build_grant(config, secret, pair)
        # The limit of a single attempt comes after that of all, whose message names the settings that exist.
        request = OutgoingRequest(config.token_url, 2 * self._timeout, content, headers=encode_headers(headers))

        async with open_client({}, route) as client:

            async def attempt() -> bytes:
                async with send(client, request, service) as response:
                    await refuse_status(response, service)
                    return await read_whole(response, _MOST_PRINTED)

            try:
                async with asyncio.timeout(self._timeout):
                    raw = await persist(attempt, _RETRIES)
            except TimeoutError:
                limit = f"{self._timeout:g} s (timeoutSeconds, at most {_REQUEST_SECONDS:g} s)"
                message = f"there is no token: {shown_url(config.token_url)} gave none within {limit}"
                raise ServiceError(message, fatal=True) from None
            except ServiceError as error:
                raise ServiceError(f"there is no token: {error}", fatal=True) from None
        reply = _parse_object(raw)
        if not _is_token(reply.get("access_token")):  # the reply is not quoted, because it may have a token
            said = f"answered {service.excerpt(str(find_error(reply)))}" if "error" in reply else "sent no access_token"
            where = f"{shown_url(config.token_url)} {said}"
            raise ServiceError(f"there is no token: {where}; check {self._field}.oauth2", fatal=True)
        return _make_token(str(reply["access_token"]), time() + _read_lifetime(reply.get("expires_in")))

    async def _print_token(self, command: list[str]) -> _Token:
        require(Act.PRINT_KEY, shlex.join(command))
        text = decode_reply(await self._run(command)).strip()
        fields = _parse_object(text.encode()) if text.startswith("{") else {"token": text}
        key, expires = fields.get("token"), fields.get("expiresAt")
        if not _is_token(key):
            raise self._fail(f"printed no key; print {_FORMS}")
        lasts = self._auth.expires_in_seconds or float("inf")
        end = time() + lasts if expires is None else self._parse_time(expires)
        if end <= time():
            raise self._fail("printed a key that has expired; check the clock of this machine")
        return _make_token(str(key), end)

    async def _run(self, command: list[str]) -> bytes:
        """Return what the command prints. Its errors are not shown, because they may contain credentials."""
        from evalspec.targets.process import NEW_GROUP, kill_group

        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                cwd=self._place.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a read returns what is there
                **NEW_GROUP,
            )
        except FileNotFoundError:
            fix = "a relative path starts at the folder of the manifest"
            raise self._fail(f"cannot be started: the program '{command[0]}' was not found; {fix}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it has a forbidden character"
            raise self._fail(f"cannot be started: {reason}; write a program and its arguments as a list") from None
        is_late = Event()

        def stop() -> None:
            is_late.set()
            kill_group(process)

        timer = Timer(_LONGEST_SECONDS, stop)
        timer.start()
        try:
            printed = await asyncio.to_thread(_read_output, process)
        except asyncio.CancelledError:
            kill_group(process)
            raise
        finally:
            timer.cancel()
        if is_late.is_set():
            raise self._fail(f"printed no key within {_LONGEST_SECONDS:g} s; {_SEE_WHY}")
        if len(printed) > _MOST_PRINTED:
            raise self._fail(f"printed more than {_MOST_PRINTED // 1024} KiB; print {_FORMS}")
        if process.returncode != 0:
            raise self._fail(f"ended with status {process.returncode}; {_SEE_WHY}")
        return printed

    def _parse_time(self, text: object) -> float:
        with suppress(ValueError, TypeError):
            moment = datetime.fromisoformat(str(text))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        raise self._fail(f"printed an expiresAt that is no time; print {_FORMS}")

    def _fail(self, message: str) -> ServiceError:
        return ServiceError(f"the command in {self._field}.command {message}", fatal=True)


def _build_grant(config: OAuth2Config, secret: str, pair: str) -> tuple[bytes, Mapping[str, str]]:
    """Return body and headers of a request for a token. `pair`: id and secret, encoded for Basic authentication."""
    from base64 import b64encode
    from urllib.parse import urlencode

    form = {"grant_type": "client_credentials", "scope": config.scope, "audience": config.audience}
    headers = {"content-type": "application/x-www-form-urlencoded"}
    if secret and config.send_in == "header":
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": config.client_id, "client_secret": secret}
    return urlencode({key: text for key, text in form.items() if text}).encode(), headers


def _parse_object(raw: bytes) -> dict[str, object]:
    """Return a JSON object; an empty one if the text is none."""
    with suppress(ValueError, RecursionError):
        value = json.loads(raw)
        return value if isinstance(value, dict) else {}
    return {}


def _is_token(key: object) -> bool:
    return isinstance(key, str) and len(key.split()) == 1 and key.isascii() and key.isprintable()


def _read_lifetime(seconds: object) -> float:
    """Return for how many seconds a token lasts, by its endpoint. A token of none or less serves once.

    Infinite, which is until a 401, if the endpoint does not say so, or names more than a year.
    """
    with suppress(ValueError, OverflowError):
        lasts = float(seconds) if isinstance(seconds, int | float | str) and not isinstance(seconds, bool) else math.nan
        return lasts if lasts <= _YEAR_SECONDS else math.inf
    return math.inf


def _make_token(key: str, end: float) -> _Token:
    """Return a token that is renewed in time. `end`: when it expires, in seconds since the epoch."""
    return _Token(key.strip(), max(end - _MARGIN_SECONDS, (time() + end) / 2))


def _read_output(process: "subprocess.Popen[bytes]") -> bytes:
    """Return what a process prints until its end, or a byte more than it may, after which it is killed.

    What it has started is killed at its end, and its output is not waited for, whoever else may still write to it.
    """
    from evalspec.targets.process import kill_group

    printed = bytearray()

    def read() -> None:
        with process.stdout or BytesIO() as output:
            while len(printed) <= _MOST_PRINTED and (more := output.read(_MOST_PRINTED)):
                printed.extend(more)
        if len(printed) > _MOST_PRINTED:
            kill_group(process)

    reader = Thread(target=read, daemon=True)
    reader.start()
    process.wait()
    kill_group(process)
    reader.join(_REST_SECONDS)
    return bytes(printed)
