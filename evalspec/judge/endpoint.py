"""One OpenAI-compatible URL: JSON out, JSON in, one attempt a call, errors in one line that says what to check."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from evalspec import __version__
from evalspec.errors import AgentError, JudgeError
from evalspec.json_http.connection import read_beginning, read_limited
from evalspec.json_http.hosts import HOOKS
from evalspec.json_http.routes import find_route
from evalspec.judge.excerpts import Redactor
from evalspec.judge.http_errors import explain_failure, explain_status
from evalspec.judge.place import ServicePlace

MAX_ANSWER_BYTES = 8 * 1_048_576
_MIN_SILENT_REQUESTS = 10
"""Requests in a row without any response after which the service counts as down; more where more run at once."""


class Endpoint:
    """Sends at most `concurrency` requests at a time, over as many connections.

    After an error that every further request would meet too (a refused key, no such url, a service that is down),
    further requests fail at once with the same line. A wait that the service asks for holds all requests back.
    """

    def __init__(self, place: ServicePlace, api_key: str | None, timeout: float, concurrency: int) -> None:
        self.place = place
        self.redact = Redactor(api_key)
        self._timeout = timeout
        self._slots = asyncio.Semaphore(concurrency)
        self._max_silent = max(_MIN_SILENT_REQUESTS, 2 * concurrency)
        self._silent = 0
        self._broken: str | None = None
        self._resume_at = 0.0
        route = find_route(place.url)
        self._client = httpx.AsyncClient(
            headers=_headers(api_key),
            verify=route.ssl_context,
            proxy=route.proxy,
            trust_env=False,
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            timeout=timeout,
            follow_redirects=False,
            event_hooks=HOOKS,
        )

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the service answers.

        Raises:
            JudgeError: anything else; it says whether another attempt may help, and whether it is worth any.
        """
        content = json.dumps(body).encode()
        async with self._slots:
            await self._pause()
            if self._broken is not None:
                raise JudgeError(self._broken, fatal=True)
            try:
                return await self._exchange(content)
            except JudgeError as error:
                self._learn_from(error)
                raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _exchange(self, content: bytes) -> dict[str, Any]:
        try:
            # httpx limits each read; this limits the whole, so that an answer in drops ends too.
            async with asyncio.timeout(self._timeout):
                return await self._send(content)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            self._silent += 1
            # Without the cause: h11 quotes the header that it refuses.
            raise explain_failure(error, self.place, self._timeout) from None

    async def _send(self, content: bytes) -> dict[str, Any]:
        async with self._client.stream("POST", self.place.url, content=content) as response:
            self._silent = 0
            if not response.is_success:
                raise explain_status(response, self.redact(await read_beginning(response)), self.place)
            raw = await self._read(response)
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            said = self.redact.excerpt(raw.decode(errors="replace"))
            raise JudgeError(
                f"{self.place} did not answer with a JSON object but {said}; check {self.place.setting}.baseUrl",
                retryable=True,
            )
        return answer

    async def _read(self, response: httpx.Response) -> bytes:
        try:
            return b"".join([chunk async for chunk in read_limited(response, MAX_ANSWER_BYTES)])
        except AgentError as error:
            raise JudgeError(f"{self.place}: {error}") from None

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self._resume_at - loop.time()) > 0:
            await asyncio.sleep(left)

    def _learn_from(self, error: JudgeError) -> None:
        if error.fatal:
            self._broken = str(error)
        elif self._silent >= self._max_silent:
            self._broken = f"{error}; no answer to {self._silent} requests in a row, so no more are sent"
        if error.retryable and error.retry_after is not None:
            now = asyncio.get_running_loop().time()
            self._resume_at = max(self._resume_at, now + error.retry_after)


def _headers(api_key: str | None) -> list[tuple[bytes, bytes]]:
    """As bytes, because httpx would refuse text outside ASCII. The line end of a secret's file is no part of it."""
    headers = [(b"content-type", b"application/json"), (b"user-agent", f"evalspec/{__version__}".encode())]
    key = (api_key or "").strip()
    return [*headers, (b"authorization", f"Bearer {key}".encode())] if key else headers
