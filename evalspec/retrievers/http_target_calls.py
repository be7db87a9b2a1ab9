"""One request of a retriever behind HTTP: filled from its templates, sent, and read to the last byte."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import httpx

from evalspec.errors import AgentError
from evalspec.json_http.connection import Connections, bound_waits, encode_headers, read_beginning, read_limited
from evalspec.json_http.failures import ServiceWords, explain_failure, explain_status
from evalspec.json_http.template import as_text, fill_json, fill_path, find_placeholders
from evalspec.manifest.retriever_schema import HttpCall, HttpSearch
from evalspec.retrievers.target_rules import name_call

Values = Mapping[str, Any]
"""The values of placeholders, by name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of a reply, and the ms from sending to its last byte."""

    body: bytes
    took_ms: float


class ServiceCall:
    """Sends one kind of request. `kind`: the manifest's key for it, which messages begin with."""

    def __init__(self, kind: str, call: HttpCall | HttpSearch, url: str, connections: Connections) -> None:
        self.words = ServiceWords("the retriever", kind)
        path = call.path or ""
        self.url = f"{url.rstrip('/')}/{path.lstrip('/')}"
        self.placeholders = frozenset(find_placeholders([path, call.request]))
        self._call = call
        self._headers = encode_headers({name.lower(): text for name, text in call.headers.items()})
        self._connections = connections

    @property
    def max_retries(self) -> int:
        """How often a call that can be repeated is."""
        return self._call.max_retries

    async def send(self, values: Values) -> Reply:
        """One attempt, bounded by `timeoutSeconds` from sending to the last byte.

        Raises:
            RetrieverError: no reply, or one whose status is not 2xx; it says whether another attempt may help.
        """
        with self.explained():
            url, content = self._build(values)
            timeout = self._call.timeout_seconds
            try:
                async with self._connections.take() as client, asyncio.timeout(timeout):
                    return await self._exchange(client, url, content)
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, OverflowError, ExceptionGroup) as error:
                # Without the cause: h11 quotes the header that it refuses. The last three are what a url can set off.
                raise explain_failure(error, url, timeout, self.words) from None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors of the wire, as those of this call."""
        try:
            yield
        except AgentError as error:
            raise name_call(self.words.setting, error) from None

    def _build(self, values: Values) -> tuple[str, bytes | None]:
        """The url and the body. What a GET has to say stands in its url."""
        url = fill_path(self.url, values.__getitem__)
        if self._call.request is None:
            return url, None
        request = fill_json(self._call.request, values.__getitem__)
        if self._call.method == "GET":
            query = urlencode({key: as_text(value) for key, value in request.items()})
            return (f"{url}{'&' if '?' in url else '?'}{query}" if query else url), None
        try:
            return url, json.dumps(request, allow_nan=False, default=str).encode()
        except ValueError as error:
            raise AgentError(f"the request cannot be written as JSON: {error}") from error

    async def _exchange(self, client: httpx.AsyncClient, url: str, content: bytes | None) -> Reply:
        waits = bound_waits(self._call.timeout_seconds)
        started = perf_counter()
        async with client.stream(
            self._call.method, url, content=content, headers=self._headers, timeout=waits
        ) as response:
            if not response.is_success:
                raise explain_status(response, await read_beginning(response), self.words)
            body = b"".join([chunk async for chunk in read_limited(response)])
            return Reply(body, (perf_counter() - started) * 1000)
