"""One url of a judge or an embedding model: sends a JSON object and returns one. Each call is one attempt."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from evalspec.base.errors import JudgeError, ServiceError
from evalspec.base.json_path import type_name
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, ModelConfig
from evalspec.inputs.manifest.redaction import Redaction
from evalspec.inputs.usage import read_usage
from evalspec.scoring.judge.refusals import lacks_model
from evalspec.scoring.judge.wire import JudgeWire
from evalspec.targets.http.client import (
    MAX_REPLY_BYTES,
    Connections,
    OutgoingRequest,
    encode_headers,
    explain_given_status,
    open_client,
    parse_body,
    read_whole,
    refuse_status,
    send,
)
from evalspec.targets.http.credentials import Credentials
from evalspec.targets.http.error_body import find_message
from evalspec.targets.http.failures import ServiceNames, shown_url
from evalspec.targets.http.keys import KeyPlace, build_bearer
from evalspec.targets.http.pace import Pace
from evalspec.targets.http.pacing import AdaptiveLimit

_DEPLOYMENTS = "/openai/deployments/"
_BYTES_PER_TOKEN = 3
"""Estimates the tokens of a request and its answer, before the reply counts them. English has four bytes a token."""
_FILE_BYTES = 256 * 1_048_576
_FILE_SECONDS = 600.0
_MIN_SILENT_REQUESTS = 10
"""Requests without any response in a row after which the service counts as down; more with a high concurrency."""


async def _count_nothing() -> None:
    """Do nothing."""


class Endpoint:
    """A service that gets at most `concurrency` requests at a time, and fewer if it is overloaded.

    After an error that applies to every request (a rejected key, an unknown url, a service that is down), further
    requests fail immediately with the same message. If the service requests a wait, all requests wait.
    `clock_skew`: seconds that this machine's clock is ahead of the service's, by its last reply; None: unknown.
    """

    def __init__(
        self,
        name: str,
        setting: str,
        wire: JudgeWire | str,
        config: ModelConfig | EmbeddingsConfig,
        concurrency: int,
        keys: KeyPlace | None = None,
        pace: Pace | None = None,
        limit: AdaptiveLimit | None = None,
    ) -> None:
        """`name`: the service in messages. `setting`: its section of the manifest. `wire`: or its path alone.

        Raises:
            JudgeError: the base url is not usable.
        """
        path, headers, build_key = _read_wire(wire)
        self._secrets = Redaction()
        self._configured = {header.lower(): text.strip() for header, text in config.headers.items()}
        for text in self._configured.values():
            self._hide(text)
        key = (config.api_key or "").strip()
        self._hide(key)

        def build(token: str) -> Mapping[str, str]:
            return {name: text for name, text in build_key(token).items() if name not in self._configured}

        self._credentials = Credentials(
            config.auth, setting, keys, key=key, build=build, learn=self._hide, timeout=config.timeout_seconds
        )
        self.service = ServiceNames(
            name,
            setting,
            request_keys="",
            credentials_key=_name_credentials(config),
            place_key="baseUrl and model",
            hide=self._secrets.blank,
        )
        self._model = config.model
        self._path = path
        self._base_url = config.base_url
        self._url = _find_url(setting, config.base_url, path)
        self._timeout = config.timeout_seconds
        self._limit = limit or AdaptiveLimit(concurrency)
        self._pace = pace or Pace()
        self._max_silent = max(_MIN_SILENT_REQUESTS, 2 * concurrency)
        self._silent = 0
        self.clock_skew: float | None = None
        self._broken: str | None = None
        route = self._credentials.choose_route(self._url)
        self._connections = Connections(lambda: open_client({**headers, **self._configured}, route))

    def __str__(self) -> str:
        """Return `the judge at https://host/path`, without parts of the url that may be secret."""
        return f"{self.service.name} at {shown_url(self._url)}"

    async def post(
        self,
        body: Mapping[str, Any],
        check: Callable[[], None] = lambda: None,
        count_again: Callable[[], Awaitable[None]] = _count_nothing,
    ) -> dict[str, Any]:
        """Return the JSON object of the service's reply.

        `check`: called just before the request is sent, which may be long after the call. It raises what then applies.
        `count_again`: awaited before the request is sent again, because its key was rejected and is renewed.

        Raises:
            JudgeError: there is no such reply. The error says whether to retry, and whether all requests will fail.
        """
        content = json.dumps(body).encode()
        return await self._limit.run(lambda: self._attempt(content, check, count_again))

    async def fetch(self, path: str, content: bytes | None = None, content_type: str = "application/json") -> bytes:
        """Return the body of a reply from another path of the service: to GET, or to POST with content.

        Raises:
            JudgeError: there is no reply with status 2xx.
        """
        url = _find_url(self.service.setting, self._base_url, path)
        method, headers = ("GET" if content is None else "POST"), encode_headers({"content-type": content_type})
        request = OutgoingRequest(url, max(self._timeout, _FILE_SECONDS), content, method, headers)
        try:
            return await self._limit.run(lambda: self._exchange_with_key(request, _FILE_BYTES))
        except ServiceError as error:
            raise error.named(JudgeError, self.service.name) from None

    def parse(self, raw: bytes) -> dict[str, Any]:
        """Return the JSON object of a body.

        Raises:
            JudgeError: it is none.
        """
        try:
            return _parse_object(raw, self._url, self.service)
        except ServiceError as error:
            raise error.named(JudgeError, self.service.name) from None

    def explain_status(self, status: int, body: str) -> JudgeError:
        """Return the error for an answer of the model with another status than 2xx that is in a batch's results."""
        error = explain_given_status(self._url, status, body, self.service)
        return self._explain_missing_model(error) or error.named(JudgeError, self.service.name)

    def count_successes(self) -> int:
        """Return the number of requests that the service answered."""
        return self._limit.successes

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _attempt(
        self, content: bytes, check: Callable[[], None], count_again: Callable[[], Awaitable[None]]
    ) -> dict[str, Any]:
        if self._broken is not None:
            raise JudgeError(self._broken, fatal=True)
        spending = await self._pace.take(len(content) // _BYTES_PER_TOKEN)
        check()
        try:
            request = OutgoingRequest(self._url, self._timeout, content)
            raw = await self._exchange_with_key(request, count_again=count_again)
            reply = _parse_object(raw, self._url, self.service)
        except JudgeError:
            raise  # by count_again
        except ServiceError as error:
            named = self._explain_missing_model(error) or error.named(JudgeError, self.service.name)
            if named.fatal:
                self._broken = str(named)
            elif self._silent >= self._max_silent:
                self._broken = f"{named}; no answer to {self._silent} requests in a row, so no more are sent"
            raise named from None
        usage = read_usage(reply.get("usage"))
        if usage is not None:
            self._pace.correct(spending, usage.total)
        return reply

    def _explain_missing_model(self, error: ServiceError) -> JudgeError | None:
        """Return the error of an endpoint that lacks the model, with how to choose another; None for another error."""
        if self._model is None or not lacks_model(error, self._model):
            return None
        setting, said = self.service.setting, self.service.excerpt(find_message(error.reply))
        models = shown_url(f"{self._url.partition('?')[0].removesuffix(self._path)}models")
        if _DEPLOYMENTS in models:
            way_on = f"name one of your deployments in {setting}.baseUrl, as in …/openai/deployments/NAME"
        else:
            way_on = f"set {setting}.model to one that GET {models} lists (on Azure, to the name of a deployment)"
        shown = self.service.excerpt(self._model)
        message = f"{self} has no model {shown}; {way_on}; the reply says {said}"
        return JudgeError(message, fatal=True, status=error.status)

    async def _exchange_with_key(
        self,
        request: OutgoingRequest,
        most: int = MAX_REPLY_BYTES,
        count_again: Callable[[], Awaitable[None]] = _count_nothing,
    ) -> bytes:
        """Return the reply. A token that was rejected is renewed once."""
        return await self._credentials.send(lambda own: self._exchange(request, own, most), count_again)

    def _hide(self, secret: str) -> None:
        for number, text in enumerate((secret, secret.partition(" ")[2])):
            self._secrets.add(f"{len(self._secrets.names)}-{number}", text)

    async def _exchange(self, request: OutgoingRequest, own: Mapping[str, str], most: int) -> bytes:
        is_silent = True
        request = replace(request, headers=[*request.headers, *encode_headers(own)])
        try:
            async with (
                self._connections.take() as client,
                send(client, request, self.service) as response,
            ):
                is_silent, self._silent = False, 0
                self._pace.learn(response.headers)
                self.clock_skew = _read_skew(response.headers.get("date"))
                await refuse_status(response, self.service)
                return await read_whole(response, most)
        except ServiceError:
            self._silent += is_silent
            raise


def _read_skew(date: str | None) -> float | None:
    """Return the seconds that this machine's clock is ahead of a Date header; None without a usable one."""
    with suppress(ValueError, TypeError):  # TypeError: the time has no zone
        return (datetime.now(UTC) - parsedate_to_datetime(date or "")).total_seconds()
    return None


def _read_wire(wire: JudgeWire | str) -> tuple[str, Mapping[str, str], Callable[[str], Mapping[str, str]]]:
    """Return a wire's path, its headers, and what builds those of a key."""
    return (wire, {}, build_bearer) if isinstance(wire, str) else (wire.path, wire.headers, wire.build_headers)


def _name_credentials(config: ModelConfig | EmbeddingsConfig) -> str:
    """Return the keys of the manifest that may hold the wrong credentials."""
    if config.auth is not None and config.auth.has_token:
        return "auth"
    if not config.headers:
        return "apiKey"
    return "apiKey and headers" if config.api_key else "headers"


def _parse_object(raw: bytes, url: str, service: ServiceNames) -> dict[str, Any]:
    """Return the JSON object of a body. Unlike an agent's, an unreadable reply is retried, because it is not graded.

    Raises:
        ServiceError: the body is not a JSON object.
    """
    try:
        value = parse_body(raw, url, service)
    except ServiceError as error:
        error.retryable = True
        raise
    if not isinstance(value, dict):
        message = f"the reply is {type_name(value)}, not a JSON object; check {service.setting}.baseUrl"
        raise ServiceError(message, retryable=True)
    return value


def _find_url(setting: str, base_url: str, path: str) -> str:
    """Return the base url with a path appended to its own. Its query (`?api-version=…`) is kept, with the path's."""
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise JudgeError(f"{setting}.baseUrl is not a url; write one like https://host/v1", fatal=True)
    path, _, query = path.partition("?")
    query = "&".join(filter(None, (parts.query, query)))
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}", query=query))
